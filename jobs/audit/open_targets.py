"""Targets of consumer-protocol groups that members have not reached for too long, and the members that are waited for.

A snapshot has its members as they were when the target was made. What they have done since is in their own records, which
``group_records`` keeps. Only the records of groups with such a target are read.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jobs.findings.commits import OpenTarget, WaitingMember
from schemas.computed_row_types import CommitSignsRow
from schemas.keys import GROUP_KEY
from schemas.vocabulary import GroupType
from schemas.wire import decode_key, decode_value
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


def member_records(signs: DataFrame, records: DataFrame) -> DataFrame:
    """Return the records of members of the groups with an overdue target: (cluster_id, group_id), key, value, offset.

    Args:
        signs: rows of ``schemas.staging.COMMIT_SIGNS``.
        records: rows of ``group_records``.
    """
    overdue = signs.where("waited_ms IS NOT NULL").select(*GROUP_KEY)
    of_members = records.where(F.col("type").isin(MEMBER, CURRENT)).join(F.broadcast(overdue), list(GROUP_KEY), "left_semi")
    return of_members.select(*GROUP_KEY, "key", "value", "offset")


def read_target(sign: CommitSignsRow, records: Mapping[bytes, bytes | None]) -> OpenTarget | None:
    """Return the members of a target that have not reached it and are still in the group; None if there is none, or no record of them.

    Args:
        records: key -> value, of the last records of its members.
    """
    waited_ms = sign["waited_ms"]
    if waited_ms is None or not records:
        return None
    currents, gone = {}, set()
    for record_key, value in records.items():
        key = decode_key(record_key)
        if key.record_type == MEMBER and value is None:
            gone.add(key.member_id)
        elif key.record_type == CURRENT and value is not None:
            currents[key.member_id] = decode_value(CURRENT, value)
    waiting = []
    for member_id in (client["member_id"] for client in sign["clients"] or ()):
        current = currents.get(member_id)
        has_reached = current is not None and (current.state, current.member_epoch) == (STABLE, sign["generation"])
        if member_id not in gone and not has_reached:
            waiting.append(WaitingMember(member_id, current is not None and current.state == UNREVOKED))
    return OpenTarget(sign["generation"], waited_ms, sign["rebalance_timeout_ms"], waiting) if waiting else None
