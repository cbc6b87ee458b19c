"""Which generation of a stored group is read, and what its members had."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignors.model import Member, Topic
from jobs.pages.figures import visible
from jobs.reading.groups import find_groups, in_batches, read_groups, read_named_groups
from jobs.reading.published import open_published
from jobs.reading.stored import Client, GroupKey, StoredGeneration
from jobs.runtime.errors import UsageError, WarehouseDamagedError
from tests.builders.published_warehouse import Row, at, generation, member, write_warehouse

ONE = [member("a-1", ["t"], {"t": [0, 1]})]
TWO = [member("a-1", ["t"], {"t": [0]}), member("b-2", ["t"], {"t": [1]})]


def read(folder: Path, *names: str, **options: object) -> list[StoredGeneration]:
    """Return what is read of the groups in a warehouse."""
    return read_groups(open_published(str(folder)), names, **options)  # type: ignore[arg-type]


def test_audit_whose_snapshot_is_gone_is_damage(tmp_path: Path):
    lost = {name: rows for name, rows in generation("g", 5, TWO, {"t": 2}).items() if name != "subscription_snapshots"}
    warehouse = write_warehouse(tmp_path, lost, generation("h", 5, TWO, {"t": 2}))
    assert [stored.key.group_id for stored in read(warehouse, "*")] == ["h"]
    with pytest.raises(WarehouseDamagedError, match="subscription_snapshots has no row of the audited generation of group 'g'; `verify`"):
        read(warehouse, "g")


def test_newest_settled_generation_with_members_is_read(tmp_path: Path):
    parts = [
        generation("g", 5, TWO, {"t": 2}),
        generation("g", 9, ONE, {"t": 2}, strategy="sticky"),
        generation("g", 20, TWO, {"t": 2}, is_settled=False),
        generation("g", 30, [], {}),
        generation("g", 31, [], {}),
    ]
    (stored,) = read(write_warehouse(tmp_path, *parts), "g")
    assert (stored.key, stored.generation.generation, stored.generation.strategy) == (GroupKey("c", "g"), 9, "sticky")
    assert (stored.observed_at, stored.until, stored.empty_since, stored.ended_at) == (at(9), at(20), at(30), None)
    assert stored.kafka_version == "3.7.0"


def test_members_have_all_that_their_snapshot_has(tmp_path: Path):
    claims = {"owned": [{"topic": "t", "partitions": [1, 0]}], "owned_generation": 4, "user_data": b"x"}
    one = member("a-1", ["t", "u"], {"u": [0], "t": [1, 0]}, group_instance_id="i", rack="r", **claims)
    (stored,) = read(write_warehouse(tmp_path, generation("g", 1, [one], {"t": 2, "u": 1}, racks=[["r", None], ["s"]])), "g")
    assert stored.generation.problem.members == (Member("a-1", ("t", "u"), "i", "r", (("t", 1), ("t", 0)), 4, b"x"),)
    assert stored.generation.problem.topics["t"] == Topic(2, (("r", None), ("s",)))
    assert stored.generation.assignment == {"a-1": (("u", 0), ("t", 1), ("t", 0))}
    assert stored.clients == {"a-1": Client("a", "/10.0.0.1", 45_000)}
    assert (stored.until, stored.empty_since, stored.is_consumer_protocol, stored.has_subscriptions) == (None, None, False, True)


def test_topic_that_is_gone_is_no_topic_of_the_group(tmp_path: Path):
    (stored,) = read(write_warehouse(tmp_path, generation("g", 1, ONE, {"t": 2, "gone": 0})), "g")
    assert list(stored.generation.problem.topics) == ["t"]


@pytest.mark.parametrize(
    ("offset", "value", "is_deleted"), [(2, None, True), (2, b"", False), (0, None, False)], ids=["tombstone", "record", "earlier life"]
)
def test_group_is_deleted_by_a_tombstone_after_its_last_snapshot(tmp_path: Path, offset: int, value: bytes | None, is_deleted: bool):
    record: Row = {"cluster_id": "c", "group_id": "g", "type": 2, "offset": offset, "timestamp": at(7), "value": value}
    (stored,) = read(write_warehouse(tmp_path, generation("g", 1, ONE, {"t": 2}), {"group_records": [record]}), "g")
    assert (stored.ended_at, stored.until) == ((at(7), at(7)) if is_deleted else (None, None))


@pytest.fixture(scope="module")
def groups(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a warehouse with two clusters, a group that has never had members, and one whose name is a pattern."""
    parts = [generation(name, 1, ONE, {"t": 2}) for name in ("payments", "payouts", "a[b]c", "abc")]
    parts += [generation("payments", 1, TWO, {"t": 2}, cluster_id="d"), generation("empty", 1, [], {})]
    parts += [generation("moving", 1, ONE, {"t": 2}, is_settled=False)]
    return write_warehouse(tmp_path_factory.mktemp("w"), *parts)


