"""The newest generations that could be predicted, predicted from the ones before them.

Their number has a bound, and so has the number of their members and partitions. Spark selects their rows from the groups that have the
newest of them, and the driver predicts.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta, timezone
from itertools import groupby
from typing import Any, NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F

from assignors.audit.triggers import Trigger
from assignors.scenario.backtest import PREDICTED, PREDICTED_STRATEGIES
from jobs.backtest.judging import judge_predictions
from jobs.reading.generations import AUDIT_COLUMNS, NEEDED_BEFORE, SNAPSHOT_COLUMNS, observed_audits, recorded_generations
from jobs.reading.groups import TOPIC_COLUMNS, topics_by_hash
from jobs.report.ranking import GroupKey, Ranking, group_key
from jobs.report.rows import Predicted
from jobs.storage.sql_literals import is_one_of, quoted
from jobs.storage.warehouse import Warehouse
from schemas.keys import GENERATION_KEY, GROUP_KEY
from schemas.tables import GENERATION_AUDITS, GENERATION_TOPICS, SUBSCRIPTION_SNAPSHOTS
from schemas.vocabulary import Basis

AUDITS_FOR_EACH = 10
"""Audits that are read for each generation to be predicted: observed and recomputed ones, of those before it and between them too."""
MOST_WEIGHT = 50_000
"""Members and partitions of all generations that are read for predictions."""

_WEIGHT = ("member_count", "partition_count")
_HAD_OWNERS = ("retained_count", "revoked_count", "reassigned_count", "lost_count", "orphaned_count")
"""Audit columns that together count the partitions with an owner in the generation before."""


class Chosen(NamedTuple):
    """The generations to be predicted, and audits of these and of those before them, by cluster, name and position."""

    keys: frozenset[tuple[GroupKey, int]]
    audits: Sequence[Mapping[str, Any]]


def is_predictable() -> Column:
    """Return whether an observed audit is of a generation that a scenario could have said.

    The one before it is known and had owners of partitions. A snapshot may still show that the generation cannot be predicted.
    """
    others = F.array(*(F.lit(str(trigger.value)) for trigger in Trigger if trigger not in PREDICTED))
    had_owners = sum((F.col(name) for name in _HAD_OWNERS), F.lit(0))
    return (
        (F.col("member_count") > 0)
        & (F.coalesce("generation_gap", F.lit(0)) <= 0)
        & (had_owners > 0)
        & ~F.arrays_overlap("triggers", others)
        & F.col("strategy").isin(sorted(PREDICTED_STRATEGIES))
    )


def collect_predicted(warehouse: Warehouse, ranked: Ranking, most: int) -> Predicted:
    """Return what comes of predicting the newest generations that could be predicted, at most so many.

    Reads: generation_audits, subscription_snapshots and generation_topics, of at most so many groups.
    """
    groups, since = newest_groups(ranked, most)
    chosen = choose(_newest_audits(warehouse, groups, since, most * AUDITS_FOR_EACH), most, MOST_WEIGHT)
    snapshots, topics = _snapshots_and_topics(warehouse, chosen.audits)
    generations = recorded_generations([dict(row) for row in chosen.audits], snapshots, topics_by_hash(topics))
    return Predicted(len(chosen.keys), judge_predictions(generations, lambda one: (one.key, one.position) in chosen.keys))


def newest_groups(ranked: Ranking, most: int) -> tuple[list[dict[str, str]], date]:
    """Return the groups that have the newest generations that could be predicted, at most so many, and the month from which to read them.

    Each of them has one at least, so these groups have the newest ``most`` of all generations, and all of these are in the month of the
    oldest of the groups or later. The generations before them may be in the month before.
    """
    times = ranked.values("predictable_at_ms", *GROUP_KEY)
    newest = heapq.nsmallest(most, ((-at_ms, *key) for at_ms, *key in times if at_ms is not None))
    oldest = datetime.fromtimestamp(-newest[-1][0] / 1000, timezone.utc).date() if newest else date.min
    month = oldest.replace(day=1)
    before = (month - timedelta(days=1)).replace(day=1) if newest else month
    return [dict(zip(GROUP_KEY, key, strict=True)) for _, *key in newest], before


def choose(audits: Iterable[Mapping[str, Any]], most: int, most_weight: int) -> Chosen:
    """Return the newest generations that can be predicted, as many as the two bounds allow.

    Generations that are too heavy for what is left are passed over.

    Args:
        audits: observed ones by cluster, name and position, with ``generation``, ``partition_count`` and ``is_predictable``; the oldest of
            a group may be missing.
        most: number of generations.
        most_weight: members and partitions of these and of those before them.
    """
    by_group = {key: list(rows) for key, rows in groupby(audits, key=group_key)}
    candidates = [
        (-row["observed_at"].timestamp(), key, -number)
        for key, rows in by_group.items()
        for number, row in enumerate(rows)
        if row["is_predictable"] and _has_all_before(rows, number)
    ]
    keys: set[tuple[GroupKey, int]] = set()
    needed: set[tuple[GroupKey, int]] = set()
    left = most_weight
    for _, key, number in sorted(candidates):
        if len(keys) == most:
            break
        span = range(max(-number - NEEDED_BEFORE, 0), -number + 1)
        weight = sum(by_group[key][one][name] or 0 for one in span if (key, one) not in needed for name in _WEIGHT)
        if weight <= left:
            left -= weight
            keys.add((key, by_group[key][-number]["position"]))
            needed.update((key, one) for one in span)
    return Chosen(frozenset(keys), [by_group[key][number] for key, number in sorted(needed)])


def _has_all_before(rows: Sequence[Mapping[str, Any]], number: int) -> bool:
    """Return whether a group's audits have the generations before one without a gap: those that it is predicted from."""
    for one in range(number, number - NEEDED_BEFORE, -1):
        if rows[one]["previous_generation"] is None:
            return one < number
        if one == 0 or rows[one - 1]["generation"] != rows[one]["previous_generation"]:
            return False
    return True


