"""The bounds of an assignment on plain dicts, by stepwise improvement: slow, and by another method than the product's flows.

Partitions move along chains of members, each giving one of its own to the next, while that is an improvement. If no chain is, the
assignment is the best: the chains are the cycles of the exchange graph, and an assignment without a cheaper cycle is the cheapest.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from typing import Any

from tests.oracles.audit_oracle import Row, TopicPartition, exists, owner

NOBODY = ""
"""Begin and end of chains that make one member's load smaller and another's larger."""


def least_movement_count(before: Row | None, now: Row, withheld: Mapping[TopicPartition, Row]) -> int | None:
    """Return how many partitions have to change owner if no load becomes smaller than the smallest or larger than the largest.

    Args:
        before, now, withheld: as ``audit_oracle.movements`` takes them.
    """
    readers = {member["member_id"]: set(member["topics"]) for member in now["members"]}
    given = [(partition, member_id) for member_id, held in now["held"].items() for partition in held]
    last = _last_owners(before, now, withheld) if before is not None else None
    if last is None or not readers or not now["held"].keys() <= readers.keys():
        return None
    if len({partition for partition, _ in given}) < len(given) or any(
        partition[0] not in readers[member_id] for partition, member_id in given
    ):
        return None
    if any(len(last.get(partition, ())) > 1 for partition, _ in given):
        return None
    counted = {name for name, topics in readers.items() if any(exists(now["topics"], topic) for topic in topics)}
    home = {partition: last[partition][0] for partition, _ in given if partition in last}
    owners = dict(given)
    while cycle := _cheaper(owners, home, {name: readers[name] for name in counted}, dict(given)):
        owners.update(cycle)
    return sum(home[partition] != member_id for partition, member_id in owners.items() if partition in home)


def _last_owners(before: Row, now: Row, withheld: Mapping[TopicPartition, Row]) -> dict[TopicPartition, list[str]]:
    """Return each partition's last owners by their present member ids; owners that left keep a name of their own."""
    names = {owner(member): member["member_id"] for member in now["members"]}

    def name(member: Row) -> str:
        return names.get(owner(member), f"left: {owner(member)}")

    last = {partition: [name(kept["member"])] for partition, kept in withheld.items()}
    for partition in {partition for held in before["held"].values() for partition in held}:
        last[partition] = [name(member) for member in before["members"] if partition in before["held"][member["member_id"]]]
    ids = [{topic: row["topic_id"] for topic, row in side["topics"].items() if exists(side["topics"], topic)} for side in (before, now)]
    recreated = {topic for topic in ids[0].keys() & ids[1].keys() if None not in (ids[0][topic], ids[1][topic])}
    recreated = {topic for topic in recreated if ids[0][topic] != ids[1][topic]}
    return {partition: owners for partition, owners in last.items() if partition[0] not in recreated}


def _cheaper(
    owners: Mapping[TopicPartition, str],
    home: Mapping[TopicPartition, str],
    readers: Mapping[str, set[str]],
    given: Mapping[TopicPartition, str],
) -> dict[TopicPartition, str]:
    """Return partitions with new owners that save movements and keep all loads within bounds; empty if there are none."""
    bounds = [Counter({name: 0 for name in readers}) for _ in range(2)]
    for load, held in zip(bounds, (given, owners), strict=True):
        load.update(held.values())
    first, load = bounds
    low, high = min(first.values(), default=0), max(first.values(), default=0)
    edges: dict[tuple[str, str], tuple[int, TopicPartition | None]] = {}
    for name in readers:
        if load[name] > low:
            edges[NOBODY, name] = (0, None)
        if load[name] < high:
            edges[name, NOBODY] = (0, None)
    for partition, source in owners.items():
        for target, topics in readers.items():
            if target != source and partition[0] in topics:
                cost = (home.get(partition, target) != target) - (home.get(partition, source) != source)
                edges[source, target] = min(edges.get((source, target), (2, None)), (cost, partition), key=lambda edge: edge[0])
    cycle = _negative_cycle([*readers, NOBODY], {edge: cost for edge, (cost, _) in edges.items()})
    return {edges[edge][1]: edge[1] for edge in cycle if edges[edge][1] is not None}


def _negative_cycle(nodes: list[str], costs: Mapping[tuple[str, str], int]) -> list[tuple[str, str]]:
    """Return the edges of a cycle of negative cost; empty if there is none (Bellman and Ford)."""
    distance: dict[str, float] = dict.fromkeys(nodes, 0)
    came_from: dict[str, str] = {}
    relaxed = None
    for _ in nodes:
        relaxed = None
        for (source, target), cost in costs.items():
            if distance[source] + cost < distance[target]:
                distance[target], came_from[target], relaxed = distance[source] + cost, source, target
        if relaxed is None:
            return []
    for _ in nodes:
        relaxed = came_from[relaxed]
    cycle, node = [], relaxed
    while not cycle or node != relaxed:
        cycle.append((came_from[node], node))
        node = came_from[node]
    return cycle


def least_spread(now: dict[str, Any]) -> int | None:
    """Return the spread of the loads if all existing partitions are assigned as evenly as possible."""
    if not now["members"]:
        return None
    readers = {member["member_id"]: {topic for topic in member["topics"] if exists(now["topics"], topic)} for member in now["members"]}
    readers = {name: topics for name, topics in readers.items() if topics}
    owners: dict[TopicPartition, str] = {}
    for topic in sorted(set().union(*readers.values())):
        first = next(name for name, topics in readers.items() if topic in topics)
        owners |= dict.fromkeys([(topic, number) for number in range(now["topics"][topic]["partition_count"])], first)
    load = Counter({name: 0 for name in readers})
    load.update(owners.values())
    while chain := next(_evening_chains(owners, readers, load), None):
        for partition, target in chain:
            load[owners[partition]] -= 1
            load[target] += 1
            owners[partition] = target
    return max(load.values(), default=0) - min(load.values(), default=0)


def _evening_chains(
    owners: Mapping[TopicPartition, str], readers: Mapping[str, set[str]], load: Mapping[str, int]
) -> Iterator[list[tuple[TopicPartition, str]]]:
    """Yield chains, last step first, from a member to one that has at least two partitions fewer."""
    for start in readers:
        reached: dict[str, tuple[TopicPartition, str] | None] = {start: None}
        queue = deque([start])
        while queue:
            source = queue.popleft()
            for partition in [partition for partition, held_by in owners.items() if held_by == source]:
                for target in [name for name, topics in readers.items() if partition[0] in topics and name not in reached]:
                    reached[target] = (partition, source)
                    queue.append(target)
        for end in reached:
            if load[start] >= load[end] + 2:
                chain, node = [], end
                while (step := reached[node]) is not None:
                    chain.append((step[0], node))
                    node = step[1]
                yield chain
                break
