"""The report from plain rows: what it says, and that row order does not matter."""

from __future__ import annotations

import itertools
import random
import re
from dataclasses import fields, replace
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from assignors.audit.triggers import Trigger
from jobs.pages.figures import Total, condense, short_names, visible
from jobs.pages.needs import BETTER_ASSIGNOR, CALM_CYCLES, CALM_MS, HOLDS_WITHOUT_GROUP, worst_first
from jobs.report.anchors import anchor
from jobs.report.exchange import MOST_OWNERS, draw_exchange
from jobs.report.fleet import MOST_ASSIGNORS
from jobs.report.heat_map import lay_out
from jobs.report.page import build_page, render
from jobs.report.ranking import Ranking
from jobs.report.rows import ReportRows
from jobs.report.strategies import FLEET_COLUMNS, GROUP_COLUMNS, compare
from jobs.report.summary import facts_of
from jobs.report.timeline import CAUSE_MARKS, course, describe, draw, with_changes
from schemas.vocabulary import Rule
from tests.builders.report_rows import (
    AS_OF,
    MEMBER,
    OTHER,
    SUMMARY,
    finding_row,
    flow_row,
    generation_row,
    group_row,
    holding_row,
    of_groups,
    sample,
    tally_row,
)

DASH = "\N{EN DASH}"


# --- the same rows, the same bytes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_row_order_does_not_matter(seed):
    rows, shuffle = sample(("a", "b", "c")), random.Random(seed).shuffle
    shuffled = {field.name: list(getattr(rows, field.name)) for field in fields(rows) if field.name not in ("predicted", "newest_ms")}
    for part in shuffled.values():
        shuffle(part)
    shuffled["ranked"] = Ranking(shuffled["ranked"])
    expected, found = (
        build_page(rows, AS_OF, SUMMARY),
        build_page(ReportRows(**shuffled, predicted=rows.predicted), AS_OF, dict(reversed(SUMMARY.items()))),
    )
    assert render(found).html == render(expected).html
    assert facts_of(found) == facts_of(expected)


# --- the ranking -------------------------------------------------------------------------------------------------------


def test_first_is_what_needs_someone_then_past_criticals_warnings_avoidable_movements_name():
    ranked = [
        group_row("k", need_severity="critical", need_rule="partitions_left_out", current_critical_count=1, critical_count=1),
        group_row("t", need_severity="warning", need_rule="member_stalled", current_warning_count=1, warning_count=1),
        group_row("l", need_severity="warning", need_rule="restart_loop", current_warning_count=2, warning_count=2),
        group_row("m", need_severity="warning", need_rule="restart_loop", current_warning_count=1, warning_count=9),
        group_row("n", need_severity="info", need_rule=BETTER_ASSIGNOR, better_gain=0.5),
        group_row("o", need_severity="info", need_rule=BETTER_ASSIGNOR, better_gain=0.2, avoidable_movement_count=9),
        group_row("z", critical_count=1, better_gain=0.9),
        group_row("y", warning_count=2, movement_count=0),
        group_row("x", warning_count=1, avoidable_movement_count=9, movement_count=9),
        group_row("w", avoidable_movement_count=1, movement_count=1),
        group_row("v", avoidable_movement_count=0, movement_count=8),
        group_row("u", avoidable_movement_count=None, movement_count=7, info_count=5),
        group_row("a", movement_count=None),
        group_row("b", movement_count=0),
        group_row("c", movement_count=0, cluster_id="a-cluster"),
        group_row("c", movement_count=0),
    ]
    shuffled = random.Random(3).sample(ranked, len(ranked))
    assert sorted(shuffled, key=worst_first) == ranked
    assert list(Ranking(shuffled)) == Ranking(shuffled)[:] == ranked


def test_a_groups_link_holds_from_report_to_report():
    before, after = build_page(sample(("a", "b")), AS_OF), build_page(sample(("b", "c", "a")), AS_OF)
    (was,), (now,) = ([group.anchor for group in page.groups if group.group_id == "a"] for page in (before, after))
    assert was == now
    assert anchor("ab", "c") != anchor("a", "bc")


# --- the fleet ---------------------------------------------------------------------------------------------------------


def test_conformance_is_counted_once_a_generation_by_assignor_and_leader():
    rows = [
        tally_row("sticky", "observed", conformance="differs", leader_client=None),
        tally_row("range", "observed", conformance="exact", generation_count=6),
        tally_row("range", "observed", conformance=None, generation_count=2),
        tally_row("range", "recomputed", conformance="exact"),
        tally_row("", "observed", conformance=None),
    ]
    lines = build_page(ReportRows(tallies=rows), AS_OF).conformance
    assert [(line.strategy, line.leader_client.text, line.total) for line in lines] == [("range", "java", 8), ("sticky", DASH, 3)]
    assert [(it.name, it.figure.text, it.share) for it in lines[0].counts if it.figure.value] == [("exact", "6", 75.0), ("none", "2", 25.0)]


def test_assignors_that_hardly_anybody_uses_share_a_line():
    rows = [tally_row(f"own-{number:03}", "observed", conformance="differs", generation_count=1 + (number < 50)) for number in range(70)]
    lines = build_page(ReportRows(tallies=rows), AS_OF).conformance
    assert len(lines) == MOST_ASSIGNORS + 1
    assert [(line.strategy, line.total, line.leader_client.text) for line in lines if line.total != 2] == [("20 others", 20, DASH)]
    assert {line.strategy for line in lines} >= {"own-000", "own-049"}


