"""Findings: what a person should know about one snapshot, from its solutions and their audits.

One function a rule, each giving at most one finding a snapshot. A rule says what was found, the figures behind it, and what to do.
Plain Python: the rules run in the workers, beside the audits that they look at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from assignors.registry import BUILT_IN
from schemas.vocabulary import WITHOUT_RESULT, Basis, Conformance, Rule, Severity, Status

LISTED = 5
"""Names that a message lists before it only counts."""


@dataclass(frozen=True)
class SolutionFacts:
    """What the rules ask of one stored solution.

    Attributes:
        kafka_version: release whose behaviour was reproduced, None where none was.
        detail: why there is no assignment, None where there is one.
        violations: as ``assignors.verification.violations`` words them.
    """

    basis: str
    strategy: str
    status: str
    conformance: str | None = None
    kafka_version: str | None = None
    detail: str | None = None
    violations: Sequence[str] = ()


@dataclass(frozen=True)
class SnapshotFacts:
    """What the rules ask of one snapshot.

    Attributes:
        uncertain_topics: names of topics with partition counts that no look confirms.
        is_disputed: another content was found at the snapshot's place.
    """

    uncertain_topics: Sequence[str]
    solutions: Sequence[SolutionFacts]
    is_disputed: bool = False


@dataclass(frozen=True)
class Finding:
    """One finding; the columns of ``findings`` that do not say where it is. Evidence holds figures as text."""

    rule_id: Rule
    severity: Severity
    message: str
    advice: str
    evidence: Mapping[str, str] = field(default_factory=dict)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:LISTED])


def uncertain_topics(snapshot: SnapshotFacts) -> Iterator[Finding]:
    """Yield a finding where topics are in no look at the cluster, or in none that fits."""
    names = snapshot.uncertain_topics
    if names:
        yield Finding(
            Rule.TOPIC_BASIS_UNCERTAIN,
            Severity.INFO,
            f"{len(names)} topics have partition counts that no look at the cluster confirms: {_listed(names)}",
            "Record the cluster's metadata more often, or land the looks that are missing.",
            {"topic_count": str(len(names)), "topics": _listed(names)},
        )


def nonconformance(snapshot: SnapshotFacts) -> Iterator[Finding]:
    """Yield a finding where the observed assignment is not even balanced like its own assignor's."""
    for solution in snapshot.solutions:
        if solution.basis == Basis.RECOMPUTED and solution.conformance == Conformance.DIFFERS:
            release = solution.kafka_version or "-"
            yield Finding(
                Rule.CONFORMANCE_DIFFERS,
                Severity.WARNING,
                f"The group's assignment is not what Kafka's {solution.strategy} assignor gives (release {release})",
                "Look at the leader's client library: others implement assignors of the same name differently, some with faults.",
                {"strategy": solution.strategy, "kafka_version": solution.kafka_version or ""},
            )


def multiple_owners(snapshot: SnapshotFacts) -> Iterator[Finding]:
    """Yield a finding where partitions were given to several members."""
    for solution in snapshot.solutions:
        shared = [place for code, _, place in (text.partition(" ") for text in solution.violations) if code == "multiply_owned"]
        if solution.basis == Basis.OBSERVED and shared:
            yield Finding(
                Rule.PARTITION_MULTIPLY_OWNED,
                Severity.CRITICAL,
                f"{len(shared)} partitions have more than one owner: {_listed(shared)}",
                "Records are processed twice. Restart the group's consumers; look for a leader with a faulty assignor.",
                {"multiply_owned_count": str(len(shared)), "partitions": _listed(shared)},
            )


def missing_results(snapshot: SnapshotFacts) -> Iterator[Finding]:
    """Yield a finding where an assignor gives no result: a warning when it is the group's own."""
    failed = [solution for solution in snapshot.solutions if Status(solution.status) in WITHOUT_RESULT]
    if failed:
        strategies = _listed(sorted({solution.strategy for solution in failed}))
        reasons = (
            f"{solution.basis} {solution.strategy}: {solution.status}" + (f" ({solution.detail})" if solution.detail is not None else "")
            for solution in failed
        )
        is_own = any(solution.basis == Basis.RECOMPUTED for solution in failed)
        are_kafkas = [solution.strategy in BUILT_IN for solution in failed]
        who = "Kafka's own code gives" if all(are_kafkas) else "These assignors give"
        hang = "The group can hang in its next rebalance: let all members subscribe to the same topics, or choose another assignor."
        yield Finding(
            Rule.NO_RESULT,
            Severity.WARNING if is_own else Severity.INFO,
            f"{who} no assignment here: {strategies}",
            hang if any(are_kafkas) else "The assignor is not Kafka's: the reasons say what it did; its author can mend it.",
            {"strategies": strategies, "reasons": "; ".join(sorted(reasons)[:LISTED])},
        )


def unsound_own_assignors(snapshot: SnapshotFacts) -> Iterator[Finding]:
    """Yield a finding where an assignor that is not Kafka's would give an assignment that is wrong."""
    unsound = [one for one in snapshot.solutions if one.basis != Basis.OBSERVED and one.strategy not in BUILT_IN and one.violations]
    if unsound:
        strategies = _listed(sorted({solution.strategy for solution in unsound}))
        told = (f"{solution.basis} {solution.strategy}: {_listed(solution.violations)}" for solution in unsound)
        yield Finding(
            Rule.OWN_ASSIGNOR_UNSOUND,
            Severity.INFO,
            f"These assignors, which are not Kafka's, give partitions to nobody, twice, or where they do not belong: {strategies}",
            "Do not use them as they are; the violations in generation_audits name every partition.",
            {"strategies": strategies, "violations": "; ".join(sorted(told)[:LISTED])},
        )


def conflicting_records(snapshot: SnapshotFacts) -> Iterator[Finding]:
    """Yield a finding where captures disagree on what the log holds."""
    if snapshot.is_disputed:
        yield Finding(
            Rule.CONFLICTING_RECORDS,
            Severity.WARNING,
            "Captures hold different records of this group for one place of the log; one is used here, the others are in quarantine",
            "Most often two clusters were landed under one cluster id: land each with its own --cluster-id into a new warehouse.",
        )


RULES = (uncertain_topics, nonconformance, multiple_owners, missing_results, unsound_own_assignors, conflicting_records)


def find(snapshot: SnapshotFacts) -> Iterator[Finding]:
    """Yield the findings of one snapshot, in the order of the rules."""
    for rule in RULES:
        yield from rule(snapshot)
