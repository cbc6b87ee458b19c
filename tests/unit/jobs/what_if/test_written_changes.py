"""The options that ``what-if --save`` takes, and how one such run differs from another."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path

import pytest

from jobs.parser import parse
from jobs.runtime.arguments import option
from jobs.runtime.errors import UsageError
from jobs.what_if.changes import Changes
from jobs.what_if.options import WhatIfOptions
from jobs.what_if.written_changes import WrittenChanges, check_save, read_changes


def options(words: str) -> WhatIfOptions:
    found = parse(["what-if", *words.split()]).options
    assert isinstance(found, WhatIfOptions)
    return found


def test_keys_of_a_file_are_the_changes_that_workers_know() -> None:
    assert [*WrittenChanges.model_fields] == [one.name for one in fields(Changes)]
    assert WrittenChanges().changes() == Changes()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("g --json", "--save excludes --json: it writes the results of changes"),
        ("g --history", "--save excludes --history: it writes the results of changes"),
        ("--all --migrate", "--save excludes --migrate: it writes the results of changes"),
        ("", "what-if: found no group, expected names, patterns or --all"),
        ("g --all", "--all excludes names of groups"),
        ("g --strategies rang", "--strategies: "),
        ("g --members 2..3 --add-members 1", "--members excludes --add-members"),
        ("g --threads-per-member 2", "--threads-per-member needs --members, or a number of members that join or leave"),
        ("g --threads-per-member 2 --add-members a,b", "--threads-per-member needs --members, or a number of members that join or leave"),
    ],
)
def test_save_refuses_what_it_cannot_save_before_spark_starts(words: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        check_save(options(f"{words} --save"))
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("add_members: 1000000", "add_members: expected a count up to 100000, found 1000000"),
        ("partitions: {orders: 1000000000}", "partitions.orders: expected a count up to 100000, found 1000000000"),
    ],
)
def test_counts_of_a_file_are_no_larger_than_those_of_options(tmp_path: Path, written: str, message: str) -> None:
    """More of them would only be members and partitions without end in memory."""
    path = tmp_path / "scenarios.yaml"
    path.write_text(f"big: {{{written}}}")
    with pytest.raises(UsageError) as refused:
        read_changes(options(f"g --scenario {path}"))
    assert str(refused.value) == f"--scenario {path}: scenario 'big': {message}"


@pytest.mark.parametrize(
    "written",
    ["add_members: true", "remove_members: yes", "partitions: {orders: on}"],
)
def test_a_truth_value_is_no_count(tmp_path: Path, written: str) -> None:
    """YAML reads yes and on as true, which Python takes for 1."""
    path = tmp_path / "scenarios.yaml"
    path.write_text(f"more: {{{written}}}")
    with pytest.raises(UsageError, match=r"expected a number, not a truth value"):
        read_changes(options(f"g --scenario {path}"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--add-members 1001 --threads-per-member 100", "--add-members with --threads-per-member: found 1001 members of 100 consumers, "),
        ("--members 2..1001 --threads-per-member 100", "--members with --threads-per-member: found 1001 members of 100 consumers, "),
    ],
)
def test_members_of_many_consumers_are_no_more_than_a_group_can_have(words: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_changes(options(f"g {words}"))
    assert str(refused.value) == f"{message}expected at most 100000 consumers"
    read_changes(options(f"g {words.replace('1001', '1000')}"))


def test_runs_differ_by_groups_changes_and_the_content_of_a_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "scenarios.yaml"
    path.write_text("more: {add_members: 1}")
    words = ("g --save", "h --save", "g --save --add-members 1", f"g --save --scenario {path}")
    assert len({options(one).identity() for one in words}) == len(words)
    before = options(words[-1]).identity()
    assert options(f"{words[-1]} --run-id a --wait 3 --warehouse elsewhere --log-format json").identity() == before
    path.write_text("more: {add_members: 2}")
    assert options(words[-1]).identity() != before


@dataclass(frozen=True, kw_only=True)
class _LaterOptions(WhatIfOptions):
    """Those of a later release, which has one more."""

    spare: int = option(0)


def test_an_option_that_a_later_release_adds_does_not_make_another_run() -> None:
    """The digest of this text is stored in ``runs``: another one would refuse the same call after an upgrade."""
    now = options("g h --save --add-members 1 --rack a=b")
    assert now.identity() == "{'groups': ('g', 'h'), 'add_members': 1, 'rack': (('a', 'b'),), 'save': True}"
    later = _LaterOptions(**vars(now))
    assert later.identity() == now.identity() != replace(later, spare=1).identity()
