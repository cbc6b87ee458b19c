"""Lines of a coordinator's log in their envelopes: patterns of log4j, and JSON of log systems.

Kafka's own pattern is ``[%d] %p %m (%c)%n``. Operators change it, so that the time, the level, the thread and the logger may be anywhere
before the message. Or the logger is after it, perhaps with the thread last, as Strimzi has it up to Kafka 3.9. Log systems wrap such
lines, or their parts, in JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from jobs.decoders.log_times import TIME, LogTime, LogTimes, epoch_time
from jobs.decoders.terminal_codes import without_codes

DEEPEST = 6
"""How deep in a JSON object a line is searched."""
_TEXT_FIELDS = ("message", "msg", "log", "@message", "textPayload", "line", "_raw", "MESSAGE", "body", "original", "content", "event")
_TIME_FIELDS = ("instant", "timeMillis", "timestamp", "@timestamp", "time", "ts", "eventTime", "datetime", "date", "asctime", "_time")
_LOGGER_FIELDS = ("loggerName", "logger_name", "logger", "log.logger", "category")
_LEVEL_FIELDS = ("level", "severity", "levelname", "log.level", "loglevel")
_HUAWEI_TYPES = ("START_REBALANCE", "END_REBALANCE")

_KAFKA = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d):(\d\d),(\d{3})\] ([A-Z]+) +(.*) \(([\w.$-]+)\)", re.DOTALL)
"""Kafka's own pattern."""
_PREFIX = re.compile(
    r"\[GroupCoordinator (?:id=(?P<java>-?\d+)(?: topic=\S+ partition=(?P<partition>\d{1,9}))?|(?P<scala>-?\d+))\]:? "
    r"|\[GroupMetadataManager brokerId=(?P<manager>-?\d+)\] "
)
"""What coordinators write before a message."""
_LAST_NAME = r"(?:Group(?:Coordinator|Metadata)|OffsetMetadata)\w*|ClassicGroup|ConsumerGroup|CoordinatorRuntime"
_LOGGER_NAME = rf"(?:[\w$]+\.)*(?:coordinator\.(?:group|common\.runtime)\.[\w.$]+|{_LAST_NAME})"
_LOGGER = re.compile(_LOGGER_NAME)
_LOGGER_BEFORE = re.compile(rf"(?<![\w.$]){_LOGGER_NAME}(?![\w.$ ]*\d+\])")
_LOGGER_AFTER = re.compile(r" [(\[]((?:[\w$-]+\.)+[\w$-]+|\w{3,})(?::\d+)?[)\]](?: \[[^\[\]]{1,200}\])?\s*\Z")
"""A logger after the message, and perhaps the thread."""
_THREAD = re.compile(r"\[[^\[\]]{1,200}\] +")
_BEGIN_OF_KAFKA = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] [A-Z]+ +\Z")
_LEVEL = re.compile(r"\b(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL)\b")
_BRACKETS = re.compile(r"\[[^\]]*\]|\([^)]*\)")
LONGEST_BEGIN = 1000
"""The most characters before a message. The patterns for that part would take too long for a whole line."""
MOST_WORDS_BEFORE = 4
"""How many words besides time, level and thread a pattern without a logger may have before the message."""


class Envelope(NamedTuple):
    """A message of a coordinator and what its line says besides.

    Attributes:
        line: the line as its broker wrote it; None if only its parts are known.
        time: None if the line has none.
        is_debug: the level of the line is lower than that of Kafka's own settings.
        broker: empty if the line does not name it.
        is_scala: the coordinator is one of 0.9 to 3.9.
        is_end_certain: the message is known to be whole.
        content: the fields of a rebalancing log of Huawei Cloud, whose ``message`` is the reason; None for other logs.
    """

    line: str | None
    time: LogTime | None
    is_debug: bool
    broker: str
    offsets_partition: int | None
    is_scala: bool
    message: str
    is_end_certain: bool
    content: dict[str, Any] | None = None


class TornLineError(ValueError):
    """A part of a line: it begins or ends in the middle."""


