"""Records of groups as Kafka's formatter prints them."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
GROUPS, COMMITS = "capture_group_metadata_formatter.jsonl.gz", "capture_offsets_formatter.jsonl.gz"


def printed(name: str) -> list[str]:
    """Return the objects of a recorded output, each as it was printed."""
    with gzip.open(GOLDEN / name, "rt", encoding="utf-8") as file:
        return [found for found in re.split(r'(?=\{"key":)', file.read()) if found]


def write(folder: Path, name: str, objects: list[str], between: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(between.join(objects), encoding="utf-8")
    return folder / name
