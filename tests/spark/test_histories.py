"""Which life of its group a snapshot belongs to, and what late records of KIP-848 groups change."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from jobs.land.deduplication import recorded_members
from jobs.land.group_history import assign_incarnations, ends_of_groups, mark_conflicts, number_generations
from schemas.tables import GROUP_RECORDS
from tests.builders.consumer_group_records import TOPIC_IDS, Log
from tests.builders.frames import EPOCH, entries, frame, member_row, snapshot_row, snapshots
from tests.builders.tables import COMPARED, content, rows

CLASSIC, CONSUMER = 2, 3
ENDS = "cluster_id string, group_id string, position bigint, type int, is_handover boolean"


# -- what a source does not have


def numbers(spark: SparkSession, *given: tuple[int, str, int | None], retained_from: date | None = None) -> list[int]:
    """Return the generations of looks: (position, fingerprint, generation that is stored); those from 100 on are of a later month."""
    shown = [
        {
            "cluster_id": "c",
            "group_id": "g",
            "position": position,
            "fingerprint": content,
            "generation": number,
            "is_generation_inferred": True,
        }
        | {"observed_month": date(2026, 2 if position >= 100 else 1, 1)}
        for position, content, number in given
    ]
    known = {"cluster_id": "c", "group_id": "g", "position": 50, "fingerprint": "z", "generation": 70, "is_generation_inferred": False}
    numbered = number_generations(snapshots(spark, *reversed(shown), known), retained_from).orderBy("position").collect()
    assert [row["generation"] for row in numbered if not row["is_generation_inferred"]] == [70]
    return [row["generation"] for row in numbered if row["is_generation_inferred"]]


def test_differing_snapshots_get_inferred_generations(spark: SparkSession) -> None:
    assert numbers(spark, (1, "a", None), (2, "a", None), (3, "b", None), (4, "a", None), (5, "a", None)) == [1, 1, 2, 3, 3]


def test_earlier_snapshot_raises_later_inferred_generations(spark: SparkSession) -> None:
    assert numbers(spark, (1, "b", None), (2, "a", 1), (3, "a", 1), (4, "b", 2)) == [1, 2, 2, 3]


def test_inferred_generations_stay_after_retention(spark: SparkSession) -> None:
    later = date(2026, 2, 1)
    assert numbers(spark, (1, "a", 4), (9, "c", 9), (100, "d", 10), (101, "e", None), retained_from=later) == [4, 9, 10, 11]
    assert numbers(spark, (100, "d", 10), (101, "d", None), (102, "e", None), retained_from=later) == [10, 10, 11]


def test_unknown_subscriptions_are_all_topics_that_the_group_owns(spark: SparkSession) -> None:
    members = [member_row("a", topics=None, owned=None, assigned=entries(u=[1], t=[0])), member_row("b", topics=None)]
    members += [member_row("c", topics=["x"], owned=entries(x=[4]))]
    rows = snapshots(spark, snapshot_row("g", 1, *members), snapshot_row("h", 1, member_row("a")), snapshot_row("i", 1))
    found = rows.withColumns(recorded_members(rows["members"])).orderBy("group_id").collect()
    assert [row["has_subscriptions"] for row in found] == [False, True, True]
    assert [member["topics"] for member in found[0]["members"]] == [["t", "u"], ["t", "u"], ["x"]]
    assert [member["member_id"] for member in found[0]["members"]] == ["a", "b", "c"]
    assert [len(member["owned"]) for member in found[0]["members"]] == [0, 0, 1]
    assert [member["topics"] for member in found[1]["members"]] == [["t"]]


# -- incarnations


Event = tuple[int, int | None, str]


_CLASSIC_MEMBER = member_row("a", session_timeout_ms=8_000, owned_generation=None)
UNDER_CONSUMER = {
    "consumer": [_CLASSIC_MEMBER | {"owned_generation": 3}],
    "newcomer": [member_row("n")],
    "unassigned": [_CLASSIC_MEMBER, _CLASSIC_MEMBER | {"member_id": "b"}],
}
"""Members of a snapshot of the consumer protocol, by its word in the events.

