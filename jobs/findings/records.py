"""Rules on unconfirmed topics, contradicting captures, and assignors whose result is missing or unexpected."""

from __future__ import annotations

from collections.abc import Sequence

from assignors.model import AssignmentMapping
from assignors.registry import BUILT_IN
from assignors.replay.conformance import Divergence, divergences
from jobs.findings.facts import SnapshotFacts, SolutionFacts
from jobs.findings.rule import LISTED, Found, counted, figures, listed, named, rule
from schemas.vocabulary import WITHOUT_RESULT, Basis, Conformance, Rule, Severity, Status

MOST_LOADS = 20
"""How many loads evidence lists, the largest first."""


OTHER_LIBRARY = "Check the leader's client library: others implement assignors of the same name differently, some with faults."
OTHER_RELEASE = "Under the consumer protocol, check the brokers' release and their group.consumer.assignors."


@rule(
    Rule.TOPIC_BASIS_UNCERTAIN,
    Severity.INFO,
    "Partition counts are not confirmed",
    when=(
        "A subscribed topic is in no metadata snapshot, or in none that fits the partitions that members were given. Or the first metadata "
        "snapshot that has it is later than the generation, and nobody was given its last partitions: they may be new."
    ),
    advice="Record the topic metadata more often, or land the missing metadata snapshots.",
)
def uncertain_topics(snapshot: SnapshotFacts) -> Found | None:
    """Return the topics that are in no metadata snapshot, or in none that fits."""
    names = snapshot.uncertain_topics
    if not names:
        return None
    return Found(
        f"{counted(len(names), 'topic has a partition count', 'topics have partition counts')} that no metadata snapshot confirms: "
        f"{listed(names)}",
        figures(topic_count=len(names), topics=names),
    )


@rule(
    Rule.CONFORMANCE_DIFFERS,
    Severity.WARNING,
    "The assignment is not Kafka's",
    when=(
        "The group's own assignor, run on the same subscriptions and claims, gives other loads than the members have, or other "
        "partitions to nobody. In the first step of a cooperative rebalance only the loads count: which partitions are withheld is "
        "the assignor's choice. The rule does not hold where all partitions that nobody was given are new to the group, as for "
        "`partitions_left_out`: its leader may not know them yet. The evidence names the partitions that would have another owner, the "
        "loads of both, and the leader's client library if its bytes show it."
    ),
    advice=f"{OTHER_LIBRARY} {OTHER_RELEASE}",
)
def nonconformance(snapshot: SnapshotFacts) -> Found | None:
    """Return the assignor whose loads the observed assignment does not have, and the differences between the two."""
    left_out = snapshot.observed_violations("unassigned")
    if left_out and all(map(snapshot.is_new_to_group, left_out)):
        return None  # it assigned other topics than those that were recomputed
    for solution in snapshot.solutions:
        if solution.basis == Basis.RECOMPUTED and solution.conformance == Conformance.DIFFERS:
            if not snapshot.is_settled and _all_loads(snapshot.observed.assignment) == _all_loads(solution.assignment or {}):
                continue
            apart = divergences(snapshot.observed.assignment, solution.assignment or {})
            by = "" if snapshot.leader_client is None else f" by {snapshot.leader_client}"
            others = f"{counted(len(apart), 'partition')} would have another owner: {listed([_apart(one) for one in apart])}"
            return Found(
                f"The assignment{by} is not what Kafka's {solution.strategy} assignor gives (release {solution.kafka_version or '-'}): "
                f"{others if apart else 'a member has a partition more than once'}",
                figures(
                    strategy=solution.strategy,
                    kafka_version=solution.kafka_version or "",
                    flavour=snapshot.leader_client or "",
                    partition_count=len(apart),
                    partitions=[_apart(one) for one in apart],
                    loads=_loads(snapshot.observed.assignment),
                    kafkas_loads=_loads(solution.assignment or {}),
                ),
                advice=OTHER_RELEASE if snapshot.evidence.is_consumer_protocol else OTHER_LIBRARY,
            )
    return None


def _apart(apart: Divergence) -> str:
    return f"{apart.topic}-{apart.partition} with {_named(apart.observed)}, Kafka: {_named(apart.computed)}"


def _named(members: Sequence[str]) -> str:
    return " and ".join(members) or "nobody"


def _all_loads(assignment: AssignmentMapping) -> list[int]:
    return sorted(map(len, assignment.values()), reverse=True)


def _loads(assignment: AssignmentMapping) -> str:
    return " ".join(map(str, _all_loads(assignment)[:MOST_LOADS]))


