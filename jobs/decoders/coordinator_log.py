"""Logs of brokers -> what their group coordinators did, when, and why.

The lines of coordinators are a small part of a broker's log. They are found in the bytes of a piece, and only they are decoded. Each
becomes a row, or is counted as skipped, or is refused with a reason. A line that can be read in several ways is refused.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from io import BufferedIOBase
from typing import Any, NamedTuple

from jobs.decoders.coordinator_events import EMPTY, CoordinatorFields, read_message, read_reason
from jobs.decoders.coordinator_lines import Envelope, TornLineError, read_json, read_text
from jobs.decoders.coordinator_wordings import Skipped
from jobs.decoders.decoded import text as checked_text
from jobs.decoders.describe import looks_like_describe
from jobs.decoders.dump_log import looks_like_dump
from jobs.decoders.formatter_json import find_separator
from jobs.decoders.log_times import LogTimes
from jobs.decoders.plain_lines import has_marks
from jobs.decoders.terminal_codes import without_colours
from jobs.decoders.wordings import MOST_GENERATION, Unclear
from schemas.vocabulary import CoordinatorEvent, Word

LONGEST_LINE_BYTES = 1 << 20
_HUAWEI_MARK = b'_REBALANCE"'
_MARK = re.compile(rb"Group(?:Coordinator|Metadata)")
"""What is in every line of a group coordinator. The pattern begins with a literal, which makes a search ten times as fast."""
_ANY_MARK = re.compile(rb"Group(?:Coordinator|Metadata)|_REBALANCE\"")
_GROUP = re.compile(r"\b[Gg]roup(?:Id)?\b")
_BROKER_LOGGER = re.compile(
    r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] [A-Z]+ .* \("
    r"(?:kafka\.(?:coordinator|server|log|cluster|network|zk|raft|security)"
    r"|org\.apache\.kafka\.(?:coordinator|server|raft|metadata|image|storage|controller))\.[\w.$]+\)\r?$",
    re.MULTILINE,
)
"""A line in Kafka's own pattern of a logger that only brokers have."""
_OTHER_CAPTURE = re.compile(
    r"^\s*\{(?=[^\n]*\"(?:members|committed_offset|observed_at_ms|topics|brokers)\"\s*:)(?![^\n]*\"(?:message|msg|log|line)\"\s*:)"
)


class Refusal(Word):
    """Why a line of a coordinator cannot be used."""

    TORN = "torn_line"
    NO_TIME = "no_time"
    BAD_TIME = "bad_time"
    NOT_UTF8 = "not_utf8"
    BAD_JSON = "bad_json"
    UNKNOWN_WORDING = "unknown_wording"
    AMBIGUOUS = "ambiguous"


_DETAILS = {
    Refusal.TORN: "found a part of a coordinator's line; expected a whole line, with its time and its logger",
    Refusal.NO_TIME: "found a coordinator's line without a date; expected a pattern such as [%d] %p %m (%c)%n, or a field with the time",
    Refusal.NOT_UTF8: "found bytes that are not UTF-8, so that names of groups and members are lost",
    Refusal.UNKNOWN_WORDING: "found a message about a group that no release from 2.0 to 4.3 writes, or a part of one",
    Refusal.AMBIGUOUS: "found a message that can be read in several ways, since an id or a client's reason has the words of a message",
}


class LogRow(CoordinatorFields):
    """An event of a group in a log.

    Attributes:
        line_number: of its line in the piece, from 1.
        line_hash: 16 hexadecimal digits of the line, equal for equal lines; a line in a field of JSON has that of the line itself.
        broker: the id of the coordinator's broker; empty if the line does not name it.
        logged_at_ms: milliseconds since 1970, UTC.
        is_time_ambiguous: the local time is in an hour that a change of the clocks repeats or leaves out.
    """

    line_number: int
    line_hash: str
    broker: str
    logged_at_ms: int
    is_time_ambiguous: bool


class RefusedLine(NamedTuple):
    """A line of a coordinator that cannot be used; ``reason`` is a word of ``Refusal``."""

    line_number: int
    reason: str
    detail: str
    payload: bytes


