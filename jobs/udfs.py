"""Worker functions of assigning and auditing: the place that knows both Arrow or pandas and the domain.

Each is a module-level function over an iterator of batches. Workers import neither pydantic nor great_expectations.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from fnmatch import fnmatchcase
from functools import partial
from itertools import chain, groupby
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from assignors.auditing import Audit, AuditedGeneration, GroupAudit
from assignors.conformance import Conformance
from assignors.ordering import coordinator_partition
from assignors.passages import follow
from assignors.recurrence import Recurrences
from assignors.replay import COUNTERFACTUAL, OBSERVED, RECOMPUTED, Replay, Solution, State, Step
from assignors.topic_looks import ClusterLooks, ResolvedTopic
from assignors.verdicts import Alternative, judge
from jobs.batches import Batches, table_of, to_batches
from jobs.carry import decode_state, encode_state
from jobs.findings import COMMIT_RULES, LOOK_RULES, RULES, Finding, GroupHistory, find, gather_facts
from jobs.findings.commits import BusyCoordinator, CommitFacts, SilentMember, UnsubscribedTopic
from jobs.findings.looks import GrownTopic, GrowthFacts
from jobs.holdings_column import TornHoldingsError, pack_holdings, unpack_holdings
from jobs.packing import group_by_topic, unpack_generation, unpack_runs, unpack_snapshot_row, unpack_snapshots
from jobs.time_limit import TimeLimit
from jobs.worker_guard import GroupFailedError, Guard, WorkerLimits
from schemas.staging import AUDITED_ROWS, FOUND_ROWS, PACKED_ROWS, PLACED_GROUPS, SOLVED_ROWS, UNPACKED_ROWS

# -- assign

FRAME_ROWS, FRAME_BYTES = 20_000, 4 << 20
"""Rows of an output frame, and bytes that what they hold is packed into: large enough to be cheap, small enough for a worker's memory.
A row's lists take up to a hundred times as much as its packed holdings."""

_PACKED_COLUMNS = ("holdings", "state")
_PANDAS_TYPES = {"integer": "Int32", "long": "Int64", "boolean": "boolean", "double": "Float64"}


