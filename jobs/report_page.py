"""The report as text: rows -> view model -> one self-contained HTML page, and a summary for the terminal. Pure Python.

Whatever the size of the fleet, the page stays below ``MOST_BYTES``: first come the fleet's figures, then a line for every group,
then the details of the worst groups as far as they fit. It says what it leaves out.

The page holds no address of anything outside itself, and a policy that forbids loading one: styles and the one script
are inline and named by their hash, so that markup in a group's name, if it ever got through the escaping, could not run.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from jobs.reporting import fleet
from jobs.reporting.figures import EN_DASH, Figure, count, cut, moment, visible, words
from jobs.reporting.groups import finding_views, group_lines, group_views, worst_first
from jobs.reporting.strategies import FLEET_COLUMNS, compare
from jobs.reporting.timeline import CONFORMANCE_MARKS
from jobs.reporting.view import Count, GroupLine, GroupView, Page, ReportRows, reasons
from schemas.vocabulary import Outcome

MOST_BYTES = 8_000_000
"""Of a page: beyond it, browsers take seconds to open one, and mail does not carry it."""

MOST_LINE_BYTES, MOST_FINDING_BYTES = 5_000_000, 1_500_000
"""Of that, for the lines of the groups, and for the list of findings."""

TEXT_GROUPS, LONGEST_TEXT_NAME = 10, 48
"""What the summary for the terminal shows: so many groups, names cut to so many characters."""

_LINK_BYTES = 100  # what a line grows by, and its end, when the group's details are on the page

_TEMPLATES = files("jobs").joinpath("templates")


@dataclass(frozen=True)
class Document:
    """One HTML file, and what it holds.

    Attributes:
        listed: number of groups that have a line: the first of ``Page.groups``.
        detailed: anchors of the groups whose details are in it.
    """

    html: str
    listed: int
    detailed: frozenset[str]


def build_page(rows: ReportRows, as_of: datetime, summary: Mapping[str, Any] | None = None) -> Page:
    """Return everything that the report says about these rows; their order does not matter.

    Args:
        rows: what was collected.
        as_of: the run's clock, with a time zone.
        summary: the run that made the tables, keyed as the columns of ``runs``: ``run_id`` and ``input_counts`` are shown.
    """
    rows = _all_printable(rows)
    summary = _printable(summary or {})
    lines = group_lines(rows.ranked)
    findings = finding_views(rows.findings, lines)
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
        groups=lines,
        group_total=sum(row["group_count"] for row in rows.groups),
        worst=group_views(rows, lines, findings),
        findings=findings,
        finding_total=sum(int(line.groups.value or 0) for line in rules),
    )


def build_views(rows: ReportRows, lines: Sequence[GroupLine]) -> tuple[GroupView, ...]:
    """Return everything about the groups of ``rows`` that have details; ``lines`` are these groups as the page lists them, in its order."""
    rows = _all_printable(rows)
    return group_views(rows, lines, finding_views(rows.findings, lines))


def _inputs(summary: Mapping[str, Any]) -> tuple[Count, ...]:
    """Return the records read and where they ended, in the order in which that happens."""
    counts = summary.get("input_counts") or {}
    return tuple(Count(name, count(counts[name])) for name in ("read", *(str(word) for word in Outcome)) if name in counts)


def _input_kinds(summary: Mapping[str, Any]) -> tuple[Count, ...]:
    """Return the same by source and kind: the counts whose names have dots."""
    counts = summary.get("input_counts") or {}
    return tuple(Count(name.replace(".", " \N{MIDDLE DOT} "), count(counts[name])) for name in sorted(counts) if "." in name)


def _all_printable(rows: ReportRows) -> ReportRows:
    """Return the rows with the groups in the order of the ranking, which is that of their real names, and everything in them printable."""
    rows = replace(rows, ranked=sorted(rows.ranked, key=worst_first))
    return ReportRows(**{field.name: _printable(getattr(rows, field.name)) for field in fields(rows)})


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, Mapping):
        return {_printable(key): _printable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_printable(item) for item in value]
    return value


def render(page: Page, details: str = "") -> Document:
    """Return the page as one HTML document.

    Args:
        page: what it can say; the groups' lines and details are left out from where they do not fit.
        details: address, from the page, of the folder in which groups have pages of their own; empty when they have none.
    """
    environment = _environment()
    line, found, section, frame = (environment.get_template(f"{name}.html.j2") for name in ("line", "finding", "group", "report"))
    shared = {"page": page, "has_clusters": len(page.clusters) > 1, "details": details}
    lines = [
        line.render(shared, group=group, section=False, href=f"{details}/{group.anchor}.html" if details else "") for group in page.groups
    ]
    listed = _fitting(lines, MOST_LINE_BYTES)
    del lines[listed:]
    anchors = {group.anchor for group in page.groups[:listed]}
    findings = [found.render(shared, finding=finding, anchors=anchors) for finding in page.findings]
    del findings[_fitting(findings, MOST_FINDING_BYTES) :]
    shared |= {"listed": listed, "findings": _joined(findings), "finding_count": len(findings)}
    of_frame = frame.render(shared, rows="", sections="", detailed=0)
    left = MOST_BYTES - _size(of_frame) - sum(_size(text) + 1 for text in lines)
    sections: dict[str, str] = {}
    for view in (view for view in page.worst if view.line.rank <= listed):
        text = section.render(shared, group=view, back="#groups")
        if _size(text) + _LINK_BYTES <= left:
            left -= _size(text) + _LINK_BYTES
            sections[view.line.anchor] = text
            lines[view.line.rank - 1] = line.render(shared, group=view.line, section=True, href=f"#{view.line.anchor}")
    html = frame.render(shared, rows=_joined(lines), sections=_joined(sections.values()), detailed=len(sections))
    return Document(html, listed, frozenset(sections))


def render_group(page: Page, view: GroupView, report: str) -> str:
    """Return a page of its own for one group; ``report`` is the address from there of the page that lists them all."""
    template = _environment().get_template("single.html.j2")
    return template.render(page=page, group=view, has_clusters=True, back=f"{report}#{view.line.anchor}")


def _fitting(texts: Iterable[str], most: int) -> int:
    """Return how many of the first texts have at most so many bytes together, each with the end of its line."""
    number = 0
    for text in texts:
        most -= _size(text) + 1
        if most < 0:
            break
        number += 1
    return number


def _joined(texts: Iterable[str]) -> Markup:
    return Markup("\n").join(map(Markup, texts))


def _size(text: str) -> int:
    return len(text.encode())


@cache
def _environment() -> Environment:
    """Return the templates: compiled once, since a fleet has thousands of pages."""
    environment = Environment(
        loader=FunctionLoader(_source), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, auto_reload=False
    )
    style, script = _source("report.css"), _source("report.js")
    environment.globals |= {
        "style": Markup(style),
        "script": Markup(script),
        "policy": f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action 'none'",
        "conformances": fleet.CONFORMANCES,
        "marks": CONFORMANCE_MARKS,
        "dash": EN_DASH,
        "words": words,
        "cut": cut,
        "reasons": reasons,
    }
    return environment


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
        *_table(page.groups[:TEXT_GROUPS]),
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


def _table(worst: Sequence[GroupLine]) -> list[str]:
    """Return the ranking with columns aligned; numbers to the right, names cut."""
    if not worst:
        return ["  no groups"]
    header = ["#", "group", "cluster", "strategy", "critical", "warning", "avoidable", "movements", "imbalance"]
    cells = [header]
    for group in worst:
        figures: list[Figure] = [group.critical, group.warning, group.avoidable, group.movements, group.imbalance]
        names = [group.group_id, group.cluster_id, group.strategy]
        cells.append([str(group.rank), *(cut(name, LONGEST_TEXT_NAME) for name in names), *(figure.text for figure in figures)])
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    is_name = [1 <= column <= 3 for column in range(len(header))]
    return [
        "  "
        + "  ".join(
            cell.ljust(width) if left else cell.rjust(width) for cell, width, left in zip(row, widths, is_name, strict=True)
        ).rstrip()
        for row in cells
    ]
