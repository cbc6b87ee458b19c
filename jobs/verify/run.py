"""Verification: log, files and rows of a warehouse -> their damage. Changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from jobs.runtime.errors import NotAWarehouseError, WarehouseDamagedError
from jobs.runtime.file_lock import shared
from jobs.runtime.locations import RUN_LOCK, is_table
from jobs.runtime.log_format import show_progress
from jobs.storage.lease import wait_until_free
from jobs.storage.warehouse import Warehouse
from jobs.verify.damage import LEAVES_ROWS_READABLE, in_order, unreadable
from jobs.verify.folder import Checked, check_folder
from jobs.verify.invariants import MOST_GROUPS, check_rows
from jobs.verify.remote import check_tables
from schemas.tables import CONTRACT_VERSION, RUNS, TABLES
from schemas.vocabulary import RunStatus

ADVICE_PAGE = "docs/recovery.md"


def run(warehouse: Warehouse, now: Callable[[], datetime], wait_seconds: float, *, all_groups: bool = False) -> str:
    """Return the summary of a sound warehouse.

    Args:
        all_groups: unpack the holdings of every group, not of a sample.

    Raises:
        NotAWarehouseError: there is none.
        WarehouseBusyError: a run is in progress and changes the tables.
        WarehouseDamagedError: the findings have been printed, one on each line.
    """
    if not _is_there(warehouse):
        raise NotAWarehouseError(f"warehouse {warehouse.location}: no tables here; name another location with --warehouse")
    with _undisturbed(warehouse, now, wait_seconds):
        checked = check_folder(warehouse.folder) if warehouse.folder is not None else check_tables(warehouse)
        show_progress("verify: comparing the rows with each other")
        _check_invariants(warehouse, checked, None if all_groups else MOST_GROUPS)
    damages = in_order(checked.damages)
    for damage in damages:
        print(damage)
    summary = summary_of(checked)
    if damages:
        print(summary)
        where = ", ".join(sorted({damage.table for damage in damages}))
        raise WarehouseDamagedError(
            f"{warehouse.location}: {_findings(len(damages))} in {where}; {ADVICE_PAGE} describes what to do about each"
        )
    return summary


@contextmanager
def _undisturbed(warehouse: Warehouse, now: Callable[[], datetime], wait_seconds: float) -> Iterator[None]:
    """Keep runs out; if the warehouse has a lease, which a reader cannot take, check that no run has it before and after."""
    folder = warehouse.lockable_folder
    if folder is not None:
        with shared(folder, RUN_LOCK, wait_seconds, now):
            yield
        return
    wait_until_free(warehouse.spark, warehouse.location, wait_seconds, now)
    yield
    wait_until_free(warehouse.spark, warehouse.location, 0, now)


def _is_there(warehouse: Warehouse) -> bool:
    """Return whether any table exists: a warehouse without its table ``runs`` is damaged, not missing."""
    folder: Path | None = warehouse.folder
    if folder is not None:
        return any(is_table(folder / name) for name in TABLES)
    return warehouse.exists() or any(warehouse.known_version(name) is not None for name in TABLES)


def _check_invariants(warehouse: Warehouse, checked: Checked, most_groups: int | None) -> None:
    what = "whether the rows agree with each other"
    others = sorted(checked.contracts - {str(CONTRACT_VERSION)})
    if any(damage.code not in LEAVES_ROWS_READABLE for damage in checked.damages):
        checked.skipped.append(f"{what}: log or files are damaged; repair these first")
        return
    if others:
        migrated = "; the next run migrates them" if all(map(str.isdecimal, others)) else ""
        checked.skipped.append(f"{what}: tables of contract version {', '.join(others)}, this release has {CONTRACT_VERSION}{migrated}")
        return
    try:
        published = None if warehouse.newest_run(RunStatus.PUBLISHED) is None else warehouse.read_published()
    except Exception as error:  # as above
        checked.damages.append(unreadable(RUNS.name, None, "", error))
        checked.skipped.append(f"{what}: {RUNS.name} cannot be read")
        return
    if published is None:
        checked.skipped.append(f"{what}: nothing is published yet")
        return
    damages, count = check_rows(warehouse, published, most_groups)
    checked.damages += damages
    checked.count("invariants", count)


def _findings(number: int) -> str:
    return "1 finding" if number == 1 else f"{number} findings"


def summary_of(checked: Checked) -> str:
    """Return one line with what was checked, after a line for each check that was not made."""
    counts = ", ".join(f"{count:,} {what}" for what, count in checked.counts.items())
    verdict = "sound" if not checked.damages else _findings(len(checked.damages))
    return "\n".join([*(f"not checked: {what}" for what in checked.skipped), f"checked {counts}: {verdict}"])
