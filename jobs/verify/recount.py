"""The figures of the audits, counted again from stored rows with joins and aggregates instead of the assignors' own code."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from schemas.keys import GENERATION_KEY, GROUP_KEY, PARTITION_KEY
from schemas.vocabulary import WITH_RESULT, Basis, Conformance

SOLUTION = (*GENERATION_KEY, "basis", "strategy")
COOPERATIVE = ("cooperative-sticky", "stream")
EVEN_WITHIN_EACH_TOPIC = ("range", "server-range")
EVEN_WHEN_SUBSCRIPTIONS_ARE_EQUAL = ("roundrobin", "uniform")
NOTHING_LEFT_TO_EVEN_OUT = ("sticky", "cooperative-sticky")
KINDS = ("revoked", "reassigned", "gained", "lost", "orphaned")
CAUSES = ("withheld", "handed_over", "returned")


def offenders(rows: DataFrame, key: tuple[str, ...], found: Column, expected: Column) -> DataFrame:
    """Return rows as the three texts that every check collects."""
    key_text = F.concat_ws(" ", *[F.concat(F.lit(f"{name}="), F.col(name).cast("string")) for name in key])
    return rows.select(key_text.alias("row_key"), found.alias("found"), expected.alias("expected"))


def _differing(rows: DataFrame, found: Mapping[str, Column], expected: Mapping[str, Column], key: tuple[str, ...] = SOLUTION) -> DataFrame:
    """Return the rows with a figure that is not the expected one, with all found and expected figures."""

    def text(figures: Mapping[str, Column]) -> Column:
        texts = {name: F.coalesce(value.cast("string"), F.lit("null")) for name, value in figures.items()}
        return F.concat_ws(" ", *[F.concat(F.lit(f"{name}="), value) for name, value in texts.items()])

    compared = offenders(rows, key, text(found), text(expected))
    return compared.where(F.col("found") != F.col("expected"))


def has_assignment() -> Column:
    """Return whether a solution, or its audit, has members' partitions."""
    return F.col("status").isin([str(status) for status in WITH_RESULT])


def problems(snapshots: DataFrame, observed: DataFrame, generation_topics: DataFrame) -> DataFrame:
    """Return the members and the existing topics of each snapshot.

    Rows: (cluster_id, group_id, position). ``members`` as stored; ``topics`` is the array of (topic, partition_count) of all topics
    that exist, subscribed or not.

    Args:
        observed: the observed solutions, which name the topics.
    """
    exists = F.filter("topics", lambda topic: topic["partition_count"] > 0)
    counts = F.transform(exists, lambda topic: F.struct(topic["topic"].alias("topic"), topic["partition_count"].alias("topic_size")))
    topics = generation_topics.select("cluster_id", "topics_hash", counts.alias("topics"))
    named = observed.select(*GENERATION_KEY, "topics_hash").join(topics, ["cluster_id", "topics_hash"])
    return snapshots.select(*GENERATION_KEY, "members").join(named, list(GENERATION_KEY)).drop("topics_hash")


def _existing(problems: DataFrame) -> DataFrame:
    """Return the topics of each snapshot that exist, with ``is_subscribed``."""
    subscribed = F.array_contains(F.flatten(F.col("members")["topics"]), F.col("topic"))
    sized = problems.select(*GENERATION_KEY, "members", F.inline("topics"))
    return sized.select(*GENERATION_KEY, "topic", "topic_size", subscribed.alias("is_subscribed"))


def _held(assignments: DataFrame) -> DataFrame:
    """Return one row for each partition in a member's list."""
    lists = assignments.select(*SOLUTION, "member_id", F.inline("partitions"))
    return lists.select(*SOLUTION, "member_id", "topic", F.explode("partitions").alias("partition"))


def _owned(assignments: DataFrame) -> DataFrame:
    """Return one row for each partition with an owner, with how often it was given, and whether to several members."""
    is_shared = F.min("member_id") != F.max("member_id")
    return _held(assignments).groupBy(*SOLUTION, "topic", "partition").agg(F.count("*").alias("copies"), is_shared.alias("is_shared"))


def _is_within() -> Column:
    return F.col("topic_size").isNotNull() & F.col("partition").between(0, F.col("topic_size") - 1)


def wrong_partition_counts(assignments: DataFrame) -> DataFrame:
    """Return the members whose ``partition_count`` differs from the length of their lists."""
    counted = F.aggregate("partitions", F.lit(0), lambda total, entry: total + F.size(entry["partitions"]))
    rows = assignments.withColumn("counted", counted).where(~F.col("partition_count").eqNullSafe(F.col("counted")))
    return offenders(rows, (*SOLUTION, "member_id"), F.col("partition_count").cast("string"), F.format_string("%d listed", "counted"))