def _to_frames(rows: Iterable[dict[str, Any]], schema: StructType) -> Iterator[pd.DataFrame]:
    """Yield data frames of the declared columns and types; an absent key is a null.

    Typed, since pandas would turn integers beside a null into floats, and an untyped empty column into nothing that Arrow knows.

    Raises:
        GroupFailedError: a row does not fit the types.
    """
    types = {column.name: _PANDAS_TYPES.get(column.dataType.typeName(), "object") for column in schema}
    batch: list[dict[str, Any]] = []
    size = 0

    def frame(batch: list[dict[str, Any]]) -> pd.DataFrame:
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
    """What the workers need to know to replay groups; plain values, since it travels with every task.

    Attributes:
        strategies: assignors to compare.
        step_budget: bound on one call of an assignor.
        plugin_timeout_s: bound on one call of an assignor that is not ours, in seconds.
        kafka_versions: (version, cluster, group, client id) patterns; the first that matches counts.
        look_times_ms: cluster id -> times of all looks, ascending.
        checkpoint_generations: the state behind every so many snapshots of a group is kept, counted from its first.
        keeps_all_rows: what members hold becomes rows of ``assignments`` for every solution, not only where it is a fact of its own.
        limits: what a worker may use.
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
    """Replay packed chunks; a group's chunks come one after another, in one partition.

    Raises:
        GroupFailedError: anything unexpected, with the cluster, group and generation it happened in; also a chunk that does not follow the
            one before, a defect of the packing.
    """
    with Guard(settings.limits) as guard:
        yield from _to_frames(_solved_rows(frames, settings, guard), SOLVED_ROWS)


def _solved_rows(frames: Iterator[pd.DataFrame], settings: SolveSettings, guard: Guard) -> Iterator[dict[str, Any]]:
    topics_seen: set[tuple[str, str]] = set()
    chunks = (chunk for frame in frames for chunk in frame.to_dict("records"))
    for key, of_group in groupby(chunks, key=lambda chunk: (chunk["cluster_id"], chunk["group_id"])):
        replay_group = partial(_replay_group, key, settings=settings, topics_seen=topics_seen, guard=guard)
        yield from guard.compute(f"cluster {key[0]}, group {key[1]}", of_group, replay_group)


def _replay_group(
    key: tuple[str, str], of_group: Iterable[dict[str, Any]], settings: SolveSettings, topics_seen: set[tuple[str, str]], guard: Guard
) -> Iterator[dict[str, Any]]:
    chunks = iter(of_group)
    first = next(chunks)
    state = decode_state(bytes(first["state"])) if first["state"] is not None else None
    recurrence = None if state is None else state.recurrence
    replay, looks = settings.replay_of(*key), ClusterLooks(settings.look_times_ms.get(key[0], ()), unpack_runs(first))
    # Counted from the group's first snapshot, so that checkpoints lie at the same places wherever runs begin.
    count = count_before = first["snapshot_count"]
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
            yield from _step_rows(key, state.step, observed_at_ms, found, topics_seen, settings.keeps_all_rows)
            if count % settings.checkpoint_generations == 0:
                yield _state_row(key, state, count, is_checkpoint=True)
    if state is not None and count % settings.checkpoint_generations:
        yield _state_row(key, state, count, is_checkpoint=False)


def _step_rows(
    key: tuple[str, str],
    step: Step,
    observed_at_ms: int,
    recurrences: Recurrences | None,
    topics_seen: set[tuple[str, str]],
    keeps_all_rows: bool,
) -> Iterator[dict[str, Any]]:
    topics = _topics_row(key[0], step.topics)
    if (key[0], topics["topics_hash"]) not in topics_seen:
        topics_seen.add((key[0], topics["topics_hash"]))
        yield topics
    snapshot = step.snapshot
    member_ids = [member.member_id for member in snapshot.members]
    group_instance_ids = [member.group_instance_id for member in snapshot.members]
    common = {
        "row_kind": "solution",
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
    for solution in step.solutions:
        row = {**common, **_solution_columns(solution, recurrences)}
        if solution.assignment is not None:
            given = [group_by_topic(solution.assignment.get(member_id, ())) for member_id in member_ids]
            row["holdings"] = pack_holdings(given, topics["topic_names"])
            if keeps_all_rows or _is_fact_of_its_own(solution.basis, row["conformance"]):
                row["member_ids"], row["group_instance_ids"] = member_ids, group_instance_ids
                row["held_topics"] = [names for names, _ in given]
                row["held_partitions"] = [partitions for _, partitions in given]
        yield row


def _solution_columns(solution: Solution, recurrences: Recurrences | None) -> dict[str, Any]:
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


def _is_fact_of_its_own(basis: str, conformance: str | None) -> bool:
    """Return whether a solution tells of what happened: what the group had, or what its assignor would have given instead."""
    return basis == OBSERVED or (basis == RECOMPUTED and conformance != Conformance.EXACT.value)


def _topics_row(cluster_id: str, topics: tuple[ResolvedTopic, ...]) -> dict[str, Any]:
    row = {
        "topic_names": [topic.topic for topic in topics],
        "topic_ids": [topic.topic_id for topic in topics],
        "partition_counts": [topic.partition_count for topic in topics],
        "racks": [None if topic.partition_racks is None else json.dumps(topic.partition_racks) for topic in topics],
        "bases": [topic.basis.value for topic in topics],
        "are_uncertain": [topic.is_uncertain for topic in topics],
    }
    digest = hashlib.sha256(json.dumps(row, sort_keys=True).encode()).hexdigest()
    return {"row_kind": "topics", "cluster_id": cluster_id, "topics_hash": digest, **row}


def _state_row(group: tuple[str, str], state: State, snapshot_count: int, *, is_checkpoint: bool) -> dict[str, Any]:
    snapshot = state.step.snapshot
    return {
        "row_kind": "state",
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


def unpack_solutions(batches: Iterable[pa.RecordBatch], *, passes_over_torn: bool = False) -> Batches:
    """Unpack the holdings of solutions, each in a row with its members and its generation's topics: rows of ``UNPACKED_ROWS``.

    Args:
        passes_over_torn: leave out solutions whose holdings cannot be read.

    Raises:
        GroupFailedError: some cannot be read.
    """
    rows = (unpacked for batch in batches for row in batch.to_pylist() for unpacked in _unpacked(row, passes_over_torn))
    yield from to_batches(rows, to_arrow_schema(UNPACKED_ROWS), 2_000)


def _unpacked(row: dict[str, Any], passes_over_torn: bool) -> Iterator[dict[str, Any]]:
    """Yield the row of a solution with its holdings as lists."""
    try:
        holdings = unpack_holdings(row.pop("holdings"), row["member_ids"], row.pop("listed_topics"))
    except TornHoldingsError as error:
        if passes_over_torn:
            return
        where = f"cluster {row['cluster_id']}, group {row['group_id']}, generation {row['generation']}, position {row['position']}"
        raise GroupFailedError(f"{where}, {row['basis']} {row['strategy']}: {error}") from error
    given = [group_by_topic(holdings[member_id]) for member_id in row["member_ids"]]
    yield {**row, "held_topics": [topics for topics, _ in given], "held_partitions": [partitions for _, partitions in given]}


def pack_solutions(batches: Iterable[pa.RecordBatch]) -> Batches:
    """Pack what members hold by solutions, each in a row with its members and its generation's topics: rows of ``PACKED_ROWS``."""
    yield from to_batches((_packed(row) for batch in batches for row in batch.to_pylist()), to_arrow_schema(PACKED_ROWS), 2_000)


