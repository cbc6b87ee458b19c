"""Deduplication: which records are new, which have landed before, and which of different contents at one place stays.

The result depends on the set of records only, not on their order of arrival. Of the contents at one place the least stays; a record of a
raw log stays only if it is the least at each of its places. Rejected records stay in later comparisons. So it does not matter whether a
record came before or after the one that displaced it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from datetime import date
from functools import partial, reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from jobs.storage.table_changes import Tables
from schemas.keys import GROUP_KEY
from schemas.staging import TARGETS
from schemas.tables import QUARANTINE
from schemas.tables.columns import TOPIC_PARTITIONS
from schemas.vocabulary import CONFLICT, EXPIRED, LOG_SOURCES, GroupType, Outcome, Source

OF_GROUPS = tuple(name for name in TARGETS if name != "look")
"""The targets with rows of groups."""

Concerned = Callable[[DataFrame], DataFrame]
"""Selects rows by cluster_id, place and, if they are of groups, group_id."""
Field = Callable[[str], Column]
"""Returns a column of a table's row by its name: of the row itself, or of a struct column that contains it."""


def is_of_log() -> Column:
    """Return whether a row is a record with a place in the log: of a raw log or a dump."""
    return F.col("source").isin(*map(str, LOG_SOURCES))


def has_row(target: str) -> Column:
    """Return whether a decoded row has a row of a table.

    It asks a column that no such row leaves empty. Spark would read all columns of the table for a question about the row as a whole.
    """
    return F.col(f"{target}.{'topic' if target == 'look' else 'group_id'}").isNotNull()


def target_of_decoded() -> Column:
    """Return the target of a decoded row; that of a row without content is quarantine."""
    return F.coalesce(*[F.when(has_row(name), F.lit(name)) for name in TARGETS], F.lit(QUARANTINE.name))


def is_folded() -> Column:
    """Return whether a snapshot was folded from records; other sources have the snapshots of KIP-848 groups as a whole."""
    return F.col("group_type").eqNullSafe(str(GroupType.CONSUMER)) & is_of_log()


def time_column(target: str) -> str:
    """Return the column with the time of a table's row."""
    return "timestamp" if target == "group_record" else "observed_at"


def position_column(target: str) -> str:
    """Return the column that orders the rows of a group."""
    return "offset" if target == "group_record" else "position"


def place_of(target: str, field: Field) -> Column:
    """Return the place of a row within its cluster, as one text: each place has one content.

    For a raw log this is the place in the log, whatever the record contains; for other sources it is the key of the table's row. Its
    numbers come first, so that no name can imitate another key.
    """
    key = {
        "group_record": (field("offset"), field("group_id")),
        "snapshot": (field("position"), field("group_id")),
        "offset_commit": (field("position"), field("partition"), F.length(field("topic")), field("topic"), field("group_id")),
        "look": (F.unix_millis(field("observed_at")), field("topic")),
    }
    return F.when(is_of_log(), F.col("source_position")).otherwise(F.concat_ws(" ", F.lit(target), *key[target]))


def _identity(target: str, field: Field) -> dict[str, Column]:
    """Return the columns by which rows of a table are compared.

    ``group_place``: in a raw log one offset of a group is one place too, since all records of a group are in one partition. ``content``: a
    hash of the stored columns of a record, without those that depend on its neighbours. It includes the time, unless that is inferred
    (formatter-json).
    """
    names = {"snapshot": ("group_id",), "offset_commit": ("partition", "topic", "group_id")}.get(target, ())
    is_printed = F.col("source") == str(Source.FORMATTER_JSON)
    position_text = F.concat_ws(
        " ",
        field("fingerprint"),
        F.lit(target),
        F.when(is_of_log(), F.col("source_position")),
        F.when(~is_printed, F.unix_micros(field(time_column(target)))),
        *([_whole_content(field)] if target == "snapshot" else []),
        *map(field, names),
    )
    place, content = place_of(target, field), F.sha2(position_text, 256)
    if target == "look":
        of_nobody = {"group_id": F.lit(None).cast("string"), "position": F.lit(None).cast("bigint")}
        return {**of_nobody, "place": place, "group_place": place, "content": content}
    group_id, position = field("group_id"), field(position_column(target))
    group_place = F.when(is_of_log(), _group_place(position, group_id)).otherwise(place)
    return {"group_id": group_id, "position": position, "place": place, "group_place": group_place, "content": content}


def _group_place(position: Column, group_id: Column) -> Column:
    return F.concat_ws(" ", position, group_id)


