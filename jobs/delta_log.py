"""What a table's log says, read without Spark where it lies in a local folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jobs.errors import WarehouseDamagedError


def local_properties(log: Path, version: int) -> dict[str, str]:
    """Return the properties that a table has at a version: from the newest checksum, or commit, that tells them.

    Spark writes a checksum with every commit, so that this reads one file; other writers need not.

    Raises:
        WarehouseDamagedError: a commit is no JSON, or none of those left tells the properties.
    """
    for number in range(version, -1, -1):
        for suffix, field in ((".crc", "metadata"), (".json", "metaData")):
            for action in _actions(log / f"{number:020}{suffix}"):
                if field in action:
                    return action[field].get("configuration", {})
    raise WarehouseDamagedError(f"{log}: no commit tells the table's properties; restore the folder from a copy, or rebuild the warehouse")


def _actions(path: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
    except FileNotFoundError:
        return []
    except ValueError as error:
        raise WarehouseDamagedError(f"{path}: not JSON ({error}); restore the folder from a copy, or rebuild the warehouse") from None