def test_statuses_are_those_of_computed_rows():
    rows = [tally_row("range", "observed"), tally_row("range", "recomputed"), tally_row("sticky", status="no_result"), tally_row("sticky")]
    lines = build_page(ReportRows(tallies=rows), AS_OF).statuses
    assert [(line.basis, line.strategy, [it.name for it in line.counts if it.figure.value]) for line in lines] == [
        ("recomputed", "range", ["solved"]),
        ("counterfactual", "sticky", ["solved", "no result"]),
    ]


def test_imbalance_classes_count_all_groups_and_those_that_cannot_be_better():
    within, apart = ({"partitions_per_member_min": 1, "partitions_per_member_max": largest} for largest in (2, 3))
    unknown = {"imbalance_ratio": None, "partitions_per_member_min": None, "partitions_per_member_max": None}
    groups = [(8, {**within, "imbalance_ratio": 1.0}), (1, {**within, "imbalance_ratio": 1.26}), (3, {**apart, "imbalance_ratio": 1.5})]
    rows = [group_row(f"{number} {index}", **changes) for number, changes in [*groups, (2, unknown)] for index in range(number)]
    bars = build_page(ReportRows(ranked=Ranking(rows)), AS_OF).imbalance
    assert [(bar.name, bar.figure.text, bar.share) for bar in bars if bar.figure.value] == [
        ("1.00", "8", 100),
        ("to 1.50", "4", 50),
        (DASH, "2", 25),
    ]
    assert [bar.note for bar in bars[:-1] if bar.note] == ["1 within one partition"]


# --- unknown is never zero ---------------------------------------------------------------------------------------------


def test_total_shows_unknown_partial_and_complete_sums_differently():
    assert Total(0, 0, 3).figure("no claims").text == DASH
    assert Total(0, 0, 3).figure("no claims").note == "no claims"
    assert (Total(0, 3, 3).figure("").text, Total(0, 3, 3).figure("").note) == ("0", "")
    assert (Total(1200, 2, 3) + Total(34, 1, 1)).figure("").note == "known for 3 of 4 generations"
    assert (Total(1200, 2, 3) + Total(34, 1, 1)).figure("").text == "1,234"


def test_unknown_figures_are_dashes_that_say_why():
    unknown = {"movement_count": None, "imbalance_ratio": None, "strategy": None, "settled_generation": None}
    rows = replace(sample(("a",)), **of_groups(group_row("a", **unknown, partitions_per_member_min=None, partitions_per_member_max=None)))
    html = render(build_page(rows, AS_OF)).html
    line = html[html.index("<tbody>", html.index('<table id="group-table"')) :].split("</tbody>")[0]
    assert re.findall(r"<td>(.*?)</td>", line).count(DASH) == 4  # imbalance, could be, avoidable, movements
    facts = html[html.index('<section id="group-') :].split("</dl>")[0]
    dashes = re.findall(f"<dd>(.*?{DASH}.*?)</dd>", facts)
    assert len(dashes) == 7  # strategy, partitions a member, imbalance by count, lag and throughput, rack match, verdict
    assert all(re.fullmatch(f'<abbr class="unknown" title="[^"]+">{DASH}</abbr>', cell) for cell in dashes)
    assert 'title="no settled generation with members"' in dashes[0]


def test_strategy_of_a_group_with_loads_is_a_dash_if_no_source_names_it():
    html = render(build_page(ReportRows(**of_groups(group_row(strategy=""))), AS_OF)).html
    assert f'<dt>strategy</dt><dd><abbr class="unknown" title="no source names the assignor">{DASH}</abbr></dd>' in html


def test_a_groups_sum_over_a_part_of_its_generations_says_over_how_many_in_sight():
    """Not in a tooltip, which neither a keyboard nor a finger can reach; as content of the style, the cell's text stays a number."""
    changes = {"generation_count": 1_500, "movement_count": 7_000, "avoidable_movement_count": 0, "avoidable_movement_count_known": 1_200}
    page = build_page(ReportRows(ranked=Ranking([group_row("partly", **changes), group_row("whole", avoidable_movement_count=2)])), AS_OF)
    html = render(page).html
    partly, whole = (re.search(f"<tr[^>]*><td>.</td><th[^>]*>{name}.*?</tr>", html)[0] for name in ("partly", "whole"))
    assert '<td data-known="1,200">0</td><td>7,000</td>' in partly
    assert "<td>2</td><td>3</td>" in whole
    assert re.search(r'td\[data-known\]::after \{ content: "in " attr\(data-known\);', html)
    assert page.groups[1].avoidable.note == "known for 1,200 of 1,500 generations"


