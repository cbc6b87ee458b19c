"""The output of ``kafka-consumer-groups``, in one text or several, as decoded rows.

A group gives one row, with the members' partitions or the reason why they are unknown. Each partition with a committed offset gives one
more.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from jobs.decoders.decoded import landed, micros, quarantined, seen_rebalancing, skipped
from jobs.decoders.describe import parse
from jobs.decoders.describe_model import ABSENT_GROUP, OTHER_GROUP, Assignment, Group, Key, Line, Look, Member, Offset, Place
from schemas.row_types import DecodedRow, MemberRow, OffsetCommitRow, SnapshotRow, TopicPartitions
from schemas.vocabulary import SERVER_STRATEGIES_BY_NAME, GroupState, GroupType, Outcome

GROUP_KIND, LINE_KIND = "described_group", "described_line"
_MEMBERS_UNKNOWN, _ASSIGNMENTS_UNKNOWN, _IDLE_MEMBERS_UNKNOWN = "members_not_told", "assignments_not_told", "idle_members_not_told"
_REBALANCING = "rebalancing_group"
_OF_CONSUMER_PROTOCOL = re.compile(r"[a-zA-Z0-9_-]{21}[AQgw]")
"""A member id of the consumer protocol: 16 random bytes in Base64 (KIP-1082). A classic one has the client's name before a UUID."""
_EARLIER_LOOK, _EARLIER_COMMIT = "earlier_look", "earlier_commit"
_MOST_WITHOUT_TIME = 2
"""The most looks before the last one that land if a text has no times. A finding needs more of them for rebalances that are frequent."""
WAYS_OUT = {
    ABSENT_GROUP: "the tool found no such group: it has another name, was deleted meanwhile, or uses the consumer protocol, which tools"
    " before Kafka 3.8 do not find; a tool of 4.0 or newer prints nothing of the other groups of its command then",
    OTHER_GROUP: "the tool says that they are no consumer groups, such as share groups, which are not audited",
    _REBALANCING: "they rebalance, or may do so, and then the tool prints no partitions: describe them again, with --state; if a"
    " rebalance does not end, land later outputs too, or the logs of the brokers",
    _MEMBERS_UNKNOWN: "no partition has an owner, and no table names members: add the output of --describe --state, which shows whether a"
    " group is empty, and of --members --verbose",
    _ASSIGNMENTS_UNKNOWN: "no table shows what members hold: add the output of --describe, or --members --verbose in place of --members",
    _EARLIER_LOOK: "a text has later looks at them, and this one has other tables, or there are more than three without times: put the"
    " output of date before each look, and print the same tables in each",
    _IDLE_MEMBERS_UNKNOWN: "--state counts more members than own partitions: add the output of --describe --members",
}
"""Kind of groups that are skipped -> the reason, and which output to add."""


def decode_texts(texts: Mapping[str, bytes], as_of_ms: int, group_id: str | None = None) -> Iterator[DecodedRow]:
    """Yield the decoded rows of texts of one moment; raises nothing, whatever they are.

    Lines without a group that are not blank, headers or notices are skipped by kind, or quarantined. If a text has several looks, the
    last one is at ``as_of_ms``, and the others are earlier by the times that are printed before them. Without times only their order is
    known: the last three land, a millisecond apart, and only the last one with its commits.

    Args:
        texts: name of a file, as ``source_position`` has it -> its content.
        as_of_ms: the time of the output, from 1970 to 2200: the tool does not print it.
        group_id: the group of tables of Kafka 2.0 to 2.2, which do not print it.
    """
    description = parse({name: content.decode(errors="surrogateescape") for name, content in texts.items()}, group_id)
    last = Look(description.groups, description.places, 0)
    later: dict[str, Group] = {}
    for back, look in enumerate([last, *reversed(description.earlier)]):
        is_timed = look.before_ms is not None
        at_ms = as_of_ms - (back if look.before_ms is None else look.before_ms)
        is_used = at_ms >= 0 and (is_timed or back <= _MOST_WITHOUT_TIME)
        for group in map(_with_type, look.groups):
            is_like_later = not group.members or group.is_by_owner == later.setdefault(group.group_id, group).is_by_owner
            yield from _rows_of_group(group, look.places, at_ms, is_used=is_used and is_like_later, has_time=is_timed)
    for line in description.skipped:
        yield {**skipped(line.kind), "source_position": str(line.place)}
    yield from map(_reject, description.rejects)


def _with_type(group: Group) -> Group:
    """Return a group with the type that the ids of its members show, if no table has it."""
    if group.group_type is not None or not any(_OF_CONSUMER_PROTOCOL.fullmatch(member.member_id) for member in group.members or ()):
        return group
    strategy = SERVER_STRATEGIES_BY_NAME.get(group.strategy or "", group.strategy)
    return group._replace(group_type=GroupType.CONSUMER.value, strategy=strategy)


