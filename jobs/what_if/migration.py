"""Whether a classic group can move to the consumer protocol (KIP-848): what keeps it, what it loses, and what moves. Pure.

A broker converts a running group when the first member of the new protocol joins. It keeps the assignment of the classic generation as
the target. Then it runs its own assignor, at once if that member is new to the group. A static member that comes back is not: the assignor
then runs with the next change of members, subscriptions or partitions. Restarts of members are not played here, only that first run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from assignors.generation.generation import STREAMS, Generation
from assignors.model import AssignorError
from assignors.scenario.play import play
from assignors.scenario.scenario import CONSUMER, Scenario
from jobs.pages.figures import counted
from jobs.reading.stored import GroupKey, PartitionWeights, StoredGeneration
from jobs.what_if.co_partitioning import CoPartitioned, co_partitioned
from jobs.what_if.figures import Loads, loads_of, measure_loads
from jobs.what_if.protocol_clients import FIRST_RELEASES, client_unknowns, is_without_protocol, rack_aware_racks, user_data_evidence
from jobs.what_if.rehearsal import release_for
from schemas.vocabulary import DEFAULT_SERVER_STRATEGY, SERVER_STRATEGIES_BY_NAME, STRATEGIES

RANGE_OF_BROKERS = SERVER_STRATEGIES_BY_NAME["range"]
_BROKERS_SESSION_MS = 45_000
_OFFLINE = "stop all members and start them with group.protocol=consumer: without members there is nothing to convert"


class Blocker(Enum):
    """What keeps a group from the consumer protocol, as people say it."""

    STREAMS = "Kafka Streams"
    ASSIGNOR = "an assignor that brokers do not have"
    USER_DATA = "user data in assignments"
    CLIENT = "a client library without the protocol"


class Loss(Enum):
    """What a group has today and the assignors of brokers do not give it, as people say it."""

    RACKS = "rack awareness"
    CO_PARTITIONING = "co-partitioning"


class Verdict(Enum):
    """What can be said of a group in one word, the least risk first."""

    READY = "ready"
    LOSES = "loses"
    BLOCKED = "blocked"


@dataclass(frozen=True)
class Reason:
    """One reason of a verdict.

    Attributes:
        what: the kind of it.
        evidence: a sentence on what of the group shows it.
        advice: a sentence on what to do.
    """

    what: Blocker | Loss
    evidence: str
    advice: str


@dataclass(frozen=True)
class Flip:
    """What the first run of one assignor of brokers makes of the converted group.

    Attributes:
        strategy: the assignor.
        movement_count: partitions with another owner at the end.
        stopped_count: the most partitions that are not read at once.
        round_count: rounds of heartbeats.
        after: the loads at the end.
    """

    strategy: str
    movement_count: int
    stopped_count: int
    round_count: int
    after: Loads


@dataclass(frozen=True)
class Plan:
    """What is known about the move of one classic group.

    Attributes:
        stored: its newest settled generation.
        before: its loads today.
        reasons: why it is blocked, else what it loses; none for a group that is ready.
        flips: by the default assignor of brokers; then by their range, if the group has topics that it keeps together. None for a group
            that is blocked or cannot be played.
        notes: what else changes or stays, a sentence each.
        unknowns: what records do not show of this group, a sentence each.
    """

    stored: StoredGeneration
    before: Loads
    reasons: tuple[Reason, ...]
    flips: tuple[Flip, ...]
    notes: tuple[str, ...]
    unknowns: tuple[str, ...]

    @property
    def is_deleted(self) -> bool:
        """Return whether the group was deleted: nobody has to move it."""
        return self.stored.ended_at is not None

    @property
    def verdict(self) -> Verdict:
        """Return the verdict in one word."""
        if not self.reasons:
            return Verdict.READY
        return Verdict.BLOCKED if isinstance(self.reasons[0].what, Blocker) else Verdict.LOSES

    @property
    def verdict_text(self) -> str:
        """Return the verdict with its reasons, such as ``ready, and loses rack awareness``."""
        reasons = " and ".join(reason.what.value for reason in self.reasons)
        return {Verdict.READY: "ready", Verdict.LOSES: f"ready, and loses {reasons}", Verdict.BLOCKED: f"blocked by {reasons}"}[
            self.verdict
        ]

    @property
    def flip(self) -> Flip | None:
        """Return what the default assignor of brokers makes of the group; None where it is blocked or cannot be played."""
        return self.flips[0] if self.flips else None


@dataclass(frozen=True)
class FleetPlan:
    """The plan for several groups.

    Attributes:
        plans: of the classic groups, in the order in which to move them.
        consumer_count: groups that use the consumer protocol already.
        unplanned: groups without a settled generation that has members.
    """

    plans: tuple[Plan, ...]
    consumer_count: int = 0
    unplanned: tuple[GroupKey, ...] = ()


def plan_migration(stored: StoredGeneration, weights: PartitionWeights) -> Plan:
    """Return what is known about the move of a classic group.

    Args:
        weights: what its partitions carry.
    """
    before, blockers = measure_loads(stored.generation, weights), tuple(_blockers(stored))
    unknowns = tuple(client_unknowns(stored))
    if blockers:
        return Plan(stored, before, blockers, (), tuple(_notes(stored)), unknowns)
    pairs = co_partitioned(stored.generation)
    flips: list[Flip] = []
    ends: list[Generation] = []
    try:
        for strategy in (DEFAULT_SERVER_STRATEGY, RANGE_OF_BROKERS)[: 2 if pairs else 1]:
            end, flip = _flip(stored, weights, strategy)
            ends.append(end)
            flips.append(flip)
    except (ValueError, AssignorError) as error:
        unknowns = (*unknowns, f"What moves is not known: {error}.")
    losses = tuple(_losses(stored, before, pairs, flips, ends))
    return Plan(stored, before, losses, tuple(flips), tuple(_notes(stored)), unknowns)


def in_order(plans: Iterable[Plan]) -> list[Plan]:
    """Return plans with the fewest risks first: ready, then those that lose something, then blocked ones.

    Within each, those that move fewer partitions come first, then those of which more is known, then those with fewer members. Those
    that cannot be played come last, since nobody knows what they move. Groups that were deleted come after all others.
    """
    verdicts = list(Verdict)

    def risk(plan: Plan) -> tuple[object, ...]:
        moving = plan.flip.movement_count if plan.flip is not None else 0
        of_moving = (verdicts.index(plan.verdict), plan.flip is None, moving, len(plan.unknowns), plan.before.member_count)
        return plan.is_deleted, *of_moving, plan.stored.key

    return sorted(plans, key=risk)


def _blockers(stored: StoredGeneration) -> Iterator[Reason]:
    strategy, client = stored.generation.strategy, stored.leader_client
    if strategy == STREAMS:
        yield Reason(
            Blocker.STREAMS,
            f"The assignor {STREAMS} deals out the tasks of Kafka Streams.",
            "Leave it: Kafka Streams has a protocol of its own (KIP-1071), which brokers and Streams have from Kafka 4.2 on.",
        )
        return
    if strategy and strategy not in STRATEGIES:
        yield Reason(
            Blocker.ASSIGNOR,
            f"The group's assignor is {strategy}, which Kafka does not come with.",
            f"Switch to {', '.join(STRATEGIES[:-1])} or {STRATEGIES[-1]} first, or {_OFFLINE}.",
        )
    data = user_data_evidence(stored)
    if data is not None:
        yield Reason(Blocker.USER_DATA, f"{data} A broker refuses to convert a running group with such data.", f"Instead, {_OFFLINE}.")
    if client is not None and is_without_protocol(client):
        known = "; ".join(FIRST_RELEASES.values())
        yield Reason(
            Blocker.CLIENT,
            f"The leader's client library is {client}. No release of it is known to speak the consumer protocol.",
            f"Keep the group classic, or give it another client library: {known}.",
        )


def _flip(stored: StoredGeneration, weights: PartitionWeights, strategy: str) -> tuple[Generation, Flip]:
    """Return the generation at the end, and what leads to it."""
    scenario = Scenario(strategy=strategy, protocol=CONSUMER)
    outcome = play(stored.generation, scenario, kafka_version=release_for(stored, strategy)).expected
    flip = Flip(strategy, outcome.counts.movement_count, outcome.stopped_count, outcome.round_count, loads_of(outcome, weights))
    return outcome.after, flip


def _losses(
    stored: StoredGeneration, before: Loads, pairs: Sequence[CoPartitioned], flips: Sequence[Flip], ends: Sequence[Generation]
) -> Iterator[Reason]:
    racks = rack_aware_racks(stored)
    if racks:
        after = flips[0].after.rack_match if flips else None
        match = f" {before.rack_match:.0%} of partitions match today" if before.rack_match is not None else ""
        then = f", {after:.0%} after the flip" if match and after is not None else ""
        yield Reason(
            Loss.RACKS,
            f"Members are in {_racks_text(racks)}, and {stored.generation.strategy} goes by racks.{match}{then}{'.' if match else ''}",
            "No assignor of Kafka's brokers goes by racks: rebalances may lower the share. Weigh that against traffic between racks.",
        )
    if pairs:
        yield _lost_pairs(pairs, flips, ends)


def _racks_text(racks: Sequence[str]) -> str:
    return f"rack {racks[0]}" if len(racks) == 1 else f"racks {', '.join(racks)}"


def _lost_pairs(pairs: Sequence[CoPartitioned], flips: Sequence[Flip], ends: Sequence[Generation]) -> Reason:
    topics = "; ".join(f"{', '.join(pair.topics)}: {counted(pair.partition_count, 'partition')} each" for pair in pairs)
    total = sum(pair.partition_count for pair in pairs)
    separated = [sum(len(pair.separated(end.assignment)) for pair in pairs) for end in ends]
    evidence = f"range gives equal partition numbers of these topics to one member ({topics})."
    if not separated:
        return Reason(Loss.CO_PARTITIONING, evidence, "If the application joins them, let brokers use their range.")
    at_flip = f"separates {separated[0]} of {total} numbers at the flip" if separated[0] else "keeps them together at first, not for ever"
    if len(separated) > 1 and not separated[1]:
        count = flips[1].movement_count
        moving = "moves nothing" if not count else f"moves {count} {'partition' if count == 1 else 'partitions'}"
        advice = f"If the application joins them, set group.remote.assignor=range: it keeps them together and {moving}."
    else:
        advice = "If the application joins them, keep the group classic: no assignor of brokers keeps them together."
    return Reason(Loss.CO_PARTITIONING, f"{evidence} {DEFAULT_SERVER_STRATEGY} {at_flip}.", advice)


def _notes(stored: StoredGeneration) -> Iterator[str]:
    """Yield what changes or stays, whatever the verdict."""
    if stored.ended_at is not None:
        yield f"The group was deleted at {stored.ended_at:%Y-%m-%d %H:%M:%S} UTC: this is about its last members."
    elif stored.empty_since is not None:
        yield f"The group has had no members since {stored.empty_since:%Y-%m-%d %H:%M:%S} UTC: this is about its last ones."
    members = stored.generation.problem.members
    static_count = sum(member.group_instance_id is not None for member in members)
    if static_count:
        of_all = "All members are" if static_count == len(members) else f"{static_count} of {len(members)} members are"
        yield (
            f"{of_all} static. Instance ids are kept, so a restart within the session timeout moves nothing, also the one that converts "
            "the group. The brokers' assignor first runs when members, subscriptions or partitions change."
        )
    sessions = {client.session_timeout_ms for client in stored.clients.values() if client.session_timeout_ms is not None}
    if sessions - {_BROKERS_SESSION_MS}:
        listed = ", ".join(f"{session / 1000:g}" for session in sorted(sessions))
        default = f"{_BROKERS_SESSION_MS // 1000} s"
        yield f"The session timeout is {listed} s. Then brokers decide it: {default}, or consumer.session.timeout.ms of the group."