A member of the classic protocol in its third epoch; a new member of the other one; members of the classic protocol before any epoch.
"""


def incarnations(spark: SparkSession, groups: Mapping[str, Sequence[Event]]) -> dict[str, list[tuple[int, bool]]]:
    """Return incarnation and is_conversion of each snapshot of each group; one query for all of them.

    Args:
        groups: by name its events: (position, generation, state) of a classic snapshot, with a word of ``UNDER_CONSUMER`` in place of the
            state of one of the other protocol; or (position, None, record type) of a tombstone, with ``+`` after the type of one whose
            batch goes on.
    """
    events = [(group, *event) for group, of_group in groups.items() for event in of_group]
    alive = [
        {"position": position, "generation": number, "state": "Stable" if text in UNDER_CONSUMER else text}
        | {"cluster_id": "c", "group_id": group, "group_type": "consumer" if text in UNDER_CONSUMER else "classic"}
        | {"members": UNDER_CONSUMER.get(text, [])}
        for group, position, number, text in events
        if number is not None
    ]
    ended = [
        ("c", group, position, int(text.rstrip("+")), text.endswith("+")) for group, position, number, text in events if number is None
    ]
    named = assign_incarnations(snapshots(spark, *alive), spark.createDataFrame(ended, ENDS)).collect()
    found: dict[str, list[tuple[int, bool]]] = {group: [] for group in groups}
    for row in sorted(named, key=lambda row: row["position"]):
        found[row["group_id"]].append((row["incarnation"], row["is_conversion"]))
    return found


LIVES: dict[str, tuple[list[Event], list[int]]] = {
    "one life, emptied between": ([(5, 0, "Empty"), (6, 1, "Stable"), (9, 2, "Empty"), (11, 3, "Stable")], [5] * 4),
    "a repeated generation": ([(5, 1, "Stable"), (6, 1, "Stable")], [5, 5]),
    "a lower generation": ([(5, 7, "Stable"), (6, 2, "Stable"), (7, 3, "Stable")], [5, 6, 6]),
    "a tombstone between, though generations go on": ([(5, 1, "Stable"), (7, None, "2"), (8, 2, "Stable")], [5, 8]),
    "a tombstone first": ([(4, None, "2"), (5, 1, "Stable")], [5]),
    "two tombstones": ([(5, 1, "Stable"), (6, None, "2"), (7, None, "2"), (8, 0, "Empty"), (9, 1, "Stable")], [5, 8, 8]),
    "a tombstone last": ([(5, 1, "Stable"), (6, None, "2")], [5]),
    "handovers": ([(5, 3, "Stable"), (6, None, "2+"), (9, 4, "consumer"), (10, None, "3+"), (11, 5, "Empty")], [5] * 3),
    "a handover to a lower generation": ([(5, 3, "Stable"), (6, None, "2+"), (9, 2, "consumer")], [5, 9]),
    "an end, then a handover": ([(5, 3, "Stable"), (6, None, "2"), (7, None, "3+"), (9, 4, "Empty")], [5, 9]),
}
"""Events of a group, and the incarnation of each snapshot."""
ENDED: dict[str, tuple[int, int, str, bool]] = {
    "the coordinator turned the group back": (CONSUMER, 11, "Stable", True),
    "a classic group ended": (CLASSIC, 11, "Stable", False),
    "nobody is given anything": (CONSUMER, 11, "Empty", False),
    "the group began anew": (CONSUMER, 1, "Stable", False),
}
"""Type of a tombstone, generation and state of the first value after it, and whether that is a conversion."""
CONVERTED: dict[str, tuple[list[Event], list[bool]]] = {
    "turned over": ([(5, 3, "Stable"), (6, None, "2+"), (9, 3, "consumer"), (12, 4, "consumer")], [False, True, False]),
    "turned over and assigned at once": ([(5, 3, "Stable"), (6, None, "2+"), (9, 4, "consumer")], [False, False]),
    "turned over while a rebalance was open": (
        [(5, 3, "Stable"), (6, None, "2+"), (9, 4, "unassigned"), (12, 5, "consumer")],
        [False, True, False],
    ),
    "turned over while the first rebalance was open": ([(5, 0, "Empty"), (6, None, "2+"), (9, 0, "unassigned")], [False, True]),
    "in the place of an empty group": ([(5, 1, "Empty"), (6, None, "2+"), (9, 1, "newcomer")], [False, False]),
    "members that a target of their own follows": ([(5, 3, "consumer"), (9, 4, "unassigned")], [False, False]),
    "turned back": ([(5, 3, "consumer"), (6, None, "3+"), (9, 3, "Stable"), (10, 4, "Stable")], [False, True, False]),
    "turned back, and the tombstone compacted away": ([(5, 3, "consumer"), (9, 4, "Stable")], [False, True]),
    "turned over, from nobody knows what": ([(6, None, "2+"), (9, 3, "consumer"), (12, 4, "consumer")], [True, False]),
    "a member of a group that only committed offsets": ([(6, None, "2+"), (9, 1, "newcomer"), (12, 2, "consumer")], [False, False]),
    "another group of that name": ([(6, None, "2"), (9, 3, "consumer")], [False]),
}
"""Events of a group, and whether each snapshot is a conversion."""


@pytest.fixture(scope="module")
def lived(spark: SparkSession) -> dict[str, list[tuple[int, bool]]]:
    """Return incarnation and is_conversion of each snapshot of all the groups above."""
    ended: dict[str, list[Event]] = {
        name: [(5, None, str(tombstone)), (6, generation, state), (7, generation + 1, "Stable")]
        for name, (tombstone, generation, state, _) in ENDED.items()
    }
    events = {name: events for cases in (LIVES, CONVERTED) for name, (events, _) in cases.items()}
    assert len({**events, **ended}) == len(LIVES) + len(CONVERTED) + len(ENDED), "each is a group of its own"
    return incarnations(spark, {**events, **ended})


@pytest.mark.parametrize("name", LIVES)
def test_a_life_ends_with_a_tombstone_or_a_lower_generation(name: str, lived: dict[str, list[tuple[int, bool]]]) -> None:
    assert lived[name] == [(position, False) for position in LIVES[name][1]]


@pytest.mark.parametrize("name", ENDED)
def test_conversion_is_recognised_in_the_first_classic_record_after_a_tombstone(
    name: str, lived: dict[str, list[tuple[int, bool]]]
) -> None:
    assert lived[name] == [(6, ENDED[name][-1]), (6, False)]


@pytest.mark.parametrize("name", CONVERTED)
def test_snapshots_written_at_a_conversion_are_marked(name: str, lived: dict[str, list[tuple[int, bool]]]) -> None:
    assert [is_conversion for _, is_conversion in lived[name]] == CONVERTED[name][1]


def test_a_late_first_snapshot_renames_the_incarnation(spark: SparkSession) -> None:
    """Positions 6 and 7 were stored as incarnation 6; then 5, of an older piece of the log, arrives."""
    late = (5, 1, "Stable")
    stored = [(6, 2, "Stable"), (7, 3, "Stable")]
    found = incarnations(spark, {"before": stored, "then": [*stored, late]})
    assert found == {"before": [(6, False)] * 2, "then": [(5, False)] * 3}


def test_incarnations_stay_after_retention(spark: SparkSession) -> None:
    """Between 3 and 5 a handover was: the records that show it are gone. 7, of a kept month, follows the last of the old ones."""
    month = {"old": date(2020, 1, 1), "young": date(2021, 1, 1)}
    rows = [
        {"position": 3, "generation": 1, "observed_month": month["old"], "incarnation": 3, "is_conversion": False},
        {"position": 5, "generation": 2, "observed_month": month["old"], "incarnation": 3, "is_conversion": True},
        {"position": 7, "generation": 3, "observed_month": month["young"], "incarnation": None, "is_conversion": None},
    ]
    of_group = {"cluster_id": "c", "group_id": "g", "state": "Stable", "group_type": "classic"}
    ends = spark.createDataFrame([("c", "g", 4, CLASSIC, False)], ENDS)
    named = assign_incarnations(snapshots(spark, *[of_group | row for row in rows]), ends, month["young"]).orderBy("position").collect()
    assert [(row["incarnation"], row["is_conversion"]) for row in named] == [(3, False), (3, True), (3, False)]


def test_groups_and_clusters_have_lives_of_their_own(spark: SparkSession) -> None:
    rows = [
        {"cluster_id": cluster, "group_id": group, "position": position, "generation": position, "state": "Stable"}
        for cluster, group, position in (("c", "g", 1), ("c", "h", 2), ("d", "g", 3), ("c", "g", 4))
    ]
    none = spark.createDataFrame([], ENDS)
    named = assign_incarnations(snapshots(spark, *rows), none).orderBy("position").collect()
    assert [row["incarnation"] for row in named] == [1, 2, 3, 1]


BATCHES: dict[str, tuple[dict[int, tuple[int, bytes | None]], list[tuple[int, int, bool]]]] = {
    "turned over": ({4: (2, None), 5: (5, b"m"), 6: (3, b"e")}, [(4, 2, True)]),
    "turned back": ({4: (3, None), 5: (5, None), 6: (2, b"v")}, [(4, 3, True)]),
    "another record was written between": ({4: (2, None), 6: (3, b"e")}, [(4, 2, False)]),
    "the same protocol again": ({4: (2, None), 5: (2, b"v")}, [(4, 2, False)]),
    "only tombstones after it": ({4: (2, None), 5: (5, None)}, [(4, 2, False)]),
    "a value before it": ({3: (3, b"e"), 4: (2, None)}, [(4, 2, False)]),
    "members come and go": ({4: (8, None), 5: (7, None), 6: (5, b"m")}, []),
}
"""Type and value of a group's records by offset; position, type and is_handover of the tombstones that ended something."""