def _runs_in_circles(solution: SolutionFacts) -> bool:
    return solution.status == Status.NO_RESULT and solution.strategy in BUILT_IN


@rule(
    Rule.ASSIGNOR_LIVELOCK,
    Severity.WARNING,
    "Kafka's assignor would never end",
    when=(
        "On these subscriptions and claims, one of Kafka's assignors returns to a state that it had before: it moves partitions back and "
        "forth for ever. It is `info` if the group does not use this assignor."
    ),
    advice=(
        "A leader that gets this input hangs, and the group hangs with it, until the leader is removed. Then the next leader hangs. Let "
        "all members subscribe to the same topics: only the search for different subscriptions can repeat for ever."
    ),
)
def livelock(snapshot: SnapshotFacts) -> Found | None:
    """Return Kafka's assignors that never end on this input."""
    endless = [solution for solution in snapshot.solutions if _runs_in_circles(solution)]
    if not endless:
        return None
    strategies = sorted({solution.strategy for solution in endless})
    is_own = any(solution.basis == Basis.RECOMPUTED for solution in endless)
    members = len(snapshot.problem.members)
    return Found(
        f"On the input of these {counted(members, 'member')} Kafka's code never ends: {named(strategies)}",
        figures(strategies=strategies, member_count=members),
        None if is_own else Severity.INFO,
    )


@rule(
    Rule.NO_RESULT,
    Severity.WARNING,
    "An assignor gives no assignment",
    when=(
        "One of Kafka's assignors fails or exceeds its budget, or one of your own gives no assignment. It is `info` if the group does not "
        "use this assignor. If one of Kafka's never ends, the rule is `assignor_livelock`."
    ),
    advice="The group can hang in its next rebalance. Let all members subscribe to the same topics, or choose another assignor.",
)
def missing_results(snapshot: SnapshotFacts) -> Found | None:
    """Return the assignors without a result; it is a warning if the group's own assignor is one of them."""
    failed = [one for one in snapshot.solutions if Status(one.status) in WITHOUT_RESULT and not _runs_in_circles(one)]
    if not failed:
        return None
    strategies = sorted({solution.strategy for solution in failed})
    reasons = (
        f"{solution.basis} {solution.strategy}: {solution.status}" + (f" ({solution.detail})" if solution.detail is not None else "")
        for solution in failed
    )
    is_own = any(solution.basis == Basis.RECOMPUTED for solution in failed)
    are_kafkas = [solution.strategy in BUILT_IN for solution in failed]
    who = "Kafka's own code gives" if all(are_kafkas) else "These assignors give"
    return Found(
        f"{who} no assignment here: {named(strategies)}",
        figures(strategies=strategies, reasons="; ".join(sorted(reasons)[:LISTED])),
        None if is_own else Severity.INFO,
        None if any(are_kafkas) else "The assignor is not Kafka's. The reasons say what it did, and its author can fix it.",
    )


@rule(
    Rule.OWN_ASSIGNOR_UNSOUND,
    Severity.INFO,
    "One of your own assignors would assign wrongly",
    when="An assignor that is not Kafka's gives partitions to nobody, twice, or to members that do not subscribe to them.",
    advice="Do not use the assignor as it is. The violations in generation_audits name every partition.",
)
def unsound_own_assignors(snapshot: SnapshotFacts) -> Found | None:
    """Return the assignors that are not Kafka's and would give a wrong assignment."""
    unsound = [one for one in snapshot.solutions if one.basis != Basis.OBSERVED and one.strategy not in BUILT_IN and one.violations]
    if not unsound:
        return None
    strategies = sorted({solution.strategy for solution in unsound})
    lines = (f"{solution.basis} {solution.strategy}: {listed(solution.violations)}" for solution in unsound)
    return Found(
        f"These assignors are not Kafka's and give partitions to nobody, twice, or to the wrong members: {named(strategies)}",
        figures(strategies=strategies, violations="; ".join(sorted(lines)[:LISTED])),
    )


@rule(
    Rule.CONFLICTING_RECORDS,
    Severity.WARNING,
    "Captures contradict each other",
    when="Two captures have different records at one position of the log, and at least one of these records is of the group.",
    advice="Most often two clusters were landed under one cluster id. Land each with its own --cluster-id into a new warehouse.",
)
def conflicting_records(snapshot: SnapshotFacts) -> Found | None:
    """Return a finding if captures disagree about a record."""
    if not snapshot.has_conflict:
        return None
    return Found(
        "Captures have different records at one position of the log, and at least one of them is of this group; at most one is used, the "
        "others are in quarantine"
    )
