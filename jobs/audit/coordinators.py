"""The partition of ``__consumer_offsets`` that holds each audited group, updated when a metadata snapshot shows another partition count."""

from __future__ import annotations

import logging
from functools import partial

from pyspark.sql import functions as F

from jobs.audit import udfs as audit_udfs
from jobs.audit.new_commits import NewCommits, retained_rows
from jobs.context import RunContext
from schemas.keys import GROUP_KEY
from schemas.staging import PLACED_GROUPS
from schemas.tables import GENERATION_AUDITS
from schemas.wire.keys import OFFSETS_TOPIC

logger = logging.getLogger(__name__)


def refresh(context: RunContext, news: NewCommits) -> None:
    """Update audits whose groups are in another partition of ``__consumer_offsets`` by its newest partition count."""
    if news.late_looks is None:
        return
    looked_at = news.late_looks.where(F.col("topic") == OFFSETS_TOPIC).select("cluster_id").collect()
    counts = context.metadata_index.offsets_partition_counts
    if not looked_at:
        return
    warehouse, spec = context.warehouse, GENERATION_AUDITS
    audits = retained_rows(context, spec.name).where(F.col("cluster_id").isin([row["cluster_id"] for row in looked_at]))
    placed = (
        audits.select(*GROUP_KEY)
        .distinct()
        .mapInArrow(partial(audit_udfs.put_groups_on_coordinators, offsets_partition_counts=counts), PLACED_GROUPS)
    )
    moved = audits.join(placed, list(GROUP_KEY)).where(~F.col("coordinator_partition").eqNullSafe(F.col("offsets_partition")))
    changed = moved.withColumns({"coordinator_partition": F.col("offsets_partition"), **context.run_columns})
    written = warehouse.materialize_any("other_coordinators", changed.select(*spec.schema.names))
    if written is None:
        return
    count, _ = warehouse.replace(spec.name, written, spec.key, written)
    logger.info(
        "updated %d audits of earlier runs: by newly landed topic metadata their groups are in another partition of %s",
        count,
        OFFSETS_TOPIC,
    )
