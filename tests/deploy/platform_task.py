"""Calls the wheel's entry point as Databricks does, once for each command line of stdin (JSON), and prints what came of it (JSON).

The session is there before, made by the platform and with settings of its own; the entry point is found in the metadata of the
installed distribution and called without arguments, with ``sys.argv`` set; what counts is whether it raises. It is called in another
thread than the one that made the session, for which that is not the active one.
"""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path

from pyspark.sql import SparkSession

import jobs
from jobs.runtime.session import read_conf_file

PLATFORMS_OWN = {"spark.sql.shuffle.partitions": "3"}
"""Which conf/spark-local.conf has otherwise: nobody may lay that over the platform's."""


def call(package: str, entry_point: str, parameters: list[str]) -> dict[str, object]:
    """Return what one task came to."""
    (entry,) = [entry for entry in metadata.distribution(package).entry_points if entry.name == entry_point]
    sys.argv = [package, *parameters]
    try:
        return {"returned": entry.load()()}
    except BaseException as error:  # SystemExit too is a failure there
        return {"raised": type(error).__name__, "exit_code": getattr(error, "exit_code", None), "text": str(error)}


def main(conf: str, jars: str, folder: str) -> None:
    """Read the command lines, run them one after the other, and print their outcomes."""
    settings = {"spark.jars": ",".join(map(str, sorted(Path(jars).glob("*.jar")))), "spark.sql.warehouse.dir": folder}
    for name in ("spark-defaults.conf", "spark-local.conf"):  # without the second each commit takes fifty tasks
        settings |= read_conf_file(Path(conf) / name)
    settings |= PLATFORMS_OWN
    os.environ["PYSPARK_PYTHON"] = sys.executable  # workers have the same packages
    builder = SparkSession.builder.master("local[*,4]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    os.environ["DATABRICKS_RUNTIME_VERSION"] = "17.3"
    spark.sql("CREATE SCHEMA evenkeel_task")
    with ThreadPoolExecutor(1) as pool:
        outcomes = [pool.submit(call, *task).result() for task in json.load(sys.stdin)]

    result = {
        "outcomes": outcomes,
        "module_file": jobs.__file__,
        "settings": {key: spark.conf.get(key) for key in PLATFORMS_OWN},
        "runs": [row.asDict() for row in spark.sql("SELECT run_id, status FROM evenkeel_task.runs ORDER BY run_sequence").collect()],
        "views": sorted(
            row["tableName"] for row in spark.sql("SHOW TABLES IN evenkeel_task").collect() if "_published" in row["tableName"]
        ),
    }
    spark.stop()
    print(json.dumps(result))


main(*sys.argv[1:])
