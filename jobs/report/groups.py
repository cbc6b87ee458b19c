"""The details of the worst groups: their history, their last assignment, their owner changes and findings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from jobs.pages.figures import (
    EN_DASH,
    Figure,
    Total,
    condense,
    count,
    counted,
    from_ms,
    moment,
    movement_words,
    ratio,
    words,
)
from jobs.pages.generation_words import special, what_changed
from jobs.pages.member_names import name_members
from jobs.pages.needs import gain_words, severest_first
from jobs.report.anchors import anchor, generation_anchor
from jobs.report.exchange import draw_exchange
from jobs.report.heat_map import lay_out
from jobs.report.lag_lines import lag_lines, total_lag
from jobs.report.measures import OF_GENERATION, ONLY_UNBROKEN, WHY
from jobs.report.ranking import GroupKey, group_key
from jobs.report.rows import SETTLED_COLUMNS, ReportRows, Row
from jobs.report.strategies import GROUP_COLUMNS, compare
from jobs.report.timeline import KINDS, course, draw, moved, with_changes
from jobs.report.view import CauseLine, FindingView, Flow, GenerationLine, GroupLine, GroupView
from schemas.vocabulary import Basis, Severity

_CHANGES = ("revoked_count", "reassigned_count", "gained_count", "lost_count", "orphaned_count")
"""Audit columns that together count the partitions that changed owner; those handed over are gained ones."""

_WEIGHTS = ("lag_imbalance_ratio", "throughput_imbalance_ratio", "rack_match_ratio")
"""Further columns of the last settled generation that the head of a group's details shows."""

MOST_DRAWN = 3
"""Generations of a group whose movements are drawn: the newest in which something moved."""

_NOT_COMPARED = "nothing to compare: a first known generation, or one without members"
AT_MOST = "\N{LESS-THAN OR EQUAL TO}"


def finding_views(findings: Iterable[Row], ranks: Mapping[GroupKey, int]) -> tuple[FindingView, ...]:
    """Return all findings: the worst severity first, then those that hold now, then by rank of the group, symptoms last.

    Args:
        ranks: of the groups of these findings that have a rank.
    """
    ordered = sorted(
        findings,
        key=lambda row: (
            -Severity(row["severity"]).rank,
            not row["is_current"],
            ranks.get(group_key(row), math.inf),
            row["group_id"],
            row["cluster_id"],
            severest_first(row["severity"], row["rule_id"]),
        ),
    )
    return tuple(
        FindingView(
            anchor=f"finding-{number}",
            severity=row["severity"],
            rule=words(row["rule_id"]),
            cluster_id=row["cluster_id"],
            group_id=row["group_id"],
            group_anchor=anchor(*group_key(row)),
            is_listed=group_key(row) in ranks,
            times=count(row["finding_count"]),
            generations=_span(row["first_generation"], row["last_generation"]),
            last_at=moment(from_ms(row["observed_at_ms"])),
            is_current=row["is_current"],
            message=row["message"] or EN_DASH,
            evidence=tuple(sorted((row["evidence"] or {}).items())),
            advice=row["advice"] or "",
        )
        for number, row in enumerate(ordered, 1)
    )


def add_settled(groups: Iterable[Row], tallies: Iterable[Row]) -> list[Row]:
    """Return the rows of groups with the further columns of ``ReportRows.detailed``.

    Args:
        tallies: of these groups, the observed ones with ``settled`` as ``jobs.report.queries.tally_groups`` returns it.
    """
    newest: dict[GroupKey, Row] = {}
    for tally in tallies:
        settled, key = tally["settled"], group_key(tally)
        if settled is not None and (key not in newest or settled["position"] > newest[key]["position"]):
            newest[key] = settled
    columns = {"settled_generation": "generation", "settled_at_ms": "at_ms", **{name: name for name in SETTLED_COLUMNS}}
    return [{**row, **{name: newest.get(group_key(row), {}).get(column) for name, column in columns.items()}} for row in groups]


def group_views(rows: ReportRows, lines: Iterable[GroupLine], findings: Iterable[FindingView]) -> tuple[GroupView, ...]:
    """Return the groups of ``rows.detailed`` with everything that sections show, in the order of ``lines``, the lines of these groups."""
    detailed = {group_key(row): row for row in rows.detailed}
    tallies, holdings, flows, members, lags = (
        _by_group(part) for part in (rows.tallies, rows.holdings, rows.flows, rows.members, rows.lags)
    )
    changes = _by_group(rows.changes)
    found: dict[GroupKey, list[FindingView]] = {}
    for finding in findings:
        found.setdefault((finding.cluster_id, finding.group_id), []).append(finding)
    return tuple(
        _group_view(
            detailed[key],
            line,
            tallies.get(key, []),
            holdings.get(key, []),
            flows.get(key, []),
            _member_names(holdings.get(key, []), flows.get(key, []), lags.get(key, []), members.get(key, [])),
            lags.get(key, []),
            changes.get(key, []),
            tuple(sorted(found.get(key, ()), key=lambda finding: not finding.is_current)),
        )
        for line in lines
        for key in [(line.cluster_id, line.group_id)]
    )


