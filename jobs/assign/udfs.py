"""Worker functions of the stage ``assign``, which replay groups.

Each is a module-level function over an iterator of batches. Workers import neither pydantic nor great_expectations.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from itertools import chain, groupby
from typing import Any

import pandas as pd
from pyspark.sql.types import StructType

from assignors.audit.passages import follow
from assignors.replay.recurrence import Recurrences
from assignors.replay.replay import Replay
from assignors.replay.steps import OBSERVED, Solution, State, Step
from assignors.replay.topic_metadata import ClusterLooks, ResolvedTopic
from jobs.assign.state_codec import decode_state, encode_state
from jobs.assign.time_limit import TimeLimit
from jobs.workers.batches import Rows, table_of
from jobs.workers.guard import GroupFailedError, Guard, WorkerLimits
from jobs.workers.packing import AssignmentPacker, is_fact_of_its_own, unpack_runs, unpack_snapshots
from schemas.computed_row_types import RowKind, SolvedRow
from schemas.staging import SOLVED_ROWS

FRAME_ROWS, FRAME_BYTES = 20_000, 4 << 20
"""The most rows of an output frame, and the most bytes of their packed columns: enough to be cheap, few enough for a worker's memory.
The lists of a row take up to a hundred times as much memory as its packed holdings."""

_PACKED_COLUMNS = ("holdings", "state")
_PANDAS_TYPES = {"integer": "Int32", "long": "Int64", "boolean": "boolean", "double": "Float64"}


def _to_frames(rows: Iterable[Mapping[str, Any]], schema: StructType) -> Iterator[pd.DataFrame]:
    """Yield data frames of the declared columns and types; an absent key is a null.

    Columns have types because pandas would make floats of integers beside a null, and Arrow cannot convert an untyped empty column.

    Raises:
        GroupFailedError: a row does not fit the types.
    """
    types = {column.name: _PANDAS_TYPES.get(column.dataType.typeName(), "object") for column in schema}
    batch: list[Mapping[str, Any]] = []
    size = 0

    def frame(batch: Rows) -> pd.DataFrame:
        return pd.DataFrame({name: pd.Series([row.get(name) for row in batch], dtype=kind) for name, kind in types.items()})

    for row in rows:
        batch.append(row)
        size += sum(len(row.get(name) or b"") for name in _PACKED_COLUMNS)
        if len(batch) == FRAME_ROWS or size >= FRAME_BYTES:
            yield table_of(batch, frame)
            batch.clear()
            size = 0
    if batch:
        yield table_of(batch, frame)


@dataclass(frozen=True)
class SolveSettings:
    """The settings that workers need to replay groups: plain values, because every task carries them.

    Attributes:
        strategies: assignors to compare.
        step_budget: step limit of one call of an assignor.
        plugin_timeout_s: time limit of one call of an assignor that is not ours, in seconds.
        kafka_versions: (version, cluster, group, client id) patterns; the first match counts.
        look_times_ms: cluster id -> times of all metadata snapshots, ascending.
        checkpoint_generations: number of snapshots of a group between two checkpoints, counted from its first snapshot.
        keeps_all_rows: every solution has rows of ``assignments``, not only those of ``is_fact_of_its_own``.
        limits: limits of a worker.
    """

    strategies: tuple[str, ...]
    step_budget: int | None
    plugin_timeout_s: float
    kafka_versions: tuple[tuple[str, str, str, str], ...]
    look_times_ms: dict[str, tuple[int, ...]]
    checkpoint_generations: int
    keeps_all_rows: bool
    limits: WorkerLimits

    def replay_of(self, cluster_id: str, group_id: str) -> Replay:
        """Return the rules for one group."""
        rules = [
            (version, client_id)
            for version, cluster, group, client_id in self.kafka_versions
            if fnmatchcase(cluster_id, cluster) and fnmatchcase(group_id, group)
        ]

        def override(client_id: str) -> str | None:
            return next((version for version, pattern in rules if fnmatchcase(client_id, pattern)), None)

        return Replay(self.strategies, self.step_budget, override, TimeLimit(self.plugin_timeout_s))


def solve_chunks(frames: Iterator[pd.DataFrame], settings: SolveSettings) -> Iterator[pd.DataFrame]:
    """Replay packed chunks. The chunks of a group follow one another in one partition.

    Raises:
        GroupFailedError: any unexpected error, with its cluster, group and generation; also a chunk that does not follow the one before,
            which is a defect of the packing.
    """
    with Guard(settings.limits) as guard:
        yield from _to_frames(_solved_rows(frames, settings, guard), SOLVED_ROWS)


def _solved_rows(frames: Iterator[pd.DataFrame], settings: SolveSettings, guard: Guard) -> Iterator[SolvedRow]:
    topics_seen: set[tuple[str, str]] = set()
    chunks = (chunk for frame in frames for chunk in frame.to_dict("records"))
    for key, of_group in groupby(chunks, key=lambda chunk: (chunk["cluster_id"], chunk["group_id"])):
        replay_group = partial(_replay_group, key, settings=settings, topics_seen=topics_seen, guard=guard)
        yield from guard.compute(f"cluster {key[0]}, group {key[1]}", of_group, replay_group)


def _replay_group(
    key: tuple[str, str], of_group: Iterable[dict[str, Any]], settings: SolveSettings, topics_seen: set[tuple[str, str]], guard: Guard
) -> Iterator[SolvedRow]:
    chunks = iter(of_group)
    first = next(chunks)
    state = decode_state(bytes(first["state"])) if first["state"] is not None else None
    recurrence = None if state is None else state.recurrence
    replay, looks = settings.replay_of(*key), ClusterLooks(settings.look_times_ms.get(key[0], ()), unpack_runs(first))
    # Counted from the group's first snapshot, so that checkpoints do not depend on where runs begin.
    count = count_before = first["snapshot_count"]
    topics: SolvedRow | None = None
    for chunk in chain((first,), chunks):
        if chunk["ordinal"] != count - count_before:
            raise GroupFailedError(
                f"cluster {key[0]}, group {key[1]}: expected the chunk from snapshot {count - count_before}, found {chunk['ordinal']}"
            )
        for snapshot, observed_at_ms in unpack_snapshots(chunk):
            before = state
            try:
                state = replay.advance(before, snapshot, looks)
                recurrence, found = follow(recurrence, None if before is None else before.step, state.step, observed_at_ms)
            except Exception as error:
                where = f"cluster {key[0]}, group {key[1]}, generation {snapshot.generation}, position {snapshot.position}"
                raise GroupFailedError(f"{where}: {guard.explain(error)}") from error
            count += 1
            state = replace(state, recurrence=recurrence)
            if before is None or before.step.topics != state.step.topics or topics is None:
                topics = _topics_row(key[0], state.step.topics)
            if (key[0], topics["topics_hash"]) not in topics_seen:
                topics_seen.add((key[0], topics["topics_hash"]))
                yield topics
            yield from _solution_rows(key, state.step, observed_at_ms, found, topics, settings.keeps_all_rows)
            if count % settings.checkpoint_generations == 0:
                yield _state_row(key, state, count, is_checkpoint=True)
    if state is not None and count % settings.checkpoint_generations:
        yield _state_row(key, state, count, is_checkpoint=False)


def _solution_rows(
    key: tuple[str, str],
    step: Step,
    observed_at_ms: int,
    recurrences: Recurrences | None,
    topics: SolvedRow,
    keeps_all_rows: bool,
) -> Iterator[SolvedRow]:
    snapshot = step.snapshot
    member_ids = [member.member_id for member in snapshot.members]
    group_instance_ids = [member.group_instance_id for member in snapshot.members]
    common: SolvedRow = {
        "row_kind": RowKind.SOLUTION,
        "cluster_id": key[0],
        "group_id": key[1],
        "generation": snapshot.generation,
        "observed_at_ms": observed_at_ms,
        "position": snapshot.position,
        "incarnation": snapshot.incarnation,
        "topics_hash": topics["topics_hash"],
        "has_predecessor": step.has_predecessor,
        "is_rewrite": step.is_rewrite,
        "is_follow_up": step.is_follow_up,
    }
    packer = AssignmentPacker(member_ids, topics["topic_names"])
    for solution in step.solutions:
        row: SolvedRow = {**common, **_solution_columns(solution, recurrences)}
        if solution.assignment is not None:
            given, row["holdings"] = packer.pack(solution.assignment)
            if keeps_all_rows or is_fact_of_its_own(solution.basis, row["conformance"]):
                row["member_ids"], row["group_instance_ids"] = member_ids, group_instance_ids
                row["held_topics"] = [names for names, _ in given]
                row["held_partitions"] = [partitions for _, partitions in given]
        yield row


def _solution_columns(solution: Solution, recurrences: Recurrences | None) -> SolvedRow:
    return {
        "basis": solution.basis,
        "strategy": solution.strategy,
        "status": solution.status,
        "detail": solution.detail,
        "kafka_version": solution.kafka_version,
        "rebalance_count": solution.rebalance_count,
        "cooperative_revocation_count": solution.cooperative_revocation_count,
        "conformance": None if solution.conformance is None else solution.conformance.value,
        "recurrences": None if recurrences is None or solution.basis != OBSERVED else recurrences.encoded(),
    }


def _topics_row(cluster_id: str, topics: tuple[ResolvedTopic, ...]) -> SolvedRow:
    row: SolvedRow = {
        "topic_names": [topic.topic for topic in topics],
        "topic_ids": [topic.topic_id for topic in topics],
        "partition_counts": [topic.partition_count for topic in topics],
        "racks": [None if topic.partition_racks is None else json.dumps(topic.partition_racks) for topic in topics],
        "bases": [topic.basis.value for topic in topics],
        "are_uncertain": [topic.is_uncertain for topic in topics],
    }
    digest = hashlib.sha256(json.dumps(row, sort_keys=True).encode()).hexdigest()
    return {"row_kind": RowKind.TOPICS, "cluster_id": cluster_id, "topics_hash": digest, **row}


def _state_row(group: tuple[str, str], state: State, snapshot_count: int, *, is_checkpoint: bool) -> SolvedRow:
    snapshot = state.step.snapshot
    return {
        "row_kind": RowKind.STATE,
        "cluster_id": group[0],
        "group_id": group[1],
        "generation": snapshot.generation,
        "position": snapshot.position,
        "incarnation": snapshot.incarnation,
        "snapshot_count": snapshot_count,
        "is_checkpoint": is_checkpoint,
        "topic_names": sorted({topic for held in snapshot.assigned.values() for topic, _ in held}),
        "state": encode_state(state),
    }
