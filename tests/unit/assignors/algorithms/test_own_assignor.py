"""The worked example of ``docs/own-assignor.md``, executed as it stands there."""

from __future__ import annotations

import configparser
import doctest
import re
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

import pytest

from assignors import GroupProblem, Member, Topic, assign, registry, violations

PAGE = (Path(__file__).parents[4] / "docs" / "own-assignor.md").read_text(encoding="utf-8")


def code_block(language: str) -> str:
    blocks = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 1, f"{len(blocks)} blocks of {language} instead of one"
    return blocks[0]


@pytest.fixture
def lag_weighted(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The page's module, importable under the name that the page gives it."""
    module = ModuleType("lag_weighted")
    exec(compile(code_block("python"), "docs/own-assignor.md", "exec"), module.__dict__)
    monkeypatch.setitem(sys.modules, "lag_weighted", module)
    registry.find_assignor.cache_clear()
    yield module
    registry.find_assignor.cache_clear()


def test_session_gives_what_the_page_shows(lag_weighted: ModuleType) -> None:
    session = doctest.DocTestParser().get_doctest(code_block("pycon"), {}, "docs/own-assignor.md", None, 0)
    results = doctest.DocTestRunner().run(session)
    assert (results.failed, results.attempted) == (0, 6)


def test_lags_of_the_example_are_those_on_the_page(lag_weighted: ModuleType) -> None:
    members = (Member("c1", ("orders", "audit")), Member("c2", ("orders",)), Member("c3", ("orders",)))
    problem = GroupProblem({"orders": Topic(4), "audit": Topic(2)}, members)

    def lag_of(strategy: str) -> list[int]:
        assignment = assign(strategy, problem)
        return [sum(lag_weighted.assign_by_lag.lags.get(partition, 0) for partition in assignment[member.member_id]) for member in members]

    assert lag_of("lag_weighted:assign_by_lag") == [905, 700, 610]
    assert lag_of("range") == [1605, 600, 10]


def test_entry_point_of_the_page_is_found_by_its_short_name(lag_weighted: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    setup = configparser.ConfigParser()
    setup.read_string(code_block("ini"))
    declared = dict(line.split(" = ") for line in setup["options.entry_points"][registry.ENTRY_POINT_GROUP].strip().splitlines())
    points = [EntryPoint(name, value, registry.ENTRY_POINT_GROUP) for name, value in declared.items()]
    monkeypatch.setattr(registry, "entry_points", lambda group: points if group == registry.ENTRY_POINT_GROUP else [])
    assert registry.find_assignor("lag-weighted") is lag_weighted.assign_by_lag


def test_example_is_sound_for_groups_of_every_shape(lag_weighted: ModuleType) -> None:
    topics = {"a": Topic(3), "b": Topic(None), "c": Topic(0), "orders": Topic(4)}
    for subscriptions in ([], [()], [("gone", "b")], [("a",), ("a", "a", "orders"), ()], [("orders",), ("c", "a")]):
        problem = GroupProblem(topics, tuple(Member(f"m{number}", subscribed) for number, subscribed in enumerate(subscriptions)))
        assignment = lag_weighted.assign_by_lag(problem)
        assert violations(problem, assignment) == ()
        assert list(assignment) == [member.member_id for member in problem.members]