@lru_cache(maxsize=1024)
def is_of_coordinator(logger: str) -> bool:
    """Return whether a logger is one of Kafka's group coordinators, by its full, shortened or last name."""
    return _LOGGER.fullmatch(logger) is not None


def read_text(text: str, times: LogTimes, *, has_end: bool, sent_at: LogTime | None = None) -> Envelope | None:
    """Return the envelope of a line; None for a line of another logger.

    Args:
        has_end: the line has a line end.
        sent_at: used if the line has no time.

    Raises:
        TornLineError: a part of a coordinator's line.
        ValueError: there is no such time.
    """
    own = _KAFKA.fullmatch(text)
    if own is not None:
        minute, second, millisecond, level, message, logger = own.groups()
        if not is_of_coordinator(logger):
            return None
        time = times.at(minute, int(second), int(millisecond))
        thread = _THREAD.match(message)
        if thread is not None and _PREFIX.match(message) is None and _PREFIX.match(message, thread.end()) is not None:
            message = message[thread.end() :]
        return _envelope(text, time, level in ("DEBUG", "TRACE"), message, is_end_certain=True, is_java=logger.startswith("org."))
    prefix = _PREFIX.search(text)
    after = _LOGGER_AFTER.search(text)
    if prefix is None:
        if after is not None and "." in after[1] and is_of_coordinator(after[1]):
            raise TornLineError  # only its end
        return None
    if prefix.start() > LONGEST_BEGIN:
        return None
    head = text[: prefix.start()]
    before = _LOGGER_BEFORE.search(head)
    if before is None and after is not None and "." in after[1] and not is_of_coordinator(after[1]):
        return None
    is_followed = before is None and after is not None and is_of_coordinator(after[1])
    if before is None and not is_followed and _words_of(head) > MOST_WORDS_BEFORE:
        return None  # words of another logger that repeat a message
    found = [*TIME.finditer(head)]
    time_of_line = times.of_text(found[-1]) if found else sent_at
    if time_of_line is None and before is None and not head.strip():
        raise TornLineError
    level_of_line = _LEVEL.search(head)
    is_debug = level_of_line is not None and level_of_line[0] in ("DEBUG", "TRACE")
    if not is_followed and before is None and _BEGIN_OF_KAFKA.search(head) is not None:
        raise TornLineError  # Kafka's own pattern ends with the logger
    is_end_certain = is_followed or has_end
    message = text[prefix.start() : after.start() if is_followed and after is not None else None]
    return _envelope(text, time_of_line, is_debug, message, is_end_certain=is_end_certain, is_java=False)


def _words_of(head: str) -> int:
    return len(re.sub(r"[^\w./-]+", " ", _BRACKETS.sub(" ", TIME.sub(" ", head))).split())


def _envelope(line: str | None, time: LogTime | None, is_debug: bool, message: str, *, is_end_certain: bool, is_java: bool) -> Envelope:
    prefix = _PREFIX.match(message)
    if prefix is None:
        return Envelope(line, time, is_debug, "", None, not is_java, message, is_end_certain)
    java, partition, scala, manager = prefix.groups()
    broker = java or scala or manager
    number = None if partition is None else int(partition)
    return Envelope(line, time, is_debug, broker, number, java is None, message[prefix.end() :], is_end_certain)


def read_json(text: str, times: LogTimes) -> Envelope | None:
    """Return the envelope in a JSON object; None for an object of another logger.

    Raises:
        ValueError: it is not JSON, or there is no such time.
        RecursionError: it is too deep.
        TornLineError: it has a part of a coordinator's line.
    """
    content = json.loads(text)
    for value, around in _texts(content, ()):
        if isinstance(value, dict):
            return _of_huawei(value, around, times)
        logger = _field(around, _LOGGER_FIELDS)
        if isinstance(logger, str) and " " not in logger and not is_of_coordinator(logger):
            continue
        sent_at = _time_around(around, times)
        line = _line_in(value)
        prefix = _PREFIX.match(line)
        if prefix is None and TIME.search(line, 0, 200) is not None:
            envelope = read_text(line, times, has_end=True, sent_at=sent_at)
            if envelope is None:
                continue
            line.encode()
            return envelope
        if prefix is None and not isinstance(logger, str):
            continue
        after = _LOGGER_AFTER.search(line)
        if not isinstance(logger, str) and after is not None and is_of_coordinator(after[1]):
            line = line[: after.start()]
        line.encode()
        is_debug = str(_field(around, _LEVEL_FIELDS)).upper() in ("DEBUG", "TRACE")
        return _envelope(None, sent_at, is_debug, line, is_end_certain=True, is_java=isinstance(logger, str) and logger.startswith("org."))
    return None


