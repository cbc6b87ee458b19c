"""Stuck findings: ``group_events``, the newest generation of each group -> ``findings`` on classic groups whose rebalance does not end.

No record shows a rebalance that has not ended. A coordinator's log has its beginning, and polls see the group in it. The events are
compared with the newest generation of a group and with the records that delete groups. So these findings are computed again if some of
these are new since the last audit.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs.audit import udfs as audit_udfs
from jobs.audit.deleted_groups import deletions
from jobs.audit.found_rows import found_in
from jobs.context import RunContext
from jobs.findings import STUCK_RULES
from jobs.storage.changed_findings import replace_findings
from schemas.keys import GENERATION_KEY, GROUP_KEY
from schemas.staging import STUCK_FACTS
from schemas.tables import FINDINGS, GENERATION_AUDITS, GROUP_EVENTS, GROUP_RECORDS, SUBSCRIPTION_SNAPSHOTS
from schemas.vocabulary import POLLS, Basis, CoordinatorEvent, GroupType, Rule

BEGINS = (CoordinatorEvent.REBALANCE_STARTED, CoordinatorEvent.REBALANCE_SEEN)
ENDS = (
    *(CoordinatorEvent.ASSIGNMENT_RECEIVED, CoordinatorEvent.EMPTIED, CoordinatorEvent.DEAD, CoordinatorEvent.DELETED),
    *(CoordinatorEvent.CONVERTED_TO_CONSUMER, CoordinatorEvent.GROUP_LOADED, CoordinatorEvent.GROUP_UNLOADED),
)
"""Events after which a rebalance is over, or another coordinator has the group."""
READ_HERE = {name: f"{name} for {Rule.STUCK_REBALANCING}" for name in (GROUP_EVENTS.name, GENERATION_AUDITS.name, GROUP_RECORDS.name)}
"""Table -> the name under which ``runs.consumed`` records how far its rows were used here."""


def open_rebalances(events: DataFrame, records: DataFrame) -> DataFrame:
    """Return the events that begin or see a rebalance and are after the last event that ends one in their group, or deletes it.

    Args:
        events: rows of ``group_events``.
        records: rows of ``group_records``.
    """
    logged = events.where(F.col("event").isin(*map(str, ENDS))).select(*GROUP_KEY, F.col("logged_at").alias("ended_at"))
    recorded = deletions(records).select(*GROUP_KEY, F.col("timestamp").alias("ended_at"))
    last_end = logged.unionByName(recorded).groupBy(*GROUP_KEY).agg(F.max("ended_at").alias("ended_at"))
    begun = events.where(F.col("event").isin(*map(str, BEGINS)))
    is_open = F.coalesce(F.col("logged_at") > F.col("ended_at"), F.lit(True))
    return begun.join(last_end, list(GROUP_KEY), "left").where(is_open).select(*events.columns)


def stuck_facts(begun: DataFrame, events: DataFrame, audits: DataFrame, snapshots: DataFrame) -> DataFrame:
    """Return the facts for the rule: one row per group that rebalances since its newest generation, of ``schemas.staging.STUCK_FACTS``.

    What polls see counts only for groups whose generations come from polls. Records displace the polls of a group, and with them the later
    one that would end the rebalance.

    Args:
        begun: as ``open_rebalances`` returns them.
        events: rows of ``group_events``.
        audits: observed rows of ``generation_audits``.
        snapshots: rows of ``subscription_snapshots``.
    """
    groups = F.broadcast(begun.select(*GROUP_KEY).distinct())
    newest = audits.join(groups, list(GROUP_KEY)).groupBy(*GROUP_KEY).agg(F.max("position").alias("position"))
    generations = snapshots.where(F.col("group_type") == str(GroupType.CLASSIC)).join(newest, list(GENERATION_KEY))
    known = generations.select(
        *GENERATION_KEY,
        "generation",
        "observed_at",
        F.array_max(F.col("members")["rebalance_timeout_ms"]).alias("rebalance_timeout_ms"),
        F.col("members")["member_id"].alias("generation_ids"),
        F.col("source").isin(*map(str, POLLS)).alias("is_polled"),
    )
    is_seen = F.col("event") == str(CoordinatorEvent.REBALANCE_SEEN)
    lines = events.where(F.col("event") != str(CoordinatorEvent.REBALANCE_SEEN))
    last_lines = lines.groupBy("cluster_id", "broker").agg(F.max("logged_at").alias("broker_until"))
    later = begun.join(known.select(*GROUP_KEY, "observed_at", "is_polled"), list(GROUP_KEY)).where("logged_at > observed_at")
    later = later.where(~is_seen | F.col("is_polled")).drop("observed_at", "is_polled")
    later = later.join(last_lines, ["cluster_id", "broker"], "left")
    in_order = F.struct("logged_at", "line_hash")  # of events in one millisecond the same one counts, in whatever order they landed
    seen_members = F.when(is_seen, F.xxhash64(F.array_sort("member_ids")))
    lasting = later.groupBy(*GROUP_KEY).agg(
        F.min("logged_at").alias("since"),
        F.max(F.when(is_seen, F.col("logged_at")).otherwise(F.col("broker_until"))).alias("until"),
        F.count_if(is_seen).alias("poll_count"),
        F.max_by("state", F.when(is_seen, in_order)).alias("state"),
        F.max_by("member_ids", F.when(is_seen, in_order)).alias("seen_ids"),
        F.bool_or(~is_seen).alias("is_logged"),
        F.min_by("reason", F.when(~is_seen, in_order)).alias("reason"),
        F.coalesce(F.min(seen_members) != F.max(seen_members), F.lit(False)).alias("has_other_members"),
    )
    columns = {
        "observed_at_ms": F.unix_millis("observed_at"),
        "waited_ms": F.unix_millis("until") - F.unix_millis("since"),
        "member_ids": F.coalesce("seen_ids", "generation_ids"),
    }
    return lasting.join(known, list(GROUP_KEY)).withColumns(columns).select(*STUCK_FACTS.names)


def refresh(context: RunContext) -> None:
    """Write new findings on rebalances that do not end, and delete stored ones that no longer hold."""
    warehouse = context.warehouse
    has_new_rows = any(context.unread(name, reader) is not None for name, reader in READ_HERE.items())
    if not has_new_rows or any(warehouse.is_empty(name) for name in (GROUP_EVENTS.name, GENERATION_AUDITS.name)):
        return
    events = warehouse.read(GROUP_EVENTS.name)
    audits = warehouse.read(GENERATION_AUDITS.name).where(F.col("basis") == str(Basis.OBSERVED))
    begun = warehouse.materialize("open_rebalances", open_rebalances(events, warehouse.read(GROUP_RECORDS.name)))
    facts = stuck_facts(begun, events, audits, warehouse.read(SUBSCRIPTION_SNAPSHOTS.name))
    found = found_in(context, facts, audit_udfs.find_stuck)
    stored = None
    if context.before.written.get(FINDINGS.name):
        stored = warehouse.read(FINDINGS.name).where(F.col("rule_id").isin([str(rule.rule_id) for rule in STUCK_RULES]))
    replace_findings(warehouse, stored, found, "stuck_findings")
