"""Short notation for histories of one group, which are audited and given to the rules of findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assignors import GroupProblem, Member, Topic
from assignors.audit.audit import AuditedGeneration, AuditedSolution, GroupAudit
from assignors.audit.triggers import Evidence, Participant
from assignors.generation.generation import owner_of
from assignors.replay.steps import OBSERVED
from jobs.findings import RULES, Finding, GroupHistory, SnapshotFacts, find, gather_facts
from schemas.vocabulary import Rule
from tests.builders.histories import held, member

Origin = tuple[str, str]
ANYWHERE: Origin = ("app", "/10.0.0.1")
CLASSIC = ("range", "roundrobin", "sticky", "cooperative-sticky")


@dataclass(frozen=True)
class Stored:
    """One snapshot as the audit reads it."""

    generation: AuditedGeneration
    offered: Sequence[Sequence[str] | None]
    uncertain_topics: Sequence[str]
    recurrences: str | None = None
    rebalance_timeout_ms: int | None = None
    session_timeout_ms: int | None = None
    leader_client: str | None = None


def stored(
    number: int,
    given: Mapping[str, str],
    *members: Member,
    strategy: str = "range",
    topics: Mapping[str, int] | None = None,
    minute: float = 0,
    incarnation: int = 0,
    at: Mapping[str, Origin | None] | None = None,
    offered: Mapping[str, Sequence[str]] | None = None,
    uncertain_topics: Sequence[str] = (),
    has_predecessor: bool = True,
    is_follow_up: bool = False,
    is_rewrite: bool = False,
    batched_epoch_count: int = 0,
    racks: Mapping[str, str] | None = None,
    **shown: Any,
) -> Stored:
    """Return a snapshot with the partitions of members; members that are not listed subscribe to ``t`` and have no claims.

    Args:
        given: member id -> its partitions, as ``t0 u1``.
        topics: partition counts; ``t`` has two when None.
        at: member id -> client id and host; the same place for all that are not in it.
        offered: member id -> its list of assignors.
        racks: topic -> the racks of the replicas of its partitions, one letter each, as ``ab b``.
        shown: fields of ``Evidence``.
    """
    listed = {one.member_id: one for one in members}
    everybody = tuple(listed.get(name, member(name)) for name in given)
    clients = {name: ANYWHERE for name in given} | dict(at or {})
    counts = {"t": 2} if topics is None else topics
    racks_of = {name: tuple(map(tuple, text.split())) for name, text in (racks or {}).items()}
    existing = {name: Topic(count, racks_of.get(name)) for name, count in counts.items()}
    participants = [Participant(owner_of(one), one.member_id, clients[one.member_id], None, frozenset(one.topics)) for one in everybody]
    defaults = {"is_consumer_protocol": strategy not in CLASSIC, "is_conversion": False, "is_poll": False, "has_subscriptions": True}
    evidence = Evidence(
        number,
        round(minute * 60_000),
        is_follow_up=is_follow_up,
        strategy=strategy if given else None,
        participants=participants,
        topics={name: topic for name, topic in existing.items() if name not in uncertain_topics},
        is_rewrite=is_rewrite,
        **(defaults | shown),
    )
    assignment = {name: held(text) for name, text in given.items()}
    solutions = (AuditedSolution(OBSERVED, strategy if given else "", assignment),)
    problem = GroupProblem(existing, everybody)
    flags = (has_predecessor, is_rewrite, is_follow_up)
    generation = AuditedGeneration(number, incarnation, problem, (), True, *flags, evidence, solutions, batched_epoch_count)
    return Stored(generation, [(offered or {}).get(name) for name in given], uncertain_topics)


def facts(*history: Stored) -> list[SnapshotFacts]:
    """Return the facts of each snapshot that rules get."""
    audit, past = GroupAudit(), GroupHistory()
    gathered = []
    for one in history:
        solved = {"basis": OBSERVED, "strategy": "", "status": "solved", "conformance": None, "kafka_version": None, "detail": None}
        solved["uncertain_topics"] = one.uncertain_topics
        solved["recurrences"] = one.recurrences
        of_all = {"rebalance_timeouts_ms": one.rebalance_timeout_ms, "session_timeouts_ms": one.session_timeout_ms}
        timeouts_ms = {name: [timeout] * len(one.generation.problem.members) for name, timeout in of_all.items()}
        row = {"offered": one.offered, "has_conflict": False, "leader_client": one.leader_client, **timeouts_ms}
        gathered.append(gather_facts(row, one.generation, [solved], audit.advance(one.generation), past))
    return gathered


def found(rule: Rule, *history: Stored) -> list[Finding | None]:
    """Return the findings of a rule in each snapshot."""
    return [next((one for one in find(snapshot, RULES) if one.rule_id == rule), None) for snapshot in facts(*history)]


def last(rule: Rule, *history: Stored) -> Finding | None:
    """Return the findings of a rule in the last snapshot."""
    return found(rule, *history)[-1]


def numbers_found(rule: Rule, *history: Stored) -> list[int]:
    """Return the numbers, from 0, of the snapshots with a finding of a rule."""
    return [number for number, finding in enumerate(found(rule, *history)) if finding is not None]
