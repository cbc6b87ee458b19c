"""Exclusive use of a warehouse by one run: with a file lock if it is a folder, with a lease elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial

from jobs.runtime.file_lock import LONGEST_COMMIT_SECONDS, exclusive, this_process
from jobs.runtime.jvm import jvm_pid
from jobs.runtime.locations import COMMIT_LOCK, RUN_LOCK
from jobs.storage.lease import leased
from jobs.storage.warehouse import Warehouse


@contextmanager
def exclusive_warehouse(
    warehouse: Warehouse, run_id: str, started_at: datetime, wait_seconds: float, now: Callable[[], datetime]
) -> Iterator[Callable[[], None]]:
    """Keep every other run out of the warehouse; yields a check to call before publication: the warehouse is still held, and the same.

    Raises:
        WarehouseBusyError: another run holds it.
    """
    holder = this_process(run_id, started_at, jvm_pid(warehouse.spark))
    folder = warehouse.lockable_folder
    if folder is None:
        with leased(warehouse.spark, warehouse.location, holder, wait_seconds, now) as lease:
            with warehouse.signed(run_id, lease.committing):
                yield partial(_check_all, lease.check, warehouse.check_identity)
        return
    with exclusive(folder, RUN_LOCK, holder, wait_seconds, now) as check_path:

        @contextmanager
        def committing() -> Iterator[None]:
            check_path()
            with exclusive(folder, COMMIT_LOCK, holder, LONGEST_COMMIT_SECONDS, now):
                yield

        with warehouse.signed(run_id, committing):
            yield partial(_check_all, check_path, warehouse.check_identity)


def _check_all(*checks: Callable[[], None]) -> None:
    for check in checks:
        check()
