"""Snapshots of groups in the project's own envelope: one group at one moment, one JSON object a line.

``schemas.snapshot.GroupSnapshot`` defines an envelope. Workers do not import pydantic, so this module checks the definition by hand.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

from jobs.decoders.consumer_offsets import CONSUMER_PROTOCOL_TYPES
from jobs.decoders.decoded import LAST_MS, Row, integer, landed, micros, quarantined, seen_rebalancing, skipped, text
from schemas.row_types import DecodedRow, OffsetCommitRow, RowKey, SnapshotRow
from schemas.vocabulary import BETWEEN_GENERATIONS, COMPLETING, SERVER_STRATEGIES_BY_NAME, GroupState, GroupType

KIND = "group_snapshot"

PARTITION_FIELDS = ("owned", "assigned", "current", "pending_revocation")
"""Fields of a member that are partitions by topic."""

_WITHOUT_GENERATION = (*BETWEEN_GENERATIONS, "Dead", "Unknown")
"""States of groups that have no generation, or may have none: a client writes ``Unknown`` for a state that it does not know."""
_STATES = {
    **{word.lower(): word for word in (*map(str, GroupState), *_WITHOUT_GENERATION)},
    **{word.lower().replace("rebalance", "rebalancing"): word for word in BETWEEN_GENERATIONS},  # as librdkafka's constants
    "awaitingsync": COMPLETING,  # before Kafka 1.1
}
"""Spelling of a state in lower case, without what separates its words -> Kafka's word."""

_Check = Callable[[Any], Any]
"""Returns a JSON value in the form of its column; a ValueError says what was expected and found. An absent field is None."""


def decode_line(line: bytes) -> Iterator[DecodedRow]:
    """Yield the decoded rows of one envelope: its snapshot where it has members, and one for each of its offsets.

    An envelope without both is skipped. So is the snapshot of a group that is not of consumers, or whose state has no generation. A line
    that is not an envelope is one quarantined row. Raises nothing, whatever the line is.
    """
    try:
        envelope = _envelope(json.loads(line.decode()))
    except _MistakeError as mistake:
        yield quarantined("unreadable_line", mistake.reason, f"{mistake.where.lstrip('.')}: {mistake}", line)
        return
    except (ValueError, RecursionError) as error:
        detail = f"expected a snapshot of a group, found {type(error).__name__}: {error}"
        yield quarantined("unreadable_line", "malformed_line", detail, line)
        return
    yield from _rows(envelope)


def _rows(envelope: Row) -> Iterator[DecodedRow]:
    position = envelope["observed_at_ms"] if envelope["position"] is None else envelope["position"]
    columns: RowKey = {"group_id": envelope["group_id"], "position": position, "observed_at": micros(envelope["observed_at_ms"])}
    where = f"{position} {envelope['group_id']}"
    known: DecodedRow = {} if envelope["cluster_id"] is None else {"cluster_id": envelope["cluster_id"]}
    if envelope["members"] is not None or not envelope["offsets"]:
        unused, state = _unused_kind(envelope), envelope["state"]
        row: DecodedRow
        if unused == f"{KIND}:{state}" and state in BETWEEN_GENERATIONS:
            member_ids = [member["member_id"] for member in envelope["members"]]
            row = seen_rebalancing(unused, envelope["group_id"], envelope["observed_at_ms"], state, member_ids)
        else:
            row = skipped(unused) if unused else {**landed(KIND), "snapshot": {**columns, **_snapshot(envelope)}}
        yield {**row, **known, "source_position": where}
    for commit in envelope["offsets"] or ():
        row = {**landed("offset_commit"), "offset_commit": {**columns, **_commit(commit)}}
        yield {**row, **known, "source_position": f"{where} {commit['topic']}-{commit['partition']}"}


