"""The first screen of the report: what needs someone now, four totals, and how old the data is."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from itertools import takewhile

from assignors.generation.generation import SERVER_SIDE
from jobs.findings import COMMIT_RULES, LOAD_RULES, SETTLED_RULES, STUCK_RULES
from jobs.findings.looks import SEEN_AT
from jobs.pages.figures import Figure, count, from_ms, moment, noun, words
from jobs.pages.needs import BETTER_ASSIGNOR, RECURRENT, could_be, longest_calm_ms, stored_need
from jobs.report.anchors import anchor
from jobs.report.groups import newest_generations
from jobs.report.need_lines import FirstScreen, NeedLine, PastLine, Since, holds_since
from jobs.report.ranking import GroupKey, group_key
from jobs.report.rows import ReportRows, Row
from jobs.report.strategies import sum_of
from schemas.vocabulary import SERVER_STRATEGIES_BY_NAME, Basis, Rule, Severity

MOST_LINES = 7
"""How many lines the first screen has at most: more are a list, not a message."""

NO_GROUP = "No group has landed. Look at the counts of what was skipped, and at the table quarantine."
"""What is said where nothing needs anybody because there is nothing."""

_BY_LATER_FACTS = {str(one.rule_id) for one in (*COMMIT_RULES, *STUCK_RULES)} - {str(Rule.NOT_RECONCILED)}
"""Rules on what came after a generation: its time does not say since when they hold. Only ``not_reconciled`` waits from that time on."""

_IF_SETTLED = {str(one.rule_id) for one in (*SETTLED_RULES, *LOAD_RULES)}

_BROKERS_NAMES = {stored: name for name, stored in SERVER_STRATEGIES_BY_NAME.items()}
_UNITS = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))


def build_first_screen(rows: ReportRows, as_of: datetime, listed: Container[GroupKey]) -> FirstScreen:
    """Return what the report shows first.

    Args:
        rows: the collected rows, with printable texts.
        as_of: the time of the run that writes the page.
        listed: the groups with findings that have a line.
    """
    ranked = rows.ranked
    need_count = sum(rule is not None for (rule,) in ranked.values("need_rule"))
    lines = [row for row in ranked[:MOST_LINES] if row["need_rule"] is not None]
    found: dict[GroupKey, list[Row]] = {}
    for finding in rows.findings:
        found.setdefault(group_key(finding), []).append(finding)
    detailed = {group_key(row): row for row in rows.detailed}
    histories = _histories(rows, {group_key(row) for row in lines})
    needs = [
        _need_line(row, detailed.get(group_key(row), row), found.get(group_key(row), []), histories.get(group_key(row), []))
        for row in lines
    ]
    counted = ranked.values("need_rule", "critical_count", "warning_count")
    past = _past(rows, listed, {group_key(row) for row in lines})
    until_s = max([*rows.newest_ms.values(), *(at_ms for (at_ms,) in ranked.values("last_at_ms"))], default=0) // 1000
    return FirstScreen(
        needs=tuple(_with_advice_once(needs)),
        need_count=need_count,
        past=past[: MOST_LINES - len(needs)],
        past_count=sum(rule is None and critical + warning > 0 for rule, critical, warning in counted),
        totals=_totals(rows),
        all_empty=_all_empty(rows),
        data_until=moment(from_ms(1000 * until_s)) if until_s else "",
        data_until_s=until_s,
        age=age_words(int(as_of.timestamp()) - until_s),
    )


def _with_advice_once(lines: Iterable[NeedLine]) -> Iterator[NeedLine]:
    """Yield the lines; those that advise what an earlier line does name its group."""
    advised: dict[str, str] = {}
    for line in lines:
        above = advised.setdefault(line.advice, line.group_id) if line.advice else line.group_id
        yield line if above == line.group_id else replace(line, advised_above=above)


def age_words(seconds: int) -> str:
    """Return an age in its largest unit; a clock that is behind gives 0.

    >>> age_words(725), age_words(60), age_words(7_199), age_words(400_000), age_words(-5)
    ('12 minutes', '1 minute', '1 hour', '4 days', '0 seconds')
    """
    seconds = max(0, seconds)
    size, unit = next((one for one in _UNITS if seconds >= one[0]), _UNITS[-1])
    number = seconds // size
    return f"{number:,} {unit}{'' if number == 1 else 's'}"


def _histories(rows: ReportRows, groups: set[GroupKey]) -> Mapping[GroupKey, list[Row]]:
    """Return the newest generations of these groups, newest first, with none left out between them."""
    tallies: dict[GroupKey, list[Row]] = {}
    for row in rows.tallies:
        if group_key(row) in groups:
            tallies.setdefault(group_key(row), []).append(row)
    return {key: newest_generations(of_group)[::-1] for key, of_group in tallies.items()}


def _need_line(row: Row, details: Row, findings: list[Row], history: list[Row]) -> NeedLine:
    need = stored_need(row)
    assert need is not None, "only groups with a need have a line"
    if need.rule == BETTER_ASSIGNOR:
        what, advice = _better_assignor(details)
        settled_at = details.get("settled_at_ms")
        since = None if settled_at is None else Since(settled_at, is_exact=False)
    else:
        of_rule = [finding for finding in findings if finding["rule_id"] == need.rule]
        newest = next((one for one in of_rule if one["is_current"] and one["severity"] == need.severity), None)
        what = "" if newest is None else newest["message"] or ""
        advice = "" if newest is None else newest["advice"] or ""
        since = None if newest is None else _since(newest, of_rule, history)
    return NeedLine(
        severity=need.severity,
        rule=words(need.rule),
        cluster_id=row["cluster_id"],
        group_id=row["group_id"],
        anchor=anchor(*group_key(row)),
        what=what,
        since="" if since is None else f"{'' if since.is_exact else 'at least '}since {moment(from_ms(since.at_ms))[:-3]}",
        advice=advice,
        other_count=max(0, row["current_critical_count"] + row["current_warning_count"] - 1),
    )


def _since(newest: Row, of_rule: Sequence[Row], history: list[Row]) -> Since | None:
    """Return since when a rule holds; None if its finding does not say that, and the time of the generation does not either.

    A generation that the rule does not judge, since a partition is withheld, does not end what holds before and after it. After a
    generation without a record it is not known whether the rule held there.

    Args:
        newest: the finding of the rule in the newest generation.
        of_rule: all findings of the rule in the group; positions of old ones may be left out.
        history: see ``_histories``.
    """
    evidence = newest["evidence"] or {}
    if SEEN_AT in evidence:  # the partitions may have been there before somebody looked
        return Since(_ms_of(evidence[SEEN_AT]), is_exact=False)
    if newest["rule_id"] in _BY_LATER_FACTS:
        return Since(_ms_of(evidence["since"]), is_exact=True) if "since" in evidence else None
    cut = [min(one["positions"]) for one in of_rule if one["finding_count"] > len(one["positions"])]
    is_judged_always = newest["rule_id"] not in _IF_SETTLED
    judged = [one for one in history if is_judged_always or one["is_settled"] is not False]
    known = [one for one in judged if one["position"] >= max(cut, default=0)]  # before, it may hold too
    found = {position for one in of_rule for position in one["positions"]}
    if newest["rule_id"] in RECURRENT:
        cycle_s = int(evidence["cycle_seconds"]) if "cycle_seconds" in evidence else None
        known = _joined(known, found, longest_calm_ms(cycle_s))
    since = holds_since(found, [(one["position"], one["observed_at_ms"]) for one in known])
    if since is None:
        return Since(newest["observed_at_ms"], is_exact=False)
    *_, first = takewhile(lambda one: one["position"] in found, known)
    return replace(since, is_exact=since.is_exact and (first["generation_gap"] or 0) <= 0)  # -1 where a generation is repeated


def _joined(history: Sequence[Row], found: Container[int], calm_ms: int) -> list[Row]:
    """Return a history without the generations between two in which a rule found what recurs, if these are at most ``calm_ms`` apart."""
    joined: list[Row] = []
    if not history or history[0]["position"] not in found:
        return [*history]
    rest_from = 0
    for number, one in enumerate(history):
        if one["position"] not in found:
            continue
        if joined and joined[-1]["observed_at_ms"] - one["observed_at_ms"] > calm_ms:
            break
        joined.append(one)
        rest_from = number + 1
    return [*joined, *history[rest_from:]]


def _ms_of(text: str) -> int:
    """Return a time of a finding's evidence as Unix milliseconds."""
    return int(datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc).timestamp()) * 1000