def _packed(row: dict[str, Any]) -> dict[str, Any]:
    given = {entry["member_id"]: (entry["topics"], entry["lists"]) for entry in row.pop("held") or ()}
    member_ids, listed_topics = row.pop("member_ids"), row.pop("listed_topics")
    return {**row, "holdings": pack_holdings([given.get(member_id, ((), ())) for member_id in member_ids], listed_topics)}


# -- audit


def audit_history(batches: Batches, offsets_partition_counts: dict[str, int], limits: WorkerLimits) -> Batches:
    """Audit the rows of ``jobs.audit.history_rows``; a group's rows come one after another, in one partition.

    Args:
        offsets_partition_counts: cluster id -> partition count of ``__consumer_offsets``; the record's own partition counts elsewhere.
        limits: what a worker may use.

    Raises:
        GroupFailedError: anything unexpected, with the cluster, group and generation it happened in.
    """
    with Guard(limits) as guard:
        yield from to_batches(_audited_rows(batches, offsets_partition_counts, guard), to_arrow_schema(AUDITED_ROWS), 2_000)


def place_groups(batches: Batches, offsets_partition_counts: dict[str, int]) -> Batches:
    """Tell for groups of clusters whose number of partitions of ``__consumer_offsets`` is known which of them holds each."""
    rows = (
        {**row, "offsets_partition": coordinator_partition(row["group_id"], offsets_partition_counts[row["cluster_id"]])}
        for batch in batches
        for row in batch.to_pylist()
    )
    yield from to_batches(rows, to_arrow_schema(PLACED_GROUPS), 2_000)


def _audited_rows(batches: Batches, offsets_partition_counts: dict[str, int], guard: Guard) -> Iterator[dict[str, Any]]:
    rows = (row for batch in batches for row in batch.to_pylist())
    for key, of_group in groupby(rows, key=lambda row: (row["cluster_id"], row["group_id"])):
        audit_group = partial(_audit_group, offsets_partition_counts=offsets_partition_counts, guard=guard)
        yield from guard.compute(f"cluster {key[0]}, group {key[1]}", of_group, audit_group)