def test_reason_of_every_unknown_figure_is_printed_below_its_table():
    """A keyboard, a finger and paper show no titles: every reason stands below its table too, with the columns that it is of."""
    history = [
        generation_row(3, 2, conformance=None, avoidable_movement_count=3, is_lower_bound=True),
        generation_row(2, 1, triggers=None),
        generation_row(1, None, movement_count=None, eager_revocation_count=None),
    ]
    tallies = [tally_row("range", "observed", leader_client=None, movement_count_known=2, generations=history), tally_row("sticky")]
    flows = [flow_row(resume_known=2, lag=7), flow_row(member_id=None, kind="lost", cause="withheld")]
    html = render(build_page(replace(sample(("orders",)), tallies=tallies, flows=flows), AS_OF)).html
    parts = re.findall(r'<section id="(?:fleet|group-).*?</section>', html, re.DOTALL)
    seen = []
    for part in parts:
        notes = " ".join(re.findall('<p class="note">(.*?)</p>', part, re.DOTALL))
        for tag, text in re.findall(r'<(td|th)[^>]*><abbr[^>]* title="([^"]+)"', part):
            assert text in notes or re.search(rf'<{tag}[^>]* data-known="[^"]+"><abbr[^>]* title="{re.escape(text)}"', part), text
            seen.append(text)
    assert len(parts) == 2
    assert len(set(seen)) > 10
    fleet = next(part for part in parts if part.startswith('<section id="fleet"'))
    group = next(part for part in parts if part is not fleet)
    assert "movements, eager (its predecessor is not known)" in group
    assert "avoidable movements (subscriptions differ too much for an exact number)" in group
    assert "still to read (there is no new owner)" in group
    assert "leader (the leader&#39;s bytes do not show its client library)" in fleet


def test_avoidable_movements_after_a_gap_are_not_known_as_in_sums():
    history = [generation_row(5, 2, avoidable_movement_count=3, is_lower_bound=True), generation_row(2, 1, avoidable_movement_count=3)]
    rows = replace(sample(("orders",)), tallies=[tally_row("range", "observed", generations=history), tally_row("sticky")])
    after_gap, unbroken = (line.figures["avoidable_movement_count"] for line in build_page(rows, AS_OF).worst[0].lines)
    assert (after_gap.text, after_gap.note) == (DASH, "generations before it are not known")
    assert unbroken.text == "3"


def test_one_member_and_one_partition_are_no_plurals():
    assert "\n1 member, 1 partition\n" in describe(generation_row(3, 2, member_count=1, partition_count=1))


def test_a_generation_without_predecessor_shows_dashes_in_its_bars():
    columns = draw([generation_row(5, None, movement_count=None, eager_revocation_count=None)]).columns
    assert [bar.label for bar in columns[0].bars if bar.style == "unknown"] == [DASH, DASH]
    assert not [bar for bar in columns[0].bars if bar.style in ("revoked", "reassigned", "eager")]


# --- the history of a group --------------------------------------------------------------------------------------------


def test_timeline_marks_each_kind_of_snapshot():
    history = [
        generation_row(1, None),
        generation_row(2, 1),
        generation_row(3, 2, is_follow_up=True),
        generation_row(3, 3, triggers=["static_member_returned"]),
        generation_row(3, 3, triggers=["generation_rewritten"]),
        generation_row(7, 3, conformance="differs"),
        generation_row(8, 7, member_count=0, imbalance_ratio=None, conformance=None),
        generation_row(1, None),
    ]
    columns = draw(history).columns
    assert [column.tint for column in columns] == ["", "", "follow-up", "rewrite", "repeat", "", "empty", ""]
    assert [column.edge_label for column in columns] == ["start", "", "", "", "", "+3", "", "new life"]
    assert [column.mark for column in columns] == ["=", "=", "=", "=", "=", "\N{NOT EQUAL TO}", DASH, "="]
    assert draw(history).ratio_lines[0].count(",") == 6  # the line stops at the empty generation


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ""),  # a classic group
        ({"epoch_at_ms": 9_600, "reconciled_at_ms": 13_200}, "epoch > target +0.4 s > reconciled +3.2 s"),
        ({"epoch_at_ms": 9_600}, "epoch > target +0.4 s > not reconciled"),
        ({"epoch_at_ms": 10_000, "is_superseded": True}, "epoch > target +0.0 s > superseded by the next target"),
        ({"reconciled_at_ms": 10_000}, "epoch > target > reconciled +0.0 s"),  # a compacted log
        (
            {"epoch_at_ms": 10_000, "reconciled_at_ms": 10_100, "batched_epoch_count": 2},
            "epoch > target +0.0 s > reconciled +0.1 s (2 earlier epochs share the target)",
        ),
        ({"epoch_at_ms": 10_000, "member_count": 0}, ""),  # nobody is there, and no target
        ({"rebalance_ms": 3_240, "assignment_ms": 12}, "all members joined within 3.2 s; assigned within 12 ms"),
        ({"rebalance_ms": 0}, "all members joined within 0 ms"),
        ({"assignment_ms": 70, "changes": ("leader a > b",)}, "assigned within 70 ms; leader a > b"),
        (
            {"epoch_at_ms": 9_600, "reconciled_at_ms": 100_000, "reconciled_ms": 90_400},
            "epoch > target +0.4 s > reconciled +90.0 s; 1.5 min from the epoch to the last member",
        ),
    ],
)
def test_timeline_shows_how_a_generation_came_about_and_how_long_that_took(changes, expected):
    row = generation_row(3, 2, observed_at_ms=10_000, **changes)
    said = course(row).replace("\N{RIGHTWARDS ARROW}", ">")
    assert said == expected
    assert course(row) in draw([row]).columns[0].title


def test_stacked_movements_add_up_to_the_label_and_to_the_height():
    (column,) = draw([generation_row(2, 1, revoked_count=1, reassigned_count=2, handed_over_count=1, movement_count=4)]).columns
    stack = [bar for bar in column.bars if bar.style in ("revoked", "reassigned", "handed_over")]
    assert [bar.label for bar in stack] == ["", "", "4"]
    assert [stack[0].y, stack[1].y] == [pytest.approx(stack[1].y + stack[1].height), pytest.approx(stack[2].y + stack[2].height)]


