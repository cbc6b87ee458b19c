"""The report as text: rows -> view model -> a self-contained HTML page, and a summary for the terminal. Pure Python.

For any size of the fleet, the page stays below ``MOST_BYTES``. It has the fleet's figures, a line for every group, and the details of the
worst groups, as many as fit. It says what it leaves out. Lines that do not fit go into further files.

Lines are packed data, and the script makes rows of them. The first lines are also rows, for readers without a script.

No file loads anything, and a policy in it forbids loading. Styles and the one script are inline, and the policy names them by their hash.
So markup in a group's name cannot run, even if it got through the escaping.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, Template
from markupsafe import Markup

from jobs.pages.figures import EN_DASH, count, moment, noun, visible, words
from jobs.pages.shell import MOST_BYTES, as_script_data, page_environment, template_contents
from jobs.report import fleet
from jobs.report.backtest_view import predictions_view
from jobs.report.first_screen import NO_GROUP, build_first_screen
from jobs.report.group_lines import GroupLines
from jobs.report.groups import finding_views, group_views
from jobs.report.lag_lines import lags_of_groups
from jobs.report.note import Note
from jobs.report.packed import PACKED, PackedLines, pack_lines
from jobs.report.ranking import group_key
from jobs.report.rows import ReportRows
from jobs.report.strategies import FLEET_COLUMNS, compare
from jobs.report.timeline import CONFORMANCE_MARKS
from jobs.report.view import Count, GroupLine, GroupView, Page, reasons
from jobs.runtime.output_files import further_page
from schemas.tables import CONTRACT_VERSION
from schemas.vocabulary import Outcome

FINDINGS_SHARE, DETAILS_SHARE, ROWS_SHARE, DIFFERENCES_SHARE = 3 / 16, 3 / 16, 1 / 16, 1 / 32
"""Shares of it: at most for the list of findings; for details before lines, if there are details; at most for lines that are rows; at most
for predictions that are not exact."""

MOST_ROWS = 1_000
"""How many lines of a file are also rows. They need no script, so a small fleet has all of its lines there."""


_LINK_BYTES = 100  # of a row's link and line's end, if the group's details are on the page
_FILES_BYTES = 10_000  # for the names of the other files


@dataclass(frozen=True)
class Document:
    """The report as files.

    Attributes:
        html: the page.
        further: files with the lines that the page has no room for, in the order of the ranking.
        detailed: anchors of the groups whose details are in the page.
    """

    html: str
    further: tuple[str, ...]
    detailed: frozenset[str]


def build_page(rows: ReportRows, as_of: datetime, summary: Mapping[str, Any] | None = None) -> Page:
    """Return everything that the report shows of these rows; their order does not matter.

    Args:
        rows: the collected rows.
        as_of: the run's clock, with a time zone.
        summary: the run that made the tables, keyed as the columns of ``runs``: ``run_id`` and ``input_counts`` are shown.
    """
    rows = _all_printable(rows)
    rows = replace(rows, ranked=rows.ranked.with_lags(lags_of_groups((*rows.group_lags, *rows.lags))))
    summary = _printable(summary or {})
    groups = GroupLines(rows.ranked)
    ranks = rows.ranked.ranks_of({group_key(row) for row in (*rows.findings, *rows.detailed)})
    findings = finding_views(rows.findings, ranks)
    worst = [groups[rank - 1] for rank in sorted(ranks[group_key(row)] for row in rows.detailed)]
    rules = fleet.rule_lines(rows.findings)
    return Page(
        as_of=moment(as_of),
        run_id=summary.get("run_id") or EN_DASH,
        clusters=tuple(sorted({cluster for (cluster,) in rows.ranked.values("cluster_id")})),
        inputs=_inputs(summary),
        input_kinds=_input_kinds(summary),
        headline=fleet.headline(rows),
        conformance=fleet.conformance(rows.tallies),
        statuses=fleet.statuses(rows.tallies),
        severities=fleet.severities(rules),
        rules=rules,
        imbalance=fleet.imbalance(rows.ranked),
        strategies=compare(rows.tallies, FLEET_COLUMNS),
        groups=groups,
        ranked=rows.ranked,
        has_lags=bool(rows.lags or rows.group_lags),
        worst=group_views(rows, worst, findings),
        findings=findings,
        finding_total=sum(int(line.groups.value or 0) for line in rules),
        first_screen=build_first_screen(rows, as_of, ranks),
        predictions=predictions_view(rows.predicted, rows.ranked),
    )


def build_views(rows: ReportRows, lines: Sequence[GroupLine]) -> tuple[GroupView, ...]:
    """Return the details of the groups of ``rows``; ``lines`` are the lines of these groups in the page, in its order."""
    rows = _all_printable(rows)
    ranks = {(line.cluster_id, line.group_id): line.rank for line in lines}
    return group_views(rows, lines, finding_views(rows.findings, ranks))


def _inputs(summary: Mapping[str, Any]) -> tuple[Count, ...]:
    """Return the number of records read and the number of each outcome, in the order of ``Outcome``."""
    counts = summary.get("input_counts") or {}
    return tuple(Count(name, count(counts[name])) for name in ("read", *(str(word) for word in Outcome)) if name in counts)


def _input_kinds(summary: Mapping[str, Any]) -> tuple[Count, ...]:
    """Return the same by source and kind: the counts whose names have dots."""
    counts = summary.get("input_counts") or {}
    return tuple(Count(name.replace(".", " \N{MIDDLE DOT} "), count(counts[name])) for name in sorted(counts) if "." in name)


def _all_printable(rows: ReportRows) -> ReportRows:
    """Return the rows with all texts masked, and the groups in the order of their real names."""
    lists = {field.name: _printable(getattr(rows, field.name)) for field in fields(rows) if field.name != "ranked"}
    return ReportRows(ranked=rows.ranked.with_texts(visible), **lists)


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, Mapping):
        return {_printable(key): _printable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_printable(item) for item in value]
    return value


def render(page: Page, details: str = "", name: str = "report.html", most_bytes: int = MOST_BYTES, note: Note | None = None) -> Document:
    """Return the page and the further files of its lines, as HTML documents.

    Args:
        page: its content; details and findings that do not fit are left out.
        details: address, from the page, of the folder with the pages of single groups; empty if there are none.
        name: of the page's file.
        most_bytes: of each file.
        note: the note of the page; its number of files is filled in.
    """
    found, section, row, frame, further = map(_template, ("finding", "group", "line", "report", "further"))
    shared = {"page": page, "has_clusters": len(page.clusters) > 1, "details": details, "report": quote(name)}
    shared |= {"no_group": NO_GROUP}
    noted = {"note": note}
    findings = [found.render(shared, finding=finding, is_below=False) for finding in page.findings]
    del findings[_fitting(findings, int(FINDINGS_SHARE * most_bytes)) :]
    shared |= {"findings": _joined(findings), "finding_count": len(findings)}
    # They are measured with all links, and there is no link in the end where the details have no room.
    longest = _differences(page, shared, page.linked_generations)
    difference_count = _fitting(longest, int(DIFFERENCES_SHARE * most_bytes))
    shared |= {"differences": _joined(longest[:difference_count]), "difference_count": difference_count}
    texts = {view.line: section.render(shared, group=view, back="#groups") for view in page.worst}
    rows_room = int(ROWS_SHARE * most_bytes)
    rows = _rows(shared, page.groups[:MOST_ROWS], rows_room)

    left = most_bytes - _size(frame.render(shared, **_EMPTY, **noted, sections="", detailed=0)) - _size(_joined(rows)) - _FILES_BYTES
    kept = min(int(DETAILS_SHARE * most_bytes), sum(_size(text) + _LINK_BYTES for text in texts.values()))
    further_room = most_bytes - _size(further.render(shared, **_EMPTY)) - rows_room - _FILES_BYTES
    parts = list(pack_lines(page.ranked, left - kept, further_room))
    del rows[parts[0].count :]
    left -= _size(parts[0].lines)
    sections: dict[str, str] = {}
    for line, text in texts.items():
        if _size(text) + _LINK_BYTES <= left:
            left -= _size(text) + _LINK_BYTES
            sections[line.anchor] = text
            if line.rank <= len(rows):
                rows[line.rank - 1] = row.render(shared, group=line, is_below=True)

    reached = frozenset(line.anchor for view in page.worst if view.line.anchor in sections for line in view.lines)
    shared |= {"differences": _joined(_differences(page, shared, reached)[:difference_count])}
    listed = page.findings[: len(findings)]
    shared |= {"findings": _joined(found.render(shared, finding=one, is_below=one.group_anchor in sections) for one in listed)}
    names = [further_page(Path(name), number).name if number > 1 else name for number in range(1, len(parts) + 1)]
    shared |= {"files": [(quote(file), file, part) for file, part in zip(names, parts, strict=True)]}
    noted = {"note": None if note is None else replace(note, file_count=len(parts))}
    html = frame.render(shared, **_lines(shared, 0, rows), **noted, sections=_joined(sections.values()), detailed=len(sections))
    others = (
        further.render(shared, **_lines(shared, number, _rows(shared, page.groups[part.first - 1 : part.first - 1 + MOST_ROWS], rows_room)))
        for number, part in enumerate(parts)
        if number > 0
    )
    return Document(html, tuple(others), frozenset(sections))


_EMPTY: Mapping[str, Any] = {"part": PackedLines(1, 0, 0, ""), "packed": "", "rows": "", "drawn": 0, "files": ()}
"""Values for a file's template that give its size without lines."""


