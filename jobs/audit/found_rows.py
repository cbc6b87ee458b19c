"""Facts of generations, judged by workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa
from pyspark.sql import DataFrame

from jobs.context import RunContext
from schemas.staging import FOUND_ROWS
from schemas.tables import FINDINGS


def found_in(context: RunContext, facts: DataFrame, find: Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]) -> DataFrame:
    """Return the findings in some facts: rows of schemas.tables.FINDINGS.

    Few generations have facts to judge. Their rows come from as many partitions as a shuffle has, and each would start a task of workers,
    which takes longer than judging thousands of rows. So they are brought together first.

    Args:
        find: a function of ``jobs.audit.udfs`` that gives rows of ``FOUND_ROWS``.
    """
    return context.rows_of(FINDINGS, facts.hint("rebalance").mapInArrow(find, FOUND_ROWS))
