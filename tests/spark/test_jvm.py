"""What a session asks of its JVM."""

from __future__ import annotations

from typing import Any

import pytest
from py4j.protocol import MEMORY_COMMAND_NAME
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F


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
