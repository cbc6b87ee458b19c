"""The difference between two generations of a group: which partitions changed owner, how and why, and the revocations.

Movements compare a generation with the one before it. ``withheld`` keeps the last owner of a withheld partition across generations, so
that its hand-over counts as a movement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import repeat
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from assignors.audit.comparison import Comparison, Several
from assignors.audit.revocations import revocations
from assignors.generation.generation import COOPERATIVE, Owner, owner_of
from assignors.generation.holdings import NOBODY
from assignors.generation.subscriptions import existing_partition_counts, subscribed_topics
from assignors.generation.violations import withheld_partitions
from assignors.java.ordering import java_order
from assignors.model import TopicPartition

REVOKED, REASSIGNED, GAINED, LOST, ORPHANED = "revoked", "reassigned", "gained", "lost", "orphaned"
TOPIC_DELETED, UNSUBSCRIBED, WITHHELD, LEFT_OUT = "topic_deleted", "unsubscribed", "withheld", "left_out"
HANDED_OVER, RETURNED, TOPIC_RECREATED = "handed_over", "returned", "topic_recreated"


@dataclass(frozen=True, slots=True)
class LastOwner:
    """The last owner of a withheld partition.

    Attributes:
        owner: identity of the owner.
        member_id: its member id at that time.
        generation: the last generation in which it had the partition; None if only a claim without a generation shows that.
    """

    owner: Owner
    member_id: str
    generation: int | None


Withheld = Mapping[TopicPartition, LastOwner]


class Movement(NamedTuple):
    """One partition whose owner changed.

    Attributes:
        previous_member_id: the owner before, the first in record order; None if there was none.
        member_id: the owner now, the first in record order; None if there is none.
        kind: revoked, reassigned, gained, lost or orphaned.
        cause: for lost and orphaned topic_deleted, unsubscribed, withheld or left_out; for gained handed_over, returned,
            topic_recreated or None; else None.
        previous_generation: the generation in which the previous owner had it; if gained without one, the previous generation;
            None if there is none.
    """

    topic: str
    partition: int
    previous_member_id: str | None
    member_id: str | None
    kind: str
    cause: str | None
    previous_generation: int | None


_KIND = attrgetter("kind")


@dataclass(frozen=True, slots=True)
class Difference:
    """The changes between two generations.

    Attributes:
        movements: one row per partition whose owner changed, by topic and partition in Java's order.
        withheld: withheld partition -> its last owner: the ``withheld`` of the next comparison.
        withheld_count: the part of ``lost_count`` with cause withheld.
        handed_over_count, returned_count: the parts of ``gained_count`` with that cause.
        eager_revocation_count, cooperative_revocation_count: the cost of the result under either protocol, see ``revocations``.
        actual_revocation_count, is_eager: the real cost, see ``revocations.actual_revocations``; None if claims do
            not show it. ``GroupAudit`` fills both.
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
    movements: tuple[Movement, ...]
    withheld: Withheld
    actual_revocation_count: int | None = None
    is_eager: bool | None = None

    @property
    def movement_count(self) -> int:
        """Return the number of partitions that went from one owner to another: revoked, reassigned and handed over."""
        return self.revoked_count + self.reassigned_count + self.handed_over_count

    @property
    def is_settled(self) -> bool:
        """Return whether nothing is withheld, so that the assignment is the final one of its assignor."""
        return not self.withheld


@dataclass(frozen=True, slots=True)
class KindCounts:
    """Numbers of partitions by what became of them between two settled generations, as ``Difference`` has them.

    Nothing was withheld before, so no partition is handed over.
    """

    retained_count: int
    revoked_count: int
    reassigned_count: int
    gained_count: int
    lost_count: int
    orphaned_count: int

    @property
    def movement_count(self) -> int:
        """Return the number of partitions that went from one owner to another."""
        return self.revoked_count + self.reassigned_count


