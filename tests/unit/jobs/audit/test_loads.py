"""What waits for the owner of a partition and what comes in, against the definition, one partition after another."""

from __future__ import annotations

from math import floor

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.audit.resume_offsets import MILLISECOND_US, Commit, GroupOffsets, Load
from jobs.audit.topic_looks import Look

SECOND = 1_000_000
AT = 2 * SECOND
TIMES = st.sampled_from([SECOND, AT, 3 * SECOND, 4 * SECOND])
IDS, COMMITTED_IDS = st.sampled_from(["a", "a", None, "b"]), st.sampled_from([None, None, "a", "b"])
OFFSETS = st.sampled_from([5, 2, 9, None])
PARTITIONS = st.fixed_dictionaries({0: OFFSETS}, optional={1: OFFSETS})
LOOKS = st.lists(st.tuples(TIMES, IDS, PARTITIONS), min_size=2, unique_by=lambda look: look[0])
COMMITTED = st.tuples(COMMITTED_IDS, OFFSETS, st.none() | TIMES)
COMMITS = st.fixed_dictionaries({1: COMMITTED}, optional={0: COMMITTED})
SeenLook = tuple[int, str | None, dict[int, int | None]]


def load_of(partition: int, looks: list[SeenLook], commit: tuple, at_us: int, most_delay_s: float | None) -> Load:
    """Return the load by its definition: the newest metadata snapshot up to the moment, and the first since moment and commit."""
    topic_id, committed, committed_us = commit
    end_from_us = max(at_us, at_us if committed_us is None else committed_us)
    before = max((look for look in looks if look[0] <= at_us), key=lambda look: look[0], default=None)
    after = min((look for look in looks if look[0] >= end_from_us), key=lambda look: look[0], default=None)
    has_before, has_after = (look is not None and partition in look[2] for look in (before, after))
    lag = rate = None
    if after is not None and has_after and committed is not None and after[2][partition] is not None:
        own_id = before[1] if topic_id is None and before is not None and has_before else topic_id
        delay_ms = after[0] // MILLISECOND_US - at_us // MILLISECOND_US
        if (own_id is None or after[1] is None or own_id == after[1]) and (most_delay_s is None or delay_ms <= most_delay_s * 1_000):
            lag = max(after[2][partition] - committed, 0)
    if before is not None and after is not None and has_before and has_after and before[1] == after[1] and before[0] < after[0]:
        first, last = before[2][partition], after[2][partition]
        if first is not None and last is not None and last >= first:
            rate = floor((last - first) * 1e9 / ((after[0] - before[0]) // MILLISECOND_US))
    return Load(lag, rate, end_from_us)


@settings(max_examples=500)
@given(LOOKS, COMMITS, st.sampled_from([None, 0.0, 1.0]))
def test_loads_are_those_of_the_definition(looks: list[SeenLook], commits: dict[int, tuple], most_delay_s: float | None) -> None:
    offsets = GroupOffsets()
    for look_us, topic_id, ends in looks:
        none = pa.nulls(len(ends), pa.int64())
        offsets.add_look("t", Look(look_us, topic_id, pa.array(ends, pa.int32()), none, pa.array(ends.values(), pa.int64())))
    offsets.add_commits((("t", partition), Commit(*commit, None)) for partition, commit in commits.items())
    partitions = [1, 0, 2, 1]
    found = list(offsets.moment(AT, True, most_delay_s).loads("t", partitions))
    assert found == [load_of(number, looks, commits.get(number, (None, None, None)), AT, most_delay_s) for number in partitions]
