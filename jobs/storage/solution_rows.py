"""Solutions as rows: their assignments, unpacked from ``solutions.holdings`` into the columns of ``assignments``."""

from __future__ import annotations

from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs.storage.warehouse import Warehouse
from jobs.workers import holdings_udfs
from schemas.keys import GENERATION_KEY
from schemas.staging import PACKED_ROWS, UNPACKED_ROWS
from schemas.tables import ASSIGNMENTS, GENERATION_TOPICS, SOLUTIONS, SUBSCRIPTION_SNAPSHOTS
from schemas.vocabulary import WITH_RESULT


def expand(solutions: DataFrame, snapshots: DataFrame, generation_topics: DataFrame, *, passes_over_torn: bool = False) -> DataFrame:
    """Return one row for each member of each solution with stored holdings, in the columns of ``assignments``.

    Args:
        solutions: the solutions to unpack.
        snapshots: rows of ``subscription_snapshots``, at least those of these solutions.
        generation_topics: all rows of the table.
        passes_over_torn: leave out solutions whose holdings cannot be read; otherwise such a solution fails its worker.
    """
    members = snapshots.select(
        *GENERATION_KEY, F.col("members.member_id").alias("member_ids"), F.col("members.group_instance_id").alias("group_instance_ids")
    )
    topics = generation_topics.select("cluster_id", "topics_hash", F.col("topics.topic").alias("listed_topics"))
    packed = solutions.where(F.col("holdings").isNotNull()).join(topics, ["cluster_id", "topics_hash"]).join(members, list(GENERATION_KEY))
    names = [name for name in UNPACKED_ROWS.names if name not in ("held_topics", "held_partitions")]
    unpack = partial(holdings_udfs.unpack_solutions, passes_over_torn=passes_over_torn)
    unpacked = packed.select(*names, "holdings", "listed_topics").mapInArrow(unpack, UNPACKED_ROWS)
    return explode_members(unpacked).select(*ASSIGNMENTS.schema.names)


def holdings_of_rows(warehouse: Warehouse) -> DataFrame:
    """Return the key and the holdings of every solution with a result, packed from the rows of ``assignments``.

    For a warehouse from before there were holdings. Solutions whose rows maintenance has removed are left out.
    """
    solutions = warehouse.read(SOLUTIONS.name).where(F.col("status").isin(*map(str, WITH_RESULT)))
    topics = warehouse.read(GENERATION_TOPICS.name).select("cluster_id", "topics_hash", F.col("topics.topic").alias("listed_topics"))
    members = warehouse.read(SUBSCRIPTION_SNAPSHOTS.name).select(*GENERATION_KEY, F.col("members.member_id").alias("member_ids"))
    entry = F.struct("member_id", F.col("partitions.topic").alias("topics"), F.col("partitions.partitions").alias("lists"))
    held = warehouse.read(ASSIGNMENTS.name).groupBy(*SOLUTIONS.key).agg(F.collect_list(entry).alias("held"))
    wanted = solutions.select(*SOLUTIONS.key, "topics_hash").join(topics, ["cluster_id", "topics_hash"]).join(members, list(GENERATION_KEY))
    rows = wanted.join(held, list(SOLUTIONS.key), "left").where(F.col("held").isNotNull() | (F.size("member_ids") == 0))
    return rows.select(*SOLUTIONS.key, "member_ids", "listed_topics", "held").mapInArrow(holdings_udfs.pack_solutions, PACKED_ROWS)


def explode_members(solutions: DataFrame) -> DataFrame:
    """Return one row for each member of each solution that has its members' partitions as lists.

    Rows: the columns of the solution, with ``member_id``, ``group_instance_id``, ``partitions`` and ``partition_count`` of the member.
    """
    members = F.arrays_zip("member_ids", "group_instance_ids", "held_topics", "held_partitions")
    rows = solutions.where(F.col("held_topics").isNotNull()).withColumn("member", F.explode(members))
    entry_type = ASSIGNMENTS.schema["partitions"].dataType
    return rows.withColumns(
        {
            "member_id": F.col("member.member_ids"),
            "group_instance_id": F.col("member.group_instance_ids"),
            "partitions": F.arrays_zip("member.held_topics", "member.held_partitions").cast(entry_type),
            "partition_count": F.size(F.flatten("member.held_partitions")),
        }
    )
