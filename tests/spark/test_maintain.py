"""Maintenance of a warehouse: what goes, what stays, and that neither runs nor readers notice."""

from __future__ import annotations

import base64
import gzip
import io
import json
import os
import shutil
import time
from collections import Counter
from contextlib import nullcontext, redirect_stderr
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from jobs.maintain import run as maintain
from jobs.runtime.errors import StageFailedError
from jobs.storage.table_maintenance import keep_files
from jobs.storage.warehouse import Warehouse
from jobs.verify.damage import Code
from jobs.verify.folder import check_folder
from jobs.verify.invariants import check_rows
from schemas.config import Settings
from schemas.tables import TABLES
from tests.builders.captures import LOOKS, few, piece
from tests.builders.records import commit_key, commit_value, group_key, group_value, record_line
from tests.builders.tables import COMPARED, content, rows, versions

AS_OF = ("--as-of", "2026-11-21T00:00:00Z")
KEPT_FROM = date(2024, 11, 1)
"""What 730 days before that keep, in whole months."""
THREE_YEARS = timedelta(days=3 * 365)
OFFSETS_TOPIC = "__consumer_offsets"


def newest_run(warehouse: Path) -> dict[str, Any]:
    return max(rows(warehouse, "runs"), key=lambda run: run["run_sequence"])


def last_generations(warehouse: Path, name: str) -> dict[str, int]:
    """Return the last position of each group in a table."""
    last: dict[str, int] = {}
    for row in rows(warehouse, name):
        last[row["group_id"]] = max(last.get(row["group_id"], -1), row["position"])
    return last


def older_looks(folder: Path) -> Path:
    """Write the recorded looks, half of them three years older, and ``__consumer_offsets`` in the very first only."""
    with gzip.open(LOOKS, "rt") as lines:
        looks = [json.loads(line) for line in lines]
    for number, look in enumerate(looks):
        if number < len(looks) // 2:
            look["observed_at_ms"] -= THREE_YEARS // timedelta(milliseconds=1)
        if number:
            look["topics"] = [topic for topic in look["topics"] if topic["topic"] != OFFSETS_TOPIC]
    (folder / "looks.jsonl").write_text("".join(json.dumps(look) + "\n" for look in looks))
    return folder / "looks.jsonl"


def commit_often(path: Path) -> None:
    """Add three commits of one partition to a capture, with the time of its first record."""
    table = pq.read_table(path)
    first = {**table.slice(0, 1).to_pylist()[0], "partition": 7, "key": commit_key("often", "t", 0)}
    made = [{**first, "offset": offset, "value": commit_value(offset, 1_000)} for offset in range(3)]
    pq.write_table(pa.concat_tables([table, pa.Table.from_pylist(made, schema=table.schema)]), path)


@dataclass(frozen=True)
class Kept:
    """A warehouse whose first half is three years older, through maintenance and the run after it, which is given that half again.

    Attributes:
        before, maintained: copies of it as they were.
        pinned: the versions that were published before maintenance, and how many rows they have.
        pieces: both halves of the capture, and the looks.
    """

    before: Path
    maintained: Path
    warehouse: Path
    pinned: dict[str, tuple[int, int]]
    pieces: tuple[Path, Path, Path]


@pytest.fixture(scope="module")
def kept(make_tables, tmp_path_factory: pytest.TempPathFactory) -> Kept:
    folder = tmp_path_factory.mktemp("kept")
    pieces = few(folder, "a.parquet", 0, 4, earlier=THREE_YEARS), few(folder, "b.parquet", 4, 8), older_looks(folder)
    commit_often(pieces[0])
    warehouse, before, maintained = (folder / name for name in ("warehouse", "before", "maintained"))
    settings = folder / "settings.yaml"
    settings.write_text("assign: {checkpoint_generations: 2}\n")
    assert make_tables("run", "--warehouse", warehouse, "--config", settings, "--input", pieces[0], pieces[2]) == 0
    shutil.copytree(warehouse, before)
    pinned = {name: (version, len(rows(warehouse, name))) for name, version in versions(warehouse).items()}
    assert make_tables("maintain", "--warehouse", warehouse, *AS_OF) == 0
    shutil.copytree(warehouse, maintained)
    assert make_tables("run", "--warehouse", warehouse, "--input", *pieces) == 0
    return Kept(before, maintained, warehouse, pinned, pieces)


