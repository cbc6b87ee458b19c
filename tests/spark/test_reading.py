"""The page on reading the tables: its examples run, and see what is published, whatever else a run has written."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.builders.tables import rows

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reading.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def read_as_documented(spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the names that the examples leave when they are run one after the other beside a folder ``warehouse``."""
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {"spark": spark}
    for example in EXAMPLES:
        exec(compile(example, str(PAGE), "exec"), names)
    return names


def test_readers_see_the_old_run_while_newer_versions_are_unpublished(
    spark: SparkSession, demo_warehouse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run in progress, and one that died, look alike: tables are ahead of the newest row in ``runs``."""
    copy = tmp_path / "warehouse"
    shutil.copytree(demo_warehouse, copy)
    for name in ("movements", "generation_audits", "assignments"):
        spark.sql(f"DELETE FROM delta.`{copy / name}`")
        assert rows(copy, name) == []
    names = read_as_documented(spark, tmp_path, monkeypatch)
    audits = [row for row in rows(demo_warehouse, "generation_audits") if row["basis"] == "observed"]
    moved: dict[str, int] = {}
    for row in audits:
        moved[row["group_id"]] = moved.get(row["group_id"], 0) + (row["movement_count"] or 0)
    assert len(names["moved"]) == len(rows(demo_warehouse, "movements"))
    found = Counter(row["rule_id"] for row in rows(demo_warehouse, "findings"))
    assert found and dict(names["loudest"].fetchall()) == found
    assert dict(names["restless"].iter_rows()) == moved
    assert names["held"].count() == len(rows(demo_warehouse, "assignments"))


def test_many_files_are_listed_by_few_tasks(spark: SparkSession, tmp_path: Path) -> None:
    """A folder of captures has as many as its collection was long; Spark lists them in a job, by default with a task for each."""
    paths = [tmp_path / f"{number}.jsonl" for number in range(40)]
    for path in paths:
        path.touch()
    spark.sparkContext.setJobGroup("listing", "")
    try:
        spark.read.text([str(path) for path in paths])
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup("listing")]
    stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    assert stages and sum(stage.numTasks for stage in stages if stage is not None) <= 2
