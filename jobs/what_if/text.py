"""Rehearsals as text for a terminal: tables, and sentences below them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assignors.audit.least_movement import Least
from jobs.pages import plain_text
from jobs.pages.figures import counted, visible
from jobs.reading.stored import GroupKey
from jobs.runtime.locations import on_one_line
from jobs.what_if.deploy import Deploy
from jobs.what_if.figures import Answer, Loads, Span
from jobs.what_if.notes import notes_on
from jobs.what_if.rehearsal import Curve, Rehearsal, Subject
from jobs.what_if.steps import steps_to

UNKNOWN = "-"
_HEAD = ("", "members", "partitions", "imbalance", "by lag", "by rate", "moves", "stops reading", "rounds")


def group_lines(subject: Subject, rehearsals: Sequence[Rehearsal], deploy: Deploy | None) -> Iterator[str]:
    """Yield the lines on one group: now, a line a strategy, what to do, and what to know. Names are escaped.

    Args:
        deploy: what a deploy costs without instance ids; None where that is not asked.
    """
    yield from _heading(subject)
    yield ""
    rows = [_HEAD, ("now", *_load_cells([subject.now]), *(UNKNOWN,) * 3)]
    for rehearsal in rehearsals:
        prefix = f"{rehearsal.name}: " if rehearsal.name else ""
        rows += [(f"{prefix}{answer.strategy}", *_cells(answer)) for answer in rehearsal.answers if answer.played is not None]
    yield from table_lines(_without_unknown(rows))
    for rehearsal in rehearsals:
        yield from _below(subject, rehearsal)
    if deploy is not None:
        yield ""
        yield from _deploy_lines(subject, deploy)


def curve_lines(subject: Subject, curve: Curve) -> Iterator[str]:
    """Yield the lines on the member counts of one group. Names are escaped."""
    yield from _heading(subject)
    yield ""
    strategies = [answer.strategy for answer in curve.counts[0].rehearsal.answers]
    rows: list[Sequence[str]] = [("members", *strategies)]
    rows += [(str(count.members), *map(_curve_cell, count.rehearsal.answers)) for count in curve.counts]
    yield from table_lines(rows)
    yield "A cell has the partitions of a member, and how many partitions move."
    yield ""
    yield _divides_well(subject, curve.divides_well)
    for note in notes_on(subject, curve.counts[0].rehearsal):
        yield on_one_line(f"note: {note}")


def _divides_well(subject: Subject, members: int | None) -> str:
    """Return which member count divides well in one sentence."""
    today, threads = subject.now.member_count, subject.threads
    if 2 * today < threads:
        return f"divides well: one member of {threads} consumers is more than twice today's consumers, of which there are {today}."
    if members is None:
        return f"divides well: no count above today's and up to {2 * today // threads} gives all members the same number of partitions."
    unit = f" of {threads} consumers each" if threads > 1 else ""
    return f"divides well: {members} members{unit}, the fewest above today's with the same number of partitions for each."


def table_lines(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield rows as columns: the first to the left, others to the right. Names are escaped."""
    yield from plain_text.table_lines([[on_one_line(cell) for cell in row] for row in rows], range(1, len(rows[0])))


def named(key: GroupKey) -> str:
    """Return the group and its cluster with their whole names; two groups never look the same."""
    return f"{whole_name(key.group_id)} of cluster {whole_name(key.cluster_id)}"


def whole_name(name: str) -> str:
    """Return a name with its escapes as pages and ``show`` write them, but not cut; in quotes if it shows nothing."""
    return visible(name) if name.strip() else f"'{visible(name)}'"


