"""What it costs to send rows to Python workers and back, which neither this project nor the rival can avoid.

Started by ``fleet.py`` through spark-submit, with this checkout on PYTHONPATH:

    fleet_floors.py RECORDS WAREHOUSE

In one session, after one that only starts workers, four jobs send rows through a worker function that returns what it gets, and drop them:
all records (``land``), the snapshots of the groups together by group in Arrow (``assign``) and by ``applyInPandas`` (``rival``), and the
assignments together by group (``audit``). Prints what each takes in CPU seconds.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tests.benchmarks.processes import printed_cpu_s

GROUP = ("cluster_id", "group_id")


def main() -> None:
    """Run all jobs and print what each took."""
    records, warehouse = sys.argv[1:]
    spark = SparkSession.builder.getOrCreate()
    raw = spark.read.parquet(records)
    snapshots = raw.where("substring(key, 1, 2) = x'0002'").select("key", "value", "offset")
    jobs = {
        "start": idle(spark.range(2)),
        "land": idle(raw),
        "rival": snapshots.groupBy("key").applyInPandas(same_frame, snapshots.schema),
        "assign": idle(by_group(read(spark, warehouse, "subscription_snapshots"))),
        "audit": idle(by_group(read(spark, warehouse, "assignments"))),
    }
    for name, job in jobs.items():
        with printed_cpu_s(name):
            job.write.format("noop").mode("overwrite").save()
    spark.stop()


def read(spark: SparkSession, warehouse: str, name: str) -> DataFrame:
    """Return a table of the warehouse."""
    return spark.read.format("delta").load(f"{warehouse}/{name}")


def by_group(rows: DataFrame) -> DataFrame:
    """Return the rows with those of a group one after another, in one partition."""
    return rows.repartition(*GROUP).sortWithinPartitions(*GROUP)


def idle(rows: DataFrame) -> DataFrame:
    """Return the rows after a way through Python workers."""
    return rows.mapInArrow(same_batches, rows.schema)


def same_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the batches as they come."""
    yield from batches


def same_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame of one group as it is."""
    return frame


if __name__ == "__main__":
    main()
