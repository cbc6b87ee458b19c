"""Rounds of the consumer protocol compared with what a recorded coordinator wrote, heartbeat by heartbeat.

Real members heartbeat one by one and in any order. Rounds are sets, so what is compared is what does not depend on that order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import pytest

from assignors import Assignment, TopicPartition
from assignors.generation.generation import Generation
from assignors.scenario.changes import Changed
from assignors.scenario.rounds import PlayedStep, reconciled
from schemas.wire import VALUE_DECODERS, decode_key
from schemas.wire.consumer_group import TopicIdPartitions
from schemas.wire.keys import CURRENT
from tests.builders.recorded_groups import Recording, read_recording

STABLE, UNREVOKED = 0, 1
BROKER = "4.3.1"


@dataclass(frozen=True)
class Heartbeat:
    """What the coordinator wrote of one member after a heartbeat.

    Attributes:
        assigned: what the member may read.
        revoking: what it still has and has to give up.
    """

    member_id: str
    state: int
    assigned: frozenset[TopicPartition]
    revoking: frozenset[TopicPartition]


@dataclass(frozen=True)
class TargetChange:
    """A new target of a settled group, with all heartbeats until every member had its part."""

    name: str
    before: Generation
    after: Generation
    heartbeats: tuple[Heartbeat, ...]

    def played(self) -> list[PlayedStep]:
        return list(reconciled(Changed(self.before, self.after.problem, self.after.strategy), BROKER))


def changes(recording: Recording) -> Iterator[TargetChange]:
    """Yield the recorded changes that begin and end with every member at its target."""
    for group_id, records in recording.group_records.items():
        steps = [one for one in recording.steps[group_id] if one.is_consumer_protocol and one.step.snapshot.members]
        ends = [*(one.step.snapshot.position for one in steps[1:]), records[-1].offset + 1]
        heartbeats = []
        for record in records:
            key = decode_key(record.key)
            if key.record_type == CURRENT and record.value is not None:
                content = VALUE_DECODERS[CURRENT](record.value)
                held, revoking = (sets(part, recording.topic_names) for part in (content.assigned, content.pending_revocation))
                heartbeats.append((record.offset, Heartbeat(key.member_id or "", content.state, held, revoking)))
        for (before, after), end in zip(pairwise(steps), ends[1:], strict=True):
            snapshot = after.step.snapshot
            target, earlier = as_sets(snapshot.assigned), as_sets(before.step.snapshot.assigned)
            is_settled = all(set(one.owned) == earlier.get(one.member_id, set()) for one in snapshot.members)
            # One that joins later has no part in this target.
            of_change = tuple(beat for offset, beat in heartbeats if snapshot.position < offset < end and beat.member_id in target)
            last = earlier | {beat.member_id: set(beat.assigned) for beat in of_change}
            if is_settled and all(last.get(member_id, set()) == wanted for member_id, wanted in target.items()):
                yield TargetChange(f"{group_id} {snapshot.generation}", before.generation(), after.generation(), of_change)


def sets(entries: tuple[TopicIdPartitions, ...], names: dict[str, str]) -> frozenset[TopicPartition]:
    return frozenset((names[entry.topic_id], number) for entry in entries for number in entry.partitions)


def as_sets(assignment: Assignment) -> dict[str, set[TopicPartition]]:
    return {member_id: set(given) for member_id, given in assignment.items()}


@pytest.fixture(scope="module")
def recorded() -> list[TargetChange]:
    return list(changes(read_recording()))


def test_recording_has_changes_of_every_kind(recorded: list[TargetChange]) -> None:
    assert len(recorded) >= 15
    assert sum(len(change.played()) == 2 for change in recorded) >= 5
    assert {change.after.strategy for change in recorded} == {"uniform", "server-range"}


def test_last_round_is_the_recorded_target(recorded: list[TargetChange]) -> None:
    differing = [
        change.name for change in recorded if as_sets(change.played()[-1].generation.assignment) != as_sets(change.after.assignment)
    ]
    assert differing == []


def test_members_had_to_revoke_what_rounds_say(recorded: list[TargetChange]) -> None:
    for change in recorded:
        staying = {member.member_id for member in change.after.problem.members}
        before, target = as_sets(change.before.assignment), as_sets(change.after.assignment)
        given_up = {one for member_id in staying for one in before.get(member_id, set()) - target[member_id]}
        written = {one for beat in change.heartbeats for one in beat.revoking}
        first = change.played()[0]
        of_staying = {one for one in first.stopped if any(one in before[member_id] for member_id in staying & before.keys())}
        assert (change.name, of_staying, first.revocation_count) == (change.name, given_up, len(given_up))
        assert written <= given_up  # members that still speak the classic protocol give up before they join


def test_first_heartbeat_of_each_member_is_the_first_round(recorded: list[TargetChange]) -> None:
    """A member may heartbeat after others have revoked. It then gets theirs too, which the first round cannot have."""
    compared = set()
    for change in recorded:
        in_first_round = as_sets(change.played()[0].generation.assignment)
        in_hand = as_sets(change.before.assignment)
        released: set[TopicPartition] = set()
        seen: set[str] = set()
        staying = {member.member_id for member in change.after.problem.members}
        for beat in change.heartbeats:
            had = in_hand.get(beat.member_id, set())
            is_revoking = not had <= beat.assigned
            if beat.member_id not in seen and (not is_revoking or beat.state == UNREVOKED):
                assert (change.name, beat.member_id, beat.assigned - released) == (
                    change.name,
                    beat.member_id,
                    in_first_round[beat.member_id],
                )
                compared.add(("revokes" if is_revoking else "keeps", bool(released), beat.assigned - released > had))
            seen.add(beat.member_id)
            released |= had - beat.assigned - beat.revoking if beat.member_id in staying else set()
            in_hand[beat.member_id] = set(beat.assigned | beat.revoking)
    assert {("revokes", False, False), ("keeps", False, False), ("keeps", False, True)} <= compared


def test_what_the_second_round_gives_was_given_up_before(recorded: list[TargetChange]) -> None:
    for change in recorded:
        first = as_sets(change.played()[0].generation.assignment)
        in_hand = {member.member_id: set(change.before.assignment.get(member.member_id, ())) for member in change.after.problem.members}
        for beat in change.heartbeats:
            got = beat.assigned - in_hand.get(beat.member_id, set())
            others = set().union(*(held for member_id, held in in_hand.items() if member_id != beat.member_id))
            assert not got & others
            waited = got - first[beat.member_id]
            assert beat.state != UNREVOKED or not waited
            in_hand[beat.member_id] = set(beat.assigned | beat.revoking)
