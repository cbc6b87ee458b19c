"""Stored generations predicted from the ones before, to learn how far predictions can be trusted.

A prediction may know of its generation what somebody who plans a change knows: who the members will be, what they subscribe to, and how
many partitions topics will have. All else comes from the generations before. Members that stay are supposed to claim what they were given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import combinations

from assignors import assign
from assignors.algorithms.releases import client_behaviour
from assignors.algorithms.sticky.claims import COOPERATIVE_READER, STICKY_READER, MemberData, read_members
from assignors.audit.triggers import Trigger
from assignors.generation.generation import COOPERATIVE, SERVER_SIDE, WITHOUT_CLAIMS, Generation, Owner, owner_of
from assignors.model import Assignment, AssignorError, GroupProblem, Member, Topic
from assignors.registry import BUILT_IN
from assignors.replay.conformance import Conformance, compare_assignments
from assignors.replay.replay import NEWEST_KAFKA
from assignors.replay.topic_ids import with_topic_ids
from assignors.scenario.changes import Changed, with_partition_count
from assignors.scenario.rounds import claiming_what_is_held
from assignors.scenario.scenario import ZOOKEEPER

KAFKA_CLIENT = "java"
"""The client library whose assignors ours repeat."""

PREDICTED = frozenset(
    {
        *(Trigger.MEMBER_JOINED, Trigger.MEMBER_LEFT, Trigger.MEMBER_REPLACED),
        *(Trigger.MEMBER_RETURNED, Trigger.STATIC_MEMBER_RETURNED),
        *(Trigger.PARTITIONS_ADDED, Trigger.TOPIC_CREATED, Trigger.COOPERATIVE_FOLLOW_UP),
    }
)
"""Triggers that a scenario can say. A follow-up is the next step of a scenario. It is predicted from the recorded step before it."""
PREDICTED_STRATEGIES = frozenset(BUILT_IN) - frozenset(ZOOKEEPER)
"""Kafka's assignors for consumer groups."""


class Omission(str, Enum):
    """Why a generation is not predicted.

    ``unknown_before``: the generation before is not known. ``no_members``: one of the two has none. ``no_assignor``: the strategy is not
    one of Kafka's for consumer groups. ``member_restarted``: a static member came back under another member id, and no scenario says what
    it claims then. ``no_visible_cause``: nothing differs from the generation before. ``other_cause``: something that no scenario says does.
    """

    UNKNOWN_BEFORE = "unknown_before"
    NO_MEMBERS = "no_members"
    NO_ASSIGNOR = "no_assignor"
    MEMBER_RESTARTED = "member_restarted"
    NO_VISIBLE_CAUSE = "no_visible_cause"
    OTHER_CAUSE = "other_cause"


class Reason(str, Enum):
    """What in the record differs from what was supposed.

    ``claimed_nothing``, ``claimed_others``: a member that stays claims nothing, or other partitions than it was given.
    ``claimed_older``: it claims them for another generation. ``claimed_in_other_order``: it lists them in another order.
    ``joined_with_claims``: a member that joins claims partitions. ``member_racks``, ``topic_racks``: racks are not those of the generation
    before. ``other_client``: Kafka's assignor gives out something else for all that the record holds, and the leader's client is not
    Kafka's. ``unexplained``: the same, but the leader's client is Kafka's or not known.
    """

    CLAIMED_NOTHING = "claimed_nothing"
    CLAIMED_OTHERS = "claimed_others"
    CLAIMED_OLDER = "claimed_older"
    CLAIMED_IN_OTHER_ORDER = "claimed_in_other_order"
    JOINED_WITH_CLAIMS = "joined_with_claims"
    MEMBER_RACKS = "member_racks"
    TOPIC_RACKS = "topic_racks"
    OTHER_CLIENT = "other_client"
    UNEXPLAINED = "unexplained"


