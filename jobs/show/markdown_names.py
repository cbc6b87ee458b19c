"""How names and sentences are written in Markdown. Clients can send any names."""

from __future__ import annotations

import re

from jobs.pages.figures import visible
from jobs.pages.plain_text import plain

_SIGNIFICANT = re.compile(r"([\\`*_{}\[\]<>|&~#!$])")
_WITHOUT_ESCAPE = re.compile(r"[@:]|www\.", re.IGNORECASE)
"""What a backslash does not make harmless in Markdown: mentions and addresses become links in the text that is left."""


def code(name: str | None) -> str:
    r"""Return a name as a code span of Markdown, in which nothing has a meaning but what this function replaces.

    >>> print(code("a|b`c"))
    `a\x7cb\x60c`
    """
    if name is None:
        return "-"
    text = plain(name).replace("`", r"\x60").replace("|", r"\x7c")
    return f"`{text}`"


def sentence(text: str) -> str:
    r"""Return a sentence that may have names in it, for Markdown.

    >>> print(sentence("topic a_b: see @all"))
    topic a\_b: see \\x40all
    """
    one_line = visible(text)
    kept = _WITHOUT_ESCAPE.sub(lambda found: _harmless(found, one_line), one_line)
    return _SIGNIFICANT.sub(r"\\\1", kept)


def _harmless(found: re.Match[str], text: str) -> str:
    sign = found.group()
    if sign == ":" and text[found.end() : found.end() + 1] != "/":
        return sign
    return "".join(f"\\x{ord(char):02x}" if not char.isalpha() else char for char in sign)
