"""Which records of an input have to be compared: with each other, and with what has landed before.

A record of a raw log needs no comparison if three things are true: no other record of the input has its offset, no earlier run has read
the log that far, and its group has no records in another partition. Such a record is not hashed, and no stored row is read for it.
``deduplication`` compares all other records, each only with the stored rows at its own place.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from datetime import date
from functools import partial, reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jobs.land.deduplication import (
    OF_GROUPS,
    has_row,
    is_of_log,
    is_older,
    known_places,
    quarantined_keys,
    resolve_duplicates,
    target_of_decoded,
    with_identity,
)
from jobs.storage.last_commits import logs_of_commits
from jobs.storage.table_changes import Tables
from schemas.keys import GROUP_KEY
from schemas.staging import TARGETS
from schemas.tables import OFFSET_SNAPSHOTS, QUARANTINE
from schemas.vocabulary import EXPIRED, LOG_SOURCES, Outcome, Source

MOST_OFFSET = 2**63 - 1
"""A log that was read up to here has no next offset that fits into 64 bits: all its records are compared."""
MOST_SET_APART = 1_000
"""Up to so many shared places, or groups in several partitions, are listed one by one; if there are more, every raw record is compared."""


def log_partition() -> Column:
    """Return the partition of a raw record, from its ``source_position``; null for a line that is not a record."""
    return F.substring_index("source_position", "@", 1).try_cast("int")


def log_offset() -> Column:
    """Return the offset of a raw record, from its ``source_position``; null for a line that is not a record."""
    return F.substring_index("source_position", "@", -1).try_cast("bigint")


def log_key(cluster_id: str, partition: int) -> str:
    """Return the key in ``runs.landed_until`` of a partition of a cluster's ``__consumer_offsets``."""
    return f"{cluster_id} {partition}"


@dataclass(frozen=True)
class LogSurvey:
    """Facts about the raw records of an input.

    Attributes:
        read_until: partition, as ``log_key`` names it -> highest offset of the input + 1.
        has_earlier: some records are at offsets that an earlier run has read past.
        shared_places: hashes of (cluster_id, source_position) with several records of the input; None for more than ``MOST_SET_APART``.
        moved_groups: hashes of (cluster_id, group_id) with records in several partitions; None for more than ``MOST_SET_APART``.
        quarantined_count: records that could not be read.
        uncertain_count: commits that may have been aborted, as far as the reader knows.
    """

    read_until: dict[str, int]
    has_earlier: bool
    shared_places: tuple[int, ...] | None
    moved_groups: tuple[int, ...] | None
    quarantined_count: int
    uncertain_count: int


def survey_log(tables: Tables, decoded: DataFrame, landed_until: Mapping[str, int]) -> LogSurvey:
    """Return facts about the raw records of an input; takes one pass if no places are shared.

    Args:
        decoded: staged rows.
        landed_until: see ``runs.landed_until``.
    """
    raw = decoded.where(is_of_log())
    facts = {
        "partition": log_partition(),
        "offset": log_offset(),
        "is_quarantined": F.col("outcome") == str(Outcome.QUARANTINED),
        "is_uncertain": has_row("offset_commit") & F.col("offset_commit.is_uncertain").isNull(),
    }
    of_place = raw.select("cluster_id", "source_position", *[column.alias(name) for name, column in facts.items()])
    # A block of 64 offsets has a bit for each, so that few rows are shuffled. A line without an offset has a block of its own.
    block = F.coalesce(F.shiftright("offset", 6), _place_hash())
    bit = F.call_function("shiftleft", F.lit(1).cast("bigint"), F.coalesce(F.col("offset").bitwiseAND(63).cast("int"), F.lit(0)))
    by_block = of_place.groupBy("cluster_id", "partition", block.alias("block")).agg(
        F.count(F.lit(1)).alias("count"),
        F.bit_or(bit).alias("bits"),
        F.max("offset").alias("highest"),
        F.min("offset").alias("lowest"),
        *[F.count_if(name).alias(name) for name in ("is_quarantined", "is_uncertain")],
    )
    may_repeat = F.col("count") > F.bit_count("bits")  # or the block of a line without an offset is also one of offsets
    partitions = (
        by_block.groupBy("cluster_id", "partition")
        .agg(
            F.max("highest").alias("highest"),
            F.min("lowest").alias("lowest"),
            F.bool_or(may_repeat).alias("may_repeat"),
            *[F.sum(name).alias(name) for name in ("is_quarantined", "is_uncertain")],
        )
        .collect()
    )
    read = {log_key(row["cluster_id"], row["partition"]): row for row in partitions if row["highest"] is not None}
    shared = _shared_places(raw) if any(row["may_repeat"] for row in partitions) else []
    moved = _moved_groups(tables, raw) if partitions else []
    return LogSurvey(
        {key: min(row["highest"] + 1, MOST_OFFSET) for key, row in read.items()},
        any(row["lowest"] < _compared_below(landed_until.get(key)) for key, row in read.items()),
        None if len(shared) > MOST_SET_APART else tuple(shared),
        None if len(moved) > MOST_SET_APART else tuple(moved),
        sum(row["is_quarantined"] for row in partitions),
        sum(row["is_uncertain"] for row in partitions),
    )


