"""One run from lock to publication: the stages in order, and one row in ``runs`` at its end."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Row, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from jobs import gates
from jobs.assign import run as assign
from jobs.context import (
    MetadataIndex,
    Request,
    RunContext,
    RunState,
    input_fingerprint,
    settings_fingerprint,
    software_versions,
    stage_timer,
)
from jobs.decoders.captures import content_digest
from jobs.decoders.describe_rows import WAYS_OUT
from jobs.findings.rule import counted
from jobs.maintain import run as maintain
from jobs.options import AssignOptions, LandOptions, MaintainOptions, PageOptions, VerifyOptions
from jobs.preflight import check_names, check_reach
from jobs.report import run as report
from jobs.runtime.errors import (
    GateFailedError,
    LeaseLostError,
    NotAWarehouseError,
    RunIdReusedError,
    StageFailedError,
    WarehouseExchangedError,
    explain,
)
from jobs.runtime.interruption import TableState
from jobs.runtime.jvm import SPARK_ERRORS, STORAGE_ERRORS, is_lasting
from jobs.runtime.log_format import answer
from jobs.runtime.output_files import page_file
from jobs.runtime.run_options import WaitOptions
from jobs.sql import run as sql
from jobs.sql.options import SqlOptions
from jobs.storage import migrations
from jobs.storage.holding import exclusive_warehouse
from jobs.storage.published_views import prepare_views, publish_views
from jobs.storage.warehouse import Warehouse
from jobs.verify import run as verify
from jobs.work import Stage, Work, work_of
from schemas.tables import FINDINGS, RUNS
from schemas.vocabulary import EXPIRED, RunStatus, Source

logger = logging.getLogger(__name__)


def execute(spark: SparkSession, request: Request) -> str | None:
    """Return the summary of the report, or of what was verified; None for commands without one.

    Raises:
        EvenkeelError: one of its kinds; the tables are then as before, or the next run restores them.
    """
    try:
        return _execute(spark, request)
    except STORAGE_ERRORS as error:  # outside the stages: at the lock, the row in runs, the report
        raise StageFailedError(f"{request.command.name} on {request.settings.warehouse}: {explain(error)}") from error


def _execute(spark: SparkSession, request: Request) -> str | None:
    check_names(spark, (request.settings.warehouse, *(capture.path for capture in request.captures)))
    warehouse = Warehouse(spark, request.settings.warehouse)
    options, maintained = request.options, MaintainOptions.of(request.options)
    if isinstance(options, VerifyOptions):
        return verify.run(warehouse, request.now, options.wait, all_groups=options.all_groups)
    warehouse.check_location()
    if not request.command.lands and not warehouse.exists():
        raise NotAWarehouseError(
            f"warehouse {warehouse.location}: no tables here; land captures first, or name another location with --warehouse"
        )
    migrations.refuse_newer(warehouse)
    if isinstance(options, SqlOptions):
        return sql.answer_query(warehouse, options)
    if not request.command.stages:
        published = warehouse.read_published()
        run = {"run_id": published["run_id"], "input_counts": dict(published["input_counts"])}
        return _report(warehouse, request, run, dict(published["table_versions"]), published["finished_at"].astimezone())
    if isinstance(options, AssignOptions) and options.expand:
        warehouse.read_published()
        path = Path(options.output) if options.output else None
        return assign.expand(warehouse, options.expand, options.cluster_id, options.since, path)
    work = work_of(request)
    if work.check is not None:
        work.check(spark)
    dropped = maintained.drop_cluster
    if dropped is not None and (maintained.dry_run or warehouse.run_named(request.run_id) is None):  # else the cluster is already removed
        counts = _rows_to_drop(spark, request, dropped)
        if maintained.dry_run:
            return maintain.counts_in_lines(dropped, counts)
    started_at = request.now()
    with exclusive_warehouse(warehouse, request.run_id, started_at, WaitOptions.of(options).wait, request.now) as check_hold:
        with stage_timer("open"):
            check_reach(warehouse.spark, warehouse.folder, (capture.path for capture in request.captures))
            # Checked first: only a run that adds a row to ``runs`` restores tables after another run, and migrates them.
            before = warehouse.run_named(request.run_id) if warehouse.exists() else None
            if before is None:
                request.interruption.tables = TableState.UNPUBLISHED
                _open(warehouse, work.optional_tables)
        return _run(warehouse, request, work, started_at, check_hold) if before is None else _repeat(warehouse, request, work, before)


def _rows_to_drop(spark: SparkSession, request: Request, cluster_id: str) -> dict[str, int]:
    """Return the number of published rows of a cluster by table.

    Raises:
        UsageError: the cluster has no rows.
    """
    published = Warehouse(spark, request.settings.warehouse)  # a run reads the newest versions instead
    published.read_published()
    return maintain.row_counts(published, cluster_id)


def _open(warehouse: Warehouse, optional: Collection[str]) -> None:
    """Make missing tables, restore what a dead run left, and migrate.

    Args:
        optional: the optional tables that the run writes.
    """
    try:
        warehouse.create(optional)
    except SPARK_ERRORS as error:
        if is_lasting(error):
            raise NotAWarehouseError(f"warehouse {warehouse.location}: cannot be opened: {explain(error)}") from error
        raise StageFailedError(f"open: warehouse {warehouse.location}: {explain(error)}; run again") from error
    try:
        warehouse.recover()
        migrations.migrate(warehouse)
    except SPARK_ERRORS as error:  # a second try may succeed: the tables are there, and some may be restored already
        raise StageFailedError(f"open: {explain(error)}; run again: the next run continues it") from error


def _repeat(warehouse: Warehouse, request: Request, work: Work, before: Row) -> str | None:
    """Return the summary of a run that is already published; change no table.

    Args:
        before: its row in ``runs``.

    Raises:
        RunIdReusedError: it was another run.
    """
    given = (input_fingerprint(request, map(content_digest, request.captures)), settings_fingerprint(request))
    if (before["input_fingerprint"], before["settings_fingerprint"]) != given:
        raise RunIdReusedError(f"run id {request.run_id} was used before with other input or settings; choose another --run-id")
    logger.info("run %s is already published: nothing to do", request.run_id)
    warehouse.read_published()
    _tidy(warehouse)  # the run may have been killed before it did so
    request.facts.update(run_id=request.run_id, run_sequence=before["run_sequence"], status=before["status"])
    return _summarise(warehouse, request, work, before["run_sequence"], before, dict(before["table_versions"]))


def _summarise(
    warehouse: Warehouse, request: Request, work: Work, run_sequence: int, counts: Row | Mapping[str, Any], versions: dict[str, int]
) -> str | None:
    """Return the last output of a published run: the summary of its report if it makes one, or what it has saved or removed.

    Args:
        counts: ``input_counts`` and ``output_counts`` of its row in ``runs``.
    """
    if work.in_words is not None:
        return work.in_words(dict(counts["output_counts"]))
    run = {"run_id": request.run_id, "input_counts": dict(counts["input_counts"])}
    summary = _report(warehouse, request, run, versions) if request.command.makes_report else None
    _check_fail_on(warehouse, request, run_sequence, summary)
    return summary


def _run(warehouse: Warehouse, request: Request, work: Work, started_at: datetime, check_hold: Callable[[], None]) -> str | None:
    newest = warehouse.newest_run()
    published = newest
    if newest is not None and newest["status"] != RunStatus.PUBLISHED:
        published = warehouse.newest_run(RunStatus.PUBLISHED)
    warehouse.run_sequence = (newest["run_sequence"] if newest is not None else 0) + 1
    warehouse.run_id = request.run_id
    digests = {capture: content_digest(capture) for capture in request.captures}
    state = RunState.noted(published)
    context = RunContext(
        warehouse,
        request.settings,
        request.run_id,
        request.as_of,
        MetadataIndex(warehouse),
        digests,
        LandOptions.of(request.options).cluster_id,
        request.live,
        LandOptions.of(request.options).as_new_cluster,
        before=state,
        state=state,
    )
    row = {
        "run_id": request.run_id,
        "run_sequence": warehouse.run_sequence,
        "command": request.command.name,
        "started_at": started_at,
        "warehouse_id": warehouse.identity,
        "input_fingerprint": input_fingerprint(request, digests.values()),
        "settings_fingerprint": settings_fingerprint(request),
        "software_versions": software_versions(context.spark),
    }
    try:
        for name, stage in work.stages.items():
            context = _run_stage(name, stage, context)
            if name == "land":
                _log_input(context)
                gates.check_quarantine(context)  # before hours are spent on rows that will not be published
        with stage_timer("gates"):
            results = gates.run(context, request.conf_folder)
        check_hold()
        versions = warehouse.verify_own_versions()
        prepare_views(warehouse, versions)
        check_hold()
        with _uninterrupted():
            _close(context, request, row, RunStatus.PUBLISHED, versions, results)
            request.interruption.tables = TableState.PUBLISHED
        request.facts["input_counts"] = {name: count for name, count in context.input_counts.items() if "." not in name}
    except BaseException as error:
        _undo(context, request, row, error, check_hold)
        raise
    _tidy(warehouse)
    if work.after is not None:
        _after(work.after, context, request.now())
    counts = {"input_counts": context.input_counts, "output_counts": request.facts["output_counts"]}
    return _summarise(warehouse, request, work, warehouse.run_sequence, counts, versions)


def _tidy(warehouse: Warehouse) -> None:
    """Finish a published run: make a catalog's views read only the published versions, and remove scratch.

    If another run has taken over by now, this is left to it: views and scratch may be its own.
    """
    try:
        publish_views(warehouse)
        warehouse.clear_staging()
    except (LeaseLostError, WarehouseExchangedError) as error:
        logger.warning("the run is published, but views and scratch were left as they are: %s", error)
        warehouse.read_published()


def _run_stage(name: str, stage: Stage, context: RunContext) -> RunContext:
    """Run one stage; return the run after it."""
    with stage_timer(name):
        try:
            return context.after(stage(context))
        except SPARK_ERRORS as error:
            raise StageFailedError(f"{name}: {explain(error)}") from error


def _after(act: Callable[[RunContext, datetime], None], context: RunContext, now: datetime) -> None:
    """Do what follows publication. Old files can only go then: until then a failure restores older versions of the tables."""
    with stage_timer("vacuum"):
        try:
            act(context, now)
        except SPARK_ERRORS as error:
            raise StageFailedError(f"published, but vacuum failed: {explain(error)}; the next maintain continues it") from error


def _log_input(context: RunContext) -> None:
    counts = context.input_counts
    order = ("landed", "duplicate", "skipped", "quarantined")
    logger.info("%d records read: %s", counts["read"], ", ".join(f"{counts[outcome]} {outcome}" for outcome in order))
    for key, count in sorted(counts.items()):
        source, _, rest = key.partition(".")
        outcome, _, kind = rest.partition(".")
        if outcome == "skipped" and kind.startswith("classic_group_metadata:"):
            logger.info("%s: skipped %d records of groups with protocol type '%s'", source, count, kind.partition(":")[2])
        if outcome == "skipped" and source == Source.DESCRIBE and kind in WAYS_OUT:
            logger.warning("%s: skipped %d groups: %s", source, count, WAYS_OUT[kind])
        if outcome == "skipped" and kind == EXPIRED:
            kept_from = context.before.retained_from
            logger.info("%s: skipped %d records from before %s, the first month that maintain has kept", source, count, kept_from)
        if outcome == "quarantined" and kind:
            logger.warning("%s: %d records of kind %s went to quarantine; see the columns reason and detail there", source, count, kind)


def _undo(context: RunContext, request: Request, row: dict[str, Any], error: BaseException, check_hold: Callable[[], None]) -> None:
    """Restore the tables and add a row to ``runs``; the caller raises the error again.

    Not if another run holds the warehouse by now: it has already restored the tables, and newer versions are its own. Nor if the run was
    published in spite of the error.

    Raises:
        WarehouseExchangedError: the location has another warehouse, which is the cause of the error, whatever its text.
    """
    warehouse, status = context.warehouse, RunStatus.REFUSED if isinstance(error, GateFailedError) else RunStatus.FAILED
    try:
        check_hold()
        if warehouse.run_named(request.run_id) is not None:
            logger.debug("run %s was published before it failed", request.run_id)
            request.interruption.tables = TableState.PUBLISHED
            return
        versions = warehouse.recover()
        warehouse.rows_written.clear()
        undone = replace(context, state=context.before, output_counts={}, files=(), file_counts={})
        _close(undone, request, row, status, versions, [])
        request.interruption.tables = TableState.AS_BEFORE
        warehouse.clear_staging()
    except WarehouseExchangedError as exchanged:
        raise exchanged from error
    except Exception as failure:  # the first error is the one that counts
        if not isinstance(error, KeyboardInterrupt):  # else its own line says so
            logger.error("the tables could not be restored (%s); the next run will restore them", explain(failure))


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C until the block ends: Spark would finish a commit that Python has given up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asked: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: asked.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if asked:
        raise KeyboardInterrupt


def _close(
    context: RunContext,
    request: Request,
    row: dict[str, Any],
    status: RunStatus,
    versions: dict[str, int],
    results: list[gates.GateResult],
) -> None:
    """Append the run's row: the last commit, and for a published run the one that readers follow.

    Args:
        versions: of every table at the end of the run.
    """
    warehouse = context.warehouse
    complete = {
        **row,
        "finished_at": request.now(),
        "status": str(status),
        **vars(context.state),
        "written": context.written,
        "input_counts": context.input_counts,
        "output_counts": {**warehouse.rows_written, **context.output_counts},
        "files": context.files,
        "file_counts": context.file_counts,
        "table_versions": versions,
        "gates": [asdict(result) for result in results],
    }
    # By Arrow: Python rows would cost one more second of class loading, and a null would have no type.
    row_schema = to_arrow_schema(RUNS.schema)
    request.facts.update({name: complete[name] for name in ("run_id", "run_sequence", "status", "output_counts")})
    warehouse.close(context.spark.createDataFrame(pa.Table.from_pylist([complete], row_schema), RUNS.schema))


def _report(
    warehouse: Warehouse, request: Request, summary: dict[str, Any], versions: dict[str, int], published_at: datetime | None = None
) -> str:
    """Write the report and return its summary; a run that has changed no table keeps an existing report.

    Args:
        versions: of every table.
        published_at: when the run ended that the report is of; None if it is this one.
    """
    with stage_timer("report"):
        request.facts["report"] = str(page_file(request.settings.report))
        is_json = PageOptions.of(request.options).json
        return report.run(warehouse, request.settings, request.as_of, summary, versions, published_at=published_at, is_json=is_json)


def _check_fail_on(warehouse: Warehouse, request: Request, run_sequence: int, summary: str | None) -> None:
    """Raise GateFailedError if a published run has new serious findings; a repeated call for the same run raises it again."""
    limit = request.settings.quality.fail_on
    count = 0 if limit is None else gates.count_serious(warehouse, limit, run_sequence)
    if count:
        if summary is not None:
            answer(summary)
        found = counted(count, "finding is", "findings are")
        raise GateFailedError(f"published, but {found} of severity {limit} or above (--fail-on); see the table {FINDINGS.name}")
