"""What a session asks of its JVM, and its settings."""

from __future__ import annotations

from typing import Any

import pytest
from py4j.protocol import MEMORY_COMMAND_NAME
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from jobs.runtime.jvm import setting


@pytest.mark.parametrize(
    ("make", "expected"), [(lambda: F.col("a"), 1), (lambda: F.lit(1), 1), (lambda: F.max(F.lit(1)), 2), (lambda: F.col("a") + 1, 2)]
)
def test_columns_are_made_without_looking_for_their_classes(
    spark: SparkSession, make: Any, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(make(), Column)  # the first of its kind looks for its function
    gateway: Any = spark.sparkContext._gateway
    client, sent = gateway._gateway_client, list[str]()
    send = client.send_command

    def count(command: str, *arguments: Any, **options: Any) -> Any:
        if not command.startswith(MEMORY_COMMAND_NAME):  # Python's garbage collection
            sent.append(command)
        return send(command, *arguments, **options)

    monkeypatch.setattr(client, "send_command", count)
    assert isinstance(make(), Column) and len(sent) == expected, sent


@pytest.mark.parametrize("key", ["spark.sql.crossJoin.enabled", "spark.sql.mapKeyDedupPolicy", "spark.no.such.setting"])
def test_setting_that_is_not_set_is_empty(spark: SparkSession, key: str) -> None:
    """Of some settings an empty value is an error: a report of many audits asks for one that only our local sessions set."""
    assert setting(spark, key) == ""


def test_setting_that_is_set_has_its_value(spark: SparkSession) -> None:
    assert setting(spark, "spark.sql.session.timeZone") == "UTC"
