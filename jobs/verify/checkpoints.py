"""Checks of a checkpoint of a Delta log: reads every column and page; each row must be one well-formed action."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from jobs.runtime.sidecars import checksum_problem
from jobs.verify.damage import first_line
from jobs.verify.footers import footer_problem
from jobs.verify.state import MAPS, Action, TableState, is_action


def read_checkpoint(path: Path) -> tuple[list[Action], str | None]:
    """Return the actions in one file of a checkpoint in the form of a commit, and its problem, None if there is none."""
    try:
        problem = checksum_problem(path)
        if problem is not None:
            return [], problem
        file = pq.ParquetFile(path, page_checksum_verification=True)
        problem = footer_problem(file)
        if problem is not None:
            return [], problem
        rows = file.read().to_pylist()
        actions = [{kind: _as_committed(content) for kind, content in row.items() if content is not None} for row in rows]
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return [], f"no readable Parquet ({first_line(error)})"
    wrong = next((number for number, action in enumerate(actions, start=1) if not is_action(action)), None)
    return ([], f"row {wrong} is not an action of a Delta log") if wrong is not None else (actions, None)


def _as_committed(content: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an action with objects in place of Parquet's pairs of key and value."""
    return {
        name: dict(value) if name in MAPS and value is not None else _as_committed(value) if isinstance(value, dict) else value
        for name, value in content.items()
    }


def checkpoint_state(actions: list[Action]) -> tuple[TableState, str | None]:
    """Return the state after the actions of a checkpoint, and a problem that shows that they are not those of a table."""
    state = TableState()
    state.apply(actions)
    lacking = state.lacks()
    if lacking is not None:
        return state, f"no action {lacking}"
    counts = Counter(kind for action in actions for kind in action)
    expected = {"metaData": 1, "protocol": 1, "add": len(state.files)}
    repeated = next((kind for kind, count in expected.items() if counts[kind] != count), None)
    return state, None if repeated is None else f"{counts[repeated]} actions {repeated}, not {expected[repeated]}"