@pytest.fixture(scope="module")
def ended(spark: SparkSession) -> dict[str, list[tuple[int, int, bool]]]:
    """Return the ends of all groups above, each in a cluster of its own with another group at the same offsets of another partition."""
    stored = [
        {"cluster_id": name, "group_id": group, "offset": offset, "type": kind, "value": value if group == "g" else b"v"}
        for name, (log, _) in BATCHES.items()
        for offset, (kind, value) in log.items()
        for group in "gh"
    ]
    found: dict[str, list[tuple[int, int, bool]]] = {name: [] for name in BATCHES}
    for row in ends_of_groups(frame(spark, GROUP_RECORDS.schema, stored), snapshots(spark)).collect():
        found[row["cluster_id"]].append((row["position"], row["type"], row["is_handover"]))
    return found


@pytest.mark.parametrize("name", BATCHES)
def test_tombstone_whose_batch_continues_is_a_conversion(name: str, ended: dict[str, list[tuple[int, int, bool]]]) -> None:
    assert sorted(ended[name]) == BATCHES[name][1]


def test_classic_values_are_in_the_snapshots(spark: SparkSession) -> None:
    records = frame(spark, GROUP_RECORDS.schema, [{"cluster_id": "c", "group_id": "g", "offset": 4, "type": 3, "value": None}])
    turned = [{"cluster_id": "c", "group_id": "g", "position": 5}]
    assert [row["is_handover"] for row in ends_of_groups(records, snapshots(spark, *turned)).collect()] == [True]