def test_retention_drops_old_rows_and_counts_them(kept: Kept) -> None:
    output_counts = dict(newest_run(kept.maintained)["output_counts"])
    snapshots = ("subscription_snapshots", "offset_snapshots", "topic_snapshots")
    for name in (*snapshots, "assignments", "solutions", "group_states", "generation_audits", "movements"):
        had, has = len(rows(kept.before, name)), len(rows(kept.maintained, name))
        assert output_counts[f"{name}.dropped"] == had - has > 0, name


def test_the_last_generation_of_each_group_stays(kept: Kept) -> None:
    for name in ("subscription_snapshots", "solutions", "generation_audits", "group_states"):
        assert last_generations(kept.maintained, name) == last_generations(kept.before, name)
    needed = last_generations(kept.maintained, "solutions")
    of_last = {row["group_id"] for row in rows(kept.maintained, "assignments") if row["position"] == needed[row["group_id"]]}
    assert of_last == {row["group_id"] for row in rows(kept.before, "assignments") if row["position"] == needed[row["group_id"]]}


def test_the_last_two_commits_on_each_partition_stay(kept: Kept) -> None:
    """The last may be a deletion; those before that are gone."""

    def commits(warehouse: Path) -> dict[tuple, dict[int, bool]]:
        found: dict[tuple, dict[int, bool]] = {}
        for row in rows(warehouse, "offset_snapshots"):
            found.setdefault((row["group_id"], row["topic"], row["partition"]), {})[row["position"]] = row["is_deleted"]
        return found

    expected = {}
    for key, are_deleted in commits(kept.before).items():
        last = max(are_deleted)
        made = [position for position, is_deleted in are_deleted.items() if position < last and not is_deleted]
        expected[key] = {position for position in are_deleted if position >= max(made, default=last)}
    assert expected["often", "t", 0] == {1, 2}
    assert {key: set(positions) for key, positions in commits(kept.maintained).items()} == expected


@pytest.mark.slow
def test_the_last_record_of_a_foreign_group_stays(make_tables, tmp_path: Path) -> None:
    """It shows that the group's empty snapshots are not of consumers; the tombstone of a group without snapshots may be of any life."""

    def line(offset: int, group: str, value: bytes | None) -> str:
        coded = {"key_b64": group_key(group), "value_b64": value}
        return record_line(offset=offset, **{name: part and base64.b64encode(part).decode() for name, part in coded.items()}) + "\n"

    connect = group_value(1, protocol_type="connect")
    capture = tmp_path / "records.jsonl"
    capture.write_text(line(1, "a", connect) + line(2, "a", connect) + line(3, "b", connect) + line(4, "a", connect) + line(5, "a", None))
    assert make_tables("land", "--warehouse", tmp_path / "warehouse", "--input", capture) == 0
    assert make_tables("maintain", "--warehouse", tmp_path / "warehouse", *AS_OF) == 0
    assert sorted(row["offset"] for row in rows(tmp_path / "warehouse", "group_records")) == [3, 4, 5]


def test_retention_keeps_two_old_metadata_snapshots_and_the_offsets_topic(kept: Kept) -> None:
    had = sorted({row["observed_at"] for row in rows(kept.before, "topic_snapshots")})
    old = [moment for moment in had if moment.date() < KEPT_FROM]
    found = [(row["observed_at"], row["topic"]) for row in rows(kept.maintained, "topic_snapshots")]
    assert {moment for moment, topic in found if topic != OFFSETS_TOPIC} == {*old[-2:], *had[len(old) :]}
    assert [moment for moment, topic in found if topic == OFFSETS_TOPIC] == [had[0]]


