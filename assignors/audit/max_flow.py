"""Flows through a group: from topics, which supply partitions, through subscriptions to members.

A flow is as large as the smallest cut, and a network with few supplies has few cuts, so that all can be compared. For larger ones SciPy
computes the flows: a maximum flow, and a linear program of HiGHS. Both matrices are those of networks, so that the best value is a
whole number. SciPy is imported only where it is called, because most groups do not need it and every worker would wait for the import.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Supply:
    """Partitions of topics with the same subscriptions.

    Attributes:
        classes: numbers of these subscriptions.
        count: number of partitions.
    """

    classes: tuple[int, ...]
    count: int


MOST_SUPPLIES = 12
"""With up to so many supplies all cuts are compared. 4,096 cuts took 0.3 ms and the two searches by flow 4 ms, with 30 subscriptions."""


def most_even_loads(supplies: Sequence[Supply], sizes: Sequence[int], most_supplies: int = MOST_SUPPLIES) -> tuple[int, int]:
    """Return the smallest and the largest load if all partitions are assigned as evenly as subscriptions allow.

    Args:
        sizes: number of members of each subscription.
        most_supplies: with more supplies two searches by flow find the loads.

    Worked example: only the first of two members may have 5 partitions, and both may have one more.

    >>> most_even_loads([Supply((0,), 5), Supply((0, 1), 1)], [1, 1])
    (1, 5)
    """
    if len(supplies) <= most_supplies:
        return _loads_by_cuts(supplies, sizes)
    total, member_count = sum(supply.count for supply in supplies), sum(sizes)
    even = total // member_count
    largest = bisect_left(range(total), True, lo=even, key=lambda load: most_placed(supplies, sizes, load) == total)
    smallest = bisect_left(range(even + 1), True, lo=1, key=lambda load: most_placed(supplies, sizes, load) < member_count * load) - 1
    return smallest, largest


def _loads_by_cuts(supplies: Sequence[Supply], sizes: Sequence[int]) -> tuple[int, int]:
    """Return ``most_even_loads`` by Hall's theorem.

    Some supplies fit into loads if the members that may have any of these have room. Members reach a load if the supplies of which they
    may have any are enough. So each set of supplies gives a bound, and the tightest one is reached. A set is a number with a bit for each
    supply.
    """
    supplied_by = [0] * len(sizes)
    for number, supply in enumerate(supplies):
        for subscription in supply.classes:
            supplied_by[subscription] |= 1 << number
    only_from = np.zeros(1 << len(supplies), dtype=np.int64)
    np.add.at(only_from, supplied_by, sizes)
    counts = np.zeros(1, dtype=np.int64)
    for number, supply in enumerate(supplies):
        counts = np.concatenate([counts, counts + supply.count])
        halves = only_from.reshape(-1, 2, 1 << number)
        halves[:, 1] += halves[:, 0]  # in the end: the members that may have partitions of these supplies only
    some = only_from > 0
    readers = (only_from[-1] - only_from[::-1])[1:]  # of any of these supplies: all members but those that may have only others
    return int((counts[some] // only_from[some]).min()), int((-(-counts[1:] // readers)).max())


def most_placed(supplies: Sequence[Supply], sizes: Sequence[int], load: int) -> int:
    """Return how many partitions can be assigned if every member takes at most ``load``.

    Args:
        sizes: number of members of each subscription.

    Worked example: only the first of two members may have 5 partitions, and both may have one more. A load of 3 is too small for the 5.

    >>> most_placed([Supply((0,), 5), Supply((0, 1), 1)], [1, 1], 3)
    4
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_flow

    source, sink, first = 0, 1, 2 + len(supplies)
    edges = [(source, node, supply.count) for node, supply in enumerate(supplies, 2)]
    edges += [(node, first + number, supply.count) for node, supply in enumerate(supplies, 2) for number in supply.classes]
    total = sum(supply.count for supply in supplies)  # the flow cannot be larger, and SciPy counts in 32 bits
    edges += [(node, sink, min(size * load, total)) for node, size in enumerate(sizes, first)]
    starts, ends, rooms = zip(*edges, strict=True)
    nodes = first + len(sizes)
    network = csr_array((rooms, (starts, ends)), shape=(nodes, nodes), dtype="int32")
    return int(maximum_flow(network, source, sink).flow_value)


def most_kept(
    supplies: Sequence[Supply], sizes: Sequence[int], held_counts: Mapping[tuple[int, int, str], int], low: int, high: int
) -> int:
    """Return how many partitions can keep their owner if all are assigned and every load is from ``low`` to ``high``.

    Partitions go from their supply directly to the member that held them, or through a subscription to any of its members. As few as
    possible go the second way.

    Args:
        sizes: members of each subscription.
        held_counts: (number of a supply, number of a subscription, member) -> partitions of the supply that the member held and may keep.

    Raises:
        RuntimeError: no assignment has such loads, although the caller has one.

    Worked example: a and b may have both partitions, a held them; with one each, one can stay.

    >>> most_kept([Supply((0,), 2)], [2], {(0, 0, "a"): 2}, 1, 1)
    1
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    keepers = list(dict.fromkeys((number, member) for _, number, member in held_counts))
    row_of_keeper = {member: len(supplies) + len(sizes) + index for index, (_, member) in enumerate(keepers)}
    others = list(sizes)
    for number, _ in keepers:
        others[number] -= 1
    # Each column leaves the row of one balance and enters that of another: (leaves, enters, smallest, largest, cost).
    columns: list[tuple[int | None, int | None, int, int, int]] = []
    columns += [(at, len(supplies) + number, 0, supply.count, 1) for at, supply in enumerate(supplies) for number in supply.classes]
    columns += [(at, row_of_keeper[member], 0, count, 0) for (at, _, member), count in held_counts.items()]
    columns += [(len(supplies) + number, row_of_keeper[member], 0, high, 0) for number, member in keepers]
    columns += [(len(supplies) + number, None, count * low, count * high, 0) for number, count in enumerate(others)]
    columns += [(row, None, low, high, 0) for row in row_of_keeper.values()]
    leaves, enters, smallest, largest, costs = zip(*columns, strict=True)
    entries = [(row, column, -1) for column, row in enumerate(leaves)]
    entries += [(row, column, 1) for column, row in enumerate(enters) if row is not None]
    rows, at, signs = zip(*entries, strict=True)
    balances = csr_array((signs, (rows, at)), shape=(len(supplies) + len(sizes) + len(keepers), len(columns)), dtype="float64")
    supplied = np.zeros(balances.shape[0])
    supplied[: len(supplies)] = [-supply.count for supply in supplies]
    solved = linprog(costs, A_eq=balances, b_eq=supplied, bounds=list(zip(smallest, largest, strict=True)), method="highs")
    if solved.fun is None:
        raise RuntimeError(f"expected an assignment with loads from {low} to {high}, found: {solved.message}")
    moved: int = round(solved.fun)
    return sum(supply.count for supply in supplies) - moved
