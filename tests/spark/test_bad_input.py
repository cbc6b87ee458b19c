"""Wrong input, settings and warehouses: one clear line, the right exit code, and what was there stays as it was."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

from jobs.assign import run as assign
from tests.builders import records
from tests.builders.captures import LOOKS, few, of_groups
from tests.builders.tables import COMPARED, OF_THE_RUN, rows, versions


@pytest.fixture
def failed_run(make_tables, capsys):
    """Runs a command that fails and returns its exit code and its one line."""

    def run(*argv: str | Path) -> tuple[int, str]:
        capsys.readouterr()
        code = make_tables(*argv)
        lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("evenkeel: ")]
        return code, lines[-1] if lines else ""

    return run


def fingerprints(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".evenkeel.lock"
    }


def test_inputs_that_are_refused_before_anything_is_written(failed_run, tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    columns = tmp_path / "columns.parquet"
    pq.write_table(pa.table({"key": [b"k"], "partition": ["x"]}), columns)
    damaged = tmp_path / "damaged.parquet"
    damaged.write_bytes(b"PAR1 and then nothing")
    prose = tmp_path / "notes.txt"
    prose.write_text("hello\n")
    look = tmp_path / "look.jsonl"
    look.write_text('{"observed_at_ms": 1, "brokers": [], "topics": [{"topic": "t", "partitions": [{"partition": -1}]}]}\n')
    expected = {
        tmp_path / "missing": "missing: no such file or folder",
        empty: "empty.jsonl: the file is empty",
        columns: "columns.parquet: expected the columns of Spark's Kafka source, missing or of another type: value binary, partition int",
        damaged: "damaged.parquet: not a readable Parquet file",
        prose: "notes.txt: the first line is not JSON; expected one of consumer-offsets",
        look: "look.jsonl: line 1, topics.0.partitions.0.partition: Input should be greater than or equal to 0",
    }
    warehouse = tmp_path / "warehouse"
    for path, message in expected.items():
        code, line = failed_run("run", "--warehouse", warehouse, "--input", path)
        assert (code, message in line) == (2, True), line
        assert str(path) in line
    assert not warehouse.exists()


def test_misspelt_settings_key_is_refused_with_a_suggestion(failed_run, tmp_path: Path) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text("report:\n  worst_group: 3\n")
    code, line = failed_run("run", "--config", settings, "--warehouse", tmp_path / "w")
    assert (code, line) == (2, f"evenkeel: {settings}: unknown key 'report.worst_group': did you mean 'worst_groups'?")
    assert not (tmp_path / "w").exists()


def test_a_folder_that_is_no_warehouse_stays_untouched(failed_run, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_bytes(b"meow")
    code, line = failed_run("run", "--warehouse", tmp_path / "photos")
    assert code == 2 and "expected an empty folder or Evenkeel's tables, found cat.jpg" in line
    assert [path.name for path in (tmp_path / "photos").iterdir()] == ["cat.jpg"]
    (tmp_path / "half" / "runs").mkdir(parents=True)
    (tmp_path / "half" / "runs" / "2026.csv").touch()
    code, line = failed_run("run", "--warehouse", tmp_path / "half")
    assert code == 2 and "runs is not a Delta table (no _delta_log)" in line
    code, line = failed_run("audit", "--warehouse", tmp_path / "nothing")
    assert code == 2 and "no tables here; land captures first" in line
    assert not (tmp_path / "nothing").exists()


def damaged_records() -> list[dict]:
    """Return records each of which must be accounted for without stopping the run, with the reason it ends with."""

    def record(offset: int, key: bytes | None, value: bytes | None, timestamp_ms: int = 1_795_228_071_804) -> dict:
        encoded = [None if data is None else base64.b64encode(data).decode() for data in (key, value)]
        return {"partition": 1, "offset": offset, "timestamp_ms": timestamp_ms, "key_b64": encoded[0], "value_b64": encoded[1]}

    group = bytes.fromhex("000200026731")
    good = bytes.fromhex("00030008636f6e73756d657200000004000572616e676500026d3100000000000003e800000000")
    negative = good[:-4] + bytes.fromhex("fffffffe")
    foreign = good.replace(b"\x00\x08consumer", b"\x00\x08strangeX")
    return [
        record(0, group, good),
        record(1, group, good[:-3]),
        record(2, group, negative),
        record(3, group, foreign),
        record(4, b"\x00", good),
        record(5, None, good),
        record(6, group, good, timestamp_ms=-5),
        record(7, b"\x7f\xff", good),
        record(8, group, b"\x00\x63"),
    ]


def test_damaged_records_end_in_quarantine(make_tables, tmp_path: Path) -> None:
    capture = tmp_path / "damaged.jsonl.gz"
    with gzip.open(capture, "wt") as lines:
        lines.writelines(json.dumps(record) + "\n" for record in damaged_records())
        lines.write("{not json\n")
    settings = tmp_path / "settings.yaml"
    settings.write_text("quality:\n  max_quarantined_ratio: 1.0\n")
    warehouse = tmp_path / "warehouse"
    assert make_tables("land", "--config", settings, "--warehouse", warehouse, "--input", capture) == 0
    (run,) = rows(warehouse, "runs")
    counts = dict(run["input_counts"])
    assert (counts["read"], counts["landed"], counts["skipped"], counts["quarantined"]) == (10, 1, 2, 7)
    assert counts["consumer-offsets.skipped.classic_group_metadata:strangeX"] == 1
    assert counts["consumer-offsets.skipped.unknown_32767"] == 1
    found = {row["source_position"]: row["reason"] for row in rows(warehouse, "quarantine")}
    assert found == {
        "1@1": "truncated",
        "1@2": "negative_length",
        "1@4": "truncated",
        "1@5": "missing_key",
        "1@6": "timestamp_out_of_range",
        "1@8": "unsupported_version",
        "damaged.jsonl.gz line 10": "malformed_line",
    }
    assert "group 'g1'" in next(row["detail"] for row in rows(warehouse, "quarantine") if row["source_position"] == "1@2")
    before = versions(warehouse)
    assert make_tables("land", "--config", settings, "--warehouse", warehouse, "--input", capture) == 0
    assert {name for name, version in versions(warehouse).items() if version != before[name]} == {"runs"}


OF_GROUPS = ("subscription_snapshots", "group_records", "offset_snapshots")
"""Tables in which every group of a capture has a row."""


def hostile_captures(folder: Path) -> Path:
    """Write captures of a cluster of their own, well formed all of them, with numbers that Kafka gives to nothing."""
    at_ms, offset = 1_795_228_071_804, -(2**63)
    subscribed, given = records.subscription("t", version=0), records.assignment(t=[0, -1])
    value = records.group_value(1, records.group_member("a", subscribed, given), at_ms=at_ms)
    member = records.group_member("b", subscribed, records.assignment(t=[0]))
    contents = [
        (records.group_key("some partition"), value),
        (records.commit_key("some partition", "t", -5), records.commit_value(5, at_ms)),
        (records.commit_key("some partition", "t", 0), records.commit_value(offset, at_ms)),
        (records.group_key("generations"), records.group_value(-2_147_483_643, at_ms=at_ms)),
        (records.group_key("generations"), records.group_value(6, member, at_ms=at_ms)),
        (records.group_key("generations"), records.group_value(2**31 - 1, member, at_ms=at_ms)),
        (records.commit_key("generations", "t", 0), records.commit_value(2**63 - 1, at_ms)),
    ]
    folder.mkdir()
    with (folder / "records.jsonl").open("w") as lines:
        for log_offset, (key, content) in enumerate(contents, 1):
            key_and_value = {"key_b64": base64.b64encode(key).decode(), "value_b64": base64.b64encode(content).decode()}
            lines.write(json.dumps({"partition": 1, "offset": log_offset, "timestamp_ms": at_ms + log_offset, **key_and_value}) + "\n")
        last = {
            "partition": 1,
            "offset": 2**63 - 1,
            "timestamp_ms": at_ms,
            "key_b64": key_and_value["key_b64"],
            "value_b64": key_and_value["value_b64"],
        }
        lines.write(json.dumps(last) + "\n")
    columns = {
        "key": pa.array([key, key], pa.binary()),
        "value": pa.array([content, content], pa.binary()),
        "partition": pa.array([2, 2], pa.int32()),
        "offset": pa.array([1, 2], pa.int64()),
        "timestamp": pa.array([at_ms, 2**63 - 1], pa.timestamp("ms", "UTC")),  # the second is more microseconds than there is room for
    }
    pq.write_table(pa.table(columns), folder / "records.parquet")
    snapshot = {
        "group_id": ["of a row"],
        "group_type": ["classic"],
        "state": ["Empty"],
        "observed_at_ms": [at_ms],
        "cluster_id": ["hostile"],
    }
    unknown = {"at": pa.array([2**63 - 1], pa.timestamp("ms", "UTC"))}
    pq.write_table(pa.table({**snapshot, **unknown, "members": pa.array([[]], pa.list_(pa.string()))}), folder / "snapshots.parquet")
    with (folder / "looks.jsonl").open("w") as lines:
        for past, end in ((-9, 2**63 - 1), (9_000, offset)):
            topics = [{"topic": "t", "partitions": [{"partition": 0, "begin_offset": offset, "end_offset": end}]}]
            topics.append({"topic": "without partitions", "partitions": []})
            look = {"observed_at_ms": at_ms + past, "cluster_id": "hostile", "brokers": [], "topics": topics}
            lines.write(json.dumps(look) + "\n")
    with (folder / "snapshots.jsonl").open("w") as lines:
        for number in (2**31 - 1, 99_000_000, 5):
            entry = {"topic": f"in no look {number}", "partitions": [number]}
            member = {"member_id": "m", "topics": [entry["topic"]], "assigned": [entry]}
            group = {"group_id": f"far {number}", "group_type": "classic", "state": "Stable", "strategy": "range"}
            lines.write(json.dumps({**group, "observed_at_ms": at_ms, "cluster_id": "hostile", "members": [member]}) + "\n")
    return folder


def test_numbers_that_kafka_gives_to_nothing_change_nothing_for_others(evenkeel, recorded_warehouse: Path, tmp_path: Path) -> None:
    """Neither at a gate, nor in the arithmetic of the audit, nor in what has to be kept in memory a partition.

    The others are some groups of the recorded capture: their rows are those that they have where there are no such numbers.
    """
    good, bad, warehouse = tmp_path / "good captures", hostile_captures(tmp_path / "hostile captures"), tmp_path / "warehouse"
    good.mkdir()
    few(good, "log.parquet", 0, 8)
    shutil.copy(LOOKS, good)
    (good / "id.jsonl").write_text('{"observed_at_ms": 1, "cluster_id": "good", "brokers": [], "topics": []}\n')
    settings = tmp_path / "settings.yaml"
    settings.write_text("quality:\n  max_quarantined_ratio: 1.0\n")
    assert evenkeel("run", "--config", settings, "--warehouse", warehouse, "--input", good, bad) == 0

    def texts(found: list[dict[str, Any]]) -> list[str]:
        kept = [{key: value for key, value in row.items() if key not in {*OF_THE_RUN, "cluster_id"}} for row in found]
        return sorted(json.dumps(row, sort_keys=True, default=repr) for row in kept)

    groups = {row["group_id"] for name in OF_GROUPS for row in rows(warehouse, name) if row["cluster_id"] == "good"}
    topics = {row["topics_hash"] for row in rows(recorded_warehouse, "solutions") if row["group_id"] in groups}
    assert len(groups) == 9 and topics

    def is_of_them(table: str, row: dict[str, Any]) -> bool:
        if table == "generation_topics":
            return row["topics_hash"] in topics
        return "group_id" not in row or row["group_id"] in groups  # a look is of all groups

    for table in COMPARED:
        ours = [row for row in rows(warehouse, table) if row["cluster_id"] != "hostile"]
        theirs = [row for row in rows(recorded_warehouse, table) if is_of_them(table, row)]
        assert texts(ours) == texts(theirs), table
    found = {row["source_position"]: row["reason"] for row in rows(warehouse, "quarantine")}
    assert found == {
        "1@2": "negative_partition",
        "1@4": "negative_generation",
        f"1@{2**63 - 1}": "offset_out_of_range",
        "2@2": "timestamp_out_of_range",
    }
    observed = {
        (row["group_id"], row["generation"]): row
        for row in rows(warehouse, "generation_audits")
        if (row["cluster_id"], row["basis"]) == ("hostile", "observed")
    }
    assert observed["some partition", 1]["violations"] == ["not_existing t--1"]
    assert observed["generations", 2**31 - 1]["generation_gap"] == 2**31 - 8
    for number in (2**31 - 1, 99_000_000):
        assert observed[f"far {number}", 1]["violations"] == [f"not_existing in no look {number}-{number}"]
    assert observed["far 5", 1]["violations"] == [f"unassigned in no look 5-{number}" for number in range(5)]
    assert observed["of a row", 1]["member_count"] == 0
    looks = [row for row in rows(warehouse, "topic_snapshots") if row["cluster_id"] == "hostile"]
    assert {row["topic"]: row["partition_count"] for row in looks} == {"t": 1, "without partitions": 0}


def test_too_much_damage_publishes_nothing(
    make_tables, recorded_warehouse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor is anything worked out of what could be read; what could not is shown, since it is in no table."""
    warehouse = tmp_path / "warehouse"
    shutil.copytree(recorded_warehouse, warehouse)
    capture = tmp_path / "damaged.jsonl"
    later = [{**record, "offset": record["offset"] + 1_000_000} for record in damaged_records()]  # no place of the recorded ones
    capture.write_text("".join(json.dumps(record) + "\n" for record in later))
    before = {name: rows(warehouse, name) for name in ("quarantine", "subscription_snapshots", "generation_audits")}
    with monkeypatch.context() as patched:
        patched.setattr("jobs.assign.run", lambda *_: pytest.fail("the run went on"))
        capsys.readouterr()
        code = make_tables("run", "--warehouse", warehouse, "--input", capture, "--run-id", "damaged")
    lines = capsys.readouterr().err.splitlines()
    line = lines[-1]
    assert code == 4 and "6 of 9 records could not be used, more than max_quarantined_ratio 0.05 allows" in line
    kept = [json.loads(line) for line in (warehouse / "refused-damaged.ndjson").read_text().splitlines()]
    assert f"all of them are in {warehouse}/refused-damaged.ndjson" in line and len(kept) == 6
    shown = [text.removeprefix("evenkeel: quarantined ") for text in lines if text.startswith("evenkeel: quarantined ")]
    assert [text.split(": ")[:2] for text in shown] == [[row["source_position"], row["reason"]] for row in kept]
    assert {name: rows(warehouse, name) for name in before} == before
    newest = max(rows(warehouse, "runs"), key=lambda run: run["run_sequence"])
    assert newest["status"] == "refused"
    assert make_tables("land", "--warehouse", warehouse, "--input", LOOKS) == 0


