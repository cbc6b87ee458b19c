"""Command lines around the output of kafka-consumer-groups: which lines they are, and which group they name."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise

TOOL = re.compile(r"\b(?:kafka-consumer-groups\b|ConsumerGroupCommand )")
"""What names the tool, as a script or as a class."""
COMMAND = re.compile(rf".*{TOOL.pattern}.*" r"|\[?[\w.-]+@[\w.-][^$#%>]*[$#%>](?: .*)?|[$#%>](?: .*)?|(?:PS )?[A-Z]:\\[^>]*>.*")
"""A whole line: the tool, or a prompt of a shell."""
_GROUP_OPTION = re.compile(r"""(?<![\w-])--group(?:=|\s+)("[^"]*"|'[^']*'|[^\s"'();<>|&]+)""")
_OF_THE_SHELL = re.compile(r"[$`\\]")
GOES_ON = ("\\", "^", "`")
"""Ends of a line of a command that goes on in the next line: in a Unix shell, in cmd and in PowerShell."""


def named_group(command: str) -> str | None:
    """Return the group that ``--group`` names on a command line; None if it names none, several, or one that only the shell knows."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        words = list(lexer)
    except ValueError:
        words = []  # the prompt has an apostrophe
    named = [after for word, after in pairwise(words) if word == "--group"]
    named += [word.removeprefix("--group=") for word in words if word.startswith("--group=")]
    if not named:  # or the command is within quotes
        named = [word.strip("\"'") for word in _GROUP_OPTION.findall(command)]
    return named[0] if len(named) == 1 and not _OF_THE_SHELL.search(named[0]) else None
