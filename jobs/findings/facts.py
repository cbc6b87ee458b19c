"""The facts that rules get of one snapshot, and how the audit gathers them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from assignors.audit.audit import Audit, AuditedGeneration, AuditedSolution
from assignors.audit.comparison import recreated_topics
from assignors.audit.movements import Movement
from assignors.audit.triggers import Evidence
from assignors.generation.balance import Balance
from assignors.generation.generation import Generation
from assignors.generation.subscriptions import existing_partition_counts, subscribed_topics
from assignors.model import AssignmentMapping, GroupProblem
from assignors.replay.recurrence import Recurrences
from assignors.replay.steps import OBSERVED
from jobs.findings.history import NOTHING_RECURS, GroupHistory, Moment, SubscribedTopics
from schemas.computed_row_types import StoredSnapshot, StoredSolution


@dataclass(frozen=True)
class SolutionFacts:
    """What the rules use of one stored solution.

    Attributes:
        kafka_version: release whose behaviour was reproduced, None if there was none.
        detail: why there is no assignment, None if there is one.
        violations: as ``assignors.generation.violations.violations`` words them.
        assignment: None if there is none.
    """

    basis: str
    strategy: str
    status: str
    conformance: str | None = None
    kafka_version: str | None = None
    detail: str | None = None
    violations: Sequence[str] = ()
    assignment: AssignmentMapping | None = None


NOBODY = Generation(0, "", GroupProblem({}, ()), {})
"""A generation without members: nothing can be wrong with it."""

UNKNOWN = Evidence(0, 0, False, False, False, False, True, None, (), {})
"""The evidence of a generation of which nothing else is known."""


@dataclass(frozen=True)
class SnapshotFacts:
    """What the rules use of one snapshot.

    Attributes:
        uncertain_topics: names of subscribed topics with partition counts that no metadata snapshot confirms.
        has_conflict: captures disagreed about this record, or about a record of this group since the previous snapshot.
        observed: the members with their claims, the topics that exist, and the partitions that each member was given.
        is_settled: no partition is withheld.
        evidence: what the record and metadata snapshots show besides: the protocol, whether subscriptions are known, where members run.
        offered: member id -> the assignors that it offers, in its own order; members whose assignors are not known are missing.
        previous: the generation before in the same incarnation, None if it is not known.
        window: the moments of the last ``history.WINDOW_MS``, this one last; empty if the time before is not known.
        leader_client: client library of the leader, None if its bytes do not show it.
        recurrences: what happened repeatedly within an hour or a day before this snapshot.
        rebalance_timeouts_ms: member id -> how long the coordinator waits for it in a rebalance: ``max.poll.interval.ms`` of the clients of
            Java and librdkafka. None if the source does not show it.
        session_timeouts_ms: member id -> ``session.timeout.ms``. None if the source does not show it, or the coordinator decides it.
        balance: the figures of the observed assignment; None if there is none.
        movements: the partitions whose owner changed since the generation before; none if that generation is not known.
        before_repeated, earlier_topics: see ``history.RecentPast``.
    """

    uncertain_topics: Sequence[str]
    solutions: Sequence[SolutionFacts]
    has_conflict: bool = False
    observed: Generation = NOBODY
    is_settled: bool = True
    evidence: Evidence = UNKNOWN
    offered: Mapping[str, Sequence[str]] = field(default_factory=dict)
    previous: Generation | None = None
    window: Sequence[Moment] = ()
    leader_client: str | None = None
    recurrences: Recurrences = NOTHING_RECURS
    rebalance_timeouts_ms: Mapping[str, int | None] = field(default_factory=dict)
    session_timeouts_ms: Mapping[str, int | None] = field(default_factory=dict)
    balance: Balance | None = None
    movements: Sequence[Movement] = ()
    before_repeated: Generation | None = None
    earlier_topics: Sequence[SubscribedTopics] = ()

    @property
    def strategy(self) -> str:
        """Return the group's own assignor, ``''`` if it has none."""
        return self.observed.strategy

    @property
    def problem(self) -> GroupProblem:
        """Return the members with their claims, and the topics that exist."""
        return self.observed.problem

    @property
    def has_subscriptions_recorded(self) -> bool:
        """Return whether the record has the subscriptions of each member and an assignor assigned the partitions."""
        return self.evidence.has_subscriptions and not self.evidence.is_conversion

    def observed_violations(self, code: str) -> list[str]:
        """Return the partitions for which the observed assignment has a violation of this code."""
        texts = (text for solution in self.solutions if solution.basis == OBSERVED for text in solution.violations)
        return [partition for found, _, partition in (text.partition(" ") for text in texts) if found == code]

    def is_new_to_group(self, topic_partition: str) -> bool:
        """Return whether a leader may not know a partition, as ``t-0``, yet: it did not exist in the generation before.

        Nor does a leader know it if a generation that another one followed within the last five minutes subscribed to its topic, and did
        not have it: rebalances do not make a leader look for new partitions of topics that it knows. All partitions of a topic that was
        made again since are new. False if no generation before is known.
        """
        topic, _, partition = topic_partition.rpartition("-")
        if any(self._is_new_since(topics, topic, int(partition)) for topics in self.earlier_topics):
            return True
        earlier = self.last_assigned_before
        if earlier is None:
            return False
        known = existing_partition_counts(earlier.problem).get(topic, 0)
        return int(partition) >= known or topic in self._recreated

    def _is_new_since(self, topics: SubscribedTopics, topic: str, partition: int) -> bool:
        if topic not in topics:
            return False  # nobody subscribed to it then; a leader looks for a topic when a member begins to
        count, topic_id = topics[topic]
        return partition >= count or topic_id not in (None, self.problem.topics[topic].topic_id or topic_id)

    @cached_property
    def _recreated(self) -> frozenset[str]:
        earlier = self.last_assigned_before
        return frozenset() if earlier is None else recreated_topics(earlier.problem, self.problem)

    @property
    def last_assigned_before(self) -> Generation | None:
        """Return the generation before, or before the one that a rewrite has just repeated; None if it is not known."""
        return self.before_repeated or self.previous