def test_lines_of_other_programs_do_not_thin_out_damaged_rows(failed_run, tmp_path: Path) -> None:
    """Half of what resembles rows is damaged, in a text as PowerShell writes it; of all lines that is a fiftieth."""
    header = f"{'GROUP':15} {'CONSUMER-ID':38} {'HOST':15} {'CLIENT-ID':15} {'#PARTITIONS':15} ASSIGNMENT"
    row = f"{'billing':15} c-5b0c91fe-daf6-4812-9301-d2610acee9ae {'/10.0.0.1':15} {'c':15} {'1':15} orders(0)"
    lines = ["é"] * 98 + [header, row, header, row.replace("billing", "mailer ").replace("(0)", "(0,1)")]
    text_file = tmp_path / "look.txt"
    text_file.write_text("\r\n".join(lines) + "\r\n", encoding="utf-16")
    code, line = failed_run("land", "--warehouse", tmp_path / "w", "--input", text_file, "--as-of", "2026-11-23T08:00:00Z")
    assert code == 4 and "1 of 2 records could not be used" in line
    [run] = rows(tmp_path / "w", "runs")
    counts = dict(run["input_counts"])
    outcomes = ("read", "landed", "duplicate", "skipped", "quarantined")
    assert {name: counts[name] for name in outcomes} == dict(zip(outcomes, (100, 1, 0, 98, 1), strict=True))
    assert counts["describe.skipped.not_a_table_line"] == 98


