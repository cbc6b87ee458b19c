"""The report stage: the fleet, every group from the worst on, and reasons, as one HTML page and a summary for the terminal.

Reads: generation_audits, findings, assignments, movements (current rows); offset_snapshots, topic_snapshots and group_records (lag,
deletions, age of the data); subscription_snapshots and generation_topics of the generations that are predicted.
Writes: the HTML file, further files for its lines, and on request pages of single groups and exports; no table.
Spark aggregates, and the driver collects only what is shown: one query for the lines of all groups, then one small query for each table for
the details of the worst groups.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jobs.pages.shell import MOST_BYTES
from jobs.report.collecting import collect_details, collect_rows
from jobs.report.exports import set_clock, write_exports
from jobs.report.note import Note, made_of, read_note
from jobs.report.page import build_page, build_views, design_digest, render, render_group
from jobs.report.queries import collect, condense_findings
from jobs.report.ranking import Ranking, newest_of, with_current
from jobs.report.summary import facts_of, next_command, to_json, to_text
from jobs.report.view import Page
from jobs.runtime.output_files import (
    PROMETHEUS_FILE,
    export_names,
    exports_folder,
    further_page,
    make_folder,
    page_file,
    remove_unfinished_outputs,
    write_output,
)
from jobs.runtime.session import compiled_queries
from jobs.storage.sql_literals import is_one_of
from jobs.storage.warehouse import Warehouse
from schemas.config import ReportSettings, Settings
from schemas.keys import GROUP_KEY
from schemas.tables import FINDINGS, GENERATION_AUDITS

logger = logging.getLogger(__name__)


GROUPS_AT_A_TIME = 100  # of those that get pages of their own
COMPILED_FROM = 100_000  # audits from which compiled queries are faster than interpreted ones: 6 µs an audit instead of 28


def run(
    warehouse: Warehouse,
    settings: Settings,
    as_of: datetime,
    summary: Mapping[str, Any] | None = None,
    versions: Mapping[str, int] | None = None,
    *,
    published_at: datetime | None = None,
    is_json: bool = False,
) -> str:
    """Write the report, its exports and its further pages. Return its summary, see ``jobs.report.summary``.

    Args:
        as_of: the run's clock, with a time zone.
        summary: the run that made the tables, keyed as the columns of ``runs``: ``run_id`` and ``input_counts`` are shown.
        versions: of the tables that are read.
        published_at: when an earlier run has published the tables; None for a run of now. A report of an earlier run replaces one of the
            same tables and settings, and has this clock for Prometheus: it must not hide that no run came after it. A run of now keeps such
            a report, and sets only its clock.
        is_json: whether the summary is one JSON object.

    Raises:
        EvenkeelError: a file of ``settings.report`` cannot be written.
    """
    content = made_of(versions or {}, settings.report, design_digest())
    facts = None if published_at is not None else _standing(settings.report, content)
    if facts is not None:
        if "prometheus" in settings.report.export:
            set_clock(exports_folder(settings.report) / PROMETHEUS_FILE, as_of)
        logger.info("report: kept %s, since no table has changed", page_file(settings.report).name)
    else:
        with _compiled_if_large(warehouse):
            facts = _write(warehouse, settings.report, as_of, summary, content, published_at or as_of)
    page, command = page_file(settings.report), next_command(facts, settings.warehouse)
    return to_json(facts, page, command) if is_json else to_text(facts, page, command)


def _compiled_if_large(warehouse: Warehouse) -> AbstractContextManager[None]:
    """Return a block in which Spark compiles its queries if there are many audits."""
    is_large = warehouse.count(GENERATION_AUDITS.name) >= COMPILED_FROM
    return compiled_queries(warehouse.spark) if is_large else nullcontext()


def _standing(settings: ReportSettings, content: str) -> Mapping[str, Any] | None:
    """Return the facts of the present report if it has this content and all its files, else None."""
    page = page_file(settings)
    note = read_note(page)
    if note is None or note.made_of != content:
        return None
    files = [further_page(page, number) for number in range(2, note.file_count + 1)]
    files += [exports_folder(settings) / name for name in export_names(settings.export)]
    files += [] if settings.group_pages is None else [Path(settings.group_pages)]
    return note.facts if all(path.exists() for path in files) else None


def _write(
    warehouse: Warehouse,
    wanted: ReportSettings,
    as_of: datetime,
    summary: Mapping[str, Any] | None,
    content: str,
    confirmed_at: datetime,
) -> Mapping[str, Any]:
    """Write the report; return its facts.

    Args:
        confirmed_at: the clock for Prometheus.
    """
    rows = collect_rows(warehouse, wanted)
    page = build_page(rows, as_of, summary)
    facts = facts_of(page)
    remove_unfinished_outputs(wanted)
    detailed = write_page(page, wanted, note=Note(content, facts))
    if wanted.group_pages is not None:
        _write_details(warehouse, wanted, rows.ranked, rows.newest_ms, page, detailed, Path(wanted.group_pages))
    for written in write_exports(warehouse, wanted.export, exports_folder(wanted), rows, confirmed_at):
        logger.info("report: wrote %s", written)
    return facts


def write_page(page: Page, settings: ReportSettings, most_bytes: int = MOST_BYTES, note: Note | None = None) -> Collection[str]:
    """Write the page and the further files of its lines; return the anchors of the groups whose details are in the page.

    The page is written last, since it names the other files.

    Raises:
        EvenkeelError: a file cannot be written.
    """
    path = page_file(settings)
    details = _address(Path(settings.group_pages), path.parent) if settings.group_pages is not None else ""
    document = render(page, details, path.name, most_bytes, note)
    for number, html in enumerate(document.further, 2):
        write_output([html], further_page(path, number))
    write_output([document.html], path)
    others = "".join(f" and {further_page(path, number).name}" for number, _ in enumerate(document.further, 2))
    listed, detailed = len(page.groups), len(document.detailed)
    plural = "" if listed == 1 else "s"
    logger.info("report: listed %d group%s in %s%s, %d of them with details", listed, plural, path.name, others, detailed)
    return document.detailed


def _write_details(
    warehouse: Warehouse,
    settings: ReportSettings,
    ranked: Ranking,
    newest_ms: Mapping[str, int],
    page: Page,
    detailed: Collection[str],
    folder: Path,
) -> None:
    """Write a page for each group without details in the report, some at a time, so the driver has only their rows in memory."""
    report = _address(page_file(settings), folder)
    make_folder(folder)  # also without pages: a report whose folder is missing is made anew by each run
    findings = warehouse.read(FINDINGS.name)
    others = [number for number, line in enumerate(page.groups) if line.anchor not in detailed and line.generations.value]
    for start in range(0, len(others), GROUPS_AT_A_TIME):
        numbers = others[start : start + GROUPS_AT_A_TIME]
        these = [ranked[number] for number in numbers]
        found = collect(condense_findings(findings.where(is_one_of(these, *GROUP_KEY))))
        rows = replace(collect_details(warehouse, settings, these, newest_ms), findings=with_current(found, newest_of(these)))
        for view in build_views(rows, [page.groups[number] for number in numbers]):
            write_output([render_group(page, view, report)], folder / f"{view.line.anchor}.html")
    logger.info("report: wrote %d pages of single groups to %s", len(others), folder)


def _address(path: Path, seen_from: Path) -> str:
    """Return the relative address of a file or folder, for a link in a page of the folder ``seen_from``."""
    return quote(Path(os.path.relpath(path, seen_from)).as_posix())
