"""Groups that were deleted: their newest record is a tombstone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from jobs.reading.stored import GroupKey
from schemas.keys import GROUP_KEY
from schemas.wire.keys import CLASSIC_GROUP_METADATA, CONSUMER_GROUP_METADATA

if TYPE_CHECKING:
    from jobs.reading.published import Filter, PublishedTables


@dataclass(frozen=True)
class Deletion:
    """The tombstone of a group: its time, and its place in ``group_records``. The partition is None of a source that does not have it."""

    at: datetime
    offsets_partition: int | None
    offset: int


def read_deletions(tables: PublishedTables, newest: Mapping[GroupKey, int], wanted: Filter) -> dict[GroupKey, Deletion]:
    """Return the deletions of groups that have had no snapshot since.

    Args:
        newest: groups, each with the position of its newest snapshot.
        wanted: a filter of groups.

    Raises:
        WarehouseDamagedError: a table cannot be read.
    """
    of_groups = {**wanted, "type": (CLASSIC_GROUP_METADATA, CONSUMER_GROUP_METADATA)}
    found: dict[GroupKey, Deletion] = {}
    for row in tables.newest("group_records", GROUP_KEY, ("timestamp", "value", "offsets_partition"), of_groups, order="offset"):
        key = GroupKey(row["cluster_id"], row["group_id"])
        if row["value"] is None and key in newest and row["offset"] > newest[key]:
            found[key] = Deletion(row["timestamp"], row["offsets_partition"], row["offset"])
    return found
