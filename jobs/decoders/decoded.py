"""The rows that every source makes from a record: landed, skipped or quarantined."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from schemas.row_types import DecodedRow
from schemas.vocabulary import Outcome

PAYLOAD_BYTES = 64 * 1024
DETAIL_BYTES = 64 * 1024
"""More than the longest id in a record, plus a message about it."""
LAST_MS = 7_258_118_400_000
"""2200-01-01: a later time is damage, and some readers of the tables could not show it."""

Row = dict[str, Any]


def landed(kind: str) -> DecodedRow:
    """Return the row of a record that goes to a table, without its content."""
    return {"outcome": Outcome.LANDED.value, "kind": kind}


def skipped(kind: str) -> DecodedRow:
    """Return the row of a record of a known kind that is not used."""
    return {"outcome": Outcome.SKIPPED.value, "kind": kind}


def seen_rebalancing(kind: str, group_id: str, at_ms: int, state: str | None, member_ids: Iterable[str]) -> DecodedRow:
    """Return the row of a poll that saw a group rebalance: it is skipped, and ``payload`` has what it saw.

    Args:
        state: None if only a notice says so, which does not tell classic groups from others.
    """
    seen = {"group_id": group_id, "at_ms": at_ms, "state": state, "member_ids": sorted(member_ids)}
    payload = json.dumps(seen).encode()
    return {**skipped(kind), "payload": payload, "payload_hash": hashlib.sha256(payload).hexdigest()}


def quarantined(kind: str, reason: str, detail: str, payload: bytes) -> DecodedRow:
    """Return the row of a record that cannot be used; detail and payload are cut, and the detail is made valid UTF-8."""
    return {
        "outcome": Outcome.QUARANTINED.value,
        "kind": kind,
        "reason": reason,
        "detail": detail.encode(errors="backslashreplace")[:DETAIL_BYTES].decode(errors="ignore"),
        "payload": payload[:PAYLOAD_BYTES],
        "payload_hash": hashlib.sha256(payload).hexdigest(),
    }


def micros(milliseconds: int | None) -> int | None:
    """Return a time in microseconds for a timestamp column, None outside 1970 to 2200."""
    return milliseconds * 1000 if milliseconds is not None and 0 <= milliseconds < LAST_MS else None


def integer(value: Any, bits: int) -> int:
    """Return a number out of JSON, for a column of so many bits.

    Raises:
        ValueError: it is not a whole number, or too large. Python also takes ``1e400`` and ``true`` for numbers, and a number that
            does not fit its column would end the worker.
    """
    if type(value) is not int or not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise ValueError(f"expected a whole number of {bits} bits, found {repr(value)[:100]}")
    return value


def text(value: Any) -> str:
    """Return a string out of JSON, for a column.

    Raises:
        ValueError: it is not a string, or has half a surrogate pair, which no column can store.
    """
    if not isinstance(value, str):
        raise ValueError(f"expected a string, found {repr(value)[:100]}")
    value.encode()
    return value