def test_a_run_id_is_retried_but_not_reused(failed_run, recorded_warehouse: Path, tmp_path: Path) -> None:
    warehouse = tmp_path / "warehouse"
    shutil.copytree(recorded_warehouse, warehouse)
    before = fingerprints(warehouse / "runs")
    code, line = failed_run("run", "--warehouse", warehouse, "--run-id", "recorded", "--input", LOOKS)
    assert code == 4 and "run id recorded was used before with other input or settings" in line
    assert fingerprints(warehouse / "runs") == before


def test_fail_on_publishes_first(failed_run, recorded_warehouse: Path, tmp_path: Path) -> None:
    warehouse, groups = tmp_path / "warehouse", ("alerts-strclassic", "fraud-upgrade")
    capture = of_groups(tmp_path, "two.parquet", *groups)
    asked = ("run", "--warehouse", warehouse, "--run-id", "r", "--fail-on", "warning", "--input", capture, LOOKS)
    expected = Counter(row["severity"] for row in rows(recorded_warehouse, "findings") if row["group_id"] in groups)
    assert expected.keys() == {"info", "warning"}
    for _ in range(2):  # a scheduler that tries again gets the same line
        code, line = failed_run(*asked)
        text = f"published, but {expected['warning']} findings are of severity warning or above (--fail-on); see the table findings"
        assert (code, line) == (4, f"evenkeel: {text}")
    (run,) = rows(warehouse, "runs")
    assert run["status"] == "published"
    assert Counter(row["severity"] for row in rows(warehouse, "findings")) == expected