def _unused_kind(envelope: Row) -> str | None:
    """Return the kind under which an envelope's snapshot is skipped, None for one that lands."""
    if envelope["members"] is None:
        return f"{KIND}_without_content"
    if envelope["protocol_type"] not in (None, *CONSUMER_PROTOCOL_TYPES):
        return f"{KIND}:{envelope['protocol_type']}"
    if envelope["state"] in _WITHOUT_GENERATION:
        return f"{KIND}:{envelope['state']}"
    return None


def _snapshot(envelope: Row) -> SnapshotRow:
    members, strategy = envelope["members"], envelope["strategy"]
    if envelope["group_type"] == GroupType.CONSUMER:
        strategy = SERVER_STRATEGIES_BY_NAME.get(strategy, strategy)
    return {
        "generation": envelope["generation"],
        "group_type": envelope["group_type"],
        "protocol_type": "consumer" if envelope["protocol_type"] is None else envelope["protocol_type"],
        "state": envelope["state"],
        "strategy": strategy if members else None,  # brokers also name one for an empty consumer-protocol group, which nobody chose
        "leader_member_id": envelope["leader_member_id"],
        "joined_at": micros(envelope["joined_at_ms"]),
        "reconciled_at": micros(envelope["reconciled_at_ms"]),
        "members": members,
        "fingerprint": _fingerprint(members),
    }


def _fingerprint(members: list[Row]) -> str:
    """Return a hash of members and their partitions in any order: brokers and clients list both in the order of their hash tables."""
    sets = [{**member, **{name: _sorted_partitions(member[name]) for name in PARTITION_FIELDS}} for member in members]
    sets.sort(key=lambda member: member["member_id"])
    return _hashed(sets)


def _sorted_partitions(entries: list[Row] | None) -> list[tuple[str, list[int]]] | None:
    return None if entries is None else sorted((entry["topic"], sorted(entry["partitions"])) for entry in entries)


def _commit(commit: Row) -> OffsetCommitRow:
    content: OffsetCommitRow = {
        "topic_id": commit["topic_id"],
        "committed_offset": commit["committed_offset"],
        "leader_epoch": commit["leader_epoch"],
        "metadata": commit["metadata"],
        "committed_at": micros(commit["committed_at_ms"]),
        "is_deleted": commit["committed_offset"] is None,
    }
    return {"topic": commit["topic"], "partition": commit["partition"], **content, "fingerprint": _hashed(content)}


def _hashed(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=bytes.hex).encode()).hexdigest()


class _MistakeError(ValueError):
    """What is wrong in an envelope, and where: ``where`` is a path such as ``.members[1].topics``."""

    def __init__(self, what: str, reason: str = "malformed_line", where: str = "") -> None:
        super().__init__(what)
        self.reason, self.where = reason, where


def _checked(where: str | int, check: _Check, value: Any) -> Any:
    try:
        return check(value)
    except ValueError as error:
        step = f".{where}" if isinstance(where, str) else f"[{where}]"
        if isinstance(error, _MistakeError):
            raise _MistakeError(str(error), error.reason, step + error.where) from None
        raise _MistakeError(str(error), where=step) from None


def _object(**fields: _Check) -> _Check:
    def check(value: Any) -> Row:
        if not isinstance(value, dict):
            raise ValueError(f"expected an object, found {repr(value)[:100]}")
        return {name: _checked(name, of_field, value.get(name)) for name, of_field in fields.items()}

    return check


