"""``assign --expand``: the partitions of the members of some groups, by solution."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from io import BytesIO
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from jobs.runtime.atomic_file import write_file
from jobs.runtime.errors import EvenkeelError, UsageError
from jobs.runtime.locations import on_one_line
from jobs.storage.solution_rows import expand
from jobs.storage.warehouse import Warehouse
from schemas.tables import ASSIGNMENTS, GENERATION_TOPICS, SOLUTIONS, SUBSCRIPTION_SNAPSHOTS
from schemas.vocabulary import WITH_RESULT

HEADINGS = ("cluster_id", "group_id", "generation", "position", "basis", "strategy", "member_id", "partitions")
NAMED_GROUPS = 5
"""The most groups that a message names."""


def run(warehouse: Warehouse, groups: tuple[str, ...], cluster_id: str | None, since: datetime | None, output: Path | None) -> str:
    """Show the partitions of the members of some groups, by solution; return a line with the number of rows. Changes no table.

    Args:
        warehouse: set to the published versions.
        groups: group ids.
        cluster_id: only groups of this cluster; None for all clusters.
        since: only generations at this time or later.
        output: Parquet file for the rows; None prints one line per row.

    Raises:
        UsageError: a group has no results.
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
    summary = f"rows: {count:,}" + ("" if output is None else f", in {output}")
    return summary + (f"; maintain has dropped the partitions of {dropped:,} older solutions" if dropped else "")


def _check_groups(solutions: DataFrame, groups: tuple[str, ...]) -> None:
    known = solutions.select("group_id").distinct()
    missing = sorted(set(groups) - {row["group_id"] for row in known.where(F.col("group_id").isin(*groups)).collect()})
    if missing:
        others = [row["group_id"] for row in known.orderBy("group_id").limit(NAMED_GROUPS).collect()]
        raise UsageError(f"--expand: no results for group {', '.join(missing)}; groups with results are: {', '.join(others) or 'none'}")


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
        raise EvenkeelError(f"--output {output}: cannot be written ({error.strerror}); name another file") from error
    return int(table.num_rows)
