"""Commits of a Delta log that a disk has lost: their file is there and empty, or ends before its first file of rows. Needs no Spark.

A machine that stops may leave such a file, and so may a copy that was broken off. Delta reads it as a commit without any change, so that
rows are missing without an error.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jobs.runtime.errors import WarehouseDamagedError
from jobs.runtime.locations import LOG

_COMMIT, _CHECKPOINT = re.compile(r"(\d{20})\.json"), re.compile(r"(\d{20})\.checkpoint\..*parquet")


def refuse_lost_commit(table: Path, version: int) -> None:
    """Refuse a table in a local folder if a reader of a version needs a commit that is lost.

    Raises:
        WarehouseDamagedError: naming the commit.
    """
    lost = lost_commit(table / LOG, version)
    if lost is not None:
        found = "names no file of the rows that it wrote" if lost.stat().st_size else "has no content"
        raise WarehouseDamagedError(
            f"{lost}: the commit {found}, so rows that a run has written are missing; restore the folder from a copy, or rebuild "
            "the warehouse from its captures"
        )


def lost_commit(log: Path, version: int) -> Path | None:
    """Return the first lost commit that a reader of a version needs; None if there is none, or no log.

    A commit is not needed if a checkpoint has replaced it, or if RESTORE took the table back to a version before it.
    """
    sizes: dict[int, int] = {}
    base = -1
    for name, size in _sizes(log):
        if (match := _COMMIT.fullmatch(name)) and int(match[1]) <= version:
            sizes[int(match[1])] = size
        elif (match := _CHECKPOINT.fullmatch(name)) and int(match[1]) <= version:
            base = max(base, int(match[1]))
    lost = sorted(number for number, size in sizes.items() if number > base and (size == 0 or _is_cut(log / f"{number:020}.json")))
    restores = [(number, _restored(log / f"{number:020}.json")) for number in sorted(sizes) if lost and number > lost[0]]
    for number in lost:
        if not any(restored is not None and restored < number < at for at, restored in restores):
            return log / f"{number:020}.json"
    return None


def _sizes(folder: Path) -> Iterator[tuple[str, int]]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_file():
                    yield entry.name, entry.stat().st_size
    except OSError:  # whoever reads the log says what is wrong with it
        return


def _is_cut(commit: Path) -> bool:
    """Return whether a commit has written rows by its first line, and names no file with them."""
    actions = _actions(commit)
    try:
        rows = int(_info(actions)["operationMetrics"]["numOutputRows"])
    except (ValueError, KeyError, TypeError):
        return False
    return rows > 0 and not any("add" in action for action in actions)


def _restored(commit: Path) -> int | None:
    """Return the version to which a commit takes the table back; None if it does something else, or cannot be read."""
    try:
        info = _info(_actions(commit))
        return int(info["operationParameters"]["version"]) if info["operation"] == "RESTORE" else None
    except (ValueError, KeyError, TypeError):
        return None


def _actions(commit: Path) -> list[dict[str, Any]]:
    """Return the actions of a commit; none if it cannot be read."""
    try:
        actions = [json.loads(line) for line in commit.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError):
        return []
    return actions if all(isinstance(action, dict) for action in actions) else []


def _info(actions: list[dict[str, Any]]) -> dict[str, Any]:
    return next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