def _list(of_item: _Check) -> _Check:
    def check(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise ValueError(f"expected a list, found {repr(value)[:100]}")
        return [_checked(index, of_item, item) for index, item in enumerate(value)]

    return check


def _optional(check: _Check) -> _Check:
    return lambda value: None if value is None else check(value)


def _number(bits: int) -> _Check:
    """Check that a whole number is not negative: Kafka's -1 is null in an envelope."""

    def check(value: Any) -> int:
        number = integer(value, bits)
        if number < 0:
            raise ValueError(f"expected 0 or more, found {value}")
        return number

    return check


def _time(value: Any) -> int:
    time_ms = integer(value, 64)
    if not 0 <= time_ms < LAST_MS:
        raise ValueError(f"expected milliseconds from 1970 to 2200, found {value}")
    return time_ms


def _group_type(value: Any) -> str:
    if value not in [str(word) for word in GroupType]:
        raise ValueError(f"expected {' or '.join(GroupType)}, found {repr(value)[:100]}")
    return str(value)


def _state(value: Any) -> str:
    """Return Kafka's word for a state in any spelling. A state of a later release is kept as it is."""
    spelled = text(value)
    return _STATES.get(re.sub(r"[\s_-]", "", spelled).lower(), spelled)


def _name(value: Any) -> str | None:
    """Check a name; brokers write an empty string for no name."""
    return None if value is None else text(value) or None


def _bytes(value: Any) -> bytes:
    encoded = text(value)
    try:
        decoded = base64.b64decode(encoded, validate=True)
    except ValueError:
        decoded = None
    if decoded is None or base64.b64encode(decoded).decode() != encoded:  # Python's releases differ in how much padding they let pass
        raise ValueError(f"expected base64, found {repr(encoded)[:100]}")
    return decoded


def _once_each(keys: Iterable[Hashable], what: str) -> None:
    repeated = [key for key, count in Counter(keys).items() if count > 1]
    if repeated:
        raise _MistakeError(f"expected each {what} once, found {repeated[0]!r} more than once", f"duplicate_{what}")


_TOPIC_PARTITIONS = _list(_object(topic=text, partitions=_list(_number(32))))


def _partitions(value: Any) -> list[Row]:
    """Return one entry for each topic, by first appearance, as for raw records; topics without partitions are left out."""
    by_topic: dict[str, list[int]] = {}
    for entry in _TOPIC_PARTITIONS(value):
        by_topic.setdefault(entry["topic"], []).extend(entry["partitions"])
    _once_each(((topic, number) for topic, numbers in by_topic.items() for number in numbers), "partition")
    return [{"topic": topic, "partitions": numbers} for topic, numbers in by_topic.items() if numbers]


_MEMBER = _object(
    member_id=text,
    group_instance_id=_name,
    client_id=_optional(text),
    client_host=_optional(text),
    rack=_name,
    session_timeout_ms=_optional(_number(32)),
    rebalance_timeout_ms=_optional(_number(32)),
    topics=_optional(_list(text)),
    topic_regex=_name,
    strategies=_optional(_list(text)),
    subscription_version=_optional(_number(32)),
    owned=_optional(_partitions),
    owned_generation=_optional(_number(32)),
    user_data_b64=_optional(_bytes),
    assigned=_partitions,
    current=_optional(_partitions),
    pending_revocation=_optional(_partitions),
)


def _member(value: Any) -> Row:
    member: Row = _MEMBER(value)
    member["user_data"] = member.pop("user_data_b64")
    return member


def _members(value: Any) -> list[Row]:
    members: list[Row] = _list(_member)(value)
    _once_each((member["member_id"] for member in members), "member")
    return members


_OFFSET = _object(
    topic=text,
    partition=_number(32),
    committed_offset=_optional(_number(64)),
    leader_epoch=_optional(_number(32)),
    metadata=_optional(text),
    committed_at_ms=_optional(_time),
    topic_id=_optional(text),
)


def _offsets(value: Any) -> list[Row]:
    offsets: list[Row] = _list(_OFFSET)(value)
    _once_each(((entry["topic"], entry["partition"]) for entry in offsets), "partition")
    return offsets


_envelope = _object(
    cluster_id=_optional(text),
    group_id=text,
    observed_at_ms=_time,
    position=_optional(_number(64)),
    generation=_optional(_number(32)),
    group_type=_group_type,
    protocol_type=_optional(text),
    state=_state,
    strategy=_name,
    leader_member_id=_name,
    joined_at_ms=_optional(_time),
    reconciled_at_ms=_optional(_time),
    members=_optional(_members),
    offsets=_optional(_offsets),
)
