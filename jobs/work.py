"""What a command does between lock and publication: its stages, and what is particular to it before and after them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from pyspark.sql import SparkSession

from jobs.assign import run as assign
from jobs.audit import run as audit
from jobs.context import Request, RunContext, StageResult
from jobs.land import run as land
from jobs.maintain import run as maintain
from jobs.options import AssignOptions, MaintainOptions
from jobs.storage.warehouse import Warehouse
from jobs.what_if.options import WhatIfOptions
from schemas.tables import GROUP_EVENTS, REHEARSED_TABLES
from schemas.vocabulary import SOURCES_OF_EVENTS

Stage = Callable[[RunContext], StageResult]


@dataclass(frozen=True)
class Work:
    """What one request does in a run.

    Attributes:
        stages: name of a stage -> what runs it, in order.
        optional_tables: the optional tables that the run writes.
        check: raises before anything is written if the request cannot be served; None if only the stages can say.
        after: what follows publication; None for nothing. It gets the time.
        in_words: returns the last output of a published run from the counts of its rows; None if it makes a report.
    """

    stages: Mapping[str, Stage]
    optional_tables: Collection[str] = ()
    check: Callable[[SparkSession], None] | None = None
    after: Callable[[RunContext, datetime], None] | None = None
    in_words: Callable[[Mapping[str, int]], str] | None = None


def work_of(request: Request) -> Work:
    """Return what a request does in a run. Its command has stages."""
    if isinstance(request.options, WhatIfOptions):
        return _rehearsal(request, request.options)
    if "maintain" in request.command.stages:
        dropped = MaintainOptions.of(request.options).drop_cluster
        stages = {"maintain": partial(maintain.run, drop_cluster=dropped)}
        return Work(stages, after=maintain.vacuum, in_words=maintain.in_words)
    assigned = AssignOptions.of(request.options)
    known: dict[str, Stage] = {
        "land": land.run,
        "assign": partial(assign.run, recompute=assigned.recompute, since=assigned.since),
        "audit": audit.run,
    }
    has_events = any(capture.source in SOURCES_OF_EVENTS for capture in request.captures)
    return Work({name: known[name] for name in request.command.stages}, (GROUP_EVENTS.name,) if has_events else ())


def _rehearsal(request: Request, options: WhatIfOptions) -> Work:
    from jobs.what_if import save  # other commands do not need it

    def check(spark: SparkSession) -> None:
        published = Warehouse(spark, request.settings.warehouse)
        published.read_published()
        save.choose_groups(published, options)

    return Work(
        {"what_if": partial(save.run, options=options)},
        REHEARSED_TABLES,
        check,
        in_words=partial(save.saved_in_words, request.run_id),
    )
