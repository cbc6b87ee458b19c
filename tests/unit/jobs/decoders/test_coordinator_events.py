"""What coordinators of all releases write is read back, and what can be read in two ways is not read at all."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jobs.decoders.coordinator_events import read_message, read_reason
from jobs.decoders.coordinator_log import DecodedLog, decode_piece
from jobs.decoders.coordinator_reasons import JAVA_REASONS, OLDEST_REASONS, SCALA_REASONS
from jobs.decoders.coordinator_wordings import WORDINGS, Skipped
from jobs.decoders.wordings import Unclear, Wording
from schemas.vocabulary import CoordinatorEvent

GOLDEN = Path(__file__).parents[4] / "tests" / "golden" / "coordinator_log"
Row = dict[str, Any]
UUID = "2e0f2f9c-5dd2-4c9a-9d0b-6f1f3f3c6d01"
OTHER_UUID = "8aa5b603-1d3f-4f6e-93c1-0b8f5d2f7a02"
M, M2 = f"consumer-orders-1-{UUID}", f"billing-2-{OTHER_UUID}"
SHORT, SHORT2 = "lEa2E1ETQZijfj20VrVVFg", "/CvjMTybSo+IneI7ybG65Q"
SCALA_MEMBER = (
    f"MemberMetadata(memberId={M}, groupInstanceId=Some(i-1), clientId=consumer-orders-1, clientHost=/10.0.0.7, sessionTimeoutMs=45000,"
    " rebalanceTimeoutMs=300000, supportedProtocols=List(range, cooperative-sticky))"
)
PARTITION = "(__consumer_offsets-12)"
OLD, NEW = True, False


def read(message: str, is_scala: bool = OLD) -> Row:
    """Return the fields of an event that are not null."""
    row = read_message(message, is_scala=is_scala, is_end_certain=True)
    assert isinstance(row, dict), (message, row)
    return {name: value for name, value in row.items() if value is not None}


def started(reason: str, release: str = "2.4") -> str:
    at = "" if release.startswith("4") else f" {PARTITION}"
    end = "." if release.startswith("4") else ""
    return f"Preparing to rebalance group orders in state PreparingRebalance with old generation 41{at} (reason: {reason}){end}"


def of_file(name: str) -> list[Row]:
    return [json.loads(line) for line in (GOLDEN / name).read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("written", of_file("messages.jsonl"), ids=lambda written: f"{written['release']} {written['event']}")
def test_message_of_each_release_is_read(written: Row) -> None:
    """A wording that is missing, or that fits the text of another release too."""
    assert read(written["message"], written["is_scala"]) == {"event": written["event"], "group_id": "orders", **written["fields"]}


@pytest.mark.parametrize(
    ("message", "is_scala", "fields"),
    [
        (
            f"Static member Some(i-1) with unknown member id rejoins, assigning new member id {M}, while old member {M2} will be removed.",
            OLD,
            {"event": "static_replaced", "member_id": M, "previous_member_id": M2, "group_instance_id": "i-1", "protocol": "classic"},
        ),
        (
            f"Request memberId={M2} for static member with groupInstanceId=i-1 is fenced by current memberId={M} during operation a b",
            OLD,
            {"event": "static_fenced", "member_id": M2, "previous_member_id": M, "group_instance_id": "i-1", "protocol": "classic"},
        ),
        (
            f"Group leader [memberId: {M2}, groupInstanceId: None] failed to join before the rebalance timeout."
            f" Member {M} was elected as the new leader.",
            NEW,
            {"event": "leader_replaced", "member_id": M, "previous_member_id": M2, "protocol": "classic"},
        ),
    ],
)
def test_message_without_a_group_is_read(message: str, is_scala: bool, fields: Row) -> None:
    """A wording that must have a group."""
    assert read(message, is_scala) == fields


@pytest.mark.parametrize("written", of_file("reasons.jsonl"), ids=lambda written: f"{written['release']} {written['kind']}")
def test_reason_of_each_release_is_read(written: Row) -> None:
    """A reason of another kind, or of another member."""
    row = read(started(written["reason"], written["release"]), is_scala=not written["release"].startswith("4"))
    named = ("reason", "reason_kind", "reason_member_id", "client_reason", "group_instance_id", "member_ids")
    expected = {
        "reason": written["reason"],
        "reason_kind": written["kind"],
        "reason_member_id": written["member_id"],
        "client_reason": written["client_reason"],
        **written["fields"],
    }
    assert {name: row.get(name) for name in named} == {name: expected.get(name) for name in named}
    assert (row["group_id"], row["generation"], row["state"]) == ("orders", 41, "PreparingRebalance")


@pytest.mark.parametrize(
    "message",
    [
        "Member a in group b in group c has failed, removing it from the group",
        f"Preparing to rebalance group a in state Stable with old generation 5 {PARTITION} (reason: x) in state Empty with old generation 6"
        f" {PARTITION} (reason: removing member m on heartbeat expiration)",
        f"Preparing to rebalance group a in state PreparingRebalance with old generation 5 (reason: Updating metadata for member {M} during"
        " Stable; client reason: a) in state PreparingRebalance with old generation 5 (reason: removing member m on heartbeat expiration).",
        "[GroupId a] Member b joins the consumer group using the consumer protocol] Member c left the consumer group] Member d left the"
        " consumer group.",
        "Assignment received from leader for group a for group b for generation 3. The group has 3 members, 1 of which are static.",
        "[GroupId a][MemberId b] Member c left the consumer group.",
        started(f"Adding new member {M} with group instance id None; client reason: see; client reason: no"),
        started(f"Updating metadata for member {M} during Stable; client reason: like {M2}", "2.4"),
    ],
)
def test_message_that_can_be_read_in_two_ways_is_ambiguous(message: str) -> None:
    """A guess: the first, the last, or the longest name."""
    assert read_message(message, is_scala=True, is_end_certain=True) is Unclear.AMBIGUOUS


def test_separator_inside_one_name_only_is_no_second_way() -> None:
    """Refusing every name with the words of a message in it."""
    row = read(
        "[Group in group] Member has left group Member has left group through explicit `LeaveGroup` request; client reason: in group", NEW
    )
    assert (row["group_id"], row["member_id"], row["client_reason"]) == ("in group", "has left group Member", "in group")


def test_ids_of_a_set_are_not_guessed() -> None:
    """Splitting at every comma."""
    assert "member_ids" not in read(f"Group orders removed dynamic members who haven't joined: Set(a, b-{UUID})")
    assert "member_ids" not in read("Group orders removed dynamic members who haven't joined: [a, b]", NEW)


def test_removal_by_instance_id_names_no_member() -> None:
    """An empty text as a member id. Kafka's own admin removes members so."""
    row = read(
        "[GroupId g] Static member  with instance id i has left group through explicit `LeaveGroup` request; client reason: old", NEW
    )
    assert (row["event"], row.get("member_id"), row["group_instance_id"], row["client_reason"]) == ("member_left", None, "i", "old")
    for names in ("", ", ", ", , "):
        assert read(started(f"explicit `LeaveGroup` request for ({names}) members.", "4.0"), NEW)["member_ids"] == []


