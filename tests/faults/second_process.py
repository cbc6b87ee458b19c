"""A second process with a Spark of its own: does what the lines on its input ask for, and answers each with a line.

``{"argv": [...]}`` runs a command line and answers with its exit code and its messages; ``{"folder": ..., "writer": ..., "count": ...}``
commits so many rows, and answers with the numbers of those that were acknowledged.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import sys
import time
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from pyspark.sql import SparkSession

from jobs import cli
from jobs.runtime import file_lock as lock
from jobs.runtime.file_lock import LONGEST_COMMIT_SECONDS, exclusive, this_process
from jobs.runtime.locations import COMMIT_LOCK
from jobs.runtime.session import open_session
from jobs.settings import conf_folder
from jobs.storage.warehouse import Warehouse

TABLE = "numbers"


def make_table(spark: SparkSession, folder: Path) -> Warehouse:
    warehouse = Warehouse(spark, str(folder))
    spark.sql(f"CREATE TABLE {warehouse.identifier(TABLE)} (writer STRING, number BIGINT) USING delta")
    return warehouse


def commit_rows(spark: SparkSession, folder: Path, writer: str, count: int) -> list[int]:
    """Return the numbers of the rows whose commits were acknowledged, each a commit as runs make them."""
    warehouse, pauses, acknowledged = Warehouse(spark, str(folder)), random.Random(writer), []
    now = partial(datetime.now, timezone.utc)
    committing = partial(exclusive, folder, COMMIT_LOCK, this_process(writer, now()), LONGEST_COMMIT_SECONDS, now)
    # A run does other things between two commits. Without a pause, and with one of half a second between two tries, one writer would come
    # after the other.
    with warehouse.signed(writer, committing), mock.patch.object(lock, "POLL_SECONDS", 0.01):
        for number in range(count):
            insert = f"INSERT INTO {warehouse.identifier(TABLE)} VALUES ('{writer}', {number})"
            if warehouse.commit(TABLE, partial(spark.sql, insert)) is not None:
                acknowledged.append(number)
            time.sleep(pauses.uniform(0.01, 0.05))
    return acknowledged


def run(argv: list[str]) -> dict[str, Any]:
    """Return how a command ended and what it said."""
    with contextlib.redirect_stderr(io.StringIO()) as messages, contextlib.redirect_stdout(io.StringIO()):
        return {"code": cli.console_main(argv), "messages": messages.getvalue()}


def serve(spark: SparkSession) -> None:
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(run(**asked) if "argv" in asked else commit_rows(spark, Path(asked.pop("folder")), **asked)), flush=True)


if __name__ == "__main__":
    serve(open_session(conf_folder(), Path(os.environ["EVENKEEL_JARS"])))
