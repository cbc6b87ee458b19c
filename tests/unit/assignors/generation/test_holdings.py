"""Assignments in columns: nothing is lost on the way there, and arrays give what a walk over the partitions gives."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from assignors import Assignment, GroupProblem, Topic, TopicPartition
from assignors.generation.holdings import NOBODY, Holdings, Layout
from tests.builders.groups import any_partition, broken_assignments, problems, topic_maps


@st.composite
def assignments(draw: st.DrawFn) -> tuple[GroupProblem, Assignment]:
    problem = draw(problems())
    assignment = draw(broken_assignments(problem))
    wild: list[TopicPartition] = [("t0", -1), ("t1", 2**31 - 1), ("nowhere", 0)]
    if draw(st.booleans()):
        assignment = {owner: (*held, *draw(st.lists(st.sampled_from(wild), max_size=2))) for owner, held in assignment.items()}
    return problem, assignment


def by_topic(held: tuple[TopicPartition, ...]) -> tuple[TopicPartition, ...]:
    """Return partitions with those of a topic together, topics by first appearance."""
    topics = list(dict.fromkeys(topic for topic, _ in held))
    return tuple(sorted(held, key=lambda partition: topics.index(partition[0])))


@given(assignments())
def test_holdings_are_the_assignment_topic_by_topic(given_now: tuple[GroupProblem, Assignment]) -> None:
    _, assignment = given_now
    held = Holdings.of(assignment)
    assert dict(held) == {owner: by_topic(partitions) for owner, partitions in assignment.items()}
    assert list(held) == list(assignment)
    assert held.loads == [len(partitions) for partitions in assignment.values()]
    assert [held.load(owner) for owner in (*assignment, "somebody else")] == [*held.loads, 0]
    entries = Counter((owner, topic) for owner, partitions in assignment.items() for topic, _ in partitions)
    assert {(owner, topic): count for owner, topic, count in held.entries()} == entries
    assert held.topic_counts() == Counter(topic for partitions in assignment.values() for topic, _ in partitions)
    assert Holdings.of(held) is held


@given(topic_maps(), topic_maps(), any_partition)
def test_every_partition_of_a_layout_has_a_number_of_its_own(
    one: dict[str, Topic], other: dict[str, Topic], partition: TopicPartition
) -> None:
    layout = Layout.of(one, other)
    counts = {name: max(side[name].partition_count or 0 for side in (one, other) if name in side) for name in one | other}
    everything = [(name, number) for name, count in counts.items() for number in range(count)]
    assert sorted(layout.partitions(np.arange(layout.size))) == sorted(everything)
    assert [layout.number(found) for found in layout.partitions(np.arange(layout.size))] == list(range(layout.size))
    assert (layout.number(partition) is None) == (partition not in everything)
    assert layout.number((partition[0], -1)) is None


@given(assignments())
def test_owners_are_those_of_a_walk_over_all_partitions(given_now: tuple[GroupProblem, Assignment]) -> None:
    problem, assignment = given_now
    layout, held = Layout.of(problem.topics), Holdings.of(assignment)
    found = held.owners_in(layout)
    walked: dict[TopicPartition, list[str]] = {}
    for owner, partitions in assignment.items():
        for partition in partitions:
            walked.setdefault(partition, []).append(owner)
    for number, partition in enumerate(layout.partitions(np.arange(layout.size))):
        owner = found.first[number]
        assert (owner == NOBODY and partition not in walked) or held.owners[owner] in walked[partition]
    several = {**found.shared, **found.strays}
    assert {partition: [held.owners[owner] for owner in owners] for partition, owners in several.items()} == {
        partition: list(dict.fromkeys(owners))
        for partition, owners in walked.items()
        if len(set(owners)) > 1 or layout.number(partition) is None
    }
    assert found.strays.keys() == {partition for partition in walked if layout.number(partition) is None}
    assert sorted(found.repeated) == sorted(partition for partition, owners in walked.items() if len(owners) > 1)
    assert found.partition_count == len(walked)
    free = [partition for partition in layout.partitions(np.arange(layout.size)) if partition not in walked]
    assert list(layout.partitions(found.free)) == free
    for topics in ({"t0"}, set(problem.topics), set()):
        assert list(layout.partitions(found.free_of(topics))) == [partition for partition in free if partition[0] in topics]


def test_owners_in_another_layout_are_found_anew() -> None:
    held = Holdings.of({"a": (("t", 0), ("u", 0))})
    wide, narrow, wider = Layout({"u": 1, "t": 2}), Layout({"t": 1}), Layout({"t": 3, "u": 1})
    owners = [held.owners_in(layout).first.tolist() for layout in (wide, narrow, wider)]
    assert owners == [[0, NOBODY, 0], [0], [0, NOBODY, NOBODY, 0]]
    assert held.owners_in(narrow).strays == {("u", 0): (0,)}


def test_numbers_are_in_the_order_of_java() -> None:
    layout = Layout({"\ufffd": 1, "\U0001f600": 2})
    assert list(layout.partitions(np.arange(3))) == [("\U0001f600", 0), ("\U0001f600", 1), ("\ufffd", 0)]
