"""Which commits of a raw capture may belong to an aborted transaction: drawn at random, and landed in any pieces."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import BooleanType, StructField, StructType

from jobs.land.aborted_transactions import COMMIT_OFFSET_KEY, judged
from schemas.tables import OFFSET_SNAPSHOTS
from schemas.wire.keys import COMMITTED_COLUMN
from tests.builders import records
from tests.builders.frames import frame, moment
from tests.builders.tables import assert_equal_warehouses, rows

Row = dict[str, Any]
PLACES = StructType([OFFSET_SNAPSHOTS.schema[name] for name in COMMIT_OFFSET_KEY])
COMMIT = StructType([OFFSET_SNAPSHOTS.schema[name] for name in ("group_id", "observed_at")])
READ = StructType([*PLACES.fields, StructField("recorded", BooleanType()), StructField("commit", COMMIT)])


def is_uncertain(offset: int, log: dict[int, Row]) -> bool | None:
    """Return what is known of one commit, going from it to the next offset until one shows it."""
    commit = log[offset]
    if commit.get("recorded") is not None:
        return commit["recorded"]
    following = log.get(offset + 1)
    if following is None:
        return True if max(log) > offset else None
    if "group_id" not in following or any(following[name] != commit[name] for name in ("group_id", "observed_at")):
        return False
    return is_uncertain(offset + 1, log)


def test_following_records_decide_whether_a_commit_is_uncertain(spark: SparkSession) -> None:
    """Of 200 logs with gaps, markers or not, in which some records were read before and some are read now, or all at once."""
    random = Random(5)
    earlier, read, stored, expected = [], [], [], {}
    for number in range(200):
        partition, log = {"cluster_id": random.choice("cd"), "offsets_partition": number}, {}
        for offset in sorted(random.sample(range(14), random.randint(1, 13))):
            is_read = random.random() < 0.6
            log[offset] = made = {**partition, "position": offset, "is_read": is_read}
            made["recorded"] = random.choice([False, False, True]) if is_read and random.random() < 0.2 else None
            if random.random() < 0.8:
                made |= {"group_id": random.choice("gh"), "observed_at": moment(random.choice([1, 1, 2]))}
        if not any(row["is_read"] for row in log.values()):
            continue
        for offset, row in log.items():
            place = {name: row[name] for name in COMMIT_OFFSET_KEY}
            event = {**place, "recorded": row["recorded"], "commit": None}
            if "group_id" in row:
                event["commit"] = {name: row[name] for name in COMMIT.names}
                expected[tuple(place.values())] = is_uncertain(offset, log)
            if row["is_read"]:
                read.append(event)
            else:
                stored.append(place)
                earlier += [event] if event["commit"] else []
    others = [{**place, "recorded": None, "commit": None} for place in stored]
    at_once = [*read, *earlier, *(one for one in others if tuple(one[name] for name in COMMIT_OFFSET_KEY) not in expected)]
    in_pieces = judged(frame(spark, READ, read), frame(spark, READ, earlier), frame(spark, PLACES, stored), has_repeats=True)
    again = judged(frame(spark, READ, [*read, *others]), frame(spark, READ, earlier), None, has_repeats=True)
    for marked in (in_pieces, again, judged(frame(spark, READ, at_once), None, None, has_repeats=False)):
        found = marked.collect()
        assert {tuple(row[name] for name in COMMIT_OFFSET_KEY): row["is_uncertain"] for row in found} == expected
        assert len(found) == len(expected)
    assert set(expected.values()) == {True, False, None}


def test_commits_of_two_groups_at_one_place_are_one(spark: SparkSession) -> None:
    """Captures that contradict each other may have landed both; neither is the next record of the other."""
    place = {"cluster_id": "c", "offsets_partition": 3, "recorded": None}
    earlier = [{**place, "position": 5, "commit": {"group_id": group, "observed_at": moment(5)}} for group in ("g", "h")]
    read = [{**place, "position": 6, "commit": None}]
    marked = judged(frame(spark, READ, read), frame(spark, READ, earlier), None, has_repeats=False).collect()
    assert [(row["position"], row["is_uncertain"]) for row in marked] == [(5, False)]


def test_largest_possible_offset_has_no_following_record(spark: SparkSession) -> None:
    """A damaged dump may hold any offset; a number that has no room for one more must not end the run."""
    last = 2**63 - 1
    places = [{"cluster_id": "c", "offsets_partition": 3, "position": offset} for offset in (last - 1, last)]
    made = [{"group_id": "g", "observed_at": moment(number)} for number in range(2)]
    read = [{**place, "recorded": None, "commit": commit} for place, commit in zip(places, made, strict=True)]
    marked = judged(frame(spark, READ, read), None, None, has_repeats=False).collect()
    assert {row["position"]: row["is_uncertain"] for row in marked} == {last - 1: False, last: None}


def commit(offset: int, at: int, group: str = "g", number: int = 0) -> Row:
    key, value = records.commit_key(group, "t", number), records.commit_value(offset, 1_000)
    return {"key": key, "value": value, "partition": 3, "offset": offset, "timestamp": moment(at)}


def generation(offset: int, number: int) -> Row:
    member = records.group_member("a", records.subscription("t"), records.assignment(t=[0, 1]))
    return {**commit(offset, offset), "key": records.group_key("g"), "value": records.group_value(number, member, at_ms=offset)}


LOG = [
    generation(0, 1),
    *(commit(1, 10), commit(2, 10, number=1)),  # together, and a marker after them
    *(commit(4, 20), commit(5, 21, group="h")),
    commit(6, 30),  # a marker here too
    generation(8, 2),
    commit(9, 40),
]
UNCERTAIN = {1: True, 2: True, 4: False, 5: False, 6: True, 9: None}


def written(path: Path, log: list[Row], is_committed: bool | None = None) -> Path:
    columns: dict[str, Any] = {name: [row[name] for row in log] for name in log[0]}
    columns["partition"] = pa.array(columns["partition"], pa.int32())
    columns["timestamp"] = pa.array(columns["timestamp"], pa.timestamp("us", "UTC"))
    if is_committed is not None:
        columns[COMMITTED_COLUMN] = [is_committed] * len(log)
    pq.write_table(pa.table(columns), path)
    return path


def stored(warehouse: Path) -> dict[int, bool | None]:
    return {row["position"]: row["is_uncertain"] for row in rows(warehouse, "offset_snapshots")}


def test_pieces_in_any_order_give_what_the_whole_gives(make_tables, tmp_path: Path) -> None:
    """What is missing comes late, the last record is no longer the last, and commits made together come apart."""
    whole, pieces = tmp_path / "whole", tmp_path / "pieces"
    assert make_tables("land", "--warehouse", whole, "--input", written(tmp_path / "all.parquet", LOG)) == 0
    assert stored(whole) == UNCERTAIN
    for name, chosen in {"c": [7, 1, 0], "a": [2, 5], "b": [3, 4, 6]}.items():
        part = written(tmp_path / f"{name}.parquet", [LOG[index] for index in chosen])
        assert make_tables("land", "--warehouse", pieces, "--input", part) == 0
    assert_equal_warehouses(pieces, whole)


@pytest.mark.parametrize("order", ["ac", pytest.param("ca", marks=pytest.mark.slow)])
def test_committed_only_capture_makes_all_commits_certain(order: str, make_tables, tmp_path: Path) -> None:
    """The commit before the second marker was taken back: a collection does not have it, whichever comes first."""
    captures = {
        "a": written(tmp_path / "all.parquet", LOG),
        "c": written(tmp_path / "collected.parquet", [row for row in LOG if row["offset"] != 6], is_committed=True),
    }
    for name in order:
        assert make_tables("land", "--warehouse", tmp_path / "warehouse", "--input", captures[name]) == 0
    assert stored(tmp_path / "warehouse") == {offset: offset == 6 for offset in UNCERTAIN}
