"""What a local Spark does in most commands, in small: the classes that it loads are kept in an archive, see ``class_archive``.

    spark-submit ... class_training.py FOLDER

FOLDER must not exist; it is removed at the end.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window


def _same(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    yield from batches


def train(spark: SparkSession, folder: str) -> None:
    """Write, read, change and aggregate small Delta tables in a new folder."""
    rows = spark.range(500).select(
        "id",
        (F.col("id") % 7).cast("int").alias("kind"),
        F.col("id").cast("string").alias("name"),
        F.timestamp_millis(F.col("id") * 1000).alias("at"),
        F.array(F.struct("id", F.sha2(F.col("id").cast("string"), 256).alias("hash"))).alias("list"),
        F.create_map(F.lit("a"), F.col("id")).alias("map"),
    )
    staged = f"{folder}/staged"
    rows.mapInArrow(_same, rows.schema).write.parquet(staged)
    again = spark.read.schema(rows.schema).parquet(staged)
    table = f"delta.`{folder}/table`"
    again.where("id < 0").write.format("delta").partitionBy("kind").save(f"{folder}/table")
    again.writeTo(table).append()
    again.where("kind = 3").write.format("delta").mode("overwrite").option("replaceWhere", "kind = 3").save(f"{folder}/table")
    spark.sql(f"DESCRIBE HISTORY {table}").collect()
    again.where("id < 9").createOrReplaceTempView("changes")
    spark.sql(f"MERGE INTO {table} t USING changes d ON t.id <=> d.id WHEN MATCHED THEN DELETE")
    stored = spark.table(table)
    counted = stored.groupBy("kind").agg(
        F.count(F.lit(1)).alias("count"), F.max_by("name", "id").alias("name"), F.sort_array(F.collect_list("id")).alias("ids"),
        F.sum(F.col("id").cast("decimal(38,0)")).alias("sum"),
    )  # fmt: skip
    of_kind = Window.partitionBy("kind")
    exploded = stored.select("kind", "id", F.inline("list").alias("number", "hash"))
    ranked = exploded.withColumns({"rank": F.row_number().over(of_kind.orderBy("id")), "most": F.max("number").over(of_kind)})
    joined = ranked.join(F.broadcast(counted), "kind").join(again.select("id", "map"), "id", "left").where("rank < 9")
    joined.select("id", "kind", "rank", "name").distinct().orderBy("id").collect()
    again.join(stored.select("id"), "id", "left_anti").count()
    stored.select(F.to_json(F.struct("id", "list"))).toArrow()


if __name__ == "__main__":
    builder = SparkSession.builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    session = builder.config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog").getOrCreate()
    try:
        train(session, sys.argv[1])
    finally:
        session.stop()
        shutil.rmtree(sys.argv[1], ignore_errors=True)
