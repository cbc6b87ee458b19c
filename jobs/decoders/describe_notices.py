"""Notices of kafka-consumer-groups on stderr: what the tool says of a group outside of its tables, and that it failed.

Wordings were read from ``ConsumerGroupCommand`` (Scala until Kafka 3.7, Java since 3.8) and recorded from the tools 2.4 to 4.3. For a group
that does not exist brokers since 4.0 answer with an error, so that tools since 4.0 fail, where older ones print a notice.
"""

from __future__ import annotations

import re
from typing import NamedTuple

EMPTY, REBALANCING, ABSENT, OTHER, FAILED = "empty", "rebalancing", "absent", "other", "failed"
"""Kinds of notices: of a group without members, that rebalances, that does not exist, that is of another kind; of a failure."""

_COMMAND_FAILED = "Executing consumer group command failed "
_NO_GROUP = (
    rf"Error: {_COMMAND_FAILED}due to (?:java\.util\.concurrent\.ExecutionException: )?"
    r"org\.apache\.kafka\.common\.errors\.GroupIdNotFoundException: Group "
)
_NOTICE = re.compile(
    r"Consumer group '(?P<empty>.*)' has no active members\.|Warning: Consumer group '(?P<rebalancing>.*)' is rebalancing\."
    r"|Error: (?:The c|C)onsumer group '(?P<absent_before_4>.*)' does not exist\."
    rf"|{_NO_GROUP}(?:(?P<absent>.*) not found\.|(?P<other>.*) is not a consumer group\.)|Error: (?P<failed>.*)"
)


class Notice(NamedTuple):
    """A notice; ``group_id`` is None if the tool failed without naming a group."""

    kind: str
    group_id: str | None


def find_notice(line: str) -> Notice | None:
    """Return the notice that a line is; None for another line."""
    match = _NOTICE.fullmatch(line.strip())
    if match is None:
        return None
    kind = str(match.lastgroup).removesuffix("_before_4")
    return Notice(kind, None if kind == FAILED else match[str(match.lastgroup)].rstrip(" "))


def is_own_notice(line: str) -> bool:
    """Return whether a line is a notice that no other program writes. Many programs begin lines with ``Error:``."""
    notice = find_notice(line)
    return notice is not None and (notice.kind != FAILED or line.strip().startswith(f"Error: {_COMMAND_FAILED}"))