def _place_hash() -> Column:
    return F.xxhash64("cluster_id", "source_position")


def _shared_places(raw: DataFrame) -> list[int]:
    """Return hashes of places with several records; at most ``MOST_SET_APART`` + 1."""
    shared = raw.groupBy(_place_hash().alias("place_hash")).count().where(F.col("count") > 1)
    return [row["place_hash"] for row in shared.limit(MOST_SET_APART + 1).collect()]


def _group_id() -> Column:
    """Return the group of a decoded row; null for one without."""
    return F.coalesce(*[F.col(name)["group_id"] for name in OF_GROUPS])


def _group_hash(group_id: Column) -> Column:
    return F.xxhash64("cluster_id", group_id)


def _compared_below(landed_until: int | None) -> float:
    """Return the offset from which no record of a partition has been read."""
    if landed_until is None:
        return float("-inf")
    return float("inf") if landed_until == MOST_OFFSET else landed_until


def _moved_groups(tables: Tables, raw: DataFrame) -> list[int]:
    """Return hashes of groups with records in several partitions, including landed ones; at most ``MOST_SET_APART`` + 1."""
    of_groups = raw.select("cluster_id", _group_id().alias("group_id"), log_partition().alias("partition"))
    groups = _partitions_of(of_groups.where(F.col("group_id").isNotNull()), "")
    is_moved = F.col("lowest") < F.col("highest")
    stored = _stored_partitions(tables)
    if stored is not None:
        groups = groups.join(_partitions_of(stored, "stored_"), list(GROUP_KEY), "left")
        is_moved |= (F.col("stored_lowest") != F.col("lowest")) | (F.col("stored_highest") != F.col("highest"))
    moved = groups.where(F.coalesce(is_moved, F.lit(False))).select(_group_hash(F.col("group_id")).alias("hash"))
    return [row["hash"] for row in moved.limit(MOST_SET_APART + 1).collect()]


def _partitions_of(rows: DataFrame, prefix: str) -> DataFrame:
    return rows.groupBy(*GROUP_KEY).agg(F.min("partition").alias(f"{prefix}lowest"), F.max("partition").alias(f"{prefix}highest"))


def _stored_partitions(tables: Tables) -> DataFrame | None:
    """Return cluster_id, group_id, partition of raw records that have landed or were rejected as conflicts; None without any."""
    names = [name for name in (TARGETS[target].name for target in OF_GROUPS) if not tables.is_empty(name)]
    stored = [logs_of_commits(tables) if name == OFFSET_SNAPSHOTS.name else tables.read(name) for name in names]
    frames = [rows.where(is_of_log()).select(*GROUP_KEY, F.col("offsets_partition").alias("partition")) for rows in stored]
    if not tables.is_empty(QUARANTINE.name):
        lost = tables.read(QUARANTINE.name).where(is_of_log() & F.col("group_id").isNotNull())
        frames.append(lost.select(*GROUP_KEY, log_partition().alias("partition")))
    return reduce(DataFrame.unionByName, frames) if frames else None


def landed_before(tables: Tables) -> dict[str, int]:
    """Return a lower bound of ``runs.landed_until`` from the tables, for a warehouse whose runs have not stored it yet."""
    stored = _stored_places(tables)
    if stored is None:
        return {}
    rows = stored.groupBy("cluster_id", "partition").agg(F.max("offset").alias("highest")).where("highest IS NOT NULL").collect()
    return {log_key(row["cluster_id"], row["partition"]): min(row["highest"] + 1, MOST_OFFSET) for row in rows}


def _stored_places(tables: Tables) -> DataFrame | None:
    names = [*(TARGETS[name].name for name in OF_GROUPS), QUARANTINE.name]
    places = ("cluster_id", log_partition().alias("partition"), log_offset().alias("offset"))
    frames = [tables.read(name).where(is_of_log()).select(*places) for name in names if not tables.is_empty(name)]
    return reduce(DataFrame.unionByName, frames) if frames else None