def _better_assignor(row: Row) -> tuple[str, str]:
    """Return what another assignor would give, and how to get it."""
    imbalance, best = row["imbalance_ratio"], could_be(row["imbalance_ratio"], row["better_gain"])
    strategy = row.get("better_strategy")
    what = f"the busiest member has {imbalance:.2f} times the mean load; {strategy or 'another assignor'} would give {best:.2f}"
    if strategy is None:
        return what, "See the verdict in the group's details."
    if strategy in SERVER_SIDE:
        return what, f"Set group.remote.assignor={_BROKERS_NAMES.get(strategy, strategy)} in all members."
    return what, f"Change partition.assignment.strategy to {strategy}. evenkeel what-if rehearses it."


def _past(rows: ReportRows, listed: Container[GroupKey], needing: Container[GroupKey]) -> tuple[PastLine, ...]:
    """Return for each group that needs nobody its worst finding that no longer holds.

    Groups that were not deleted come first, then the most severe finding, then the newest.
    """
    worst: dict[GroupKey, Row] = {}
    for row in rows.findings:
        key = group_key(row)
        if not row["is_current"] and row["severity"] != Severity.INFO and key in listed and key not in needing:
            if key not in worst or _urgency(row) > _urgency(worst[key]):
                worst[key] = row
    columns = rows.ranked.values("cluster_id", "group_id", "deleted_at_ms")
    deleted = {(cluster_id, group_id) for cluster_id, group_id, at_ms in columns if at_ms is not None}
    newest_first = sorted(worst.values(), key=lambda row: (row["group_id"], row["cluster_id"]))
    newest_first.sort(key=lambda row: (group_key(row) not in deleted, *_urgency(row)), reverse=True)
    return tuple(
        PastLine(
            severity=row["severity"],
            rule=words(row["rule_id"]),
            cluster_id=row["cluster_id"],
            group_id=row["group_id"],
            anchor=anchor(*group_key(row)),
            last_at=moment(from_ms(row["observed_at_ms"]))[:-3],
        )
        for row in newest_first
    )


