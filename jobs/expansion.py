"""Solutions as rows: what the members of each hold, unpacked from ``solutions.holdings`` into the shape of ``assignments``."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from io import BytesIO
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from jobs import udfs
from jobs.assign import explode_members
from jobs.atomic_file import write_file
from jobs.errors import EvenkeelError, UsageError
from jobs.location import on_one_line
from jobs.packing import PLACE
from jobs.warehouse import Warehouse
from schemas.staging import PACKED_ROWS, UNPACKED_ROWS
from schemas.tables import ASSIGNMENTS, GENERATION_TOPICS, SOLUTIONS, SUBSCRIPTION_SNAPSHOTS
from schemas.vocabulary import WITH_RESULT

HEADINGS = ("cluster_id", "group_id", "generation", "position", "basis", "strategy", "member_id", "partitions")
NAMED_GROUPS = 5
"""How many of the groups that there are a message names."""


def expand(solutions: DataFrame, snapshots: DataFrame, generation_topics: DataFrame, *, passes_over_torn: bool = False) -> DataFrame:
    """Return a row a member of each solution whose holdings are stored, as ``assignments`` has them.

    Args:
        solutions: those that are wanted.
        snapshots: rows of ``subscription_snapshots``: at least those of these solutions.
        generation_topics: all.
        passes_over_torn: leave out solutions whose holdings cannot be read; else the worker that meets one fails.
    """
    members = snapshots.select(
        *PLACE, F.col("members.member_id").alias("member_ids"), F.col("members.group_instance_id").alias("group_instance_ids")
    )
    topics = generation_topics.select("cluster_id", "topics_hash", F.col("topics.topic").alias("listed_topics"))
    packed = solutions.where(F.col("holdings").isNotNull()).join(topics, ["cluster_id", "topics_hash"]).join(members, list(PLACE))
    names = [name for name in UNPACKED_ROWS.names if name not in ("held_topics", "held_partitions")]
    unpack = partial(udfs.unpack_solutions, passes_over_torn=passes_over_torn)
    return explode_members(packed.select(*names, "holdings", "listed_topics").mapInArrow(unpack, UNPACKED_ROWS))


def holdings_of_rows(warehouse: Warehouse) -> DataFrame:
    """Return the key and the holdings of every solution with a result, packed from the rows of ``assignments``.

    For a warehouse of before there were holdings. Solutions whose rows maintenance has dropped are not among them.
    """
    solutions = warehouse.read(SOLUTIONS.name).where(F.col("status").isin(*map(str, WITH_RESULT)))
    topics = warehouse.read(GENERATION_TOPICS.name).select("cluster_id", "topics_hash", F.col("topics.topic").alias("listed_topics"))
    members = warehouse.read(SUBSCRIPTION_SNAPSHOTS.name).select(*PLACE, F.col("members.member_id").alias("member_ids"))
    entry = F.struct("member_id", F.col("partitions.topic").alias("topics"), F.col("partitions.partitions").alias("lists"))
    held = warehouse.read(ASSIGNMENTS.name).groupBy(*SOLUTIONS.key).agg(F.collect_list(entry).alias("held"))
    wanted = solutions.select(*SOLUTIONS.key, "topics_hash").join(topics, ["cluster_id", "topics_hash"]).join(members, list(PLACE))
    rows = wanted.join(held, list(SOLUTIONS.key), "left").where(F.col("held").isNotNull() | (F.size("member_ids") == 0))
    return rows.select(*SOLUTIONS.key, "member_ids", "listed_topics", "held").mapInArrow(udfs.pack_solutions, PACKED_ROWS)


def run(warehouse: Warehouse, groups: tuple[str, ...], cluster_id: str | None, since: datetime | None, output: Path | None) -> str:
    """Show what members of some groups hold by every solution; return how many rows there were. Changes no table.

    Args:
        warehouse: set to what is published.
        groups: their ids.
        cluster_id: only groups of this cluster; None for those of all.
        since: only generations of this moment or later.
        output: Parquet file for the rows; None prints a line a row.

    Raises:
        UsageError: a group is not there.
    """
    solutions = warehouse.read(SOLUTIONS.name)
    if cluster_id is not None:
        solutions = solutions.where(F.col("cluster_id") == cluster_id)
    _check_groups(solutions, groups)
    wanted = solutions.where(F.col("group_id").isin(*groups))
    if since is not None:
        wanted = wanted.where(F.col("observed_at") >= F.lit(since))
    rows = expand(wanted, warehouse.read(SUBSCRIPTION_SNAPSHOTS.name), warehouse.read(GENERATION_TOPICS.name))
    rows = rows.orderBy("cluster_id", "group_id", "position", "basis", "strategy", "member_id")
    dropped = wanted.where(F.col("status").isin(*map(str, WITH_RESULT)) & F.col("holdings").isNull()).count()
    count = _print(rows) if output is None else _write(rows, output)
    told = f"rows: {count:,}" + ("" if output is None else f", in {output}")
    return told + (f"; maintain has dropped what members held by {dropped:,} older solutions" if dropped else "")


def _check_groups(solutions: DataFrame, groups: tuple[str, ...]) -> None:
    known = solutions.select("group_id").distinct()
    missing = sorted(set(groups) - {row["group_id"] for row in known.where(F.col("group_id").isin(*groups)).collect()})
    if missing:
        others = [row["group_id"] for row in known.orderBy("group_id").limit(NAMED_GROUPS).collect()]
        raise UsageError(f"--expand: no results of group {', '.join(missing)}; groups there are: {', '.join(others) or 'none'}")


def _print(rows: DataFrame) -> int:
    print("\t".join(HEADINGS))
    count = 0
    for row in rows.select(*HEADINGS).toLocalIterator():
        print("\t".join(_cells(row)))
        count += 1
    return count


def _cells(row: Row) -> Iterator[str]:
    for name in HEADINGS[:-1]:
        yield on_one_line(str(row[name]))
    yield " ".join(f"{on_one_line(entry['topic'])}[{','.join(map(str, entry['partitions']))}]" for entry in row["partitions"])


def _write(rows: DataFrame, output: Path) -> int:
    table, content = rows.select(*ASSIGNMENTS.schema.names).toArrow(), BytesIO()
    pq.write_table(table, content)
    try:
        write_file(output, (content.getbuffer(),))
    except OSError as error:
        raise EvenkeelError(f"--output {output}: cannot be written ({error.strerror}); name another place for it") from error
    return int(table.num_rows)
