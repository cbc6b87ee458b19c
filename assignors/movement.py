"""The difference between two generations of a group: which partitions changed owner, how, why, and what consumers had to give up.

An owner is a static member's instance id where there is one, else a member id: a static member that comes back under a new member
id has kept its partitions. Movements compare a generation with the one before it; ``withheld`` carries across generations
who last owned a partition that a cooperative assignor keeps back, so that its hand-over is seen as the movement it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from assignors.generations import COOPERATIVE, Generation, Owner, owner_of
from assignors.model import TopicPartition
from assignors.ordering import java_order
from assignors.revocation import actual_revocations, revocations
from assignors.subscriptions import existing_partition_counts, subscriptions_of
from assignors.verification import withheld_partitions

REVOKED, REASSIGNED, GAINED, LOST, ORPHANED = "revoked", "reassigned", "gained", "lost", "orphaned"
TOPIC_DELETED, UNSUBSCRIBED, WITHHELD, LEFT_OUT = "topic_deleted", "unsubscribed", "withheld", "left_out"
HANDED_OVER, RETURNED, TOPIC_RECREATED = "handed_over", "returned", "topic_recreated"


@dataclass(frozen=True, slots=True)
class LastOwner:
    """Who held a withheld partition last.

    Attributes:
        owner: its identity.
        member_id: its member id at that time.
        generation: the last generation in which it held the partition; None where only its claim tells and names none.
    """

    owner: Owner
    member_id: str
    generation: int | None


Withheld = Mapping[TopicPartition, LastOwner]


@dataclass(frozen=True, slots=True)
class Movement:
    """One partition whose owner changed.

    Attributes:
        previous_member_id: the owner before, its first in record order; None when it had none.
        member_id: the owner now, likewise.
        kind: revoked, reassigned, gained, lost or orphaned.
        cause: for lost and orphaned topic_deleted, unsubscribed, withheld or left_out; for gained handed_over, returned,
            topic_recreated or None; else None.
        previous_generation: the generation in which the previous owner held it; for gained without one, the previous generation;
            None when there is none.
    """

    topic: str
    partition: int
    previous_member_id: str | None
    member_id: str | None
    kind: str
    cause: str | None
    previous_generation: int | None


@dataclass(frozen=True, slots=True)
class Difference:
    """What changed between two generations.

    Attributes:
        movements: a row per partition whose owner changed, by topic and partition in Java's order.
        withheld: partitions that are kept back now, with their last owners: the ``withheld`` of the next comparison.
        withheld_count: those of ``lost_count`` with cause withheld.
        handed_over_count, returned_count: those of ``gained_count`` with that cause.
        eager_revocation_count, cooperative_revocation_count: what the result costs under either protocol, see ``revocation``.
        actual_revocation_count, is_eager: what it did cost, see ``revocation.actual_revocations``; None where
            claims cannot tell.
    """

    retained_count: int
    revoked_count: int
    reassigned_count: int
    gained_count: int
    lost_count: int
    orphaned_count: int
    withheld_count: int
    handed_over_count: int
    returned_count: int
    eager_revocation_count: int
    cooperative_revocation_count: int
    actual_revocation_count: int | None
    is_eager: bool | None
    movements: tuple[Movement, ...]
    withheld: Withheld

    @property
    def movement_count(self) -> int:
        """Return how many partitions went from one owner to another: revoked, reassigned and handed over."""
        return self.revoked_count + self.reassigned_count + self.handed_over_count

    @property
    def is_settled(self) -> bool:
        """Return whether nothing is withheld, so that the assignment is the one its assignor wants."""
        return not self.withheld


def diff_generations(
    previous: Generation | None,
    current: Generation,
    withheld: Withheld | None = None,
    *,
    is_follow_up: bool = False,
    has_claims: bool = False,
    deleted_topics: Collection[str] = (),
) -> Difference:
    """Return what changed from the previous generation to the current one.

    A partition's owners are a set. Where the sets before and after meet, it is retained; otherwise the first of each in record order
    are named, and the kind follows from them:

    ======== ========= =========================== ==========
    before   now       previous owner a member now kind
    ======== ========= =========================== ==========
    a        b         yes                         revoked
    a        b         no                          reassigned
    none     b         -                           gained
    a        none      yes                         lost
    a        none      no                          orphaned
    ======== ========= =========================== ==========

    Lost and orphaned have the first cause that holds: ``topic_deleted``, ``unsubscribed`` (no member subscribes to the topic any more),
    ``withheld`` (see ``verification.withheld_partitions``), ``left_out``. A partition gained after it was withheld is ``handed_over``
    to another owner, or ``returned`` to its last one. A topic with another id than before has no previous owners
    (``topic_recreated``).

    Complexity: linear; what an owner keeps is found by sets, only what moves costs more.

    Args:
        previous: the generation before, None for the first: everything is gained.
        current: the generation that is explained.
        withheld: ``Difference.withheld`` of the last comparison of this chain.
        is_follow_up: the generation only completes a cooperative hand-over; under an eager protocol it would not exist, so its eager
            revocations are 0.
        has_claims: the members' claims are known: an observed generation whose subscriptions are all version 1 or newer, or of the
            consumer protocol.
        deleted_topics: topics known to be gone to which no member subscribes any more. A subscribed topic that is not in
            ``current.problem.topics`` is gone anyway.

    >>> from assignors.generations import is_follow_up
    >>> from assignors.model import GroupProblem, Member, Topic
    >>> topics = {"t": Topic(2)}
    >>> one = GroupProblem(topics, (Member("a", ("t",)),))
    >>> two = GroupProblem(topics, (Member("a", ("t",), owned=(("t", 0), ("t", 1))), Member("b", ("t",))))
    >>> first = Generation(1, "cooperative-sticky", one, {"a": (("t", 0), ("t", 1))})
    >>> second = Generation(2, "cooperative-sticky", two, {"a": (("t", 0),), "b": ()})
    >>> third = Generation(3, "cooperative-sticky", two, {"a": (("t", 0),), "b": (("t", 1),)})
    >>> lost = diff_generations(first, second)
    >>> [(row.kind, row.cause) for row in lost.movements], lost.movement_count
    ([('lost', 'withheld')], 0)
    >>> gained = diff_generations(second, third, lost.withheld, is_follow_up=is_follow_up(second, third))
    >>> [(row.cause, row.previous_member_id, row.previous_generation, row.member_id) for row in gained.movements]
    [('handed_over', 'a', 1, 'b')]
    """
    sides = _Sides(previous, current)
    kept_back = withheld_partitions(current.problem, current.assignment) if current.strategy in COOPERATIVE else frozenset()
    carried = {place: last for place, last in (withheld or {}).items() if place[0] not in sides.recreated}
    movements = [*_changes(sides, kept_back, deleted_topics), *_gains(sides, carried)]
    movements.sort(key=lambda row: (java_order(row.topic), row.partition))
    kinds = Counter(row.kind for row in movements)
    causes = Counter((row.kind, row.cause) for row in movements)
    eager, cooperative = revocations(previous, current) if previous is not None else (0, 0)
    actual, is_eager = actual_revocations(previous, current) if has_claims else (None, None)
    return Difference(
        retained_count=len(sides.retained),
        revoked_count=kinds[REVOKED],
        reassigned_count=kinds[REASSIGNED],
        gained_count=kinds[GAINED],
        lost_count=kinds[LOST],
        orphaned_count=kinds[ORPHANED],
        withheld_count=causes[LOST, WITHHELD],
        handed_over_count=causes[GAINED, HANDED_OVER],
        returned_count=causes[GAINED, RETURNED],
        eager_revocation_count=0 if is_follow_up else eager,
        cooperative_revocation_count=cooperative,
        actual_revocation_count=actual,
        is_eager=is_eager,
        movements=tuple(movements),
        withheld={place: _last_owner(place, sides, carried) for place in kept_back},
    )


def last_owners(previous: Generation, current: Generation, withheld: Withheld | None = None) -> dict[TopicPartition, tuple[Owner, ...]]:
    """Return for each partition that had an owner its last ones: the previous generation's, or the one of a withheld partition.

    Topics with another id than before have none.
    """
    recreated = _recreated_topics(previous, current)
    owners: dict[TopicPartition, tuple[Owner, ...]] = {place: (last.owner,) for place, last in (withheld or {}).items()}
    owners.update(_owners_by_partition(_holdings(previous)))
    return {place: last for place, last in owners.items() if place[0] not in recreated}


class _Sides:
    """Two generations as owners of partitions.

    Attributes:
        previous_member_ids, member_ids: every owner with its member id on either side.
        recreated: topics whose id changed; nothing of them counts as owned before.
        retained: the partitions that some owner holds on both sides, whoever else holds them.
        before, after: partition -> its owners, first in record order; without the retained ones, so that owners before and after
            never meet.
    """

    def __init__(self, previous: Generation | None, current: Generation) -> None:
        self.previous = previous
        self.current = current
        self.recreated = _recreated_topics(previous, current)
        self.previous_member_ids = _member_ids(previous) if previous is not None else {}
        self.member_ids = _member_ids(current)
        before = _holdings(previous, self.recreated) if previous is not None else {}
        after = _holdings(current)
        self.retained = set().union(*(set(held).intersection(after.get(owner, ())) for owner, held in before.items()))
        self.before = _owners_by_partition(before, self.retained)
        self.after = _owners_by_partition(after, self.retained)


def _changes(sides: _Sides, kept_back: Collection[TopicPartition], deleted_topics: Collection[str]) -> Iterator[Movement]:
    """Yield the rows of partitions that had an owner and left it."""
    if not sides.before:
        return
    problem = sides.current.problem
    members = {owner_of(member) for member in problem.members}
    subscribed = frozenset().union(*subscriptions_of(problem).values())
    counts = existing_partition_counts(problem)

    def cause_of_loss(topic: str, partition: int) -> str:
        is_subscribed = topic in subscribed
        if topic in deleted_topics or (is_subscribed and partition >= counts.get(topic, 0)):
            return TOPIC_DELETED
        if not is_subscribed:
            return UNSUBSCRIBED
        return WITHHELD if (topic, partition) in kept_back else LEFT_OUT

    for (topic, partition), (owner, *_) in sides.before.items():
        is_member = owner in members
        if new_owners := sides.after.get((topic, partition)):
            kind, member_id, cause = REVOKED if is_member else REASSIGNED, sides.member_ids[new_owners[0]], None
        else:
            kind, member_id, cause = LOST if is_member else ORPHANED, None, cause_of_loss(topic, partition)
        yield Movement(topic, partition, sides.previous_member_ids[owner], member_id, kind, cause, sides.previous.generation)


def _gains(sides: _Sides, carried: Withheld) -> Iterator[Movement]:
    """Yield the rows of partitions that had no owner and got one."""
    for place in sides.after.keys() - sides.before.keys():
        owners = sides.after[place]
        owner, cause = owners[0], None
        previous_member_id, generation = None, sides.previous.generation if sides.previous is not None else None
        if place in carried:
            last = carried[place]
            owner, cause = (last.owner, RETURNED) if last.owner in owners else (owner, HANDED_OVER)
            previous_member_id, generation = last.member_id, last.generation
        elif place[0] in sides.recreated:
            cause = TOPIC_RECREATED
        yield Movement(*place, previous_member_id, sides.member_ids[owner], GAINED, cause, generation)


def _last_owner(place: TopicPartition, sides: _Sides, carried: Withheld) -> LastOwner:
    """Return who last held a partition that is kept back: the owner before, else the one carried on, else who claims it."""
    if place in sides.before:
        owner = sides.before[place][0]
        return LastOwner(owner, sides.previous_member_ids[owner], sides.previous.generation)
    if place in carried:
        return carried[place]
    claimant = next(member for member in sides.current.problem.members if place in member.owned)
    return LastOwner(owner_of(claimant), claimant.member_id, claimant.owned_generation)


def _recreated_topics(previous: Generation | None, current: Generation) -> frozenset[str]:
    """Return the topics whose id is known on both sides and differs."""
    if previous is None:
        return frozenset()
    earlier = previous.problem.topics
    return frozenset(
        name
        for name, topic in current.problem.topics.items()
        if topic.topic_id is not None and name in earlier and earlier[name].topic_id not in (None, topic.topic_id)
    )


def _member_ids(generation: Generation) -> dict[Owner, str]:
    """Return every owner with its member id: the members in record order, then strangers that were given something."""
    owners = {owner_of(member): member.member_id for member in generation.problem.members}
    known = set(owners.values())
    owners.update(((False, member_id), member_id) for member_id in generation.assignment if member_id not in known)
    return owners


def _holdings(generation: Generation, without: Collection[str] = ()) -> dict[Owner, tuple[TopicPartition, ...]]:
    """Return what each owner holds, in record order, less the topics left out."""
    held = {owner: generation.assignment.get(member_id, ()) for owner, member_id in _member_ids(generation).items()}
    if not without:
        return held
    return {owner: tuple(place for place in partitions if place[0] not in without) for owner, partitions in held.items()}


def _owners_by_partition(
    holdings: Mapping[Owner, tuple[TopicPartition, ...]], without: Collection[TopicPartition] = frozenset()
) -> dict[TopicPartition, tuple[Owner, ...]]:
    """Return each partition's distinct owners in the order of the holdings."""
    owners_of: dict[TopicPartition, tuple[Owner, ...]] = {}
    for owner, partitions in holdings.items():
        alone = (owner,)
        for place in partitions:
            if place not in without:
                others = owners_of.get(place)
                owners_of[place] = alone if others is None or others is alone else others + alone
    return owners_of
