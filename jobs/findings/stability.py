"""Rules that look back: how often a group rebalances, which members come and go, and which partitions go back and forth."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from assignors.generation.generation import Owner
from assignors.model import TopicPartition
from assignors.replay.recurrence import (
    FEWEST_DAYS,
    MOST_DAYS,
    RETURNS_A_DAY,
    RETURNS_AN_HOUR,
    TIMES_USUAL,
    UNEXPLAINED_A_DAY,
    UNEXPLAINED_AN_HOUR,
    Seat,
)
from jobs.findings.facts import SnapshotFacts
from jobs.findings.history import WINDOW_MS, Held, Moment
from jobs.findings.rule import Found, counted, figures, listed, rule
from schemas.vocabulary import Rule, Severity

WINDOW_MINUTES = WINDOW_MS // 60_000

RESTARTS = 3
"""Restarts of one member within the window that are a loop. A deployment restarts it once, and once more when it is rolled back."""

STORM_FLOOR = 10
"""Rebalances within the window that are a storm in any group where nothing explains them: one a minute, as long as the window."""

STORM_PER_MEMBER = 3
"""Rebalances a member that are a storm in a large group where members explain them, which come and go. A rolling restart takes two: one
when it leaves, one when it is back. What has no visible reason needs no allowance: the more members, the longer a rebalance takes, and
one that members learn of by their heartbeats cannot be over every few seconds."""

FLAPS = 3
"""Moves of one partition to the same member within the window. One is any rebalance, and two come about when a member is restarted once
more, as when a deployment is rolled back."""


NEAR = (0.9, 1.25)
"""How far a time may be from a setting, as a ratio, to be its doing: generations come some seconds after a limit is exceeded."""

DEFAULT_MAX_POLL_INTERVAL_MS = 300_000
"""``max.poll.interval.ms`` where nothing is configured."""


def _suspected(times_ms: Iterable[int | None], timeouts_ms: Iterable[int | None]) -> tuple[str, dict[str, str]]:
    """Return what a cycle's length points to, as the end of a message and as evidence; both empty where it points to nothing.

    Args:
        times_ms: lengths of the cycle, and of its part in the group.
        timeouts_ms: of the members; where none is recorded, the default is taken.
    """
    limits = sorted({timeout for timeout in timeouts_ms if timeout}) or [DEFAULT_MAX_POLL_INTERVAL_MS]
    for limit in limits:
        near = [time for time in times_ms if time is not None and NEAR[0] * limit <= time <= NEAR[1] * limit]
        if near:
            said = f"; {round(near[0] / 1000)} s each time, and max.poll.interval.ms is {round(limit / 1000)} s"
            return said, {"suspected_setting": "max.poll.interval.ms", "limit_ms": str(limit)}
    return "", {}


def _lasting(milliseconds: int) -> str:
    """Return a length of time in the unit that people would use.

    >>> _lasting(90_000), _lasting(2_400_000), _lasting(21_600_000)
    ('90 s', '40 minutes', '6.0 hours')
    """
    seconds = round(milliseconds / 1000)
    return f"{seconds} s" if seconds < 600 else f"{round(seconds / 60)} minutes" if seconds < 7_200 else f"{seconds / 3600:.1f} hours"


@rule(
    Rule.REBALANCE_STORM,
    Severity.WARNING,
    "Rebalance storm",
    when=(
        f"Within {WINDOW_MINUTES} minutes at least {STORM_FLOOR} rebalances without a visible reason, or, whatever their reasons, at least "
        f"{STORM_FLOOR} and {STORM_PER_MEMBER} for every member, since a rolling restart takes two for each. Or without a visible reason "
        f"at least {UNEXPLAINED_AN_HOUR} within an hour or {UNEXPLAINED_A_DAY} within a day, and that day {TIMES_USUAL} times the group's "
        f"own median day. The median is of the last {MOST_DAYS} whole days (UTC) and is known from {FEWEST_DAYS} on; before that every day "
        "counts. Hand-overs of a cooperative assignor do not count, nor do generations with a gap before them; epochs of a "
        "consumer-protocol group that share a target are one rebalance."
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
    unexplained = sum(1 for moment in window if not moment.is_explained)
    if unexplained < STORM_FLOOR and len(window) < max(STORM_FLOOR, STORM_PER_MEMBER * members):
        return _lasting_storm(snapshot)
    seconds = round((window[-1].observed_at_ms - window[0].observed_at_ms) / 1000)
    return Found(
        f"{len(window)} rebalances of {counted(members, 'member')} within {seconds} s, {unexplained} of them without a visible reason",
        figures(rebalance_count=len(window), seconds=seconds, none_visible_count=unexplained, member_count=members),
    )


def _lasting_storm(snapshot: SnapshotFacts) -> Found | None:
    """Return the rebalances without a visible reason within an hour or a day, where they are too many."""
    storm, members = snapshot.recurrences.storm, len(snapshot.problem.members)
    if storm is None:
        return None
    count, seconds = storm.rebalance_count, round(storm.span_ms / 1000)
    usual = "" if storm.usual_count is None else f", {storm.usual_count:g} on its median day"
    said, suspected = _suspected([storm.cycle_ms], snapshot.rebalance_timeouts_ms.values())
    return Found(
        f"{count} rebalances of {counted(members, 'member')} within {_lasting(storm.span_ms)}, all without a visible reason{usual}{said}",
        figures(
            rebalance_count=count,
            seconds=seconds,
            none_visible_count=count,
            member_count=members,
            cycle_seconds=round(storm.cycle_ms / 1000),
        )
        | suspected,
    )


@dataclass
class _Returns:
    """How often a member came back to a seat, and how often by a process that had gone on all the while."""

    empty: int = 0
    most: int = 0
    count: int = 0
    same_process: int = 0


def _returns(window: Iterable[Moment]) -> dict[Seat, _Returns]:
    """Return what came back to each seat that was left; where several members had it, all of theirs together."""
    found: defaultdict[Seat, _Returns] = defaultdict(_Returns)
    gone: set[str] = set()
    for moment in window:
        for one in moment.left:
            seat = found[one.seat]
            seat.empty += 1
            seat.most = max(seat.most, moment.seat_counts[one.seat])
            gone.add(one.member_id)
        for one in moment.came:
            seat = found[one.seat]
            if seat.empty:
                seat.empty -= 1
                seat.count += 1
                seat.same_process += one.remembers or one.member_id in gone
    return found


@rule(
    Rule.RESTART_LOOP,
    Severity.WARNING,
    "A member comes back again and again",
    when=(
        f"A member came back {RESTARTS} times within {WINDOW_MINUTES} minutes, {RETURNS_AN_HOUR} times within an hour, or "
        f"{RETURNS_A_DAY} times within a day. Members are the same by their instance id, else by client id and host. If several members "
        "share these, each of them has to come back as often. Only a snapshot in which it comes back once more is reported. The member "
        "came back without a restart if its bytes name a generation that it had been in, as the sticky assignors write it. The same holds "
        "if it has its old member id, as under KIP-848. If neither is recorded, nobody can tell. The finding names max.poll.interval.ms if "
        "the cycle is about as long as that: the members' rebalance timeout, or 300 s if none is recorded."
    ),
    advice=(
        "Read that process's log. Without a restart: it was put out for exceeding max.poll.interval.ms or session.timeout.ms and joined "
        "anew, or unsubscribes and subscribes; process smaller batches (max.poll.records), and look for long pauses. Else it crashes and "
        "is started again, or was put out likewise. Every time the whole group rebalances."
    ),
)
def restart_loop(snapshot: SnapshotFacts) -> Found | None:
    """Return the seats to which members come back all the time, this time again."""
    if not snapshot.window:
        return None
    returns = _returns(snapshot.window)
    now = sorted({one.seat for one in snapshot.window[-1].came})
    seats = [seat for seat in now if returns[seat].count >= RESTARTS * max(returns[seat].most, 1)]
    if not seats:
        return _slow_loop(snapshot)
    worst = max((returns[seat] for seat in seats), key=lambda one: one.count)
    names = [" at ".join(seat) for seat in seats]
    ongoing = f", {worst.same_process} of them without a restart" if worst.same_process else ""
    return Found(
        f"Members came back up to {worst.count} times within {WINDOW_MINUTES} minutes{ongoing}: {listed(names)}",
        figures(restart_count=worst.count, same_process_count=worst.same_process, seat_count=len(seats), seats=names),
    )


def _slow_loop(snapshot: SnapshotFacts) -> Found | None:
    """Return the seats to which members came back too often within an hour or a day."""
    loops = snapshot.recurrences.loops
    if not loops:
        return None
    worst = max(loops, key=lambda one: one.return_count)
    names = [" at ".join(loop.seat) for loop in loops]
    said, suspected = _suspected([worst.stay_ms, worst.cycle_ms], snapshot.rebalance_timeouts_ms.values())
    return Found(
        f"Members came back up to {worst.return_count} times within {_lasting(worst.span_ms)}: {listed(names)}{said}",
        figures(
            restart_count=worst.return_count,
            seconds=round(worst.span_ms / 1000),
            cycle_seconds=round(worst.cycle_ms / 1000),
            seat_count=len(loops),
            seats=names,
        )
        | suspected,
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


def _is_rolling_restart(window: Iterable[Moment]) -> bool:
    """Return whether members left, and none of those that came left again."""
    has_left, came = False, set[str]()
    for moment in window:
        if any(one.member_id in came for one in moment.left):
            return False
        has_left |= bool(moment.left)
        came.update(one.member_id for one in moment.came)
    return has_left


@rule(
    Rule.PARTITION_FLAPPING,
    Severity.WARNING,
    "Partitions go back and forth",
    when=(
        f"Within {WINDOW_MINUTES} minutes a partition moved to the same member {FLAPS} times, each time from another one. Only a snapshot "
        "in which it does so once more is reported. What moved as members left and came does not count where none of those that came left "
        "again, as in a rolling restart."
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
    if _is_rolling_restart(snapshot.window):
        history = [moved if moment.is_independent else frozenset() for moment, moved in zip(snapshot.window, history, strict=True)]
    current = history[-1]
    moves = Counter(chain.from_iterable(current & moved for moved in history))
    flapping = {topic_partition: count for (topic_partition, _), count in moves.items() if count >= FLAPS}
    if not flapping:
        return None
    most = max(flapping.values())
    names = [f"{topic}-{partition}" for topic, partition in sorted(flapping)]
    return Found(
        f"{counted(len(names), 'partition')} moved to the same member up to {most} times in {WINDOW_MINUTES} minutes: {listed(names)}",
        figures(partition_count=len(names), move_count=most, partitions=names),
    )
