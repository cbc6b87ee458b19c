"""Short notation for histories of one group, generation by generation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assignors import Assignment, Member, TopicPartition
from assignors.replay.replay import Replay
from assignors.replay.steps import Snapshot, Solution, State, Step
from assignors.replay.topic_metadata import ClusterLooks, TopicRun


def held(text: str) -> tuple[TopicPartition, ...]:
    """Return partitions from their short form.

    >>> held("t0 u12")
    (('t', 0), ('u', 12))
    """
    return tuple((name[0], int(name[1:])) for name in text.split())


def member(member_id: str, topics: str = "t", *, owned: str = "", at: int | None = None, instance: str | None = None) -> Member:
    """Return a member that subscribes to topics of one letter each and claims partitions of a generation."""
    return Member(member_id, tuple(topics), instance, None, held(owned), at)


def snapshot(
    generation: int,
    given: Mapping[str, str],
    *members: Member,
    strategy: str | None = "range",
    position: int | None = None,
    incarnation: int = 0,
    joined_at_ms: int = 100,
    version: int | None = 3,
    leader: str | None = None,
    is_conversion: bool = False,
) -> Snapshot:
    """Return a snapshot. Members that are not listed subscribe to ``t`` and have no claims."""
    listed = {one.member_id: one for one in members}
    everybody = tuple(listed.get(member_id, member(member_id)) for member_id in given)
    return Snapshot(
        position=generation if position is None else position,
        generation=generation,
        joined_at_ms=joined_at_ms,
        incarnation=incarnation,
        strategy=strategy if given else None,
        leader_member_id=leader or next(iter(given), None),
        is_conversion=is_conversion,
        members=everybody,
        assigned={member_id: held(text) for member_id, text in given.items()},
        subscription_versions=dict.fromkeys(given, version),
        client_ids={member_id: f"client-{member_id}" for member_id in given},
    )


def looks(**counts: int) -> ClusterLooks:
    """Return one metadata snapshot, from before all generations, of topics with these partition counts."""
    return ClusterLooks([0], {topic: [TopicRun(0, 0, count)] for topic, count in counts.items()})


def play(replay: Replay, looks: ClusterLooks, *snapshots: Snapshot) -> list[Step]:
    """Return the step of each snapshot."""
    steps, state = [], None
    for one in snapshots:
        state: State | None = replay.advance(state, one, looks)
        steps.append(state.step)
    return steps


def counterfactual(step: Step, strategy: str) -> Solution:
    """Return a step's solution of one strategy over its own history."""
    (found,) = [one for one in step.solutions if one.basis == "counterfactual" and one.strategy == strategy]
    return found


def of_basis(step: Step, basis: str) -> Solution:
    """Return a step's observed or recomputed solution."""
    (found,) = [one for one in step.solutions if one.basis == basis]
    return found


def short(assignment: Assignment | None) -> dict[str, str] | None:
    """Return an assignment in the short form of ``held``."""
    if assignment is None:
        return None
    return {member_id: " ".join(f"{topic}{partition}" for topic, partition in partitions) for member_id, partitions in assignment.items()}


def statuses(steps: Sequence[Step], strategy: str) -> list[tuple[str, int]]:
    """Return the status and the number of calls of one strategy in each step."""
    return [(one.status, one.rebalance_count) for one in (counterfactual(step, strategy) for step in steps)]
