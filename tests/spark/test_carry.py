"""A group's state goes through bytes between two runs, and the results do not depend on where the runs ended."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random

import pytest

from assignors import Assignment, AssignorError, GroupProblem, assign
from assignors.audit.passages import follow
from assignors.replay.recurrence import Recurrence
from assignors.replay.replay import Replay
from assignors.replay.steps import Snapshot, Step
from assignors.replay.topic_metadata import ClusterLooks, LookBasis, ResolvedTopic, TopicRun
from jobs.assign.state_codec import decode_state, encode_state
from tests.builders.random_problems import random_problem, random_successor

SEED = 20261121
STRATEGIES = ("range", "roundrobin", "sticky", "cooperative-sticky")


def grouped(assignment: Assignment) -> Assignment:
    """Return an assignment as records and tables hold it: a member's partitions topic by topic."""
    return {
        member_id: tuple(partition for topic in dict.fromkeys(topic for topic, _ in held) for partition in held if partition[0] == topic)
        for member_id, held in assignment.items()
    }


def history(random: Random) -> tuple[list[Snapshot], ClusterLooks]:
    """Return some generations of a random group, with empty ones, rewrites and restarts among them, and looks at its topics."""
    problem, snapshots, runs = random_problem(random), [], {}
    strategy = random.choice(STRATEGIES)
    incarnation = 0
    generation = random.choice([1, 1, 6])
    for position in range(6):
        if random.random() < 0.1:
            incarnation, generation = position, 1
        snapshots.append(snapshot_of(random, strategy, problem, position, generation, incarnation))
        for name, topic in problem.topics.items():
            if topic.partition_count:
                runs.setdefault(name, []).append(TopicRun(position, position, topic.partition_count, f"id-{name}", topic.partition_racks))
        if random.random() < 0.7:  # else a generation with the same members, which follows up a cooperative one
            problem = random_successor(random, problem, snapshots[-1].assigned)
        generation += 1
    return snapshots, ClusterLooks([position * 1_000 for position in range(6)], runs)


def snapshot_of(random: Random, strategy: str, problem: GroupProblem, position: int, generation: int, incarnation: int) -> Snapshot:
    members = problem.members if random.random() > 0.1 else ()
    try:
        given = assign(strategy, GroupProblem(problem.topics, members), step_budget=200_000) if members else {}
    except AssignorError:
        given = {}
    return Snapshot(
        position,
        generation,
        position * 1_000 + 1,
        incarnation,
        strategy if members else None,
        members[0].member_id if members else None,
        False,
        members,
        grouped({member.member_id: given.get(member.member_id, ()) for member in members}),
        {member.member_id: random.choice([0, 1, 3, None]) for member in members},
        {member.member_id: random.choice(["client", None]) for member in members},
        client_hosts={member.member_id: random.choice(["/10.0.0.1", None]) for member in members},
    )


def stored(step: Step) -> Step:
    """Return a step with its assignments as the tables hold them, which is all that anybody sees of them."""
    solutions = (one if one.assignment is None else replace(one, assignment=grouped(one.assignment)) for one in step.solutions)
    return replace(step, solutions=tuple(solutions))


@pytest.mark.parametrize("seed", range(SEED, SEED + 100))
def test_a_run_boundary_anywhere_changes_no_solution(seed: int) -> None:
    snapshots, looks = history(Random(seed))
    replay = Replay(STRATEGIES, step_budget=200_000)
    through, cut, recurrence = None, None, None
    for snapshot in snapshots:
        at_ms = 3_600_000 * snapshot.position
        before, through = through, replay.advance(through, snapshot, looks)
        recurrence, _ = follow(recurrence, before and before.step, through.step, at_ms)
        before, cut = cut, replay.advance(cut, snapshot, looks)
        assert stored(cut.step) == stored(through.step)
        cut = replace(cut, recurrence=follow(before and before.recurrence, before and before.step, cut.step, at_ms)[0])
        assert cut.recurrence.encoded() == recurrence.encoded()
        data = encode_state(cut)
        cut = decode_state(data)
        assert encode_state(cut) == data


def rewritten(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot in which every static member came back under a new id."""
    names = {one.member_id: f"{one.member_id}-new" if one.group_instance_id else one.member_id for one in snapshot.members}
    return replace(
        snapshot,
        position=snapshot.position + 100,
        members=tuple(replace(one, member_id=names[one.member_id]) for one in snapshot.members),
        assigned={names[member_id]: held for member_id, held in snapshot.assigned.items()},
        subscription_versions={names[member_id]: version for member_id, version in snapshot.subscription_versions.items()},
        client_ids={names[member_id]: client_id for member_id, client_id in snapshot.client_ids.items()},
    )


def test_rewrite_after_a_run_boundary_is_recognised() -> None:
    rewrites = 0
    for seed in range(SEED, SEED + 30):
        snapshots, looks = history(Random(seed))
        replay = Replay(("range",))
        last = next((one for one in reversed(snapshots) if any(member.group_instance_id for member in one.members)), None)
        if last is None:
            continue
        state = replay.advance(None, last, looks)
        after = [replay.advance(before, rewritten(last), looks).step for before in (state, decode_state(encode_state(state)))]
        assert after[0].is_rewrite
        assert stored(after[0]) == stored(after[1])
        rewrites += 1
    assert rewrites > 5


def test_equal_states_are_equal_bytes_whatever_order_their_members_were_met_in() -> None:
    snapshots, looks = history(Random(SEED))
    state = Replay(STRATEGIES).advance(None, snapshots[0], looks)
    assert state.chains["range"].held
    turned = replace(
        state,
        chains={name: replace(chain, held=dict(reversed(chain.held.items()))) for name, chain in reversed(state.chains.items())},
    )
    assert encode_state(turned) == encode_state(state)


class Rack(str):
    """The name of a rack that cannot be copied."""

    def __deepcopy__(self, memo: object) -> Rack:
        raise AssertionError("the racks of a partition are copied to be written")


def test_racks_are_written_without_a_copy_of_each_partition() -> None:
    """There may be a million; to copy them takes ten times as long as to write them."""
    topic = ResolvedTopic("t", 2, "id", ((Rack("a"), None), (Rack("b"),)), LookBasis.BEFORE, is_uncertain=False)
    snapshots, looks = history(Random(SEED))
    state = Replay(()).advance(None, snapshots[0], looks)
    found = decode_state(encode_state(replace(state, step=replace(state.step, topics=(topic,)))))
    assert found.step.topics == (topic,)


def test_bytes_of_another_format_are_refused_with_the_way_out() -> None:
    snapshots, looks = history(Random(SEED))
    content = json.loads(encode_state(Replay(()).advance(None, snapshots[0], looks)))
    with pytest.raises(ValueError, match="expected format 2, found 3; rebuild it with assign --recompute"):
        decode_state(json.dumps({**content, "format": 3}).encode())


def test_a_state_of_before_hosts_and_recurrences_were_carried_is_read() -> None:
    snapshots, looks = history(Random(SEED))
    state = Replay(STRATEGIES).advance(None, snapshots[0], looks)
    content = json.loads(encode_state(replace(state, recurrence=Recurrence.begin(7))))
    del content["recurrence"], content["snapshot"]["batched_epoch_count"]
    content["snapshot"]["members"] = [member[:-1] for member in content["snapshot"]["members"]]
    found = decode_state(json.dumps({**content, "format": 1}).encode())
    assert found.recurrence is None and set(found.step.snapshot.client_hosts.values()) == {None}
    assert found.step.solutions == decode_state(encode_state(state)).step.solutions
