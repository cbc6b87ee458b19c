"""Runs that land a record or two: what a run leaves in ``runs`` and in the tables, however it ends."""

from __future__ import annotations

import base64
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from jobs import pipeline, work
from jobs.context import RunContext, software_versions
from jobs.land import run as land_stage
from jobs.runtime.errors import EvenkeelError, NotAWarehouseError, StageFailedError
from jobs.storage.warehouse import Warehouse
from tests.builders.records import group_key, group_value, record_line
from tests.builders.tables import rows, versions
from tests.conftest import Evenkeel

LANDED = "offset_snapshots"
ROOT = Path(__file__).parents[2]


def lander(evenkeel: Evenkeel, tmp_path: Path) -> Callable[..., int]:
    """Return what lands records with these offsets in a warehouse of this test, as the run of a name, and returns the exit code."""

    def run(run_id: str, *offsets: int, lines: str = "", ratio: int = 1, options: tuple[str, ...] = ()) -> int:
        settings, capture = tmp_path / f"{ratio}.yaml", tmp_path / f"{run_id}-{'-'.join(map(str, offsets))}.jsonl"
        settings.write_text(f"quality: {{max_quarantined_ratio: {ratio}}}\n")
        capture.write_text("".join(record_line(offset=offset) + "\n" for offset in offsets) + lines)
        named = ("--warehouse", tmp_path / "warehouse", "--config", settings, "--run-id", run_id)
        return evenkeel("land", *named, "--input", capture, *options)

    return run


@pytest.fixture
def land(make_tables: Evenkeel, tmp_path: Path) -> Callable[..., int]:
    return lander(make_tables, tmp_path)


@pytest.fixture
def land_with_gates(evenkeel: Evenkeel, tmp_path: Path) -> Callable[..., int]:
    return lander(evenkeel, tmp_path)


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    return tmp_path / "warehouse"


