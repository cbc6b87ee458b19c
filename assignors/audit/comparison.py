"""Two generations of a group side by side: who owned each partition before, and who does now.

An owner is a static member's instance id where there is one, else a member id: a static member that comes back under a new member
id has kept its partitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from assignors.generation.generation import Generation, Owner, owner_of
from assignors.generation.holdings import NOBODY, Holdings, Layout
from assignors.generation.subscriptions import layout_of
from assignors.model import TopicPartition

Several = tuple[int, ...]
"""Owners of one partition, as indices among ``Comparison.owners``, in record order."""


class Comparison:
    """What audits ask of two generations.

    Attributes:
        previous: None for the first generation: nobody owned anything.
        member_ids, previous_member_ids: every owner with its member id on either side: the members in record order, then strangers that
            were given something.
        owners: all of them, those of now first.
        owner_index: owner -> its index among them.
        held, previous_held: what they were given.
        layout: numbers for the partitions that exist on either side.
        before, now: for each number the index of its owner, ``NOBODY`` without one; shape (partitions,). Those in ``irregular`` have none.
        irregular: the partitions with several owners on some side, and those that exist on neither: their owners before and now.
        has_repeats: partitions are given out more than once now, to several owners or to one.
    """

    def __init__(self, previous: Generation | None, current: Generation) -> None:
        self.previous = previous
        self.current = current
        self.member_ids = _member_ids(current)
        self.previous_member_ids: dict[Owner, str] = _member_ids(previous) if previous is not None else {}
        self.owners: list[Owner] = list(dict.fromkeys((*self.member_ids, *self.previous_member_ids)))
        self.owner_index = {owner: index for index, owner in enumerate(self.owners)}
        self.held = Holdings.of(current.assignment)
        self.previous_held = Holdings.of(previous.assignment if previous is not None else {})
        self.layout = layout_of(current.problem)
        if previous is not None and not layout_of(previous.problem).is_like(self.layout):
            self.layout = Layout.of(previous.problem.topics, current.problem.topics)
        before = _Side(self.previous_held, self.previous_member_ids, self.layout, self.owner_index)
        now = _Side(self.held, self.member_ids, self.layout, self.owner_index)
        self.irregular = {index: (before.owners_of(index), now.owners_of(index)) for index in {**before.irregular, **now.irregular}}
        numbers = [number for number in map(self.layout.number, self.irregular) if number is not None]
        self.before, self.now = before.first(numbers), now.first(numbers)
        self.has_repeats = bool(now.owners.repeated)
        self._before, self._now = before, now

    def claimed_in(self, result: Generation) -> Comparison:
        """Return the same comparison for a result that gives the same to the same members, which may claim otherwise."""
        other = copy(self)
        other.current = result
        return other

    @property
    def previous_generation(self) -> int | None:
        """Return the number of the generation before, None where there is none."""
        return self.previous.generation if self.previous is not None else None

    @cached_property
    def recreated(self) -> frozenset[str]:
        """Return the topics whose id is known on both sides and differs."""
        if self.previous is None:
            return frozenset()
        earlier = self.previous.problem.topics
        return frozenset(
            name
            for name, topic in self.current.problem.topics.items()
            if topic.topic_id is not None and name in earlier and earlier[name].topic_id not in (None, topic.topic_id)
        )

    @cached_property
    def last(self) -> NDArray[np.int32]:
        """Return ``before`` without the owners of topics that were made anew: to these nothing belonged."""
        if not self.recreated:
            return self.before
        last: NDArray[np.int32] = self.before.copy()
        for topic in self.recreated & self.layout.topic_index.keys():
            index = self.layout.topic_index[topic]
            last[self.layout.starts[index] : self.layout.starts[index + 1]] = NOBODY
        return last

    def last_owners_of(self, partition: TopicPartition) -> Several:
        """Return who held a partition, nobody where its topic was made anew."""
        return () if partition[0] in self.recreated else self._before.owners_of(partition)

    def owners_of(self, partition: TopicPartition) -> Several:
        """Return who holds a partition now."""
        return self._now.owners_of(partition)

    @cached_property
    def changed(self) -> NDArray[np.int64]:
        """Return the numbers whose owner is another than the last one, or was none, or is none, irregular ones aside."""
        return np.flatnonzero(self.last != self.now)

    def irregular_changes(self) -> Iterator[tuple[TopicPartition, Several, Several]]:
        """Yield the irregular partitions that no owner kept, with the last owners and those of now; not both are empty."""
        for partition, (_, owners) in self.irregular.items():
            last = self.last_owners_of(partition)
            if (last or owners) and set(last).isdisjoint(owners):
                yield partition, last, owners

    @cached_property
    def retained_count(self) -> int:
        """Return how many partitions an owner kept."""
        regular = np.count_nonzero(self.now != NOBODY) - np.count_nonzero(self.now[self.changed] != NOBODY)
        kept = (not set(self.last_owners_of(partition)).isdisjoint(owners) for partition, (_, owners) in self.irregular.items())
        return int(regular) + sum(kept)

    @cached_property
    def held_counts(self) -> NDArray[np.int64]:
        """Return for each owner how many partitions it held, each once and irregular ones aside."""
        if self.irregular or self._before.owners.repeated:  # loads have these too
            return _counts(self.before, len(self.owners))
        return self._before.loads(len(self.owners))

    @cached_property
    def last_counts(self) -> NDArray[np.int64]:
        """Return ``held_counts`` without topics that were made anew."""
        return _counts(self.last, len(self.owners)) if self.recreated else self.held_counts

    @cached_property
    def let_go_counts(self) -> NDArray[np.int64]:
        """Return for each owner how many of ``last_counts`` nobody has now."""
        return _counts(self.last[self.changed[self.now[self.changed] == NOBODY]], len(self.owners))

    @cached_property
    def given_up_counts(self) -> NDArray[np.int64]:
        """Return for each owner how many of ``held_counts`` it is not given again."""
        changed = np.flatnonzero(self.before != self.now) if self.recreated else self.changed
        return _counts(self.before[changed], len(self.owners))


class _Side:
    """The owners of one generation, by their indices among those of both.

    Attributes:
        irregular: the partitions that have several owners, or do not exist.
    """

    def __init__(self, held: Holdings, member_ids: Mapping[Owner, str], layout: Layout, owner_index: Mapping[Owner, int]) -> None:
        self._held = held
        self.owners = held.owners_in(layout)
        by_id = {member_id: owner_index[owner] for owner, member_id in member_ids.items()}
        self._owner_indices = np.array([*map(by_id.__getitem__, held.owners), NOBODY], dtype=np.int32)
        self._order = {index: order for order, index in enumerate(by_id.values())}
        self.irregular = {**self.owners.shared, **self.owners.strays}

    def owners_of(self, partition: TopicPartition) -> Several:
        """Return all owners of a partition, as the members are in the record."""
        found = self.irregular.get(partition)
        if found is None:
            number = self.owners.layout.number(partition)
            found = () if number is None or self.owners.first[number] == NOBODY else (int(self.owners.first[number]),)
        return tuple(sorted((int(self._owner_indices[owner]) for owner in found), key=self._order.__getitem__))

    def loads(self, owner_count: int) -> NDArray[np.int64]:
        """Return for each owner how many partitions it was given, repeats included."""
        loads = np.zeros(owner_count, dtype=np.int64)
        loads[self._owner_indices[:-1]] = self._held.loads
        return loads

    def first(self, without: Sequence[int]) -> NDArray[np.int32]:
        """Return the owner of each partition, ``NOBODY`` for those left out."""
        first = self._owner_indices.take(self.owners.first)
        first[without] = NOBODY
        return first


def _counts(owners: NDArray[np.int32], owner_count: int) -> NDArray[np.int64]:
    """Return how often each owner occurs; ``NOBODY`` does not count."""
    return np.bincount(owners[owners != NOBODY], minlength=owner_count)


def _member_ids(generation: Generation) -> dict[Owner, str]:
    """Return every owner with its member id: the members in record order, then strangers that were given something."""
    owners = {owner_of(member): member.member_id for member in generation.problem.members}
    known = set(owners.values())
    owners.update(((False, member_id), member_id) for member_id in generation.assignment if member_id not in known)
    return owners
