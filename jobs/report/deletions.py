"""Groups that were deleted: their newest record is a tombstone."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from schemas.keys import GROUP_KEY
from schemas.wire.keys import CLASSIC_GROUP_METADATA, CONSUMER_GROUP_METADATA


def last_deletions(records: DataFrame) -> DataFrame:
    """Return a row for each group whose last record on the group itself is a tombstone: deleted_position, deleted_at_ms.

    A snapshot of a later position shows that the group was made again. Of classic consumer groups these records have tombstones alone.

    Reads: records as schemas.tables.GROUP_RECORDS.
    """
    is_tombstone = F.col("value").isNull()
    of_group = records.where(F.col("type").isin(CLASSIC_GROUP_METADATA, CONSUMER_GROUP_METADATA)).groupBy(*GROUP_KEY)
    last = of_group.agg(
        F.max(F.when(is_tombstone, F.col("offset"))).alias("deleted_position"),
        F.max(F.when(is_tombstone, F.unix_millis("timestamp"))).alias("deleted_at_ms"),
        F.max(F.when(~is_tombstone, F.col("offset"))).alias("record_position"),
    )
    return last.where("deleted_position > coalesce(record_position, -1)").drop("record_position")