def test_deleted_groups_are_one_event_only_if_there_is_one_name() -> None:
    assert read_message(
        "The following groups were deleted: a, b. A total of 6 offsets were removed.", is_scala=False, is_end_certain=True
    ) is (Skipped.GROUPS_DELETED)


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("Operation consumer-group-heartbeat with Data(groupId='g') hit an unexpected exception: null.", Skipped.WRITE_FAILED),  # 3.8 on
        ("JoinGroup request Data(groupId='g', sessionTimeoutMs=45000) hit an unexpected exception: x", Skipped.WRITE_FAILED),  # 3.7
        ("[GroupId g] Size of assignment epochs 1 is not equal to partitions 2 for topic x. Using default epoch 3.", Skipped.METADATA),
    ],
)
def test_error_of_a_coordinator_is_no_event(message: str, kind: Skipped) -> None:
    assert read_message(message, is_scala=False, is_end_certain=True) is kind


def test_unknown_or_too_large_text_is_no_event() -> None:
    """A number that no column holds, an empty group, a message of a later release."""
    for message in (
        "Group a with generation 99999999999 is now empty.",
        "Group  with generation 1 is now empty.",
        "Group a was moved to the moon.",
        "",
        " ",
    ):
        assert read_message(message, is_scala=False, is_end_certain=True) is None


HOLE = re.compile(r"\{(\w*)(?::([#\w]+))?\}|\[\.\]|\{at\?\}")
WORD_OF_KIND = {"#": "5", "state": "Stable", "member_state": "STABLE", "protocol": "consumer"}
EVENTS = [wording for wording in WORDINGS if not isinstance(wording.kind, Skipped) and wording.kind != CoordinatorEvent.DELETED]
OTHER_FRAGMENTS = (
    *(" ", ", ", "Some(", ")", "[", "]", "'", '"', "(reason: ", "; client reason: ", "\x1b[31m", "2026-11-21 02:21:47,123"),
    *(" (kafka.coordinator.group.GroupCoordinator)", "[GroupCoordinator 9]: "),
)
"""What is in lines besides messages."""


@cache
def fixed_texts(wording: Wording) -> tuple[str, ...]:
    """Return what is between the names of a wording, with numbers and words in it."""
    text = HOLE.sub(lambda hole: "\0" if hole[0][0] == "{" and hole[2] is None else WORD_OF_KIND.get(hole[2], ""), wording.template)
    return tuple(part for part in text.split("\0") if part)


FRAGMENTS = sorted({*OTHER_FRAGMENTS, *(text for wording in (*WORDINGS, *SCALA_REASONS, *JAVA_REASONS) for text in fixed_texts(wording))})
any_text = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\r\n"), max_size=4)


