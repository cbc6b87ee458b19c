"""Groups that were deleted: their newest record is a tombstone."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from jobs.reading.stored import GroupKey
from schemas.wire.keys import CLASSIC_GROUP_METADATA, CONSUMER_GROUP_METADATA

if TYPE_CHECKING:
    from jobs.reading.published import PublishedTables, StoredRow


def deletion_times(tables: PublishedTables, newest: Mapping[GroupKey, int]) -> dict[GroupKey, datetime]:
    """Return when groups were deleted that have had no snapshot since.

    Args:
        newest: groups, each with the position of its newest snapshot.

    Raises:
        WarehouseDamagedError: a table cannot be read.
    """
    wanted = {"group_id": {key.group_id for key in newest}, "type": (CLASSIC_GROUP_METADATA, CONSUMER_GROUP_METADATA)}
    last: dict[GroupKey, StoredRow] = {}
    for row in tables.rows("group_records", ("cluster_id", "group_id", "offset", "timestamp", "value"), wanted):
        key = GroupKey(row["cluster_id"], row["group_id"])
        if key in newest and row["offset"] > max(newest[key], last[key]["offset"] if key in last else newest[key]):
            last[key] = row
    return {key: row["timestamp"] for key, row in last.items() if row["value"] is None}