# -- disputes


DISPUTES: dict[str, tuple[list[int], list[int]]] = {
    "none": ([], []),
    "at a snapshot": ([5], [5]),
    "before one": ([3, 4], [5]),
    "before all": ([0], [2]),
    "after all": ([9], [8]),
    "several": ([2, 6, 30], [2, 8]),
}
"""Disputed places in a group, and its snapshots that carry them; there are snapshots at 2, 5 and 8."""


def test_conflict_is_marked_on_the_next_snapshot(spark: SparkSession) -> None:
    """Each case in a cluster of its own, beside a group that nobody disputes."""
    keys = [{"cluster_id": name, "position": position} for name in DISPUTES for position in (2, 5, 8)]
    unmarked = snapshots(spark, *[snapshot_row(group, 1, **key) for key in keys for group in "gh"])
    positions = [(name, "g", position) for name, (positions, _) in DISPUTES.items() for position in positions]
    found = spark.createDataFrame(positions, "cluster_id string, group_id string, position bigint")
    marked = mark_conflicts(unmarked.drop("has_conflict"), found).where("has_conflict").collect()
    expected = [(name, "g", position) for name, (_, carriers) in DISPUTES.items() for position in carriers]
    assert sorted((row["cluster_id"], row["group_id"], row["position"]) for row in marked) == sorted(expected)