@pytest.mark.slow
def test_a_maintained_warehouse_is_sound(make_tables, kept: Kept) -> None:
    """What members hold in counterfactual solutions goes before the audits made of them."""
    had, has = (holdings_of(warehouse) for warehouse in (kept.before, kept.maintained))
    dropped = {key for key, holdings in has.items() if holdings is None and had[key] is not None}
    assert dropped and {basis for *_, basis, _ in dropped} == {"counterfactual"}
    assert dict(newest_run(kept.maintained)["output_counts"])["solutions.holdings.dropped"] == len(dropped)
    assert make_tables("verify", "--warehouse", kept.maintained) == 0


@pytest.mark.slow
def test_run_after_maintenance_leaves_a_sound_warehouse(make_tables, kept: Kept) -> None:
    assert make_tables("verify", "--warehouse", kept.warehouse) == 0


def test_missing_rows_that_maintenance_kept_are_damage(kept: Kept, spark: SparkSession, tmp_path: Path) -> None:
    """Of a young solution the holdings are missing, of what was observed all rows, or one of several."""
    shutil.copytree(kept.warehouse, tmp_path / "warehouse")
    bound = newest_run(kept.warehouse)["counterfactuals_from"]
    packed = [row for row in rows(kept.warehouse, "solutions") if row["basis"] == "counterfactual" and row["holdings"] is not None]
    young = next(row for row in packed if row["observed_month"] >= bound)
    listed = [row for row in rows(kept.warehouse, "assignments") if row["basis"] == "observed"]
    members = Counter(map(solution_of, listed))
    one_of_several = next(row for row in listed if members[solution_of(row)] > 1)
    alone = next(row for row in listed if members[solution_of(row)] == 1)

    def row_key(row: dict[str, Any]) -> str:
        return " AND ".join(f"{name} = '{row[name]}'" for name in ("group_id", "position", "basis", "strategy"))

    assignments, solutions = (f"delta.`{tmp_path / 'warehouse' / name}`" for name in ("assignments", "solutions"))
    spark.sql(f"UPDATE {solutions} SET holdings = NULL WHERE {row_key(young)}")
    spark.sql(f"DELETE FROM {assignments} WHERE {row_key(alone)}")
    spark.sql(f"DELETE FROM {assignments} WHERE {row_key(one_of_several)} AND member_id = '{one_of_several['member_id']}'")
    warehouse = Warehouse(spark, str(tmp_path / "warehouse"))
    damages, _ = check_rows(warehouse, warehouse.newest_run())
    missing = {(damage.table, damage.where) for damage in damages if damage.code == Code.MISSING_ROWS}
    expected = {("solutions", place_of(young)), ("assignments", place_of(alone)), ("assignments", place_of(one_of_several))}
    assert missing == expected


def holdings_of(warehouse: Path) -> dict[tuple, bytes | None]:
    return {solution_of(row): row["holdings"] for row in rows(warehouse, "solutions")}


def place_of(row: dict[str, Any]) -> str:
    return " ".join(f"{name}={row[name]}" for name in ("cluster_id", "group_id", "position", "basis", "strategy"))


def solution_of(row: dict[str, Any]) -> tuple:
    return tuple(row[name] for name in ("cluster_id", "group_id", "position", "basis", "strategy"))


def test_topics_go_with_the_last_solution_that_names_them(kept: Kept) -> None:
    named = {row["topics_hash"] for row in rows(kept.maintained, "solutions")}
    assert {row["topics_hash"] for row in rows(kept.maintained, "generation_topics")} == named
    assert named < {row["topics_hash"] for row in rows(kept.before, "generation_topics")}