def unlike_the_record(observed: DataFrame, snapshots: DataFrame, assignments: DataFrame) -> DataFrame:
    """Return the members whose observed partitions are not those of the snapshot, in any order.

    Args:
        observed: the observed solutions to compare.
    """

    def pairs(lists: Column) -> Column:
        def of_topic(entry: Column) -> Column:
            return F.transform(entry["partitions"], lambda number: F.struct(entry["topic"].alias("topic"), number.alias("partition")))

        return F.coalesce(F.to_json(F.sort_array(F.flatten(F.transform(lists, of_topic)))), F.lit("[]"))

    members = snapshots.select(*GENERATION_KEY, F.explode("members").alias("member"))
    recorded = members.select(
        *GENERATION_KEY, F.col("member.member_id").alias("member_id"), pairs(F.col("member.assigned")).alias("expected")
    )
    held = assignments.join(observed.where(has_assignment()).select(*SOLUTION), list(SOLUTION), "left_semi")
    rows = held.withColumn("found", pairs(F.col("partitions"))).join(recorded, [*GENERATION_KEY, "member_id"])
    differing = rows.where(~F.col("found").eqNullSafe(F.col("expected")))
    count = F.format_string("%d partitions", "partition_count")
    return offenders(differing, (*SOLUTION, "member_id"), count, F.lit("those that the snapshot records"))


def is_fact_of_its_own() -> Column:
    """Return whether a solution, or its audit, always has rows in ``assignments`` and ``movements``.

    Others did not happen, or are equal to the observed one.
    """
    is_recomputed = F.col("basis") == str(Basis.RECOMPUTED)
    return (F.col("basis") == str(Basis.OBSERVED)) | (is_recomputed & ~F.col("conformance").eqNullSafe(str(Conformance.EXACT)))


def missing_holdings(solutions: DataFrame, bound: date | None) -> DataFrame:
    """Return the solutions with a result but without holdings, unless maintenance has removed these.

    Args:
        bound: first month of which maintenance has kept all; None before any maintenance.
    """
    is_old = F.lit(False) if bound is None else (F.col("basis") == str(Basis.COUNTERFACTUAL)) & (F.col("observed_month") < F.lit(bound))
    rows = solutions.where(has_assignment() & F.col("holdings").isNull() & ~is_old)
    return offenders(rows, SOLUTION, F.lit("no holdings"), F.lit("the partitions of the members"))


def torn_holdings(packed: DataFrame, unpacked: DataFrame, snapshots: DataFrame, topics: DataFrame) -> DataFrame:
    """Return the solutions whose holdings cannot be read.

    Args:
        packed: some solutions with holdings.
        unpacked: the readable holdings of these, as rows of ``assignments``.
        topics: all rows of ``generation_topics``; another check reports a solution whose topics are missing.
    """
    due = packed.join(topics.select("cluster_id", "topics_hash"), ["cluster_id", "topics_hash"], "left_semi")
    due = due.join(snapshots.where(F.size("members") > 0).select(*GENERATION_KEY), list(GENERATION_KEY), "left_semi")
    torn = due.join(unpacked.select(*SOLUTION).distinct(), list(SOLUTION), "left_anti")
    return offenders(
        torn, SOLUTION, F.format_string("%d bytes that cannot be read", F.length("holdings")), F.lit("the partitions of the members")
    )


def unlike_the_holdings(assignments: DataFrame, unpacked: DataFrame) -> DataFrame:
    """Return the members whose stored rows have other partitions than the holdings of their solution.

    Args:
        unpacked: the holdings of some solutions as rows of ``assignments``.
    """
    key = [*SOLUTION, "member_id"]
    held_texts = unpacked.select(*key, F.to_json("partitions").alias("held"))
    rows = assignments.select(*key, F.to_json("partitions").alias("listed"), "partition_count").join(held_texts, key)
    count = F.format_string("%d partitions", "partition_count")
    return offenders(rows.where(F.col("listed") != F.col("held")), tuple(key), count, F.lit("those in the holdings"))


