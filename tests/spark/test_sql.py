"""The command ``sql`` on the demo: what it answers, in which formats, and what it refuses."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs.runtime.errors import UsageError
from jobs.sql.options import SqlOptions
from jobs.sql.questions import QUESTIONS
from jobs.sql.run import answer_query, checked_query
from jobs.storage.warehouse import Warehouse
from schemas.tables import TABLES
from tests.builders.tables import rows
from tests.faults.hostile_names import NAMES

Ask = Callable[..., str]
PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reading.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def ask(spark: SparkSession, demo_warehouse: Path) -> Ask:
    """Return what a query prints."""
    return lambda query=None, **options: answer_query(Warehouse(spark, str(demo_warehouse)), SqlOptions(query=query, **options))


def test_query_sees_published_rows_as_json(ask: Ask, demo_warehouse: Path) -> None:
    found = json.loads(ask("SELECT rule_id, count(*) AS n FROM findings_published GROUP BY rule_id ORDER BY n", format="json"))
    assert {row["rule_id"]: row["n"] for row in found} == Counter(row["rule_id"] for row in rows(demo_warehouse, "findings"))
    assert [row["n"] for row in found] == sorted(row["n"] for row in found)


@pytest.mark.parametrize("name", sorted(TABLES))
def test_every_table_has_a_view(ask: Ask, demo_warehouse: Path, name: str) -> None:
    (found,) = json.loads(ask(f"SELECT count(*) AS n FROM {name.upper()}_published", format="json"))
    assert found["n"] == len(rows(demo_warehouse, name))


@pytest.mark.parametrize("question", QUESTIONS)
def test_question_is_answered(ask: Ask, question: str) -> None:
    lines = ask(question=question).splitlines()
    assert lines[0].split()[-1] in (
        "imbalance_ratios",
        "pause_partition_ms",
        "movement_count",
        "generation_count",
        "longest_since_commit_s",
    )
    assert len(lines) > 4


def test_table_is_aligned_with_numbers_to_the_right_and_says_what_it_leaves_out(ask: Ask) -> None:
    text = ask("SELECT 'a' AS name, 5 AS n UNION ALL SELECT 'bbbbb', 10 UNION ALL SELECT NULL, 7 ORDER BY n", limit=2)
    assert text == "name  n\na     5\nNULL  7\n\nthe first 2 rows; --limit 0 prints all"


def test_example_of_the_page_prints_what_it_shows(ask: Ask) -> None:
    ((command, output),) = re.findall(
        r"^```bash\n\./spark-submit\.sh sql (.*?)\n```\n\n```text\n(.*?)\n```", PAGE, re.MULTILINE | re.DOTALL
    )
    (query,) = shlex.split(command)
    assert ask(query) == output


def test_one_row_is_one_and_a_mistake_is_in_the_line_of_the_query(ask: Ask) -> None:
    assert ask("SELECT 1 AS n UNION ALL SELECT 1", limit=1).endswith("\n\nthe first 1 row; --limit 0 prints all")
    with pytest.raises(UsageError, match=r"Syntax error at or near 'FORM'.* \(line 2, pos 0\)$"):
        ask("SELECT rule_id AS rule\nFORM findings_published")


def test_columns_of_one_name_keep_their_values(ask: Ask) -> None:
    assert json.loads(ask("SELECT 1 AS a, 2 AS a, 3 AS a_2", format="json")) == [{"a": 1, "a_3": 2, "a_2": 3}]


def test_values_without_a_json_type_are_texts(ask: Ask) -> None:
    query = (
        "SELECT TIMESTAMP'2026-11-21 02:00:00Z' AS t, DATE'2026-11-21' AS d, X'00ff' AS b, map('k', 1) AS m, 1.5BD AS x, array(NULL) AS l"
    )
    expected = {"t": "2026-11-21T02:00:00+00:00", "d": "2026-11-21", "b": "00ff", "m": {"k": 1}, "x": "1.5", "l": [None]}
    assert json.loads(ask(query, format="json")) == [expected]


def test_hostile_names_stay_on_one_line(spark: SparkSession, ask: Ask) -> None:
    spark.createDataFrame([(name, [name]) for name in NAMES], "name string, names array<string>").createOrReplaceTempView("hostile")
    try:
        lines = ask("SELECT * FROM hostile").split("\n")
        assert len(lines) == len(NAMES) + 1 and all(line.isprintable() for line in lines)
        found = ask("SELECT name FROM hostile", format="json")
        assert found.isascii() and [row["name"] for row in json.loads(found)] == NAMES
        assert len(list(csv.reader(io.StringIO(ask("SELECT * FROM hostile", format="csv"))))) == len(NAMES) + 1
    finally:
        spark.catalog.dropTempView("hostile")


@pytest.mark.parametrize(
    "text",
    [
        "DROP TABLE {t}",
        "SELECT 1) INSERT INTO {t} (rule_id",  # it would close the parentheses of a common table expression
        "DELETE FROM {t}",
        "INSERT INTO {t} SELECT * FROM {t}",
        "FROM {t} INSERT INTO {t} SELECT *",
        "WITH q AS (SELECT * FROM {t}) INSERT INTO {t} SELECT * FROM q",
        "MERGE INTO {t} USING {t} s ON FALSE WHEN NOT MATCHED THEN INSERT *",
        "UPDATE {t} SET rule_id = 'x'",
        "CREATE TABLE other USING parquet AS SELECT 1",
        "CREATE TEMPORARY VIEW other AS SELECT 1",
        "ALTER TABLE {t} SET TBLPROPERTIES (a = 1)",
        "OPTIMIZE {t}",
        "VACUUM {t}",
        "SET spark.sql.ansi.enabled = false",
        "CACHE TABLE findings_published",
        "CLEAR CACHE",
        "SHOW TABLES",
        "EXPLAIN SELECT 1",
        "SELECT 1; SELECT 2",
        "SELECT 1; DROP TABLE {t}",
        "BEGIN DROP TABLE {t}; END",
        "SELECT 1) SELECT 2 --",
        "SELECT 1 /*",
        "",
        "   ;",
        "SELECT",
        "SELECT * FROM findings_publish",
        "SELECT no_such_column FROM findings_published",
    ],
)
def test_what_is_no_query_is_refused_and_changes_nothing(spark: SparkSession, ask: Ask, demo_warehouse: Path, text: str) -> None:
    before = sorted(path.name for path in (demo_warehouse / "findings").rglob("*"))
    with pytest.raises(UsageError, match=r"^sql: ") as caught:
        ask(text.format(t=f"delta.`{demo_warehouse}/findings`"))
    assert "\n" not in str(caught.value)
    assert sorted(path.name for path in (demo_warehouse / "findings").rglob("*")) == before
    assert not spark.catalog.tableExists("other")


@pytest.mark.parametrize(
    "text", ["VALUES (1)", "WITH q AS (SELECT 1 AS a) SELECT * FROM q", "SELECT 1;", "-- why\nSELECT 1 -- one", "(SELECT 1)"]
)
def test_any_shape_of_query_is_answered(spark: SparkSession, text: str) -> None:
    assert [tuple(row) for row in checked_query(spark, text).collect()] == [(1,)]


def test_a_table_that_is_not_there_is_answered_with_the_nearest_names(ask: Ask, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError) as caught:
        ask("SELECT * FROM findings_publishd")
    assert str(caught.value) == "sql: there is no table 'findings_publishd', expected one such as findings_published"
    assert "SQLQueryContextLogger" not in "".join(capfd.readouterr())