def _group_view(
    row: Row,
    line: GroupLine,
    tallies: Sequence[Row],
    holdings: Sequence[Row],
    flows: Sequence[Row],
    names: Mapping[str, str],
    lags: Sequence[Row],
    changes: Sequence[Row],
    findings: tuple[FindingView, ...],
) -> GroupView:
    generations = with_changes(newest_generations(tallies), changes)
    smallest, largest = row["partitions_per_member_min"], row["partitions_per_member_max"]
    return GroupView(
        line=line,
        loads=EN_DASH if largest is None else f"{largest:,}" if smallest == largest else f"{smallest:,} to {largest:,}",
        weights={name: ratio(row[name], WHY[name]) for name in _WEIGHTS},
        verdict=_verdict(row),
        first_at=moment(from_ms(row["first_at_ms"])),
        settled=_settled(row),
        timeline=draw(generations),
        causes=_cause_lines(generations),
        lines=_generation_lines(line.anchor, generations, flows, names),
        cuts=_cuts(len(generations), row["generation_count"], flows),
        heat=lay_out(holdings, row["partitions_per_member_mean"], names),
        strategies=compare(tallies, GROUP_COLUMNS, own=row["strategy"]),
        findings=findings,
        lag_now=total_lag(lags),
        lag_now_at=moment(from_ms(lags[0]["newest_at_ms"])) if lags else EN_DASH,
        lag_partitions=count(lags[0]["partition_total"] if lags else 0),
        lag_partitions_shown=len({(row["topic"], row["partition"]) for row in lags}),
        lags=lag_lines(lags, names),
    )


def _member_names(holdings: Sequence[Row], flows: Sequence[Row], lags: Sequence[Row], members: Sequence[Row]) -> dict[str, str]:
    """Return the names of all members of a group that its details show."""
    ids = {row["member_id"] for row in (*holdings, *lags)} | {flow[name] for flow in flows for name in ("previous_member_id", "member_id")}
    return name_members(ids - {None}, [*holdings, *members])


def newest_generations(tallies: Sequence[Row]) -> list[Row]:
    """Return the newest generations in the order of their position.

    Each tally has its own newest generations. If one tally had to leave some out, older generations of the others would appear without
    those between them. So all generations before its oldest kept one are left out.
    """
    observed = [row for row in tallies if row["basis"] == Basis.OBSERVED]
    oldest_kept = [row["generations"][-1]["position"] for row in observed if len(row["generations"]) < row["generation_count"]]
    complete_from = max(oldest_kept, default=0)
    kept = (generation for row in observed for generation in row["generations"] if generation["position"] >= complete_from)
    return sorted(kept, key=lambda generation: generation["position"])


def _settled(row: Row) -> str:
    if row["settled_generation"] is None:
        return EN_DASH
    return f"generation {row['settled_generation']}, {moment(from_ms(row['settled_at_ms']))}"


def _verdict(row: Row) -> Figure:
    if row["verdict"] is None:
        return Figure(EN_DASH, "no verdict: no settled generation, subscriptions not known, or no assignor to compare with")
    better = f" ({row['better_strategy']}{gain_words(row['imbalance_ratio'], row['better_gain'])})" if row["better_strategy"] else ""
    return Figure(words(row["verdict"]) + better)


def _cause_lines(generations: Sequence[Row]) -> tuple[CauseLine, ...]:
    """Return the figures of each cause, the most frequent first. Causes of one generation are one line, so each generation counts once."""
    grouped: dict[str | None, list[Row]] = {}
    for row in generations:
        grouped.setdefault(what_changed(row), []).append(row)

    def total(rows: Sequence[Row], measure: str) -> Figure:
        known = [row[measure] for row in rows if row[measure] is not None and not (measure in ONLY_UNBROKEN and row["generation_gap"])]
        return Total(sum(known), len(known), len(rows)).figure(WHY[measure])

    ordered = sorted(grouped.items(), key=lambda item: (item[0] is None, -len(item[1]), item[0] or ""))
    return tuple(
        CauseLine(
            cause=_change(change),
            generations=count(len(rows)),
            movements=total(rows, "movement_count"),
            avoidable=total(rows, "avoidable_movement_count"),
            revocations=total(rows, "actual_revocation_count"),
        )
        for change, rows in ordered
    )


def _change(text: str | None) -> Figure:
    return Figure(EN_DASH, "its predecessor is not known") if text is None else Figure(text)


def _generation_lines(
    group_anchor: str, generations: Sequence[Row], flows: Sequence[Row], names: Mapping[str, str]
) -> tuple[GenerationLine, ...]:
    """Return the generations, newest first, with their owner changes."""
    by_position: dict[int, list[Row]] = {}
    for flow in flows:
        by_position.setdefault(flow["position"], []).append(flow)
    drawn = sorted(by_position, reverse=True)[:MOST_DRAWN]
    return tuple(
        _generation_line(
            generation_anchor(group_anchor, row["position"]),
            row,
            by_position.get(row["position"], []),
            names,
            row["position"] in drawn,
        )
        for row in reversed(generations)
    )