def test_a_reader_sees_the_published_run_and_the_next_run_takes_back_what_was_left(
    evenkeel, make_tables, spark, recorded_warehouse: Path, tmp_path: Path
) -> None:
    """A run that died after its first commits left rows that no `runs` row names."""
    warehouse = tmp_path / "warehouse"
    shutil.copytree(recorded_warehouse, warehouse)
    published = rows(warehouse, "findings")
    spark.sql(f"INSERT INTO delta.`{warehouse}/findings` SELECT * FROM delta.`{warehouse}/findings`")
    assert evenkeel("report", "--warehouse", warehouse, "--as-of", "2026-11-22T00:00:00Z", "--output", tmp_path / "again.html") == 0
    assert (tmp_path / "again.html").read_bytes() == (recorded_warehouse / "report.html").read_bytes()
    assert make_tables("land", "--warehouse", warehouse, "--input", LOOKS) == 0
    assert sorted(map(str, rows(warehouse, "findings"))) == sorted(map(str, published))


def test_a_task_that_runs_out_of_memory_ends_the_run_and_not_the_process(
    failed_run, spark, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A text of 2 GB is more than any array has room for."""

    def fill_the_heap(*_: object, **__: object) -> None:
        spark.range(1).select(F.repeat(F.lit("x"), (F.lit(2**31 - 1) - F.col("id")).cast("int"))).collect()

    monkeypatch.setattr(assign, "run", fill_the_heap)
    code, line = failed_run("run", "--warehouse", tmp_path / "warehouse", "--input", of_groups(tmp_path, "one.parquet", "fraud-upgrade"))
    assert code == 1
    assert "assign: Spark ran out of memory (OutOfMemoryError" in line and "raise its heap with --driver-memory" in line
    assert rows(tmp_path / "warehouse", "subscription_snapshots") == []