def test_movement_lines_name_owners_ranges_and_causes():
    group = build_page(sample(("orders",)), AS_OF).worst[0]
    newest, before, first = group.lines
    assert [(line.name, len(line.flows)) for line in group.lines] == [("3", 2), ("2", 1), ("1", 0)]
    assert [flow.topic for flow in newest.flows] == ["alerts", "clicks"]
    assert (newest.flows[0].source_short, newest.flows[0].partitions) == ("orders-1", "0-1, 3")
    assert (before.flows[0].source_short, before.flows[0].kind, before.flows[0].cause) == ("nobody", "gained", "handed over")
    assert (newest.parts, first.parts, first.start) == ("1 revoked, 2 reassigned, 1 withheld", "movements are not known", "first known")


def test_partitions_handed_over_are_not_counted_as_gained_again_nor_withheld_ones_as_no_longer_owned():
    row = generation_row(
        2, 1, revoked_count=0, reassigned_count=0, handed_over_count=3, gained_count=5, lost_count=4, withheld_count=3, movement_count=3
    )
    page = build_page(ReportRows(**of_groups(group_row()), tallies=[tally_row("range", "observed", generations=[row])]), AS_OF)
    assert page.worst[0].lines[0].parts == "3 handed over, 2 gained, 3 withheld, 1 no longer owned"


def test_shortened_lists_say_what_is_left_out():
    rows = sample(("orders",))
    rows = replace(rows, **of_groups(group_row(generation_count=500)), flows=[flow_row(partition_count=600, flow_total=9)])
    rows = replace(rows, findings=[row | {"rule_group_count": 400} for row in rows.findings])
    page = build_page(rows, AS_OF)
    assert page.worst[0].cuts == ("the newest 3 of 500 generations are shown", "the newest 1 of 9 lines of owner changes are shown")
    assert page.worst[0].lines[0].flows[0].partitions == "0-1, 3 and 597 more"
    assert "The first 2 of 800 are listed;" in render(page).html


def test_tallies_cut_at_different_ages_show_only_what_is_complete():
    active = tally_row("range", "observed", generation_count=9, generations=[generation_row(number, number - 1) for number in (9, 7, 5)])
    empty = tally_row("", "observed", generation_count=2, generations=[generation_row(number, number - 1) for number in (8, 2)])
    page = build_page(ReportRows(**of_groups(group_row(generation_count=11)), tallies=[active, empty]), AS_OF)
    assert [line.name for line in page.worst[0].lines] == ["9", "8", "7", "5"]
    assert page.worst[0].cuts == ("the newest 4 of 11 generations are shown",)


def test_rules_are_counted_over_all_groups_shown_or_not():
    counted = {"rule_finding_count": 90, "rule_group_count": 30, "rule_current_count": 7}
    rows = [finding_row(**counted), finding_row("b", **counted)]
    rows.append(finding_row(rule_id="no_result", severity="critical", rule_finding_count=3, rule_group_count=1))
    page = build_page(ReportRows(findings=rows), AS_OF)
    assert [(line.rule, line.findings.text, line.groups.text, line.current.text) for line in page.rules] == [
        ("no result", "3", "1", "0"),
        ("conformance differs", "90", "30", "7"),
    ]
    assert [(it.name, it.figure.text) for it in page.severities] == [("critical", "3"), ("warning", "90"), ("info", "0")]
    assert (len(page.findings), page.finding_total) == (3, 31)


def test_findings_say_whether_they_hold_now_and_those_come_first():
    rows = sample(("orders",))
    rows = replace(
        rows,
        **of_groups(group_row(critical_count=4, warning_count=3, current_critical_count=1, current_warning_count=2, current_info_count=9)),
        findings=[
            finding_row(rule_id="partition_multiply_owned", severity="critical", finding_count=9),
            finding_row(rule_id="partitions_left_out", severity="critical", is_current=True),
            finding_row(rule_id="idle_members", is_current=True),
        ],
    )
    page = build_page(rows, AS_OF)
    assert [finding.rule for finding in page.findings] == ["partitions left out", "partition multiply owned", "idle members"]
    assert [finding.rule for finding in page.worst[0].findings] == ["partitions left out", "idle members", "partition multiply owned"]
    html = render(page).html
    for part in (html[html.index('<section id="group-') :].split("</section>")[0], html[html.index('<ol id="finding-list"') :]):
        shown = re.findall(r'</span> <b>(.*?)</b>.*?<span class="tag">(.*?)</span>', part)
        assert dict(shown) == {"partitions left out": "holds now", "idle members": "holds now", "partition multiply owned": "past"}


def test_explanation_of_holds_now_has_the_rules_that_it_is_not_so_simple_for():
    """A storm in the newest generation is past once it is calm, so the page must not call all of that generation's findings current."""
    assert (CALM_MS, CALM_CYCLES, HOLDS_WITHOUT_GROUP) == (600_000, 3, {Rule.COMMITS_EXPIRE})
    html = render(build_page(sample(("orders",)), AS_OF)).html
    (text,) = re.findall("<dt>Holds now, past</dt><dd>(.*?)</dd>", html)
    assert "nothing has happened for ten minutes, or for three of their cycles" in text and "<i>Commits expire</i>" in text