def _urgency(row: Row) -> tuple[int, int, str]:
    return (Severity(row["severity"]).rank, row["observed_at_ms"], row["rule_id"])


def _totals(rows: ReportRows) -> tuple[tuple[Figure, str], ...]:
    observed = [row for row in rows.tallies if row["basis"] == Basis.OBSERVED]
    groups, generations = len(rows.ranked), sum(row["generation_count"] for row in observed)
    in_groups = [number for (number,) in rows.ranked.values("member_count") if number]
    members, alive = sum(in_groups), len(in_groups)
    where = f" in {alive:,} {'group' if alive == 1 else 'groups'}" if 0 < alive < groups else ""
    deleted = sum(at_ms is not None for (at_ms,) in rows.ranked.values("deleted_at_ms"))
    gone = "" if not deleted else ", deleted" if groups == 1 else f", {deleted:,} of them deleted"
    avoidable = sum_of(observed, "avoidable_movement_count").figure("no generation whose predecessor is known")
    return (
        (count(groups), ("group" if groups == 1 else "groups") + gone),
        (count(members), f"{'member' if members == 1 else 'members'}{where} when last seen"),
        (count(generations), "generation seen" if generations == 1 else "generations seen"),
        (Figure(avoidable.text, avoidable.note, avoidable.value), f"{noun(avoidable, 'partition')} moved without need"),
    )


def _all_empty(rows: ReportRows) -> str:
    with_generations = [members for members, generations in rows.ranked.values("member_count", "generation_count") if generations]
    if not with_generations or any(with_generations):
        return ""
    number = len(with_generations)
    if number == 1:
        return "The only group was empty when last seen. Its figures are of its last generation with members."
    return f"All {number:,} groups were empty when last seen. Figures are of their last generation with members."