def _audit_group(of_group: Iterable[dict[str, Any]], offsets_partition_counts: dict[str, int], guard: Guard) -> Iterator[dict[str, Any]]:
    audit, history = GroupAudit(), GroupHistory()
    for position, of_snapshot in groupby(of_group, key=lambda row: row["position"]):
        snapshot, *solved = of_snapshot
        if not solved:
            continue  # of a group that is left out of audits
        try:
            yield from _audit_snapshot(audit, history, snapshot, solved, offsets_partition_counts)
        except Exception as error:
            where = f"cluster {snapshot['cluster_id']}, group {snapshot['group_id']}, generation {snapshot['generation']}"
            raise GroupFailedError(f"{where}, position {position}: {guard.explain(error)}") from error


def _audit_snapshot(
    audit: GroupAudit, history: GroupHistory, row: dict[str, Any], solved: list[dict[str, Any]], offsets_partition_counts: dict[str, int]
) -> Iterator[dict[str, Any]]:
    _refuse_repeats(row, solved)
    snapshot = unpack_snapshot_row(row)
    generation = unpack_generation(row, snapshot, solved)
    audits = audit.advance(generation)
    facts = gather_facts(row, generation, solved, audits, history)
    if row["position"] < row["first_position"]:
        return
    count = offsets_partition_counts.get(row["cluster_id"])
    common = {
        **{name: row[name] for name in SNAPSHOT_COLUMNS},
        "coordinator_partition": row["offsets_partition"] if count is None else coordinator_partition(row["group_id"], count),
        "member_count": len(snapshot.members),
    }
    yield from ({"finding": finding} for finding in _finding_rows(row, find(facts, RULES)))
    for solution, figures in zip(solved, audits, strict=True):
        key = {**common, "basis": solution["basis"], "strategy": solution["strategy"]}
        columns = _audit_columns(solution, figures)
        if solution["basis"] != COUNTERFACTUAL and not snapshot.is_conversion:  # else the coordinator wrote it
            columns["flavour"] = row["flavour"]
        if solution["basis"] == OBSERVED:
            columns |= {name: row[name] for name in TARGET_COLUMNS} | _verdict_columns(solution, figures, generation, audits)
            if columns.get("generation_gap") is not None:
                columns["batched_epoch_count"] = row["known_batched_epoch_count"]
        yield {"audit": {**key, **columns}}
        if _is_fact_of_its_own(solution["basis"], solution["conformance"]) and figures.difference is not None:
            for movement in figures.difference.movements:
                yield {"movement": {**key, **{name: getattr(movement, name) for name in MOVEMENT_COLUMNS}}}


def _verdict_columns(observed: dict[str, Any], figures: Audit, generation: AuditedGeneration, audits: list[Audit]) -> dict[str, Any]:
    if figures.balance is None or not figures.is_settled or not generation.evidence.has_subscriptions:
        return {}  # what members could be given is known by their subscriptions alone
    alternatives = [
        Alternative(solution.strategy, audit.balance, audit.violations)
        for solution, audit in zip(generation.solutions, audits, strict=True)
        if solution.basis == COUNTERFACTUAL
    ]
    verdict = judge(
        figures.balance,
        observed["strategy"],
        observed["conformance"],
        alternatives,
        is_consumer_protocol=generation.evidence.is_consumer_protocol,
        least_spread=figures.least_spread,
    )
    if verdict is None:
        return {}
    return {"verdict": verdict.cause.value, "better_strategy": verdict.better_strategy, "better_gain": verdict.better_gain}


def find_in_commits(batches: Iterable[pa.RecordBatch]) -> Batches:
    """Put what rows of ``COMMIT_FACTS`` tell into words: rows of ``FOUND_ROWS``."""
    rows = (row for batch in batches for row in batch.to_pylist())
    yield from to_batches(chain.from_iterable(map(_commit_findings, rows)), to_arrow_schema(FOUND_ROWS), 2_000)


