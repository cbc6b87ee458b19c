"""Worker functions of what-if: scenarios of stored groups played.

Each is a module-level function over an iterator of batches. Workers import neither pydantic nor great_expectations.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timezone
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from assignors.audit.movements import KindCounts
from assignors.generation.balance import Balance
from assignors.generation.generation import STREAMS, Generation
from assignors.model import GroupProblem
from assignors.replay.steps import Snapshot
from assignors.scenario.changes import Order
from assignors.scenario.play import Outcome
from jobs.reading.stored import Client, GroupKey, PartitionWeights, StoredGeneration
from jobs.what_if.changes import Changes
from jobs.what_if.rehearsal import Rehearsal, Subject, rehearse, rehearse_counts
from jobs.workers.batches import Batches, to_batches
from jobs.workers.guard import Guard, WorkerLimits
from jobs.workers.packing import group_by_topic, unpack_snapshot_row, unpack_topics
from schemas.computed_row_types import PlayedRow, SubjectRow
from schemas.staging import PLAYED_ROWS
from schemas.vocabulary import GroupType

BATCH_WEIGHT = 100_000
"""Rows of a batch and partitions in them, together: enough to be cheap, and not too many for a worker's memory."""

NOT_PLAYED = STREAMS
"""The strategy of groups that are not played: it deals out tasks, not partitions."""


@dataclass(frozen=True)
class PlaySettings:
    """What workers need to play scenarios; plain values, since it travels with every task.

    Attributes:
        scenarios: name -> changes.
        members: ends of the member counts to try instead, with the only scenario; None without.
        threads: consumers of each member that is counted.
        limits: what a worker may use.
    """

    scenarios: Mapping[str, Changes]
    members: tuple[int, int] | None
    threads: int
    limits: WorkerLimits


def play_groups(batches: Iterable[pa.RecordBatch], settings: PlaySettings) -> Batches:
    """Play all scenarios of each group, one in a row: rows of ``PLAYED_ROWS``.

    Raises:
        GroupFailedError: anything unexpected, with the cluster and group it happened in.
    """
    with Guard(settings.limits) as guard:
        yield from to_batches(_played_rows(batches, settings, guard), to_arrow_schema(PLAYED_ROWS), BATCH_WEIGHT, _weight)


def _weight(row: Mapping[str, Any]) -> int:
    outcome = row.get("outcome") or {}
    return 1 + (outcome.get("partition_count") or 0)


def _played_rows(batches: Iterable[pa.RecordBatch], settings: PlaySettings, guard: Guard) -> Iterator[PlayedRow]:
    for row in (row for batch in batches for row in batch.to_pylist()):
        where = f"cluster {row['cluster_id']}, group {row['group_id']}"
        yield from guard.compute(where, iter((row,)), partial(_play_group, settings=settings))


def _play_group(rows: Iterable[SubjectRow], settings: PlaySettings) -> Iterator[PlayedRow]:
    (row,) = rows
    snapshot = unpack_snapshot_row(row)
    subject = Subject.of(_stored(row, snapshot), PartitionWeights(), settings.threads)
    key: dict[str, Any] = {name: row[name] for name in ("cluster_id", "group_id", "generation", "position", "observed_at_ms")}
    for name, rehearsal in _rehearsals(subject, settings):
        yield from _scenario_rows({**key, "scenario": name}, rehearsal, settings.threads if settings.members is None else 1)


def _rehearsals(subject: Subject, settings: PlaySettings) -> Iterator[tuple[str, Rehearsal]]:
    for name, changes in settings.scenarios.items():
        if settings.members is None:
            yield name, rehearse(subject, name, changes)
        else:
            for count in rehearse_counts(subject, changes, settings.members):
                yield f"members={count.members}", count.rehearsal


def _stored(row: SubjectRow, snapshot: Snapshot) -> StoredGeneration:
    """Return the group as scenarios begin with it, without what happened to it later."""
    return StoredGeneration(
        key=GroupKey(row["cluster_id"], row["group_id"]),
        observed_at=datetime.fromtimestamp(row["observed_at_ms"] / 1000, timezone.utc),
        until=None,
        empty_since=None,
        ended_at=None,
        is_consumer_protocol=row["group_type"] == GroupType.CONSUMER,
        generation=Generation(
            snapshot.generation, snapshot.strategy or "", GroupProblem(unpack_topics(row), snapshot.members), snapshot.assigned
        ),
        clients={
            member_id: Client(client_id, snapshot.client_hosts.get(member_id), None, snapshot.subscription_versions.get(member_id))
            for member_id, client_id in snapshot.client_ids.items()
        },
        leader_client=row["leader_client"],
        kafka_version=row["kafka_version"],
        has_subscriptions=snapshot.has_subscriptions,
    )


def _scenario_rows(key: Mapping[str, Any], rehearsal: Rehearsal, threads: int) -> Iterator[PlayedRow]:
    cheapest = rehearsal.cheapest.strategy if rehearsal.cheapest is not None else None
    yield {"scenario": {**key, "changes": changes_text(rehearsal.changes, threads), "cheapest_strategy": cheapest}}
    for answer in rehearsal.answers:
        common = {**key, "strategy": answer.strategy, "status": answer.status, "detail": answer.refusal, "kafka_version": answer.release}
        if answer.played is None:
            yield {"outcome": {**common, "member_order": Order.LAST.value}}
            continue
        for outcome in answer.played.outcomes:
            yield {"outcome": {**common, "is_cheapest": answer is rehearsal.cheapest, **_figures(outcome), **_holdings(outcome)}}


def changes_text(changes: Changes, threads: int) -> str:
    """Return the changes as JSON, with the names of the options.

    Args:
        threads: consumers of each member that the changes count.
    """
    given = {one.name: value for one in fields(changes) if (value := getattr(changes, one.name)) not in (None, 0, False, (), {})}
    if threads > 1:
        given["threads_per_member"] = threads
    return json.dumps(given, ensure_ascii=False)


BALANCE_COLUMNS = tuple(one.name for one in fields(Balance) if one.name != "multiply_owned_count")
"""The column left out is always 0: at the end of a scenario no partition has several owners."""
COUNT_COLUMNS = (*(one.name for one in fields(KindCounts)), "movement_count")


def _figures(outcome: Outcome) -> dict[str, Any]:
    balance, counts, least = outcome.balance, outcome.counts, outcome.least
    figures: dict[str, Any] = {
        "member_order": outcome.order.value,
        "round_count": outcome.round_count,
        "stopped_count": outcome.stopped_count,
        "revocation_count": outcome.revocation_count,
        "member_count": len(outcome.after.problem.members),
        **{name: getattr(balance, name) for name in BALANCE_COLUMNS},
        **{name: getattr(counts, name) for name in COUNT_COLUMNS},
    }
    if least is not None:
        figures["least_movement_count"] = least.count
        figures["avoidable_movement_count"] = counts.movement_count - least.count
        figures["is_lower_bound"] = not least.is_exact
    return figures


def _holdings(outcome: Outcome) -> dict[str, Any]:
    """Return the partitions of each member at the end as lists, if this order of members is the one that is stored."""
    if outcome.order is not Order.LAST:
        return {}
    members = outcome.after.problem.members
    given = [group_by_topic(outcome.after.assignment.get(member.member_id, ())) for member in members]
    return {
        "member_ids": [member.member_id for member in members],
        "group_instance_ids": [member.group_instance_id for member in members],
        "held_topics": [topics for topics, _ in given],
        "held_partitions": [partitions for _, partitions in given],
    }