def gather_facts(
    row: StoredSnapshot,
    generation: AuditedGeneration,
    solved: Sequence[StoredSolution],
    audits: Sequence[Audit],
    history: GroupHistory,
) -> SnapshotFacts:
    """Return the facts of the group's next snapshot, and add it to the history.

    Args:
        row: the snapshot, as ``jobs.audit.run.history_rows`` reads it.
        solved: rows of the snapshot's solutions.
        audits: of the solutions, in their order.
    """
    observed_at = next(number for number, solution in enumerate(solved) if solution["basis"] == OBSERVED)
    stored = generation.solutions[observed_at]
    observed = Generation(generation.generation, stored.strategy, generation.problem, stored.assignment or {})
    audit = audits[observed_at]
    past = history.advance(generation, observed, audit, Recurrences.decoded(solved[observed_at]["recurrences"]))
    members = [member.member_id for member in generation.problem.members]
    offers = zip(members, row["offered"], strict=True)
    subscribed = subscribed_topics(generation.problem)
    return SnapshotFacts(
        [topic for topic in solved[observed_at]["uncertain_topics"] if topic in subscribed],
        [_solution_facts(*rows_of_one) for rows_of_one in zip(solved, generation.solutions, audits, strict=True)],
        bool(row["has_conflict"]),
        observed,
        audit.is_settled is not False,
        generation.evidence,
        {member_id: names for member_id, names in offers if names},
        past.previous,
        past.window,
        row["leader_client"],
        past.recurrences,
        dict(zip(members, row["rebalance_timeouts_ms"], strict=True)),
        dict(zip(members, row["session_timeouts_ms"], strict=True)),
        audit.balance,
        () if audit.difference is None else audit.difference.movements,
        past.before_repeated,
        past.earlier_topics,
    )


def _solution_facts(solution: StoredSolution, kept: AuditedSolution, audit: Audit) -> SolutionFacts:
    return SolutionFacts(
        solution["basis"],
        solution["strategy"],
        solution["status"],
        solution["conformance"],
        solution["kafka_version"],
        solution["detail"],
        audit.violations or (),
        kept.assignment,
    )
