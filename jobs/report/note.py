"""The note of a report in its page: its tables and settings, and the facts of its summary.

A run that changed no table reads the note. If the page would be the same, the run does not write it again.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from schemas.config import ReportSettings

NOTE = "evenkeel-note"
"""Name of the element with the note in the page's head."""

_HEAD_BYTES = 1 << 17  # a title and a policy come before the note, the styles after it
_IN_PAGE = re.compile(rf'<meta name="{NOTE}" content="([^"]*)">')


@dataclass(frozen=True)
class Note:
    """The note of one page.

    Attributes:
        made_of: as ``made_of`` returns it.
        facts: those of the summary that a run prints.
        file_count: number of files with lines of groups, including the page.
    """

    made_of: str
    facts: Mapping[str, Any]
    file_count: int = 1

    def as_json(self) -> str:
        """Return the note as the page has it, before it is escaped."""
        return json.dumps(asdict(self))


def made_of(versions: Mapping[str, int], settings: ReportSettings, design: str) -> str:
    """Return a digest of everything that changes a page, except for the run, its clock and the path.

    Args:
        versions: of the tables that are read.
        settings: of the report.
        design: a digest that differs between releases of the page.
    """
    described = (sorted(versions.items()), settings.model_dump_json(exclude={"output", "export_dir"}), design)
    return hashlib.sha256(repr(described).encode()).hexdigest()


def read_note(page: Path) -> Note | None:
    """Return the note of a page, None if the file is missing or has no valid note."""
    try:
        with page.open("rb") as file:
            found = _IN_PAGE.search(file.read(_HEAD_BYTES).decode(errors="replace"))
        return None if found is None else Note(**json.loads(html.unescape(found[1])))
    except (OSError, ValueError, TypeError):
        return None
