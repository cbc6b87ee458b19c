"""What the rules on commits use of each group: its signs, and what only some of them need. Workers judge it.

Metadata snapshots are read for groups with members that do not commit, records for groups with an overdue target or that may have been
deleted. They come to a worker beside the signs of their group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial, reduce
from itertools import groupby
from operator import itemgetter
from typing import Any, cast

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from jobs.audit.arrived_records import TopicEnds, WaitingPartition, ends_of, silent_members, stalled_members
from jobs.audit.offset_rows import SeenTopic, look_column, seen_topics
from jobs.audit.open_targets import read_target
from jobs.findings import COMMIT_RULES, find
from jobs.findings.commits import BusyCoordinator, CommitFacts, ExpiringTopic, UnsubscribedTopic
from jobs.findings.rows import finding_rows
from jobs.storage.current_lag import newest_with_ends
from jobs.storage.hashed_keys import hashed
from jobs.workers.batches import Batches, to_batches
from jobs.workers.guard import Guard, WorkerLimits
from jobs.workers.partitions import keep_together
from schemas.computed_row_types import CommitSignsRow, FoundRow
from schemas.keys import GROUP_KEY, TOPIC_KEY
from schemas.staging import COMMIT_SIGNS, FOUND_ROWS

JUDGED_FIELDS = ("generation", "position", "observed_at_ms", "member_count")


class FactOrder(IntEnum):
    """The kinds of rows of a group, in their order."""

    SIGN = 0
    COORDINATOR = 1
    DELETION = 2
    RECORD = 3
    LOOK = 4


_COLUMNS = {FactOrder.SIGN: "sign", FactOrder.COORDINATOR: "busy", FactOrder.RECORD: "record"}
"""The columns with the content of the rows; those of deletions have none."""


def looks_of(signs: DataFrame, looks: DataFrame) -> DataFrame:
    """Return the metadata snapshots that show what came in for members that do not commit: (cluster_id, group_id), ``look``.

    These are the ones since the earliest time that is asked for, and the newest one that has ends.

    Args:
        signs: rows of ``COMMIT_SIGNS``.
        looks: rows of ``topic_snapshots``.
    """
    asked = signs.where("waiting_topics IS NOT NULL").select(*GROUP_KEY, F.inline("waiting_topics"))
    newest = newest_with_ends(looks).withColumnRenamed("observed_at", "newest_at")
    seen = looks.select(*TOPIC_KEY, "observed_at", look_column()).join(asked.join(newest, list(TOPIC_KEY), "left"), list(TOPIC_KEY))
    is_since = F.col("observed_at") >= F.timestamp_micros("since_us")
    return seen.where(is_since | F.col("observed_at").eqNullSafe(F.col("newest_at"))).select(*GROUP_KEY, "look")


def fact_rows(
    signs: DataFrame,
    busy: DataFrame | None,
    deleted: DataFrame | None,
    records: DataFrame | None,
    looks: DataFrame | None,
) -> DataFrame:
    """Return the rows of ``find_in_commits``: those of a group come in one partition, in the order of ``FactOrder``.

    Args:
        signs: rows of ``COMMIT_SIGNS``.
        busy: as ``busy_coordinators`` returns them; None if no broker is busy.
        deleted: as ``deleted_groups`` returns them; None if no group may have been deleted.
        records: as ``member_records`` returns them; None if no target is overdue.
        looks: as ``looks_of`` returns them; None if all members commit.
    """

    def of_kind(rows: DataFrame, order: FactOrder, place: Column, *content: Column) -> DataFrame:
        return rows.select(*GROUP_KEY, F.lit(order.value).alias("row_order"), place.cast("bigint").alias("place"), *content)

    no_place = F.lit(None)
    sign = F.struct(*[name for name in COMMIT_SIGNS.names if name not in (*GROUP_KEY, "waiting_topics")]).alias("sign")
    parts = [of_kind(signs, FactOrder.SIGN, no_place, sign)]
    if busy is not None:
        parts.append(of_kind(busy, FactOrder.COORDINATOR, no_place, F.struct(*JUDGED_FIELDS, "coordinator").alias("busy")))
    if deleted is not None:
        parts.append(of_kind(deleted, FactOrder.DELETION, no_place))
    if records is not None:
        parts.append(of_kind(records, FactOrder.RECORD, F.col("offset"), F.struct("key", "value").alias("record")))
    if looks is not None:
        parts.append(of_kind(looks, FactOrder.LOOK, F.col("look")["look_us"], F.col("look")))
    rows = reduce(partial(DataFrame.unionByName, allowMissingColumns=True), parts)
    return keep_together(rows, *GROUP_KEY).sortWithinPartitions(*hashed(*GROUP_KEY), "row_order", "place")


@dataclass
class _Group:
    """What is known of one group."""

    sign: CommitSignsRow | None = None
    busy: Mapping[str, Any] | None = None
    is_deleted: bool = False
    records: dict[bytes, bytes | None] = field(default_factory=dict)
    waiting: list[WaitingPartition] = field(default_factory=list)
    ends: dict[str, TopicEnds] = field(default_factory=dict)

    def add(self, order: FactOrder, content: Any) -> None:
        """Add the content of a row."""
        if isinstance(content, SeenTopic):
            self.ends[content.topic].add(content.look)
        elif order == FactOrder.SIGN:
            self.sign = content
            self.waiting = [WaitingPartition(**one) for one in content["waiting"] or ()]
            self.ends = ends_of(self.waiting)
        elif order == FactOrder.COORDINATOR:
            self.busy = content
        elif order == FactOrder.DELETION:
            self.is_deleted = True
        else:
            self.records[content["key"]] = content["value"]  # in their order, so that the last one stays


def find_in_commits(batches: Batches, retention_hours: int, limits: WorkerLimits) -> Batches:
    """Yield the findings in rows of ``fact_rows``, as rows of ``FOUND_ROWS``.

    Args:
        retention_hours: how long brokers are taken to keep commits that nobody uses.
        limits: limits of a worker.

    Raises:
        GroupFailedError: any unexpected error, with its cluster and group.
    """

    def rows(guard: Guard) -> Iterator[FoundRow]:
        for (cluster_id, group_id), of_group in groupby(_contents(batches), key=itemgetter(0)):
            judge = partial(_found, (cluster_id, group_id), retention_hours)
            yield from guard.compute(f"cluster {cluster_id}, group {group_id}", map(itemgetter(1, 2), of_group), judge)

    with Guard(limits) as guard:
        yield from to_batches(rows(guard), to_arrow_schema(FOUND_ROWS), 2_000)


def _contents(batches: Batches) -> Iterator[tuple[tuple[str, str], FactOrder, Any]]:
    """Yield the key of a group, and the order and the content of a row of it."""
    for batch in batches:
        keys = zip(*(batch.column(name).to_pylist() for name in GROUP_KEY), strict=True)
        at = 0
        for (key, number), run in groupby(zip(keys, batch.column("row_order").to_pylist(), strict=True)):
            count, order = sum(1 for _ in run), FactOrder(number)
            contents: Iterable[Any] = [None] * count
            if order == FactOrder.LOOK:
                contents = seen_topics(batch, at, count)
            elif order in _COLUMNS:
                contents = batch.column(_COLUMNS[order]).slice(at, count).to_pylist()
            yield from ((key, order, content) for content in contents)
            at += count


def _found(key: tuple[str, str], retention_hours: int, contents: Iterable[tuple[FactOrder, Any]]) -> Iterator[FoundRow]:
    group = _Group()
    for order, content in contents:
        group.add(order, content)
    place = group.sign or group.busy
    if place is not None:  # else it is not audited
        facts = _facts(group, place["member_count"], retention_hours)
        yield from finding_rows(cast(Any, {**place, **dict(zip(GROUP_KEY, key, strict=True))}), find(facts, COMMIT_RULES))


def _facts(group: _Group, member_count: int, retention_hours: int) -> CommitFacts:
    coordinator = None if group.busy is None else BusyCoordinator(**group.busy["coordinator"])
    sign = group.sign
    if sign is None:
        return CommitFacts(member_count, coordinator=coordinator)
    return CommitFacts(
        member_count,
        [UnsubscribedTopic(**topic) for topic in sign["unsubscribed"] or ()],
        silent_members((one for one in group.waiting if not one.is_stopped), group.ends),
        coordinator,
        read_target(sign, group.records),
        stalled_members((one for one in group.waiting if one.is_stopped), group.ends),
        [ExpiringTopic(**topic) for topic in sign["expiring_if_deleted" if group.is_deleted else "expiring"] or ()],
        retention_hours,
        {client["member_id"]: client["client_id"] for client in reversed(sign["clients"] or ())},  # the first one, if a member occurs twice
    )
