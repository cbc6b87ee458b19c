"""The plan for moving groups to the consumer protocol, as text for a terminal and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from jobs.pages.figures import counted
from jobs.runtime.locations import on_one_line
from jobs.what_if.changes import Changes
from jobs.what_if.document import Document
from jobs.what_if.figures import Loads
from jobs.what_if.migration import FleetPlan, Plan, Verdict
from jobs.what_if.steps import steps_to
from jobs.what_if.text import UNKNOWN, table_lines, whole_name
from schemas.vocabulary import DEFAULT_SERVER_STRATEGY

MOST_NAMED = 5
"""Names of groups that one sentence lists."""
MOST_EXPLAINED = 10
"""Groups whose reasons are printed in full; of more, only the table is."""

NOT_SHOWN = (
    "Patterns that clients subscribe to. With the consumer protocol brokers may evaluate them, by the syntax of RE2.",
    "Releases of clients. The library is that of the group's leader, as its bytes look.",
    "Groups of Kafka Connect. They stay classic.",
)
"""What nobody can read off the records, a sentence each."""

_HEAD = ("group", "strategy", "members", "partitions", "imbalance", "moves", "stops reading")
VERDICT_WORDS = {Verdict.READY: "ready", Verdict.LOSES: "ready with a loss", Verdict.BLOCKED: "blocked"}


def plan_lines(fleet: FleetPlan) -> Iterator[str]:
    """Yield the lines on a fleet: how many groups of each verdict, a line a group, what to do, and what is not known. Names are escaped.

    Args:
        fleet: with at least one plan.
    """
    plans = fleet.plans
    yield summary(fleet)
    if fleet.unplanned:
        yield unplanned_groups(fleet)
    yield ""
    lines = list(table_lines([_HEAD, *map(_cells, plans)]))
    verdicts = [f"{plan.verdict_text} (deleted)" if plan.is_deleted else plan.verdict_text for plan in plans]
    for line, verdict in zip(lines, ["verdict", *verdicts], strict=True):
        yield f"{line}  {verdict}"
    if len(plans) <= MOST_EXPLAINED:
        for plan in plans:
            yield ""
            yield on_one_line(f"{whole_name(plan.stored.key.group_id)}: {plan.verdict_text}")
            yield from (on_one_line(f"  {sentence}") for sentence in explanation(plan))
    else:
        yield ""
        yield "Name some of the groups to see their reasons, or use --output FILE.html or --json."
    steps = general_steps(plans)
    if steps:
        yield ""
        yield "to move a group:"
        yield from (f"  {number}. {step}" for number, step in enumerate(steps, 1))
    yield ""
    yield "not shown by records:"
    yield from (f"  {sentence}" for sentence in NOT_SHOWN)


def unplanned_groups(fleet: FleetPlan) -> str:
    """Return in one sentence which groups are not in the plan. Names are escaped."""
    names, is_one = [whole_name(key.group_id) for key in fleet.unplanned], len(fleet.unplanned) == 1
    listed = ", ".join(names[:MOST_NAMED]) + (f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else "")
    groups = "1 group is" if is_one else f"{len(names):,} groups are"
    return f"{groups} not in the plan, because no settled generation with members is stored: {listed}."


def summary(fleet: FleetPlan) -> str:
    """Return in one sentence how many groups have each verdict."""
    plans, consumer_count = fleet.plans, fleet.consumer_count
    counts = Counter(plan.verdict for plan in plans)
    parts = [f"{counts[verdict]:,} {words}" for verdict, words in VERDICT_WORDS.items() if counts[verdict]]
    already = f". The consumer protocol is used already by {consumer_count:,}" if consumer_count else ""
    deleted_count = sum(plan.is_deleted for plan in plans)
    deleted = "" if not deleted_count else ", deleted" if len(plans) == 1 else f", {deleted_count:,} of them deleted"
    return f"{counted(len(plans), 'classic group')}{deleted}, fewest risks first: {', '.join(parts)}{already}."


def explanation(plan: Plan) -> Iterator[str]:
    """Yield the reasons of a verdict, what to do about them, and what else is and is not known, a sentence or more each."""
    for reason in plan.reasons:
        yield f"{reason.evidence} {reason.advice}"
    yield from plan.notes
    yield from (f"Not known: {sentence}" for sentence in plan.unknowns)


def general_steps(plans: Sequence[Plan]) -> tuple[str, ...]:
    """Return how a group is moved, the same for all; none where every group is blocked."""
    movable = next((plan for plan in plans if plan.verdict is not Verdict.BLOCKED), None)
    return () if movable is None else tuple(steps_to(movable.stored, Changes(), DEFAULT_SERVER_STRATEGY, 1, {}))


def fleet_document(fleet: FleetPlan) -> Document:
    """Return the plan for other programs: groups in the order in which to move them."""
    return {
        "consumer_protocol_group_count": fleet.consumer_count,
        "unplanned_groups": [key._asdict() for key in fleet.unplanned],
        "groups": [_plan_document(plan) for plan in fleet.plans],
        "steps": list(general_steps(fleet.plans)),
        "not_shown": list(NOT_SHOWN),
    }


def _plan_document(plan: Plan) -> Document:
    stored = plan.stored
    return {
        "cluster_id": stored.key.cluster_id,
        "group_id": stored.key.group_id,
        "generation": stored.generation.generation,
        "observed_at": stored.observed_at.isoformat(),
        "deleted_at": None if stored.ended_at is None else stored.ended_at.isoformat(),
        "strategy": stored.generation.strategy,
        "leader_client": stored.leader_client,
        "verdict": plan.verdict_text,
        "reasons": [{"what": one.what.value, "evidence": one.evidence, "advice": one.advice} for one in plan.reasons],
        "movement_count": None if plan.flip is None else plan.flip.movement_count,
        "now": asdict(plan.before),
        "flips": [asdict(flip) for flip in plan.flips],
        "notes": list(plan.notes),
        "unknowns": list(plan.unknowns),
    }


def _cells(plan: Plan) -> tuple[str, ...]:
    before, flip = plan.before, plan.flip
    members = f"{before.member_count}, {before.idle_count} idle" if before.idle_count else str(before.member_count)
    moving = (UNKNOWN, UNKNOWN) if flip is None else (str(flip.movement_count), str(flip.stopped_count))
    return (
        whole_name(plan.stored.key.group_id),
        plan.stored.generation.strategy or UNKNOWN,
        members,
        partitions_text(plan),
        imbalance_text(plan),
        *moving,
    )


def partitions_text(plan: Plan) -> str:
    """Return the fewest and the most partitions of a member, today and after the flip where that differs."""
    return _before_and_after([f"{one.fewest}-{one.most}" if one.fewest < one.most else f"{one.most}" for one in _loads(plan)])


def imbalance_text(plan: Plan) -> str:
    """Return the imbalance today, and after the flip where that differs."""
    return _before_and_after([UNKNOWN if one.imbalance is None else f"{one.imbalance:.2f}" for one in _loads(plan)])


def _loads(plan: Plan) -> list[Loads]:
    return [plan.before] if plan.flip is None else [plan.before, plan.flip.after]


def _before_and_after(texts: Sequence[str]) -> str:
    return " to ".join(dict.fromkeys(texts))
