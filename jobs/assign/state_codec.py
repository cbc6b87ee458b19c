"""The state of a group's replay as bytes, so that the next run continues from it.

The bytes are JSON, because they are read from a table: reading them must never run code.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from assignors.model import Assignment, Member, TopicPartition
from assignors.replay.chains import Settled
from assignors.replay.conformance import Conformance
from assignors.replay.recurrence import Recurrence
from assignors.replay.steps import Snapshot, Solution, State, Step
from assignors.replay.topic_metadata import LookBasis, ResolvedTopic
from jobs.workers.packing import Grouped, group_by_topic

FORMAT = 2
WITHOUT_RECURRENCE = 1
"""The former format, without client hosts and recurrences: both count as unknown."""
_PLAIN = (
    *("position", "generation", "joined_at_ms", "incarnation", "strategy", "leader_member_id"),
    *("is_conversion", "has_subscriptions", "is_generation_inferred", "batched_epoch_count"),
)
"""The fields of a snapshot that are stored as they are."""
_STORED_NAMES = {"is_generation_inferred": "is_numbered"}
"""Field -> its former name, which stored states still use: older releases read and write these states too."""
_FIELDS = {stored: name for name, stored in _STORED_NAMES.items()}


class _ByTopic(dict[tuple[TopicPartition, ...], Grouped]):
    """Partitions -> the same as ``group_by_topic`` returns them, for one state. Its solutions and chains have most of them in common."""

    def __missing__(self, held: tuple[TopicPartition, ...]) -> Grouped:
        grouped = self[held] = group_by_topic(held)
        return grouped


def encode_state(state: State) -> bytes:
    """Return a state as bytes. Equal states give equal bytes."""
    step = state.step
    by_topic = _ByTopic()
    content = {
        "format": FORMAT,
        "recurrence": None if state.recurrence is None else state.recurrence.encoded(),
        "snapshot": _snapshot_out(step.snapshot, by_topic),
        "topics": [_topic_out(topic) for topic in step.topics],
        "flags": [step.has_predecessor, step.is_rewrite, step.is_follow_up],
        "solutions": [_solution_out(solution, by_topic) for solution in step.solutions],
        "chains": {
            strategy: [chain.generation, [[*owner, *by_topic[held]] for owner, held in sorted(chain.held.items())]]
            for strategy, chain in sorted(state.chains.items())
        },
    }
    return json.dumps(content, separators=(",", ":"), check_circular=False).encode()


def decode_state(data: bytes) -> State:
    """Return the state that ``encode_state`` wrote.

    Raises:
        ValueError: the bytes have another format; ``assign --recompute`` creates them again.
    """
    content = json.loads(data)
    if content.get("format") not in (FORMAT, WITHOUT_RECURRENCE):
        raise ValueError(f"group state: expected format {FORMAT}, found {content.get('format')}; rebuild it with assign --recompute")
    topics = tuple(
        ResolvedTopic(**{**topic, "basis": LookBasis(topic["basis"]), "partition_racks": _racks_in(topic["partition_racks"])})
        for topic in content["topics"]
    )
    snapshot = _snapshot_in(content["snapshot"])
    has_predecessor, is_rewrite, is_follow_up = content["flags"]
    solutions = tuple(_solution_in(solution) for solution in content["solutions"])
    step = Step(snapshot, topics, has_predecessor, is_rewrite, is_follow_up, solutions)
    chains = {
        strategy: Settled(generation, {(is_static, name): _held_in(topics, numbers) for is_static, name, topics, numbers in held})
        for strategy, (generation, held) in content["chains"].items()
    }
    recurrence = content.get("recurrence")
    return State(step, chains, None if recurrence is None else Recurrence.decoded(recurrence))


def _topic_out(topic: ResolvedTopic) -> dict[str, Any]:
    # Not ``asdict``: it copies the racks of each partition, 4 CPU seconds for a million of them.
    return {**{field.name: getattr(topic, field.name) for field in fields(topic)}, "basis": topic.basis.value}


def _snapshot_out(snapshot: Snapshot, by_topic: _ByTopic) -> dict[str, Any]:
    plain = {_STORED_NAMES.get(name, name): getattr(snapshot, name) for name in _PLAIN}
    members = [
        [
            member.member_id,
            member.topics,
            member.group_instance_id,
            member.rack,
            by_topic[member.owned],
            member.owned_generation,
            None if member.user_data is None else base64.b64encode(member.user_data).decode(),
            by_topic[snapshot.assigned[member.member_id]],
            snapshot.subscription_versions[member.member_id],
            snapshot.client_ids[member.member_id],
            snapshot.client_hosts.get(member.member_id),
        ]
        for member in snapshot.members
    ]
    return {**plain, "members": members}


def _snapshot_in(content: dict[str, Any]) -> Snapshot:
    members, assigned, versions, client_ids, hosts = [], {}, {}, {}, {}
    for member_id, topics, instance_id, rack, owned, owned_generation, user_data, held, version, client_id, *host in content.pop("members"):
        data = None if user_data is None else base64.b64decode(user_data)
        members.append(Member(member_id, tuple(topics), instance_id, rack, _held_in(*owned), owned_generation, data))
        assigned[member_id], versions[member_id], client_ids[member_id] = _held_in(*held), version, client_id
        hosts[member_id] = host[0] if host else None
    plain = {_FIELDS.get(name, name): value for name, value in content.items()}
    return Snapshot(
        **plain, members=tuple(members), assigned=assigned, subscription_versions=versions, client_ids=client_ids, client_hosts=hosts
    )


def _solution_out(solution: Solution, by_topic: _ByTopic) -> dict[str, Any]:
    return {
        "basis": solution.basis,
        "strategy": solution.strategy,
        "status": solution.status,
        "assignment": _assignment_out(solution.assignment, by_topic),
        "detail": solution.detail,
        "kafka_version": solution.kafka_version,
        "rebalance_count": solution.rebalance_count,
        "cooperative_revocation_count": solution.cooperative_revocation_count,
        "conformance": None if solution.conformance is None else solution.conformance.value,
    }


def _solution_in(content: dict[str, Any]) -> Solution:
    conformance = content["conformance"]
    assignment = content["assignment"]
    held = None if assignment is None else {member_id: _held_in(*grouped) for member_id, grouped in assignment.items()}
    return Solution(**{**content, "assignment": held, "conformance": None if conformance is None else Conformance(conformance)})


def _assignment_out(assignment: Assignment | None, by_topic: _ByTopic) -> Mapping[str, Grouped] | None:
    return None if assignment is None else {member_id: by_topic[held] for member_id, held in assignment.items()}


def _held_in(topics: list[str], numbers: list[list[int]]) -> tuple[tuple[str, int], ...]:
    return tuple((topic, partition) for topic, partitions in zip(topics, numbers, strict=True) for partition in partitions)


def _racks_in(racks: Any) -> Any:
    return None if racks is None else tuple(map(tuple, racks))
