"""Tables that ``what-if --save`` writes; the first such run creates them."""

from __future__ import annotations

from pyspark.sql.types import StructField, StructType

from schemas.tables.assigned import ASSIGNMENTS
from schemas.tables.audited import GENERATION_AUDITS
from schemas.tables.columns import (
    BOOLEAN,
    INT,
    RUN,
    SEQUENCE,
    SNAPSHOT_COLUMNS,
    SNAPSHOT_KEY,
    STRING,
    TableSpec,
    column,
)

SCENARIO = column("scenario", STRING, "name of the scenario: as in the YAML file, members=N for a member count, '' for changes by options")
STRATEGY = column("strategy", STRING, "the assignor after the changes")
MEMBER_ORDER = column("member_order", STRING, "first or last: where added members without names sort in the group; last if there are none")
KAFKA_VERSION = column("kafka_version", STRING, "release whose behaviour was computed; null without a result")

SCENARIOS = TableSpec(
    "scenarios",
    "One change to a group that `what-if --save` has played. The key names the generation before the change.",
    (*SNAPSHOT_KEY, "scenario", "run_sequence"),
    StructType(
        [
            *SNAPSHOT_COLUMNS,
            SCENARIO,
            SEQUENCE,
            column("changes", STRING, "the changes, as JSON with the names of the options"),
            column(
                "cheapest_strategy",
                STRING,
                "as even as any strategy, and stops the fewest partitions at once; null if none has a result",
            ),
            RUN,
        ]
    ),
    created_by="`what-if --save`",
)

_MEASURED = (
    *("member_count", "idle_member_count", "partition_count", "retained_count", "revoked_count", "reassigned_count", "gained_count"),
    *("lost_count", "orphaned_count", "movement_count", "least_movement_count", "avoidable_movement_count", "is_lower_bound"),
    *("unassigned_count", "partitions_per_member_min", "partitions_per_member_max", "partitions_per_member_mean"),
    *("partitions_per_member_stddev", "imbalance_ratio", "gini", "topic_skew_max", "balance_score", "rack_match_ratio"),
)
"""Columns of ``generation_audits`` with the same meaning for the end of a scenario. The generation before the change is its predecessor."""


def _of_audits(name: str) -> StructField:
    comment = GENERATION_AUDITS.schema[name].metadata["comment"].replace("unless settled", "without a result")
    return column(name, GENERATION_AUDITS.schema[name].dataType, comment.replace(" or least_spread", ""))


SCENARIO_AUDITS = TableSpec(
    "scenario_audits",
    "The figures of one assignor at the end of a scenario, compared with the generation before the change.",
    (*SNAPSHOT_KEY, "scenario", "strategy", "member_order", "run_sequence"),
    StructType(
        [
            *SNAPSHOT_COLUMNS,
            SCENARIO,
            STRATEGY,
            MEMBER_ORDER,
            SEQUENCE,
            column(
                "status",
                STRING,
                "solved, no_result, kafka_error, over_budget, or unsupported, also if the change does not fit the group",
            ),
            column("detail", STRING, "why there is no result; null for solved"),
            KAFKA_VERSION,
            column("is_cheapest", BOOLEAN, "whether the strategy is scenarios.cheapest_strategy"),
            column("round_count", INT, "rebalances until nothing moves any more; under the consumer protocol: rounds of heartbeats"),
            column("stopped_count", INT, "partitions that stop being read at once, in the worst round"),
            column("revocation_count", INT, "partitions that members have to give up although they stay, in all rounds"),
            *map(_of_audits, _MEASURED),
            RUN,
        ]
    ),
    created_by="`what-if --save`",
)

SCENARIO_ASSIGNMENTS = TableSpec(
    "scenario_assignments",
    "The partitions of one member at the end of a scenario with one assignor. Added members without names are the last of the group.",
    (*SNAPSHOT_KEY, "scenario", "strategy", "member_id", "run_sequence"),
    StructType(
        [
            *SNAPSHOT_COLUMNS,
            SCENARIO,
            STRATEGY,
            column("member_id", STRING, "the member; ~added-1 and so on for an added one without a name"),
            SEQUENCE,
            *(ASSIGNMENTS.schema[name] for name in ("group_instance_id", "partitions", "partition_count")),
            RUN,
        ]
    ),
    created_by="`what-if --save`",
)
