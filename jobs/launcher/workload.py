"""The inputs and tables that a command reads, and their size."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from .command_line import CommandLine, option_value

LANDING_COMMANDS = ("run", "land")
"""Commands that read inputs."""
SHORT_COMMANDS = ("report", "sql")
"""Commands that end before the settings of a large run pay: a report on 20,000 groups took 29 CPU s with the small ones, else 52."""
MB = 1 << 20
ENOUGH_BYTES = 256 * MB
"""Measuring of inputs ends here, since more bytes change no setting."""
MOST_ENTRIES = 4096
"""Files and folders that are measured; inputs with more count as large. That takes 20 ms on a local disk."""
TEXT_RATIO = 10
"""An offset commit takes 213 bytes as text, 18 in gzip and 20 in Parquet: the limits are in bytes of the latter two."""
TEXT_ENDINGS = (".json", ".jsonl", ".ndjson", ".txt")
LARGEST_TEXT_BYTES = 1 << 20
"""Most bytes to read of a file of settings, or of a table's checksum, which begins with its size."""


class Workload(NamedTuple):
    """The inputs and tables of a command.

    ``inputs``: files and folders. ``without_size``: names a further input that cannot be measured here, such as a live cluster; empty
    if there is none. ``warehouse``: its folder; None if it is not on a local file system. ``is_short``: the command ends before the
    settings of a large run pay, however much it reads.
    """

    inputs: tuple[str, ...] = ()
    without_size: str = ""
    warehouse: str | None = None
    is_short: bool = False


class Size(NamedTuple):
    """The size of files: their bytes, the bytes that they would have as Parquet, and whether all files were measured."""

    found: int
    counted: int
    is_all: bool


def find_workload(line: CommandLine, conf_folder: str) -> Workload:
    """Return the inputs and tables of a command, from its options and its file of settings; paths are absolute."""
    command = line.command
    path = os.path.join(line.folder, option_value(command, "--config") or f"{conf_folder}/local.yaml")
    text = content(path)
    named = option_value(command, "--warehouse")
    warehouse = [named] if named else file_values(text, "warehouse")
    folder = None if warehouse is None else local_folder((warehouse or ["./warehouse"])[-1], line.folder)
    if command[0] not in LANDING_COMMANDS:
        return Workload(warehouse=folder, is_short=command[0] in SHORT_COMMANDS)
    inputs, without_size = option_values(command, "--input"), ""
    if any(option_values(command, name) for name in ("--bootstrap-servers", "--bootstrap-server")):
        without_size = "a live cluster"
    elif not inputs:
        inputs = [os.path.join(os.path.dirname(path), name) for name in file_values(text, "inputs") or ()]
        without_size = "" if inputs else "inputs of unknown size"
    return Workload(tuple(os.path.join(line.folder, name) for name in inputs), without_size, folder)


def option_values(words: Iterable[str], name: str) -> list[str]:
    """Return the values of all uses of an option that takes several, in a command; none if it is not given.

    >>> option_values(["run", "--input", "a", "b", "--wait=5", "--input=c"], "--input"), option_values(["run"], "--input")
    (['a', 'b', 'c'], [])
    """
    values: list[str] = []
    is_meant = False
    for word in words:
        if word.startswith("-"):
            option, sign, value = word.partition("=")
            is_meant = option == name
            if is_meant and sign:
                values.append(value)
        elif is_meant:
            values.append(word)
    return values


def file_values(text: str, key: str) -> list[str] | None:
    """Return the name or the names under a key that begins a line in a file of settings; an empty list without the key.

    A parser of YAML may not be installed yet. Returns None for a form that is not read here, such as an alias, or a list in brackets over
    several lines; the size of these files is then unknown.

    >>> file_values("inputs:  # two\\n  - a\\n  - 'b c'\\nwarehouse: ./w", "inputs"), file_values("warehouse: ./w", "warehouse")
    (['a', 'b c'], ['./w'])
    >>> file_values("inputs: [a, b]", "inputs"), file_values("inputs: &all\\n- a", "inputs")
    (['a', 'b'], None)
    """
    lines = [line.partition(" #")[0].rstrip() for line in text.splitlines() if line.strip() and line.lstrip()[0] != "#"]
    at = next((number for number, line in enumerate(lines) if line.startswith(f"{key}:")), None)
    if at is None:
        return []
    value = lines[at][len(key) + 1 :].strip()
    if value.startswith("[") and value.endswith("]"):
        names = value[1:-1].split(",")
    elif value:
        names = [value]
    else:
        names = []
        for line in map(str.lstrip, lines[at + 1 :]):
            if not line.startswith("- "):
                break
            names.append(line[2:])
    plain = [_plain(name.strip()) for name in names if name.strip()]
    return None if "" in plain else plain