def test_the_heat_map_counts_and_keeps_members_without_partitions():
    rows = [
        holding_row("b", 0, None, None),
        holding_row("a", 12, "t", 9),
        holding_row("a", 12, "s", 3),
        holding_row("c", 1, "s", 1, group_instance_id="i"),
    ]
    heat = lay_out(rows, 13 / 3, {"a": "a", "b": "b", "c": "i"})
    assert heat.topics == ("s", "t")
    assert [(line.member_id, line.short, line.load, [cell.partition_count for cell in line.cells]) for line in heat.lines] == [
        ("a", "a", 12, [3, 9]),
        ("c", "i", 1, [1, 0]),
        ("b", "b", 0, [0, 0]),
    ]
    assert heat.totals == (4, 9)
    assert [cell.level for line in heat.lines for cell in line.cells] == [2, 6, 1, 0, 0, 0]
    assert heat.mean_share == 36.1
    assert lay_out([], 0.0, {}) is None


def test_the_mean_is_the_groups_also_where_only_extreme_loads_are_shown():
    rows = [holding_row("a", 10, "t", 10, member_total=100), holding_row("b", 0, None, None, member_total=100)]
    page = build_page(replace(sample(("orders",)), **of_groups(group_row(partitions_per_member_mean=9.0)), holdings=rows), AS_OF)
    assert page.worst[0].heat.mean_share == 90.0, "of 10, and not the mean of 10 and 0"


def test_small_numbers_are_not_painted_as_large_ones():
    heat = lay_out([holding_row("a", 2, "t", 2), holding_row("b", 1, "t", 1)], 1.5, {"a": "a", "b": "b"})
    assert [cell.level for line in heat.lines for cell in line.cells] == [2, 1]


# --- causes ------------------------------------------------------------------------------------------------------------


def test_every_cause_has_a_sign_of_its_own():
    assert set(CAUSE_MARKS) == set(Trigger)
    assert len(set(CAUSE_MARKS.values())) == len(CAUSE_MARKS)


def test_the_timeline_shows_the_causes_it_has_room_for_and_explains_them():
    many = ["member_joined", "member_left", "subscription_changed", "partitions_added", "rack_changed", "topic_deleted"]
    drawing = draw(
        [generation_row(1, None, triggers=None), generation_row(2, 1, triggers=["none_visible"]), generation_row(3, 2, triggers=many)]
    )
    assert [column.causes for column in drawing.columns] == [DASH, "?", "+\N{MINUS SIGN}SP\N{HORIZONTAL ELLIPSIS}"]
    assert {name for _, name in drawing.causes} == {"none visible", *(name.replace("_", " ") for name in many)}


def test_causes_are_counted_once_a_generation_with_what_they_cost():
    history = [
        generation_row(1, None, triggers=None, movement_count=None),
        generation_row(2, 1, triggers=["member_joined"], movement_count=4, avoidable_movement_count=1),
        generation_row(3, 2, triggers=["member_left", "topic_created"], movement_count=2, actual_revocation_count=5),
        generation_row(4, 3, triggers=["member_joined"], movement_count=1, avoidable_movement_count=None),
        generation_row(7, 4, triggers=["member_joined"], movement_count=1, avoidable_movement_count=1),
    ]
    page = build_page(ReportRows(**of_groups(group_row()), tallies=[tally_row("range", "observed", generations=history[::-1])]), AS_OF)
    shown = [(it.cause.text, it.generations.text, it.movements.text, it.avoidable.text, it.revocations.text) for it in page.worst[0].causes]
    assert shown == [
        ("member joined", "3", "6", "1", DASH),
        ("member left, topic created", "1", "2", DASH, "5"),
        (DASH, "1", DASH, DASH, DASH),
    ]
    assert page.worst[0].causes[0].avoidable.note == "known for 1 of 3 generations"


def test_causes_in_a_log_stand_with_what_changed_and_replace_no_visible_change():
    logged = ["joined", "session_expired", "poll_timeout"]
    history = [
        generation_row(1, None, triggers=None, logged_causes=["left"]),
        generation_row(2, 1, triggers=["member_joined", "member_left"], logged_causes=logged),
        generation_row(3, 2, triggers=["member_left"], logged_causes=[]),
        generation_row(4, 3, triggers=["none_visible"], logged_causes=["enforced"]),
        generation_row(5, 4, triggers=["none_visible"], logged_causes=["joined"]),
        generation_row(6, 5, triggers=["member_left"], logged_causes=["closed"], likely_causes=["session_expired"]),
    ]
    page = build_page(ReportRows(**of_groups(group_row()), tallies=[tally_row("range", "observed", generations=history[::-1])]), AS_OF)
    named = [
        "member left (closed, likely session expired)",
        "none visible",
        "enforced",
        "member left",
        "member joined, member left (session expired, poll timeout)",
        DASH,
    ]
    assert [line.triggers.text for line in page.worst[0].lines] == named
    assert sorted(line.cause.text for line in page.worst[0].causes) == sorted(named)


