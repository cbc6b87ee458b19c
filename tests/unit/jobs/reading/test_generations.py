"""The generations of groups one after another: which are read, and what each has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assignors.audit.triggers import Trigger
from jobs.reading import generations as reading
from jobs.reading.generations import RecordedGeneration, read_generations
from jobs.reading.published import open_published
from jobs.reading.stored import GroupKey
from tests.builders.published_warehouse import at, generation, member, write_warehouse

TWO = [member("a-1", ["t"], {"t": [0]}), member("b-2", ["t"], {"t": [1]})]
KNOWN = {"previous_generation": 1, "generation_gap": 0, "triggers": ["member_joined", "partitions_added"]}
G, H = GroupKey("c", "g"), GroupKey("c", "h")


def read(folder: Path, *groups: GroupKey, seconds: float | None = None) -> list[RecordedGeneration]:
    """Return what is read of groups."""
    return list(read_generations(open_published(str(folder)), groups, None if seconds is None else at(seconds)))


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a warehouse with two groups whose positions interleave, and one of the same name in another cluster."""
    parts = [
        *(generation("g", position, TWO, {"t": position}, audited=KNOWN) for position in (9, 2, 11, 5)),
        *(generation("h", position, TWO, {"t": 2}, audited=KNOWN) for position in (5, 3)),
        generation("g", 4, TWO, {"t": 2}, cluster_id="d", audited=KNOWN),
    ]
    return write_warehouse(tmp_path_factory.mktemp("generations"), *parts)


def numbers(found: list[RecordedGeneration]) -> list[tuple[str, int]]:
    return [(one.key.group_id, one.generation.generation) for one in found]


@pytest.mark.parametrize("most", [1, 4, 7, 1_000])
def test_groups_come_one_after_another_however_they_are_sliced(warehouse: Path, monkeypatch: pytest.MonkeyPatch, most: int):
    monkeypatch.setattr(reading, "MEMBERS_AT_ONCE", most)
    found = read(warehouse, H, G)
    assert numbers(found) == [("g", 2), ("g", 5), ("g", 9), ("g", 11), ("h", 3), ("h", 5)]
    assert [one.generation.problem.topics["t"].partition_count for one in found] == [2, 5, 9, 11, 2, 2]


@pytest.mark.parametrize(("most", "calls"), [(1, 6), (6, 3), (9, 2), (18, 1)])
def test_so_many_members_are_in_memory(warehouse: Path, monkeypatch: pytest.MonkeyPatch, most: int, calls: int):
    """Six generations of two members, each counted as three."""
    monkeypatch.setattr(reading, "MEMBERS_AT_ONCE", most)
    slices: list[int] = []
    read_topics = reading.read_topics
    monkeypatch.setattr(reading, "read_topics", lambda tables, audits: slices.append(len(audits)) or read_topics(tables, audits))
    read(warehouse, G, H)
    assert (len(slices), sum(slices)) == (calls, 6)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (2, [("g", 2), ("g", 5), ("g", 9), ("g", 11), ("h", 3), ("h", 5)]),
        (11, [("g", 5), ("g", 9), ("g", 11)]),
        (5, [("g", 2), ("g", 5), ("g", 9), ("g", 11), ("h", 3), ("h", 5)]),
        (10, [("g", 5), ("g", 9), ("g", 11)]),
        (12, []),
    ],
)
def test_span_comes_with_the_two_generations_before_it(warehouse: Path, seconds: float, expected: list[tuple[str, int]]):
    assert numbers(read(warehouse, G, H, seconds=seconds)) == expected


def test_generation_has_what_snapshot_and_audit_say(tmp_path: Path):
    write_warehouse(tmp_path, generation("g", 3, TWO, {"t": 2, "gone": 0}, strategy="sticky", leader_client="sarama", audited=KNOWN))
    (found,) = read(tmp_path, G)
    assert (found.key, found.observed_at, found.is_next, found.previous_generation) == (G, at(3), True, 1)
    assert found.triggers == (Trigger.MEMBER_JOINED, Trigger.PARTITIONS_ADDED)
    assert (found.leader_client, found.kafka_version) == ("sarama", "3.7.0")
    assert (found.generation.strategy, list(found.generation.problem.topics)) == ("sticky", ["t"])
    assert found.generation.assignment == {"a-1": (("t", 0),), "b-2": (("t", 1),)}


@pytest.mark.parametrize(
    ("audited", "snapshot", "is_next"),
    [
        ({}, {}, True),
        ({"generation_gap": -1}, {}, True),
        ({"generation_gap": 1}, {}, False),
        ({"previous_generation": None, "generation_gap": None}, {}, False),
        ({}, {"is_generation_inferred": True}, False),
        ({}, {"has_subscriptions": False}, False),
    ],
    ids=["follows", "repeats", "gap", "first", "counted by the source", "without subscriptions"],
)
def test_generation_follows_the_one_before_where_none_can_be_in_between(
    tmp_path: Path, audited: dict[str, Any], snapshot: dict[str, Any], is_next: bool
):
    write_warehouse(tmp_path, generation("g", 3, TWO, {"t": 2}, audited={**KNOWN, **audited}, **snapshot))
    (found,) = read(tmp_path, G)
    assert found.is_next is is_next


def test_generation_whose_past_is_not_known_has_no_triggers(tmp_path: Path):
    write_warehouse(tmp_path, generation("g", 3, TWO, {"t": 2}, audited={"previous_generation": None, "triggers": None}))
    assert read(tmp_path, G)[0].triggers is None
