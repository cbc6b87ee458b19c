"""Worker functions that pack and unpack the column ``solutions.holdings``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from jobs.workers.batches import Batches, to_batches
from jobs.workers.guard import GroupFailedError
from jobs.workers.holdings_column import TornHoldingsError, pack_holdings, unpack_holdings
from jobs.workers.packing import group_by_topic
from schemas.staging import PACKED_ROWS, UNPACKED_ROWS


def unpack_solutions(batches: Iterable[pa.RecordBatch], *, passes_over_torn: bool) -> Batches:
    """Unpack the holdings of solutions. A row has a solution with its members and its generation's topics; results are ``UNPACKED_ROWS``.

    Args:
        passes_over_torn: leave out solutions with unreadable holdings.

    Raises:
        GroupFailedError: holdings cannot be read.
    """
    rows = (unpacked for batch in batches for row in batch.to_pylist() for unpacked in _unpacked(row, passes_over_torn))
    yield from to_batches(rows, to_arrow_schema(UNPACKED_ROWS), 2_000)


def _unpacked(row: dict[str, Any], passes_over_torn: bool) -> Iterator[dict[str, Any]]:
    """Yield the row of a solution with its holdings as lists."""
    try:
        holdings = unpack_holdings(row.pop("holdings"), row["member_ids"], row.pop("listed_topics"))
    except TornHoldingsError as error:
        if passes_over_torn:
            return
        where = f"cluster {row['cluster_id']}, group {row['group_id']}, generation {row['generation']}, position {row['position']}"
        raise GroupFailedError(f"{where}, {row['basis']} {row['strategy']}: {error}") from error
    given = [group_by_topic(holdings[member_id]) for member_id in row["member_ids"]]
    yield {**row, "held_topics": [topics for topics, _ in given], "held_partitions": [partitions for _, partitions in given]}


def pack_solutions(batches: Iterable[pa.RecordBatch]) -> Batches:
    """Pack the partitions of members. A row has a solution with its members and its generation's topics; results are ``PACKED_ROWS``."""
    yield from to_batches((_packed(row) for batch in batches for row in batch.to_pylist()), to_arrow_schema(PACKED_ROWS), 2_000)


def _packed(row: dict[str, Any]) -> dict[str, Any]:
    given = {entry["member_id"]: (entry["topics"], entry["lists"]) for entry in row.pop("held") or ()}
    member_ids, listed_topics = row.pop("member_ids"), row.pop("listed_topics")
    return {**row, "holdings": pack_holdings([given.get(member_id, ((), ())) for member_id in member_ids], listed_topics)}
