"""A warehouse that is a catalog schema: the same tables by name, and views of what is published."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from schemas.tables import TABLES
from tests.spark.tables import rows

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def schema(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    spark.sql(f"CREATE SCHEMA evenkeel_test LOCATION '{tmp_path / 'schema'}'")  # its own: a dead run leaves its tables behind
    yield "spark_catalog.evenkeel_test"
    spark.sql("DROP SCHEMA evenkeel_test CASCADE")


def test_views_show_what_is_published(evenkeel, spark: SparkSession, schema: str, demo_warehouse: Path, tmp_path: Path) -> None:
    assert evenkeel("run", "--warehouse", schema, "--output", tmp_path / "report.html") == 0
    named = {row["tableName"] for row in spark.sql(f"SHOW TABLES IN {schema}").collect()}
    views = {f"{name}_published" for name in TABLES if name != "runs"}
    assert named == {*TABLES, *views, "evenkeel_lease"}  # nothing written aside is left
    for name in ("assignments", "movements", "generation_audits"):
        assert spark.table(f"{schema}.{name}_published").count() == len(rows(demo_warehouse, name))
    spark.sql(f"DELETE FROM {schema}.movements")
    assert spark.table(f"{schema}.movements_published").count() == len(rows(demo_warehouse, "movements"))
    assert (tmp_path / "report.html").stat().st_size > 10_000

    (query,) = re.findall(r"^```sql\n(.*?)^```", (ROOT / "docs" / "reading.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    told = spark.sql(query.replace("main.evenkeel", schema)).collect()
    assert {row["group_id"] for row in told} == {row["group_id"] for row in rows(demo_warehouse, "generation_audits")}


def test_a_schema_that_is_not_there(evenkeel, capsys: pytest.CaptureFixture[str]) -> None:
    assert evenkeel("run", "--warehouse", "spark_catalog.nowhere") == 2
    assert "warehouse spark_catalog.nowhere: cannot be opened: [SCHEMA_NOT_FOUND]" in capsys.readouterr().err