def wrong_member_counts(solutions: DataFrame, snapshots: DataFrame, assignments: DataFrame) -> DataFrame:
    """Return the solutions without one row of ``assignments`` for each member; without a result there must be no row.

    A solution that need not have rows may have none.
    """
    members = snapshots.select(*GENERATION_KEY, F.size("members").alias("member_count"))
    rows = assignments.groupBy(*SOLUTION).agg(F.count("*").alias("row_count"))
    joined = solutions.join(members, list(GENERATION_KEY)).join(rows, list(SOLUTION), "left")
    joined = joined.where(is_fact_of_its_own() | F.col("row_count").isNotNull())
    expected = F.when(has_assignment(), F.col("member_count")).otherwise(0)
    return _differing(joined, {"members": F.coalesce("row_count", F.lit(0))}, {"members": expected})


def wrong_balance(audits: DataFrame, assignments: DataFrame, problems: DataFrame) -> DataFrame:
    """Return the audits whose numbers of owned, multiply owned or unowned partitions differ from the assignments."""
    existing = _existing(problems).where("is_subscribed")
    owned = _owned(assignments).join(existing, [*GENERATION_KEY, "topic"], "left")
    counted = owned.groupBy(*SOLUTION).agg(
        F.count("*").alias("owned_count"),
        F.count_if("is_shared").alias("shared_count"),
        F.count_if(_is_within()).alias("given_count"),
    )
    totals = existing.groupBy(*GENERATION_KEY).agg(F.sum("topic_size").alias("total"))
    rows = audits.where(has_assignment()).join(counted, list(SOLUTION), "left").join(totals, list(GENERATION_KEY), "left")
    owned_count, shared_count, given_count, total = (
        F.coalesce(name, F.lit(0)) for name in ("owned_count", "shared_count", "given_count", "total")
    )
    figures = ("partition_count", "multiply_owned_count", "unassigned_count")
    expected = dict(zip(figures, (owned_count, shared_count, total - given_count), strict=True))
    return _differing(rows, {name: F.col(name) for name in figures}, expected)


def wrong_violations(audits: DataFrame, assignments: DataFrame, problems: DataFrame) -> DataFrame:
    """Return the audits whose ``violations`` differ from those of the assignments."""
    entries = _violations(audits.where(has_assignment()), assignments, problems)
    counted = entries.groupBy(*SOLUTION).agg(F.sort_array(F.collect_set("violation")).alias("counted"))
    rows = audits.where(has_assignment()).join(counted, list(SOLUTION), "left")
    expected = F.coalesce("counted", F.array().cast("array<string>"))
    return _differing(rows, {"violations": F.sort_array("violations")}, {"violations": expected})


def _violations(audits: DataFrame, assignments: DataFrame, problems: DataFrame) -> DataFrame:
    """Return one row for each thing that is wrong with an assignment, as ``assignors.generation.violations.violations`` names it."""
    where = F.concat("topic", F.lit("-"), "partition")
    members = problems.select(*GENERATION_KEY, F.explode("members").alias("member"))
    known = members.select(*GENERATION_KEY, F.col("member.member_id").alias("member_id"), F.col("member.topics").alias("subscribed"))
    existing = _existing(problems)
    owned = _owned(assignments)
    held = _held(assignments).join(known, [*GENERATION_KEY, "member_id"])
    partitions = existing.where("is_subscribed").select(
        *GENERATION_KEY, "topic", F.explode(F.expr("sequence(0, topic_size - 1)")).alias("partition")
    )
    claims = members.select(*GENERATION_KEY, F.inline("member.owned")).select(
        *GENERATION_KEY, "topic", F.explode("partitions").alias("partition")
    )
    # A partition that a cooperative assignor withholds is claimed by a member; recorded claims do not hold in a counterfactual history.
    claimed = claims.distinct().withColumn("is_claimed", F.lit(True))
    is_withheld = F.col("is_claimed") & F.col("strategy").isin(*COOPERATIVE) & (F.col("basis") != str(Basis.COUNTERFACTUAL))
    vacant = audits.select(*SOLUTION).join(partitions, list(GENERATION_KEY)).join(owned, [*SOLUTION, "topic", "partition"], "left_anti")
    vacant = vacant.join(claimed, [*GENERATION_KEY, "topic", "partition"], "left").withColumn(
        "is_withheld", F.coalesce(is_withheld, F.lit(False))
    )
    withheld = vacant.where("is_withheld").groupBy(*SOLUTION).agg(F.count("*").alias("withheld_count"))
    parts = (
        ("unknown_member ", assignments.join(known, [*GENERATION_KEY, "member_id"], "left_anti"), F.col("member_id")),
        ("not_existing ", owned.join(existing, [*GENERATION_KEY, "topic"], "left").where(~_is_within()), where),
        ("not_subscribed ", held.where(~F.array_contains("subscribed", F.col("topic"))), F.concat(where, F.lit(" "), "member_id")),
        ("multiply_owned ", owned.where(F.col("copies") > 1), where),
        ("unassigned ", vacant.where("NOT is_withheld"), where),
        ("unbalanced ", _unbalanced(audits, existing, known, _held(assignments), withheld), F.col("topic")),
    )
    named = [rows.select(*SOLUTION, F.concat(F.lit(code), text).alias("violation")) for code, rows, text in parts]
    return reduce(DataFrame.unionByName, named)


