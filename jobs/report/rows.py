"""The rows of the report, as the stage collects them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobs.backtest.judging import JudgedPredictions
from jobs.report.measures import SETTLED
from jobs.report.ranking import Ranking

Row = Mapping[str, Any]

SETTLED_COLUMNS = ("strategy", *SETTLED, "verdict", "better_strategy", "better_gain")
"""Audit columns of a group's last settled generation with members, for its details."""


@dataclass(frozen=True)
class Predicted:
    """Recorded generations predicted from the ones before.

    Attributes:
        chosen_count: how many generations were to be predicted.
    """

    chosen_count: int
    judged: JudgedPredictions


@dataclass(frozen=True)
class ReportRows:
    """The rows of the report, as the stage collected them: rows are mappings, and each list but ``ranked`` is in any order.

    Attributes:
        ranked: every group, those with only commits last, per (cluster_id, group_id): critical_count, warning_count, info_count, and
            of these current_critical_count, current_warning_count, current_info_count, which hold now; movement_count
            and avoidable_movement_count (sums over observed rows, null if none knows), each with <name>_known, the rows that know it;
            generation_count, member_count (last snapshot; null of a group with only commits), first_at_ms, last_at_ms,
            deleted_at_ms (null of a group that was not deleted, and of one with only commits),
            newest_position; calm_ms, from that generation to the newest moment of its cluster (0 of a group with only commits);
            need_severity and need_rule of ``jobs.pages.needs.Need`` (null without one); lag_now (``build_page`` fills it in);
            predictable_count and predictable_at_ms, the number of generations that could be predicted and the time of the newest
            one (null without one); of the last settled generation with members, null without one: settled_position, strategy,
            imbalance_ratio, partitions_per_member_min, partitions_per_member_max, better_gain (0 if no assignor is better, null if that
            is not known).
        detailed: the rows of the groups with details, with more columns of that settled generation: settled_generation,
            settled_at_ms and ``SETTLED_COLUMNS``.
        tallies: per (cluster_id, group_id, basis, strategy, leader_client, status, conformance), where cluster_id and group_id
            are null for all groups together that are shown without details: generation_count, of these covered_count, which have
            members, and coverage (a sum that is equal for equal sets of these only, null without any), ``SUMMED``,
            rebalance_count, imbalance_ratio_sum, imbalance_ratio_known, imbalance_ratio_max, spread_max; generations, the
            newest observed audit rows of a group with details, newest first, with observed_at_ms (of a group's rows only).
        holdings: per member and topic of the settled generation: group_instance_id, member_partition_count, topic and
            topic_partition_count (null for a member without partitions), member_total and topic_total of the group.
        flows: per (cluster_id, group_id, position, previous_member_id, member_id, kind, cause, topic): partitions,
            partition_count (partitions may be cut), lag (sum, null when none is known), lag_is_upper_bound (one of them is), reset_count
            and resume_known (partitions whose reader starts anew, and of which it is known where it resumes), and flow_total of the group.
        members: per member of a group with details, where member ids are bare UUIDs: group_instance_id, client_id, client_host.
        lags: per (cluster_id, group_id, member_id, topic, partition), of the groups with details those with the largest lag now:
            committed_offset, end_offset, lag, committed_ms and looked_ms, as schemas.tables.CURRENT_LAG; of the whole group group_lag
            (null without a known lag), known_count (partitions with a known lag) and partition_total, in which a partition with several
            owners counts once; newest_at_ms, the newest moment that has landed from the cluster.
        changes: generations of groups with details with another leader or coordinator: generation, position (null of a coordinator), at_ms,
            kind (leader or coordinator), before, after.
        findings: per (cluster_id, group_id, rule_id, severity): finding_count, first_generation, last_generation, is_current
            (whether it holds now), positions (its newest ones), and of the last one observed_at_ms,
            message, evidence, advice; rule_finding_count, rule_group_count and rule_current_count (groups in which it is current) of
            all groups. Not all groups of a rule need be there, but one of each rule.
        predicted: the newest generations that could be predicted, and what came of it; None if the report leaves this part out.
        group_lags: per (cluster_id, group_id) with a known lag: group_lag, as in ``lags``; none if there are too many commits.
        newest_ms: cluster -> time of the newest generation, commit or metadata snapshot that has landed from it.
    """

    ranked: Ranking = field(default_factory=Ranking)
    detailed: Sequence[Row] = ()
    tallies: Sequence[Row] = ()
    holdings: Sequence[Row] = ()
    flows: Sequence[Row] = ()
    members: Sequence[Row] = ()
    lags: Sequence[Row] = ()
    changes: Sequence[Row] = ()
    findings: Sequence[Row] = ()
    predicted: Predicted | None = None
    group_lags: Sequence[Row] = ()
    newest_ms: Mapping[str, int] = field(default_factory=dict)
