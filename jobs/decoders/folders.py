"""Finds the files below the inputs of a run, and passes over others with a reason."""

from __future__ import annotations

import logging
import os
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from errno import ELOOP
from heapq import heappop, heappush
from pathlib import Path

from jobs.runtime.errors import InputError
from jobs.runtime.locations import is_table, is_warehouse, masked, objection, table_around
from jobs.runtime.output_files import without_report_files

logger = logging.getLogger(__name__)


_SPARK_PASSES_OVER = (".", "_")
"""Beginnings of the names that Spark treats as hidden files or as its own marks."""
_UNFINISHED = "._COPYING_"
"""End of the names of files that Hadoop's tools are still writing; Spark passes over them."""
MOST_NAMED = 20
"""How many files of each kind the log names."""
_ODD_FILES = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
NO_CAPTURE, NOT_ASKED_FOR, _READ_ALREADY = "no capture", "of another kind than --format", "a folder that is read already"
KNOWN_FORMAT = "of a format that Evenkeel does not read"
_EXPECTED = (NO_CAPTURE, NOT_ASKED_FOR, _READ_ALREADY)
"""Reasons that are normal, and are logged as information only."""


class PassedOver:
    """Files in folders that are not captures, by the reason for passing over them."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._first: dict[str, list[str]] = {}

    def add(self, path: Path, reason: str, detail: str = "") -> None:
        """Add a file; ``detail`` is about this file, ``reason`` is shared by many."""
        self._counts[reason] += 1
        if self._counts[reason] <= MOST_NAMED:
            self._first.setdefault(reason, []).append(f"{path}: {detail or reason}")

    def first(self, reason: str, folder: Path) -> str | None:
        """Return the name of the first file of a folder with this reason, with its detail; None without one."""
        return next((file for file in self._first.get(reason, ()) if file.startswith(f"{folder}/")), None)

    def log(self) -> None:
        """Log the first files of each reason by name, and their number for each reason."""
        for reason, files in self._first.items():
            for file in files:
                logger.log(_level(reason), "passed over %s", file)
        if self._counts.total() > 1:
            counts = "; ".join(f"{reason}: {count}" for reason, count in self._counts.items())
            logger.log(max(map(_level, self._counts)), "passed over %d files, links and folders in all (%s)", self._counts.total(), counts)


def _level(reason: str) -> int:
    return logging.INFO if reason in _EXPECTED else logging.WARNING


def root_of(name: str) -> Path:
    """Return the path of an input that exists, as Spark reads it.

    Raises:
        InputError: it does not exist, or is neither a file nor a folder.
    """
    try:
        kind = stat.S_IFMT(Path(name).stat().st_mode)
    except FileNotFoundError:
        found = (
            f"a symbolic link to {masked(os.readlink(name))}, which is not there" if Path(name).is_symlink() else "no such file or folder"
        )
        raise InputError(f"input {masked(name)}: {found}; correct --input, or inputs in the settings") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"input {masked(name)}: cannot be read ({reason}); correct --input, or inputs in the settings") from None
    if kind in _ODD_FILES:
        raise InputError(f"input {masked(name)}: {_ODD_FILES[kind]}; expected a file or a folder; write its content to a file")
    path = Path(name).absolute()
    return path.resolve() if ".." in path.parts else path  # Hadoop resolves .. by the text only, without symbolic links


def refuse_table(root: Path) -> None:
    """Refuse an input within a Delta table, which may contain files that its newest version no longer has.

    Raises:
        InputError: the input is in a table; the message names it.
    """
    table = table_around(root.resolve())
    if table is not None:
        remedy = "write its rows as Parquet into another folder, and name that folder"
        raise InputError(f"input {masked(str(root))}: found the Delta table {masked(str(table))}, expected captures; {remedy}")


def readable_by_spark(path: Path) -> str:
    """Return the name of a capture for Spark.

    Raises:
        InputError: Spark would look for another file, or for several.
    """
    problem = objection(str(path))
    if problem is None and ":" in path.name:
        problem = "Spark cannot read a file with ':' in its name; rename it"
    if problem is None and (path.name.startswith(_SPARK_PASSES_OVER) or path.name.endswith(_UNFINISHED)):
        problem = f"Spark passes over files whose name begins with '.' or '_' or ends with {_UNFINISHED}; rename it"
    if problem is not None:
        raise InputError(f"input {masked(str(path))}: {problem}")
    return str(path)


def files_below(folder: Path, passed_over: PassedOver) -> Iterator[Path]:
    """Yield the files of a folder by name, without Spark's own marks and hidden files.

    Raises:
        InputError: a folder in it cannot be read: without an error its captures would be missing.
    """
    try:
        yield from without_report_files(sorted(_walk(folder, passed_over)))
    except OSError as error:
        raise InputError(
            f"input {masked(error.filename or str(folder))}: cannot be read ({error.strerror or error}); make it readable, or move it away"
        ) from None


def _walk(folder: Path, passed_over: PassedOver) -> Iterator[Path]:
    """Yield the files of a folder and of all below it. A folder with several names is read once, by its own name before a link's."""
    folders, links, seen = [folder], list[Path](), set[tuple[int, int]]()
    while folders or links:
        parent = folders.pop() if folders else heappop(links)
        status = parent.stat()
        if (status.st_dev, status.st_ino) in seen:
            passed_over.add(parent, _READ_ALREADY)
            continue
        seen.add((status.st_dev, status.st_ino))
        tables = []
        with os.scandir(parent) as entries:
            for entry in entries:
                path = parent / entry.name
                kind = 0 if entry.name.startswith(_SPARK_PASSES_OVER) else _read_type(path, passed_over)
                if stat.S_ISDIR(kind) and is_table(path):
                    tables.append(entry.name)
                elif stat.S_ISDIR(kind) and entry.is_symlink():
                    heappush(links, path)
                elif stat.S_ISDIR(kind):
                    folders.append(path)
                elif kind in _ODD_FILES:
                    passed_over.add(path, _ODD_FILES[kind])
                elif kind and path.name.endswith(_UNFINISHED):
                    passed_over.add(path, "still being copied, by its name")
                elif kind:
                    yield path
        _name_tables(parent, tables)


def _name_tables(parent: Path, tables: Sequence[str]) -> None:
    """Log the Delta tables in a folder, which are left out. They are of a warehouse, or copies that look like captures of snapshots."""
    if tables:
        what = "warehouse" if is_warehouse(parent) else "folder"
        logger.info("passed over %d Delta tables in the %s %s, such as %s: they are not captures", len(tables), what, parent, min(tables))


def _read_type(path: Path, passed_over: PassedOver) -> int:
    """Return the file type of a path, or of the target of its link, as in ``stat``; 0 if it does not exist."""
    try:
        return stat.S_IFMT(path.stat().st_mode)
    except OSError as error:
        if not isinstance(error, FileNotFoundError) and error.errno != ELOOP:
            raise
        if path.is_symlink():  # else it was removed after the folder was read
            passed_over.add(path, "a symbolic link to nothing")
        return 0
