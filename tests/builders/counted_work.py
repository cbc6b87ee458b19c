"""Counts what a run costs whatever it reads: Spark jobs, and rows written aside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs.storage.scratch import Scratch


@dataclass
class Work:
    """What was done between two moments.

    Attributes:
        jobs: Spark jobs, those of Delta and of adaptive execution too.
        staged: names of rows that were written to scratch.
    """

    jobs: int
    staged: list[str]


@contextmanager
def counted_work(spark: SparkSession) -> Iterator[Work]:
    """Yield what is done within; complete at the end."""
    scheduler = spark.sparkContext._jsc.sc().dagScheduler()
    work, materialize = Work(-scheduler.numTotalJobs(), []), Scratch._materialize

    def note(scratch: Scratch, name: str, rows: Any) -> Any:
        work.staged.append(name)
        return materialize(scratch, name, rows)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Scratch, "_materialize", note)
        yield work
    work.jobs += scheduler.numTotalJobs()