def _rows_of_group(group: Group, places: Mapping[Key, Place], at_ms: int, *, is_used: bool, has_time: bool) -> Iterator[DecodedRow]:
    """Yield the rows of one group in one look.

    Args:
        at_ms: the time of the look; without ``has_time`` only its order counts.
        is_used: the group lands; else it is skipped, since it cannot be compared with its later looks.
    """
    row = _group_row(group, at_ms) if is_used else skipped(_EARLIER_LOOK)
    if is_used and group.is_rebalancing and group.group_type != GroupType.CONSUMER and row["outcome"] == Outcome.SKIPPED.value:
        row = seen_rebalancing(row["kind"], group.group_id, at_ms, group.state, [one.member_id for one in group.members or ()])
    yield {**row, "source_position": str(places[(group.group_id,)])}
    # A partition that two members hold has two rows, with one commit.
    commits = {(one.topic, one.partition): one for one in group.offsets if one.committed_offset is not None}
    for commit in commits.values():
        # A commit without a time would give a wrong rate.
        content = _offset_row(group.group_id, commit, at_ms) if is_used and has_time else skipped(_EARLIER_COMMIT)
        yield {**content, "source_position": str(places[group.group_id, commit.topic, commit.partition])}


def _offset_row(group_id: str, commit: Offset, as_of_ms: int) -> DecodedRow:
    content: OffsetCommitRow = {
        "group_id": group_id,
        "topic": commit.topic,
        "partition": commit.partition,
        "position": as_of_ms,
        "observed_at": micros(as_of_ms),
        "committed_offset": commit.committed_offset,
        "leader_epoch": commit.leader_epoch,
        "end_offset": commit.log_end_offset,
        "is_deleted": False,
        "fingerprint": _sha256([commit.committed_offset, commit.leader_epoch]),
    }
    return {**landed("offset_commit"), "offset_commit": content}


def _reject(line: Line) -> DecodedRow:
    payload = line.text.encode(errors="surrogateescape")
    return {**quarantined(LINE_KIND, line.kind, line.detail, payload), "source_position": str(line.place)}


def _group_row(group: Group, as_of_ms: int) -> DecodedRow:
    is_unknown = group.members is None or any(member.assigned is None for member in group.members)
    if is_unknown and group.is_rebalancing and group.group_type != GroupType.CONSUMER:
        return skipped(_REBALANCING)
    if group.members is None:
        return skipped(_MEMBERS_UNKNOWN)
    if is_unknown:
        return skipped(_ASSIGNMENTS_UNKNOWN)
    if _may_be_rebalancing(group):
        return skipped(_REBALANCING)
    if group.is_by_owner and not group.is_doubtful and len(group.members) < (group.member_count or 0):
        return skipped(_IDLE_MEMBERS_UNKNOWN)
    # A consumer-protocol group that does not move has reached its target, which the table of owners does not show.
    holds_target = group.is_by_owner and group.group_type == GroupType.CONSUMER
    members = [_member(member._replace(current=member.assigned) if holds_target else member) for member in group.members]
    if group.is_doubtful:
        detail = (
            f"group '{group.group_id}': found {len(members)} members, but a row of their table was rejected, or another table has another"
            " number; expected complete outputs of one moment"
        )
        return quarantined(GROUP_KIND, "members_in_doubt", detail, json.dumps(members).encode())
    content: SnapshotRow = {
        "group_id": group.group_id,
        # A target belongs to the epoch for which it was made; a group without members gets none.
        "generation": group.target_epoch if members else group.group_epoch,
        "observed_at": micros(as_of_ms),
        "position": as_of_ms,
        "group_type": group.group_type,
        "protocol_type": "consumer",
        "state": group.state,
        "strategy": group.strategy if members else None,  # brokers name one for an empty consumer-protocol group, too
        "members": members,
        "fingerprint": _sha256(members),
    }
    return {**landed(GROUP_KIND), "snapshot": content}


def _may_be_rebalancing(group: Group) -> bool:
    """Return whether members may have, or move to, partitions that the text does not show.

    A broker returns the assignment of a classic group only if it is stable; stderr and later tables show that a group rebalances. The
    owners do not show the target of a consumer-protocol group that moves.
    """
    has_nothing = bool(group.members) and not any(member.assigned for member in group.members or ())
    if group.group_type == GroupType.CONSUMER:
        return group.is_by_owner and (group.is_rebalancing or (has_nothing and group.state is None))
    is_stable = group.state == GroupState.STABLE and not any(offset.owner for offset in group.offsets)
    return group.is_rebalancing or (has_nothing and not is_stable)


def _member(member: Member) -> MemberRow:
    return {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "assigned": _entries(member.assigned or ()),
        "current": _entries(member.current) if member.current is not None else None,
    }


def _entries(held: Assignment) -> list[TopicPartitions]:
    return [{"topic": topic, "partitions": list(partitions)} for topic, partitions in held]


def _sha256(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