def _plain(name: str) -> str:
    """Return a name without its quotes; empty if it is in a form that is not read here."""
    if name[0] in "\"'" and name[-1] == name[0]:
        name = name[1:-1]
        return "" if any(char in "\\\"'" for char in name) else name
    return "" if name[0] in "\"'[]{}&*!|>%@`?#" or ": " in name else name


def is_schema(warehouse: str) -> bool:
    """Return whether the name of a warehouse is that of a schema in a catalog, ``a.b`` or ``a.b.c``, and no path.

    >>> is_schema("main.evenkeel"), is_schema("s3a://bucket/a.b"), is_schema("warehouse"), is_schema(".")
    (True, False, False, False)
    """
    parts = warehouse.split(".")
    return len(parts) in (2, 3) and all(parts) and "/" not in warehouse and ":" not in warehouse


def local_folder(warehouse: str, folder: str) -> str | None:
    """Return the path of a warehouse; None for one in an object store or a catalog.

    Args:
        folder: the current one.

    >>> local_folder("w", "/here"), local_folder("file:///w", "/here"), local_folder("s3a://b/w", "/here"), local_folder("a.b", "/here")
    ('/here/w', '/w', None, None)
    """
    path = warehouse[len("file:") :] if warehouse.startswith("file:") else warehouse
    if path.startswith("//"):  # Hadoop reads a host after two slashes
        path = "/" + path.lstrip("/")
    return None if is_schema(warehouse) or "://" in path else os.path.join(folder, path)


def measure_inputs(paths: Iterable[str]) -> Size:
    """Return the size of files and of the content of folders, without opening any; ends at ENOUGH_BYTES or MOST_ENTRIES."""
    found = counted = 0
    for number, (path, size) in enumerate(_walk(paths)):
        if number == MOST_ENTRIES or counted > ENOUGH_BYTES:
            return Size(found, ENOUGH_BYTES, is_all=False)
        found += size
        counted += size // TEXT_RATIO if path.endswith(TEXT_ENDINGS) else size
    return Size(found, counted, is_all=True)


def _walk(paths: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Yield each file with its size and each folder with 0. Skips missing paths; reads a folder with several names once."""
    folders: list[str] = []
    seen = set()
    while True:
        for path in paths:
            try:
                status = os.stat(path)
            except (OSError, ValueError):
                continue
            is_folder = stat.S_ISDIR(status.st_mode)
            if is_folder and (status.st_dev, status.st_ino) not in seen:
                seen.add((status.st_dev, status.st_ino))
                folders.append(path)
            yield path, 0 if is_folder else status.st_size
        if not folders:
            return
        paths = _members(folders.pop())


def _members(folder: str) -> Iterator[str]:
    """Yield the paths that landing reads in a folder: nothing of a Delta table, nothing hidden; none if it cannot be read."""
    if os.path.isdir(f"{folder}/_delta_log"):
        return
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if not entry.name.startswith((".", "_")):
                    yield entry.path
    except (OSError, ValueError):
        return


def measure_warehouse(folder: str) -> int | None:
    """Return the bytes of the newest version of all tables, as Delta stores them with each commit; None if there is no table."""
    sizes = []
    for path in islice(_members(folder), MOST_ENTRIES):
        try:
            checksums = [name for name in os.listdir(f"{path}/_delta_log") if name.endswith(".crc")]
        except OSError:
            continue
        noted = content(f"{path}/_delta_log/{max(checksums)}") if checksums else ""
        digits = noted.partition('"tableSizeBytes":')[2].partition(",")[0]
        sizes.append(int(digits) if digits.isdigit() else 0)
    return sum(sizes) if sizes else None


def content(path: str) -> str:
    """Return a file's text; empty if it cannot be read. Opens only regular files: a pipe would not end."""
    try:
        if os.path.isfile(path):
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                return file.read(LARGEST_TEXT_BYTES)
    except OSError:
        pass
    return ""