@cache
def names_like(wording: Wording | None) -> st.SearchStrategy[str]:
    """Make names that have the words of messages in them, most often those of one wording."""
    own = st.sampled_from(FRAGMENTS if wording is None else fixed_texts(wording))
    return st.lists(st.one_of(own, any_text, own, st.sampled_from(FRAGMENTS)), min_size=1, max_size=4).map("".join).filter(bool)


def render(wording: Wording, draw: Any, names: Row, is_scala: bool) -> str:
    """Return the text of a wording, with the names that it was given in ``names``."""
    hostile_text = names_like(wording)

    def fill(hole: re.Match[str]) -> str:
        if hole[0] == "[.]":
            return "" if is_scala else "."
        if hole[0] == "{at?}":
            return " (__consumer_offsets-3)" if is_scala else ""
        name, kind = hole[1], hole[2]
        if kind == "#":
            return str(names.setdefault(name, draw(st.integers(0, 2**31 - 1)))) if name else "3"
        if kind is not None:
            word = WORD_OF_KIND[kind]
            return str(names.setdefault(name, word)) if name else word
        if name == "reason":
            reasons = (*SCALA_REASONS, *OLDEST_REASONS) if is_scala else JAVA_REASONS
            if wording.kind != CoordinatorEvent.REBALANCE_STARTED:
                return str(names.setdefault("reason", draw(hostile_text)))
            within: Row = {}
            chosen = draw(st.sampled_from(reasons))
            text = render(chosen, draw, within, is_scala)
            if "member_id" in within:
                names["reason_member_id"] = within.pop("member_id")
            names.update({**within, "reason": text, "reason_kind": str(chosen.kind)})
            return text
        if name == "instance":
            instance = names["group_instance_id"] = draw(hostile_text.filter(lambda text: text != "null"))
            return f"Some({instance})" if is_scala and wording not in OLDEST_REASONS else str(instance)
        if name == "members":
            ids = [f"{draw(hostile_text)}-{UUID}" for _ in range(draw(st.integers(1, 3)))]
            names["member_ids"] = sorted(ids)
            return ", ".join(ids)
        if name == "member":
            member_id, client = draw(hostile_text), draw(hostile_text)
            names["member_id"] = f"{member_id}-{UUID}"
            return (
                SCALA_MEMBER.replace(M, names["member_id"])
                .replace("clientId=consumer-orders-1", f"clientId={client}")
                .replace("Some(i-1)", "None")
            )
        text = draw(hostile_text)
        if wording in OLDEST_REASONS:
            text += f"-{UUID}"
        if name:
            names[name] = text
        return text

    return HOLE.sub(fill, wording.template)


def enveloped(message: str, is_scala: bool, kind: str) -> bytes:
    prefix = "[GroupCoordinator 1]: " if is_scala else "[GroupCoordinator id=1 topic=__consumer_offsets partition=3] "
    logger = "kafka.coordinator.group.GroupCoordinator" if is_scala else "org.apache.kafka.coordinator.group.GroupMetadataManager"
    line = f"[2026-11-21 02:21:47,123] INFO {prefix}{message} ({logger})"
    if kind == "logger before":
        line = f"2026-11-21T02:21:47.123Z INFO  [group-coordinator-1] {logger} - {prefix}{message}"
    elif kind == "fields":
        line = json.dumps({"level": "INFO", "loggerName": logger, "message": prefix + message, "timeMillis": 1795227707123})
    elif kind == "line in a field":
        line = json.dumps({"log": line + "\n", "stream": "stdout"})
    return line.encode() + b"\n"


@settings(max_examples=400, deadline=None)
@given(st.data(), st.sampled_from(EVENTS), st.booleans(), st.sampled_from(["Kafka's", "logger before", "fields", "line in a field"]))
def test_names_with_the_words_of_messages_are_returned_or_refused(data: st.DataObject, wording: Wording, is_scala: bool, kind: str) -> None:
    """Any pattern that finds the end of a name by its first or by its last separator alone."""
    names: Row = {}
    message = render(wording, data.draw, names, is_scala)
    log = decode_piece(enveloped(message, is_scala, kind))
    if not log.rows:
        assert [line.reason for line in log.refused] == ["ambiguous"], (message, names, log)
        return
    (row,) = log.rows
    if row["member_ids"] is None:  # a comma in a name
        names.pop("member_ids", None)
    assert row["event"] == wording.kind, message
    assert {name: row[name] for name in names} == names, message  # type: ignore[literal-required]


def decoded(message: str, kind: str = "Kafka's", is_scala: bool = True) -> DecodedLog:
    return decode_piece(enveloped(message, is_scala, kind))


@example("x")
@settings(max_examples=200, deadline=None)
@given(names_like(None))
def test_reasons_with_any_text_never_fail(text: str) -> None:
    read_reason(text, is_scala=True)
    decoded(started(text))