@dataclass(frozen=True, slots=True)
class Explanation:
    """One reason, with the member ids or topics of which it is true; without any for a reason about the leader."""

    reason: Reason
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A generation that is not predicted."""

    generation: int
    omission: Omission


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a generation should have given out, beside what it did.

    Attributes:
        leader_client: the library of the leader; None where it is not known, and for the consumer protocol.
        assignment: member id -> its partitions; None where the assignor has no result, which counts as ``differs``.
        conformance: of the prediction with the recorded assignment.
        explanations: empty where the prediction is exact, else at least one. The prediction is exact with the record's claims or racks,
            whichever of them are named here.
    """

    generation: int
    strategy: str
    leader_client: str | None
    triggers: tuple[Trigger, ...]
    assignment: Assignment | None
    conformance: Conformance
    explanations: tuple[Explanation, ...]

    @property
    def is_follow_up(self) -> bool:
        """Return whether the generation only finishes the rebalance before it."""
        return Trigger.COOPERATIVE_FOLLOW_UP in self.triggers


def predict(
    before: Generation,
    after: Generation,
    triggers: Collection[Trigger] | None,
    *,
    earlier: Generation | None = None,
    leader_client: str | None = None,
    kafka_version: str = NEWEST_KAFKA,
) -> Prediction | LeftOut:
    """Predict a stored generation from the one before it.

    From ``after`` come the member ids, instance ids, subscriptions and order of the members, partition counts and topic ids. Its claims,
    their generations, user data, racks and assignment are not used. A member that was not there before has no rack and claims nothing.
    A member of a cooperative group also claims nothing if it is eager: if it had partitions in ``earlier`` and claimed none in ``before``.

    Args:
        before: the generation directly before, as it was recorded; for the consumer protocol with its target.
        triggers: see ``triggers.find_triggers``.
        earlier: the generation directly before ``before``; None where it is not known, or where no record shows claims.
        leader_client: the library of the leader, see ``Prediction``.
        kafka_version: release of the leader's client in ``before``, or of the broker for the consumer protocol.

    >>> one, two = (tuple(Member(name, ("t",)) for name in names) for names in ("a", "ab"))
    >>> before = Generation(1, "range", GroupProblem({"t": Topic(2)}, one), {"a": (("t", 0), ("t", 1))})
    >>> after = Generation(2, "range", GroupProblem({"t": Topic(2)}, two), {"a": (("t", 0),), "b": (("t", 1),)})
    >>> predict(before, after, [Trigger.MEMBER_JOINED]).conformance.value
    'exact'
    >>> predict(before, after, [Trigger.NONE_VISIBLE])
    LeftOut(generation=2, omission=<Omission.NO_VISIBLE_CAUSE: 'no_visible_cause'>)
    """
    if triggers is None:
        return LeftOut(after.generation, Omission.UNKNOWN_BEFORE)
    omission = _omission(before, after, triggers)
    if omission is not None:
        return LeftOut(after.generation, omission)
    known = _without_eager_members(before, earlier) if earlier is not None and after.strategy in COOPERATIVE else before
    asked = claiming_what_is_held(Changed(known, _supposed(before, after), after.strategy), known)
    assignment = _assigned(after.strategy, asked, kafka_version)
    conformance = _compared(after, assignment)
    explanations: tuple[Explanation, ...] = ()
    if conformance is not Conformance.EXACT:
        explanations = _explanations(before, after, asked, leader_client, kafka_version)
    return Prediction(after.generation, after.strategy, leader_client, tuple(triggers), assignment, conformance, explanations)


def _omission(before: Generation, after: Generation, triggers: Collection[Trigger]) -> Omission | None:
    earlier = {owner_of(member): member.member_id for member in before.problem.members}
    has_restarted = any(earlier.get(owner_of(one), one.member_id) != one.member_id for one in after.problem.members)
    omissions = (
        (Omission.NO_MEMBERS, not before.problem.members or not after.problem.members),
        (Omission.NO_ASSIGNOR, after.strategy not in PREDICTED_STRATEGIES),
        (Omission.NO_VISIBLE_CAUSE, Trigger.NONE_VISIBLE in triggers),
        (Omission.OTHER_CAUSE, not PREDICTED.issuperset(triggers)),
        (Omission.MEMBER_RESTARTED, has_restarted),
    )
    return next((omission for omission, holds in omissions if holds), None)