def _differences(page: Page, shared: Mapping[str, Any], reached: Collection[str]) -> list[str]:
    """Return the predictions that are not exact, as rows of a table; ``reached`` are the ids of generations that the page has."""
    differences = () if page.predictions is None else page.predictions.differences
    return [_template("difference").render(shared, difference=one, is_reached=one.anchor in reached) for one in differences]


def _rows(shared: Mapping[str, Any], lines: Iterable[GroupLine], room: int) -> list[str]:
    """Return the first lines as rows of a table, as many as fit."""
    rows = []
    for line in lines:
        rows.append(_template("line").render(shared, group=line, is_below=False))
        room -= _size(rows[-1]) + 1
        if room < 0:
            del rows[-1]
            break
    return rows


def _lines(shared: Mapping[str, Any], number: int, rows: Sequence[str]) -> dict[str, Any]:
    """Return the values with which the template of a file shows its lines; ``number`` is 0 for the page."""
    files, details = shared["files"], shared["details"]
    _, _, part = files[number]
    following = files[number + 1][0] if number + 1 < len(files) else ""
    head = {"columns": PACKED, "first": part.first, "newest": part.newest, "details": details, "next": following}
    drawn = rows[: part.count]
    packed = f'{as_script_data(head)[:-1]}, "lines": [\n{part.lines}\n]}}'
    return {"part": part, "packed": Markup(packed), "rows": _joined(drawn), "drawn": len(drawn)}


def render_group(page: Page, view: GroupView, report: str) -> str:
    """Return the page of a single group; ``report`` is the address, from there, of the page that lists all groups."""
    return _template("single").render(page=page, group=view, has_clusters=True, back=f"{report}#{view.line.anchor}")


def _fitting(texts: Iterable[str], most: int) -> int:
    """Return how many of the first texts fit into this number of bytes, each with the end of its line."""
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


def _template(name: str) -> Template:
    return _environment().get_template(f"{name}.html.j2")


@cache
def _environment() -> Environment:
    """Return the templates. They are compiled once, since a fleet can have thousands of pages."""
    environment = page_environment("jobs.report", "report.js")
    environment.globals |= {
        "conformances": fleet.CONFORMANCES,
        "marks": CONFORMANCE_MARKS,
        "words": words,
        "noun": noun,
        "reasons": reasons,
    }
    return environment


@cache
def design_digest() -> str:
    """Return a digest that differs between releases of the page: of its templates and of the contract of the tables."""
    digest = hashlib.sha256(str(CONTRACT_VERSION).encode())
    for content in template_contents("jobs.report"):
        digest.update(content)
    return digest.hexdigest()
