"""Text files that are there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from jobs.errors import EvenkeelError


def write_text(parts: Iterable[str], path: Path) -> None:
    """Write the parts beside the file's place and move it there: nobody ever opens half a report.

    What UTF-8 cannot hold, a lone surrogate, is written as an escape.

    Raises:
        EvenkeelError: the file cannot be written.
    """
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with unfinished.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
            file.writelines(parts)
        os.replace(unfinished, path)
    except OSError as error:
        raise EvenkeelError(f"report: cannot write {path}: {error.strerror}; name another place for it") from error
