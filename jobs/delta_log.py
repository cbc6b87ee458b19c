"""What a table's log says, read without Spark where it lies in a local folder."""

from __future__ import annotations

import json
from pathlib import Path

from jobs.errors import WarehouseDamagedError


def local_properties(log: Path, version: int) -> dict[str, str]:
    """Return the properties that a table has at a version: from the newest checksum, or commit, that tells them.

    Spark writes a checksum with every commit, so that this reads one file; other writers need not.
    """
    for number in range(version, -1, -1):
        for suffix, field in ((".crc", "metadata"), (".json", "metaData")):
            path = log / f"{number:020}{suffix}"
            for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
                told = json.loads(line).get(field)
                if told is not None:
                    return told.get("configuration", {})
    raise WarehouseDamagedError(f"{log}: no commit tells the table's properties; restore the folder from a copy, or rebuild the warehouse")
