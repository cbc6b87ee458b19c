"""The next deploy of a group: what it costs while members get new ids with each restart, which instance ids spare."""

from __future__ import annotations

from dataclasses import dataclass
from glob import escape

from assignors.generation.generation import SERVER_SIDE
from assignors.model import AssignorError, Member
from assignors.scenario.play import play
from assignors.scenario.scenario import Scenario
from jobs.what_if.rehearsal import Subject, release_for

MOST_RESTARTS = 30
"""Restarts that are played; a larger group is judged by its first ones."""


@dataclass(frozen=True)
class Deploy:
    """Members without instance ids restarted one after another, each after the group has settled.

    Attributes:
        member_count: members without instance ids.
        restart_count: those of them that were restarted, at most ``MOST_RESTARTS``.
        rebalance_count: rebalances until the group has settled for the last time. Under the consumer protocol each change of the members is
            one, in as many rounds of heartbeats as it takes.
        movement_count: changes of owner, all together.
        stopped_count: times that a partition stopped being read, all together.
        shortest_session_ms, longest_session_ms: of the members' session timeouts. A static member that is back within its own causes no
            rebalance. None where none is known.
    """

    member_count: int
    restart_count: int
    rebalance_count: int
    movement_count: int
    stopped_count: int
    shortest_session_ms: int | None
    longest_session_ms: int | None


def play_deploy(subject: Subject) -> Deploy | None:
    """Return what a restart of the members without instance ids costs by the group's own strategy.

    Each member comes back under another member id, with its topics and its rack. None where all members are static, where there is one
    only, and where the strategy has no result.
    """
    generation = subject.stored.generation
    dynamic = [member for member in generation.problem.members if member.group_instance_id is None]
    restarted = dynamic[:MOST_RESTARTS]
    if not restarted or len(generation.problem.members) < 2:
        return None
    rebalances = movements = stopped = 0
    version = release_for(subject.stored, generation.strategy)
    try:
        for number, member in enumerate(restarted):
            for scenario in (Scenario(removed=escape(member.member_id)), _comes_back(member, f"{member.member_id}~{number}")):
                outcome = play(generation, scenario, kafka_version=version).expected
                generation = outcome.after
                rebalances += 1 if generation.strategy in SERVER_SIDE else outcome.round_count
                movements += outcome.counts.movement_count
                stopped += sum(len(step.stopped) for step in outcome.steps)
    except (ValueError, AssignorError):
        return None
    sessions = [client.session_timeout_ms for client in subject.stored.clients.values() if client.session_timeout_ms is not None]
    return Deploy(len(dynamic), len(restarted), rebalances, movements, stopped, min(sessions, default=None), max(sessions, default=None))


def _comes_back(member: Member, member_id: str) -> Scenario:
    """Return the scenario in which a member joins again under another id. It is not static, even if all others are."""
    racks = {} if member.rack is None else {escape(member_id): member.rack}
    return Scenario(added=(member_id,), subscriptions={member_id: member.topics}, instance_ids={member_id: None}, racks=racks)
