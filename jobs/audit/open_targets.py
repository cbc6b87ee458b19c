"""Targets of consumer-protocol groups that members have not reached for too long, and the members that are waited for.

A snapshot has its members as they were when the target was made. What they have done since is in their own records, which
``group_records`` keeps. Only the records of groups with such a target are read.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jobs.findings.commits import OpenTarget, WaitingMember
from schemas.computed_row_types import CommitFactsRow
from schemas.keys import GROUP_KEY
from schemas.vocabulary import GroupType
from schemas.wire import VALUE_DECODERS, decode_key
from schemas.wire.keys import CURRENT, MEMBER

DEFAULT_REBALANCE_TIMEOUT_MS = 300_000
"""The default of ``max.poll.interval.ms``, for members whose record has none."""

STABLE, UNREVOKED = 0, 1
"""States of a member in its record: it has reached its epoch, or it has not given up all partitions that it has to."""


def is_open() -> Column:
    """Return whether a snapshot has members that have not all reached its target, as far as records show."""
    return (F.col("group_type") == str(GroupType.CONSUMER)) & F.col("reconciled_at").isNull() & (F.size("members") > 0)


def longest_timeout_ms() -> Column:
    """Return the longest rebalance timeout of a snapshot's members. The coordinator removes a member that takes longer than its own."""
    return F.coalesce(F.array_max(F.col("members")["rebalance_timeout_ms"]), F.lit(DEFAULT_REBALANCE_TIMEOUT_MS))


def open_targets(overdue: DataFrame, records: DataFrame) -> DataFrame:
    """Return the groups with the last records of their members.

    Rows: (cluster_id, group_id); ``target`` has the columns of ``overdue``, and ``records`` with key and value.

    Args:
        overdue: (cluster_id, group_id); waited_ms, rebalance_timeout_ms, member_ids; materialized.
        records: rows of ``group_records``.
    """
    of_members = records.where(F.col("type").isin(MEMBER, CURRENT)).join(
        F.broadcast(overdue.select(*GROUP_KEY)), list(GROUP_KEY), "left_semi"
    )
    last = of_members.groupBy(*GROUP_KEY, "key").agg(F.max_by("value", "offset").alias("value"))
    packed = last.groupBy(*GROUP_KEY).agg(F.collect_list(F.struct("key", "value")).alias("records"))
    target = F.struct("waited_ms", "rebalance_timeout_ms", "member_ids", "records").alias("target")
    return overdue.join(packed, list(GROUP_KEY)).select(*GROUP_KEY, target)


def read_target(row: CommitFactsRow) -> OpenTarget | None:
    """Return the members of a target that have not reached it and are still in the group; None if there is no such target."""
    target = row["target"]
    if target is None:
        return None
    currents, gone = {}, set()
    for record in target["records"]:
        key = decode_key(record["key"])
        if key.record_type == MEMBER and record["value"] is None:
            gone.add(key.member_id)
        elif key.record_type == CURRENT and record["value"] is not None:
            currents[key.member_id] = VALUE_DECODERS[CURRENT](record["value"])
    waiting = []
    for member_id in target["member_ids"]:
        current = currents.get(member_id)
        has_reached = current is not None and (current.state, current.member_epoch) == (STABLE, row["generation"])
        if member_id not in gone and not has_reached:
            waiting.append(WaitingMember(member_id, current is not None and current.state == UNREVOKED))
    return OpenTarget(row["generation"], target["waited_ms"], target["rebalance_timeout_ms"], waiting) if waiting else None
