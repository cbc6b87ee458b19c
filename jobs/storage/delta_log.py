"""A table's log in a local folder, read and cut without Spark."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from math import inf
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from jobs.runtime.errors import WarehouseDamagedError

_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet")
_FILE_OF_VERSIONS = re.compile(r"\.?(\d{20})\.(?:(\d{20})\.)?.+")
"""A commit, checksum or checkpoint of one version, or the commits from one to another in one file; with a dot before it, its checksums."""
_NOT_READ = (OSError, ValueError, KeyError, TypeError, AttributeError, pa.ArrowException)
"""What a log with a missing or damaged file raises."""


def local_properties(log: Path, version: int) -> dict[str, str]:
    """Return the properties that a table has at a version: from the newest checksum, commit or checkpoint that has them.

    Spark writes a checksum with every commit, so that this reads one file. Other writers may write none; if a checksum cannot be read, the
    commit is read. A cut log begins with a checkpoint, and may have no commit that has them.

    Raises:
        WarehouseDamagedError: a commit cannot be read or is not one of a log, or nothing that remains has the properties.
    """
    for number in range(version, -1, -1):
        noted = _noted_metadata(log / f"{number:020}.crc")
        metadata = noted or next((action["metaData"] for action in _actions(log / f"{number:020}.json") if "metaData" in action), None)
        metadata = metadata or _checkpoint_metadata(log / f"{number:020}.checkpoint.parquet")
        if metadata is not None:
            return dict(metadata.get("configuration", {}))
    raise WarehouseDamagedError(f"{log}: no commit has the table's properties; restore the folder from a copy, or rebuild the warehouse")


def files_of(log: Path, version: int, newer_than: int | None = None) -> list[Path] | None:
    """Return the files with the rows of a table at a version, in any order; None if they are not known without Delta.

    Args:
        newer_than: leave out files that by their statistics have no row with a larger ``run_sequence``; None for all files.
    """
    try:
        live = _live_files(log, version)
        if live is None:
            return None
        return [log.parent / unquote(path) for path, stats in live.items() if newer_than is None or _newest_run(stats) > newer_than]
    except _NOT_READ:
        return None


def newest_sequence(log: Path, version: int) -> int | None:
    """Return the largest ``run_sequence`` of a table at a version, 0 if it has no rows; None if it is not known without Delta."""
    try:
        live = _live_files(log, version)
        newest = inf if live is None else max(map(_newest_run, live.values()), default=0)
        return None if newest == inf else int(newest)
    except _NOT_READ:
        return None


def _live_files(log: Path, version: int) -> dict[str, str | None] | None:
    """Return the files of a table at a version, as the log names them, with their statistics.

    Reads the newest checkpoint up to the version, and the commits after it. None if that is not enough: a commit is empty, a checkpoint has
    several parts, or the table has a feature that only Delta can read, such as deletion vectors.

    Raises:
        One of ``_NOT_READ``: a file of the log is missing or damaged.
    """
    base = max(
        (int(match[1]) for name in os.listdir(log) if (match := _CHECKPOINT.fullmatch(name)) and int(match[1]) <= version), default=-1
    )
    actions = _checkpoint_actions(log / f"{base:020}.checkpoint.parquet") if base >= 0 else []
    for number in range(base + 1, version + 1):
        committed = [json.loads(line) for line in (log / f"{number:020}.json").read_text(encoding="utf-8").splitlines() if line]
        if not committed:
            return None
        actions += committed
    return _files_after(actions)


def _checkpoint_actions(path: Path) -> list[dict[str, Any]]:
    """Return the actions of a checkpoint for the files of rows and how to read them."""
    file = pq.ParquetFile(path)
    rows = file.read(columns=[name for name in ("add", "protocol", "sidecar") if name in file.schema_arrow.names]).to_pylist()
    return [{kind: content for kind, content in row.items() if content is not None} for row in rows]


def _checkpoint_metadata(path: Path) -> dict[str, Any] | None:
    """Return the table's metadata in a checkpoint; None if there is no checkpoint, or it cannot be read."""
    try:
        rows = pq.ParquetFile(path).read(columns=["metaData"]).column("metaData").to_pylist()
    except _NOT_READ:
        return None
    return next((row for row in rows if row is not None and row.get("configuration") is not None), None)


