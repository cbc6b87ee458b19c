"""What if, saved: ``generation_audits``, snapshots, topics -> ``scenarios``, ``scenario_audits``, ``scenario_assignments``.

A run like others, for one group or for all of a fleet. It plays each scenario on the newest settled generation of each group.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jobs.context import RunContext, StageResult
from jobs.pages.figures import counted
from jobs.reading.names import listed, matching, no_group, no_match, shown, spellings
from jobs.reading.stored import GroupKey
from jobs.runtime.errors import UsageError
from jobs.storage.solution_rows import explode_members
from jobs.storage.warehouse import Warehouse
from jobs.what_if import udfs
from jobs.what_if.options import WhatIfOptions
from jobs.what_if.written_changes import read_changes
from jobs.workers.packing import flatten_snapshots, topic_columns
from jobs.workers.partitions import spread_groups
from schemas.keys import GENERATION_KEY, GROUP_KEY
from schemas.staging import PLAYED_ROWS
from schemas.tables import (
    GENERATION_AUDITS,
    GENERATION_TOPICS,
    REHEARSED_TABLES,
    SCENARIO_ASSIGNMENTS,
    SCENARIO_AUDITS,
    SCENARIOS,
    SUBSCRIPTION_SNAPSHOTS,
)
from schemas.vocabulary import Basis

logger = logging.getLogger(__name__)

TABLES_WRITTEN = tuple(REHEARSED_TABLES)
"""The tables that the first such run creates."""


def _can_be_played() -> Column:
    return (F.col("basis") == str(Basis.OBSERVED)) & F.col("is_settled") & (F.col("member_count") > 0)


def newest_settled(audits: DataFrame) -> DataFrame:
    """Return the newest settled generation with members of each group.

    Rows: (cluster_id, group_id), with ``position``, ``topics_hash`` and ``strategy``.
    """
    newest = F.max(F.struct("position", "topics_hash", "strategy"))
    return audits.where(_can_be_played()).groupBy(*GROUP_KEY).agg(newest.alias("newest")).select(*GROUP_KEY, "newest.*")


def without_streams(newest: DataFrame) -> DataFrame:
    """Return the groups that are no Kafka Streams applications, without ``strategy``. Logs how many others there are.

    Args:
        newest: see ``newest_settled``; read twice.
    """
    of_streams = F.col("strategy").eqNullSafe(udfs.NOT_PLAYED)
    count = newest.where(of_streams).count()
    if count:
        logger.warning("not played: %d groups of Kafka Streams, which deals out tasks", count)
    return newest.where(~of_streams).drop("strategy")


def subjects(warehouse: Warehouse, newest: DataFrame) -> DataFrame:
    """Return one row for each group with what its scenarios begin with, in the columns of ``SubjectRow``.

    Args:
        newest: see ``without_streams``.
    """
    audits = warehouse.read(GENERATION_AUDITS.name)
    releases = audits.where(F.col("basis") == str(Basis.RECOMPUTED)).select(*GENERATION_KEY, "kafka_version")
    snapshots = warehouse.read(SUBSCRIPTION_SNAPSHOTS.name).join(newest, list(GENERATION_KEY)).join(releases, list(GENERATION_KEY), "left")
    rows = flatten_snapshots(snapshots, "group_type", "leader_client", "topics_hash", "kafka_version")
    topics = warehouse.read(GENERATION_TOPICS.name).select("cluster_id", "topics_hash", *topic_columns())
    return rows.join(topics, ["cluster_id", "topics_hash"])


class ChosenGroups(NamedTuple):
    """The groups that match the names and patterns, and why others that are named are not among them; both empty with ``--all``."""

    keys: set[GroupKey]
    refusals: list[UsageError]


def choose_groups(warehouse: Warehouse, options: WhatIfOptions) -> ChosenGroups:
    """Return the groups that the options ask for.

    Raises:
        UsageError: a name or pattern matches no group, the cluster has none, or no group has a settled generation with members.
    """
    audits = warehouse.read(GENERATION_AUDITS.name)
    if options.all:
        if options.cluster_id is not None and audits.where(F.col("cluster_id") == options.cluster_id).isEmpty():
            raise no_group(options.cluster_id)
        return ChosenGroups(set(), [])
    found = audits.groupBy(*GROUP_KEY).agg(F.bool_or(_can_be_played()).alias("can_be_played")).collect()
    of_all = {GroupKey(row["cluster_id"], row["group_id"]): bool(row["can_be_played"]) for row in found}
    known = {key: can for key, can in of_all.items() if options.cluster_id in (None, key.cluster_id)}
    chosen: set[GroupKey] = set()
    refused: set[GroupKey] = set()
    for name in options.groups:
        keys = matching(name, known)
        if not keys:
            raise no_match(name, known, options.cluster_id, {key.cluster_id for key in of_all})
        refused |= {key for key in keys if key.group_id in spellings(name) and not known[key]}
        chosen |= {key for key in keys if known[key]}
    refusals = [
        UsageError(f"group {shown(key.group_id)} of cluster {shown(key.cluster_id)}: found no settled generation with members")
        for key in sorted(refused)
    ]
    if not chosen:
        raise refusals[0] if refusals else UsageError(f"groups {listed(options.groups)}: none has a settled generation with members")
    return ChosenGroups(chosen, refusals)


def run(context: RunContext, options: WhatIfOptions) -> StageResult:
    """Play the scenarios of the chosen groups and write the results. Logs which groups cannot be played.

    Raises:
        UsageError: see ``choose_groups``; or there is no group that can be played.
    """
    warehouse = context.warehouse
    audits = warehouse.read(GENERATION_AUDITS.name)
    if options.cluster_id is not None:
        audits = audits.where(F.col("cluster_id") == options.cluster_id)
    chosen, refusals = choose_groups(warehouse, options)
    for refusal in refusals:
        logger.warning("not played: %s", refusal)
    if chosen:
        keys = context.spark.createDataFrame(pa.Table.from_pylist([key._asdict() for key in sorted(chosen)]))
        audits = audits.join(F.broadcast(keys), list(GROUP_KEY), "left_semi")
    settings = udfs.PlaySettings(read_changes(options), options.members, options.threads_per_member, context.worker_limits)
    newest = without_streams(warehouse.materialize_keys("newest_settled", newest_settled(audits)).rows)
    rows = spread_groups(subjects(warehouse, newest))
    played = warehouse.materialize("what_if", rows.mapInArrow(partial(udfs.play_groups, settings=settings), PLAYED_ROWS))
    _write(context, played)
    if not warehouse.rows_written[SCENARIOS.name]:
        groups = f"groups {listed(options.groups) or 'of the warehouse'}"
        raise UsageError(f"{groups}: none can be played, expected a settled generation with members, and no Kafka Streams application")
    return StageResult(context.state)


def _write(context: RunContext, played: DataFrame) -> None:
    scenarios, outcomes = (played.where(F.col(name).isNotNull()).select(f"{name}.*") for name in ("scenario", "outcome"))
    context.warehouse.append(SCENARIOS.name, context.rows_of(SCENARIOS, scenarios))
    context.warehouse.append(SCENARIO_AUDITS.name, context.rows_of(SCENARIO_AUDITS, outcomes))
    context.warehouse.append(SCENARIO_ASSIGNMENTS.name, context.rows_of(SCENARIO_ASSIGNMENTS, explode_members(outcomes)))


def saved_in_words(run_id: str, output_counts: Mapping[str, int]) -> str:
    """Return a line with the number of rows that a published run has saved.

    Args:
        output_counts: see ``runs.output_counts``.
    """
    counts = ", ".join(f"{counted(output_counts.get(name, 0), 'row')} in {name}" for name in TABLES_WRITTEN)
    return f"saved by run {run_id}: {counts}"