def test_changes_of_leader_and_coordinator_stand_in_their_generations():
    """A group that was made again has the same numbers an hour later."""
    history = [generation_row(number, number - 1, position=number, observed_at_ms=1_000 * number) for number in (2, 3)]
    history += [generation_row(3, 2, position=9, observed_at_ms=3_600_000)]
    leader = {"kind": "leader", "generation": 3, "position": 3, "at_ms": 3_000, "before": "a", "after": "b"}
    moved = {"kind": "coordinator", "generation": 3, "position": None, "at_ms": 2_990, "before": "broker 1", "after": "broker 2"}
    texts = [row["changes"] for row in with_changes(history, [leader, moved])]
    assert [[text.replace("\N{RIGHTWARDS ARROW}", ">") for text in of_row] for of_row in texts] == [
        [], ["coordinator broker 1 > broker 2", "leader a > b"], [],
    ]  # fmt: skip
    keyed = [{**group_row(), **one} for one in (leader, moved)]
    rows = ReportRows(**of_groups(group_row()), tallies=[tally_row("range", "observed", generations=history[::-1])], changes=keyed)
    assert [line.course.count("leader") for line in build_page(rows, AS_OF).worst[0].lines] == [0, 1, 0], "newest first"


def test_page_shows_follow_up_time_pause_and_better_strategy():
    history = [generation_row(2, 1, follow_up_ms=1_250, pause_partition_ms=3_600_000)]
    groups = of_groups(group_row(verdict="better_elsewhere", better_strategy="sticky", better_gain=0.5))
    view = build_page(ReportRows(**groups, tallies=[tally_row("range", "observed", generations=history)]), AS_OF).worst[0]
    figures = view.lines[0].figures
    assert (figures["follow_up_ms"].text, figures["pause_partition_ms"].text) == ("1.2", "3,600.0")
    assert view.verdict.text == "better elsewhere (sticky, by 0.50)"
    even = of_groups({**groups["detailed"][0], "imbalance_ratio": 1.0})
    assert build_page(ReportRows(**even), AS_OF).worst[0].verdict.text == "better elsewhere (sticky)"


def test_page_shows_load_imbalance_and_marks_upper_bounds():
    history = [
        generation_row(3, 2, avoidable_movement_count=None, is_lower_bound=True, throughput_imbalance_ratio=1.0),
        generation_row(2, 1, avoidable_movement_count=3, is_lower_bound=True, lag_imbalance_ratio=2.5),
    ]
    groups = of_groups(group_row(lag_imbalance_ratio=1.25, rack_match_ratio=0.5))
    view = build_page(ReportRows(**groups, tallies=[tally_row("range", "observed", generations=history)]), AS_OF).worst[0]
    assert {name: figure.text for name, figure in view.weights.items()} == {
        "lag_imbalance_ratio": "1.25", "throughput_imbalance_ratio": DASH, "rack_match_ratio": "0.50",
    }  # fmt: skip
    newest, oldest = (line.figures for line in view.lines)
    assert (oldest["avoidable_movement_count"].text, newest["avoidable_movement_count"].text) == ("\u2264 3", DASH)
    assert (oldest["lag_imbalance_ratio"].text, newest["throughput_imbalance_ratio"].text) == ("2.50", "1.00")
    assert list(oldest) == list(newest), "figures stand under their headings"


# --- what moved, drawn -------------------------------------------------------------------------------------------------


def exchange(*moves, changed=0):
    """(from, to, number, kind, cause) -> the drawing; the last two may be left out."""
    names = ("previous_member_id", "member_id", "partition_count", "kind", "cause")
    flows = [flow_row(**dict(zip(names, move, strict=False))) for move in moves]
    owners = {owner for flow in flows for owner in (flow["previous_member_id"], flow["member_id"]) if owner is not None}
    return draw_exchange(flows, {owner: owner.upper() for owner in owners}, changed)


def test_owners_of_both_sides_are_drawn_with_all_that_they_gave_or_got():
    drawing = exchange(("a", "b", 3), ("a", "c", 1), (None, "c", 2, "gained"), ("b", None, 6, "lost"))
    assert [(owner.name, owner.partition_count) for owner in drawing.before] == [("A", 4), ("B", 6), ("nobody", 2)]
    assert [(owner.name, owner.partition_count) for owner in drawing.after] == [("B", 3), ("C", 3), ("nobody", 6)]
    assert drawing.words == "6 no longer owned from B to nobody; 3 revoked from A to B; 2 gained from nobody to C; 1 revoked from A to C"
    assert [band.title for band in drawing.bands][:2] == ["3 revoked from A to B", "1 revoked from A to C"]


def test_a_band_of_several_kinds_has_the_colour_of_most_and_names_all():
    drawing = exchange((None, "a", 2, "gained", "handed_over"), (None, "a", 5, "gained", None), (None, "a", 1, "gained", "returned"))
    assert [(band.style, band.title) for band in drawing.bands] == [("gained", "6 gained, 2 handed over from nobody to A")]


def test_a_drawing_says_what_was_cut_from_it():
    """The lines that were collected end somewhere within a generation, which would be believed to be that small."""
    assert exchange(("a", "b", 3), ("a", "c", 1), changed=4).cut == ""
    assert exchange(("a", "b", 3), ("a", "c", 1), changed=1_200).cut == "4 of 1,200 partitions that changed owner are drawn"
    rows = replace(sample(("orders",)), flows=[flow_row(partition_count=2, partitions=[0, 1])])
    history = generation_row(3, 2, revoked_count=3, reassigned_count=1, gained_count=2, handed_over_count=2, lost_count=1)
    page = build_page(replace(rows, tallies=[tally_row("range", "observed", generations=[history], generation_count=1)]), AS_OF)
    figure = re.search('<figure class="exchange">.*?</figure>', render(page).html, re.DOTALL)[0]
    assert '<span class="note">Cut: 2 of 7 partitions that changed owner are drawn.</span>' in figure
    assert re.search('role="img" aria-label="[^"]*; cut: 2 of 7 partitions that changed owner are drawn"', figure)