def _without_unknown(rows: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """Return rows without the columns in which nothing is known."""
    columns = [column for column in zip(*rows, strict=True) if set(column[1:]) != {UNKNOWN}]
    return list(zip(*columns, strict=True))


def _heading(subject: Subject) -> Iterator[str]:
    stored = subject.stored
    known = "consumer protocol" if stored.is_consumer_protocol else "classic protocol"
    protocol = known if stored.is_protocol_known else "protocol not known"
    client = f", {stored.leader_client}" if stored.leader_client else ""
    strategy = stored.generation.strategy or "assignor not known"
    yield on_one_line(
        f"{named(stored.key)}, generation {stored.generation.generation} of "
        f"{stored.observed_at:%Y-%m-%d %H:%M:%S} UTC: {strategy}, {protocol}{client}"
    )
    if stored.ended_at is not None:
        yield f"The group was deleted at {stored.ended_at:%Y-%m-%d %H:%M:%S} UTC; these are its last members."
    elif stored.empty_since is not None:
        yield f"The group has had no members since {stored.empty_since:%Y-%m-%d %H:%M:%S} UTC; these are its last ones."
    weights = subject.weights
    if weights.seen_at is not None and (any(weights.lag.values()) or any(weights.throughput.values())):
        yield f"Lag and rate (records a second) are of {weights.seen_at:%Y-%m-%d %H:%M:%S} UTC."


def _below(subject: Subject, rehearsal: Rehearsal) -> Iterator[str]:
    """Yield the sentences on one scenario."""
    yield ""
    if rehearsal.name:
        yield on_one_line(f"{rehearsal.name}:")
    for answer in rehearsal.answers:
        if answer.refusal is not None:
            yield on_one_line(f"{answer.strategy} cannot be played: {answer.refusal}")
    best = rehearsal.cheapest
    if best is None:
        return
    yield on_one_line(f"cheapest: {best.strategy}: {_price(best)}")
    named = [answer.strategy for answer in rehearsal.answers if answer.played is not None] if rehearsal.changes.strategies else []
    for strategy in dict.fromkeys([best.strategy, *named]):
        steps = list(steps_to(subject.stored, rehearsal.changes, strategy, subject.threads, subject.weights.partition_counts))
        if steps:
            yield on_one_line(f"to get to {strategy}:")
            yield from (on_one_line(f"  {number}. {step}") for number, step in enumerate(steps, 1))
    if any(answer.tried_movements.low < answer.tried_movements.high for answer in rehearsal.answers if answer.played is not None):
        yield "note: A range of moves depends on how the ids of new members sort among the others."
    for note in notes_on(subject, rehearsal):
        yield on_one_line(f"note: {note}")


def _price(answer: Answer) -> str:
    moves, stopped = answer.tried_movements, answer.tried_stopped
    moving = "nothing moves" if not moves.high else f"{_span(moves)} {'partition moves' if moves.high == 1 else 'partitions move'}"
    stopping = "none stops being read" if not stopped.high else f"at most {_span(stopped)} not read at once"
    return f"as even as any, {stopping}, {moving}"


def _deploy_lines(subject: Subject, deploy: Deploy) -> Iterator[str]:
    strategy = subject.stored.generation.strategy
    restarts = "1 restart is" if deploy.restart_count == 1 else f"{deploy.restart_count} restarts one after another are"
    if deploy.restart_count < deploy.member_count:
        restarts = f"the first {deploy.restart_count} of {deploy.member_count} restarts one after another are"
    yield (
        f"next deploy without instance ids: {restarts} {counted(deploy.rebalance_count, 'rebalance')} of {on_one_line(strategy)}. "
        f"Partitions move {counted(deploy.movement_count, 'time')}, and stop being read {counted(deploy.stopped_count, 'time')}."
    )
    sessions = [f"{one / 1000:g}" for one in (deploy.shortest_session_ms, deploy.longest_session_ms) if one is not None]
    session = f" ({_from_to(*sessions)} s)" if sessions else ""
    yield f"next deploy with instance ids: no rebalance, if each member is back within its session timeout{session}."


def _cells(answer: Answer) -> Sequence[str]:
    assert answer.played is not None
    least = answer.played.expected.least
    moves = f"{_span(answer.tried_movements)}{_least(least)}"
    return (*_load_cells(answer.loads), moves, _span(answer.tried_stopped), _span(answer.rounds))


def _least(least: Least | None) -> str:
    if least is None:
        return ""
    return f" (least {least.count})" if least.is_exact else f" (least over {least.count - 1})"


def _load_cells(loads: Sequence[Loads]) -> Sequence[str]:
    """Return the cells from members to rate."""
    one = loads[0]
    idle = max(of_outcome.idle_count for of_outcome in loads)
    members = f"{one.member_count}, {idle} idle" if idle else str(one.member_count)
    fewest, most = min(of_outcome.fewest for of_outcome in loads), max(of_outcome.most for of_outcome in loads)
    ratios = ([getattr(each, name) for each in loads] for name in ("imbalance", "lag_imbalance", "throughput_imbalance"))
    return (members, _from_to(fewest, most), *map(_ratio, ratios))


def _curve_cell(answer: Answer) -> str:
    if answer.played is None:
        return UNKNOWN
    fewest, most = min(loads.fewest for loads in answer.loads), max(loads.most for loads in answer.loads)
    idle = max(loads.idle_count for loads in answer.loads)
    return f"{_from_to(fewest, most)}, {_span(answer.tried_movements)} move{f', {idle} idle' if idle else ''}"


def _ratio(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return _from_to(*(f"{value:.2f}" for value in (min(known), max(known)))) if len(known) == len(values) else UNKNOWN


def _span(span: Span[int]) -> str:
    return _from_to(span.low, span.high)


def _from_to(low: object, high: object) -> str:
    return f"{low}" if low == high else f"{low}-{high}"