def count_kinds(comparison: Comparison) -> KindCounts:
    """Return how many partitions ``diff_generations`` finds of each kind, without a row for each."""
    changed = comparison.changed
    last, now = comparison.last[changed], comparison.now[changed]
    had_owner, has_owner, of_member = last != NOBODY, now != NOBODY, (last != NOBODY) & (last < comparison.member_count)
    had_count, has_count, member_count, moved_count, of_member_count = (
        int(np.count_nonzero(which)) for which in (had_owner, has_owner, of_member, had_owner & has_owner, of_member & has_owner)
    )
    kinds = Counter(
        {
            REVOKED: of_member_count,
            REASSIGNED: moved_count - of_member_count,
            GAINED: has_count - moved_count,
            LOST: member_count - of_member_count,
            ORPHANED: had_count - moved_count - (member_count - of_member_count),
        }
    )
    for _, before, after in comparison.irregular_changes():
        is_member = bool(before) and before[0] < comparison.member_count
        kinds[GAINED if not before else (REVOKED if is_member else REASSIGNED) if after else LOST if is_member else ORPHANED] += 1
    return KindCounts(comparison.retained_count, *(kinds[kind] for kind in (REVOKED, REASSIGNED, GAINED, LOST, ORPHANED)))


def diff_generations(
    comparison: Comparison,
    withheld: Withheld | None = None,
    *,
    is_follow_up: bool = False,
    deleted_topics: Collection[str] = (),
) -> Difference:
    """Return the changes from the previous generation to the current one.

    A partition has a set of owners. If the sets before and now have an owner in common, the partition is retained. Otherwise the kind
    follows from the first owner of each set in record order:

    ======== ========= =========================== ==========
    before   now       previous owner a member now kind
    ======== ========= =========================== ==========
    a        b         yes                         revoked
    a        b         no                          reassigned
    none     b         -                           gained
    a        none      yes                         lost
    a        none      no                          orphaned
    ======== ========= =========================== ==========

    Lost and orphaned have the first cause that applies: ``topic_deleted``, ``unsubscribed`` (no member subscribes to the topic any
    more), ``withheld`` (see ``violations.withheld_partitions``), ``left_out``. A partition that is gained after it was withheld is
    ``handed_over`` to another owner, or ``returned`` to its last one. A topic with another id than before has no previous owners
    (``topic_recreated``).

    Complexity: linear; whole arrays are compared, and only movements are processed one by one.

    Args:
        comparison: the generation, and the one before; without one before every partition is gained.
        withheld: ``Difference.withheld`` of the last comparison of this chain.
        is_follow_up: the generation only finishes a cooperative rebalance; under an eager protocol it would not exist, so its eager
            revocations are 0.
        deleted_topics: topics known to be deleted to which no member subscribes any more. A subscribed topic that is not in
            ``comparison.current.problem.topics`` counts as deleted too.

    >>> from assignors.generation.generation import Generation, is_follow_up
    >>> from assignors.model import GroupProblem, Member, Topic
    >>> topics = {"t": Topic(2)}
    >>> one = GroupProblem(topics, (Member("a", ("t",)),))
    >>> two = GroupProblem(topics, (Member("a", ("t",), owned=(("t", 0), ("t", 1))), Member("b", ("t",))))
    >>> first = Generation(1, "cooperative-sticky", one, {"a": (("t", 0), ("t", 1))})
    >>> second = Generation(2, "cooperative-sticky", two, {"a": (("t", 0),), "b": ()})
    >>> third = Generation(3, "cooperative-sticky", two, {"a": (("t", 0),), "b": (("t", 1),)})
    >>> lost = diff_generations(Comparison(first, second))
    >>> [(row.kind, row.cause) for row in lost.movements], lost.movement_count
    ([('lost', 'withheld')], 0)
    >>> gained = diff_generations(Comparison(second, third), lost.withheld, is_follow_up=is_follow_up(second, third))
    >>> [(row.cause, row.previous_member_id, row.previous_generation, row.member_id) for row in gained.movements]
    [('handed_over', 'a', 1, 'b')]
    """
    current = comparison.current
    kept_back = withheld_partitions(current.problem, comparison.held) if current.strategy in COOPERATIVE else frozenset()
    carried = {partition: last for partition, last in (withheld or {}).items() if partition[0] not in comparison.recreated}
    movements = _movements(comparison, carried, kept_back, deleted_topics)
    kinds = Counter(map(_KIND, movements))
    causes = Counter((row.kind, row.cause) for row in movements if row.cause is not None)
    eager, cooperative = revocations(comparison)
    return Difference(
        retained_count=comparison.retained_count,
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
        movements=tuple(movements),
        withheld={partition: _last_owner(partition, comparison, carried) for partition in kept_back},
    )