def _newest_audits(warehouse: Warehouse, groups: Sequence[Mapping[str, Any]], since: date, most: int) -> list[dict[str, Any]]:
    """Return the newest audits of groups from a month on, at most so many rows, as ``choose`` takes them."""
    if not groups:
        return []
    audits = warehouse.read(GENERATION_AUDITS.name).where(
        F.col("basis").isin(str(Basis.OBSERVED), str(Basis.RECOMPUTED))
        & (F.col("observed_month") >= F.lit(since))
        & is_one_of(groups, *GROUP_KEY)
    )
    wanted = audits.select(*AUDIT_COLUMNS, "generation", "partition_count", is_predictable().alias("is_predictable"))
    # A recomputed audit comes before the observed one of its generation, so that the limit does not part them.
    newest = wanted.orderBy(F.desc("observed_at"), *GROUP_KEY, F.desc("position"), F.desc("basis")).limit(most)
    return observed_audits(newest.toArrow().to_pylist())


def _snapshots_and_topics(warehouse: Warehouse, audits: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the rows of ``subscription_snapshots`` and of ``generation_topics`` of generations, by one query."""
    if not audits:
        return [], []
    months = sorted({f"DATE'{row['observed_at'].astimezone(timezone.utc):%Y-%m}-01'" for row in audits})
    hashes = sorted({quoted(row["topics_hash"]) for row in audits if row["topics_hash"] is not None}) or ["NULL"]
    is_wanted = is_one_of(audits, *GENERATION_KEY) & F.expr(f"observed_month IN ({', '.join(months)})")
    snapshots = warehouse.read(SUBSCRIPTION_SNAPSHOTS.name).where(is_wanted).select(*SNAPSHOT_COLUMNS)
    topics = warehouse.read(GENERATION_TOPICS.name).where(F.expr(f"topics_hash IN ({', '.join(hashes)})")).select(*TOPIC_COLUMNS)
    rows = snapshots.unionByName(topics, allowMissingColumns=True).toArrow().to_pylist()
    return [row for row in rows if row["topics_hash"] is None], [row for row in rows if row["topics_hash"] is not None]
