"""Maintenance: retention of the history, OPTIMIZE of tables in many small files, VACUUM of files that nobody can be using.

A run like any other: it works on current versions under the lock, and its row in ``runs`` publishes them; what later runs go on from is
carried over unchanged. Readers of the versions before lose nothing: VACUUM comes behind that row, and only removes files that no
version has named for ``maintain.vacuum_hours``.
"""

from __future__ import annotations

import logging

from jobs.context import RunContext
from jobs.retention import drop_history
from schemas.tables import TABLES

logger = logging.getLogger(__name__)

MANY_FILES = 8
"""Files in one month, or in a table without months, from which on merging pays: each run adds one or two, and reads them all."""


def run(context: RunContext) -> None:
    """Drop old history, then merge small files; tables that need neither are not touched."""
    for name, rows in drop_history(context).items():
        context.output_counts[f"{name}.dropped"] = rows
        logger.info("%s: %d rows dropped", name, rows)
    for name in TABLES:
        context.warehouse.keep_files(name, context.settings.maintain.vacuum_hours)
        _merge_files(context, name)


def _merge_files(context: RunContext, name: str) -> None:
    warehouse = context.warehouse
    before = warehouse.file_counts(name)
    crowded = [folder for folder, count in before.items() if count >= MANY_FILES]
    if not crowded:
        return
    version = warehouse.version(name)
    warehouse.optimize(name, crowded)
    if warehouse.version(name) > version:
        counts = sum(before.values()), sum(warehouse.file_counts(name).values())
        context.output_counts.update({f"{name}.files_before": counts[0], f"{name}.files_after": counts[1]})
        logger.info("%s: %d files before, %d after", name, *counts)


def vacuum(context: RunContext) -> None:
    """Remove files that no version has named for long; to call once the run is published."""
    for name in TABLES:
        context.warehouse.vacuum(name)