def _commit_findings(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    facts = CommitFacts(
        row["member_count"],
        [UnsubscribedTopic(**topic) for topic in row["unsubscribed"] or ()],
        [SilentMember(**member) for member in row["silent"] or ()],
        None if row["coordinator"] is None else BusyCoordinator(**row["coordinator"]),
    )
    return _finding_rows(row, find(facts, COMMIT_RULES))


def find_in_looks(batches: Iterable[pa.RecordBatch]) -> Batches:
    """Put what rows of ``GROWTH_FACTS`` tell into words: rows of ``FOUND_ROWS``."""
    rows = (row for batch in batches for row in batch.to_pylist())
    yield from to_batches(chain.from_iterable(map(_growth_findings, rows)), to_arrow_schema(FOUND_ROWS), 2_000)


def _growth_findings(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    grown = [GrownTopic(**topic) for topic in row["grown"]]
    facts = GrowthFacts(row["is_consumer_protocol"], grown, row["looked_until_ms"], row["known_until_ms"])
    return _finding_rows(row, find(facts, LOOK_RULES))


def _finding_rows(row: dict[str, Any], found: Iterable[Finding]) -> Iterator[dict[str, Any]]:
    where = {name: row[name] for name in SNAPSHOT_COLUMNS}
    for finding in found:
        yield {
            **where,
            "rule_id": finding.rule_id.value,
            "severity": finding.severity.value,
            "message": finding.message,
            "evidence": list(finding.evidence.items()),
            "advice": finding.advice,
        }


class RepeatedKeyError(RuntimeError):
    """A table holds two rows of one key."""


def _refuse_repeats(row: dict[str, Any], solved: list[dict[str, Any]]) -> None:
    """Check that the key of every row that is read is there once: the snapshot's, its solutions'."""
    keys = Counter((other["row_order"], other["basis"], other["strategy"]) for other in solved)
    (repeated, count), *_ = keys.most_common(1)
    if row["row_order"] != 0 or repeated[0] == 0 or count > 1:
        raise RepeatedKeyError(f"found {max(count, 2)} rows, expected one: {('snapshot', 'solution')[repeated[0]]} {repeated[1:]}")


TARGET_COLUMNS = ("reconciled_at", "epoch_at", "is_superseded")
"""What a snapshot of a consumer-protocol group tells of its target besides."""
SNAPSHOT_COLUMNS = ("cluster_id", "group_id", "generation", "position", "observed_at_ms")
MOVEMENT_COLUMNS = ("topic", "partition", "previous_generation", "previous_member_id", "member_id", "kind", "cause")
DIFFERENCE_COLUMNS = (
    "retained_count",
    "revoked_count",
    "reassigned_count",
    "gained_count",
    "lost_count",
    "orphaned_count",
    "withheld_count",
    "handed_over_count",
    "returned_count",
    "movement_count",
    "eager_revocation_count",
    "cooperative_revocation_count",
    "actual_revocation_count",
    "is_eager",
)
BOUND_COLUMNS = ("least_movement_count", "avoidable_movement_count", "least_spread", "is_lower_bound")
SOLUTION_COLUMNS = ("status", "kafka_version", "topics_hash", "conformance", "is_follow_up", "rebalance_count")


def _audit_columns(solution: dict[str, Any], audit: Audit) -> dict[str, Any]:
    columns = {name: solution[name] for name in SOLUTION_COLUMNS}
    if solution["has_predecessor"]:
        columns["previous_generation"] = audit.previous_generation
        columns["generation_gap"] = audit.generation_gap
    columns["is_settled"] = audit.is_settled
    columns["violations"] = None if audit.violations is None else list(audit.violations)
    columns["triggers"] = None if audit.triggers is None else [trigger.value for trigger in audit.triggers]
    columns.update((name, getattr(audit, name)) for name in BOUND_COLUMNS)
    if audit.difference is not None:
        columns.update((name, getattr(audit.difference, name)) for name in DIFFERENCE_COLUMNS)
    if audit.balance is not None:
        columns.update((name.name, getattr(audit.balance, name.name)) for name in fields(audit.balance))
    return columns