@dataclass
class DecodedLog:
    """What is in a piece of a log.

    Each line is counted once: ``lines`` is the sum of the rows, the refused lines, and all other counts.

    Attributes:
        other_lines: of other loggers, of stack traces, and blank ones.
        too_long: lines longer than 1 MiB, which are not decoded.
        skipped: kind, a word of ``Skipped`` -> lines of coordinators that are no event of a group.
    """

    rows: list[LogRow] = field(default_factory=list)
    refused: list[RefusedLine] = field(default_factory=list)
    lines: int = 0
    other_lines: int = 0
    too_long: int = 0
    skipped: Counter[str] = field(default_factory=Counter)


def decode_piece(piece: bytes, zone: str | None = None) -> DecodedLog:
    r"""Return the events in whole lines of a broker's log; raises nothing for any content.

    Args:
        piece: lines that end with ``\n``, ``\r\n`` or ``\r``; the last line of a log may have no end.
        zone: of times without one, a name of the IANA database; None for UTC.

    Raises:
        UsageError: there is no such zone.
    """
    times = _times_of(zone)
    piece = without_colours(piece)
    if b"\r" in piece:
        piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    log = DecodedLog(lines=piece.count(b"\n") + (piece[-1:] not in (b"", b"\n")))
    long_lines = set(_long_lines(piece))
    log.too_long = len(long_lines)
    number, counted = 1, 0
    for start, end in _marked_lines(piece):
        if start in long_lines:
            continue
        number += piece.count(b"\n", counted, start)
        counted = start
        _decode_line(piece[start:end], number, times, log, has_end=end < len(piece))
    log.other_lines = log.lines - log.too_long - len(log.rows) - len(log.refused) - log.skipped.total()
    return log


def looks_like_coordinator_log(head: bytes) -> bool:
    """Return whether the beginning of a file is from a broker's log, or from JSON with lines of a group coordinator."""
    text = without_colours(head).decode(errors="replace")
    if find_separator(text) is not None or looks_like_dump(text) or _OTHER_CAPTURE.match(text):
        return False
    if looks_like_describe(text) and not has_marks(text):  # logs of several containers may have the output of one
        return False
    if _BROKER_LOGGER.search(text):
        return True
    whole = head[: head.rfind(b"\n") + 1] or head
    log = decode_piece(whole)
    return bool(log.rows or log.skipped)


def has_coordinator_line(content: BufferedIOBase) -> bool:
    """Return whether a text has a line of a group coordinator anywhere; reads on to the first one."""
    rest = b""
    while block := content.read(LONGEST_LINE_BYTES):
        text = rest + block
        end = text.rfind(b"\n") + 1
        log = decode_piece(text[:end])
        if log.rows or log.skipped:
            return True
        rest = text[end:] if len(text) - end <= LONGEST_LINE_BYTES else b""
    log = decode_piece(rest)
    return bool(log.rows or log.skipped)


@lru_cache(maxsize=16)
def _times_of(zone: str | None) -> LogTimes:
    return LogTimes(zone)


def _long_lines(piece: bytes) -> Iterator[int]:
    """Yield where lines begin that are too long."""
    start = 0
    while len(piece) - start > LONGEST_LINE_BYTES:
        end = piece.rfind(b"\n", start, start + LONGEST_LINE_BYTES + 1)
        if end < 0:
            yield start
            end = piece.find(b"\n", start)
            if end < 0:
                return
        start = end + 1


def _marked_lines(piece: bytes) -> Iterator[tuple[int, int]]:
    """Yield begin and end of lines that may be of a group coordinator."""
    pattern = _ANY_MARK if _HUAWEI_MARK in piece else _MARK
    end = -1
    while (mark := pattern.search(piece, end + 1)) is not None:
        start = piece.rfind(b"\n", end + 1, mark.start()) + 1 or end + 1
        end = piece.find(b"\n", mark.end())
        if end < 0:
            yield start, len(piece)
            return
        yield start, end


