"""Files below the inputs of a run: found, and passed over with a reason."""

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
"""What the names of files begin with that Spark takes for hidden ones, or for marks of its own."""
_UNFINISHED = "._COPYING_"
"""What the names of files end with that Hadoop's tools are still writing; Spark passes over them."""
_MOST_NAMED = 20
"""Files that are passed over, of each kind, which the log names."""
_ODD_FILES = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
NO_CAPTURE, NOT_ASKED_FOR, _READ_ALREADY = "no capture", "of another kind than --format", "a folder that is read already"
KNOWN_FORMAT = "of a format that Evenkeel does not read"
_EXPECTED = (NO_CAPTURE, NOT_ASKED_FOR, _READ_ALREADY)
"""Why files are passed over without anybody having to worry."""


class PassedOver:
    """What folders hold beside captures, by the reason for which it is not taken."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._first: dict[str, list[str]] = {}

    def add(self, path: Path, reason: str, detail: str = "") -> None:
        """Note a file; ``detail`` says more than the reason, which many files share."""
        self._counts[reason] += 1
        if self._counts[reason] <= _MOST_NAMED:
            self._first.setdefault(reason, []).append(f"{path}: {detail or reason}")

    def first(self, reason: str, folder: Path) -> str | None:
        """Return the name of the first file of a folder with this reason, with its detail; None where there is none."""
        return next((file for file in self._first.get(reason, ()) if file.startswith(f"{folder}/")), None)

    def tell(self) -> None:
        """Log the first files of each reason by name, and how many there are of each."""
        for reason, files in self._first.items():
            for file in files:
                logger.log(_level(reason), "passed over %s", file)
        if self._counts.total() > 1:
            counts = "; ".join(f"{reason}: {count}" for reason, count in self._counts.items())
            logger.log(max(map(_level, self._counts)), "passed over %d files, links and folders in all (%s)", self._counts.total(), counts)


def _level(reason: str) -> int:
    return logging.INFO if reason in _EXPECTED else logging.WARNING


def root_of(name: str) -> Path:
    """Return the path of an input that is there, as Spark reads it.

    Raises:
        InputError: it is not, or is neither a file nor a folder.
    """
    try:
        kind = stat.S_IFMT(Path(name).stat().st_mode)
    except FileNotFoundError:
        found = (
            f"a symbolic link to {masked(os.readlink(name))}, which is not there" if Path(name).is_symlink() else "no such file or folder"
        )
        raise InputError(f"input {masked(name)}: {found}; correct --input, or inputs in the settings") from None
    except (OSError, ValueError) as error:
        found = getattr(error, "strerror", None) or error
        raise InputError(f"input {masked(name)}: cannot be read ({found}); correct --input, or inputs in the settings") from None
    if kind in _ODD_FILES:
        raise InputError(f"input {masked(name)}: {_ODD_FILES[kind]}; expected a file or a folder; write its content to a file")
    path = Path(name).absolute()
    return path.resolve() if ".." in path.parts else path  # Hadoop would go up by the text alone, past symbolic links


def refuse_table(root: Path) -> None:
    """Refuse an input within a Delta table, where files lie that its newest version has no more.

    Raises:
        InputError: naming the table.
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
    """Yield the files of a folder by name; Spark's own marks and hidden files are none.

    Raises:
        InputError: a folder in it cannot be read: passed over, its captures would be missing.
    """
    try:
        yield from without_report_files(sorted(_walked(folder, passed_over)))
    except OSError as error:
        raise InputError(
            f"input {masked(error.filename or str(folder))}: cannot be read ({error.strerror or error}); make it readable, or move it away"
        ) from None


def _walked(folder: Path, passed_over: PassedOver) -> Iterator[Path]:
    """Yield the files of a folder and of all below it; of one that has several names once, by its own rather than by a link's."""
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
                kind = 0 if entry.name.startswith(_SPARK_PASSES_OVER) else _kind(path, passed_over)
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
    """Log the Delta tables in a folder, which are left out: a warehouse's, or copies, which would pass for captures of snapshots."""
    if tables:
        what = "warehouse" if is_warehouse(parent) else "folder"
        logger.info("passed over %d Delta tables in the %s %s, such as %s: they are not captures", len(tables), what, parent, min(tables))


def _kind(path: Path, passed_over: PassedOver) -> int:
    """Return what a path is, or its link leads to, in the words of ``stat``; 0 where there is nothing."""
    try:
        return stat.S_IFMT(path.stat().st_mode)
    except OSError as error:
        if not isinstance(error, FileNotFoundError) and error.errno != ELOOP:
            raise
        if path.is_symlink():  # else it is gone since the folder was read
            passed_over.add(path, "a symbolic link to nothing")
        return 0