def test_bands_fill_their_owners_and_owners_do_not_overlap():
    drawing = exchange(("a", "b", 300), ("a", "c", 1), ("d", "b", 1), ("d", "c", 40))
    for side in (drawing.before, drawing.after):
        assert all(lower.y >= upper.y + upper.height for upper, lower in itertools.pairwise(side))
        assert side[-1].y + side[-1].height <= drawing.height
    spans = [re.fullmatch(r"M230 ([\d.]+)C.* 490 ([\d.]+)V([\d.]+)C.* 230 ([\d.]+)Z", band.path).groups() for band in drawing.bands]
    left = [(float(top), float(bottom)) for top, _, _, bottom in spans]
    assert left[0][0] == drawing.before[0].y and left[0][1] == pytest.approx(left[1][0], abs=0.11)
    assert left[-1][1] == pytest.approx(drawing.before[-1].y + drawing.before[-1].height, abs=0.11)


def test_smallest_owners_share_one_bar_that_no_owners_name_imitates():
    drawing = exchange(*((f"m{number:02}", "others", 20 - number) for number in range(14)), ("nobody", "nobody", 50))
    assert len(drawing.before) == MOST_OWNERS
    assert (drawing.before[-1].name, drawing.before[-1].partition_count) == ("others", 10 + 9 + 8 + 7)
    assert {owner.name for owner in drawing.after} == {"OTHERS", "NOBODY"}
    assert draw_exchange([], {}, 0) is None


def test_only_the_newest_movements_are_drawn():
    rows = replace(sample(("orders",)), flows=[flow_row(position) for position in (9, 10, 11, 12)])
    history = [generation_row(number, number - 1) for number in (3, 2, 1, 0)]
    rows = replace(rows, tallies=[tally_row("range", "observed", generations=history, generation_count=4)])
    assert [line.exchange is not None for line in build_page(rows, AS_OF).worst[0].lines] == [True, True, True, False]


@pytest.mark.parametrize(
    ("changes", "text", "note"),
    [
        ({"member_id": None}, DASH, "there is no new owner"),
        ({}, DASH, "no commit or metadata snapshot shows where it resumes"),
        ({"lag": 1200, "resume_known": 3}, "1,200 messages", ""),
        ({"lag": 1, "resume_known": 3}, "1 message", ""),
        ({"lag": 1200, "lag_is_upper_bound": True, "resume_known": 3}, "\N{LESS-THAN OR EQUAL TO} 1,200 messages", ""),
        ({"lag": 0, "reset_count": 1, "resume_known": 2}, "0 messages, 1 reset", "known for 2 of 3 partitions"),
        ({"reset_count": 3, "resume_known": 3}, "3 reset", ""),
        ({"resume_known": 3}, "lag not known", ""),
    ],
)
def test_movement_line_shows_where_the_new_owner_resumes(changes, text, note):
    page = build_page(replace(sample(("orders",)), flows=[flow_row(**changes)]), AS_OF)
    (flow,) = page.worst[0].lines[0].flows
    assert (flow.resume.text, flow.resume.note) == (text, note)


def test_order_of_the_rows_and_of_the_lines_is_that_of_the_real_names():
    """Backslashes are doubled on the page, which may sort them elsewhere."""
    names = ["a\\", "a]", "a\x1f", "aZ"]
    rows = ReportRows(ranked=Ranking(group_row(name) for name in names))
    assert [group.group_id for group in build_page(rows, AS_OF).groups] == [visible(name) for name in sorted(names)]


# --- strategies --------------------------------------------------------------------------------------------------------


def test_strategies_start_with_the_observed_and_mark_own_and_least():
    rows = [
        tally_row("other", movements=9),
        tally_row("sticky", movements=2),
        tally_row("range", "observed", 1),
        tally_row("range", movements=7),
        tally_row("range", "recomputed", movements=0),
    ]
    lines = compare(rows, GROUP_COLUMNS, own="range")
    assert [(line.name, line.is_observed, line.is_own) for line in lines] == [
        ("", True, False),
        ("range", False, True),
        ("sticky", False, False),
        ("other", False, False),
    ]
    assert [line.name for line in lines if "movement_count" in line.least] == ["sticky"]
    assert not [line for line in lines if "spread_max" in line.least]  # all equal: nobody is best


def test_a_strategys_tallies_are_merged():
    parts = [
        tally_row("range", movements=4, status="carried", imbalance_ratio_max=2.5, spread_max=None, rebalance_count=None),
        tally_row("range", movements=None, movement_count_known=0, status="no_result", imbalance_ratio_sum=None, imbalance_ratio_known=0),
    ]
    (line,) = compare(parts, GROUP_COLUMNS)
    assert {name: figure.text for name, figure in line.figures.items()} == {
        "movement_count": "4",
        "avoidable_movement_count": DASH,
        "eager_revocation_count": "16",
        "cooperative_revocation_count": "4",
        "actual_revocation_count": DASH,
        "rebalance_count": "3",
        "imbalance_ratio_mean": "1.25",
        "imbalance_ratio_max": "2.50",
        "spread_max": "2",
        "unsolved_count": "3",
    }
    assert line.figures["movement_count"].note == "known for 3 of 6 generations"


