"""Messages of Kafka's group coordinators -> events of groups.

A message that fits two wordings, or one wording in two ways, is ambiguous, since the ids in it are free text. Its event is not guessed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import TypedDict

from jobs.decoders.coordinator_reasons import FENCED_REASONS, JAVA_REASONS, OLDEST_REASONS, SCALA_REASONS
from jobs.decoders.coordinator_wordings import MEMBER_OF_SCALA, WORDINGS, Skipped
from jobs.decoders.wordings import Fields, Unclear, Wording
from schemas.vocabulary import CoordinatorEvent, RebalanceReason

GENERATED_ID = re.compile(r"(?s).*-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[A-Za-z0-9+/_-]{22}={0,2}")
"""How member ids end that a broker made, and ids that members of the consumer protocol made themselves."""
REJOIN_WITH_ID = "need to re-join with the given member-id: "
_JAVA_SET, _SCALA_SET = re.compile(r"(?s)\[(.*)\]"), re.compile(r"(?s)(?:[A-Z]\w*)?Set\w*\((.*)\)")
_SCALA_OPTION = re.compile(r"(?s)Some\((.*)\)")


class CoordinatorFields(TypedDict):
    """What a message says of an event. A field that its wording does not have is None.

    Attributes:
        event: a word of ``CoordinatorEvent``.
        protocol: ``classic`` or ``consumer``: the protocol of the member for lines about members, else that of the group.
        generation: the generation or epoch in the line; at the beginning of a rebalance it is the old one.
        member_id: the member that the line is about; None too if a request to leave named its instance id only.
        previous_member_id: the member that had the same instance id, or was the leader.
        state: of the group, or of the member for ``member_state``.
        reason: the text after ``reason:`` or ``because``.
        reason_kind: a word of ``RebalanceReason``; ``other`` if the reason has no known wording.
        reason_member_id: the member in the reason.
        client_reason: what the client sent as its reason, ``not provided`` if it sent none.
        member_ids: a set of members; None if its text does not show where one id ends. A request without member ids has none.
    """

    offsets_partition: int | None
    group_id: str | None
    event: str
    protocol: str | None
    generation: int | None
    member_id: str | None
    previous_member_id: str | None
    group_instance_id: str | None
    state: str | None
    reason: str | None
    reason_kind: str | None
    reason_member_id: str | None
    client_reason: str | None
    strategy: str | None
    duration_ms: int | None
    member_count: int | None
    member_ids: list[str] | None


EMPTY: CoordinatorFields = {
    "offsets_partition": None,
    "group_id": None,
    "event": "",
    "protocol": None,
    "generation": None,
    "member_id": None,
    "previous_member_id": None,
    "group_instance_id": None,
    "state": None,
    "reason": None,
    "reason_kind": None,
    "reason_member_id": None,
    "client_reason": None,
    "strategy": None,
    "duration_ms": None,
    "member_count": None,
    "member_ids": None,
}


def _by_first_word(wordings: Iterable[Wording]) -> dict[str, list[Wording]]:
    found = defaultdict(list)
    for wording in wordings:
        found[_first_word(wording.template)].append(wording)
    return dict(found)


def _first_word(message: str) -> str:
    return "[GroupId=" if message.startswith("[GroupId=") else message[: message.find(" ")] if " " in message else message


_WORDINGS = _by_first_word(WORDINGS)
_SCALA_REASONS, _JAVA_REASONS = _by_first_word(SCALA_REASONS), _by_first_word(JAVA_REASONS)
_OLDEST_REASONS, _FENCED_REASONS = _by_first_word(OLDEST_REASONS), _by_first_word(FENCED_REASONS)


def read_message(message: str, *, is_scala: bool, is_end_certain: bool) -> CoordinatorFields | Skipped | Unclear | None:
    """Return the event of a message, its kind if it is no event of a group, or why it has none; None for an unknown wording.

    Args:
        is_scala: the coordinator is one of 0.9 to 3.9, which prints values as Scala does.
        is_end_certain: the message is known to be whole. Otherwise a message that ends with free text is not read.
    """
    readings: list[tuple[Wording, Fields]] = []
    for wording in _WORDINGS.get(_first_word(message), ()):
        if wording.mark in message:  # spares the call for most wordings
            fields = wording.read(message)
            if isinstance(fields, Unclear):
                return fields
            if fields is not None and fields.get("group_id") != "" and not _is_temporary(wording, fields):
                readings.append((wording, fields))
    if not readings:
        return None
    wording, fields = readings[0]
    if len(readings) > 1 and not all(_is_skipped(other) for other, _ in readings):
        return Unclear.AMBIGUOUS
    if isinstance(wording.kind, Skipped):
        return wording.kind
    if wording.is_open and not is_end_certain:
        return None
    return _event(wording.kind, fields, is_scala=is_scala)


def _is_temporary(wording: Wording, fields: Fields) -> bool:
    """Return whether the last word of an instance id is the one by which a wording differs from that of a member that left for good."""
    return wording.kind is CoordinatorEvent.MEMBER_LEFT and (fields.get("group_instance_id") or "").endswith(" temporarily")


def _is_skipped(wording: Wording) -> bool:
    return isinstance(wording.kind, Skipped)


def _event(event: str, fields: Fields, *, is_scala: bool) -> CoordinatorFields | Skipped | Unclear:
    """Return an event with the parts of its reason, its members and its instance id."""
    row: CoordinatorFields = EMPTY.copy()
    row["event"] = str(event)
    details = fields
    if event == CoordinatorEvent.DELETED:
        if ", " in fields["group_id"]:  # perhaps several groups, perhaps a name
            return Skipped.GROUPS_DELETED
    elif event in (CoordinatorEvent.REBALANCE_STARTED, CoordinatorEvent.MEMBER_FENCED) and "reason" in fields:
        is_start, text = event == CoordinatorEvent.REBALANCE_STARTED, fields["reason"]
        parts = read_reason(text, is_scala=is_scala) if is_start else _one(_FENCED_REASONS, text)
        if isinstance(parts, Unclear):
            return parts
        kind, of_reason = parts
        row["reason_kind"] = str(kind)
        row["reason_member_id"] = of_reason.pop("member_id", None)
        details = {**fields, **of_reason}
    if "member" in details:
        member = _member(details["member"])
        if isinstance(member, Unclear):
            return member
        details = {**details, **member}
    if "instance" in details:
        details["group_instance_id"] = _instance_id(details["instance"], is_scala=is_scala)
    if "members" in details:
        row["member_ids"] = member_ids = _members(details["members"])
        if event == CoordinatorEvent.REBALANCE_STARTED and member_ids is not None and len(member_ids) == 1:
            row["reason_member_id"] = member_ids[0]
    for name, value in details.items():
        if name in row:
            row[name] = value  # type: ignore[literal-required]  # the names in wordings are those of the columns
    row["member_id"] = row["member_id"] or None
    return row


def read_reason(text: str, *, is_scala: bool) -> tuple[str, Fields] | Unclear:
    """Return the kind of the reason of a rebalance and what is in it.

    Releases 2.1 to 2.6, 3.0 and 3.1 end some reasons with an id, to which later releases add more text. Such a text is read as that of the
    later release, unless the id that it would end with looks like one that a broker made. Then it is ambiguous, except if the client's
    reason repeats the id of the member, as Kafka's own clients do.
    """
    known = _one(_SCALA_REASONS if is_scala else _JAVA_REASONS, text)
    if isinstance(known, Unclear) or not is_scala:
        return known
    oldest = _one(_OLDEST_REASONS, text)
    if isinstance(oldest, Unclear) or oldest[0] is RebalanceReason.OTHER:
        return known
    if known[0] is RebalanceReason.OTHER:
        return oldest
    member_id, client_reason = known[1].get("member_id"), known[1].get("client_reason")
    is_of_broker = "instance" not in oldest[1] and GENERATED_ID.fullmatch(oldest[1]["member_id"]) is not None
    if is_of_broker and client_reason != f"{REJOIN_WITH_ID}{member_id}":
        return Unclear.AMBIGUOUS
    return known


def _one(wordings: dict[str, list[Wording]], text: str) -> tuple[str, Fields] | Unclear:
    """Return kind and fields of the only reading of a reason; ``other`` if it has none."""
    readings: list[tuple[str, Fields]] = []
    for wording in wordings.get(_first_word(text), ()):
        fields = wording.read(text)
        if isinstance(fields, Unclear):
            return fields
        if fields is not None:
            readings.append((wording.kind, fields))
    if len(readings) > 1:
        return Unclear.AMBIGUOUS
    return readings[0] if readings else (RebalanceReason.OTHER, {})


def _member(text: str) -> Fields | Unclear:
    """Return the ids of a member that has left, which releases 3.0 to 3.9 print with all that is known of it."""
    if not text.startswith(MEMBER_OF_SCALA.prefix):
        return {"member_id": text}
    fields = MEMBER_OF_SCALA.read(text)
    return {"member_id": text} if fields is None else fields


def _instance_id(text: str, *, is_scala: bool) -> str | None:
    if not is_scala:
        return None if text in ("null", "None") else text  # None is of ``ClassicGroup``, where the leader is replaced
    option = _SCALA_OPTION.fullmatch(text)
    return None if text == "None" else text if option is None else option[1]


def _members(text: str) -> list[str] | None:
    """Return the ids of a printed set; None if ids are not certain to end where the commas are."""
    whole = _JAVA_SET.fullmatch(text) or _SCALA_SET.fullmatch(text)
    ids = text if whole is None else whole[1]
    if not ids.strip(", "):
        return []
    parts = ids.split(", ")
    return sorted(parts) if all(map(GENERATED_ID.fullmatch, parts)) else None