def test_conflict_marks_stay_after_retention(spark: SparkSession) -> None:
    """What contradicted them may be gone from quarantine."""
    months = {1: date(2026, 1, 1), 2: date(2026, 1, 1), 3: date(2026, 2, 1)}
    unmarked = snapshots(spark, *[snapshot_row("g", number, observed_month=month) for number, month in months.items()])
    unmarked = unmarked.drop("has_conflict").withColumn("old_has_conflict", unmarked["position"] != 2)
    marked = mark_conflicts(unmarked, None, months[3]).orderBy("position").collect()
    assert [row["has_conflict"] for row in marked] == [True, False, False]


# -- records in any order


def write_records(path: Path, log: Log, offsets: list[int]) -> Path:
    """Write some records of a log as a capture."""
    chosen = [log.records[offset] for offset in offsets]
    columns = {
        "key": pa.array([record.key for record in chosen], pa.binary()),
        "value": pa.array([record.value for record in chosen], pa.binary()),
        "partition": pa.array([record.offsets_partition for record in chosen], pa.int32()),
        "offset": pa.array([record.offset for record in chosen], pa.int64()),
        "timestamp": pa.array([EPOCH + timedelta(milliseconds=record.timestamp_ms) for record in chosen], pa.timestamp("us", "UTC")),
    }
    pq.write_table(pa.table(columns), path)
    return path


def write_look(path: Path, **partition_counts: int) -> Path:
    """Write a look at a cluster, taken before everything."""
    topics = [
        {"topic": topic, "topic_id": TOPIC_IDS[topic], "partitions": [{"partition": number} for number in range(count)]}
        for topic, count in partition_counts.items()
    ]
    path.write_text(json.dumps({"observed_at_ms": 0, "brokers": [], "topics": topics}) + "\n")
    return path


def history() -> Log:
    """Return a group's life: a member, a second one, the first one leaves, then the other."""
    log = Log()
    log.member("a", "t")
    log.epoch(1)
    log.target("a", t=[0, 1])
    log.target_epoch(1)
    log.current("a", 1, t=[0, 1])
    log.member("b", "t")
    log.epoch(2)
    log.target("a", t=[0])
    log.target("b", t=[1])
    log.target_epoch(2)
    log.current("a", 2, t=[0])
    log.current("b", 2, t=[1])
    log.leave("a")
    log.epoch(3)
    log.target("b", t=[0, 1])
    log.target_epoch(3)
    log.current("b", 3, t=[0, 1])
    log.leave("b")
    log.epoch(4)
    return log