def _movements(
    comparison: Comparison, carried: Withheld, kept_back: Collection[TopicPartition], deleted_topics: Collection[str]
) -> list[Movement]:
    """Return one row per partition whose owner changed, by topic and partition in Java's order."""
    ids_before, ids_now = (list(map(ids.get, comparison.owners)) for ids in (comparison.previous_member_ids, comparison.member_ids))
    previous_generation = comparison.previous_generation
    problem = comparison.current.problem
    members = {comparison.owner_index[owner_of(member)] for member in problem.members}
    subscribed = subscribed_topics(problem)
    counts = existing_partition_counts(problem)

    def loss(topic: str, partition: int, before: int) -> Movement:
        is_subscribed = topic in subscribed
        if topic in deleted_topics or (is_subscribed and partition >= counts.get(topic, 0)):
            cause = TOPIC_DELETED
        elif not is_subscribed:
            cause = UNSUBSCRIBED
        else:
            cause = WITHHELD if (topic, partition) in kept_back else LEFT_OUT
        return Movement(topic, partition, ids_before[before], None, LOST if before in members else ORPHANED, cause, previous_generation)

    def gain(topic: str, partition: int, now: Several) -> Movement:
        last = carried.get((topic, partition))
        if last is None:
            cause = TOPIC_RECREATED if topic in comparison.recreated else None
            return Movement(topic, partition, None, ids_now[now[0]], GAINED, cause, previous_generation)
        is_returned = comparison.owner_index.get(last.owner) in now
        member_id = comparison.member_ids[last.owner] if is_returned else ids_now[now[0]]
        return Movement(topic, partition, last.member_id, member_id, GAINED, RETURNED if is_returned else HANDED_OVER, last.generation)

    def change(partition: TopicPartition, before: Several, now: Several) -> Movement:
        if not now:
            return loss(*partition, before[0])
        if not before:
            return gain(*partition, now)
        return Movement(*partition, ids_before[before[0]], ids_now[now[0]], kinds[before[0]], None, previous_generation)

    # From one owner to another, the usual case, in whole columns: there may be as many rows as partitions.
    kinds = [REVOKED if owner in members else REASSIGNED for owner in range(len(comparison.owners))]
    changed = comparison.changed
    last, now = comparison.last[changed], comparison.now[changed]
    is_handed_on = (last != NOBODY) & (now != NOBODY)
    losers, winners = last[is_handed_on].tolist(), now[is_handed_on].tolist()
    of_losers, of_winners = ([column[owner] for owner in owners] for column, owners in ((ids_before, losers), (ids_now, winners)))
    of_all = (repeat(value, len(losers)) for value in (None, previous_generation))
    columns = (*comparison.layout.columns(changed[is_handed_on]), of_losers, of_winners, map(kinds.__getitem__, losers), *of_all)
    movements = list(map(Movement._make, zip(*columns, strict=True)))
    others = list(comparison.irregular_changes())
    if len(losers) < len(changed):
        rest = ~is_handed_on
        owners = ([(owner,) if owner != NOBODY else () for owner in side[rest].tolist()] for side in (last, now))
        others += zip(comparison.layout.partitions(changed[rest]), *owners, strict=True)
    if others:
        movements += [change(*other) for other in others]
        movements.sort(key=lambda row: (java_order(row.topic), row.partition))
    return movements


def _last_owner(partition: TopicPartition, comparison: Comparison, carried: Withheld) -> LastOwner:
    """Return the last owner of a withheld partition: the owner before, else the stored one, else the member that claims it."""
    before = comparison.last_owners_of(partition)
    if before:
        owner = comparison.owners[before[0]]
        return LastOwner(owner, comparison.previous_member_ids[owner], comparison.previous_generation)
    if partition in carried:
        return carried[partition]
    claimant = next(member for member in comparison.current.problem.members if partition in member.owned)
    return LastOwner(owner_of(claimant), claimant.member_id, claimant.owned_generation)
