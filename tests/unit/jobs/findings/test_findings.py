"""The catalogue, and the rules on solutions: each on one that it is about, and on its neighbours that it is not."""

from __future__ import annotations

import pytest

from assignors import GroupProblem, Member, Topic
from assignors.generation.generation import Generation
from jobs.findings import COMMIT_RULES, LOAD_RULES, RULES, STUCK_RULES, Finding, SnapshotFacts, SolutionFacts, find
from jobs.findings.commits import CommitFacts, ExpiringTopic, OpenTarget, WaitingMember
from jobs.findings.stuck import StuckFacts
from schemas.vocabulary import Rule
from tests.builders import snapshots_of
from tests.builders.histories import member
from tests.builders.snapshots_of import stored


def found(*solutions: SolutionFacts, uncertain_topics: tuple[str, ...] = ()) -> list[Finding]:
    return list(find(SnapshotFacts(uncertain_topics, solutions), RULES))


def solution(basis: str, strategy: str = "sticky", status: str = "solved", **facts: object) -> SolutionFacts:
    return SolutionFacts(basis, strategy, status, **facts)


def test_every_rule_that_can_be_stored_is_in_the_catalogue_once_and_in_its_order() -> None:
    assert [rule.rule_id for rule in (*RULES, *LOAD_RULES, *COMMIT_RULES, *STUCK_RULES)] == list(Rule)


def test_a_rule_speaks_in_whole_sentences() -> None:
    for rule in (*RULES, *LOAD_RULES, *COMMIT_RULES, *STUCK_RULES):
        assert rule.when.endswith(".") and rule.advice.endswith(".") and not rule.title.endswith("."), rule.rule_id
        assert "  " not in rule.when + rule.advice, rule.rule_id


def test_exact_solutions_have_no_findings() -> None:
    assert found(solution("observed", conformance="exact"), solution("recomputed", conformance="exact")) == []


def test_topics_without_fitting_metadata_are_one_finding_per_snapshot() -> None:
    (finding,) = found(solution("observed"), solution("recomputed"), uncertain_topics=("a", "b"))
    assert (finding.rule_id, finding.severity) == ("topic_basis_uncertain", "info")
    assert finding.message == "2 topics have partition counts that no metadata snapshot confirms: a, b"
    assert finding.evidence == {"topic_count": "2", "topics": "a, b"}


def test_only_subscribed_topics_have_to_be_confirmed() -> None:
    """Nobody subscribes to u any more; what a look says of it concerns who lost it only."""
    history = stored(1, {"a": "t0"}, uncertain_topics=("t", "u")), stored(2, {"a": "t0"}, uncertain_topics=("u",))
    uncertain, certain = snapshots_of.found(Rule.TOPIC_BASIS_UNCERTAIN, *history)
    assert (uncertain.evidence["topics"], certain) == ("t", None)


def test_long_lists_are_cut_and_counted() -> None:
    (finding,) = found(uncertain_topics=tuple("abcdefg"))
    assert finding.message.startswith("7 topics") and finding.message.endswith(": a, b, c, d, e")


def test_lists_whose_length_is_said_nowhere_else_say_what_they_leave_out() -> None:
    names = [f"m{number}" for number in range(8)]
    listed = "m0, m1, m2, m3, m4 and 3 more"
    (expiring,) = find(CommitFacts(0, expiring=[ExpiringTopic(name, 2, 0) for name in names]), COMMIT_RULES)
    assert expiring.message.startswith(f"The commits of 16 partitions of {listed} expire from ")
    for has_to_give_up, said in ((True, f"; not all partitions are given up by {listed}"), (False, f": {listed}")):
        target = OpenTarget(7, 7_200_000, 300_000, [WaitingMember(name, has_to_give_up) for name in names])
        (waiting,) = find(CommitFacts(9, target=target), COMMIT_RULES)
        assert waiting.message.endswith(f"the longest rebalance timeout is 300 s{said}")
    (stuck,) = find(StuckFacts(400_000, None, 3, None, names, False, None), STUCK_RULES)
    assert stuck.message.endswith(f"; members: {listed}")
    apart = stored(1, {"a": "", "b": ""}, member("a", "bcdefghi"), topics={"t": 0})
    assert "1 member of b, c, d, e, f and 3 more; " in snapshots_of.last(Rule.DISJOINT_SUBSCRIPTIONS, apart).message
    absent = snapshots_of.last(Rule.TOPICS_MISSING, apart)
    assert absent.message.endswith("to topics that do not exist: b, c, d, e, f and 4 more")


