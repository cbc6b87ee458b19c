"""Groups that were deleted. Only their records show it."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from schemas.keys import GENERATION_KEY, GROUP_KEY
from schemas.wire.keys import CLASSIC_GROUP_METADATA


def deletions(records: DataFrame) -> DataFrame:
    """Return the records that delete a classic group.

    Args:
        records: rows of ``group_records``.
    """
    return records.where((F.col("type") == CLASSIC_GROUP_METADATA) & F.col("value").isNull())


def deleted_groups(signs: DataFrame, records: DataFrame) -> DataFrame:
    """Return the groups that were deleted after their newest generation and have commits since: (cluster_id, group_id).

    Args:
        signs: rows of ``schemas.staging.COMMIT_SIGNS``.
        records: rows of ``group_records``.
    """
    asked = signs.where("asks_for_deletion").select(*GENERATION_KEY)
    return deletions(records).join(F.broadcast(asked), list(GROUP_KEY)).where("offset > position").select(*GROUP_KEY).distinct()