def _files_after(actions: list[dict[str, Any]]) -> dict[str, str | None] | None:
    """Return the files after all actions, with their statistics.

    None if an action does anything but add or remove whole files of the table.
    """
    paths: dict[str, str | None] = {}
    reader_version = None
    for action in actions:
        if not isinstance(action, dict):
            return None
        if "add" in action:
            if action["add"].get("deletionVector") or urlsplit(action["add"]["path"]).scheme:
                return None
            paths[action["add"]["path"]] = action["add"].get("stats")
        elif "remove" in action:
            paths.pop(action["remove"]["path"], None)
        elif "protocol" in action:
            reader_version = action["protocol"]["minReaderVersion"]
        elif "sidecar" in action:
            return None
    return paths if reader_version == 1 else None


def _newest_run(stats: str | None) -> float:
    """Return the largest ``run_sequence`` of a file; infinite if its statistics do not have it."""
    found = json.loads(stats or "{}").get("maxValues", {}).get("run_sequence")
    return inf if found is None else found


def row_count(files: Iterable[Path]) -> int:
    """Return the number of rows in Parquet files, from their footers."""
    return sum(pq.read_metadata(path).num_rows for path in files)


def checkpoint_before(log: Path, moment: float) -> int | None:
    """Return the newest version that has a checkpoint and was committed before a moment, None if there is none.

    Args:
        moment: seconds since 1970, compared with the time of the commit's file, as Delta does.
    """
    versions = (int(match[1]) for path in log.iterdir() if (match := _CHECKPOINT.fullmatch(path.name)))
    old = (version for version in versions if (commit := log / f"{version:020}.json").exists() and commit.stat().st_mtime < moment)
    return max(old, default=None)


def cut_before(log: Path, version: int) -> int:
    """Remove all files of versions before one that has a checkpoint; return the number of removed commits.

    Oldest first, and of each version the commit last: after an interruption at any point the rest is the end of the log, with the
    checkpoint, and no trace of a removed commit.
    """
    doomed = []
    for path in log.iterdir():
        match = _FILE_OF_VERSIONS.fullmatch(path.name)
        if match and int(match[2] or match[1]) < version:
            doomed.append((int(match[1]), path.name.endswith(".json"), path.name, path))
    for *_, path in sorted(doomed):
        path.unlink()
    return sum(path.name == f"{number:020}.json" for number, _, _, path in doomed)


def _noted_metadata(path: Path) -> dict[str, Any] | None:
    """Return the table's metadata in a version's checksum; None if it cannot be read."""
    try:
        noted = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    metadata = noted.get("metadata") if isinstance(noted, dict) else None
    return metadata if _is_metadata(metadata) else None


def _actions(path: Path) -> list[dict[str, Any]]:
    try:
        actions = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
    except FileNotFoundError:
        return []
    except ValueError as error:
        raise _damaged(path, f"not JSON ({error})") from None
    except OSError as error:
        raise _damaged(path, f"cannot be read ({error.strerror})") from None
    if not all(isinstance(action, dict) and _is_metadata(action.get("metaData", {})) for action in actions):
        raise _damaged(path, "a line is not an action of a Delta log")
    return actions


def _is_metadata(found: object) -> bool:
    return isinstance(found, dict) and isinstance(found.get("configuration", {}), dict)


def _damaged(path: Path, problem: str) -> WarehouseDamagedError:
    return WarehouseDamagedError(f"{path}: {problem}; restore the folder from a copy, or rebuild the warehouse")