def test_assignment_that_differs_from_its_assignor_is_found() -> None:
    # The observed solution repeats what the recomputed one says of the comparison.
    held = {"a": (("t", 0), ("t", 1), ("u", 10)), "b": (), "c": (("u", 9),)}
    kafkas = {"a": (("u", 10),), "b": (("t", 1), ("t", 0)), "c": (("u", 9), ("u", 2))}
    solutions = [
        solution("observed", conformance="differs", assignment=held),
        solution("recomputed", conformance="differs", kafka_version="4.3.1", assignment=kafkas),
    ]
    observed = Generation(3, "sticky", GroupProblem({}, ()), held)
    (finding,) = find(SnapshotFacts([], solutions, observed=observed, leader_client="librdkafka"), RULES)
    assert (finding.rule_id, finding.severity) == ("conformance_differs", "warning")
    assert finding.message == (
        "The assignment by librdkafka is not what Kafka's sticky assignor gives (release 4.3.1): 3 partitions would have another "
        "owner: t-0 with a, Kafka: b, t-1 with a, Kafka: b, u-2 with nobody, Kafka: c"
    )
    assert finding.evidence == {
        "strategy": "sticky", "kafka_version": "4.3.1", "flavour": "librdkafka", "partition_count": "3", "loads": "3 1 0",
        "kafkas_loads": "2 2 1", "partitions": "t-0 with a, Kafka: b, t-1 with a, Kafka: b, u-2 with nobody, Kafka: c",
    }  # fmt: skip


def test_assignment_that_repeats_a_partition_names_no_other_owner() -> None:
    kafkas = solution("recomputed", "range", conformance="differs", kafka_version="4.3.1", assignment={"a": (("t", 0),)})
    observed = Generation(3, "range", GroupProblem({}, ()), {"a": (("t", 0), ("t", 0))})
    (finding,) = find(SnapshotFacts([], [kafkas], observed=observed), RULES)
    assert finding.message == (
        "The assignment is not what Kafka's range assignor gives (release 4.3.1): a member has a partition more than once"
    )
    assert (finding.evidence["partition_count"], finding.evidence["loads"], finding.evidence["kafkas_loads"]) == ("0", "2", "1")


@pytest.mark.parametrize(
    ("is_settled", "kafkas", "is_found"),
    [(False, (("t", 0), ("t", 1)), False), (True, (("t", 0), ("t", 1)), True), (False, (("t", 0),), True)],
)
def test_other_partitions_withheld_are_no_other_assignment(is_settled: bool, kafkas: tuple[tuple[str, int], ...], is_found: bool) -> None:
    """Cooperative assignors of other libraries withhold other partitions of a member than Kafka's: its load is the same."""
    solved = solution("recomputed", "cooperative-sticky", conformance="differs", assignment={"a": kafkas, "b": ()})
    observed = Generation(3, "cooperative-sticky", GroupProblem({}, ()), {"a": (("t", 1), ("t", 2)), "b": ()})
    findings = find(SnapshotFacts((), (solved,), observed=observed, is_settled=is_settled), RULES)
    assert [finding.rule_id for finding in findings] == ["conformance_differs"] * is_found


@pytest.mark.parametrize(("known_count", "is_found"), [(1, False), (2, True), (None, True)])
def test_a_leader_that_does_not_know_new_partitions_has_no_other_assignor(known_count: int | None, is_found: bool) -> None:
    given = {"a": (("t", 0),)}
    solutions = (
        solution("observed", "range", conformance="differs", assignment=given, violations=("unassigned t-1",)),
        solution("recomputed", "range", conformance="differs", assignment={"a": (("t", 0), ("t", 1))}),
    )
    members = (Member("a", topics=("t",)),)
    previous = None if known_count is None else Generation(2, "range", GroupProblem({"t": Topic(known_count)}, members), given)
    observed = Generation(3, "range", GroupProblem({"t": Topic(2)}, members), given)
    findings = find(SnapshotFacts((), solutions, observed=observed, previous=previous), RULES)
    assert ("conformance_differs" in [finding.rule_id for finding in findings]) is is_found