def _line_in(text: str) -> str:
    """Return a logged line without codes for terminals and without the stack trace after it."""
    line = without_codes(text).rstrip("\r\n")
    first, end, _ = line.partition("\n")
    return first if end and _KAFKA.fullmatch(line) is None and _KAFKA.fullmatch(first) is not None else line


def _texts(content: Any, around: tuple[dict[str, Any], ...]) -> Iterator[tuple[Any, tuple[dict[str, Any], ...]]]:
    """Yield texts that may be a coordinator's line or message, each with the objects around it, the innermost first.

    An object of the rebalancing log of Huawei Cloud is yielded itself.
    """
    if not isinstance(content, dict) or len(around) >= DEEPEST:
        return
    if content.get("type") in _HUAWEI_TYPES and "groupId" in content:
        yield content, around
        return
    inside = (content, *around)
    has_logger = isinstance(logger := _field((content,), _LOGGER_FIELDS), str) and is_of_coordinator(logger)
    names = [name for name in _TEXT_FIELDS if name in content]
    for name in [*names, *(name for name in content if name not in names)]:
        value = content[name]
        if isinstance(value, dict):
            yield from _texts(value, inside)
        elif isinstance(value, str) and value.startswith("{") and value.rstrip().endswith("}"):
            try:
                inner = json.loads(value)
            except (ValueError, RecursionError):
                continue
            yield from _texts(inner, inside)
        elif isinstance(value, str) and ((" " in value and "Group" in value) or (has_logger and name in names)):
            yield value, inside


def _field(around: tuple[dict[str, Any], ...], names: tuple[str, ...]) -> Any:
    for fields in around:
        for name in names:
            if fields.get(name) is not None and not (name in ("log", "event") and isinstance(fields[name], dict)):
                return fields[name]
    return None


def _time_around(around: tuple[dict[str, Any], ...], times: LogTimes) -> LogTime | None:
    """Return the first time in the objects around a text.

    Raises:
        ValueError: there is no such time.
    """
    for fields in around:
        for name in _TIME_FIELDS:
            time = _time_in(fields.get(name), times, is_utc=name[0] in "@_")
            if time is not None:
                return time
    return None


def _time_in(value: Any, times: LogTimes, *, is_utc: bool) -> LogTime | None:
    if isinstance(value, dict) and type(value.get("epochSecond")) is int:
        nanos = value.get("nanoOfSecond")
        return epoch_time(value["epochSecond"] * 1000 + (nanos // 1_000_000 if type(nanos) is int else 0))
    if type(value) in (int, float):
        return epoch_time(value)
    if not isinstance(value, str):
        return None
    match = TIME.match(value)
    if match is not None:
        return (_TIMES_OF_SYSTEMS if is_utc else times).of_text(match)
    return epoch_time(float(value)) if re.fullmatch(r"\d{9,19}(?:\.\d+)?", value) else None


_TIMES_OF_SYSTEMS = LogTimes()
"""Fields such as ``@timestamp`` are in UTC, also if they do not say so."""


def _of_huawei(content: dict[str, Any], around: tuple[dict[str, Any], ...], times: LogTimes) -> Envelope:
    """Return the envelope of an event of Huawei's rebalancing log."""
    broker, reason = content.get("coordinatorId"), content.get("reason")
    message = reason if isinstance(reason, str) else ""
    json.dumps(content, ensure_ascii=False).encode()
    time = _time_around((content, *around), times)
    return Envelope(None, time, False, "" if broker is None else str(broker), None, True, message, True, content)
