"""Rules on the time before a snapshot: how often a group rebalances, which members come back, and which partitions move back and forth."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
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
from jobs.findings.history import WINDOW_MINUTES, Moment, OwnedPartition
from jobs.findings.rule import Found, counted, duration, figures, listed, named, rule
from schemas.vocabulary import Rule, Severity

RESTARTS = 3
"""Restarts of one member within the window that make a loop. A deployment restarts it once, and once more when it is rolled back."""

STORM_FLOOR = 10
"""Unexplained rebalances within the window that make a storm in any group: one a minute, all the time."""

STORM_PER_MEMBER = 3
"""Rebalances for each member that make a storm if members that leave and join explain them. A rolling restart takes two for each member:
one when it leaves, one when it is back. Unexplained rebalances need no such allowance. A rebalance takes longer with more members, and
members learn of it by their heartbeats, so it cannot end every few seconds."""

FLAPS = 3
"""Movements of one partition to the same member within the window. Any rebalance can cause one, and a second restart two, as when a
deployment is rolled back."""


NEAR = (0.9, 1.25)
"""Smallest and largest ratio of a time to a setting that may have caused it: a generation begins some seconds after the limit."""

DEFAULT_MAX_POLL_INTERVAL_MS = 300_000
"""The default of ``max.poll.interval.ms``."""


def _suspected(times_ms: Iterable[int | None], timeouts_ms: Iterable[int | None]) -> tuple[str, dict[str, str]]:
    """Return the setting that a cycle's length suggests, as the end of a message and as evidence; both are empty if there is none.

    Args:
        times_ms: lengths of the cycle, and of its part in the group.
        timeouts_ms: of the members; if none is recorded, the default.
    """
    limits = sorted({timeout for timeout in timeouts_ms if timeout}) or [DEFAULT_MAX_POLL_INTERVAL_MS]
    for limit in limits:
        near = [time for time in times_ms if time is not None and NEAR[0] * limit <= time <= NEAR[1] * limit]
        if near:
            said = f"; {round(near[0] / 1000)} s each time, and max.poll.interval.ms is {round(limit / 1000)} s"
            return said, {"suspected_setting": "max.poll.interval.ms", "limit_ms": str(limit)}
    return "", {}


COME_AND_GO = (
    "See in these generations which members come and go. If they restart, fix the crash or use static members (group.instance.id)."
)
"""The advice on a storm in which each rebalance has a visible reason."""


@rule(
    Rule.REBALANCE_STORM,
    Severity.WARNING,
    "Rebalance storm",
    when=(
        f"At least {STORM_FLOOR} rebalances without a visible reason within {WINDOW_MINUTES} minutes, {UNEXPLAINED_AN_HOUR} within an "
        f"hour, or {UNEXPLAINED_A_DAY} within a day. Or within {WINDOW_MINUTES} minutes, for any reason, at least {STORM_FLOOR} and "
        f"{STORM_PER_MEMBER} for every member: a rolling restart takes two for each. The limits of an hour and a day hold only if the day "
        f"has {TIMES_USUAL} times as many as the group's median day. The median is of the last {MOST_DAYS} whole days (UTC), and is not "
        f"used before {FEWEST_DAYS} of them are known. Hand-overs do not count, nor do generations after a gap. A hand-over has the "
        "finding of the rebalance that it finishes. Epochs of a consumer-protocol group that share a target are one rebalance."
    ),
    advice=(
        "Check the triggers of these generations. If members restart, fix the crash or use static members. If there is no visible reason, "
        "members exceed max.poll.interval.ms or lose their session. Process smaller batches, and look for long garbage collections."
    ),
)
def rebalance_storm(snapshot: SnapshotFacts) -> Found | None:
    """Return how many rebalances there were in the window, if this is one of them or finishes it, and they are too many."""
    moments = _without_last_follow_ups(snapshot.window)
    window = [moment for moment in moments if moment.is_rebalance]
    if not window or window[-1] is not moments[-1]:
        return None
    members = max(moment.member_count for moment in moments)
    unexplained = sum(1 for moment in window if not moment.is_explained)
    if unexplained < STORM_FLOOR and len(window) < max(STORM_FLOOR, STORM_PER_MEMBER * members):
        return _lasting_storm(snapshot)
    seconds = round((window[-1].observed_at_ms - window[0].observed_at_ms) / 1000)
    which = {0: "all with a visible reason", len(window): "all without a visible reason"}
    return Found(
        f"{len(window)} rebalances of {counted(members, 'member')} within {seconds} s, "
        f"{which.get(unexplained, f'{unexplained} of them without a visible reason')}",
        figures(rebalance_count=len(window), seconds=seconds, none_visible_count=unexplained, member_count=members),
        advice=None if unexplained else COME_AND_GO,
    )


def _without_last_follow_ups(window: Sequence[Moment]) -> Sequence[Moment]:
    """Return the moments up to the last one that is no follow-up: what held of that rebalance holds until another one begins."""
    end = len(window)
    while end and window[end - 1].is_follow_up:
        end -= 1
    return window[:end]


def _lasting_storm(snapshot: SnapshotFacts) -> Found | None:
    """Return the rebalances without a visible reason within an hour or a day, if they are too many."""
    storm, members = snapshot.recurrences.storm, len(snapshot.problem.members)
    if storm is None:
        return None
    count, seconds = storm.rebalance_count, round(storm.span_ms / 1000)
    usual = "" if storm.usual_count is None else f", {storm.usual_count:g} on its median day"
    said, suspected = _suspected([storm.cycle_ms], snapshot.rebalance_timeouts_ms.values())
    return Found(
        f"{count} rebalances of {counted(members, 'member')} within {duration(storm.span_ms)}, all without a visible reason{usual}{said}",
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
    """How often a member came back to a seat, and how often without a restart of its process."""

    empty: int = 0
    most: int = 0
    count: int = 0
    same_process: int = 0


def _returns(window: Iterable[Moment]) -> dict[Seat, _Returns]:
    """Return what came back to each seat that was left; members that share a seat are counted together."""
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
        f"A member left and came back {RESTARTS} times within {WINDOW_MINUTES} minutes, or came back {RETURNS_AN_HOUR} times within an "
        f"hour, or {RETURNS_A_DAY} times within a day. A member is recognised by its instance id, else by client id and host. If several "
        "members share these, each of them has to come back as often. Only a rebalance in which it comes back once more is reported, and "
        "the hand-over that finishes it. The member came back without a restart if its bytes name a generation that it had been in, as the "
        "sticky assignors write it. The same holds if it has its old member id, as under KIP-848. Otherwise a restart cannot be excluded. "
        "The finding names max.poll.interval.ms if the cycle is about as long as the members' rebalance timeout, or as 300 s if none is "
        "recorded."
    ),
    advice=(
        "Read the log of that process. Each return makes the whole group rebalance, except that of a static member within its session "
        "timeout. Without a restart, the process exceeded max.poll.interval.ms or session.timeout.ms and joined again, or it unsubscribes "
        "and subscribes again. Process smaller batches (max.poll.records), and look for long pauses. Otherwise it crashes and is started "
        "again, or it exceeded one of these limits."
    ),
)
def restart_loop(snapshot: SnapshotFacts) -> Found | None:
    """Return the seats to which members came back too often within the window, and came back in this rebalance too."""
    window = _without_last_follow_ups(snapshot.window)
    if not window:
        return None
    returns = _returns(window)
    now = sorted({one.seat for one in window[-1].came})
    seats = [seat for seat in now if returns[seat].count >= RESTARTS * max(returns[seat].most, 1)]
    if not seats:
        return _slow_loop(snapshot)
    worst = max((returns[seat] for seat in seats), key=lambda one: one.count)
    names = [" at ".join(seat) for seat in seats]
    ongoing = f", {worst.same_process} of them without a restart" if worst.same_process else ""
    return Found(
        f"Members came back up to {worst.count} times within {WINDOW_MINUTES} minutes{ongoing}: {named(names)}",
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
        f"Members came back up to {worst.return_count} times within {duration(worst.span_ms)}: {named(names)}{said}",
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
        "Two members have the same group.instance.id. Or a second client id or host took over an instance id, and the first took it back, "
        f"within {WINDOW_MINUTES} minutes."
    ),
    advice="Give every process its own group.instance.id. The broker fences the one that came first; restarted, it fences the other.",
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


def _moves(window: Iterable[Moment]) -> Iterator[frozenset[OwnedPartition]]:
    """Yield for each moment the partitions that came from another owner, each with its new owner.

    A withheld partition came from another owner if its last owner is a different one. If it was taken away before the window, its last
    owner is not known, and it does not count.
    """
    withheld: dict[TopicPartition, Owner] = {}
    for moment in window:
        handed_over = frozenset(pair for pair in moment.given if withheld.get(pair[0], pair[1]) != pair[1])
        yield moment.moved | handed_over if handed_over else moment.moved
        withheld.update(moment.withheld)


def _is_change_of_members(window: Iterable[Moment]) -> bool:
    """Return whether members left or came, and none that came left again, as in a rolling restart, or while a group grows."""
    has_changed, came = False, set[str]()
    for moment in window:
        if any(one.member_id in came for one in moment.left):
            return False
        has_changed |= bool(moment.left or moment.came)
        came.update(one.member_id for one in moment.came)
    return has_changed


@rule(
    Rule.PARTITION_FLAPPING,
    Severity.WARNING,
    "Partitions go back and forth",
    when=(
        f"Within {WINDOW_MINUTES} minutes a partition moved to the same member {FLAPS} times, each time from another one. Only a snapshot "
        "in which it does so once more is reported. Movements while members leave and join do not count if no member that joined leaves "
        "again, as in a rolling restart, or while a group grows."
    ),
    advice=(
        "Caches and state of these partitions are built again each time. Look for the member that leaves and joins and so moves them. "
        "Sticky assignors and static members keep the other partitions where they are."
    ),
)
def flapping_partitions(snapshot: SnapshotFacts) -> Found | None:
    """Return the partitions that moved to the same owner too often, and did so in this snapshot too."""
    if not snapshot.window:
        return None
    history = [*_moves(snapshot.window)]
    if _is_change_of_members(snapshot.window):
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
