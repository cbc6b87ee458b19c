"""Gates: expectations on what a run wrote, checked before it is published, and its serious findings. The only import of great_expectations.

Each table has one suite, in ``conf/expectations/<table>.yaml``, for the rows of the run in progress. Only failed expectations are
counted. Results contain counts, never values of the data. Gates do not check that keys are unique, since that would shuffle every table:
landing writes each key once, and the audit's workers refuse a row that they read twice.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs.context import RunContext
from jobs.decoders.describe_model import NOT_A_TABLE_LINE
from jobs.land.refused_records import show_quarantine
from jobs.runtime.errors import GateFailedError, PlatformError
from jobs.storage.warehouse import Warehouse
from schemas.keys import GENERATION_KEY
from schemas.tables import ALL_TABLES, FINDINGS
from schemas.vocabulary import Outcome, Severity, Source

logger = logging.getLogger(__name__)

MOST_ROWS_OF_A_TASK = 300_000
"""Most rows of a table that one task checks."""


@dataclass(frozen=True)
class GateResult:
    """The result of one expectation for one table; the fields of ``runs.gates``."""

    suite: str
    table: str
    expectation: str
    severity: str
    success: bool
    unexpected_count: int | None


def read_suites(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the expectations by table: ``type``, ``severity`` and the arguments of the expectation.

    Raises:
        PlatformError: a file is not a suite; names the file and what is wrong.
    """
    suites = {}
    for path in sorted(folder.glob("*.yaml")):
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        if path.stem not in ALL_TABLES or not isinstance(content, list):
            raise PlatformError(f"{path}: expected a file with the name of a table that contains a list of expectations")
        for number, expectation in enumerate(content, 1):
            missing = {"type", "severity"} - set(expectation)
            if missing:
                raise PlatformError(f"{path}: expectation {number} lacks {', '.join(sorted(missing))}; expected both type and severity")
        suites[path.stem] = content
    return suites


def check_quarantine(context: RunContext) -> None:
    """Raise GateFailedError if too many landed records are in quarantine; shows these records. Nothing may be published then."""
    counts, limit = context.input_counts, context.settings.quality.max_quarantined_ratio
    if quarantined_ratio(counts) > limit:
        where = show_quarantine(context)
        raise GateFailedError(
            f"nothing was published: {counts['quarantined']} of {judged_count(counts)} records could not be used, more than "
            f"max_quarantined_ratio {limit:g} allows; {where}; correct the capture, or raise quality.max_quarantined_ratio"
        )


def judged_count(counts: Mapping[str, int]) -> int:
    """Return the number of records of which quarantine has a share: all but lines that other programs printed.

    Args:
        counts: see ``RunContext.input_counts``.
    """
    return counts.get("read", 0) - counts.get(f"{Source.DESCRIBE}.{Outcome.SKIPPED}.{NOT_A_TABLE_LINE}", 0)


def quarantined_ratio(counts: Mapping[str, int]) -> float:
    """Return the share of records that are in quarantine, from 0 to 1."""
    judged = judged_count(counts)
    return counts["quarantined"] / judged if judged else 0.0


def run(context: RunContext, conf_folder: Path) -> list[GateResult]:
    """Return the results over all tables that the run wrote to; empty when it wrote nothing.

    Raises:
        GateFailedError: a critical expectation failed; nothing may be published.
    """
    written = [name for name, rows in context.warehouse.rows_written.items() if rows]
    if not written:
        return []
    results: list[GateResult] = []
    suite_folder = conf_folder / "expectations"
    suites = read_suites(suite_folder)
    for name in written:
        if name in suites:
            rows = context.warehouse.read_new(name, context.run_sequence - 1)
            if context.warehouse.rows_written[name] <= MOST_ROWS_OF_A_TASK:
                rows = rows.coalesce(1)  # no shuffle: half the jobs
            results += _validate(name, suites[name], rows)
    logger.debug("gates: %d expectations on %s", len(results), ", ".join(written))
    failed = [result for result in results if not result.success]
    for result in failed:
        logger.warning(
            "gate %s on %s failed for %s rows (severity %s)", result.expectation, result.table, result.unexpected_count, result.severity
        )
    critical = [result for result in failed if result.severity == Severity.CRITICAL.value]
    if critical:
        named = ", ".join(f"{result.expectation} on {result.table} ({result.unexpected_count} rows)" for result in critical)
        raise GateFailedError(
            f"nothing was published, critical gates failed: {named}; correct the capture, or the expectations in {suite_folder}"
        )
    return results


def count_serious(warehouse: Warehouse, limit: Severity, run_sequence: int) -> int:
    """Return how many findings of a published run are new and of a severity or a worse one.

    A finding is not new if the run before had published one of its rule and severity for the same generation: only figures have changed,
    or the generation was audited again.
    """
    if warehouse.is_empty(FINDINGS.name):
        return 0
    is_serious = F.col("severity").isin([str(severity) for severity in Severity if severity.rank >= limit.rank])
    found = warehouse.read_new(FINDINGS.name, run_sequence - 1).where((F.col("run_sequence") == run_sequence) & is_serious)
    before = None if found.isEmpty() else warehouse.read_before(FINDINGS.name, run_sequence)
    if before is not None:
        found = found.join(before.where(is_serious), [*GENERATION_KEY, "rule_id", "severity"], "left_anti")
    return found.count()


def _validate(table: str, expectations: list[dict[str, Any]], rows: DataFrame) -> list[GateResult]:
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    import great_expectations as gx  # imported here: it costs seconds, and most commands do not need it
    from great_expectations.data_context.types.base import ProgressBarsConfig
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False, metric_calculations=False)
    source = context.data_sources.add_spark(table, persist=False)
    batch = source.add_dataframe_asset(table).add_batch_definition_whole_dataframe("rows").get_batch({"dataframe": rows})
    configured = [
        ExpectationConfiguration(
            type=expectation["type"],
            kwargs={name: value for name, value in expectation.items() if name not in ("type", "severity")},
            severity=expectation["severity"],
        )
        for expectation in expectations
    ]
    suite = gx.ExpectationSuite(name=table, expectations=[configuration.to_domain_obj() for configuration in configured])
    outcome = batch.validate(suite, result_format="BOOLEAN_ONLY")
    return [_result(table, result, batch) for result in outcome.results]


def _result(table: str, result: Any, batch: Any) -> GateResult:
    configuration = result.expectation_config
    if result.exception_info and result.exception_info.get("raised_exception"):
        logger.error("gate %s on %s could not be checked: %s", configuration.type, table, result.exception_info.get("exception_message"))
    unexpected_count = None
    if not result.success:
        unexpected_count = batch.validate(configuration.to_domain_obj(), result_format="SUMMARY").result.get("unexpected_count")
    column = configuration.kwargs.get("column")
    name = configuration.type if column is None else f"{configuration.type}({column})"
    return GateResult(table, table, name, Severity(configuration.severity).value, bool(result.success), unexpected_count)