@pytest.mark.parametrize("conformance", ["exact", "equal_sets", "equal_balance", "not_comparable", None])
def test_no_finding_for_an_assignment_as_balanced_as_its_assignor(conformance: str | None) -> None:
    assert found(solution("recomputed", conformance=conformance)) == []


def test_partitions_with_several_owners_are_found() -> None:
    """The third one is twice in one member's list."""
    violations = ("unknown_member c", "multiply_owned t-0", "multiply_owned my topic-3", "multiply_owned u-0", "unassigned t-1")
    solutions = solution("observed", violations=violations), solution("counterfactual", violations=violations)
    shared = (("my topic", 3), ("t", 0))
    observed = Generation(3, "sticky", GroupProblem({"t": Topic(2)}, ()), {"a": (*shared, ("u", 0), ("u", 0)), "b": shared})
    finding, *_ = find(SnapshotFacts((), solutions, observed=observed), RULES)
    assert (finding.rule_id, finding.severity) == ("partition_multiply_owned", "critical")
    assert finding.message == "2 partitions have more than one owner: t-0, my topic-3"
    assert finding.evidence == {"multiply_owned_count": "2", "partitions": "t-0, my topic-3"}


def test_own_assignor_without_a_result_is_a_warning() -> None:
    (finding,) = found(
        solution("recomputed", "sticky", "over_budget", detail="too long"),
        solution("counterfactual", "range", "kafka_error"),
        solution("counterfactual", "roundrobin"),
    )
    assert (finding.rule_id, finding.severity) == ("no_result", "warning")
    assert finding.message == "Kafka's own code gives no assignment here: range, sticky"
    assert finding.evidence == {
        "strategies": "range, sticky",
        "reasons": "counterfactual range: kafka_error; recomputed sticky: over_budget (too long)",
    }


@pytest.mark.parametrize(("basis", "severity"), [("recomputed", "warning"), ("counterfactual", "info")])
def test_endless_assignor_is_a_finding(basis: str, severity: str) -> None:
    (finding,) = found(solution(basis, "sticky", "no_result", detail="the same state again"), solution("counterfactual", "range"))
    assert (finding.rule_id, finding.severity) == ("assignor_livelock", severity)
    assert finding.message == "On the input of these 0 members Kafka's code never ends: sticky"
    assert finding.evidence == {"strategies": "sticky", "member_count": "0"}


def test_an_assignor_that_never_ends_hides_no_other() -> None:
    endless, failed = solution("recomputed", "sticky", "no_result"), solution("counterfactual", "range", "kafka_error")
    assert [(one.rule_id, one.severity) for one in found(endless, failed)] == [("assignor_livelock", "warning"), ("no_result", "info")]


def test_plug_in_without_a_result_is_found() -> None:
    own = solution("counterfactual", "own:f", "no_result", detail="the assignor raised ValueError: x")
    (finding,) = found(own)
    assert finding.message == "These assignors give no assignment here: own:f"
    assert finding.advice == "The assignor is not Kafka's. The reasons say what it did, and its author can fix it."
    (finding,) = found(own, solution("counterfactual", "range", "kafka_error"))
    assert finding.message == "These assignors give no assignment here: own:f, range"
    assert finding.advice.startswith("The group can hang")


def test_plug_in_with_violations_is_an_info() -> None:
    (finding,) = found(
        solution("observed", "own:f", violations=("unknown_member c",)),
        solution("counterfactual", "own:f", violations=("multiply_owned t-0", "unassigned t-1")),
        solution("counterfactual", "sticky", violations=("unassigned t-1",)),
        solution("counterfactual", "own:g"),
    )
    assert (finding.rule_id, finding.severity) == ("own_assignor_unsound", "info")
    assert finding.message.endswith("or to the wrong members: own:f")
    assert finding.evidence == {"strategies": "own:f", "violations": "counterfactual own:f: multiply_owned t-0, unassigned t-1"}


@pytest.mark.parametrize(
    ("basis", "status", "severities"),
    [
        ("counterfactual", "over_budget", ["info"]),
        ("recomputed", "over_budget", ["warning"]),
        ("recomputed", "unsupported", []),
        ("recomputed", "carried", []),
    ],
)
def test_severity_of_a_missing_result_depends_on_basis_and_status(basis: str, status: str, severities: list[str]) -> None:
    assert [finding.severity for finding in found(solution(basis, status=status))] == severities