def _generation_line(own_anchor: str, row: Row, flows: Sequence[Row], names: Mapping[str, str], is_drawn: bool) -> GenerationLine:
    ordered = sorted(flows, key=_flow_order)
    return GenerationLine(
        anchor=own_anchor,
        name=str(row["generation"]),
        at=moment(from_ms(row["observed_at_ms"])),
        special=special(row) or ("" if row["is_settled"] in (None, True) else "not settled"),
        start="" if row["previous_generation"] is not None else "first known",
        gap=row["generation_gap"] if (row["generation_gap"] or 0) > 0 else 0,
        course=course(row),
        triggers=_change(what_changed(row)),
        figures={column: write(row[column], why) for column, (write, why) in OF_GENERATION.items()} | _bounded(row),
        parts=_parts(row),
        conformance=Figure(EN_DASH, _NOT_COMPARED) if row["conformance"] is None else Figure(words(row["conformance"])),
        mark=row["conformance"] or "none",
        flows=tuple(_flow(flow, names) for flow in ordered),
        exchange=draw_exchange(ordered, names, sum(row[name] or 0 for name in _CHANGES)) if is_drawn else None,
    )


def _bounded(row: Row) -> dict[str, Figure]:
    """Return the figure of avoidable movements where it is not known after a gap, as in sums, or only an upper bound is known."""
    avoidable = row["avoidable_movement_count"]
    if avoidable is not None and (row["generation_gap"] or 0) > 0:
        return {"avoidable_movement_count": Figure(EN_DASH, "generations before it are not known")}
    if not row["is_lower_bound"] or avoidable is None:
        return {}
    return {"avoidable_movement_count": Figure(f"{AT_MOST} {avoidable:,}", "subscriptions differ too much for an exact number", avoidable)}


def _parts(row: Row) -> str:
    """Return the owner changes by kind, as text; partitions handed over are counted once, though they are also gained."""
    movements = moved(row)
    if movements is None:
        return "movements are not known"
    withheld = row["withheld_count"] or 0
    others = {"gained": row["gained_count"] - movements["handed_over"], "withheld": withheld}
    others |= {"no_longer_owned": row["lost_count"] - withheld, "orphaned": row["orphaned_count"]}
    return ", ".join(f"{number:,} {words(kind)}" for kind, number in (movements | others).items() if number)


def _flow_order(flow: Row) -> tuple[int | str, ...]:
    kind = flow["kind"]
    return (
        KINDS.index(kind) if kind in KINDS else len(KINDS),
        kind,
        flow["topic"],
        flow["previous_member_id"] or "",
        flow["member_id"] or "",
        flow["cause"] or "",
    )


def _flow(flow: Row, names: Mapping[str, str]) -> Flow:
    source, target = flow["previous_member_id"], flow["member_id"]
    left_out = flow["partition_count"] - len(set(flow["partitions"]))
    return Flow(
        source=source or "",
        source_short="nobody" if source is None else names[source],
        target=target or "",
        target_short="nobody" if target is None else names[target],
        topic=flow["topic"],
        partitions=condense(flow["partitions"]) + (f" and {left_out:,} more" if left_out > 0 else ""),
        partition_count=count(flow["partition_count"]),
        kind=movement_words(flow["kind"], None if flow["kind"] == "gained" else flow["cause"]),
        cause="" if flow["cause"] == "withheld" else words(flow["cause"] or ""),
        resume=_resume(flow),
    )


def _resume(flow: Row) -> Figure:
    """Return what the new owner still has to read: its messages, and the number of partitions whose offset is reset."""
    if flow["member_id"] is None:
        return Figure(EN_DASH, "there is no new owner")
    if not flow["resume_known"]:
        return Figure(EN_DASH, "no commit or metadata snapshot shows where it resumes")
    most = f"{AT_MOST} " if flow["lag_is_upper_bound"] else ""
    parts = [] if flow["lag"] is None else [f"{most}{counted(flow['lag'], 'message')}"]
    parts += [f"{flow['reset_count']:,} reset"] if flow["reset_count"] else []
    known, number = flow["resume_known"], flow["partition_count"]
    note = "" if known == number else f"known for {known:,} of {number:,} partitions"
    return Figure(", ".join(parts) or "lag not known", note, flow["lag"], known if note else None)


def _cuts(generations_shown: int, generation_count: int, flows: Sequence[Row]) -> tuple[str, ...]:
    """Return as text what the section leaves out; readers would take a page without it for complete."""
    shown = (
        (generations_shown, generation_count, "generations"),
        (len(flows), flows[0]["flow_total"] if flows else 0, "lines of owner changes"),
    )
    return tuple(f"the newest {number:,} of {total:,} {name} are shown" for number, total, name in shown if number < total)


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first} to {last}"


def _by_group(rows: Iterable[Row]) -> dict[GroupKey, list[Row]]:
    grouped: dict[GroupKey, list[Row]] = {}
    for row in rows:
        grouped.setdefault(group_key(row), []).append(row)
    return grouped
