"""Short notation for the facts of generations that triggers compare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from assignors import Topic
from assignors.audit.triggers import Evidence, Participant, Trigger, find_triggers

TOPICS = {"t": Topic(2, None, "id of t")}
BEGIN_MS = 1_795_000_000_000
"""Time of minute 0. It is as late as that of real records, so that a difference of times cannot pass as a time."""


def participant(
    name: str,
    topics: str = "t",
    *,
    instance: str | None = None,
    origin: tuple[str, str] | None = ("app", "/10.0.0.1"),
    rack: str | None = None,
) -> Participant:
    """Return a member that subscribes to topics of one letter each; all members have one origin by default."""
    owner = (False, name) if instance is None else (True, instance)
    return Participant(owner, name, origin, rack, frozenset(topics))


def evidence(generation: int, *members: Participant | str, minute: float = 0, **changes: Any) -> Evidence:
    """Return a generation of a range group that reads ``t``. Members given by name are dynamic."""
    listed = tuple(participant(one) if isinstance(one, str) else one for one in members)
    defaults = {
        "is_consumer_protocol": False, "is_conversion": False, "is_poll": False, "is_follow_up": False, "has_subscriptions": True,
        "strategy": "range" if listed else None, "topics": TOPICS,
    }  # fmt: skip
    return Evidence(generation, BEGIN_MS + round(minute * 60_000), participants=listed, **{**defaults, **changes})


def play(generations: Sequence[Evidence]) -> list[tuple[Trigger, ...] | None]:
    """Return the triggers of each generation of one incarnation."""
    found, past = [], None
    for one in generations:
        triggers, past = find_triggers(past, one)
        found.append(triggers)
    return found
