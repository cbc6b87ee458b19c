"""What a report notes in its page of itself: of which tables and settings it was made, and what it said on the terminal.

A run that changed no table finds by it that the page it would make is there already.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from schemas.config import ReportSettings

NOTE = "evenkeel-note"
"""Name of the element of the page's head that has it."""

_HEAD_BYTES = 1 << 17  # before the note stand a title and a policy, behind it the styles
_IN_PAGE = re.compile(rf'<meta name="{NOTE}" content="([^"]*)">')


@dataclass(frozen=True)
class Note:
    """What a page says of itself.

    Attributes:
        made_of: as ``made_of`` returns it.
        text: the summary for the terminal, without the page's path.
        file_count: how many files the lines of the groups take, the page among them.
    """

    made_of: str
    text: str
    file_count: int = 1

    def as_json(self) -> str:
        """Return the note as it stands in the page, before it is escaped."""
        return json.dumps(asdict(self))


def made_of(versions: Mapping[str, int], settings: ReportSettings, design: str) -> str:
    """Return what tells pages apart, but for the run, its clock, and where they are.

    Args:
        versions: of the tables that are read.
        settings: of the report.
        design: what tells releases of the page apart.
    """
    described = (sorted(versions.items()), settings.model_dump_json(exclude={"output", "export_dir"}), design)
    return hashlib.sha256(repr(described).encode()).hexdigest()


def read_note(page: Path) -> Note | None:
    """Return the note of a page, None where there is no such file, or none that has one."""
    try:
        with page.open("rb") as file:
            found = _IN_PAGE.search(file.read(_HEAD_BYTES).decode(errors="replace"))
        return None if found is None else Note(**json.loads(html.unescape(found[1])))
    except (OSError, ValueError, TypeError):
        return None
