"""Maintenance: retention of the history, OPTIMIZE of tables with many small files, VACUUM of files that no reader can use.

This is a normal run: it works on the newest versions under the lock, and its row in ``runs`` publishes them; the state for later runs is
unchanged. Readers of earlier versions lose nothing: VACUUM runs after that row, and removes only files that no version has used for
``maintain.vacuum_hours``. In a local folder old commits of the log are removed in the same way.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime

from jobs.context import RunContext, StageResult
from jobs.maintain import cluster_removal
from jobs.maintain.retention import CLEARED_HOLDINGS, drop_history
from jobs.runtime.locations import LOG
from jobs.runtime.log_format import show_progress
from jobs.storage.delta_log import checkpoint_before, cut_before
from jobs.storage.table_maintenance import file_counts, keep_files, optimize
from jobs.storage.table_maintenance import vacuum as remove_unused_files
from jobs.storage.warehouse import Warehouse
from jobs.verify.log import read_log

logger = logging.getLogger(__name__)

MANY_FILES = 8
"""Least number of files in one month, or in a table without months, for which merging pays: each run adds one or two, and reads all."""

row_counts, counts_in_lines = cluster_removal.row_counts, cluster_removal.counts_in_lines
"""Rows that ``--drop-cluster`` would remove, for ``--dry-run``."""

LOG_DAYS = 30
"""How long Delta keeps commits by default (``delta.logRetentionDuration``)."""


def run(context: RunContext, drop_cluster: str | None = None) -> StageResult:
    """Remove old history, then merge small files; tables that need neither are not changed.

    Args:
        drop_cluster: a cluster to remove; then nothing else is done.
    """
    if drop_cluster is not None:
        return cluster_removal.run(context, drop_cluster)
    state, dropped = drop_history(context)
    for name, rows in dropped.items():
        logger.info("%s: cleared in %d rows" if name == CLEARED_HOLDINGS else "%s: removed %d rows", name, rows)
    counts = {f"{name}.dropped": rows for name, rows in dropped.items()}
    for name in context.warehouse.table_names:
        show_progress(f"maintain: merging the files of {name}")
        keep_files(context.warehouse, name, context.settings.maintain.vacuum_hours)
        counts |= _merge_files(context.warehouse, name)
    return StageResult(state, output_counts=counts)


def in_words(counts: Mapping[str, int]) -> str:
    """Return what was done, in one line.

    Args:
        counts: ``runs.output_counts`` of the run.
    """

    def of(kind: str) -> dict[str, int]:
        return {name.rpartition(".")[0]: number for name, number in counts.items() if name.endswith(f".{kind}") and number}

    dropped, before, after = of("dropped"), of("files_before"), of("files_after")
    done = []
    cleared = dropped.pop(CLEARED_HOLDINGS, 0)
    if dropped:
        done.append(f"removed {_rows(sum(dropped.values()))} from {', '.join(dropped)}")
    if cleared:
        done.append(f"cleared {CLEARED_HOLDINGS} in {_rows(cleared)}")
    if before:
        done.append(f"merged {sum(before.values()):,} files of {', '.join(before)} into {sum(after.values()):,}")
    return f"maintained: {'; '.join(done) or 'no rows were old enough and no table had many files'}; removed files that no version uses"


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"


def _merge_files(warehouse: Warehouse, name: str) -> dict[str, int]:
    """Merge the files of months with many files; return the table's number of files before and after, empty if nothing was merged."""
    before = file_counts(warehouse, name)
    crowded = [folder for folder, count in before.items() if count >= MANY_FILES]
    version = warehouse.version(name)
    if crowded:
        optimize(warehouse, name, crowded)
    if warehouse.version(name) == version:
        return {}
    counts = sum(before.values()), sum(file_counts(warehouse, name).values())
    logger.info("%s: merged small files: %d files before, %d after", name, *counts)
    return {f"{name}.files_before": counts[0], f"{name}.files_after": counts[1]}


def vacuum(context: RunContext, now: datetime) -> None:
    """Remove files that no version has used for long, and equally old commits; call it only after publication."""
    for name in context.warehouse.table_names:
        show_progress(f"vacuum: {name}")
        remove_unused_files(context.warehouse, name)
        _cut_log(context, name, now)


def _cut_log(context: RunContext, name: str, now: datetime) -> None:
    """Remove the commits that a checkpoint has replaced for ``LOG_DAYS``, in a local folder with a sound log.

    Delta itself would also remove commits that readers still need, see ``table_shape.KEEP_THE_LOG``. Here readers use the newest version.
    """
    if context.warehouse.folder is None:
        return
    folder = context.warehouse.folder / name
    hours = max(24 * LOG_DAYS, context.settings.maintain.vacuum_hours)
    version = checkpoint_before(folder / LOG, now.timestamp() - 3600 * hours)
    if version is None:
        return
    damages = read_log(name, folder).damages
    if damages:
        logger.warning(
            "%s: kept every commit, because the log is damaged, for example at %s; run verify to see all damage", name, damages[0].where
        )
        return
    removed = cut_before(folder / LOG, version)
    if removed:
        logger.info("%s: removed %d commits, up to version %d", name, removed, version - 1)