@pytest.fixture(scope="module")
def at_once(make_tables, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse in which the whole life has landed at once."""
    folder = tmp_path_factory.mktemp("at_once")
    log = history()
    inputs = [write_records(folder / "all.parquet", log, list(range(len(log.records)))), write_look(folder / "look.jsonl", t=2)]
    assert make_tables("run", "--warehouse", folder / "warehouse", "--input", *inputs) == 0
    return folder / "warehouse"


def assert_equal(found: Path, expected: Path, names: Sequence[str] = COMPARED) -> None:
    assert {name: content(found, name) for name in names} == {name: content(expected, name) for name in names}


def epochs(warehouse: Path) -> list[tuple[int, int]]:
    found = rows(warehouse, "subscription_snapshots")
    return sorted((row["position"], row["generation"]) for row in found)


def test_consumer_protocol_group_has_epochs_movements_and_reconciliations(at_once: Path) -> None:
    observed = {row["generation"]: row for row in rows(at_once, "generation_audits") if row["basis"] == "observed"}
    assert epochs(at_once) == [(3, 1), (9, 2), (17, 3), (22, 4)]
    assert {epoch: row["movement_count"] for epoch, row in observed.items()} == {1: 0, 2: 1, 3: 1, 4: 0}
    assert {epoch: row["conformance"] for epoch, row in observed.items()} == {1: "exact", 2: "exact", 3: "exact", 4: "not_comparable"}
    assert {epoch: row["reconciled_at"] and int(row["reconciled_at"].timestamp()) for epoch, row in observed.items()} == {
        **{1: 4, 2: 11, 3: 18, 4: None}
    }
    targets = {epoch: (row["epoch_at"], row["is_superseded"], row["batched_epoch_count"]) for epoch, row in observed.items()}
    assert {epoch: (int(at.timestamp()), *rest) for epoch, (at, *rest) in targets.items()} == {
        **{1: (1, False, None), 2: (6, False, 0), 3: (15, False, 0), 4: (22, None, 0)}
    }


EPOCHS_BEFORE_MEMBERS = [[1, 6, 9, 15, 17, 22], [0, 2, 3, 4, 5, 7, 8, 10, 11, 12, 13, 14, 16, 18, 19, 20, 21]]
BY_AUDIT = ("movements", "generation_audits", "findings")


def test_assignments_of_epochs_that_came_before_their_members_are_taken_back(make_tables, at_once: Path, tmp_path: Path) -> None:
    """Without them they look like empty groups."""
    log, warehouse, look = history(), tmp_path / "warehouse", write_look(tmp_path / "look.jsonl", t=2)
    for number, offsets in enumerate(EPOCHS_BEFORE_MEMBERS):
        piece = write_records(tmp_path / f"{number}.parquet", log, offsets)
        assert make_tables("land", "--warehouse", warehouse, "--input", piece, look) == 0
        assert make_tables("assign", "--warehouse", warehouse) == 0
    assert_equal(warehouse, at_once, [name for name in COMPARED if name not in BY_AUDIT])


@pytest.mark.slow
@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([list(range(10, 23)), list(range(10))], id="the second half first"),
        pytest.param(EPOCHS_BEFORE_MEMBERS, id="epochs before members"),
        pytest.param([[22], list(range(22))], id="the end first"),
        pytest.param([list(range(19)), [19, 20, 21, 22]], id="in order"),
    ],
)
def test_pieces_in_any_order_give_what_the_whole_gives(pieces: list[list[int]], make_tables, at_once: Path, tmp_path: Path) -> None:
    """Epochs without their members look like empty groups: what was worked out of these is taken back."""
    log, warehouse, look = history(), tmp_path / "warehouse", write_look(tmp_path / "look.jsonl", t=2)
    for number, offsets in enumerate(pieces):
        piece = write_records(tmp_path / f"{number}.parquet", log, offsets)
        assert make_tables("run", "--warehouse", warehouse, "--input", piece, look) == 0
    assert_equal(warehouse, at_once)


@pytest.mark.slow
def test_late_topic_name_gives_the_tables_of_timely_arrival(make_tables, at_once: Path, tmp_path: Path) -> None:
    log, warehouse = history(), tmp_path / "warehouse"
    everything = write_records(tmp_path / "all.parquet", log, list(range(len(log.records))))
    assert make_tables("run", "--warehouse", warehouse, "--input", everything) == 0
    observed = [row for row in rows(warehouse, "generation_audits") if row["basis"] == "observed"]
    assert {row["conformance"] for row in observed} == {"not_comparable"}
    topics = [entry["topic"] for row in rows(warehouse, "assignments") if row["basis"] == "observed" for entry in row["partitions"]]
    assert set(topics) == {f"id:{TOPIC_IDS['t']}"}
    assert make_tables("run", "--warehouse", warehouse, "--input", write_look(tmp_path / "look.jsonl", t=2)) == 0
    assert_equal(warehouse, at_once)


@pytest.mark.slow
def test_stored_snapshots_are_not_written_again(make_tables, at_once: Path, tmp_path: Path) -> None:
    log, warehouse = history(), tmp_path / "warehouse"
    look = write_look(tmp_path / "look.jsonl", t=2)
    for number, last in enumerate((19, 23)):
        piece = write_records(tmp_path / f"{number}.parquet", log, list(range(last)))
        assert make_tables("run", "--warehouse", warehouse, "--input", piece, look) == 0
    found: dict[int, Any] = {row["position"]: row["run_sequence"] for row in rows(warehouse, "subscription_snapshots")}
    assert found[3] == found[9] == found[17] < found[22]