def _whole_content(field: Field) -> Column:
    """Return a hash of a snapshot from a source with whole snapshots; null for others, whose fingerprint is of their bytes.

    The fingerprint of whole snapshots covers only the members and their partitions, in any order, since it numbers generations.
    """
    names = ("group_type", "protocol_type", "state", "strategy", "leader_member_id", "joined_at", "reconciled_at")
    content = F.struct(*[field(name).alias(name) for name in names], field("members").alias("members"))
    generation, has_subscriptions = (field(name).cast("string") for name in ("generation", "has_subscriptions"))
    whole = F.sha2(F.concat_ws(" ", F.coalesce(generation, F.lit("-")), has_subscriptions, F.to_json(content)), 256)
    return F.when(F.col("source").isin(str(Source.SNAPSHOT), str(Source.DESCRIBE)), whole)


def recorded_members(members: Column) -> dict[str, Column]:
    """Return ``members`` without nulls for lists, and ``has_subscriptions``.

    If a source has no subscription of a member, the member gets all topics that are assigned in its group. If it has no claims, the member
    gets none, like a member whose subscription version is too old for claims.
    """
    is_whole = F.forall(members, lambda member: member["topics"].isNotNull() & member["owned"].isNotNull())
    assigned_topics = F.array_sort(F.array_distinct(F.flatten(members["assigned"])["topic"]))
    none = F.array().cast(TOPIC_PARTITIONS)
    filled = F.transform(
        members,
        lambda member: member.withField("topics", F.coalesce(member["topics"], assigned_topics)).withField(
            "owned", F.coalesce(member["owned"], none)
        ),
    )
    return {
        "members": F.when(is_whole, members).otherwise(filled),
        "has_subscriptions": F.forall(members, lambda member: member["topics"].isNotNull()),
    }


def is_older(than: date | None) -> Column:
    """Return whether a decoded row is from before a day; false for a row without a time, and if no day is given."""
    moment = F.coalesce(*[F.col(f"{name}.{time_column(name)}") for name in TARGETS])
    return F.lit(False) if than is None else F.coalesce(moment < F.lit(than), F.lit(False))


def _landed_rows(tables: Tables, target: str) -> DataFrame:
    """Return the rows of a table without snapshots that were folded from records, which did not land."""
    rows = tables.read(TARGETS[target].name)
    return rows.where(~is_folded()) if target == "snapshot" else rows


def stored_rows(tables: Tables, target: str, source: Source, concerned: Concerned) -> DataFrame:
    """Return the rows of a table that landed from a source, with the columns by which they are compared.

    Args:
        concerned: selects rows by their places; the columns are computed for these only.
    """
    rows = _landed_rows(tables, target).where(F.col("source") == str(source))
    rows = concerned(rows.withColumn("place", place_of(target, F.col)))
    recorded = (
        {"generation": F.when(~F.coalesce("is_generation_inferred", F.lit(False)), F.col("generation"))} if target == "snapshot" else {}
    )
    # The source is a literal, so that Spark does not read columns by which only other sources are compared.
    rows = rows.withColumn("source", F.lit(str(source)))
    return rows.withColumns({**_identity(target, lambda name: recorded.get(name, F.col(name))), "target": F.lit(target)})


def known_places(tables: Tables, sources: Set[Source], concerned: Concerned) -> DataFrame | None:
    """Return the compared columns of rows that landed from some sources, and of rejected rows; None in an empty warehouse.

    ``is_known`` is true for landed rows, ``is_lost`` for rejected ones.

    Args:
        concerned: selects rows by their places.
    """
    columns = ("cluster_id", "source", "target", "group_id", "position", "place", "group_place", "content")
    frames = [
        stored_rows(tables, target, source, concerned).select(*columns, F.lit(True).alias("is_known"), F.lit(False).alias("is_lost"))
        for target, spec in TARGETS.items()
        for source in sorted(sources)
        if (target == "look") == (source is Source.CLUSTER_METADATA) and not tables.is_empty(spec.name)
    ]
    if not sources.isdisjoint(LOG_SOURCES) and not tables.is_empty(QUARANTINE.name):
        frames.append(concerned(_lost_places(tables)))
    return reduce(partial(DataFrame.unionByName, allowMissingColumns=True), frames) if frames else None


def _lost_places(tables: Tables) -> DataFrame:
    """Return the compared columns of rejected records of a raw log; rows of older releases without a group are left out.

    Only these records have two places. Only they can lose at one place and still win against a later record at the other.
    """
    place = F.col("source_position")
    position = F.substring_index(place, "@", -1).cast("bigint")
    compared = {
        "position": position,
        "place": place,
        "group_place": _group_place(position, F.col("group_id")),
        "content": F.col("payload_hash"),
        "is_known": F.lit(False),
        "is_lost": F.lit(True),
    }
    lost = tables.read(QUARANTINE.name).where((F.col("reason") == CONFLICT) & is_of_log() & F.col("group_id").isNotNull())
    return lost.select("cluster_id", "source", "group_id", *[column.alias(name) for name, column in compared.items()])


