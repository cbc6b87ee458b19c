"""Lines that programs write to stderr: they are between the lines of the output if both went to one file."""

from __future__ import annotations

import re

LONGEST_LINE = 4096
"""Longer lines are not searched, since the patterns would take too long."""
_LOG = re.compile(
    r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d.*|log4j:.*|SLF4J.*|WARNING: .*|.* VM warning: .*|Picked up \w+: .*"
    r"|\s+at \S+\(.*\)|\s*\.\.\. \d+ more|(?:Caused by: )?[\w$]+(?:\.[\w$]+)+(?:Exception|Error)(?:: .*)?"
)


def is_log_line(line: str) -> bool:
    """Return whether a line is from a logger, the JVM or a stack trace."""
    return len(line) <= LONGEST_LINE and _LOG.fullmatch(line) is not None