def test_only_strategies_over_the_same_generations_are_compared():
    """Four generations cost less than 326: a group that was converted has its new assignor for the last of them only."""
    four = {"generation_count": 4, "covered_count": 4, "movement_count_known": 4}
    few, others = four | {"coverage": Decimal(1)}, four | {"coverage": Decimal(2)}
    half = {"generation_count": 2, "covered_count": 2, "movement_count_known": 2, "coverage": Decimal(3)}
    rows = [
        tally_row("range", "observed", 1, covered_count=7),
        *(tally_row("range", movements=movements, **half) for movements in (30, 50)),
        tally_row("sticky", movements=70, **four, coverage=Decimal(6)),
        tally_row("server-range", movements=2, **few),
        tally_row("uniform", movements=3, **others),
    ]
    lines = {line.name: line for line in compare(rows, FLEET_COLUMNS)}
    assert [name for name, line in lines.items() if "movement_count" in line.least] == ["sticky"], "both of the others are alone"
    assert {name: line.generations.text for name, line in lines.items()} == {
        **{"": "7", "range": "4", "sticky": "4"},
        **{"server-range": "4", "uniform": "4"},
    }
    assert [name for name, line in lines.items() if line.is_apart] == ["server-range", "uniform"]
    rows[-1] |= few
    lines = {line.name: line for line in compare(rows, FLEET_COLUMNS)}
    assert [name for name, line in lines.items() if "movement_count" in line.least] == ["sticky", "server-range"]
    assert not any(line.is_apart for line in lines.values())


def test_a_strategy_without_rows_for_empty_generations_is_compared_all_the_same():
    """A KIP-848 assignor has none; there is nothing to assign, and it costs nobody anything."""
    rows = [
        tally_row("range", movements=7),
        tally_row("range", movements=0, generation_count=2, covered_count=0, coverage=None, movement_count_known=2),
        tally_row("uniform", movements=3),
    ]
    lines = compare(rows, FLEET_COLUMNS)
    assert [(line.name, line.generations.text, line.is_apart, "movement_count" in line.least) for line in lines] == [
        ("range", "3", False, False),
        ("uniform", "3", False, True),
    ]


@pytest.mark.parametrize(
    ("rows", "legend"),
    [
        ([tally_row("", "recomputed")], "Spread: "),
        ([tally_row("range")], "Faint: revocations"),
        ([tally_row("range"), tally_row("sticky", movements=1)], '<b class="least">Marked</b>: the least among the strategies. Faint:'),
        (
            [tally_row("range"), tally_row("sticky", movements=1), tally_row("uniform", coverage=Decimal(9))],
            '<b class="least">Marked</b>: the least among the strategies over the same generations. Not compared: no other',
        ),
    ],
)
def test_the_legend_of_the_strategies_explains_what_is_shown(rows, legend):
    page = render(build_page(ReportRows(**of_groups(group_row()), tallies=rows), AS_OF)).html
    table = page[page.index("What each assignor would have cost</summary>") :]
    note = " ".join(re.search(r'<p class="note">(.*?)</p>', table, re.DOTALL)[1].split())
    assert note.startswith(legend)
    assert ("not compared</span>" in table) == ("Not compared" in note)


def test_sums_over_different_generations_are_not_compared():
    rows = [tally_row("sticky", movements=2, movement_count_known=2), tally_row("range", movements=7)]
    assert not [line for line in compare(rows, FLEET_COLUMNS) if "movement_count" in line.least]


def test_the_run_is_named_with_what_it_read():
    page = build_page(ReportRows(), AS_OF, SUMMARY)
    assert page.run_id == "run-7"
    assert [(it.name, it.figure.text) for it in page.inputs] == [("read", "962"), ("landed", "900"), ("skipped", "62")]
    assert [(it.name, it.figure.text) for it in page.input_kinds] == [
        ("consumer-offsets \N{MIDDLE DOT} skipped \N{MIDDLE DOT} offset commit", "62")
    ]


def test_a_fleet_without_groups_makes_a_page():
    page = build_page(ReportRows(), AS_OF)
    assert "There are no groups in the warehouse." in render(page).html


@given(st.lists(st.integers(0, 60)))
def test_condensed_ranges_hold_exactly_the_partitions_in_as_few_ranges_as_can_be(partitions):
    pieces = [piece.split("-") for piece in condense(partitions).split(", ") if piece]
    bounds = [(int(piece[0]), int(piece[-1])) for piece in pieces]
    assert [number for first, last in bounds for number in range(first, last + 1)] == sorted(set(partitions))
    assert all(after - before > 1 for (_, before), (after, _) in itertools.pairwise(bounds))


@given(st.text(), st.text())
@example("\\x1b", "\x1b")
def test_visible_texts_print_and_stay_different(one, other):
    assert visible(one).isprintable()
    assert (visible(one) == visible(other)) == (one == other)


ids = st.one_of(
    st.text(max_size=4), st.text("ab", min_size=30, max_size=50), st.sampled_from([MEMBER, OTHER, MEMBER[:-1] + "2", MEMBER[9:]])
)


@given(st.sets(ids))
def test_short_names_stay_different(names):
    shortened = short_names(names)
    assert set(shortened) == names
    assert len(set(shortened.values())) == len(names)


def test_short_names_keep_members_distinct():
    twin = MEMBER[:-1] + "2"  # the same client id and the same first block
    assert short_names([MEMBER, OTHER])[OTHER] == "orders-2-e76ea8c3\N{HORIZONTAL ELLIPSIS}"
    assert short_names([MEMBER, twin]) == {MEMBER: MEMBER, twin: twin}
