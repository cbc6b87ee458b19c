"""Maintenance: retention of the history, OPTIMIZE of tables in many small files, VACUUM of files that nobody can be using.

A run like any other: it works on current versions under the lock, and its row in ``runs`` publishes them; what later runs go on from is
carried over unchanged. Readers of the versions before lose nothing: VACUUM comes behind that row, and only removes files that no
version has named for ``maintain.vacuum_hours``. Commits go likewise, where the log is a local folder.
"""

from __future__ import annotations

import logging
from datetime import datetime

from jobs.context import RunContext, StageResult
from jobs.maintain import cluster_removal
from jobs.maintain.retention import drop_history
from jobs.storage.delta_log import checkpoint_before, cut_before
from jobs.storage.table_maintenance import file_counts, keep_files, optimize
from jobs.storage.table_maintenance import vacuum as remove_unused_files
from jobs.storage.warehouse import Warehouse
from jobs.verify.log import read_log
from schemas.tables import TABLES

logger = logging.getLogger(__name__)

MANY_FILES = 8
"""Files in one month, or in a table without months, from which on merging pays: each run adds one or two, and reads them all."""

row_counts, counts_in_lines = cluster_removal.row_counts, cluster_removal.counts_in_lines
"""What ``--drop-cluster`` would drop, for who only asks."""

LOG_DAYS = 30
"""How long Delta keeps commits by default (``delta.logRetentionDuration``)."""


def run(context: RunContext, drop_cluster: str | None = None) -> StageResult:
    """Drop old history, then merge small files; tables that need neither are not touched.

    Args:
        drop_cluster: a cluster that is to go; nothing else is done then.
    """
    if drop_cluster is not None:
        return cluster_removal.run(context, drop_cluster)
    state, dropped = drop_history(context)
    for name, rows in dropped.items():
        logger.info("%s: %d rows dropped", name, rows)
    counts = {f"{name}.dropped": rows for name, rows in dropped.items()}
    for name in TABLES:
        keep_files(context.warehouse, name, context.settings.maintain.vacuum_hours)
        counts |= _merge_files(context.warehouse, name)
    return StageResult(state, output_counts=counts)


def _merge_files(warehouse: Warehouse, name: str) -> dict[str, int]:
    """Merge the files of months that have many; return how many there were and are, empty where nothing was merged."""
    before = file_counts(warehouse, name)
    crowded = [folder for folder, count in before.items() if count >= MANY_FILES]
    version = warehouse.version(name)
    if crowded:
        optimize(warehouse, name, crowded)
    if warehouse.version(name) == version:
        return {}
    counts = sum(before.values()), sum(file_counts(warehouse, name).values())
    logger.info("%s: %d files before, %d after", name, *counts)
    return {f"{name}.files_before": counts[0], f"{name}.files_after": counts[1]}


def vacuum(context: RunContext, now: datetime) -> None:
    """Remove files that no version has named for long, and commits of versions as old; to call once the run is published."""
    for name in TABLES:
        remove_unused_files(context.warehouse, name)
        _cut_log(context, name, now)


def _cut_log(context: RunContext, name: str, now: datetime) -> None:
    """Remove the commits that a checkpoint has stood for since ``LOG_DAYS``, in a local folder, where the log is sound.

    Delta would do so by itself and not mind which version readers follow, see ``warehouse.KEEP_THE_LOG``. They follow the newest here.
    """
    if context.warehouse.folder is None:
        return
    folder = context.warehouse.folder / name
    hours = max(24 * LOG_DAYS, context.settings.maintain.vacuum_hours)
    version = checkpoint_before(folder / "_delta_log", now.timestamp() - 3600 * hours)
    if version is None:
        return
    damages = read_log(name, folder).damages
    if damages:
        logger.warning("%s: every commit is kept, since the log is damaged, at %s for one; see verify", name, damages[0].where)
        return
    removed = cut_before(folder / "_delta_log", version)
    if removed:
        logger.info("%s: %d commits removed, up to version %d", name, removed, version - 1)
