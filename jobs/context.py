"""What every stage of one run shares."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

from pyspark.sql import SparkSession

from jobs.captures import Capture
from jobs.warehouse import Warehouse
from schemas.config import Settings

logger = logging.getLogger(__name__)


@dataclass
class RunContext:
    """One run: where it works, with which settings, at which moment, and what it has counted so far.

    Attributes:
        as_of: the run's clock, aware UTC.
        captures: the inputs, recognised.
        cluster_id_flag: ``--cluster-id``, which beats the captures' own; None when not given.
        input_counts: records by where they ended, filled by land.
        consumed: by table the run_sequence up to which its rows have been used; starts with the last run's.
        written_before: by table the last run before this one that wrote rows.
    """

    spark: SparkSession
    warehouse: Warehouse
    settings: Settings
    run_id: str
    as_of: datetime
    captures: tuple[Capture, ...] = ()
    cluster_id_flag: str | None = None
    input_counts: dict[str, int] = field(default_factory=dict)
    consumed: dict[str, int] = field(default_factory=dict)
    written_before: dict[str, int] = field(default_factory=dict)

    @property
    def run_sequence(self) -> int:
        """Return the number of this run."""
        return self.warehouse.run_sequence

    @property
    def written(self) -> dict[str, int]:
        """Return by table the last run that wrote rows, this one included."""
        return {**self.written_before, **{name: self.run_sequence for name, rows in self.warehouse.rows_written.items() if rows}}

    def unread(self, table: str) -> int | None:
        """Return the run_sequence behind which a table's rows have not been used; None when all have."""
        consumed = self.consumed.get(table, 0)
        return consumed if self.written.get(table, 0) > consumed else None


@contextmanager
def stage_timer(name: str) -> Iterator[None]:
    """Say which stage begins, and how long it took when it ends."""
    started = time.monotonic()
    if sys.stderr.isatty():
        print(f"evenkeel: {name} ...", end="\r", file=sys.stderr, flush=True)
    yield
    logger.info("%-8s %6.1f s", name, time.monotonic() - started)
