"""Records that came in for members that do not commit, counted from metadata snapshots; by hand, and against a plain count."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from jobs.audit.arrived_records import TopicEnds, WaitingPartition, ends_of, silent_members, stalled_members
from jobs.audit.topic_looks import Look
from schemas.vocabulary import MOST_LAG

MILLISECOND = 1_000


def look(at: int, *ends: int | None, topic_id: str | None = "id", numbers: list[int] | None = None) -> Look:
    """Return a metadata snapshot of a topic whose partitions have these ends."""
    partitions = list(range(len(ends))) if numbers is None else numbers
    return Look(at, topic_id, *(pa.array(values, pa.int64()) for values in (partitions, [0] * len(ends), list(ends))))


def ends_with(*looks: Look, asked: Iterable[tuple[int, int]] = ((10, 30),)) -> TopicEnds:
    ends = TopicEnds(asked)
    for one in looks:
        ends.add(one)
    return ends


def waiting(member_id: str = "m", partition: int = 0, **changes: Any) -> WaitingPartition:
    plain: dict[str, Any] = {"committed_offset": None, "is_stopped": False, "since_us": 10, "until_us": 30, "silent_ms": None}
    return WaitingPartition(member_id, changes.pop("topic", "t"), partition, **{**plain, **changes})


def stopped(member_id: str = "m", partition: int = 0, **changes: Any) -> WaitingPartition:
    return waiting(member_id, partition, **{"is_stopped": True, "silent_ms": 7, "committed_offset": 5, **changes})


def test_only_what_came_in_between_the_times_counts() -> None:
    looks = (look(9, 1), look(10, 100), look(20, 120), look(30, 107), look(31, 1_000))
    ends = ends_with(*looks, asked=[(10, 30), (11, 30), (10, 19), (32, 40)])
    assert ends.record_count(0, 10, 30) == 7
    assert ends.record_count(0, 11, 30) == 0  # a shorter log
    assert ends.record_count(0, 10, 19) == 0  # one metadata snapshot
    assert ends.record_count(0, 32, 40) == 0  # none
    assert ends.record_count(3, 10, 30) == 0  # not that partition


def test_a_metadata_snapshot_without_the_partition_is_passed_over() -> None:
    ends = ends_with(look(10, 1), look(11, 5, 5), look(12, 9, 9), look(13, 20, numbers=[0]), asked=[(0, 50)])
    assert (ends.record_count(1, 0, 50), ends.record_count(0, 0, 50)) == (4, 19)


def test_ends_that_are_not_known_and_other_topics_of_the_name_count_nothing() -> None:
    assert ends_with(look(10, None), look(20, 5)).record_count(0, 10, 30) == 0
    assert ends_with(look(10, 1), look(20, None)).record_count(0, 10, 30) == 0
    assert ends_with(look(10, 1, topic_id="a"), look(20, 5, topic_id="b")).record_count(0, 10, 30) == 0
    assert ends_with(look(10, 1, topic_id=None), look(20, 5, topic_id=None)).record_count(0, 10, 30) == 4


def test_lag_is_by_the_newest_metadata_snapshot_that_has_ends() -> None:
    ends = ends_with(look(10, 50), look(20, 90, None), look(30, None, None))
    assert (ends.lag(0, 80), ends.lag(0, 95), ends.lag(0, None), ends.lag(1, 5), ends.lag(2, 5)) == (10, 0, None, None, None)
    assert ends_with(look(10, 2**63 - 1)).lag(0, -1) == MOST_LAG
    assert ends_with(look(10, None)).lag(0, 1) is None
    assert ends_with().lag(0, 1) is None


def test_lag_needs_no_metadata_snapshot_since_the_time_that_is_asked_for() -> None:
    ends = ends_with(look(5, 90), asked=[(10, 30)])
    assert (ends.lag(0, 60), ends.record_count(0, 10, 30)) == (30, 0)


def test_a_member_is_silent_if_one_of_its_partitions_got_records() -> None:
    ends = {"t": ends_with(look(10, 0, 0), look(20, 0, 9)), "other": ends_with()}
    members = silent_members([waiting("b", 1), waiting("b", 0), waiting("a", 0), waiting("c", 1, topic="other")], ends)
    assert [(one.member_id, one.partition_count, one.record_count) for one in members] == [("b", 2, 9)]


def test_a_partition_with_two_owners_counts_once() -> None:
    """Both are named, though the second has no partition of its own."""
    ends = {"t": ends_with(look(10, 0, 0), look(20, 9, 2))}
    silent = silent_members([waiting("b"), waiting("a"), waiting("a", 1), waiting("c")], ends)
    assert [(one.member_id, one.partition_count, one.record_count) for one in silent] == [("a", 2, 11), ("b", 0, 0), ("c", 0, 0)]
    stalled = stalled_members([stopped("b", since_us=8_000), stopped("a"), stopped("b", 1)], ends)
    counted = [(one.member_id, one.partitions, one.partition_count, one.record_count, one.lag, one.since_ms) for one in stalled]
    assert counted == [("a", ["t-0"], 1, 9, 4, 0), ("b", ["t-1"], 1, 2, 0, 8)]


def test_counts_have_the_largest_number_of_a_column() -> None:
    ends = {"t": ends_with(look(10, 0, 0), look(20, 2**63 - 1, 2**63 - 1))}
    (silent,) = silent_members([waiting(partition=0), waiting(partition=1)], ends)
    (stalled,) = stalled_members([stopped(partition=0), stopped(partition=1)], ends)
    assert (silent.record_count, stalled.record_count, stalled.lag) == (MOST_LAG, MOST_LAG, MOST_LAG)


def test_a_stalled_member_has_its_first_partitions_and_the_lag_that_is_known() -> None:
    ends = {"t": ends_with(look(10, *range(12)), look(20, *range(1, 13)))}
    partitions = [stopped("m", number, since_us=10, committed_offset=None if number else 1) for number in reversed(range(12))]
    (one,) = stalled_members(partitions, ends)
    assert (one.partition_count, one.record_count, one.lag, one.silent_ms, one.since_ms) == (12, 12, 0, 7, 0)
    assert one.partitions == ["t-0", "t-1", "t-10", "t-11", "t-2"]
    late = stopped(since_us=3 * MILLISECOND, until_us=9 * MILLISECOND, committed_offset=None)
    ends = ends_of([late])
    for at, end in ((3, 0), (4, 2)):
        ends["t"].add(look(at * MILLISECOND, end))
    (one,) = stalled_members([late], ends)
    assert (one.since_ms, one.lag) == (3, None)


def test_of_a_year_of_metadata_snapshots_few_are_kept() -> None:
    ends = ends_with(*(look(at, at, at) for at in range(100_000)), asked=[(500, 90_000), (700, 95_000)])
    assert len(ends._looks) == 6  # the first of all, two firsts, two lasts, and the newest
    assert (ends.record_count(1, 500, 90_000), ends.record_count(0, 700, 95_000), ends.lag(0, 0)) == (89_500, 94_300, 99_999)


LOOKS = st.lists(
    st.tuples(st.integers(0, 60), st.lists(st.none() | st.integers(0, 9), max_size=3)), max_size=12, unique_by=lambda one: one[0]
)
TIMES = st.tuples(st.integers(0, 60), st.integers(0, 60))


@given(LOOKS, st.lists(TIMES, min_size=1, max_size=4), st.integers(0, 2))
def test_count_is_that_of_all_metadata_snapshots_one_by_one(
    seen: list[tuple[int, list[int | None]]], asked: list[tuple[int, int]], partition: int
) -> None:
    ordered = sorted(seen, key=lambda one: one[0])
    ends = ends_with(*(look(at, *of_partitions) for at, of_partitions in ordered), asked=asked)
    with_ends = [of_partitions for _, of_partitions in ordered if any(end is not None for end in of_partitions)]
    newest = with_ends[-1][partition] if with_ends and partition < len(with_ends[-1]) else None
    assert ends.lag(partition, 3) == (None if newest is None else max(newest - 3, 0))
    for since, until in asked:
        between = [one[partition] for at, one in ordered if since <= at <= until and partition < len(one)]
        first, final = (between[0], between[-1]) if between else (None, None)
        expected = 0 if first is None or final is None else max(final - first, 0)
        assert ends.record_count(partition, since, until) == expected
