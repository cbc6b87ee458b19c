"""The five questions that most people ask first, in SQL over the published views."""

from __future__ import annotations

QUESTIONS = {
    "unbalanced": """\
SELECT own.cluster_id, own.group_id, own.strategy, own.imbalance_ratio, own.verdict, own.better_strategy, own.better_gain,
       map_from_entries(collect_list(struct(other.strategy, other.imbalance_ratio))) AS imbalance_ratios
FROM (
    SELECT *, row_number() OVER (PARTITION BY cluster_id, group_id ORDER BY position DESC) AS age
    FROM generation_audits_published
    WHERE basis = 'observed' AND is_settled AND member_count > 0
) AS own
JOIN generation_audits_published AS other USING (cluster_id, group_id, position)
WHERE own.age = 1 AND own.imbalance_ratio > 1.25 AND other.basis = 'counterfactual'
GROUP BY ALL
ORDER BY imbalance_ratio DESC, group_id
""",
    "cost": """\
SELECT cluster_id, group_id, observed_month, count(*) AS generation_count, sum(movement_count) AS movement_count,
       sum(avoidable_movement_count) FILTER (WHERE coalesce(generation_gap, 0) = 0) AS avoidable_movement_count,
       max_by(generation, movement_count) AS dearest_generation,
       sum(actual_revocation_count) AS actual_revocation_count, sum(pause_partition_ms) AS pause_partition_ms
FROM generation_audits_published
WHERE basis = 'observed' AND movement_count > 0
GROUP BY cluster_id, group_id, observed_month
ORDER BY observed_month DESC, avoidable_movement_count DESC NULLS LAST, movement_count DESC, group_id, cluster_id
""",
    "why": """\
SELECT cluster_id, group_id, trigger, count(*) AS rebalance_count, sum(movement_count) AS movement_count
FROM generation_audits_published LATERAL VIEW explode(triggers) AS trigger
WHERE basis = 'observed'
GROUP BY cluster_id, group_id, trigger
ORDER BY rebalance_count DESC, group_id, cluster_id, trigger
""",
    "conformance": """\
SELECT cluster_id, group_id, strategy, conformance, count(*) AS generation_count
FROM generation_audits_published
WHERE basis = 'recomputed'
GROUP BY cluster_id, group_id, strategy, conformance
ORDER BY conformance = 'differs' DESC, group_id, cluster_id, strategy, conformance
""",
    "resume": """\
SELECT cluster_id, group_id, resume_outcome, count(*) AS partition_count, sum(lag) AS lag,
       max(timestampdiff(SECOND, committed_at, observed_at)) AS longest_since_commit_s
FROM movements_published
WHERE basis = 'observed' AND member_id IS NOT NULL
GROUP BY cluster_id, group_id, resume_outcome
ORDER BY group_id, cluster_id, resume_outcome
""",
}
"""Name of a question -> its query."""
