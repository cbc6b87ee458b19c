"""Rows as the report collects them, made by hand, for tests of the page without Spark."""

from __future__ import annotations

from datetime import datetime, timezone
from decimal import Decimal

from assignors.replay.conformance import Conformance
from assignors.scenario.backtest import Backtest, Explanation, LeftOut, Omission, Prediction, Reason
from jobs.backtest.judging import Differences, Differing, JudgedPredictions
from jobs.reading.stored import GroupKey
from jobs.report.measures import SUMMED
from jobs.report.ranking import Ranking
from jobs.report.rows import Predicted, ReportRows

AS_OF = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
SUMMARY = {"run_id": "run-7", "input_counts": {"read": 962, "landed": 900, "skipped": 62, "consumer-offsets.skipped.offset commit": 62}}
MEMBER = "orders-1-3fc8d6f1-581a-4472-bdf3-3515b4aee8c1"
OTHER = "orders-2-e76ea8c3-5d30-4299-9005-47eb41f3d3c4"


def group_row(group_id="orders", **changes):
    row = {"cluster_id": "prod", "group_id": group_id, "critical_count": 0, "warning_count": 0, "info_count": 0}
    row |= {f"current_{severity}_count": 0 for severity in ("critical", "warning", "info")} | dict.fromkeys(
        ("need_severity", "need_rule", "lag_now", "deleted_at_ms")
    )
    row |= {"avoidable_movement_count": None, "movement_count": 3, "generation_count": 3, "member_count": 2}
    row |= {"first_at_ms": 1_790_000_000_000, "last_at_ms": 1_790_000_120_000, "settled_position": 12, "settled_generation": 3}
    row |= {"settled_at_ms": 1_790_000_120_000, "strategy": "range", "imbalance_ratio": 1.5, "verdict": None, "better_strategy": None}
    row |= {"lag_imbalance_ratio": None, "throughput_imbalance_ratio": None, "rack_match_ratio": None}
    row |= {"better_gain": None, "predictable_count": 2, "predictable_at_ms": 1_790_000_120_000}
    row |= {"partitions_per_member_min": 1, "partitions_per_member_max": 3, "partitions_per_member_mean": 2.0}
    row |= changes
    sums = ("movement_count", "avoidable_movement_count")
    return {f"{name}_known": 0 if row[name] is None else row["generation_count"] for name in sums} | row


def needing_row(group_id="orders", rule_id="idle_members", severity="warning", **changes):
    """A group whose newest generation has a finding; its text is ``finding_row`` with ``is_current``."""
    counts = {f"{severity}_count": 1, f"current_{severity}_count": 1}
    return group_row(group_id, **counts | {"need_severity": severity, "need_rule": rule_id} | changes)


def of_groups(*rows):
    """The fields of ``ReportRows`` for these rows of groups, all with details."""
    return {"ranked": Ranking(rows), "detailed": rows}


def generation_row(generation, previous, group_id="orders", **changes):
    row = {
        "cluster_id": "prod",
        "group_id": group_id,
        "position": 9 + generation,
        "generation": generation,
        "previous_generation": previous,
    }
    row |= {"observed_at_ms": 1_790_000_000_000 + generation, "generation_gap": None if previous is None else generation - previous - 1}
    row |= {"is_follow_up": False, "is_settled": True, "strategy": "range", "member_count": 2, "idle_member_count": 0, "partition_count": 4}
    row |= {
        "revoked_count": 1,
        "reassigned_count": 2,
        "handed_over_count": 0,
        "gained_count": 0,
        "lost_count": 1,
        "withheld_count": 1,
        "orphaned_count": 0,
        "movement_count": 3,
        "avoidable_movement_count": None,
    }
    row |= {"eager_revocation_count": 4, "cooperative_revocation_count": 1, "actual_revocation_count": None, "imbalance_ratio": 1.5}
    row |= {"follow_up_ms": None, "pause_partition_ms": None, "is_lower_bound": False}
    row |= {"lag_imbalance_ratio": None, "throughput_imbalance_ratio": None}
    row |= {"epoch_at_ms": None, "reconciled_at_ms": None, "is_superseded": None, "batched_epoch_count": None}
    row |= {"rebalance_ms": None, "assignment_ms": None, "reconciled_ms": None, "changes": ()}
    return (
        row
        | {"triggers": ["member_joined"], "logged_causes": None, "likely_causes": None, "conformance": "exact", "strategy": "range"}
        | changes
    )


def measures(**known):
    """Sums over three generations; a measure without a value is unknown in all of them."""
    columns = {}
    for measure in SUMMED:
        columns |= {f"{measure}_sum": known.get(measure), f"{measure}_known": 3 if measure in known else 0}
    return columns


def tally_row(strategy, basis="counterfactual", movements=5, **changes):
    row = {"cluster_id": "prod", "group_id": "orders", "basis": basis, "strategy": strategy, "leader_client": "java", "status": "solved"}
    row |= {"conformance": None, "generation_count": 3, "rebalance_count": 3, "imbalance_ratio_sum": Decimal("3.75")}
    row |= {"covered_count": 3, "coverage": Decimal(-7)}
    row |= {"imbalance_ratio_known": 3, "imbalance_ratio_max": 1.5, "spread_max": 2, "generations": []}
    return row | measures(movement_count=movements, eager_revocation_count=8, cooperative_revocation_count=2) | changes


def holding_row(member_id, load, topic, number, **changes):
    row = {"cluster_id": "prod", "group_id": "orders", "member_id": member_id, "group_instance_id": None, "member_partition_count": load}
    return row | {"topic": topic, "topic_partition_count": number, "member_total": 2, "topic_total": 2} | changes


