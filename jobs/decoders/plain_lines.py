"""Lines of a text of ``kafka-consumer-groups`` as the tool wrote them: what other programs put before or around each line is left out.

These are times of ``kubectl logs --timestamps``, of ``ts`` and of build servers, the words of ``journalctl``, names of ``kubectl logs
--prefix``, of Docker and of ``pdsh``, names and numbers of ``grep`` and ``cat -n``, marks of a quotation, the bars of a table in Markdown,
tags of Jira and HTML beside a header, and codes for terminals. Marks are removed only if the header of a table is found after such a mark
and nowhere else. So a single quoted row in a plain table stays a damaged row. In a table with blanks of a web page all of these become
spaces.
"""

from __future__ import annotations

import re

from jobs.decoders.terminal_codes import without_codes

_TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
_SHORT_TIME = r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d"
_UNIT = r"[\w.-]{1,256} [\w./@-]{1,256}(?:\[\d{1,10}\])?:"
_WORDS = (
    _TIME,
    rf"\[{_TIME}\]",
    _SHORT_TIME,
    rf"(?:{_TIME}|{_SHORT_TIME}) {_UNIT}",
    r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?",
    r"\[pod/[\w./-]{1,600}\]",
    r"[\w.@-]{1,256} {0,64}\|",
    r"[\w.-]{1,256}:",
    r"(?:> ?){0,8}>",
)
_MARKS = (
    *(rf"{words}(?: |$)" for words in _WORDS),
    *(r"[\w./-]{1,256}:", r"\d{1,9}:", r"[\w./-]{1,256}:\d{1,9}:", r" {0,8}\d{1,9}\t"),  # grep with names and numbers, cat -n
)
_HEADER_WORDS = r"(?:GROUP|TOPIC|CONSUMER-ID|COORDINATOR)\b"
_PLAIN_HEADER = re.compile(rf"^[ \t]*{_HEADER_WORDS}[ \t]+[A-Z(#]", re.MULTILINE)
_MARKED_HEADER = re.compile(rf"^(?:{'|'.join(f'({mark})' for mark in _MARKS)})[ \t]*{_HEADER_WORDS}[ \t]+[A-Z(#]", re.MULTILINE)
_LINE_MARKS = tuple(re.compile(rf"^{mark}") for mark in _MARKS)
_OPENED = re.compile(rf"^(?:<[a-z]{{1,10}}>|\{{(?:noformat|code)(?::\w{{1,20}})?\}}){{1,3}}(?={_HEADER_WORDS}[ \t]+[A-Z(#])", re.MULTILINE)
_CLOSED = re.compile(r"(?:</(?:code|pre|p)>|\{noformat\}|\{code\}){1,3}(?=\r?$)", re.MULTILINE)
_BYTE_ORDER_MARK = re.compile(rf"\A\ufeff|^\ufeff(?=[ \t\r]*$|{_HEADER_WORDS})", re.MULTILINE)
"""It may be within a text, too, if somebody has put several files together."""
_BLANKS = str.maketrans("\u00a0\u202f", "  ")
"""Blanks that do not break a line, as web pages and mail programs write them for spaces."""
_BLANK_HEADER = re.compile(rf"\b(?:{_HEADER_WORDS}|COORDINATOR \(ID\))[ \t\u00a0\u202f]*[\u00a0\u202f][ \t\u00a0\u202f]*[A-Z(#]")
_BAR = re.compile(r"\|")
_BARRED_HEADER = re.compile(rf"^[ \t]*(?:\|[ \t]*)?{_HEADER_WORDS}[ \t]*\|[ \t]*[A-Z(#]", re.MULTILINE)


def plain_lines(whole: str) -> list[str]:
    """Return the lines of a text without their ends; raises nothing, whatever the text is."""
    text = without_codes(_BYTE_ORDER_MARK.sub("", whole))
    if ("\u00a0" in text or "\u202f" in text) and _BLANK_HEADER.search(text):
        text = text.translate(_BLANKS)
    opened = _OPENED.sub("", text)
    if opened != text:
        text = _CLOSED.sub("", opened)
    # Not splitlines(): ids may hold what Python, but not Java, takes for the end of a line.
    lines = [line.rstrip("\r") for line in text.split("\n")]
    mark = _mark_of(text)
    return lines if mark is None else [mark.sub(" " if mark is _BAR else "", line, count=0 if mark is _BAR else 1) for line in lines]


def has_marks(whole: str) -> bool:
    """Return whether something is before or around each line of a text."""
    return _mark_of(without_codes(whole)) is not None


def _mark_of(text: str) -> re.Pattern[str] | None:
    if _PLAIN_HEADER.search(text):
        return None
    if _BARRED_HEADER.search(text):
        return _BAR
    marked = _MARKED_HEADER.search(text)
    return None if marked is None else _LINE_MARKS[int(marked.lastindex or 1) - 1]
