"""The files of a report: their names, which files they may replace, and how they are written. Needs no Spark.

A report replaces only files that a report wrote. It detects these by their content. Files of earlier releases count too.
"""

from __future__ import annotations

import json
import logging
import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import BinaryIO, get_args

from jobs.runtime.atomic_file import remove_unfinished, write_file
from jobs.runtime.errors import EvenkeelError, UsageError
from jobs.runtime.locations import OTHER_ENTRIES, is_shared, is_warehouse, local_folder, on_one_line, table_around
from schemas.config import ExportFormat, ReportSettings, Settings

logger = logging.getLogger(__name__)

PROMETHEUS_FILE = "evenkeel.prom"
"""The textfile collector of node_exporter needs this ending."""

EXPORTED_KEYS = {
    "findings": ("cluster_id", "group_id", "generation", "observed_at", "position", "rule_id"),
    "generation_audits": ("cluster_id", "group_id", "generation", "observed_at", "position", "basis", "strategy"),
    "current_lag": ("cluster_id", "group_id", "member_id", "topic", "partition"),
}
"""Exported table -> its key: the first columns of its CSV file, and members of each object in its JSON file."""

PAGE = "page"
"""Kind of the report's pages. The other kinds are the names of exported files."""

MIGRATION = "Evenkeel: migration"
"""How the titles begin of the pages with a migration plan. They are pages of a report too, so that no run takes one for a capture."""

_PAGE_BEGINS = re.compile(rb'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n.{,2000}?\n<title>Evenkeel: ', re.DOTALL)
_METRICS_BEGIN = b"# HELP evenkeel_report_timestamp_seconds "
_HEADINGS = {table: re.compile(rf"{','.join(key)}(,[a-z_]+)*\r\n".encode()) for table, key in EXPORTED_KEYS.items()}
_HEAD_BYTES, _LONGEST_ROW = 1 << 12, 1 << 24
_GROUP_PAGE = re.compile("group-[0-9a-f]{16}[.]html")
_LOCKS_BEGIN = ".evenkeel"  # free locks are empty files, and an empty file may be replaced


def page_file(settings: ReportSettings) -> Path:
    """Return the path of the report's page."""
    return Path(settings.output or "report.html")


def further_page(page: Path, number: int) -> Path:
    """Return the path of a further file with lines that do not fit on the page; ``number`` counts these files, the page is the first."""
    return page.with_name(f"{page.stem}-groups-{number}{page.suffix}")


def exports_folder(settings: ReportSettings) -> Path:
    """Return the folder of the files for other programs."""
    return page_file(settings).parent if settings.export_dir is None else Path(settings.export_dir)


def export_names(formats: Collection[ExportFormat]) -> tuple[str, ...]:
    """Return the names of the files for other programs."""
    names = [f"{table}.{name}" for name in ("csv", "json") if name in formats for table in EXPORTED_KEYS]
    return (*names, *([PROMETHEUS_FILE] if "prometheus" in formats else []))


