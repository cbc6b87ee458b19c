"""Rules that look back: how often a group rebalances, which members come and go, and which partitions go back and forth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain

from assignors.generations import Owner
from assignors.model import TopicPartition
from jobs.findings.facts import SnapshotFacts
from jobs.findings.history import WINDOW_MS, Held, Moment, Seat
from jobs.findings.rule import Found, counted, figures, listed, rule
from schemas.vocabulary import Rule, Severity

WINDOW_MINUTES = WINDOW_MS // 60_000

RESTARTS = 3
"""Restarts of one member within the window that are a loop. A deployment restarts it once, and once more when it is rolled back."""

STORM_FLOOR = 10
"""Rebalances within the window that are a storm in any group: one a minute, as long as the window."""

STORM_PER_MEMBER = 3
"""Rebalances a member that are a storm in a large group. A rolling restart takes two: one when it leaves, one when it is back."""

FLAPS = 3
"""Moves of one partition to the same member within the window. One is any rebalance, and two come about when a group of the range
assignor is restarted member by member."""


@rule(
    Rule.REBALANCE_STORM,
    Severity.WARNING,
    "Rebalance storm",
    when=(
        f"At least {STORM_FLOOR} rebalances within {WINDOW_MINUTES} minutes, and {STORM_PER_MEMBER} for every member. Those without a "
        "visible reason count; hand-overs of a cooperative assignor do not, nor do generations with a gap before them."
    ),
    advice=(
        "Look at the triggers of these generations. Restarts: mend the crash, or use static members. No visible reason: members exceed "
        "max.poll.interval.ms or lose their session; process smaller batches, and look for long pauses of the garbage collector."
    ),
)
def rebalance_storm(snapshot: SnapshotFacts) -> Found | None:
    """Return how many rebalances there were lately, where this is one more and they are too many."""
    window = [moment for moment in snapshot.window if moment.is_rebalance]
    if not window or window[-1] is not snapshot.window[-1]:
        return None
    members = max(moment.member_count for moment in snapshot.window)
    if len(window) < max(STORM_FLOOR, STORM_PER_MEMBER * members):
        return None
    unexplained = sum(1 for moment in window if not moment.is_explained)
    seconds = round((window[-1].observed_at_ms - window[0].observed_at_ms) / 1000)
    return Found(
        f"{len(window)} rebalances of {counted(members, 'member')} within {seconds} s, {unexplained} of them without a visible reason",
        figures(rebalance_count=len(window), seconds=seconds, none_visible_count=unexplained, member_count=members),
    )


def _restarts(window: Iterable[Moment]) -> tuple[Counter[Seat], Counter[Seat]]:
    """Return how often a member came back to each seat, and how many members the seat had at most."""
    empty: Counter[Seat] = Counter()
    restarts: Counter[Seat] = Counter()
    most: Counter[Seat] = Counter()
    for moment in window:
        for seat in moment.left:
            empty[seat] += 1
            most[seat] = max(most[seat], moment.seat_counts[seat])
        for seat in moment.came:
            if empty[seat]:
                empty[seat] -= 1
                restarts[seat] += 1
    return restarts, most


@rule(
    Rule.RESTART_LOOP,
    Severity.WARNING,
    "A member restarts again and again",
    when=(
        f"Within {WINDOW_MINUTES} minutes a member came back {RESTARTS} times to the same instance id, or to the same client id and host "
        "(as many times for every member there). Only a snapshot in which it comes back once more is reported."
    ),
    advice=(
        "Read that process's log: it crashes and is started again, or is put out for exceeding max.poll.interval.ms and joins anew. Every "
        "time the whole group rebalances."
    ),
)
def restart_loop(snapshot: SnapshotFacts) -> Found | None:
    """Return the seats to which members come back all the time, this time again."""
    if not snapshot.window:
        return None
    restarts, most = _restarts(snapshot.window)
    seats = sorted(seat for seat in set(snapshot.window[-1].came) if restarts[seat] >= RESTARTS * max(most[seat], 1))
    if not seats:
        return None
    worst = max(restarts[seat] for seat in seats)
    names = [" at ".join(seat) for seat in seats]
    return Found(
        f"Members came back up to {worst} times within {WINDOW_MINUTES} minutes: {listed(names)}",
        figures(restart_count=worst, seat_count=len(seats), seats=names),
    )


@rule(
    Rule.DUPLICATE_INSTANCE_ID,
    Severity.WARNING,
    "Two processes share one instance id",
    when=(
        "Two members have the same group.instance.id, or within "
        f"{WINDOW_MINUTES} minutes a second client id or host took one over from a member and lost it to the first again."
    ),
    advice="Give every process a group.instance.id of its own. The broker fences whichever came first; restarted, it fences the other.",
)
def duplicate_instance_ids(snapshot: SnapshotFacts) -> Found | None:
    """Return the instance ids that several processes use."""
    counts = Counter(member.group_instance_id for member in snapshot.problem.members if member.group_instance_id is not None)
    twice = {name for name, count in counts.items() if count > 1}
    earlier = {(one.instance_id, one.before, one.after) for moment in snapshot.window for one in moment.takeovers}
    current = snapshot.window[-1].takeovers if snapshot.window else ()
    twice.update(one.instance_id for one in current if (one.instance_id, one.after, one.before) in earlier)
    if not twice:
        return None
    names = sorted(twice)
    return Found(
        f"{counted(len(names), 'instance id')} {'is' if len(names) == 1 else 'are'} used by several processes: {listed(names)}",
        figures(instance_id_count=len(names), instance_ids=names),
    )


def _moves(window: Iterable[Moment]) -> Iterator[frozenset[Held]]:
    """Yield for each moment the partitions that came from another owner, with their new one.

    A partition that was withheld did so when its last owner is another one. Where it was taken away before the window nobody can tell.
    """
    withheld: dict[TopicPartition, Owner] = {}
    for moment in window:
        handed_over = frozenset(held for held in moment.given if withheld.get(held[0], held[1]) != held[1])
        yield moment.moved | handed_over if handed_over else moment.moved
        withheld.update(moment.withheld)


@rule(
    Rule.PARTITION_FLAPPING,
    Severity.WARNING,
    "Partitions go back and forth",
    when=(
        f"Within {WINDOW_MINUTES} minutes a partition moved to the same member {FLAPS} times, each time from another one. Only a snapshot "
        "in which it does so once more is reported."
    ),
    advice=(
        "Caches and state of these partitions are built anew each time. Look for the member whose comings and goings move them; sticky "
        "assignors and static members keep the others where they are."
    ),
)
def flapping_partitions(snapshot: SnapshotFacts) -> Found | None:
    """Return the partitions that move to one of their owners once more."""
    if not snapshot.window:
        return None
    history = [*_moves(snapshot.window)]
    current = history[-1]
    moves = Counter(chain.from_iterable(current & moved for moved in history))
    flapping = {place: count for (place, _), count in moves.items() if count >= FLAPS}
    if not flapping:
        return None
    most = max(flapping.values())
    names = [f"{topic}-{partition}" for topic, partition in sorted(flapping)]
    return Found(
        f"{counted(len(names), 'partition')} moved to the same member up to {most} times in {WINDOW_MINUTES} minutes: {listed(names)}",
        figures(partition_count=len(names), move_count=most, partitions=names),
    )
