"""The resume offset of one movement's partition, from plain rows: one movement, one commit, one metadata snapshot at a time."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

Row = dict[str, Any]

RESUME_COLUMNS = (
    *("committed_offset", "begin_offset", "end_offset", "resume_outcome", "lag", "committed_at"),
    *("end_offset_delay_ms", "lag_is_upper_bound"),
)


def resume(movement: Row, commits: list[Row], looks: list[Row], *, is_complete: bool = False) -> tuple:
    """Return the values of ``RESUME_COLUMNS``.

    Args:
        commits: all rows of the movement's group, topic and partition.
        looks: all rows of its topic.
        is_complete: the group's commits are known from the first record of its log.
    """
    if movement["member_id"] is None:
        return (None,) * len(RESUME_COLUMNS)
    by_time = any(row["source"] == "formatter-json" for row in commits)
    clock = "observed_at" if by_time else "position"
    known = sorted((row for row in commits if row[clock] <= movement[clock]), key=lambda row: (row[clock], row["position"]))
    commit = known[-1] if known else None
    has_offset = commit is not None and not commit["is_deleted"] and commit["committed_offset"] is not None
    offset = commit["committed_offset"] if has_offset else None
    committed_at = commit["committed_at"] if commit is not None and not commit["is_deleted"] else None
    moved_at = movement["observed_at"]
    end_from = moved_at if committed_at is None else max(moved_at, committed_at)

    earlier = [look for look in looks if look["observed_at"] <= moved_at]
    later = [look for look in looks if look["observed_at"] >= end_from]
    before = _of_partition(max(earlier, key=lambda look: look["observed_at"], default=None), movement["partition"])
    after = _of_partition(min(later, key=lambda look: look["observed_at"], default=None), movement["partition"])
    ids = [None if one is None else one["topic_id"] for one in (commit, before, after)]
    known_id = ids[0] if ids[0] is not None else ids[1]
    begin = None if before is None or (None not in ids[:2] and ids[0] != ids[1]) else before["begin_offset"]
    end = None if after is None or (None not in (known_id, ids[2]) and known_id != ids[2]) else after["end_offset"]

    if commit is None:
        outcome = "reset_none" if is_complete else "unknown"
    elif commit["is_uncertain"]:
        outcome = "unknown"
    elif not has_offset:
        outcome = "reset_none"
    elif begin is not None and offset < begin:
        outcome = "reset_out_of_range"
    elif end is not None and known_id == ids[2] and offset > end:
        outcome = "reset_out_of_range"
    elif _is_since(before, committed_at) and known_id == ids[1] and offset > before["end_offset"]:
        outcome = "reset_out_of_range"
    else:
        outcome = "unknown" if begin is None else "committed"
    lag = None if offset is None or end is None else max(0, end - offset)
    delay_ms = None if after is None or end is None else (after["observed_at"] - moved_at) // timedelta(milliseconds=1)
    if lag is None:
        return offset, begin, end, outcome, lag, committed_at, delay_ms, None
    stood_still = before is not None and ids[1] == ids[2] and before["end_offset"] == end
    return offset, begin, end, outcome, lag, committed_at, delay_ms, lag != 0 and moved_at < after["observed_at"] and not stood_still


def _is_since(look: Row | None, committed_at: datetime | None) -> bool:
    return look is not None and committed_at is not None and look["observed_at"] >= committed_at


def _of_partition(look: Row | None, number: int) -> Row | None:
    if look is None:
        return None
    found = [partition for partition in look["partitions"] if partition["partition"] == number]
    return {**found[0], "topic_id": look["topic_id"], "observed_at": look["observed_at"]} if found else None
