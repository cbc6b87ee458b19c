"""Whatever an assignor of one's own raises or answers, a status or violations come of it, and other rows are as they were."""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import Enum
from typing import Any

import pytest

from assignors import GroupProblem, Member, Topic, violations
from assignors.algorithms.plugin import OwnAssignorError, as_assignment
from assignors.audit.audit import AuditedGeneration, AuditedSolution, GroupAudit
from assignors.replay.replay import Replay
from assignors.replay.steps import Step
from jobs.assign.time_limit import TimeLimit
from tests.builders import plug_ins
from tests.builders.evidence import evidence
from tests.builders.histories import counterfactual, looks, play, snapshot, statuses

GROUP = GroupProblem({"t": Topic(2)}, (Member("a", ("t",)), Member("b", ("t",))))


class Name(str, Enum):
    """Text that shows itself as something else."""

    T = "t"


class Number:
    """An integer of another library."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


# -- answers


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param({"a": (("t", 0),), "b": (("t", 1),)}, id="as it should be"),
        pytest.param({"a": [["t", 0]], "b": [("t", 1)]}, id="lists"),
        pytest.param({"a": [(Name.T, False)], "b": [(Name.T, Number(1))]}, id="other kinds of text and numbers"),
    ],
)
def test_well_shaped_plug_in_answer_becomes_plain_tuples(answer: Any) -> None:
    assignment = as_assignment(GROUP, answer)
    assert json.dumps(assignment) == '{"a": [["t", 0]], "b": [["t", 1]]}'
    assert {type(value) for held in assignment.values() for partition in held for value in partition} == {str, int}


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param(None, "returned None, expected a dict", id="None"),
        pytest.param([("a", ("t", 0))], "returned a value of type list", id="a list"),
        pytest.param((name for name in "ab"), "returned a value of type generator", id="a generator"),
        pytest.param({1: ()}, "gave partitions to 1, which is not a member", id="an owner that is no text"),
        pytest.param({None: ()}, "gave partitions to None, which is not a member", id="an owner that is nothing"),
        pytest.param({"c9": (("t", 0),)}, "gave partitions to 'c9', which is not a member", id="a stranger"),
        pytest.param({"a": None}, "gave member a None, expected a tuple", id="no partitions"),
        pytest.param({"a": {("t", 0)}}, "gave member a a value of type set", id="a set, whose order is nobody's"),
        pytest.param({"a": "t0"}, "gave member a a value of type str", id="text"),
        pytest.param({"a": iter([("t", 0)])}, "gave member a a value of type list_iterator", id="an iterator"),
        pytest.param({"a": ["t0"]}, "gave member a 't0', expected a partition such as", id="text of two characters"),
        pytest.param({"a": [("t", 0, 1)]}, r"gave member a \('t', 0, 1\)", id="three values"),
        pytest.param({"a": [("t", "0")]}, r"gave member a \('t', '0'\)", id="a number as text"),
        pytest.param({"a": [("t", 0.0)]}, r"gave member a \('t', 0.0\)", id="a fraction"),
        pytest.param({"a": [(b"t", 0)]}, r"gave member a \(b't', 0\)", id="bytes"),
        pytest.param({"a": [([], 0)]}, r"gave member a \(\[\], 0\)", id="something unhashable"),
        pytest.param({"a": [("t", 2**31)]}, r"gave member a \('t', 2147483648\)", id="a number that no column holds"),
        pytest.param({"a": [("\ud800", 0)]}, r"gave member a \('\\ud800', 0\)", id="half a character"),
    ],
)
def test_malformed_plug_in_answer_is_refused_with_what_was_found(answer: Any, message: str) -> None:
    with pytest.raises(OwnAssignorError, match=message):
        as_assignment(GROUP, answer)


# -- in a group's history


def replayed(plug_in: Callable[..., Any], *, seconds: float = 60) -> tuple[list[Step], str]:
    """Return two generations played with the plug-in between two of our strategies, and its name."""
    name = plug_ins.path_of(plug_in)
    rules = Replay(("range", name, "roundrobin"), bound=TimeLimit(seconds))
    return play(rules, looks(t=2), *(snapshot(generation, {"a": "t0", "b": "t1"}) for generation in (1, 2))), name


@pytest.mark.parametrize("plug_in", [plug_ins.hang, plug_ins.answer_endlessly])
def test_a_plug_in_that_never_ends_is_a_status_of_its_own_row(plug_in: Callable[..., Any]) -> None:
    steps, name = replayed(plug_in, seconds=0.05)
    only_its_row_is(steps, name, "over_budget", ["no answer within 0.05 s", "not called: an earlier call gave no answer within 0.05 s"])


@pytest.mark.parametrize(
    ("plug_in", "status", "detail"),
    [
        (plug_ins.exit_process, "no_result", "the assignor raised SystemExit: 3"),
        (plug_ins.interrupt, "no_result", "the assignor raised KeyboardInterrupt: "),
        (plug_ins.exhaust, "no_result", "the assignor raised MemoryError: "),
        (plug_ins.raise_the_unspeakable, "no_result", "the assignor raised Unspeakable: "),
        (plug_ins.give_up_badly, "over_budget", ""),
    ],
)
def test_what_a_plug_in_raises_is_a_status_of_its_own_row(plug_in: Callable[..., Any], status: str, detail: str) -> None:
    steps, name = replayed(plug_in)
    only_its_row_is(steps, name, status, [detail] * 2)


def only_its_row_is(steps: list[Step], name: str, status: str, details: list[str]) -> None:
    """Hold the plug-in's rows against what is expected, and see that the other strategies' are solved."""
    rows = [counterfactual(step, name) for step in steps]
    assert [(row.status, row.assignment, row.detail) for row in rows] == [(status, None, detail) for detail in details]
    assert [statuses(steps, other) for other in ("range", "roundrobin")] == [[("solved", 1)] * 2] * 2


def test_a_recursion_without_end_is_a_status_too() -> None:
    steps, name = replayed(plug_ins.recurse)
    assert [counterfactual(step, name).status for step in steps] == ["no_result"] * 2
    assert counterfactual(steps[0], name).detail.startswith("the assignor raised RecursionError: maximum recursion depth exceeded")


def test_error_text_of_a_plug_in_is_escaped_and_cut() -> None:
    (step, _), name = replayed(plug_ins.raise_a_surrogate)
    detail = counterfactual(step, name).detail
    assert detail.startswith("the assignor raised ValueError: \\ud800xxx")
    assert len(detail.encode()) <= 1_000


def test_topics_that_a_plug_in_changes_are_its_own() -> None:
    steps, name = replayed(plug_ins.forget_topics)
    assert counterfactual(steps[0], name).assignment == {}
    assert counterfactual(steps[0], "roundrobin").assignment == {"a": (("t", 0),), "b": (("t", 1),)}


def test_nonsense_of_the_right_shape_is_audited_as_violations() -> None:
    steps, name = replayed(plug_ins.give_nonsense)
    audit = GroupAudit()
    for step in steps:
        solution = counterfactual(step, name)
        assert solution.status == "solved"
        problem = GroupProblem({"t": Topic(2)}, step.snapshot.members)
        expected = ("not_existing nowhere-2147483647", "not_existing t--1", "not_subscribed nowhere-2147483647 a")
        expected += ("multiply_owned t-0", "unassigned t-1")
        assert violations(problem, solution.assignment, name) == expected
        solutions = [AuditedSolution("counterfactual", name, solution.assignment)]
        (found,) = audit.advance(
            AuditedGeneration(step.snapshot.generation, 0, problem, (), True, True, False, False, evidence(1), solutions),
        )
        assert found.violations == expected
