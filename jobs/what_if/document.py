"""Rehearsals as JSON for other programs: figures as numbers, unknown ones null, names as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from jobs.reading.stored import StoredGeneration
from jobs.what_if.deploy import Deploy
from jobs.what_if.figures import Answer, Loads, Span
from jobs.what_if.notes import notes_on
from jobs.what_if.rehearsal import Curve, Rehearsal, Subject
from jobs.what_if.steps import steps_to

Document = dict[str, Any]


def group_document(subject: Subject, rehearsals: Sequence[Rehearsal], deploy: Deploy | None, curve: Curve | None) -> Document:
    """Return what is known of a group and its scenarios."""
    stored = subject.stored
    document: Document = {
        "cluster_id": stored.key.cluster_id,
        "group_id": stored.key.group_id,
        "generation": stored.generation.generation,
        "observed_at": stored.observed_at.isoformat(),
        "empty_since": None if stored.empty_since is None else stored.empty_since.isoformat(),
        "ended_at": None if stored.ended_at is None else stored.ended_at.isoformat(),
        "strategy": stored.generation.strategy,
        "protocol": _protocol(stored),
        "weights_seen_at": None if subject.weights.seen_at is None else subject.weights.seen_at.isoformat(),
        "now": asdict(subject.now),
        "scenarios": [_scenario(subject, rehearsal) for rehearsal in rehearsals],
    }
    if deploy is not None:
        document["deploy"] = asdict(deploy)
    if curve is not None:
        counts = [{"members": count.members, **_scenario(subject, count.rehearsal)} for count in curve.counts]
        document["curve"] = {"divides_well": curve.divides_well, "counts": counts}
    return document


def _protocol(stored: StoredGeneration) -> str | None:
    """Return the protocol of a group; None if its source does not show it."""
    if not stored.is_protocol_known:
        return None
    return "consumer" if stored.is_consumer_protocol else "classic"


def _scenario(subject: Subject, rehearsal: Rehearsal) -> Document:
    return {
        "name": rehearsal.name,
        "cheapest": rehearsal.cheapest.strategy if rehearsal.cheapest is not None else None,
        "strategies": [_strategy(subject, rehearsal, answer) for answer in rehearsal.answers],
        "notes": list(notes_on(subject, rehearsal)),
    }


def _strategy(subject: Subject, rehearsal: Rehearsal, answer: Answer) -> Document:
    if answer.played is None:
        return {"strategy": answer.strategy, "refusal": answer.refusal}
    least = answer.played.expected.least
    return {
        "strategy": answer.strategy,
        "refusal": None,
        "kafka_version": answer.release,
        "loads": {name: _ends(answer, name) for name in Loads.__dataclass_fields__},
        "movement_count": asdict(answer.movements),
        "least_movement_count": least.count if least is not None else None,
        "is_lower_bound": not least.is_exact if least is not None else None,
        "stopped_count": asdict(answer.stopped),
        "round_count": asdict(answer.rounds),
        "tried": {"movement_count": asdict(answer.tried_movements), "stopped_count": asdict(answer.tried_stopped)},
        "steps": list(steps_to(subject.stored, rehearsal.changes, answer.strategy, subject.threads, subject.weights.partition_counts)),
    }


def _ends(answer: Answer, name: str) -> Document | None:
    span: Span[float] | None = answer.span(lambda loads: getattr(loads, name))
    return asdict(span) if span is not None else None