def _unbalanced(audits: DataFrame, existing: DataFrame, known: DataFrame, held: DataFrame, withheld: DataFrame) -> DataFrame:
    """Return the topics with less balance among their subscribers than the solution's strategy promises.

    Rows: (cluster_id, group_id, position, basis, strategy, topic).

    Args:
        known: the members of each snapshot, with the topics that they subscribe to.
        withheld: the ``withheld_count`` of the solutions that have one: partitions that can still improve the balance.
    """
    subscribed = known.select(*GENERATION_KEY, "member_id", F.explode(F.array_distinct("subscribed")).alias("topic"))
    wanted = subscribed.join(existing, [*GENERATION_KEY, "topic"]).select(*GENERATION_KEY, "member_id", "topic")
    lists = wanted.groupBy(*GENERATION_KEY, "member_id").agg(F.sort_array(F.collect_list("topic")).alias("topics"))
    list_counts = lists.groupBy(*GENERATION_KEY).agg(F.count_distinct("topics").alias("list_count"))
    loads = held.groupBy(*SOLUTION, "member_id").agg(F.count("*").alias("load"))
    shares = held.groupBy(*SOLUTION, "member_id", "topic").agg(F.count("*").alias("share"))
    most = shares.join(loads, [*SOLUTION, "member_id"]).groupBy(*SOLUTION, "topic").agg(F.max("load").alias("most"))
    rows = audits.select(*SOLUTION).join(wanted, list(GENERATION_KEY)).join(loads, [*SOLUTION, "member_id"], "left")
    rows = rows.join(shares, [*SOLUTION, "member_id", "topic"], "left").join(most, [*SOLUTION, "topic"], "left").fillna(0)
    topics = rows.groupBy(*SOLUTION, "topic", "most").agg(
        (F.max("share") - F.min("share")).alias("skew"),
        F.min("load").alias("least"),
        F.sum(F.greatest(F.lit(0), F.col("most") - 1 - F.col("load"))).alias("shortfall"),
    )
    topics = topics.join(list_counts, list(GENERATION_KEY)).join(withheld, list(SOLUTION), "left").fillna(0, "withheld_count")
    claims_even_topics = F.col("strategy").isin(*EVEN_WITHIN_EACH_TOPIC) & (F.col("skew") > 1)
    claims_even_loads = F.col("strategy").isin(*NOTHING_LEFT_TO_EVEN_OUT)
    claims_even_loads |= F.col("strategy").isin(*EVEN_WHEN_SUBSCRIPTIONS_ARE_EQUAL) & (F.col("list_count") == 1)
    is_uneven = (F.col("most") - F.col("least") > 1) & (F.col("shortfall") > F.col("withheld_count"))
    return topics.where(claims_even_topics | (claims_even_loads & is_uneven))


def unlike_the_solution(audits: DataFrame, solutions: DataFrame) -> DataFrame:
    """Return the audits whose copied fields differ from those of their solution."""
    columns = ("status", "conformance", "topics_hash")
    recounted = solutions.select(*SOLUTION, *[F.col(name).alias(f"own_{name}") for name in columns])
    rows = audits.join(recounted, list(SOLUTION))
    return _differing(rows, {name: F.col(name) for name in columns}, {name: F.col(f"own_{name}") for name in columns})


def wrong_exact_movements(audits: DataFrame) -> DataFrame:
    """Return the exact recomputed audits whose counts differ from the observed ones, although both compare the same assignments."""
    names = ("retained_count", *[f"{kind}_count" for kind in KINDS])
    is_observed = F.col("basis") == str(Basis.OBSERVED)
    observed = audits.where(is_observed).select(*GENERATION_KEY, *[F.col(name).alias(f"observed_{name}") for name in names])
    is_exact = (F.col("basis") == str(Basis.RECOMPUTED)) & (F.col("conformance") == str(Conformance.EXACT)) & has_assignment()
    rows = audits.where(is_exact).join(observed, list(GENERATION_KEY))
    return _differing(rows, {name: F.col(name) for name in names}, {name: F.col(f"observed_{name}") for name in names})