def quarantined_keys(tables: Tables) -> DataFrame | None:
    """Return the keys of ``quarantine``; None when it is empty."""
    return None if tables.is_empty(QUARANTINE.name) else tables.read(QUARANTINE.name).select(*QUARANTINE.key)


def conflict_columns() -> dict[str, Column]:
    """Return the columns of ``quarantine`` for a content that was rejected in favour of another.

    They are the same whichever came first. ``payload`` is null, since a displaced stored row no longer has one. ``source_position`` is the
    place, by which a reader finds the content that stayed; ``payload_hash`` is the compared content.
    """
    other = "another record at the same position was kept; the fingerprint of this one is "
    return {
        "reason": F.lit(CONFLICT),
        "detail": F.concat(F.lit(other), F.col("fingerprint")),
        "payload_hash": F.col("content"),
        "payload": F.lit(None).cast("binary"),
        "source_position": F.col("place"),
    }


def _of_decoded(row: Column, columns: Mapping[str, Column]) -> Field:
    return lambda name: columns[name] if name in columns else row[name]


def with_identity(decoded: DataFrame) -> DataFrame:
    """Return the decoded rows with the columns by which they are compared; a row without content gets a place of its own."""
    of_target: dict[str, dict[str, Column]] = {}
    for name in TARGETS:
        row = F.col(name)
        columns = recorded_members(row["members"]) if name == "snapshot" else {}
        of_target[name] = _identity(name, _of_decoded(row, columns))
    first = {
        column: F.coalesce(*[F.when(has_row(name), identity[column]) for name, identity in of_target.items()])
        for column in ("group_id", "position", "place", "group_place", "content")
    }
    nowhere = F.concat_ws(" ", F.lit(QUARANTINE.name), "source_position")
    return decoded.withColumns(
        {
            **first,
            "target": target_of_decoded(),
            "fingerprint": F.coalesce(*[F.col(f"{name}.fingerprint") for name in TARGETS]),
            "place": F.coalesce(first["place"], nowhere),
            "group_place": F.coalesce(first["group_place"], nowhere),
            "content": F.coalesce(first["content"], F.concat_ws(" ", "reason", "payload_hash")),
            "is_known": F.lit(False),
            "is_lost": F.lit(False),
        }
    )


def rank_contents(rows: DataFrame, retained_from: date | None) -> DataFrame:
    """Return new and known rows compared with the others at their places, without those that were rejected before.

    ``is_expired``: the row is not stored and older than retention keeps; it would come back with every capture that still has it.
    ``is_conflict``: a lesser content is or was at the place. ``is_contested``: the row is the least of several contents. ``repeat``: 1 for
    the first of equal contents, which is the known one if there is one.
    """
    # One shuffle for all windows: a raw log's places and a group's places at one offset come together.
    bucket = F.when(is_of_log(), F.substring_index("place", "@", -1)).otherwise(F.col("place"))
    together = rows.withColumn("bucket", bucket).repartition("cluster_id", "bucket")
    at_place, at_group_place = (Window.partitionBy("cluster_id", "bucket", name) for name in ("place", "group_place"))
    equal = Window.partitionBy("cluster_id", "bucket", "place", "content").orderBy("is_lost", F.desc("is_known"), "source_position")
    has_place = (F.col("outcome") == str(Outcome.LANDED)) | has_row("group_record")
    is_expired = has_place & ~F.max("is_known").over(at_place) & is_older(retained_from)
    repeats = together.withColumns({"repeat": F.row_number().over(equal), "is_expired": F.coalesce(is_expired, F.lit(False))})
    competes = F.col("is_known") | F.coalesce(has_place & ~F.col("is_expired"), F.lit(False))
    rivals = repeats.withColumn("competing", F.when(competes, F.col("content")))
    compared = F.when(F.col("is_lost"), F.col("content")).otherwise(F.col("competing"))
    windows = (at_place, at_group_place)
    least = F.least(*[F.min(compared).over(window) for window in windows])
    most = F.greatest(*[F.max("competing").over(window) for window in windows])  # records rejected before are reported already
    marked = rivals.withColumns({"least": least, "most": most}).where(~F.col("is_lost"))
    is_conflict, is_contested = F.col("competing") > F.col("least"), F.col("competing") < F.col("most")
    return marked.withColumns(
        {"is_conflict": F.coalesce(is_conflict, F.lit(False)), "is_contested": F.coalesce(is_contested & ~is_conflict, F.lit(False))}
    ).drop("bucket", "competing", "least", "most", "is_lost")