def _without_eager_members(before: Generation, earlier: Generation) -> Generation:
    """Return the generation after its eager members have given up everything, as they do before they join.

    A consumer is eager while it offers an assignor that is. That is so half way from an eager assignor to a cooperative one, and no record
    has the list that it offers.
    """
    if earlier.generation == before.generation:
        return before  # one of the two repeats the other, claims and all
    eager = {
        member.member_id
        for member in before.problem.members
        if not member.owned and any(topic in member.topics for topic, _ in earlier.assignment.get(member.member_id, ()))
    }
    given = {member_id: () if member_id in eager else held for member_id, held in before.assignment.items()}
    return replace(before, assignment=given)


def _supposed(before: Generation, after: Generation) -> GroupProblem:
    """Return what a planner knows of a generation: without claims, and with the racks of the generation before."""
    racks = {owner_of(member): member.rack for member in before.problem.members}
    members = tuple(
        Member(member.member_id, member.topics, member.group_instance_id, racks.get(owner_of(member))) for member in after.problem.members
    )
    topics = {name: _topic_as_before(before.problem.topics.get(name), topic) for name, topic in after.problem.topics.items()}
    problem = GroupProblem(topics, members)
    return with_topic_ids(problem) if after.strategy in SERVER_SIDE else problem


def _topic_as_before(then: Topic | None, now: Topic) -> Topic:
    if then is None or now.partition_count is None:
        return replace(now, partition_racks=None)
    return replace(with_partition_count(then, now.partition_count), topic_id=now.topic_id)


def _assigned(strategy: str, problem: GroupProblem, kafka_version: str) -> Assignment | None:
    try:
        return assign(strategy, problem, kafka_version=kafka_version)
    except AssignorError:  # the record shows that the leader had a result, so that this is a wrong prediction
        return None


def _compared(after: Generation, assignment: Assignment | None) -> Conformance:
    return Conformance.DIFFERS if assignment is None else compare_assignments(after.assignment, assignment)


# -- why a prediction is not exact


class _Aspect(Enum):
    """What is supposed, and may be otherwise in the record."""

    CLAIMS = "claims"
    MEMBER_RACKS = "member_racks"
    TOPIC_RACKS = "topic_racks"


def _explanations(
    before: Generation, after: Generation, asked: GroupProblem, leader_client: str | None, kafka_version: str
) -> tuple[Explanation, ...]:
    """Return the smallest part of the record with which the prediction would be exact; the leader's client where none is."""
    found = {
        _Aspect.CLAIMS: _differing_claims(before, after, asked, kafka_version),
        _Aspect.MEMBER_RACKS: _differing_member_racks(after, asked),
        _Aspect.TOPIC_RACKS: _differing_topic_racks(after, asked),
    }
    differing = [aspect for aspect, explanations in found.items() if explanations]
    for count in range(1, len(differing) + 1):
        for aspects in combinations(differing, count):
            assignment = _assigned(after.strategy, _as_recorded(asked, after.problem, aspects), kafka_version)
            if _compared(after, assignment) is Conformance.EXACT:
                return tuple(explanation for aspect in aspects for explanation in found[aspect])
    return (Explanation(Reason.UNEXPLAINED if leader_client in (None, KAFKA_CLIENT) else Reason.OTHER_CLIENT),)


def _as_recorded(asked: GroupProblem, recorded: GroupProblem, aspects: Collection[_Aspect]) -> GroupProblem:
    members = []
    for supposed, member in zip(asked.members, recorded.members, strict=True):
        if _Aspect.CLAIMS in aspects:
            supposed = replace(supposed, owned=member.owned, owned_generation=member.owned_generation, user_data=member.user_data)
        members.append(replace(supposed, rack=member.rack) if _Aspect.MEMBER_RACKS in aspects else supposed)
    return GroupProblem(recorded.topics if _Aspect.TOPIC_RACKS in aspects else asked.topics, tuple(members))


