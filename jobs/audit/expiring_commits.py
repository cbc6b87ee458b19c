"""Commits that the coordinator is going to delete soon, because nobody reads their partitions any more.

Commits that should have expired before are left out: as they are still there, the broker keeps them for longer than assumed. Commits
without a time of their own are left out too, as are those of groups that never had members.

Since Kafka 2.1 (KIP-211) the retention of a classic group's commits begins when the group becomes empty, also for later commits of an
admin. For a topic to which nobody subscribes any more it begins at the last commit. In groups of the consumer protocol, and in groups that
never had members since they were deleted, it always begins at the last commit. ``tests/kafka/test_commits_expire.py`` compares all this
with a broker.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from schemas.keys import GENERATION_KEY, GROUP_KEY
from schemas.wire.keys import CLASSIC_GROUP_METADATA


def deleted_groups(signs: DataFrame, records: DataFrame) -> DataFrame:
    """Return the groups that were deleted after their newest generation and have commits since: (cluster_id, group_id).

    Args:
        signs: rows of ``schemas.staging.COMMIT_SIGNS``.
        records: rows of ``group_records``.
    """
    asked = signs.where("asks_for_deletion").select(*GENERATION_KEY)
    tombstones = records.where((F.col("type") == CLASSIC_GROUP_METADATA) & F.col("value").isNull())
    return tombstones.join(F.broadcast(asked), list(GROUP_KEY)).where("offset > position").select(*GROUP_KEY).distinct()