@pytest.mark.slow
def test_run_after_maintenance_gives_equal_young_rows(kept: Kept, make_tables, tmp_path: Path) -> None:
    """What is younger than the bound is the same in every row; what is older is less, and nothing else.

    Old solutions of other strategies may have lost their holdings. And for three old generations the members reached their targets in the
    young piece, three years after: those stay as they are.
    """

    def as_it_was(text: str) -> str:
        row = json.loads(text)
        if f"date({KEPT_FROM.year - 1}," in row.get("observed_month", ""):
            if f"({KEPT_FROM.year + 2}," in (row.get("reconciled_at") or ""):
                row["reconciled_at"] = None
            if row.get("basis") == "counterfactual" and "holdings" in row:
                row["holdings"] = None
        return json.dumps(row, sort_keys=True)

    assert make_tables("run", "--warehouse", tmp_path / "whole", "--input", *kept.pieces) == 0
    for name in COMPARED:
        ours, theirs = (set(map(as_it_was, content(warehouse, name))) for warehouse in (kept.warehouse, tmp_path / "whole"))
        assert ours <= theirs, name
        if "observed_month" in TABLES[name].schema.names:
            young = {row for row in theirs if f'"observed_month": "datetime.date({KEPT_FROM.year - 1}' not in row}
            assert young <= ours and young, name


def test_a_capture_of_what_was_dropped_does_not_bring_it_back(kept: Kept) -> None:
    for name, spec in TABLES.items():
        if name not in ("runs", "generation_topics"):  # young generations may have the topics of old ones
            had, left, has = (
                {tuple(row[column] for column in spec.key) for row in rows(warehouse, name)}
                for warehouse in (kept.before, kept.maintained, kept.warehouse)
            )
            assert has & (had - left) == set(), name
    counts = dict(newest_run(kept.warehouse)["input_counts"])
    assert counts["landed"] > 0 and counts["quarantined"] == 0
    gone = {name: len(rows(kept.before, name)) - len(rows(kept.maintained, name)) for name in TABLES}
    assert counts["cluster-metadata.skipped.expired"] == gone["topic_snapshots"]
    of_records = ("subscription_snapshots", "offset_snapshots", "group_records")
    folded = [sum(row["group_type"] == "consumer" for row in rows(at, "subscription_snapshots")) for at in (kept.before, kept.maintained)]
    assert counts["consumer-offsets.skipped.expired"] == sum(gone[name] for name in of_records) - (folded[0] - folded[1])


def test_a_reader_of_the_versions_before_still_finds_every_row(kept: Kept) -> None:
    for name, (version, count) in kept.pinned.items():
        assert DeltaTable(str(kept.warehouse / name), version=version).to_pyarrow_table().num_rows == count


# -- files


@pytest.fixture
def copy(demo_warehouse: Path, tmp_path: Path) -> Path:
    """A warehouse of one run, in which there is nothing to do."""
    shutil.copytree(demo_warehouse, tmp_path / "warehouse")
    return tmp_path / "warehouse"


@pytest.mark.slow
def test_tables_in_order_are_left_alone(make_tables, copy: Path) -> None:
    """Not even VACUUM leaves a commit; and a run afterwards has nothing to do."""
    before, last = versions(copy), newest_run(copy)
    assert make_tables("maintain", "--warehouse", copy, *AS_OF) == 0
    assert versions(copy) == {**before, "runs": before["runs"] + 1}
    newest = newest_run(copy)
    assert (newest["command"], newest["status"], newest["retained_from"], newest["output_counts"]) == (
        "maintain",
        "published",
        KEPT_FROM,
        [],
    )
    for name in ("consumed", "written", "table_versions"):
        assert dict(newest[name]) == dict(last[name])
    assert make_tables("run", "--warehouse", copy) == 0
    assert versions(copy) == {**before, "runs": before["runs"] + 2}
    assert newest_run(copy)["retained_from"] == KEPT_FROM


