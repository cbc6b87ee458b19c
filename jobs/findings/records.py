"""Rules on what is known: what looks and captures leave open, and results that no assignor gives."""

from __future__ import annotations

from assignors.registry import BUILT_IN
from jobs.findings.facts import SnapshotFacts
from jobs.findings.rule import LISTED, Found, figures, listed, rule
from schemas.vocabulary import WITHOUT_RESULT, Basis, Conformance, Rule, Severity, Status


@rule(
    Rule.TOPIC_BASIS_UNCERTAIN,
    Severity.INFO,
    "Partition counts are not confirmed",
    when="A subscribed topic is in no look at the cluster, or in none that fits what the members were given.",
    advice="Record the cluster's metadata more often, or land the looks that are missing.",
)
def uncertain_topics(snapshot: SnapshotFacts) -> Found | None:
    """Return the topics that are in no look at the cluster, or in none that fits."""
    names = snapshot.uncertain_topics
    if not names:
        return None
    return Found(
        f"{len(names)} topics have partition counts that no look at the cluster confirms: {listed(names)}",
        figures(topic_count=len(names), topics=names),
    )


@rule(
    Rule.CONFORMANCE_DIFFERS,
    Severity.WARNING,
    "The assignment is not Kafka's",
    when="The group's own assignor, run on the same subscriptions and claims, gives other loads than the members have.",
    advice="Look at the leader's client library: others implement assignors of the same name differently, some with faults.",
)
def nonconformance(snapshot: SnapshotFacts) -> Found | None:
    """Return the assignor whose balance the observed assignment does not even have."""
    for solution in snapshot.solutions:
        if solution.basis == Basis.RECOMPUTED and solution.conformance == Conformance.DIFFERS:
            release = solution.kafka_version or "-"
            return Found(
                f"The group's assignment is not what Kafka's {solution.strategy} assignor gives (release {release})",
                figures(strategy=solution.strategy, kafka_version=solution.kafka_version or ""),
            )
    return None


@rule(
    Rule.NO_RESULT,
    Severity.WARNING,
    "An assignor gives no assignment",
    when="An assignor fails, runs in circles, or exceeds its budget. `info` where it is none that the group uses.",
    advice="The group can hang in its next rebalance: let all members subscribe to the same topics, or choose another assignor.",
)
def missing_results(snapshot: SnapshotFacts) -> Found | None:
    """Return the assignors without a result: a warning when the group's own is among them."""
    failed = [solution for solution in snapshot.solutions if Status(solution.status) in WITHOUT_RESULT]
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
        f"{who} no assignment here: {listed(strategies)}",
        figures(strategies=strategies, reasons="; ".join(sorted(reasons)[:LISTED])),
        None if is_own else Severity.INFO,
        None if any(are_kafkas) else "The assignor is not Kafka's: the reasons say what it did; its author can mend it.",
    )


@rule(
    Rule.OWN_ASSIGNOR_UNSOUND,
    Severity.INFO,
    "An assignor of one's own would assign wrongly",
    when="An assignor that is not Kafka's gives partitions to nobody, twice, or to members that do not subscribe to them.",
    advice="Do not use them as they are; the violations in generation_audits name every partition.",
)
def unsound_own_assignors(snapshot: SnapshotFacts) -> Found | None:
    """Return the assignors that are not Kafka's and would give an assignment that is wrong."""
    unsound = [one for one in snapshot.solutions if one.basis != Basis.OBSERVED and one.strategy not in BUILT_IN and one.violations]
    if not unsound:
        return None
    strategies = sorted({solution.strategy for solution in unsound})
    told = (f"{solution.basis} {solution.strategy}: {listed(solution.violations)}" for solution in unsound)
    return Found(
        f"These assignors, which are not Kafka's, give partitions to nobody, twice, or where they do not belong: {listed(strategies)}",
        figures(strategies=strategies, violations="; ".join(sorted(told)[:LISTED])),
    )


@rule(
    Rule.CONFLICTING_RECORDS,
    Severity.WARNING,
    "Captures contradict each other",
    when="Two captures hold different records of the group for one place of the log.",
    advice="Most often two clusters were landed under one cluster id: land each with its own --cluster-id into a new warehouse.",
)
def conflicting_records(snapshot: SnapshotFacts) -> Found | None:
    """Return that captures disagree on what the log holds."""
    if not snapshot.is_disputed:
        return None
    return Found("Captures hold different records of this group for one place of the log; one is used here, the others are in quarantine")