def resolve_duplicates(
    decoded: DataFrame, known: DataFrame | None, quarantined: DataFrame | None, retained_from: date | None = None
) -> DataFrame:
    """Return the decoded rows with their final ``outcome``, and ``is_new`` for rows that have to be written.

    A record is a duplicate if the same content is already in the warehouse or earlier in the input. Of different contents at one place the
    least is kept and the others go to quarantine, so that it does not matter which came first. Quarantine takes each content at each
    place once. Skipped records that are stored as ``group_record`` have their places like others.

    Known rows come back if others were found at their places, without an outcome: ``is_displaced`` if they have to be removed,
    ``is_contested`` if they stay; ``place`` and ``content`` are theirs.

    Args:
        known: as ``known_places`` returns it; None when the tables are empty.
        quarantined: the keys of ``quarantine``; None when it is empty.
        retained_from: first month that retention keeps; None before any.
    """
    rows = with_identity(decoded)
    if known is not None:
        rows = rows.unionByName(known, allowMissingColumns=True)
    rows = rank_contents(rows, retained_from)
    is_known, is_conflict, is_expired = F.col("is_known"), F.col("is_conflict"), F.col("is_expired")
    rows = rows.where(~is_known | is_conflict | F.col("is_contested"))
    is_landed = F.col("outcome") == str(Outcome.LANDED)
    is_noted = ~is_landed & has_row("group_record") & ~is_conflict & ~is_expired & (F.col("repeat") == 1)
    as_conflict = {name: F.when(is_conflict, column).otherwise(F.col(name)) for name, column in conflict_columns().items()}
    resolved = rows.withColumns(
        {
            **as_conflict,
            "is_noted": is_noted,
            "is_displaced": is_known & is_conflict,
            "outcome": F.when(is_conflict & ~is_known, str(Outcome.QUARANTINED))
            .when(is_landed & is_expired, str(Outcome.SKIPPED))
            .when(is_landed & (F.col("repeat") > 1), str(Outcome.DUPLICATE))
            .otherwise(F.col("outcome")),
            "kind": F.when(is_landed & is_expired, EXPIRED).otherwise(F.col("kind")),
            **{name: F.when(is_known, F.col(name)) for name in ("place", "content")},
        }
    )
    if quarantined is None:
        resolved = resolved.withColumn("is_kept", F.lit(None).cast("boolean"))
    else:
        resolved = resolved.join(quarantined.withColumn("is_kept", F.lit(True)), list(QUARANTINE.key), "left")
    is_first = (F.col("repeat") == 1) & F.col("is_kept").isNull()
    is_new = (
        (F.col("outcome") == str(Outcome.LANDED))
        | ((F.col("outcome") == str(Outcome.QUARANTINED)) & is_first)
        | ((F.col("outcome") == str(Outcome.SKIPPED)) & F.col("is_noted"))
    )
    unused = ("repeat", "is_kept", "is_noted", "is_known", "is_conflict", "is_expired", "group_place")
    return resolved.withColumn("is_new", F.coalesce(is_new, F.lit(False))).drop(*unused)


def conflict_positions(tables: Tables, snapshots: DataFrame, groups: DataFrame | None = None) -> DataFrame | None:
    """Return cluster_id, group_id, position of records of groups that have conflicts; None without conflicts.

    These are the records that stayed, and those of a raw log that are in quarantine.

    Args:
        snapshots: new ones, which are not stored yet.
        groups: the groups to return; None for all.
    """
    if tables.is_empty(QUARANTINE.name):
        return None
    lost = tables.read(QUARANTINE.name).where(F.col("reason") == CONFLICT)
    conflicts = lost.select("cluster_id", "source", F.col("source_position").alias("place")).distinct()
    if conflicts.isEmpty():
        return None
    frames = [_places(snapshots, "snapshot"), *[_places(_landed_rows(tables, name), name) for name in OF_GROUPS]]
    kept = reduce(DataFrame.unionByName, frames).join(F.broadcast(conflicts), conflicts.columns, "left_semi")
    found = kept.select(*GROUP_KEY, "position").unionByName(_lost_places(tables).select(*GROUP_KEY, "position"))
    return found if groups is None else found.join(groups, list(GROUP_KEY), "left_semi")


def conflict_places(tables: Tables, groups: DataFrame) -> DataFrame:
    """Return cluster_id, source, source_position in ``quarantine`` of conflicts with stored records of some groups."""
    frames = [_places(_landed_rows(tables, name).join(groups, list(GROUP_KEY), "left_semi"), name) for name in OF_GROUPS]
    places = reduce(DataFrame.unionByName, frames)
    return places.select("cluster_id", "source", F.col("place").alias("source_position")).distinct()


def _places(rows: DataFrame, target: str) -> DataFrame:
    position = F.col(position_column(target)).alias("position")
    return rows.select(*GROUP_KEY, position, "source", place_of(target, F.col).alias("place"))