@pytest.mark.slow
def test_many_small_files_become_few(make_tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs have written to the same month; what they landed and nobody has used yet stays to be used."""
    copy = tmp_path / "warehouse"
    for first in (0, 1):
        assert make_tables("land", "--warehouse", copy, "--input", piece(tmp_path, f"{first}.parquet", first, first + 1)) == 0
    landed = newest_run(copy)
    before, had = versions(copy), {name: content(copy, name) for name in COMPARED}
    files = {name: len(DeltaTable(str(copy / name)).file_uris()) for name in TABLES}
    monkeypatch.setattr(maintain, "MANY_FILES", 2)
    assert make_tables("maintain", "--warehouse", copy, *AS_OF) == 0
    output_counts = dict(newest_run(copy)["output_counts"])
    merged = {name for name in TABLES if f"{name}.files_before" in output_counts}
    assert {"subscription_snapshots", "offset_snapshots", "runs"} <= merged
    for name in merged - {"runs"}:
        now = len(DeltaTable(str(copy / name)).file_uris())
        assert (output_counts[f"{name}.files_before"], output_counts[f"{name}.files_after"]) == (files[name], now)
        assert now < files[name]
    assert {name: content(copy, name) for name in COMPARED} == had
    newest = newest_run(copy)
    assert [dict(newest[name]) for name in ("consumed", "written")] == [dict(landed[name]) for name in ("consumed", "written")]
    assert {name for name, version in versions(copy).items() if version != before[name]} == merged | {"runs"}
    after = versions(copy)
    assert make_tables("maintain", "--warehouse", copy, *AS_OF) == 0
    assert {name for name, version in versions(copy).items() if version != after[name]} == {"runs"}


@dataclass(frozen=True)
class Tended:
    """A warehouse with old files and commits, as maintenance has left it.

    Attributes:
        aged: files that no version names, by their age in hours.
        kinds: folders with a copy of the table ``movements`` from before: in one its log is ``young``, in the other ``damaged``.
        had: the content of each table before.
        said: what maintenance has said.
    """

    warehouse: Path
    aged: dict[int, Path]
    kinds: dict[str, Path]
    had: dict[str, list[str]]
    said: str


@pytest.fixture(scope="module")
def tended(make_tables, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Tended:
    folder = tmp_path_factory.mktemp("tended")
    warehouse, settings, young = folder / "warehouse", folder / "settings.yaml", folder / "young.jsonl"
    snapshot = {"group_id": "g", "group_type": "classic", "state": "Empty", "observed_at_ms": 1_795_000_000_000, "members": []}
    young.write_text(json.dumps(snapshot) + "\n")
    assert make_tables("land", "--warehouse", warehouse, "--input", few(folder, "few.parquet", 0, 1), young) == 0
    dead = Warehouse(spark, str(warehouse))
    with dead.signed("one that died", nullcontext):
        for hours in range(200, 211):
            keep_files(dead, "movements", hours)
    kinds = {kind: folder / kind for kind in ("young", "damaged")}
    for kind, days in (("young", 29), ("damaged", 31)):
        shutil.copytree(warehouse / "movements", kinds[kind] / "movements")
        _age(kinds[kind] / "movements" / "_delta_log", days)
    (kinds["damaged"] / "movements" / "_delta_log" / f"{3:020}.crc").write_text("{")
    _age(warehouse / "movements" / "_delta_log", 31)
    aged = {hours: warehouse / "movements" / f"part-{hours}.parquet" for hours in (300, 200)}
    for hours, path in aged.items():
        path.write_bytes(b"PAR1")
        os.utime(path, (time.time() - 3600 * hours,) * 2)
    settings.write_text("maintain: {vacuum_hours: 240}\n")
    had, said = {name: content(warehouse, name) for name in COMPARED}, io.StringIO()
    with redirect_stderr(said):
        assert make_tables("maintain", "--warehouse", warehouse, "--config", settings, *AS_OF) == 0
    return Tended(warehouse, aged, kinds, had, said.getvalue())


def test_files_go_when_no_version_has_named_them_for_long(tended: Tended) -> None:
    """Left by a run that died, for example; younger ones may still be somebody's, and how young is a setting."""
    assert {hours for hours, path in tended.aged.items() if path.exists()} == {200}


def test_commits_go_when_a_checkpoint_has_stood_for_them_for_long(tended: Tended, caplog: pytest.LogCaptureFixture) -> None:
    assert "movements: removed 10 commits, up to version 9" in tended.said
    left = sorted(int(path.name.lstrip(".")[:20]) for path in (tended.warehouse / "movements" / "_delta_log").glob("*0*"))
    assert (left[0], left[-1]) == (10, 13), "after the commits of the dead run: they are taken back, and 240 hours are set"
    assert check_folder(tended.warehouse).damages == []
    assert {name: content(tended.warehouse, name) for name in COMPARED} == tended.had
    for folder in tended.kinds.values():
        before = sorted(folder.rglob("*"))
        context = SimpleNamespace(warehouse=SimpleNamespace(folder=folder), settings=Settings())
        maintain._cut_log(context, "movements", datetime.now(timezone.utc))
        assert sorted(folder.rglob("*")) == before
    assert f"kept every commit, because the log is damaged, for example at _delta_log/{3:020}.crc" in caplog.text


def test_run_after_maintenance_lands_nothing_older_than_retention(make_tables, tended: Tended, tmp_path: Path) -> None:
    """Raw records have more of a group than a snapshot, which would else make room for them."""
    warehouse, old = tmp_path / "warehouse", tmp_path / "old.jsonl"
    shutil.copytree(tended.warehouse, warehouse)
    key, value = (base64.b64encode(part).decode() for part in (group_key("g"), group_value(1)))
    old.write_text(record_line(key_b64=key, value_b64=value) + "\n")
    more = few(tmp_path, "more.parquet", 1, 2)
    assert make_tables("land", "--warehouse", warehouse, *AS_OF, "--input", more, old) == 0
    of_g = [row for row in rows(warehouse, "subscription_snapshots") if row["group_id"] == "g"]
    assert [row["source"] for row in of_g] == ["snapshot"]
    counts = dict(newest_run(warehouse)["input_counts"])
    assert counts["consumer-offsets.skipped.expired"] == 1 and counts["landed"] > 0


def _age(log: Path, days: int) -> None:
    for path in log.iterdir():
        os.utime(path, (time.time() - 24 * 3600 * days,) * 2)


@pytest.mark.slow
def test_quarantine_goes_by_the_age_of_the_run_that_wrote_it(make_tables, spark: SparkSession, tmp_path: Path) -> None:
    warehouse, settings = tmp_path / "warehouse", tmp_path / "settings.yaml"
    settings.write_text("quality: {max_quarantined_ratio: 1}\n")
    for run_id, offset in (("old", 1), ("young", 2)):
        capture = tmp_path / f"{run_id}.jsonl"
        capture.write_text(record_line(offset=offset) + "\n" + record_line(offset=offset, key_b64=None) + "\n")
        assert make_tables("land", "--warehouse", warehouse, "--config", settings, "--run-id", run_id, "--input", capture) == 0
    spark.sql(f"UPDATE delta.`{warehouse / 'runs'}` SET finished_at = '2020-01-01' WHERE run_id = 'old'")
    assert make_tables("maintain", "--warehouse", warehouse, *AS_OF) == 0
    assert [row["run_id"] for row in rows(warehouse, "quarantine")] == ["young"]


@pytest.mark.slow
def test_a_failure_in_the_middle_is_undone(make_tables, kept: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows have been dropped by then; nothing has been removed from disk, so that they come back."""
    copy = tmp_path / "warehouse"
    shutil.copytree(kept.before, copy)
    orphan = copy / "movements" / "part-left-behind.parquet"
    orphan.write_bytes(b"PAR1")
    os.utime(orphan, (0, 0))

    def fail(*_: Any) -> None:
        raise StageFailedError("for the test")

    monkeypatch.setattr(maintain, "_merge_files", fail)
    assert make_tables("maintain", "--warehouse", copy, *AS_OF) == 1
    failed = newest_run(copy)
    assert (failed["command"], failed["status"], failed["output_counts"]) == ("maintain", "failed", [])
    assert versions(copy)["assignments"] > versions(kept.before)["assignments"]
    for name in COMPARED:
        assert content(copy, name) == content(kept.before, name)
    assert orphan.exists()
    assert make_tables("run", "--warehouse", copy, "--input", kept.pieces[0], kept.pieces[2]) == 0
    assert newest_run(copy)["retained_from"] is None
