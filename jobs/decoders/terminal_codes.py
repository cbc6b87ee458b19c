"""Codes for terminals in texts: colours of ``grep`` and of log systems, and what shells write around a prompt. They are no content.

A name may have such codes too, since Kafka allows any text. So colours are removed only from lines that also return to the terminal's own
colour: a program that colours a word always does so.
"""

from __future__ import annotations

import re

_PASTED = r"\x1b\[\?[0-9;]{1,16}[hl]"
"""A mode of the terminal, such as for text that is pasted."""
_CODE = rf"{_PASTED}|\x1b(?:\[[0-9;]{{0,32}}[mK]|\][^\x07\x1b\r\n]{{0,1000}}(?:\x07|\x1b\\)|\([A-Z0-9])"
"""A colour, the rest of a line, a title of the window, a character set (ECMA-48)."""
_RESET = r"\x1b\[(?:0|0?;0?)?m"
_MODES, _CODES, _RESETS = re.compile(_PASTED), re.compile(_CODE), re.compile(_RESET)
_CODES_IN_BYTES, _RESETS_IN_BYTES = re.compile(_CODE.encode()), re.compile(_RESET.encode())


def without_codes(text: str) -> str:
    """Return a text without codes for terminals; line ends stay."""
    if "\x1b[" not in text:
        return text
    return "\n".join(_CODES.sub("", line) if _RESETS.search(line) else _MODES.sub("", line) for line in text.split("\n"))


def without_colours(text: bytes) -> bytes:
    """Return a text without the codes in coloured lines; line ends stay."""
    if b"\x1b[" not in text:
        return text
    return b"\n".join(_CODES_IN_BYTES.sub(b"", line) if _RESETS_IN_BYTES.search(line) else line for line in text.split(b"\n"))
