"""The steps of one change: rebalances of the classic protocol, rounds of heartbeats of the consumer protocol.

A first call of ``cooperative-sticky`` gives new members nothing that others still own: only the next rebalance hands it over. In the
consumer protocol (KIP-848) the broker computes one target, and members reach it by heartbeats: first they revoke, then others get.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter

from assignors import assign
from assignors.audit.comparison import Comparison
from assignors.audit.movements import LOST, WITHHELD, Difference, LastOwner, Withheld, diff_generations
from assignors.generation.generation import COOPERATIVE, Generation, owner_of
from assignors.generation.subscriptions import subscriptions_of
from assignors.model import Assignment, GroupProblem, NoResultError, TopicPartition
from assignors.replay.chains import ClaimsByOwner, claiming, held_by_owner
from assignors.replay.replay import MOST_CALLS
from assignors.scenario.changes import Changed


@dataclass(frozen=True)
class PlayedStep:
    """One rebalance, or one round of heartbeats in which members revoke and get.

    Attributes:
        previous: the step before; None for the first.
        before: what members hold before the step.
        generation: the members, what they claimed, and what they hold after the step. Rounds of one target share its number.
        target: what the members are to have at the end, under the consumer protocol; else None.
        revocation_count: partitions that members which stay have to give up, if only for the time of the step.
        stopped: partitions that were read before the step, and are not read by the same owner all through it, in the order of the
            holdings before. Under an eager protocol these are all partitions, also those that their owner gets back.
    """

    previous: PlayedStep | None
    before: Generation
    generation: Generation
    target: Assignment | None
    revocation_count: int
    stopped: tuple[TopicPartition, ...]

    @cached_property
    def difference(self) -> Difference:
        """Return the movements since the step before; ``withheld`` has what nobody reads until a later step."""
        withheld = self.previous.difference.withheld if self.previous is not None else _NOTHING
        is_follow_up = self.previous is not None and self.target is None
        difference = diff_generations(Comparison(self.before, self.generation), withheld, is_follow_up=is_follow_up)
        if self.target is None:
            return difference
        return _with_withheld(difference, _withheld(self.before, self.generation, self.target, withheld))


def rebalanced(changed: Changed, kafka_version: str, asked: GroupProblem | None = None) -> Iterator[PlayedStep]:
    """Yield one call of an eager assignor, or those of a cooperative one until no member gives up what it claims.

    Args:
        asked: the problem of the first call, if it is known.

    Raises:
        NoResultError: members still give up what they claim after ``replay.MOST_CALLS`` calls.
    """
    is_cooperative = changed.strategy in COOPERATIVE
    step, before = None, changed.before
    problem = asked if asked is not None else claiming_what_is_held(changed, before)
    for _ in range(MOST_CALLS):
        assignment = assign(changed.strategy, problem, kafka_version=kafka_version)
        after = Generation(before.generation + 1, changed.strategy, problem, assignment)
        step = PlayedStep(step, before, after, None, *_given_up(before, after, is_eager=not is_cooperative))
        yield step
        if not is_cooperative or all(set(member.owned).issubset(assignment.get(member.member_id, ())) for member in problem.members):
            return
        before, problem = after, claiming_what_is_held(changed, after)
    raise NoResultError(f"{changed.strategy} still hands over after {MOST_CALLS} calls", is_cycle=False)


def reconciled(changed: Changed, kafka_version: str, asked: GroupProblem | None = None) -> Iterator[PlayedStep]:
    """Yield the rounds of heartbeats until every member has its target: one where nobody has to revoke, else two.

    A member that has to revoke gets nothing new before it has done so. Others get at once what no member of the group still holds.

    Args:
        asked: the problem of the call of the assignor, if it is known.

    Raises:
        NoResultError: a target gives a partition to several members, as it may where several had it, and one of them waits for it forever.
    """
    step, before = None, changed.before
    problem = asked if asked is not None else claiming_what_is_held(changed, before)
    given = assign(changed.strategy, problem, kafka_version=kafka_version)
    target = {member.member_id: given.get(member.member_id, ()) for member in problem.members}  # of no topics there is no target at all
    while True:
        after = Generation(changed.before.generation + 1, changed.strategy, problem, _holdings_of_round(problem, target))
        if step is not None and after.assignment == before.assignment:
            raise NoResultError(f"{changed.strategy} gives one partition to several members, and one waits for it forever", is_cycle=True)
        step = PlayedStep(step, before, after, target, *_given_up(before, after))
        yield step
        if after.assignment == target:
            return
        before, problem = after, claiming_what_is_held(changed, after)


_NOTHING: Withheld = {}


def claiming_what_is_held(changed: Changed, before: Generation) -> GroupProblem:
    """Return the problem in which members that stay claim what they have in a generation."""
    held = held_by_owner(before.problem.members, before.assignment)
    return claiming(changed.strategy, changed.problem, still_claimed(changed.strategy, changed.problem, held), before.generation)


def still_claimed(strategy: str, problem: GroupProblem, held: ClaimsByOwner) -> ClaimsByOwner:
    """Return what owners claim of what they hold, for members that may subscribe to other topics than before.

    A cooperative consumer gives up partitions of topics that it has unsubscribed from before it joins. So no second rebalance follows. The
    user data of ``sticky`` and the target of a broker still have them.

    Source: ``ConsumerCoordinator.onJoinPrepare`` (KIP-429).
    """
    if strategy not in COOPERATIVE:
        return held
    claimed, subscriptions = dict(held), subscriptions_of(problem)
    for member in problem.members:
        subscribed, own = subscriptions[member.member_id], held.get(owner_of(member), ())
        if not subscribed.issuperset(map(itemgetter(0), own)):
            claimed[owner_of(member)] = tuple(partition for partition in own if partition[0] in subscribed)
    return claimed


def _holdings_of_round(problem: GroupProblem, target: Assignment) -> Assignment:
    """Return what members hold after one more round of heartbeats.

    Args:
        problem: ``owned`` is what the members hold before the round.
    """
    in_hand = {partition for member in problem.members for partition in member.owned}
    holdings = {}
    for member in problem.members:
        wanted, own = target[member.member_id], set(member.owned)
        is_revoking = not own.issubset(wanted)
        holdings[member.member_id] = tuple(
            partition for partition in wanted if partition in own or not (is_revoking or partition in in_hand)
        )
    return holdings


def _withheld(before: Generation, after: Generation, target: Assignment, carried: Withheld) -> Withheld:
    """Return what had an owner and waits for the one of its target, with who held it last."""
    last = dict(carried)
    for member in before.problem.members:
        for partition in before.assignment.get(member.member_id, ()):
            last[partition] = LastOwner(owner_of(member), member.member_id, before.generation)
    waiting = {partition for member_id, wanted in target.items() for partition in set(wanted).difference(after.assignment[member_id])}
    read = {partition for held in after.assignment.values() for partition in held}
    return {partition: last[partition] for partition in sorted(waiting - read) if partition in last}


def _with_withheld(difference: Difference, withheld: Withheld) -> Difference:
    """Return the difference with the partitions that the consumer protocol keeps back, which its assignors do not tell."""
    movements = tuple(
        row._replace(cause=WITHHELD) if row.member_id is None and (row.topic, row.partition) in withheld else row
        for row in difference.movements
    )
    count = sum(1 for row in movements if row.kind == LOST and row.cause == WITHHELD)
    return replace(difference, movements=movements, withheld=withheld, withheld_count=count)


def _given_up(before: Generation, after: Generation, *, is_eager: bool = False) -> tuple[int, tuple[TopicPartition, ...]]:
    """Return ``revocation_count`` and ``stopped`` of a step: what was held before and its owner does not keep.

    Args:
        is_eager: nobody keeps anything.
    """
    now = held_by_owner(after.problem.members, after.assignment)
    stopped: dict[TopicPartition, None] = {}
    revocation_count = 0
    for member in before.problem.members:
        owner = owner_of(member)
        given_up = dict.fromkeys(before.assignment.get(member.member_id, ()))
        if not is_eager:
            for partition in now.get(owner, ()):
                given_up.pop(partition, None)
        stopped.update(given_up)
        if owner in now:
            revocation_count += len(given_up)
    return revocation_count, tuple(stopped)
