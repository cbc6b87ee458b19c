"""Changes as a user asks for them, and the scenario that they are for one group. Workers import it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from assignors.scenario.changes import apply_changes
from assignors.scenario.scenario import CONSUMER, Scenario
from jobs.reading.stored import StoredGeneration
from schemas.vocabulary import DEFAULT_SERVER_STRATEGY, SERVER_STRATEGIES_BY_NAME, STRATEGIES


@dataclass(frozen=True)
class Changes:
    """Changes to any group, with the names that options have; without any the group rebalances once.

    Attributes:
        add_members: how many members join, or their ids.
        remove_members: how many members leave, or a pattern of their ids.
        partitions: topic -> its partition count afterwards.
        subscribe: what every member subscribes to afterwards; None is as before.
        static_ids: whether every member that has no instance id gets one.
        rack: pattern of members -> their rack.
        protocol: ``classic`` or ``consumer``; None is any.
        strategies: assignors to compare; None is all that fit the protocol.
    """

    add_members: int | tuple[str, ...] = 0
    remove_members: int | str = 0
    partitions: dict[str, int] = field(default_factory=dict)
    subscribe: tuple[str, ...] | None = None
    static_ids: bool = False
    rack: dict[str, str] = field(default_factory=dict)
    protocol: str | None = None
    strategies: tuple[str, ...] | None = None


def strategies_for(changes: Changes, group: StoredGeneration) -> Iterator[str]:
    """Yield the assignors to compare, each once: those that are named, else the group's own and all that fit the protocol."""
    if changes.strategies is not None:
        yield from dict.fromkeys(changes.strategies)
        return
    server_side = (DEFAULT_SERVER_STRATEGY, *SERVER_STRATEGIES_BY_NAME.values())
    listed = [*STRATEGIES, DEFAULT_SERVER_STRATEGY] if changes.protocol is None else list(STRATEGIES)
    if changes.protocol == CONSUMER:
        listed = list(server_side)
    own = group.generation.strategy
    if own and own not in listed and changes.protocol is None:
        yield own
    yield from listed


def scenario_for(changes: Changes, group: StoredGeneration, strategy: str, threads: int) -> Scenario:
    """Return the scenario of these changes for one group.

    Args:
        strategy: the assignor afterwards.
        threads: consumers of each member that is counted.

    Raises:
        ValueError: the changes contradict themselves, or do not fit the group.
    """
    added, removed = changes.add_members, changes.remove_members
    scenario = Scenario(
        added=added * threads if isinstance(added, int) else added,
        removed=removed * threads if isinstance(removed, int) else removed,
        partition_counts=changes.partitions,
        topics=changes.subscribe,
        strategy=strategy,
        protocol=changes.protocol,
        racks=changes.rack,
    )
    return replace(scenario, instance_ids=_instance_ids(group, scenario)) if changes.static_ids else scenario


def _instance_ids(group: StoredGeneration, scenario: Scenario) -> dict[str, str]:
    """Return instance ids for the members that stay and have none: their client ids, numbered where several share one."""
    own = {member.member_id for member in group.generation.problem.members}
    staying = [member for member in apply_changes(group.generation, scenario).problem.members if member.member_id in own]
    taken = {member.group_instance_id for member in staying if member.group_instance_id is not None}
    client_ids = {member_id: client.client_id or member_id for member_id, client in group.clients.items()}
    shared = Counter(client_ids[member.member_id] for member in staying)
    ids: dict[str, str] = {}
    for member in staying:
        if member.group_instance_id is None:
            name = client_ids[member.member_id]
            candidates = (name, *(f"{name}-{number}" for number in range(1, len(staying) + len(taken) + 1)))
            ids[member.member_id] = next(one for one in candidates[shared[name] > 1 :] if one not in taken)
            taken.add(ids[member.member_id])
    return ids
