"""Which metadata snapshot is chosen for a generation: one case a row."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from assignors.replay.topic_metadata import MOST_INFERRED, ClusterLooks, LookBasis, TopicRun

BEFORE, AFTER, EARLIER, INFERRED = LookBasis.BEFORE, LookBasis.AFTER, LookBasis.EARLIER, LookBasis.INFERRED
JOINED_AT = 25


def cluster(*counts: int) -> ClusterLooks:
    """Return looks at 10, 20, 30 ms and so on with these partition counts of ``t``; 0 is a look that does not show it."""
    times = [10 * number for number in range(1, len(counts) + 1)]
    return ClusterLooks(times, {"t": [TopicRun(number, number, count, f"id{number}") for number, count in enumerate(counts) if count]})


@pytest.mark.parametrize(
    ("counts", "needed", "expected"),
    [
        pytest.param((3, 3, 3), {0, 1, 2}, (3, BEFORE), id="the last look before has all"),
        pytest.param((1, 2, 4), {0, 1}, (2, BEFORE), id="looks change around it, but the last before fits"),
        pytest.param((2, 2, 4), {0, 1, 3}, (4, AFTER), id="a partition that only the look after has"),
        pytest.param((4, 2, 2), {0, 3}, (4, EARLIER), id="a partition that only the second last before has"),
        pytest.param((3, 3, 3), {0, 1}, (3, BEFORE), id="a partition nobody was given, and no look lacks it"),
        pytest.param((4, 4, 2), {0, 1}, (2, AFTER), id="the look after lacks exactly those that nobody has"),
        pytest.param((2, 4, 3), {0, 1}, (4, BEFORE), id="the look after lacks only some of them"),
        pytest.param((3, 3, 0), set(), (0, AFTER), id="deleted between join and the look after, nobody has any"),
        pytest.param((3, 0, 0), {0, 1, 2}, (3, EARLIER), id="deleted, but the leader did not know yet"),
        pytest.param((0, 0, 3), {0, 1, 2}, (3, AFTER), id="created between the look before and the join"),
        pytest.param((0, 0, 3), set(), (0, BEFORE), id="created after the generation"),
        pytest.param((0, 0, 0), set(), (0, BEFORE), id="a topic that is in no look and of which nobody has anything"),
    ],
)
def test_first_metadata_snapshot_that_fits_is_chosen(counts: tuple[int, ...], needed: set[int], expected: tuple[int, LookBasis]) -> None:
    found = cluster(*counts).resolve("t", JOINED_AT, needed)
    assert (found.partition_count, found.basis, found.is_uncertain) == (*expected, False)


@pytest.mark.parametrize(
    ("counts", "given_now", "claimed", "expected"),
    [
        pytest.param((3, 0, 0), set(), {0, 1, 2}, (0, BEFORE), id="deleted before the last look, and nobody has any"),
        pytest.param((3, 3, 0), set(), {0, 1, 2}, (0, AFTER), id="deleted since the last look, and nobody has any"),
        pytest.param((4, 2, 2), {0, 1}, {0, 1, 2, 3}, (2, BEFORE), id="made again with fewer partitions"),
        pytest.param((4, 4, 2), {0, 1}, {0, 1, 2, 3}, (2, AFTER), id="made again with fewer partitions since the last look"),
        pytest.param((3, 0, 0), {1}, {0, 1, 2}, (3, EARLIER), id="deleted, but the leader did not know yet"),
        pytest.param((2, 2, 4), {0, 1}, {2, 3}, (4, AFTER), id="withheld, and no look before has them"),
        pytest.param((4, 4, 4), {0, 1}, {2, 3}, (4, BEFORE), id="withheld"),
        pytest.param((4, 4, 0), {0, 1}, {2, 3}, (4, BEFORE), id="withheld, and deleted after that"),
        pytest.param((2, 4, 4), {0, 1}, {2, 3}, (4, BEFORE), id="withheld soon after they were added"),
    ],
)
def test_claims_of_the_generation_before_do_not_show_that_partitions_still_exist(
    counts: tuple[int, ...], given_now: set[int], claimed: set[int], expected: tuple[int, LookBasis]
) -> None:
    found = cluster(*counts).resolve("t", JOINED_AT, given_now, claimed)
    assert (found.partition_count, found.basis, found.is_uncertain) == (*expected, False)


@pytest.mark.parametrize(
    ("counts", "existing_before", "expected"),
    [
        pytest.param((0, 0, 0), (15, 2), (0, BEFORE, False), id="it existed in the generation before, and not since"),
        pytest.param((0, 0, 0), (22, 2), (0, AFTER, False), id="the looks before are from before that generation"),
        pytest.param((0, 0, 0), (15, 1), (0, BEFORE, True), id="it had fewer partitions then"),
        pytest.param((1, 1, 2), (22, 2), (2, AFTER, False), id="it had grown after the looks before"),
    ],
)
def test_claimed_partitions_of_the_generation_before_may_be_gone_for_long(
    counts: tuple[int, ...], existing_before: tuple[int, int], expected: tuple[int, LookBasis, bool]
) -> None:
    joined_ms, count = existing_before
    resolved = cluster(3, *counts).resolve("t", JOINED_AT + 10, set(), {0, 1}, existing_before=(joined_ms + 10, count))
    assert (resolved.partition_count, resolved.basis, resolved.is_uncertain) == expected


def test_a_group_without_members_does_not_show_that_a_topic_was_deleted() -> None:
    found = cluster(3, 3, 0).resolve("t", JOINED_AT, set(), is_abandoned=True, is_empty=True)
    assert (found.partition_count, found.basis) == (3, BEFORE)
    found = cluster(3, 0, 0).resolve("t", JOINED_AT, set(), is_abandoned=True, is_empty=True)
    assert (found.partition_count, found.basis) == (0, BEFORE)


@given(st.integers(0, 5), st.integers(0, 5), st.sets(st.integers(-1, 6)))
def test_the_last_before_fits_unless_the_next_lacks_just_what_nobody_needs(count: int, next_count: int, needed: set[int]) -> None:
    assume(count or next_count)
    found = cluster(count, count, next_count).resolve("t", JOINED_AT, needed)
    existing, added = set(range(count)), set(range(next_count, count))
    fits = needed <= existing and (needed == existing or existing - needed != added)
    assert (found.basis is BEFORE and not found.is_uncertain) is fits


def test_only_the_nearest_metadata_snapshots_are_considered() -> None:
    """Seen from 25 ms, the look at 40 lacks exactly what nobody has of the look at 30; seen from 35, so does the one at 10."""
    assert cluster(1, 1, 4, 2).resolve("t", 25, {0, 1}).partition_count == 4
    assert cluster(2, 4, 1, 1).resolve("t", 35, {0, 1}).partition_count == 4


@pytest.mark.parametrize(
    ("joined_at", "expected"),
    [(10, "id0"), (19, "id0"), (20, "id1"), (29, "id1"), (30, "id2"), (99, "id2")],
)
def test_metadata_of_the_same_moment_counts_as_before(joined_at: int, expected: str) -> None:
    assert cluster(2, 2, 2).resolve("t", joined_at, {0, 1}).topic_id == expected


def test_without_an_earlier_metadata_snapshot_the_first_later_one_is_chosen() -> None:
    found = cluster(2, 4).resolve("t", 5, {0, 1})
    assert (found.partition_count, found.basis, found.is_uncertain) == (2, AFTER, False)


@pytest.mark.parametrize(
    ("counts", "joined_at", "needed", "expected"),
    [
        pytest.param((6, 6), 5, {0, 1, 2}, (3, INFERRED, True), id="the first look of all is a later one"),
        pytest.param((0, 0, 6), 25, {0, 1, 2}, (3, INFERRED, True), id="the first look that shows the topic is a later one"),
        pytest.param((6, 6), 5, set(), (0, INFERRED, True), id="nobody was given any"),
        pytest.param((6, 6), 5, set(range(6)), (6, AFTER, False), id="everything was given"),
        pytest.param((6, 6), 5, {0, 2, 3}, (6, AFTER, False), id="one in between was not given"),
        pytest.param((6, 6), 5, {1, 2, 3, 4, 5}, (6, AFTER, False), id="the first was not given"),
        pytest.param((6, 6), 15, {0, 1, 2}, (6, BEFORE, False), id="a look before shows it"),
        pytest.param((6, 0, 6), 25, {0, 1, 2}, (6, AFTER, False), id="the second last before shows it"),
    ],
)
def test_unassigned_last_partitions_in_later_metadata_only_may_be_new(
    counts: tuple[int, ...], joined_at: int, needed: set[int], expected: tuple[int, LookBasis, bool]
) -> None:
    found = cluster(*counts).resolve("t", joined_at, needed)
    assert (found.partition_count, found.basis, found.is_uncertain) == expected


def test_unknown_partition_count_keeps_topic_id_and_known_racks() -> None:
    racks = (("r1",), ("r2",), ("r3",))
    found = ClusterLooks([10], {"t": [TopicRun(0, 0, 3, "id", racks)]}).resolve("t", 5, {0, 1})
    assert (found.topic_id, found.partition_racks) == ("id", racks[:2])


@pytest.mark.parametrize(
    ("joined_at", "expected"), [pytest.param(25, (3, BEFORE), id="the last before"), pytest.param(5, (1, AFTER), id="else the first after")]
)
def test_without_a_fitting_metadata_snapshot_the_topic_is_uncertain(joined_at: int, expected: tuple[int, LookBasis]) -> None:
    found = cluster(1, 3, 2).resolve("t", joined_at, {0, 7})
    assert (found.partition_count, found.basis, found.is_uncertain) == (*expected, True)


@pytest.mark.parametrize(
    "looks",
    [
        pytest.param(ClusterLooks([], {}), id="no look at all"),
        pytest.param(ClusterLooks([10], {"u": [TopicRun(0, 0, 5)]}), id="none of the topic"),
    ],
)
def test_without_any_metadata_snapshot_the_partitions_are_inferred(looks: ClusterLooks) -> None:
    found = looks.resolve("t", JOINED_AT, {0, 4})
    assert (found.partition_count, found.topic_id, found.basis, found.is_uncertain) == (5, None, INFERRED, True)
    assert ClusterLooks([], {}).resolve("t", JOINED_AT, set()).partition_count == 0


@pytest.mark.parametrize(
    ("needed", "expected"),
    [({0, -1}, 1), ({-2}, 0), ({-(2**31), 2**31 - 1}, 0), ({3, 99_000_000}, 4), ({MOST_INFERRED}, 0), ({MOST_INFERRED - 1}, MOST_INFERRED)],
)
def test_numbers_that_no_topic_has_are_not_inferred_from(needed: set[int], expected: int) -> None:
    assert ClusterLooks([], {}).resolve("t", JOINED_AT, needed).partition_count == expected


def test_topic_run_covers_all_metadata_snapshots_from_first_to_last() -> None:
    looks = ClusterLooks([10, 20, 30, 40], {"t": [TopicRun(0, 1, 2, "old"), TopicRun(3, 3, 2, "new")]})
    assert [looks.resolve("t", time, {0, 1}).topic_id for time in (10, 20, 40)] == ["old", "old", "new"]
    assert looks.resolve("t", 30, set()).partition_count == 0, "between two runs the topic was gone"


def test_racks_come_from_the_chosen_metadata_snapshot() -> None:
    racks = (("r1",), ("r2", None))
    looks = ClusterLooks([10], {"t": [TopicRun(0, 0, 2, "id", racks)]})
    assert looks.resolve("t", JOINED_AT, {0}).partition_racks == racks


COUNTS = st.sampled_from([0, 2, 3])
"""Partitions of a topic in a look; none in a look without it."""


@st.composite
def looks_and_moments(draw: st.DrawFn) -> tuple[list[tuple[int, int, bool]], int]:
    """Looks at one topic (time, partition count, is it new), and when members joined.

    Either the topic is the same from the second last look before the first new one on, or the members joined before the last of these.
    """
    counts = [(draw(COUNTS), False) for _ in range(draw(st.integers(1, 4)))]
    first_new = len(counts)
    counts += [(draw(COUNTS), True)] + [(draw(COUNTS), draw(st.booleans())) for _ in range(draw(st.integers(0, 2)))]
    is_same = draw(st.booleans())
    if is_same:
        same, kept = draw(COUNTS), max(first_new - 2, 0)
        counts[kept:] = [(same, is_new) for _, is_new in counts[kept:]]
    times = range(10, 10 + 2 * len(counts), 2)
    joined_at = draw(st.integers(8, times[-1] + 2 if is_same else times[first_new - 1] - 1))
    return [(time, *look) for time, look in zip(times, counts, strict=True)], joined_at


def cluster_looks(seen: list[tuple[int, int, bool]]) -> ClusterLooks:
    runs = [TopicRun(number, number, count) for number, (_, count, _) in enumerate(seen) if count]
    return ClusterLooks([time for time, _, _ in seen], {"t": runs})


@settings(max_examples=500)
@given(looks_and_moments(), st.sets(st.integers(0, 3)), st.sets(st.integers(0, 3)))
def test_new_metadata_changes_no_generation_where_all_snapshots_agree(
    looks_and_moment: tuple[list[tuple[int, int, bool]], int], held: set[int], claimed: set[int]
) -> None:
    """What assigning relies on to leave generations as they are."""
    seen, joined_at = looks_and_moment
    before = [look for look in seen if not look[2]]
    assume(any(count for _, count, _ in before) or not any(count for _, count, _ in seen))  # where it was in no look, all is asked again
    assert cluster_looks(before).resolve("t", joined_at, held, claimed) == cluster_looks(seen).resolve("t", joined_at, held, claimed)


@settings(max_examples=500)
@given(looks_and_moments(), st.integers(0, 12), st.tuples(*[st.sets(st.integers(0, 3))] * 3))
def test_new_metadata_changes_no_second_generation_where_all_snapshots_agree(
    looks_and_moment: tuple[list[tuple[int, int, bool]], int], since_ms: int, sets: tuple[set[int], set[int], set[int]]
) -> None:
    """The topic as in the generation before takes part too."""
    (seen, joined_at), (held_before, held, claimed) = looks_and_moment, sets
    before = [look for look in seen if not look[2]]
    assume(any(count for _, count, _ in before) or not any(count for _, count, _ in seen))
    found = []
    for cluster_then in (cluster_looks(before), cluster_looks(seen)):
        first = cluster_then.resolve("t", joined_at - since_ms, held_before)
        existing = (joined_at - since_ms, first.partition_count)
        found.append((first, cluster_then.resolve("t", joined_at, held, claimed, existing_before=existing)))
    assert found[0] == found[1]