def write_output(parts: Iterable[str], path: Path, command: str = "report") -> None:
    """Replace one of the files of a report, or the file that a link of this name leads to; makes a missing folder.

    A lone surrogate, which UTF-8 cannot encode, is written as an escape.

    Args:
        command: the one that an error names.

    Raises:
        EvenkeelError: the file cannot be written.
    """
    target = _target(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_file(target, (part.encode(errors="backslashreplace") for part in parts))
    except OSError as error:
        raise EvenkeelError(f"{command}: cannot write {path}: {error.strerror}; choose another path for it") from error


def make_folder(path: Path) -> None:
    """Make the folder for the pages of single groups, if it is missing.

    Raises:
        EvenkeelError: it cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EvenkeelError(f"report: cannot make {path}: {error.strerror}; choose another path for it") from error


def remove_unfinished_outputs(settings: ReportSettings) -> None:
    """Remove unfinished files of killed processes from the folders of a report; not from folders that other machines may write to."""
    details = [] if settings.group_pages is None else [Path(settings.group_pages)]
    for folder in {_target(page_file(settings)).parent, exports_folder(settings), *details}:
        if not is_shared(folder):
            remove_unfinished(folder)


# -- which files a report wrote


def is_report_file(path: Path, kinds: Iterable[str]) -> bool:
    """Return whether a file begins like a report's file of one of these kinds.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
        return any(_begins_as(kind, head, file) for kind in kinds)


def _begins_as(kind: str, head: bytes, file: BinaryIO) -> bool:
    if kind == PAGE:
        return _PAGE_BEGINS.match(head) is not None
    if kind == PROMETHEUS_FILE:
        return head.startswith(_METRICS_BEGIN)
    table, _, ending = kind.partition(".")
    if ending == "csv":
        return _HEADINGS[table].match(head) is not None
    if not head.startswith(b"[\n{"):
        return head == b"[]\n"
    file.seek(2)
    return _is_row(file.readline(_LONGEST_ROW), EXPORTED_KEYS[table])


def _is_row(line: bytes, key: Collection[str]) -> bool:
    """Return whether a line of a JSON file is a row of the table that has this key."""
    try:
        row = json.loads(line.rstrip(b",\n"))
    except (ValueError, RecursionError):
        return False
    return isinstance(row, dict) and row.keys() >= set(key) and list(row) == sorted(row)


def without_report_files(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the paths without files that a report wrote: a name in such a file could make it look like a capture.

    Raises:
        OSError: a file cannot be read.
    """
    kinds = (PAGE, *export_names(get_args(ExportFormat)))
    found: list[Path] = []
    for path in paths:
        if is_report_file(path, kinds):
            found.append(path)
        else:
            yield path
    if found:
        logger.info("skipped %d files that a report wrote, such as %s", len(found), found[0])


# -- paths that a report must not use


@dataclass(frozen=True)
class _Output:
    """A file that a report is going to write.

    Attributes:
        setting: the setting that names the file or its folder.
        target: the file; if a link was named, the file it leads to.
    """

    setting: str
    target: Path
    kind: str


class _Inputs:
    """Input files, and folders of input files."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._files: set[tuple[int, int]] = set()
        self._folders: set[Path] = set()
        for path in paths:
            try:
                about = path.stat()
            except (OSError, ValueError):  # not an input of this command, which would have refused it
                continue
            if stat.S_ISDIR(about.st_mode):
                self._folders.add(path.resolve())
            else:
                self._files.add((about.st_dev, about.st_ino))

    def has(self, about: os.stat_result) -> bool:
        """Return whether a file is an input, by whatever name."""
        return (about.st_dev, about.st_ino) in self._files

    def folder_around(self, target: Path) -> Path | None:
        """Return the input folder that contains a file."""
        return next((folder for folder in target.parents if folder in self._folders), None)


def check_outputs(settings: Settings, inputs: Iterable[Path], *, overwrite: bool) -> None:
    """Refuse paths of files that a report must not replace.

    Args:
        inputs: input files, and folders of input files.
        overwrite: whether the report may replace files that no report wrote; inputs and tables it never replaces.

    Raises:
        UsageError: names the setting, the file, and the reason.
    """
    read = _Inputs(inputs)
    warehouse = local_folder(settings.warehouse)
    own = None if warehouse is None else warehouse.resolve()
    planned: dict[Path, str] = {}
    for output in _outputs(settings.report):
        problem = _table_problem(output.target, own) or _file_problem(output, read, overwrite=overwrite)
        other = planned.setdefault(output.target, output.setting)
        if other != output.setting:
            problem = f"is also the path of report.{other}; choose another path for one of them"
        if problem is not None:
            raise UsageError(f"report.{output.setting}: {on_one_line(str(output.target))} {problem}")


def check_new_file(path: Path, warehouse: str) -> None:
    """Refuse an existing file, and a path among tables.

    Args:
        warehouse: its location.

    Raises:
        UsageError: names the file, and the reason.
    """
    target, folder = _target(path), local_folder(warehouse)
    problem = _table_problem(target, None if folder is None else folder.resolve())
    if problem is None and target.exists():
        problem = "exists already; name a new file"
    if problem is not None:
        raise UsageError(f"--output: {on_one_line(str(target))} {problem}")


def check_migration_page(path: Path, warehouse: str) -> None:
    """Refuse a page of a migration plan that would replace another file, or that lies among tables.

    Args:
        warehouse: the one that is read.

    Raises:
        UsageError: naming the file, and why.
    """
    target, folder = _target(path), local_folder(warehouse)
    problem = _table_problem(target, None if folder is None else folder.resolve())
    try:
        if problem is None and target.exists() and not _is_migration_page(target):
            problem = "is a file that holds no migration plan; name another file"
    except OSError as error:
        problem = f"cannot be read ({error.strerror}); expected the name of a file"
    if problem is not None:
        raise UsageError(f"--output: {on_one_line(str(target))} {problem}")


def _is_migration_page(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    return not head or (_PAGE_BEGINS.match(head) is not None and f"<title>{MIGRATION}".encode() in head)


def _outputs(settings: ReportSettings) -> Iterator[_Output]:
    """Yield the files that a report may write; of further pages the existing ones and one new name."""
    page = page_file(settings)
    yield _Output("output", _target(page), PAGE)
    for number in count(2):
        further = _target(further_page(page, number))
        yield _Output("output", further, PAGE)
        if not os.path.exists(further):
            break
    names = export_names(settings.export)
    yield from (_Output("export_dir", _target(exports_folder(settings) / name), name) for name in names)
    if settings.group_pages is not None:
        folder = Path(settings.group_pages)
        try:
            pages = sorted(filter(_GROUP_PAGE.fullmatch, os.listdir(folder)))
        except FileNotFoundError:
            pages = []
        except OSError as error:
            raise UsageError(
                f"report.group_pages: {on_one_line(str(folder))} cannot be read ({error.strerror}); name another folder"
            ) from None
        yield from (_Output("group_pages", _target(folder / name), PAGE) for name in (*pages, f"group-{0:016}.html"))


def _target(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _table_problem(target: Path, warehouse: Path | None) -> str | None:
    """Return why a path cannot be used because of tables and locks; None if it can.

    Args:
        warehouse: the run's own, whose tables may not exist yet.
    """
    remedy = "name a file outside of it"
    table = table_around(target)
    if table is not None:
        return f"lies in the Delta table {on_one_line(str(table))}; {remedy}"
    if target.name.startswith(_LOCKS_BEGIN):
        return f"has the name of a lock of Evenkeel ({_LOCKS_BEGIN}*); name another file"
    for folder in target.parents:
        entry = target.relative_to(folder).parts[0]
        if (folder == warehouse or is_warehouse(folder)) and "." not in entry:  # no table has a dot; Spark takes long to import
            from schemas.tables import ALL_TABLES

            if entry in {*ALL_TABLES, *OTHER_ENTRIES}:
                return f"lies in {entry} of the warehouse {on_one_line(str(folder))}; {remedy}"
    return None


def _file_problem(output: _Output, inputs: _Inputs, *, overwrite: bool) -> str | None:
    """Return why an existing file cannot be replaced; None if it can, or if there is none."""
    try:
        about = output.target.stat()
    except OSError:
        return None
    if not stat.S_ISREG(about.st_mode):
        return "is a folder or a device; expected the name of a file"
    if inputs.has(about):
        return "is an input; name another file"
    if about.st_size == 0:
        return None
    try:
        if is_report_file(output.target, (output.kind,)):
            return None
        found = f"it does not begin like {'the pages' if output.kind == PAGE else output.kind} of a report"
    except OSError as error:
        found = f"it cannot be read ({error.strerror})"
    folder = inputs.folder_around(output.target)
    if folder is not None:
        return f"is a file of the input {on_one_line(str(folder))}; name another file"
    return None if overwrite else f"is a file that no report wrote ({found}); name another file, or replace it with --overwrite"