def flow_row(position=12, **changes):
    row = {
        "cluster_id": "prod",
        "group_id": "orders",
        "position": position,
        "previous_member_id": MEMBER,
        "member_id": OTHER,
        "cause": None,
    }
    return (
        row
        | {"kind": "revoked", "topic": "clicks", "partitions": [3, 0, 1], "partition_count": 3, "flow_total": 2}
        | {
            "lag": None,
            "lag_is_upper_bound": None,
            "reset_count": 0,
            "resume_known": 0,
        }
        | changes
    )


def lag_row(partition, lag, **changes):
    row = {"cluster_id": "prod", "group_id": "orders", "member_id": MEMBER, "topic": "clicks", "partition": partition, "lag": lag}
    row |= {"committed_offset": 100, "end_offset": 100 + (lag or 0), "committed_ms": 1_790_000_100_000, "looked_ms": 1_790_000_110_000}
    row |= {"group_lag": lag, "known_count": 2, "partition_total": 2, "newest_at_ms": 1_790_000_120_000}
    return row | changes


def finding_row(group_id="orders", **changes):
    row = {"cluster_id": "prod", "group_id": group_id, "rule_id": "conformance_differs", "severity": "warning", "finding_count": 2}
    row |= {"first_generation": 2, "last_generation": 3, "observed_at_ms": 1_790_000_120_000, "message": "2 members differ"}
    row |= {"rule_finding_count": 4, "rule_group_count": 2, "rule_current_count": 0, "is_current": False, "positions": [12, 11]}
    return row | {"evidence": {"members": MEMBER}, "advice": "look at the leader's client"} | changes


def predicted_of(*groups, cluster_id="prod", member=MEMBER, strategy="range", leader="java", chosen=9):
    """Of each group one prediction that is exact and two that are not, its generations 2 and 3; and one generation that was left out."""
    exact = Prediction(1, strategy, leader, (), {}, Conformance.EXACT, ())
    claims = (Explanation(Reason.CLAIMED_NOTHING, (member,)), Explanation(Reason.TOPIC_RACKS, ("clicks",)))
    results, shown = [LeftOut(4, Omission.MEMBER_RESTARTED)], []
    for group_id in groups:
        for number, conformance in ((2, Conformance.EQUAL_SETS), (3, Conformance.DIFFERS)):
            prediction = Prediction(number, strategy, leader, (), {}, conformance, claims)
            shown.append(Differing(GroupKey(cluster_id, group_id), 9 + number, AS_OF, prediction))
        results += [exact, *(one.prediction for one in shown[-2:])]
    return Predicted(chosen, JudgedPredictions(Backtest.of(results), Differences(shown, len(shown))))


def sample(group_ids=("orders", "billing")):
    """Every kind of row, at least twice; all groups have the same history."""
    each = [{"group_id": group_id} for group_id in group_ids]
    history = [generation_row(1, None, movement_count=None, triggers=["group_created"]), generation_row(2, 1), generation_row(3, 2)]
    # The newest come first, as the report collects them.
    own = tally_row("range", "observed", conformance="exact", generations=history[::-1])
    tallies = [own, tally_row("sticky", movements=1), tally_row("range"), tally_row("range", "recomputed", conformance="exact")]
    others = {"cluster_id": None, "group_id": None}
    holdings = [holding_row(MEMBER, 3, "clicks", 2), holding_row(MEMBER, 3, "views", 1), holding_row(OTHER, 0, None, None)]
    return ReportRows(
        **of_groups(*(group_row(critical_count=rank) | key for rank, key in enumerate(each))),
        tallies=[row | key for key in each for row in tallies]
        + [
            tally_row("range", "observed", conformance="differs", leader_client=None) | others,
            tally_row("sticky", status="no_result") | others,
        ],
        holdings=[row | key for key in each for row in holdings],
        flows=[
            row | key
            for key in each
            for row in (flow_row(), flow_row(topic="alerts"), flow_row(11, kind="gained", previous_member_id=None, cause="handed_over"))
        ],
        lags=[row | key for key in each for row in (lag_row(1, 7, group_lag=7), lag_row(0, 0, group_lag=7))],
        findings=[finding_row() | key for key in each]
        + [finding_row(group_ids[0], rule_id="partition_multiply_owned", severity="critical")],
        predicted=predicted_of(*group_ids),
    )


def large_fleet(group_count, detailed, name=""):
    """The given number of groups. The worst have a long history and many members: more than a page has room for."""
    names = [f"{name}team-{number % 40}.service-{number:05}" for number in range(group_count)]
    ranked = [
        group_row(group_id, critical_count=max(0, detailed - number), movement_count=number % 17, strategy=("range", "sticky")[number % 2])
        for number, group_id in enumerate(names)
    ]
    history = [generation_row(generation, generation - 1) for generation in range(80, 0, -1)]
    tallies, holdings, flows = [], [], []
    for group_id in names[:detailed]:
        tallies.append(tally_row("range", "observed", group_id=group_id, generation_count=80, generations=history))
        tallies += [tally_row(strategy, group_id=group_id) for strategy in ("range", "sticky")]
        holdings += [holding_row(f"m{member}", 9, f"topic-{topic}", 1, group_id=group_id) for member in range(20) for topic in range(9)]
        flows += [flow_row(9 + generation, group_id=group_id, topic=f"topic-{generation % 7}") for generation in range(1, 81)]
    return ReportRows(
        ranked=Ranking(ranked),
        detailed=ranked[:detailed],
        tallies=tallies,
        holdings=holdings,
        flows=flows,
        findings=[finding_row(group_id, rule_group_count=group_count) for group_id in names[:detailed]],
    )