@pytest.mark.parametrize(
    ("names", "options", "expected"),
    [
        (["payments"], {}, ["c/payments", "d/payments"]),
        (["payments"], {"cluster_id": "d"}, ["d/payments"]),
        (["pay*"], {}, ["c/payments", "c/payouts", "d/payments"]),
        (["payouts", "abc"], {}, ["c/abc", "c/payouts"]),
        (["a[b]c"], {}, ["c/a[b]c"]),
        (["a?c"], {}, ["c/abc"]),
        (["*"], {"cluster_id": "d"}, ["d/payments"]),
        ([], {"every_group": True}, ["c/a[b]c", "c/abc", "c/payments", "c/payouts", "d/payments"]),
    ],
)
def test_groups_are_chosen_by_name_and_pattern(groups: Path, names: list[str], options: dict[str, object], expected: list[str]):
    assert [f"{one.key.cluster_id}/{one.key.group_id}" for one in read(groups, *names, **options)] == expected


@pytest.mark.parametrize(
    ("names", "options", "message"),
    [
        (["paymets"], {}, r"^group 'paymets': not among the groups of the warehouse, the nearest names are 'payments', 'payouts'$"),
        (["zzzzz\n"], {}, r"^group 'zzzzz\\n': .* of which there are 6, none with a similar name$"),
        (["q*"], {}, r"^groups 'q\*': the pattern matches none of the 7 groups of the warehouse$"),
        (["payments"], {"cluster_id": "e"}, r"^cluster 'e': found no group of it, "),
        (["pay*"], {"cluster_id": "e"}, r"^cluster 'e': found no group of it, "),
        (["payouts"], {"cluster_id": "d"}, r"^group 'payouts': not among the groups of cluster 'd', the nearest names are 'payments'$"),
        (
            ["empty"],
            {},
            r"^group 'empty' of cluster 'c': found no settled generation with members among 1; .* 02:00:01 UTC, has no members$",
        ),
        (["moving"], {}, r"still hands over partitions$"),
        (["emp*"], {}, r"^groups 'emp\*': none has a settled generation with members$"),
    ],
)
def test_groups_that_cannot_be_chosen_are_one_line(groups: Path, names: list[str], options: dict[str, object], message: str):
    with pytest.raises(UsageError, match=message):
        read(groups, *names, **options)


def test_named_group_that_cannot_be_read_is_a_refusal_where_another_can(groups: Path):
    tables = open_published(str(groups))
    found = read_named_groups(tables, ["payouts", "moving", "empty", "emp*"])
    assert (
        [one.key.group_id for one in found.groups] == ["payouts"] == [one.key.group_id for one in read_groups(tables, ["payouts", "empty"])]
    )
    assert [str(one).partition(":")[0] for one in found.refusals] == ["group 'empty' of cluster 'c'", "group 'moving' of cluster 'c'"]
    assert read_named_groups(tables, ["payouts", "em*"]).refusals == []


def test_found_groups_have_the_number_of_their_generations(tmp_path: Path):
    parts = [generation("b", position, ONE, {"t": 2}, under={"sticky": {}}) for position in (1, 2, 3)]
    write_warehouse(tmp_path, *parts, generation("a", 1, [], {}), generation("b", 1, ONE, {"t": 2}, cluster_id="d"))
    tables = open_published(str(tmp_path))
    everything = {GroupKey("c", "a"): 1, GroupKey("c", "b"): 3, GroupKey("d", "b"): 1}
    assert list(find_groups(tables, [], every_group=True).items()) == list(everything.items())
    assert find_groups(tables, ["b"], cluster_id="c") == {GroupKey("c", "b"): 3}
    assert find_groups(tables, ["?"], cluster_id="d") == {GroupKey("d", "b"): 1}


@given(st.lists(st.integers(1, 9), max_size=12), st.integers(1, 12))
def test_batches_are_as_large_as_they_may_be(counts: list[int], most: int):
    groups = {GroupKey("c", str(number)): count for number, count in enumerate(counts)}
    batches = list(in_batches(groups, most))
    assert [key for batch in batches for key in batch] == list(groups)
    sizes = [sum(groups[key] for key in batch) for batch in batches]
    assert all(len(batch) == 1 or size <= most for batch, size in zip(batches, sizes, strict=True))
    assert all(size + groups[after[0]] > most for size, after in zip(sizes, batches[1:], strict=False))


@pytest.mark.parametrize("name", ["DOMAIN\\svc", "two\nlines", "\x1b[31mred", " a  b ", "\U0001f469\u200d", "plain", "[x]*"])
def test_group_is_found_by_the_name_that_pages_show(name: str, tmp_path: Path):
    """A summary's next command has it, and a terminal must not obey the real one."""
    tables = open_published(str(write_warehouse(tmp_path, generation(name, 5, ONE, {"t": 2}), generation("other", 5, ONE, {"t": 2}))))
    assert list(find_groups(tables, [visible(name)])) == list(find_groups(tables, [name])) == [GroupKey("c", name)]


def test_name_with_an_escape_of_its_own_comes_before_the_name_that_it_shows(tmp_path: Path):
    tables = open_published(str(write_warehouse(tmp_path, *(generation(name, 5, ONE, {"t": 2}) for name in ("a\\\\b", "a\\b")))))
    assert list(find_groups(tables, ["a\\\\b"])) == [GroupKey("c", "a\\\\b")]
    assert list(find_groups(tables, ["a\\b"])) == [GroupKey("c", "a\\b")]
    with pytest.raises(UsageError, match="not among the groups"):
        find_groups(tables, ["\\ud800"])
