"""Which modes Spark gives to its files and folders."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs.runtime.jvm import follow_umask


def modes(folder: Path) -> dict[str, set[str]]:
    """Return the modes of the files and of the folders within a folder, in octal."""
    found: dict[str, set[str]] = {"files": set(), "folders": set()}
    for path in folder.rglob("*"):
        found["folders" if path.is_dir() else "files"].add(f"{path.stat().st_mode & 0o7777:o}")
    return found


@pytest.mark.parametrize(("umask", "files", "folders"), [(0o002, "664", "2775"), (0o077, "600", "2700")])
def test_spark_gives_the_modes_that_the_umask_leaves(spark: SparkSession, tmp_path: Path, umask: int, files: str, folders: str) -> None:
    """A table, and rows that are written aside; in a folder that hands its group on."""
    tmp_path.chmod(0o2775)
    before = os.umask(umask)
    try:
        follow_umask(spark)
        spark.sql(f"CREATE TABLE delta.`{tmp_path}/table` USING delta PARTITIONED BY (m) AS SELECT 1 AS m, 2 AS n")
        spark.range(1).write.parquet(f"{tmp_path}/aside/rows")
    finally:
        os.umask(before)
        follow_umask(spark)
    assert modes(tmp_path) == {"files": {files}, "folders": {folders}}