def _differing_claims(before: Generation, after: Generation, asked: GroupProblem, kafka_version: str) -> tuple[Explanation, ...]:
    """Return how claims differ. A broker's assignor starts from targets, which members do not claim."""
    if after.strategy in WITHOUT_CLAIMS | SERVER_SIDE:
        return ()
    reader, behaviour = STICKY_READER if after.strategy == "sticky" else COOPERATIVE_READER, client_behaviour(kafka_version)
    known = {owner_of(member) for member in before.problem.members}
    names: dict[Reason, list[str]] = {}
    sides = (read_members(problem.members, reader, behaviour) for problem in (asked, after.problem))
    for member, supposed, recorded in zip(after.problem.members, *sides, strict=True):
        reason = _claim_reason(owner_of(member), known, supposed, recorded)
        if reason is not None:
            names.setdefault(reason, []).append(member.member_id)
    return tuple(Explanation(reason, tuple(names[reason])) for reason in Reason if reason in names)


def _claim_reason(owner: Owner, known: Collection[Owner], supposed: MemberData, recorded: MemberData) -> Reason | None:
    (claims, generation), (recorded_claims, recorded_generation) = supposed, recorded
    if set(recorded_claims) != set(claims):
        if owner not in known:
            return Reason.JOINED_WITH_CLAIMS
        return Reason.CLAIMED_OTHERS if recorded_claims else Reason.CLAIMED_NOTHING
    if claims and recorded_generation != generation:
        return Reason.CLAIMED_OLDER
    return Reason.CLAIMED_IN_OTHER_ORDER if tuple(recorded_claims) != tuple(claims) else None


def _differing_member_racks(after: Generation, asked: GroupProblem) -> tuple[Explanation, ...]:
    pairs = zip(asked.members, after.problem.members, strict=True)
    names = tuple(member.member_id for supposed, member in pairs if supposed.rack != member.rack)
    return (Explanation(Reason.MEMBER_RACKS, names),) if names else ()


def _differing_topic_racks(after: Generation, asked: GroupProblem) -> tuple[Explanation, ...]:
    pairs = ((name, asked.topics[name], topic) for name, topic in after.problem.topics.items())
    names = tuple(sorted(name for name, supposed, topic in pairs if supposed.partition_racks != topic.partition_racks))
    return (Explanation(Reason.TOPIC_RACKS, names),) if names else ()


# -- all together


@dataclass(frozen=True, slots=True)
class Share:
    """How well one strategy of one client library was predicted; ``counts`` has how many generations were so near."""

    strategy: str
    leader_client: str | None
    counts: Mapping[Conformance, int]

    @property
    def count(self) -> int:
        """Return how many generations were predicted."""
        return sum(self.counts.values())

    def of(self, conformance: Conformance) -> float:
        """Return the share of predictions that are so near, from 0 to 1."""
        return self.counts.get(conformance, 0) / self.count


@dataclass(frozen=True, slots=True)
class Backtest:
    """Counts over many predictions.

    Attributes:
        shares: by strategy and client library, in the order of their names.
        reasons: how many predictions each reason explains, alone or with others.
        omissions: how many generations were left out for each.
    """

    shares: tuple[Share, ...] = ()
    reasons: Mapping[Reason, int] = field(default_factory=dict)
    omissions: Mapping[Omission, int] = field(default_factory=dict)

    @classmethod
    def of(cls, results: Iterable[Prediction | LeftOut]) -> Backtest:
        """Return the counts of results in any order."""
        counts: dict[tuple[str, str | None], Counter[Conformance]] = {}
        reasons: Counter[Reason] = Counter()
        omissions: Counter[Omission] = Counter()
        for result in results:
            if isinstance(result, LeftOut):
                omissions[result.omission] += 1
                continue
            counts.setdefault((result.strategy, result.leader_client), Counter())[result.conformance] += 1
            reasons.update({explanation.reason for explanation in result.explanations})
        keys = sorted(counts, key=lambda key: (key[0], key[1] or ""))
        return cls(tuple(Share(*key, counts[key]) for key in keys), reasons, omissions)