def wrong_owners(movements: DataFrame, assignments: DataFrame) -> DataFrame:
    """Return the movements whose new owner does not have the partition, and those with an owner that their kind cannot have."""
    key = (*SOLUTION, "topic", "partition")
    owners = _held(assignments).groupBy(*key).agg(F.collect_set("member_id").alias("owners"))
    rows = movements.join(owners, list(key), "left")
    is_lost, is_taken = F.col("kind").isin("lost", "orphaned"), F.col("kind").isin("revoked", "reassigned")
    has_new, had_owner = F.col("member_id").isNotNull(), F.col("previous_member_id").isNotNull()
    is_held = F.when(has_new, F.coalesce(F.array_contains("owners", F.col("member_id")), F.lit(False))).otherwise(F.col("owners").isNull())
    fits = is_held & (has_new != is_lost) & (had_owner | ~(is_lost | is_taken)) & F.col("kind").isin(*KINDS)
    found = F.concat_ws(" ", "kind", F.lit("from"), _somebody("previous_member_id"), F.lit("to"), _somebody("member_id"))
    owner_text = F.when(F.col("owners").isNull(), F.lit("nobody")).otherwise(F.array_join(F.sort_array("owners"), ", "))
    return offenders(rows.where(~fits), key, found, F.concat(F.lit("a fitting kind, to the owner: "), owner_text))


def _somebody(name: str) -> Column:
    return F.coalesce(name, F.lit("nobody"))


def wrong_movements(audits: DataFrame, movements: DataFrame) -> DataFrame:
    """Return the audits whose counts by kind differ from the stored movements, or do not add up.

    Movements are stored for observed rows, and for recomputed ones that are not exact; elsewhere only the sums are checked.
    """
    counts = [F.count_if(F.col("kind") == kind).alias(f"stored_{kind}") for kind in KINDS]
    counts += [F.count_if(F.col("cause") == cause).alias(f"stored_{cause}") for cause in CAUSES]
    rows = audits.where(has_assignment()).join(movements.groupBy(*SOLUTION).agg(*counts), list(SOLUTION), "left")
    is_compared = F.col("retained_count").isNotNull()
    found: dict[str, Column] = {}
    expected: dict[str, Column] = {}
    for word in (*KINDS, *CAUSES):
        count = F.coalesce(f"{word}_count", F.lit(0))
        found[word] = count
        expected[word] = F.when(is_fact_of_its_own(), F.coalesce(f"stored_{word}", F.lit(0))).otherwise(count)
    found["movement_count"], found["partition_count"] = F.col("movement_count"), F.col("partition_count")
    expected["movement_count"] = F.expr("revoked_count + reassigned_count + handed_over_count")
    kept = F.expr("retained_count + revoked_count + reassigned_count + gained_count")
    expected["partition_count"] = F.when(is_compared, kept).otherwise(F.col("partition_count"))
    return _differing(rows, found, expected)


def wrong_last_commits(last: DataFrame, commits: DataFrame) -> DataFrame:
    """Return the partitions with another last commit, or another number of records, than the stored commits show.

    Partitions with commits of later runs are passed over: the table may be older than the commits.

    Reads: last as schemas.tables.LAST_COMMITS, commits as schemas.tables.OFFSET_SNAPSHOTS.
    """
    until = last.agg(F.max("run_sequence").alias("until")).where("until IS NOT NULL")  # an empty table is as good as none
    stored = commits.crossJoin(F.broadcast(until)).groupBy(*PARTITION_KEY)
    counted = stored.agg(
        F.count("*").alias("own_record_count"),
        F.max("position").alias("own_position"),
        F.max_by("committed_offset", "position").alias("own_committed_offset"),
        F.bool_or(F.col("run_sequence") > F.col("until")).alias("has_later"),
    )
    entries = last.select(*GROUP_KEY, "topic", F.inline("commits")).groupBy(*PARTITION_KEY)
    position = F.when(F.col("is_last"), F.col("position"))
    summed = entries.agg(
        F.sum("record_count").alias("record_count"),
        F.max(position).alias("position"),
        F.max_by("committed_offset", position).alias("committed_offset"),
    )
    rows = summed.join(counted, list(PARTITION_KEY), "full").where(~F.coalesce("has_later", F.lit(False)))
    names = ("record_count", "position", "committed_offset")
    return _differing(rows, {name: F.col(name) for name in names}, {name: F.col(f"own_{name}") for name in names}, PARTITION_KEY)
