"""The recent history of a group: the moments that rules on restarts, storms and flapping use.

A moment has only the differences between a generation and the one before it. So an audit that begins one generation before the window
gives the same result as an audit of everything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from assignors.algorithms.sticky.user_data import read_cooperative_user_data, read_sticky_user_data
from assignors.audit.audit import Audit, AuditedGeneration
from assignors.audit.movements import HANDED_OVER, REASSIGNED, RETURNED, REVOKED, WITHHELD, Difference
from assignors.audit.passages import seat_of
from assignors.audit.triggers import RETURN_MS, Evidence, Participant, Trigger
from assignors.generation.generation import COOPERATIVE, Generation, Owner
from assignors.generation.subscriptions import subscribed_topics
from assignors.model import Member, Topic, TopicPartition
from assignors.replay.recurrence import Recurrences, Seat

WINDOW_MS = RETURN_MS
WINDOW_MINUTES = WINDOW_MS // 60_000
"""How far rules look back, by the times of records: as far as triggers do, so that an audit reads no more for rules than for triggers."""

LEADERS_LOOK_MS = 300_000
"""How often a leader looks for new partitions by default (``metadata.max.age.ms``)."""

STICKY = frozenset({"sticky", "cooperative-sticky"})
_BARE_GENERATION_BYTES = 4
_FIRST_GENERATION = 1

NOTHING_RECURS = Recurrences()

OwnedPartition = tuple[TopicPartition, Owner]
"""A partition and its owner."""

SubscribedTopics = Mapping[str, tuple[int, str | None]]
"""Subscribed topic -> its partition count, 0 if it does not exist, and its topic id, None if that is not known."""

NO_TOPIC = Topic(0)


@dataclass(frozen=True, slots=True)
class Passage:
    """A member that left its seat or came to it.

    Attributes:
        remembers: its assignor's bytes name a generation of this group, which a new process cannot know: the consumer had been in the
            group, was removed or had unsubscribed, and joined again. The sticky assignors of Java and librdkafka write a generation.
    """

    seat: Seat
    member_id: str
    remembers: bool = False


@dataclass(frozen=True, slots=True)
class Takeover:
    """An instance id that another process took over while the process before was still a member; origins are client id and host."""

    instance_id: str
    before: Seat
    after: Seat


@dataclass(frozen=True, slots=True)
class Moment:
    """What happened in one generation.

    Attributes:
        is_rebalance: its assignor ran again: it is no hand-over and no rewrite, and no generation is missing before it. A
            consumer-protocol group has one rebalance for each target, however many epochs share it.
        is_explained: the record shows a reason for it.
        member_count: the larger of before and now.
        left, came: the members with a seat that left and came; a member that took over a seat is in both.
        seat_counts: how many members the seats in ``left`` had before.
        is_independent: no member left or came, and it is no follow-up and no rewrite: partitions moved for another reason.
        is_follow_up: it hands over what a cooperative assignor withheld, and so finishes the rebalance before it.
        moved: every partition that went from one owner to another, with its owner now.
        withheld: every partition that a cooperative assignor took from its owner and gave to nobody yet, with that owner.
        given: every partition that was withheld until now, with its owner now.
    """

    generation: int
    observed_at_ms: int
    is_rebalance: bool
    is_explained: bool
    member_count: int
    left: tuple[Passage, ...] = ()
    came: tuple[Passage, ...] = ()
    seat_counts: Mapping[Seat, int] = field(default_factory=dict)
    is_independent: bool = True
    is_follow_up: bool = False
    takeovers: tuple[Takeover, ...] = ()
    moved: frozenset[OwnedPartition] = frozenset()
    withheld: frozenset[OwnedPartition] = frozenset()
    given: frozenset[OwnedPartition] = frozenset()


@dataclass(frozen=True)
class RecentPast:
    """What was before a generation.

    Attributes:
        previous: the observed generation before; None if it is not known.
        window: the moments of the last ``WINDOW_MS``, the generation itself last. It is empty for polls: what happened between two of them,
            and when, is not known.
        recurrences: what happened repeatedly within an hour or a day.
        before_repeated: of a rewrite within ``LEADERS_LOOK_MS`` of the generation that it repeats: the one before that, None if it is
            not known. No assignor ran since, and its leader may not have looked for new partitions since. None of all others.
        earlier_topics: of each generation that another one followed within the last ``LEADERS_LOOK_MS``; equal ones in succession once. The
            leader may have looked for new partitions last when one of them was the newest.
    """

    previous: Generation | None
    window: tuple[Moment, ...]
    recurrences: Recurrences
    before_repeated: Generation | None = None
    earlier_topics: tuple[SubscribedTopics, ...] = ()


@dataclass
class GroupHistory:
    """The moments of one group. It takes the generations of the group in order."""

    _incarnation: int | None = None
    _previous: Generation | None = None
    _before: Evidence | None = None
    _window: tuple[Moment, ...] = ()
    _recurrences: Recurrences = NOTHING_RECURS
    _ran_at_ms: int | None = None
    _before_run: Generation | None = None
    _topics: tuple[tuple[int, SubscribedTopics], ...] = ()

    def advance(self, generation: AuditedGeneration, observed: Generation, audit: Audit, recurrences: Recurrences) -> RecentPast:
        """Add a generation, and return what was before it.

        Args:
            observed: the generation as it was observed.
            audit: the audit of the observed assignment.
            recurrences: what is stored of the generation; a follow-up has those of the rebalance that it finishes.
        """
        if generation.incarnation != self._incarnation:
            self._incarnation, self._previous, self._before, self._window = generation.incarnation, None, None, ()
            self._recurrences, self._ran_at_ms, self._before_run, self._topics = NOTHING_RECURS, None, None, ()
        if not generation.is_follow_up:
            self._recurrences = recurrences
        previous, before = self._previous, self._before
        self._previous, self._before = observed, generation.evidence
        before_repeated = self._before_repeated(generation, previous)
        earlier_topics = self._earlier_topics(generation, observed)
        if before is None or generation.evidence.is_poll or not generation.has_predecessor:
            self._window = ()
            return RecentPast(previous, (), self._recurrences, before_repeated, earlier_topics)
        moment = _moment(before, generation, observed, audit)
        since = moment.observed_at_ms - WINDOW_MS
        self._window = (*(one for one in self._window if one.observed_at_ms >= since), moment)
        return RecentPast(previous, self._window, self._recurrences, before_repeated, earlier_topics)

    def _earlier_topics(self, generation: AuditedGeneration, observed: Generation) -> tuple[SubscribedTopics, ...]:
        at_ms, exist, earlier = generation.evidence.observed_at_ms, observed.problem.topics, self._topics
        found = {name: exist.get(name, NO_TOPIC) for name in subscribed_topics(observed.problem)}
        now = {name: (topic.partition_count or 0, topic.topic_id) for name, topic in found.items()}
        since = [at_ms for at_ms, _ in earlier[1:]]
        if not earlier or earlier[-1][1] != now:
            self._topics = (*earlier, (at_ms, now))
            since.append(at_ms)
        recent = sum(1 for one in since if one >= at_ms - LEADERS_LOOK_MS)
        self._topics = self._topics[-recent - 1 :]
        return tuple(topics for _, topics in self._topics[:-1])

    def _before_repeated(self, generation: AuditedGeneration, previous: Generation | None) -> Generation | None:
        at_ms = generation.evidence.observed_at_ms
        if not generation.is_rewrite:
            self._ran_at_ms, self._before_run = at_ms, previous
            return None
        is_soon = self._ran_at_ms is not None and at_ms - self._ran_at_ms <= LEADERS_LOOK_MS
        return self._before_run if is_soon else None


def _moment(before: Evidence, generation: AuditedGeneration, observed: Generation, audit: Audit) -> Moment:
    now = generation.evidence
    earlier = {one.owner: one for one in before.participants}
    current = {one.owner: one for one in now.participants}
    left = [one for owner, one in earlier.items() if _has_gone(one, current.get(owner))]
    came = [one for owner, one in current.items() if _has_gone(one, earlier.get(owner))]
    seats = Counter(seat_of(one.owner, one.origin) for one in before.participants)
    left_seats = tuple(Passage(seat, one.member_id) for one in left if (seat := seat_of(one.owner, one.origin)) is not None)
    claims = {member.member_id: member for member in observed.problem.members} if came else {}
    came_seats = tuple(
        Passage(seat, one.member_id, _remembers(claims[one.member_id], observed.strategy))
        for one in came
        if (seat := seat_of(one.owner, one.origin)) is not None
    )
    return Moment(
        generation=now.generation,
        observed_at_ms=now.observed_at_ms,
        is_rebalance=audit.generation_gap == 0 and not generation.is_follow_up and not generation.is_rewrite,
        is_explained=audit.triggers != (Trigger.NONE_VISIBLE,),
        member_count=max(len(before.participants), len(now.participants)),
        left=left_seats,
        came=came_seats,
        seat_counts={passage.seat: seats[passage.seat] for passage in left_seats},
        is_independent=not (left or came) and not generation.is_follow_up and not generation.is_rewrite,
        is_follow_up=generation.is_follow_up,
        takeovers=tuple(_takeovers(earlier, current)),
        **_movements(before, now, audit.difference),
    )


def _has_gone(one: Participant, other: Participant | None) -> bool:
    return other is None or other.member_id != one.member_id


def _remembers(member: Member, strategy: str) -> bool:
    """Return whether a member that joined names a generation that it was in; the first of a group is 1.

    Java's cooperative assignor writes only the generation. All others write a previous assignment and then the generation.
    """
    data = member.user_data
    if not data or strategy not in STICKY:
        return False
    is_bare = strategy in COOPERATIVE and len(data) == _BARE_GENERATION_BYTES
    known = read_cooperative_user_data(data) if is_bare else read_sticky_user_data(data)[1]
    return known is not None and known >= _FIRST_GENERATION


def _takeovers(earlier: Mapping[Owner, Participant], current: Mapping[Owner, Participant]) -> Iterator[Takeover]:
    for owner, now in current.items():
        then = earlier.get(owner)
        if then is None or not _has_gone(then, now) or then.origin is None or now.origin is None:
            continue
        if then.origin != now.origin:
            yield Takeover(owner[1], then.origin, now.origin)


def _movements(before: Evidence, now: Evidence, difference: Difference | None) -> dict[str, frozenset[OwnedPartition]]:
    """Return the fields of a moment that are about partitions; none if the generation before is not known."""
    if difference is None:
        return {}
    losers: dict[str | None, Owner] = {one.member_id: one.owner for one in before.participants}
    owners: dict[str | None, Owner] = {one.member_id: one.owner for one in now.participants}
    fields: dict[str, set[OwnedPartition]] = {"moved": set(), "withheld": set(), "given": set()}
    for row in difference.movements:
        partition = (row.topic, row.partition)
        if row.kind in (REVOKED, REASSIGNED):
            fields["moved"].add((partition, owners[row.member_id]))
        elif row.cause in (HANDED_OVER, RETURNED):
            fields["given"].add((partition, owners[row.member_id]))
        elif row.cause == WITHHELD:
            fields["withheld"].add((partition, losers[row.previous_member_id]))
    return {name: frozenset(pairs) for name, pairs in fields.items()}