def _decode_line(line: bytes, number: int, times: LogTimes, log: DecodedLog, *, has_end: bool) -> None:
    """Add the row of a line to a decoded log, its kind, or why it is refused."""
    try:
        text = line.decode()
    except UnicodeDecodeError:
        _refuse_lost_names(line, number, times, log, has_end=has_end)
        return
    is_json = text.lstrip()[:1] == "{"
    try:
        envelope = read_json(text, times) if is_json else read_text(text, times, has_end=has_end)
    except TornLineError:
        _refuse(log, number, Refusal.TORN, line)
        return
    except (ValueError, OverflowError, RecursionError) as error:
        _refuse(log, number, Refusal.BAD_JSON if is_json else Refusal.BAD_TIME, line, f"{type(error).__name__}: {error}")
        return
    if envelope is None:
        return
    fields = _fields_of(envelope)
    if isinstance(fields, Skipped):
        log.skipped[fields.value] += 1
    elif isinstance(fields, Refusal):
        _refuse(log, number, fields, line)
    elif envelope.time is None:
        _refuse(log, number, Refusal.NO_TIME, line)
    else:
        content = line if envelope.line is None else envelope.line.encode()
        log.rows.append(
            {
                **fields,
                "line_number": number,
                "line_hash": hashlib.blake2b(content, digest_size=8).hexdigest(),
                "broker": envelope.broker,
                "logged_at_ms": envelope.time.at_ms,
                "is_time_ambiguous": envelope.time.is_ambiguous,
            }
        )


def _refuse(log: DecodedLog, number: int, reason: Refusal, line: bytes, detail: str = "") -> None:
    log.refused.append(RefusedLine(number, reason.value, detail or _DETAILS[reason], line))


def _refuse_lost_names(line: bytes, number: int, times: LogTimes, log: DecodedLog, *, has_end: bool) -> None:
    """Refuse a coordinator's line that is not UTF-8; a line of another logger is none of them."""
    try:
        text = line.decode(errors="replace")
        is_of_other = text.lstrip()[:1] != "{" and read_text(text, times, has_end=has_end) is None
    except ValueError:
        is_of_other = False
    if not is_of_other:
        _refuse(log, number, Refusal.NOT_UTF8, line)


def _fields_of(envelope: Envelope) -> CoordinatorFields | Skipped | Refusal:
    """Return the event in an envelope, its kind if it is none of a group, or why it is refused."""
    if envelope.content is not None:
        return _of_huawei(envelope.content, envelope.message)
    fields = read_message(envelope.message, is_scala=envelope.is_scala, is_end_certain=envelope.is_end_certain)
    if fields is None:
        if not envelope.is_end_certain:
            return Refusal.TORN
        if envelope.is_debug:
            return Skipped.DEBUG
        return Refusal.UNKNOWN_WORDING if _GROUP.search(envelope.message) else Skipped.NO_GROUP
    if isinstance(fields, Unclear):
        return Refusal.AMBIGUOUS
    if not isinstance(fields, Skipped) and fields["offsets_partition"] is None:
        fields["offsets_partition"] = envelope.offsets_partition
    return fields


def _of_huawei(content: dict[str, Any], reason: str) -> CoordinatorFields | Refusal:
    """Return the event of Huawei's rebalancing log: its fields name group, generation and leader, so that these are not ambiguous."""
    try:
        group_id, generation = checked_text(content["groupId"]), int(content["generationId"])
    except (TypeError, ValueError, KeyError):
        return Refusal.UNKNOWN_WORDING
    if abs(generation) > MOST_GENERATION:
        return Refusal.UNKNOWN_WORDING
    fields = EMPTY.copy()
    fields["group_id"], fields["generation"], fields["protocol"], fields["reason"] = group_id, generation, "classic", reason or None
    if content["type"] == "END_REBALANCE":
        leader = content.get("leaderId")
        fields["event"] = str(CoordinatorEvent.ASSIGNMENT_RECEIVED)
        fields["member_id"] = leader if isinstance(leader, str) and leader else None
        return fields
    fields["event"] = str(CoordinatorEvent.REBALANCE_STARTED)
    known = read_message(reason, is_scala=True, is_end_certain=True)
    if isinstance(known, dict):
        return {**known, "group_id": group_id, "generation": generation}
    parts = read_reason(reason, is_scala=True)
    if known is Unclear.AMBIGUOUS or isinstance(parts, Unclear):
        return Refusal.AMBIGUOUS
    kind, of_reason = parts
    fields["reason_kind"] = str(kind)
    fields["reason_member_id"], fields["client_reason"] = of_reason.get("member_id"), of_reason.get("client_reason")
    return fields