@pytest.fixture(scope="module")
def after_first(make_tables: Evenkeel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse in which the run ``first`` has landed a record, at offset 1; tests copy it."""
    folder = tmp_path_factory.mktemp("first")
    assert lander(make_tables, folder)("first", 1) == 0
    return folder / "warehouse"


@pytest.fixture
def landed(after_first: Path, warehouse: Path) -> Path:
    """A copy of that warehouse for one test."""
    shutil.copytree(after_first, warehouse)
    return warehouse


def runs(warehouse: Path) -> list[dict[str, Any]]:
    return sorted(rows(warehouse, "runs"), key=lambda run: run["run_sequence"])


def counts_of(run: dict[str, Any], name: str) -> dict[str, int]:
    return dict(run[name])


def versions_but_runs(warehouse: Path) -> dict[str, int]:
    return {name: version for name, version in versions(warehouse).items() if name != "runs"}


def test_each_run_says_what_it_read_and_wrote_and_which_versions_count(land, warehouse: Path) -> None:
    assert [land("first", 1, 2), land("second", 2, 3, 4)] == [0, 0]
    first, second = runs(warehouse)
    for number, (run, name) in enumerate(((first, "first"), (second, "second")), 1):
        assert (run["run_id"], run["run_sequence"], run["command"], run["status"]) == (name, number, "land", "published")
        assert run["started_at"] <= run["finished_at"]
        assert counts_of(run, "written")[LANDED] == number
    assert [counts_of(run, "input_counts")["landed"] for run in (first, second)] == [2, 2]
    assert counts_of(second, "input_counts")["duplicate"] == 1
    assert [counts_of(run, "output_counts")[LANDED] for run in (first, second)] == [2, 2]
    assert counts_of(second, "table_versions") == versions_but_runs(warehouse)
    assert counts_of(first, "table_versions")[LANDED] < counts_of(second, "table_versions")[LANDED]
    assert sorted(row["run_sequence"] for row in rows(warehouse, LANDED)) == [1, 1, 2, 2]
    assert first["input_fingerprint"] != second["input_fingerprint"]
    assert not (warehouse / "_staging").exists()


def test_run_keeps_last_writers_and_origins_of_earlier_runs(land, warehouse: Path) -> None:
    assert [land("first", 0), land("second", 0)] == [0, 0]
    first, second = runs(warehouse)
    assert counts_of(second, "input_counts")["duplicate"] == 1
    for name in ("written", "origins"):
        assert counts_of(first, name) and counts_of(second, name) == counts_of(first, name)


def test_json_log_has_each_phase_and_a_last_line_on_the_published_run(land_with_gates, capfd: pytest.CaptureFixture[str]) -> None:
    def logged(run_id: str, *offsets: int) -> list[dict[str, Any]]:
        assert land_with_gates(run_id, *offsets, options=("--log-format", "json")) == 0
        return [json.loads(line) for line in capfd.readouterr().err.splitlines() if line.startswith("{")]

    lines, again = logged("first", 1, 2, 2), logged("first", 1, 2, 2)
    assert [line["phase"] for line in lines if "phase" in line] == ["open", "land", "gates"]
    assert all(line["seconds"] > 0 for line in lines if "phase" in line)
    end = {name: lines[-1][name] for name in ("event", "exit_code", "run_id", "run_sequence", "status", "input_counts")}
    counts = {"read": 3, "landed": 2, "duplicate": 1, "skipped": 0, "quarantined": 0}
    assert end == {"event": "end", "exit_code": 0, "run_id": "first", "run_sequence": 1, "status": "published", "input_counts": counts}
    assert lines[-1]["output_counts"][LANDED] == 2
    assert {name: again[-1][name] for name in ("run_sequence", "status")} == {"run_sequence": 1, "status": "published"}
    assert "output_counts" not in again[-1], "it did nothing"


def test_a_published_run_is_not_run_again_and_its_name_not_used_for_another(land, landed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = versions(landed)
    (landed / "_staging").mkdir()  # it may have been killed before it removed this
    assert land("first", 1) == 0
    assert not (landed / "_staging").exists()
    assert (land("first", 2), land("first", 1, ratio=0)) == (4, 4)
    assert capsys.readouterr().err.count("run id first was used before with other input or settings") == 2
    assert versions(landed) == before


def test_a_run_with_nothing_new_decodes_nothing_and_leaves_the_page(
    evenkeel, warehouse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Until something is missing: then it makes the page anew."""
    capture, settings, page, metrics = (tmp_path / name for name in ("a.jsonl", "settings.yaml", "report.html", "evenkeel.prom"))
    capture.write_text("".join(record_line(offset=offset) + "\n" for offset in (1, 2)))
    settings.write_text(f"report: {{output: {page}, export: [prometheus]}}\n")

    def run(day: int) -> tuple[str, str, str]:
        assert evenkeel("run", "--warehouse", warehouse, "--config", settings, "--input", capture, "--as-of", f"2026-11-{day}") == 0
        return capfd.readouterr().out, page.read_text(), metrics.read_text()

    first = run(20)
    before = versions_but_runs(warehouse)
    with monkeypatch.context() as patch:
        patch.setattr(land_stage, "decode_captures", None)
        second = run(21)
    assert second[:2] == first[:2]
    clock, *figures = [text.split("\n", 3)[2:] for text in (first[2], second[2])]
    assert [clock[1]] == [lines[1] for lines in figures]
    seconds = [float(text.split("\n", 3)[2].split()[1]) for text in (first[2], second[2])]
    assert seconds[1] - seconds[0] == 24 * 3600
    assert versions_but_runs(warehouse) == before
    counts = counts_of(runs(warehouse)[1], "input_counts")
    assert {name: counts[name] for name in ("read", "landed", "duplicate")} == {"read": 2, "landed": 0, "duplicate": 2}
    page.unlink()
    assert "as of 2026-11-22" in run(22)[1]
    assert evenkeel("report", "--warehouse", warehouse, "--config", settings, "--as-of", "2027-01-01") == 0
    newest = float(metrics.read_text().split("\n", 3)[2].split()[1])
    assert newest == runs(warehouse)[2]["finished_at"].timestamp(), "a report alone hides no dead run"


def test_same_input_in_another_folder_is_the_same_run(make_tables, after_first: Path, landed: Path, tmp_path: Path) -> None:
    before, moved = versions(landed), tmp_path / "elsewhere" / "b.jsonl"
    moved.parent.mkdir()
    shutil.copy(after_first.parent / "first-1.jsonl", moved)
    named = ("--warehouse", f"{landed}/../warehouse", "--config", after_first.parent / "1.yaml", "--run-id", "first")
    assert make_tables("land", *named, "--input", moved) == 0
    assert versions(landed) == before


def test_tables_that_cannot_be_taken_back_are_worth_another_try(
    land, landed: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(self: Warehouse) -> None:
        raise PySparkException("No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Warehouse, "recover", fail)
        assert land("second", 2) == 1
    assert "open: No space left on device; run again: the next run continues it" in capsys.readouterr().err
    assert land("second", 2) == 0


@pytest.mark.parametrize(
    ("error", "ending"),
    [
        (PySparkException("java.io.IOException: 503 Slow Down"), StageFailedError),
        (AnalysisException("[SCHEMA_NOT_FOUND] no such schema"), NotAWarehouseError),
    ],
)
def test_tables_that_cannot_be_made_are_worth_another_try_unless_their_name_is_wrong(
    error: PySparkException, ending: type[EvenkeelError]
) -> None:
    def fail(optional: object) -> None:
        raise error

    with pytest.raises(
        ending, match=re.escape(f"warehouse s3a://b/w: {'' if ending is StageFailedError else 'cannot be opened: '}{error}")
    ):
        pipeline._open(cast(Warehouse, SimpleNamespace(create=fail, location="s3a://b/w")), ())


def test_a_stage_that_fails_leaves_the_tables_as_they_were(land, landed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = sorted(map(str, rows(landed, LANDED)))

    def fail(context: RunContext) -> None:
        real(context)
        raise StageFailedError("for the test")

    real = work.land.run
    with monkeypatch.context() as patched:
        patched.setattr(work.land, "run", fail)
        assert land("second", 2) == 1
    assert sorted(map(str, rows(landed, LANDED))) == before
    assert not (landed / "_staging").exists()
    failed = runs(landed)[1]
    assert (failed["run_id"], failed["status"], failed["output_counts"]) == ("second", "failed", [])
    assert counts_of(failed, "table_versions") == versions_but_runs(landed)
    assert land("second", 2) == 0  # a name that published nothing is free
    again = runs(landed)[2]
    assert (again["run_sequence"], again["status"], counts_of(again, "written")[LANDED]) == (3, "published", 3)
    assert len(rows(landed, LANDED)) == 2


def test_a_gate_that_refuses_publishes_nothing(land, warehouse: Path) -> None:
    bad = record_line(offset=9, key_b64=None) + "\n"
    assert land("r", 1, lines=bad, ratio=0) == 4
    (refused,) = runs(warehouse)
    assert (refused["status"], rows(warehouse, LANDED), rows(warehouse, "quarantine")) == ("refused", [], [])
    assert land("r", 1, lines=bad) == 0
    assert [len(rows(warehouse, name)) for name in (LANDED, "quarantine")] == [1, 1]


def test_rows_of_a_dead_run_are_taken_back_by_the_next_run(land, spark: SparkSession, landed: Path) -> None:
    table = f"delta.`{landed / LANDED}`"
    spark.sql(f"INSERT INTO {table} SELECT * FROM {table}")
    assert land("second", 2) == 0
    assert len(rows(landed, LANDED)) == 2


def test_a_repeated_run_takes_back_nothing(land, spark: SparkSession, landed: Path) -> None:
    """It writes no row that would say where the tables stand since: the next run that does takes back what another one has left."""
    table = f"delta.`{landed / LANDED}`"
    spark.sql(f"INSERT INTO {table} SELECT * FROM {table}")
    before = versions(landed)
    assert land("first", 1) == 0
    assert land("first", 2) == 4
    assert versions(landed) == before


def test_log_counts_landed_skipped_and_quarantined_records(land, capsys: pytest.CaptureFixture[str]) -> None:
    connect = {"key_b64": group_key("g"), "value_b64": group_value(1, protocol_type="connect")}
    line = record_line(offset=8, **{name: base64.b64encode(part).decode() for name, part in connect.items()}) + "\n"
    assert land("r", 1, lines=line + record_line(offset=9, key_b64=None) + "\n") == 0
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if "record" in line] == [
        "evenkeel: 3 records read: 1 landed, 0 duplicate, 1 skipped, 1 quarantined",
        "evenkeel: consumer-offsets: 1 records of kind no_key went to quarantine; see the columns reason and detail there",
        "evenkeel: consumer-offsets: skipped 1 records of groups with protocol type 'connect'",
    ]


def test_run_notes_the_versions_it_ran_on(spark: SparkSession) -> None:
    """Java's and Delta's too, of the JVM that this session has."""
    versions = software_versions(spark)
    assert versions.keys() == {"evenkeel", "python", "spark", "pyspark", "java", "delta"}
    assert versions["spark"] == versions["pyspark"] == spark.version
    assert versions["delta"] in (ROOT / "conf" / "delta-jars.txt").read_text(encoding="utf-8")
    assert int(versions["java"].partition(".")[0]) in (17, 21)
