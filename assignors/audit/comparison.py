"""Comparison of two generations of a group: the owners of each partition before and now.

An owner is the instance id of a static member, else a member id. So a static member that returns with a new member id has kept
its partitions.
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
from assignors.model import GroupProblem, TopicPartition

Several = tuple[int, ...]
"""Owners of one partition, as indices into ``Comparison.owners``, in record order."""


class Comparison:
    """The facts on two generations that audits need.

    Attributes:
        previous: None for the first generation; then nobody owned a partition before.
        member_ids, previous_member_ids: owner -> its member id now and before: the members in record order, then unknown members
            that were given partitions.
        owners: all owners, the present ones first.
        owner_index: owner -> its index among them.
        member_count: number of the owners that are members now; they come first among the owners.
        held, previous_held: the partitions of the owners now and before.
        layout: numbers for the partitions that exist in either generation.
        before, now: for each number the index of its owner, ``NOBODY`` without one; shape (partitions,). Those in ``irregular`` have none.
        irregular: partitions with several owners in a generation, or that exist in neither -> their owners before and now.
        has_repeats: a partition was given more than once now, to several owners or to one.
    """

    def __init__(self, previous: Generation | None, current: Generation, alike: Comparison | None = None) -> None:
        """Compare two generations.

        Args:
            previous: the earlier one.
            current: the later one.
            alike: a comparison of the same earlier generation with one of the same members and topics, whose facts are used again.
        """
        self.previous = previous
        self.current = current
        shared = alike._shared if alike is not None and alike._shared.fits(current) else _Shared(previous, current)
        self._shared: _Shared = shared
        self.member_ids, self.previous_member_ids = shared.member_ids, shared.previous_member_ids
        self.owners, self.owner_index, self.member_count = shared.owners, shared.owner_index, shared.member_count
        self.layout = shared.layout
        self.previous_held, self.held = shared.before.held, Holdings.of(current.assignment)
        now = _Side(self.held, self.member_ids, self.layout, self.owner_index)
        self._before, self._now = shared.before, now
        self.irregular: dict[TopicPartition, tuple[Several, Several]] = {}
        numbers: list[int] = []
        if self._before.irregular or now.irregular:
            of_either = {**self._before.irregular, **now.irregular}
            self.irregular = {index: (self._before.owners_of(index), now.owners_of(index)) for index in of_either}
            numbers = [number for number in map(self.layout.number, self.irregular) if number is not None]
        self.before, self.now = self._before.first(numbers), now.first(numbers)
        self.has_repeats = bool(now.owners.repeated)

    def claimed_in(self, result: Generation) -> Comparison:
        """Return the same comparison for a result with the same assignment to the same members, whose claims may differ."""
        other = copy(self)
        other.current = result
        return other

    @property
    def previous_generation(self) -> int | None:
        """Return the number of the generation before; None if there is none."""
        return self.previous.generation if self.previous is not None else None

    @cached_property
    def recreated(self) -> frozenset[str]:
        """Return the topics that were made again between the two generations."""
        return frozenset() if self.previous is None else recreated_topics(self.previous.problem, self.current.problem)

    @cached_property
    def last(self) -> NDArray[np.int32]:
        """Return ``before`` without the owners of recreated topics, whose partitions belonged to nobody."""
        if not self.recreated:
            return self.before
        last: NDArray[np.int32] = self.before.copy()
        for topic in self.recreated & self.layout.topic_index.keys():
            index = self.layout.topic_index[topic]
            last[self.layout.starts[index] : self.layout.starts[index + 1]] = NOBODY
        return last

    def last_owners_of(self, partition: TopicPartition) -> Several:
        """Return the previous owners of a partition; none if its topic was recreated."""
        return () if partition[0] in self.recreated else self._before.owners_of(partition)

    def owners_of(self, partition: TopicPartition) -> Several:
        """Return the owners of a partition now."""
        return self._now.owners_of(partition)

    @cached_property
    def changed(self) -> NDArray[np.int64]:
        """Return the numbers of partitions whose owner changed, from or to nobody included, without irregular ones."""
        return np.flatnonzero(self.last != self.now)

    def irregular_changes(self) -> Iterator[tuple[TopicPartition, Several, Several]]:
        """Yield the irregular partitions that no owner kept, with the owners before and now; at least one of these is not empty."""
        for partition, (_, owners) in self.irregular.items():
            last = self.last_owners_of(partition)
            if (last or owners) and set(last).isdisjoint(owners):
                yield partition, last, owners

    @cached_property
    def retained_count(self) -> int:
        """Return the number of partitions that an owner kept."""
        regular = np.count_nonzero(self.now != NOBODY) - np.count_nonzero(self.now[self.changed] != NOBODY)
        kept = (not set(self.last_owners_of(partition)).isdisjoint(owners) for partition, (_, owners) in self.irregular.items())
        return int(regular) + sum(kept)

    @cached_property
    def held_counts(self) -> NDArray[np.int64]:
        """Return for each owner the number of partitions it had, each counted once, without irregular ones."""
        if self.irregular or self._before.owners.repeated:  # loads count these too
            return _counts(self.before, len(self.owners))
        return self._before.loads(len(self.owners))

    @cached_property
    def last_counts(self) -> NDArray[np.int64]:
        """Return ``held_counts`` without recreated topics."""
        return _counts(self.last, len(self.owners)) if self.recreated else self.held_counts

    @cached_property
    def let_go_counts(self) -> NDArray[np.int64]:
        """Return for each owner the part of ``last_counts`` that nobody has now."""
        return _counts(self.last[self.changed[self.now[self.changed] == NOBODY]], len(self.owners))

    @cached_property
    def given_up_counts(self) -> NDArray[np.int64]:
        """Return for each owner the part of ``held_counts`` that it does not get again."""
        changed = np.flatnonzero(self.before != self.now) if self.recreated else self.changed
        return _counts(self.before[changed], len(self.owners))


def recreated_topics(previous: GroupProblem, current: GroupProblem) -> frozenset[str]:
    """Return the topics whose id is known in both problems and differs."""
    earlier = previous.topics
    return frozenset(
        name
        for name, topic in current.topics.items()
        if topic.topic_id is not None and name in earlier and earlier[name].topic_id not in (None, topic.topic_id)
    )


class _Shared:
    """What comparisons of one generation with several results for the same members and topics have in common.

    The attributes are those of ``Comparison``.
    """

    def __init__(self, previous: Generation | None, current: Generation) -> None:
        members = _members(current)
        self.member_count = len(members)
        self.member_ids = _with_strangers(members, current)
        self.previous_member_ids: dict[Owner, str] = {}
        if previous is not None:
            self.previous_member_ids = _with_strangers(_members(previous), previous)
        self.owners: list[Owner] = list(dict.fromkeys((*self.member_ids, *self.previous_member_ids)))
        self.owner_index = {owner: index for index, owner in enumerate(self.owners)}
        self.layout = layout_of(current.problem)
        if previous is not None and not layout_of(previous.problem).is_like(self.layout):
            self.layout = Layout.of(previous.problem.topics, current.problem.topics)
        held = Holdings.of(previous.assignment if previous is not None else {})
        self.before = _Side(held, self.previous_member_ids, self.layout, self.owner_index)

    def fits(self, current: Generation) -> bool:
        """Return whether no stranger was given partitions now or in the generation that this was made from."""
        return len(self.member_ids) == self.member_count and current.assignment.keys() <= set(self.member_ids.values())


class _Side:
    """The owners of one generation, by their indices among those of both.

    Attributes:
        held: the assignment.
        irregular: the partitions that have several owners, or do not exist.
    """

    def __init__(self, held: Holdings, member_ids: Mapping[Owner, str], layout: Layout, owner_index: Mapping[Owner, int]) -> None:
        self.held = held
        self.owners = held.owners_in(layout)
        by_id = {member_id: owner_index[owner] for owner, member_id in member_ids.items()}
        self._by_id = by_id
        self._owner_indices = np.array([*map(by_id.__getitem__, held.owners), NOBODY], dtype=np.int32)
        self.irregular = {**self.owners.shared, **self.owners.strays}

    @cached_property
    def _order(self) -> dict[int, int]:
        return {index: order for order, index in enumerate(self._by_id.values())}

    @cached_property
    def _first(self) -> NDArray[np.int32]:
        first: NDArray[np.int32] = self._owner_indices.take(self.owners.first)
        return first

    def owners_of(self, partition: TopicPartition) -> Several:
        """Return all owners of a partition, in the order of the record."""
        found = self.irregular.get(partition)
        if found is None:
            number = self.owners.layout.number(partition)
            found = () if number is None or self.owners.first[number] == NOBODY else (int(self.owners.first[number]),)
        return tuple(sorted((int(self._owner_indices[owner]) for owner in found), key=self._order.__getitem__))

    def loads(self, owner_count: int) -> NDArray[np.int64]:
        """Return for each owner the number of partitions it was given, repeats included."""
        loads = np.zeros(owner_count, dtype=np.int64)
        loads[self._owner_indices[:-1]] = self.held.loads
        return loads

    def first(self, without: Sequence[int]) -> NDArray[np.int32]:
        """Return the owner of each partition; ``NOBODY`` for the partitions in ``without``. Do not change the result."""
        if not without:
            return self._first
        first: NDArray[np.int32] = self._first.copy()
        first[without] = NOBODY
        return first


def _counts(owners: NDArray[np.int32], owner_count: int) -> NDArray[np.int64]:
    """Return the number of occurrences of each owner, without ``NOBODY``."""
    return np.bincount(owners[owners != NOBODY], minlength=owner_count)


def _members(generation: Generation) -> dict[Owner, str]:
    """Return owner -> its member id, in record order."""
    return {owner_of(member): member.member_id for member in generation.problem.members}


def _with_strangers(members: Mapping[Owner, str], generation: Generation) -> dict[Owner, str]:
    """Return owner -> its member id: the members in record order, then unknown members that were given partitions."""
    known = set(members.values())
    return {**members, **{(False, member_id): member_id for member_id in generation.assignment if member_id not in known}}
