"""Worker functions of the stage ``audit``: they compare generations and write findings.

Each is a module-level function over an iterator of batches. Workers import neither pydantic nor great_expectations.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from functools import partial
from itertools import chain, groupby
from math import inf
from operator import attrgetter, itemgetter
from typing import Any, cast

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from assignors.audit.audit import Audit, AuditedGeneration, GroupAudit
from assignors.audit.movements import Difference, Movement
from assignors.audit.verdicts import Alternative, judge
from assignors.generation.balance import Balance
from assignors.java.ordering import coordinator_partition
from assignors.replay.steps import COUNTERFACTUAL, OBSERVED
from jobs.audit.causes import CLOCKS_MS, EVENT_FIELDS, Around, FoundCause, LoggedEvent, around_of, explain, merged, recorded_causes
from jobs.audit.load_imbalance import held_topics, weigh
from jobs.audit.offset_rows import Item, RowOrder, read_generations, read_groups
from jobs.audit.resume_offsets import RESUME_COLUMNS, GroupOffsets
from jobs.audit.uneven_loads import Racks, find_uneven_loads
from jobs.findings import LOOK_RULES, RULES, STUCK_RULES, GroupHistory, find, gather_facts
from jobs.findings.looks import GrownTopic, GrowthFacts
from jobs.findings.rows import finding_rows, generation_of
from jobs.findings.stuck import StuckFacts
from jobs.workers.batches import Batches, to_batches
from jobs.workers.guard import GroupFailedError, Guard, WorkerLimits
from jobs.workers.packing import is_fact_of_its_own, unpack_generation, unpack_snapshot_row
from schemas.computed_row_types import (
    AuditedRow,
    ExplainedRow,
    FoundRow,
    GrowthFactsRow,
    StoredSnapshot,
    StoredSolution,
    StuckFactsRow,
)
from schemas.staging import AUDITED_ROWS, EXPLAINED_ROWS, FOUND_ROWS, PLACED_GROUPS
from schemas.vocabulary import Cause, CauseSource


@dataclass(frozen=True)
class _Known:
    """What the audit of each group knows beside its rows; see ``audit_history``."""

    offsets_partition_counts: Mapping[str, int]
    max_look_delay_s: float | None


def audit_history(
    batches: Batches, offsets_partition_counts: dict[str, int], max_look_delay_s: float | None, limits: WorkerLimits
) -> Batches:
    """Audit the rows of ``jobs.audit.run.history_rows``. The rows of a group follow one another in one partition.

    Args:
        offsets_partition_counts: cluster id -> partition count of ``__consumer_offsets``; else the partition of the record is used.
        max_look_delay_s: lag is null if its metadata snapshot is later than a generation by more seconds; None: no limit.
        limits: limits of a worker.

    Raises:
        GroupFailedError: any unexpected error, with its cluster, group and generation.
    """
    with Guard(limits) as guard:
        rows = _audited_rows(batches, _Known(offsets_partition_counts, max_look_delay_s), guard)
        yield from to_batches(rows, to_arrow_schema(AUDITED_ROWS), 2_000)


def put_groups_on_coordinators(batches: Batches, offsets_partition_counts: dict[str, int]) -> Batches:
    """Yield the partition of ``__consumer_offsets`` of each group whose cluster has a known partition count of it."""
    rows = (
        {**row, "offsets_partition": coordinator_partition(row["group_id"], offsets_partition_counts[row["cluster_id"]])}
        for batch in batches
        for row in batch.to_pylist()
    )
    yield from to_batches(rows, to_arrow_schema(PLACED_GROUPS), 2_000)


def _audited_rows(batches: Batches, known: _Known, guard: Guard) -> Iterator[AuditedRow]:
    for (cluster_id, group_id), items in read_groups(batches):
        audit_group = partial(_audit_group, known=known, guard=guard)
        yield from guard.compute(f"cluster {cluster_id}, group {group_id}", items, audit_group)


def _audit_group(items: Iterable[Item], known: _Known, guard: Guard) -> Iterator[AuditedRow]:
    audit, history, offsets = GroupAudit(), GroupHistory(), GroupOffsets()
    for rows in read_generations(items, offsets):
        snapshot: StoredSnapshot
        solved: list[StoredSolution]
        snapshot, *solved = cast(Any, rows)
        if not solved:
            continue  # of a group that is not audited
        try:
            yield from _audit_snapshot(audit, history, offsets, snapshot, solved, known)
        except Exception as error:
            # Without a snapshot it is a solution, which has no generation.
            where = f"cluster {snapshot['cluster_id']}, group {snapshot['group_id']}, generation {snapshot.get('generation')}"
            raise GroupFailedError(f"{where}, position {snapshot['position']}: {guard.explain(error)}") from error


def _audit_snapshot(
    audit: GroupAudit, history: GroupHistory, offsets: GroupOffsets, row: StoredSnapshot, solved: list[StoredSolution], known: _Known
) -> Iterator[AuditedRow]:
    _refuse_repeats(row, solved)
    snapshot = unpack_snapshot_row(row)
    generation = unpack_generation(row, snapshot, solved)
    before = audit.last_evidence
    audits = audit.advance(generation)
    facts = gather_facts(row, generation, solved, audits, history)
    if row["position"] < row["first_position"]:
        return
    stored: Mapping[str, Any] = row
    moment = offsets.moment(row["observed_us"], row["is_complete"], known.max_look_delay_s)
    count = known.offsets_partition_counts.get(row["cluster_id"])
    common = {
        **generation_of(row),
        "coordinator_partition": row["offsets_partition"] if count is None else coordinator_partition(row["group_id"], count),
        "member_count": len(snapshot.members),
    }
    for finding in finding_rows(row, find(facts, RULES)):
        yield {"finding": finding}
    for solution, figures, holdings in zip(solved, audits, (one.assignment for one in generation.solutions), strict=True):
        key = {**common, "basis": solution["basis"], "strategy": solution["strategy"]}
        columns = _audit_columns(solution, figures)
        if solution["basis"] != COUNTERFACTUAL and not snapshot.is_conversion:  # else the coordinator wrote it
            columns["leader_client"] = row["leader_client"]
        if solution["basis"] == OBSERVED:
            columns |= {name: stored[name] for name in TARGET_COLUMNS} | _verdict_columns(solution, figures, generation, audits)
            columns["reconciled_ms"] = _milliseconds_between(stored["epoch_at"], stored["reconciled_at"])
            if figures.triggers is not None:
                evidence = before if solution["has_predecessor"] else None
                columns["causes"] = [cause._asdict() for cause in recorded_causes(evidence, generation.evidence, figures.triggers)]
            if columns.get("generation_gap") is not None:
                columns["batched_epoch_count"] = row["known_batched_epoch_count"]
            entries = [] if holdings is None else held_topics(holdings)
            weighed = weigh(entries, moment, len(snapshot.members))
            columns |= weighed.weights._asdict()
            members = ((member.member_id, member.rack) for member in generation.problem.members)
            racks_of = partial(Racks.of, members, generation.problem.topics)
            for finding in finding_rows(row, find_uneven_loads({**key, **columns}, entries, weighed, racks_of)):
                yield {"finding": finding}
        yield {"audit": {**key, **columns}}
        if is_fact_of_its_own(solution["basis"], solution["conformance"]) and figures.difference is not None:
            for movement in figures.difference.movements:
                resumed = moment.resume(movement.topic, movement.partition, movement.member_id)
                yield {"movement": {**key, **dict(zip(MOVEMENT_COLUMNS, (*movement, *resumed), strict=True))}}


def _milliseconds_between(start: datetime | None, end: datetime | None) -> int | None:
    return None if start is None or end is None else (end - start) // timedelta(milliseconds=1)


def _verdict_columns(observed: StoredSolution, figures: Audit, generation: AuditedGeneration, audits: list[Audit]) -> dict[str, Any]:
    if figures.balance is None or not figures.is_settled or not generation.evidence.has_subscriptions:
        return {}  # only subscriptions show what members could be given
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


def explain_generations(batches: Batches, limits: WorkerLimits) -> Batches:
    """Yield the causes of the generations in rows of ``jobs.audit.logged_causes``; those of a group come by ``order_ms``, in one partition.

    Args:
        limits: limits of a worker.

    Raises:
        GroupFailedError: any unexpected error, with its cluster and group.
    """

    def rows(guard: Guard) -> Iterator[ExplainedRow]:
        given = (row for batch in batches for row in batch.to_pylist())
        for key, of_group in groupby(given, key=lambda row: (row["cluster_id"], row["group_id"])):
            yield from guard.compute(f"cluster {key[0]}, group {key[1]}", of_group, _explained)

    with Guard(limits) as guard:
        yield from to_batches(rows(guard), to_arrow_schema(EXPLAINED_ROWS), 2_000)


def _explained(of_group: Iterable[Mapping[str, Any]]) -> Iterator[ExplainedRow]:
    """Yield the generations of a group; only the events between two of them are kept, and those within ``CLOCKS_MS`` of these."""
    events: deque[LoggedEvent] = deque()
    waiting: deque[tuple[Mapping[str, Any] | None, Mapping[str, Any]]] = deque()
    last: Mapping[str, Any] | None = None

    def ready(until_ms: float) -> Iterator[ExplainedRow]:
        while waiting and waiting[0][1]["order_ms"] + CLOCKS_MS < until_ms:
            before, row = waiting.popleft()
            around = around_of(before, row)
            if row["is_asked"]:
                yield _explained_row(row, around, events)
            while events and events[0].logged_at_ms < row["at_ms"] - CLOCKS_MS:
                events.popleft()

    for row in of_group:
        yield from ready(row["order_ms"])
        if row["is_generation"]:
            waiting.append((last, row))
            last = row
        else:
            events.append(LoggedEvent(row["at_ms"], *(row[name] for name in EVENT_FIELDS)))
    yield from ready(inf)


def _explained_row(row: Mapping[str, Any], around: Around, events: Iterable[LoggedEvent]) -> ExplainedRow:
    between = [one for one in events if around.previous_ms - CLOCKS_MS <= one.logged_at_ms <= around.observed_ms + CLOCKS_MS]
    explanation = explain(around, between)
    stored = row["causes"]
    others = [FoundCause(Cause(one["cause"]), one["member_id"], CauseSource(one["source"]), one["detail"]) for one in stored or ()]
    causes = merged(explanation.causes, others)
    return {
        "cluster_id": row["cluster_id"],
        "group_id": row["group_id"],
        "position": row["position"],
        "causes": [cause._asdict() for cause in causes] if causes or stored is not None else None,
        "rebalance_ms": explanation.rebalance_ms,
        "assignment_ms": explanation.assignment_ms,
    }


def _found(batches: Iterable[pa.RecordBatch], findings_of: Callable[[Any], Iterator[FoundRow]]) -> Batches:
    rows = (row for batch in batches for row in batch.to_pylist())
    yield from to_batches(chain.from_iterable(map(findings_of, rows)), to_arrow_schema(FOUND_ROWS), 2_000)


def find_stuck(batches: Iterable[pa.RecordBatch]) -> Batches:
    """Yield the findings of rows of ``STUCK_FACTS``, as rows of ``FOUND_ROWS``."""
    yield from _found(batches, _stuck_findings)


def _stuck_findings(row: StuckFactsRow) -> Iterator[FoundRow]:
    facts = StuckFacts(**{field.name: cast(Any, row)[field.name] for field in fields(StuckFacts)})
    return finding_rows(row, find(facts, STUCK_RULES))


def find_in_looks(batches: Iterable[pa.RecordBatch]) -> Batches:
    """Yield the findings of rows of ``GROWTH_FACTS``, as rows of ``FOUND_ROWS``."""
    yield from _found(batches, _growth_findings)


def _growth_findings(row: GrowthFactsRow) -> Iterator[FoundRow]:
    grown = [GrownTopic(**topic) for topic in row["grown"]]
    facts = GrowthFacts(row["is_consumer_protocol"], grown, row["looked_until_ms"], row["known_until_ms"], row["rebalance_timeout_ms"])
    return finding_rows(row, find(facts, LOOK_RULES))


class RepeatedKeyError(RuntimeError):
    """A table has two rows with one key."""


def _refuse_repeats(row: StoredSnapshot, solved: list[StoredSolution]) -> None:
    """Check that the key of the snapshot, and of each solution, occurs once."""
    snapshot_count = [row["row_order"], *(other["row_order"] for other in solved)].count(RowOrder.GENERATION)
    if snapshot_count != 1:
        raise RepeatedKeyError(f"found {snapshot_count} snapshots, expected one")
    keys = [(other["basis"], other["strategy"]) for other in solved]
    if len(set(keys)) < len(keys):
        repeated, count = Counter(keys).most_common(1)[0]
        raise RepeatedKeyError(f"found {count} rows, expected one: solution {repeated}")


TARGET_COLUMNS = ("reconciled_at", "epoch_at", "is_superseded")
"""Further columns on the target of a consumer-protocol group's snapshot."""
MOVEMENT_COLUMNS = (*Movement._fields, *RESUME_COLUMNS)
DIFFERENCE_COLUMNS = (*(one.name for one in fields(Difference) if one.name not in ("movements", "withheld")), "movement_count")
BALANCE_COLUMNS = tuple(one.name for one in fields(Balance))
BOUND_COLUMNS = ("least_movement_count", "avoidable_movement_count", "least_spread", "is_lower_bound")
SOLUTION_COLUMNS = ("status", "kafka_version", "topics_hash", "conformance", "is_follow_up", "rebalance_count")
_of_difference, _of_balance, _of_bounds = (attrgetter(*names) for names in (DIFFERENCE_COLUMNS, BALANCE_COLUMNS, BOUND_COLUMNS))
_of_solution = itemgetter(*SOLUTION_COLUMNS)


def _audit_columns(solution: StoredSolution, audit: Audit) -> dict[str, Any]:
    columns: dict[str, Any] = dict(zip(SOLUTION_COLUMNS, _of_solution(solution), strict=True))
    if solution["has_predecessor"]:
        columns["previous_generation"] = audit.previous_generation
        columns["generation_gap"] = audit.generation_gap
    columns["is_settled"] = audit.is_settled
    columns["violations"] = None if audit.violations is None else list(audit.violations)
    columns["triggers"] = None if audit.triggers is None else [trigger.value for trigger in audit.triggers]
    columns.update(zip(BOUND_COLUMNS, _of_bounds(audit), strict=True))
    if audit.difference is not None:
        columns.update(zip(DIFFERENCE_COLUMNS, _of_difference(audit.difference), strict=True))
    if audit.balance is not None:
        columns.update(zip(BALANCE_COLUMNS, _of_balance(audit.balance), strict=True))
    return columns