def resolve(
    tables: Tables,
    decoded: DataFrame,
    sources: Set[Source],
    survey: LogSurvey,
    landed_until: Mapping[str, int],
    retained_from: date | None = None,
) -> DataFrame:
    """Return the result of ``deduplication.resolve_duplicates`` for an input, but compare only the rows that need it.

    Args:
        decoded: staged rows.
        sources: of the input.
        survey: of its raw records.
        landed_until: see ``runs.landed_until``.
        retained_from: first month that retention keeps; None before any.
    """
    quarantined = quarantined_keys(tables)
    is_log_alone = not survey.has_earlier and survey.shared_places == survey.moved_groups == ()
    if is_log_alone and sources <= set(LOG_SOURCES):
        return _resolve_alone(decoded, survey, quarantined, retained_from)
    is_compared = _is_compared(survey, landed_until)
    compared = decoded.where(is_compared)
    concerned = partial(_concerned, with_identity(compared).select("cluster_id", "place"), survey)
    known = known_places(tables, compared_sources(sources, is_log_alone=is_log_alone), concerned)
    resolved = tables.materialize("land", resolve_duplicates(compared, known, quarantined, retained_from))
    if sources.isdisjoint(LOG_SOURCES):
        return resolved
    alone = _resolve_alone(decoded.where(~is_compared), survey, quarantined, retained_from)
    return resolved.unionByName(alone, allowMissingColumns=True)


def compared_sources(sources: Set[Source], *, is_log_alone: bool) -> Set[Source]:
    """Return the sources with whose stored rows an input is compared.

    A place of a log is one place, whether a dump or raw records have it.

    Args:
        is_log_alone: no record of a log is compared.
    """
    if sources.isdisjoint(LOG_SOURCES):
        return sources
    return sources - set(LOG_SOURCES) if is_log_alone else sources | set(LOG_SOURCES)


def _is_compared(survey: LogSurvey, landed_until: Mapping[str, int]) -> Column:
    """Return whether a decoded row has to be compared; never null."""
    if survey.shared_places is None or survey.moved_groups is None:
        return F.lit(True)
    is_compared = ~is_of_log()
    if survey.has_earlier:
        until = [F.lit(value) for item in landed_until.items() for value in item]
        mark = F.create_map(*until)[F.concat_ws(" ", "cluster_id", log_partition())]
        is_compared |= F.coalesce((log_offset() < mark) | (mark == MOST_OFFSET), F.lit(False))
    if survey.shared_places:
        is_compared |= _place_hash().isin(*survey.shared_places)
    if survey.moved_groups:
        is_compared |= _group_hash(_group_id()).isin(*survey.moved_groups)
    return is_compared


def _concerned(places: DataFrame, survey: LogSurvey, rows: DataFrame) -> DataFrame:
    """Return the rows at some places, and those of groups with records in several partitions.

    Args:
        places: (cluster_id, place).
        rows: at least cluster_id, place; group_id where they are of groups.
    """
    at_places = rows.join(places, ["cluster_id", "place"], "left_semi")
    if survey.moved_groups == () or "group_id" not in rows.columns:
        return at_places
    is_moved = F.lit(True) if survey.moved_groups is None else _group_hash(F.col("group_id")).isin(*survey.moved_groups)
    return at_places.unionByName(rows.where(is_moved).join(places, ["cluster_id", "place"], "left_anti"))


def _resolve_alone(decoded: DataFrame, survey: LogSurvey, quarantined: DataFrame | None, retained_from: date | None) -> DataFrame:
    """Return raw records without others at their places as ``deduplication.resolve_duplicates`` would."""
    is_landed = F.col("outcome") == str(Outcome.LANDED)
    is_noted = ~is_landed & has_row("group_record")
    is_expired = F.coalesce((is_landed | is_noted) & is_older(retained_from), F.lit(False))
    is_quarantined = F.col("outcome") == str(Outcome.QUARANTINED)
    resolved = decoded.withColumns(
        {
            "outcome": F.when(is_landed & is_expired, str(Outcome.SKIPPED)).otherwise(F.col("outcome")),
            "kind": F.when(is_landed & is_expired, EXPIRED).otherwise(F.col("kind")),
            "target": target_of_decoded(),
            "is_new": F.coalesce(((is_landed | is_noted) & ~is_expired) | is_quarantined, F.lit(False)),
            "group_id": _group_id(),
            **dict.fromkeys(("is_displaced", "is_contested"), F.lit(False)),
        }
    )
    if quarantined is None or not survey.quarantined_count:
        return resolved
    kept = quarantined.withColumn("is_kept", F.lit(True))
    bad = resolved.where(is_quarantined).join(kept, list(QUARANTINE.key), "left").withColumn("is_new", F.col("is_kept").isNull())
    return resolved.where(~is_quarantined).unionByName(bad.drop("is_kept"))
