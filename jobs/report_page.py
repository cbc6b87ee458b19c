"""The report as text: rows -> view model -> one self-contained HTML page, and a summary for the terminal. Pure Python.

The page holds no address of anything outside itself, and a policy that forbids loading one: styles and the one script
are inline and named by their hash, so that markup in a group's name, if it ever got through the escaping, could not run.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from jobs.reporting import fleet
from jobs.reporting.figures import EN_DASH, Figure, count, moment, visible, words
from jobs.reporting.groups import anchors, finding_views, group_views, worst_first
from jobs.reporting.strategies import FLEET_COLUMNS, compare
from jobs.reporting.timeline import CONFORMANCE_MARKS
from jobs.reporting.view import Count, GroupView, Page, ReportRows
from schemas.vocabulary import Outcome

_TEMPLATES = files("jobs").joinpath("templates")


def build_page(rows: ReportRows, as_of: datetime, summary: Mapping[str, Any] | None = None) -> Page:
    """Return everything that the report says about these rows; their order does not matter.

    Args:
        rows: what was collected.
        as_of: the run's clock, with a time zone.
        summary: the run that made the tables, keyed as the columns of ``runs``: ``run_id`` and ``input_counts`` are shown.
    """
    rows = ReportRows(**{field.name: _printable(getattr(rows, field.name)) for field in fields(rows)})
    summary = _printable(summary or {})
    ranking = sorted(rows.worst, key=worst_first)
    findings = finding_views(rows.findings, anchors(ranking))
    rules = fleet.rule_lines(rows.findings)
    return Page(
        as_of=moment(as_of),
        run_id=summary.get("run_id") or EN_DASH,
        clusters=tuple(sorted({row["cluster_id"] for row in rows.groups})),
        inputs=_inputs(summary),
        input_kinds=_input_kinds(summary),
        headline=fleet.headline(rows),
        conformance=fleet.conformance(rows.tallies),
        statuses=fleet.statuses(rows.tallies),
        severities=fleet.severities(rules),
        rules=rules,
        imbalance=fleet.imbalance(rows.groups),
        strategies=compare(rows.tallies, FLEET_COLUMNS),
        worst=group_views(rows, ranking, findings),
        findings=findings,
        finding_total=sum(int(line.groups.value or 0) for line in rules),
    )


def _inputs(summary: Mapping[str, Any]) -> tuple[Count, ...]:
    """Return the records read and where they ended, in the order in which that happens."""
    counts = summary.get("input_counts") or {}
    return tuple(Count(name, count(counts[name])) for name in ("read", *(str(word) for word in Outcome)) if name in counts)


def _input_kinds(summary: Mapping[str, Any]) -> tuple[Count, ...]:
    """Return the same by source and kind: the counts whose names have dots."""
    counts = summary.get("input_counts") or {}
    return tuple(Count(name.replace(".", " \N{MIDDLE DOT} "), count(counts[name])) for name in sorted(counts) if "." in name)


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, Mapping):
        return {_printable(key): _printable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_printable(item) for item in value]
    return value


def to_html(page: Page) -> str:
    """Return the page as one HTML document."""
    environment = Environment(
        loader=FunctionLoader(_source), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, auto_reload=False
    )
    style, script = _source("report.css"), _source("report.js")
    return environment.get_template("report.html.j2").render(
        page=page,
        style=Markup(style),
        script=Markup(script),
        policy=f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action 'none'",
        conformances=fleet.CONFORMANCES,
        marks=CONFORMANCE_MARKS,
        dash=EN_DASH,
        words=words,
    )


def _source(name: str) -> str:
    return _TEMPLATES.joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return the policy's name for an inline block: it covers every character between the tags."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def to_text(page: Page, path: str) -> str:
    """Return the summary for the terminal: the fleet, the worst groups as a table, and ``path`` as the last line."""
    totals = {figure.name: figure.figure for figure in page.headline}
    noted = {name: figure.text + (f" ({figure.note})" if figure.note else "") for name, figure in totals.items()}
    lines = [
        f"Evenkeel report as of {page.as_of} UTC, run {page.run_id}",
        f"  groups       {noted['groups']} with {noted['members']} members now and {noted['generations']} generations; "
        f"clusters {', '.join(page.clusters) or EN_DASH}",
        f"  movements    {noted['movements']}; avoidable {noted['avoidable']}",
        f"  revocations  {noted['revocations']}; if eager {totals['if eager'].text}, if cooperative {totals['if cooperative'].text}",
        f"  conformance  {_conformance_text(page)}",
        f"  findings     {', '.join(f'{severity.figure.text} {severity.name}' for severity in page.severities)}",
        "",
        *_table(page.worst),
        "",
        path,
    ]
    return "\n".join(lines)


def _conformance_text(page: Page) -> str:
    totals = {name: 0 for name in fleet.CONFORMANCES}
    for line in page.conformance:
        for part in line.counts:
            totals[part.name] += int(part.figure.value or 0)
    return ", ".join(f"{number:,} {words(name)}" for name, number in totals.items() if number) or "nothing compared"


_LONGEST_GROUP = 48


def _table(worst: Sequence[GroupView]) -> list[str]:
    """Return the ranking with columns aligned; numbers to the right, names cut."""
    if not worst:
        return ["  no groups"]
    header = ["#", "group", "cluster", "strategy", "critical", "warning", "avoidable", "movements", "imbalance"]
    cells = [header]
    for group in worst:
        figures: list[Figure] = [group.critical, group.warning, group.avoidable, group.movements, group.imbalance]
        names = [group.group_id, group.cluster_id, group.strategy]
        cells.append([str(group.rank), *(_cut(name) for name in names), *(figure.text for figure in figures)])
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    is_name = [1 <= column <= 3 for column in range(len(header))]
    return [
        "  "
        + "  ".join(
            cell.ljust(width) if left else cell.rjust(width) for cell, width, left in zip(row, widths, is_name, strict=True)
        ).rstrip()
        for row in cells
    ]


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST_GROUP else f"{name[: _LONGEST_GROUP - 1]}\N{HORIZONTAL ELLIPSIS}"
