"""The lines of groups: how they are put together, ranked and packed, and that each is in one of the report's files."""

from __future__ import annotations

import json
import logging
import random
import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.pages.figures import EN_DASH, Figure, visible
from jobs.pages.needs import BETTER_ASSIGNOR, LEAST_GAIN
from jobs.report.fleet import headline
from jobs.report.group_lines import GroupLines
from jobs.report.groups import add_settled
from jobs.report.packed import PACKED, PackedLines, pack_lines
from jobs.report.page import MOST_BYTES, build_page, render
from jobs.report.prometheus import to_prometheus
from jobs.report.ranking import COMMITS_ONLY, Newest, Ranking, choose_findings, merge_parts, newest_of, with_current
from jobs.report.rows import ReportRows
from jobs.report.run import write_page
from jobs.runtime.output_files import PAGE, further_page, is_report_file
from schemas.config import ReportSettings
from tests.builders.page_outline import Outline
from tests.builders.report_rows import AS_OF, finding_row, group_row, lag_row, large_fleet
from tests.faults.hostile_names import NAMES

SMALL = 240_000
"""Bytes of a file where a test needs several."""


def lines_of(parts: list[PackedLines]) -> list[list[Any]]:
    return [line for part in parts for line in json.loads(f"[{part.lines}]")]


def page_with(*groups: dict[str, Any]) -> Outline:
    return Outline(render(build_page(ReportRows(ranked=Ranking(groups)), AS_OF)).html)


# --- packing -----------------------------------------------------------------------------------------------------------


def test_a_packed_line_has_what_a_row_shows() -> None:
    changes = {"critical_count": 1_234, "warning_count": 2, "current_critical_count": 3, "current_warning_count": 1}
    changes |= {"need_severity": "critical", "need_rule": "partitions_left_out", "better_gain": 0.115}
    changes |= {"movement_count": 7_000, "movement_count_known": 1_400, "avoidable_movement_count": None, "generation_count": 1_500}
    changes |= {"imbalance_ratio": 1.115, "member_count": 9, "last_at_ms": 1_790_000_120_999, "strategy": "sticky"}
    row = group_row("orders", **changes)
    (line,) = page_with(row).lines()
    shown = GroupLines(Ranking([row]))[0]
    assert (line["group"], line["cluster"], line["strategy"], line["rank"], line["anchor"]) == ("orders", "prod", "sticky", 1, shown.anchor)
    assert (line["critical"], line["warning"]) == (1_234, 2)
    assert (line["needs"], line["severity"]) == (shown.needs, shown.needs_severity) == ("partitions left out and 3 more", "critical")
    assert f"{line['could_be']:.2f}" == shown.could_be.text == "1.00"
    assert (line["movements"], line["generations"] - line["movements_unknown"]) == (7_000, shown.movements.known)
    assert (line["avoidable"], line["avoidable_unknown"]) == (None, 1_500)
    assert (f"{line['imbalance']:.2f}", line["members"], line["generations"]) == (shown.imbalance.text, 9, 1_500)
    assert line["last_seen"] == 1_790_000_120


def test_lag_now_is_a_column_where_it_was_collected() -> None:
    lags = [lag_row(0, 9, group_lag=Decimal(1_200)), lag_row(0, None, group_id="unknown")]
    without_details = [{"cluster_id": "prod", "group_id": "without", "group_lag": Decimal(34)}]
    ranked = Ranking([group_row("orders"), group_row("unknown"), group_row("without")])
    rows = ReportRows(ranked=ranked, lags=lags, group_lags=without_details)
    page = build_page(rows, AS_OF)
    assert [line.lag_now.text for line in page.groups] == ["1,200", EN_DASH, "34"]
    assert [line["lag"] for line in Outline(render(page).html).lines()] == [1_200, None, 34]
    heading = 'data-column="lag">lag now</th>'
    assert heading in render(page).html and heading not in render(build_page(replace(rows, lags=(), group_lags=()), AS_OF)).html


def test_unknown_figures_of_a_group_are_null() -> None:
    (line,) = page_with(group_row(strategy=None, imbalance_ratio=None, movement_count=None)).lines()
    assert [name for name in PACKED if line[name] is None] == ["strategy", "avoidable", "movements", "imbalance", "could_be", "lag"]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_of_a_group_a_cluster_and_a_strategy_survives_packing(name: str) -> None:
    seen = page_with(group_row(name, cluster_id=name, strategy=name), group_row("plain", critical_count=9))
    line = seen.lines()[1]
    assert (line["group"], line["cluster"], line["strategy"]) == (visible(name), visible(name), visible(name) or None)
    assert "<" not in "".join(seen.data), "nothing in it is markup to a browser"


@given(st.lists(st.tuples(st.text(), st.text(), st.text()), unique_by=lambda names: names[:2]))
def test_different_names_stay_different(names: list[tuple[str, str, str]]) -> None:
    rows = [group_row(group, cluster_id=cluster, strategy=strategy) for cluster, group, strategy in names]
    found = {(line["cluster"], line["group"], line["strategy"]) for line in page_with(*rows).lines()}
    assert found == {(visible(cluster), visible(group), visible(strategy) or None) for cluster, group, strategy in names}


def test_a_text_that_comes_again_is_a_number() -> None:
    rows = [group_row(f"g{number:03}", cluster_id="c" * 100, strategy="s" * 100) for number in range(100)]
    (part,) = pack_lines(Ranking(rows), 100_000, 0)
    assert part.lines.count("c" * 100) == part.lines.count("s" * 100) == 1
    assert len(part.lines) / 100 < 75


# --- files -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("first_room", "further_room"), [(900, 1_500), (10, 400), (-5, 90), (10**6, 1)])
def test_lines_fill_one_file_after_the_other_and_none_is_lost(first_room: int, further_room: int) -> None:
    draw = random.Random(20261121)
    ranked = Ranking(
        group_row("x" * draw.randrange(60) + f"{n}", strategy=draw.choice(["range", "sticky"]), critical_count=n) for n in range(50)
    )
    parts = list(pack_lines(ranked, first_room, further_room))
    assert [line[0] for line in lines_of(parts)] == [row["group_id"] for row in ranked]
    assert [part.first for part in parts] == [1, *(part.last + 1 for part in parts[:-1])] and parts[-1].last == 50
    for part, room in zip(parts, (first_room, *(further_room for _ in parts)), strict=False):
        assert part.count == 1 or len(part.lines.encode()) <= room
    for part, following, room in zip(parts, parts[1:], (first_room, *(further_room for _ in parts)), strict=False):
        assert len(part.lines.encode()) + len(following.lines.split(",\n")[0].encode()) + 4 > room - 20, "no file is left before it is full"


def test_each_file_has_the_texts_that_its_lines_need() -> None:
    parts = list(pack_lines(Ranking(group_row(f"g{n}") for n in range(9)), 200, 200))
    assert len(parts) > 2
    for part in parts:
        first, *others = lines_of([part])
        assert first[1:3] == ["prod", "range"] and all(line[1:3] == [0, 0] for line in others)


def test_a_fleet_without_groups_has_one_file_without_lines() -> None:
    assert list(pack_lines(Ranking(), 0, 0)) == [PackedLines(1, 0, 0, "")]


@pytest.fixture
def fleet() -> ReportRows:
    """More lines than a small file has room for, and details of three groups, one of which is too large."""
    rows = large_fleet(5_000, detailed=3)
    return replace(rows, findings=[*rows.findings, finding_row(rows.ranked[4_999]["group_id"])])


def test_every_group_is_in_one_of_the_files_and_none_is_too_large(fleet: ReportRows) -> None:
    document = render(build_page(fleet, AS_OF), name="weekly report.html", most_bytes=SMALL)
    files = [Outline(html) for html in (document.html, *document.further)]
    assert [line["group"] for file in files for line in file.lines()] == [row["group_id"] for row in fleet.ranked]
    assert [line["rank"] for file in files for line in file.lines()] == list(range(1, 5_001))
    assert max(len(html.encode()) for html in (document.html, *document.further)) <= SMALL
    assert len(files) == 3 and len(document.further[0]) > 0.8 * SMALL


@pytest.mark.parametrize(("group_count", "file_count"), [(20_000, 1), (100_000, 2)])
def test_a_second_file_is_needed_only_where_the_page_would_be_too_large(group_count: int, file_count: int) -> None:
    """Of groups whose names have 40 characters, beside details of as many as have room."""
    rows = large_fleet(group_count, detailed=40, name="payments-in-europe-")
    document = render(build_page(rows, AS_OF))
    htmls = (document.html, *document.further)
    lines = [json.loads(re.search(r'"lines": (\[\n.*?\n\])\}', html, re.DOTALL)[1]) for html in htmls]
    assert [line[0] for of_file in lines for line in of_file] == [row["group_id"] for row in rows.ranked]
    assert len(htmls) == file_count and max(len(html.encode()) for html in htmls) <= MOST_BYTES
    assert len(document.detailed) >= 5
    assert ("report-groups-2.html" in document.html) == (file_count == 2)


def test_every_file_names_the_others_and_leads_to_the_next(fleet: ReportRows) -> None:
    document = render(build_page(fleet, AS_OF), name="weekly report.html", most_bytes=SMALL)
    htmls = (document.html, *document.further)
    addresses = ["weekly%20report.html", "weekly%20report-groups-2.html", "weekly%20report-groups-3.html"]
    for number, html in enumerate(htmls):
        seen = Outline(html)
        links = [link for link in seen.values("href") if not link.startswith("#")]
        assert set(links) == set(addresses) - {addresses[number]}
        assert json.loads(seen.data[0])["next"] == (addresses[number + 1] if number < 2 else "")
        first, last = (f"{seen.lines()[index]['rank']:,}" for index in (0, -1))
        assert f"<b>{first} to {last}</b> here" in html
    assert "weekly report-groups-2.html</span>" in document.html
    assert "This page is one file" not in document.html


def test_one_file_is_enough_while_there_is_room(fleet: ReportRows) -> None:
    page = build_page(fleet, AS_OF)
    size = sum(len(html.encode()) for html in (render(page).html, *render(page).further))
    assert render(page).further == () and len(render(page).detailed) == 3
    document = render(page, most_bytes=size + 10_000)
    assert document.further == () and len(document.html.encode()) <= size
    assert '<p class="note" id="files">' not in document.html and "This page is one file and loads nothing." in document.html


def test_lines_leave_room_for_details(fleet: ReportRows) -> None:
    """Of the worst groups, which are what a report is opened for."""
    short = [{**row, "generations": row["generations"][:5]} for row in fleet.tallies]
    document = render(build_page(replace(fleet, tallies=short, flows=[], holdings=[]), AS_OF), most_bytes=400_000)
    assert len(document.further) == 1 and len(document.detailed) == 3


def test_rows_without_a_script_are_the_first_lines_of_each_file(fleet: ReportRows) -> None:
    document = render(build_page(fleet, AS_OF), most_bytes=SMALL)
    for html in (document.html, *document.further):
        seen = Outline(html)
        rows = [given["id"] for tag, given in seen.tags if tag == "tr" and "id" in given]
        shown = [line["anchor"] for line in seen.lines() if line["anchor"] not in document.detailed][: len(rows)]
        assert rows == shown and 10 < len(rows) < 200


def test_files_are_written_beside_the_page_by_the_rules_of_the_page(
    fleet: ReportRows, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "jobs")
    path = tmp_path / "new" / "weekly.html"
    detailed = write_page(build_page(fleet, AS_OF), ReportSettings(output=str(path), group_pages=str(tmp_path / "one")), SMALL)
    names = ["weekly-groups-2.html", "weekly-groups-3.html", "weekly.html"]
    assert sorted(file.name for file in path.parent.iterdir()) == names
    assert all(is_report_file(path.parent / name, (PAGE,)) for name in names)
    files = [Outline((path.parent / name).read_text(encoding="utf-8")) for name in (names[2], *names[:2])]
    assert [line["group"] for file in files for line in file.lines()] == [row["group_id"] for row in fleet.ranked]
    assert all(json.loads(file.data[0])["details"] == "../one" for file in files)
    assert [record.getMessage() for record in caplog.records] == [
        f"report: listed 5000 groups in weekly.html and weekly-groups-2.html and weekly-groups-3.html, {len(detailed)} of them with details"
    ]


def test_a_further_file_is_named_after_the_page() -> None:
    assert further_page(Path("a.b/weekly.v2.html"), 2) == Path("a.b/weekly.v2-groups-2.html")
    assert further_page(Path("report"), 3) == Path("report-groups-3")


# --- the parts that Spark counts ---------------------------------------------------------------------------------------


def audited(strategy: str = "range", group_id: str = "orders", **changes: Any) -> dict[str, Any]:
    part = {"cluster_id": "prod", "group_id": group_id, "strategy": strategy, "rule_id": None, "severity": None, "finding_count": None}
    part |= {"generation_count": 2, "movement_count": 3, "movement_count_known": 1, "avoidable_movement_count": None}
    part |= {"avoidable_movement_count_known": 0, "first_at_ms": 10, "last_at_ms": 20, "newest_position": 5, "member_count": 2}
    part |= {"newest_at_ms": 20}
    part |= {"settled_position": 4, "imbalance_ratio": 1.5, "partitions_per_member_min": 1, "partitions_per_member_max": 3}
    part |= {"predictable_count": 1, "predictable_at_ms": 12, "better_gain": None}
    return part | changes


NOW = {"prod": 40, "a": 40, "b": 40}
"""The newest moment of each cluster."""


def found(rule_id: str, severity: str, count: int = 1, newest_position: int = 5, group_id: str = "orders") -> dict[str, Any]:
    part = dict.fromkeys(audited()) | {"cluster_id": "prod", "group_id": group_id, "rule_id": rule_id, "severity": severity}
    return part | {"finding_count": count, "newest_position": newest_position, "cycle_s": None}


def test_a_group_that_changed_its_strategy_is_one_row() -> None:
    """Sums are over both, members are those of the newest generation, and loads those of the last settled one."""
    before = audited("range", generation_count=3, movement_count=None, movement_count_known=0, member_count=9, newest_position=3)
    before |= {"settled_position": 3, "imbalance_ratio": 9.0, "first_at_ms": 1, "last_at_ms": 11}
    empty = audited("", settled_position=None, imbalance_ratio=None, newest_position=8, member_count=0, last_at_ms=30)
    empty |= {"predictable_count": 0, "predictable_at_ms": None}
    for parts in ([before, audited("sticky", predictable_at_ms=14), empty], [empty, audited("sticky", predictable_at_ms=14), before]):
        (row,) = merge_parts(parts, NOW)
        assert (row["strategy"], row["imbalance_ratio"], row["settled_position"]) == ("sticky", 1.5, 4)
        assert (row["newest_position"], row["member_count"], row["first_at_ms"], row["last_at_ms"]) == (8, 0, 1, 30)
        assert (row["generation_count"], row["movement_count"], row["movement_count_known"]) == (7, 6, 2)
        assert (row["avoidable_movement_count"], row["avoidable_movement_count_known"]) == (None, 0)
        assert (row["predictable_count"], row["predictable_at_ms"]) == (2, 14)


def test_a_group_without_a_settled_generation_has_no_strategy() -> None:
    (row,) = merge_parts([audited("range", settled_position=None, imbalance_ratio=7.0)], NOW)
    assert [row[name] for name in ("settled_position", "strategy", "imbalance_ratio", "partitions_per_member_max")] == [None] * 4


def test_findings_of_a_group_are_counted_by_severity_and_whether_they_hold_now() -> None:
    parts = [found("a", "critical", 3, newest_position=4), found("b", "warning", 2), audited(), found("c", "warning", 1, newest_position=2)]
    (row,) = merge_parts(parts, NOW)
    assert [(row[f"{word}_count"], row[f"current_{word}_count"]) for word in ("critical", "warning", "info")] == [(3, 0), (3, 1), (0, 0)]
    assert (row["need_severity"], row["need_rule"]) == ("warning", "b"), "the newest generation's alone"


@pytest.mark.parametrize(("position", "is_deleted"), [(6, True), (4, False)], ids=["after its newest generation", "earlier life"])
def test_only_expiring_commits_hold_in_a_group_that_was_deleted(position: int, is_deleted: bool) -> None:
    deletion = dict.fromkeys(audited()) | {"cluster_id": "prod", "group_id": "orders", "deleted_position": position, "deleted_at_ms": 25}
    of_group = [deletion, audited(member_count=3, better_gain=0.5), found("offsets_reset", "critical")]
    ranked = Ranking(merge_parts(of_group, NOW))
    (row,) = ranked
    assert (row["deleted_at_ms"], row["need_rule"]) == ((25, None) if is_deleted else (None, "offsets_reset"))
    assert (row["critical_count"], row["current_critical_count"], row["member_count"]) == ((1, 0, 0) if is_deleted else (1, 1, 3))
    (shown,) = choose_findings(of_group[2:], newest_of(ranked), set(), 1).values()
    assert shown["is_current"] is not is_deleted
    (row,) = merge_parts([*of_group, found("commits_expire", "warning")], NOW)
    assert row["need_rule"] == ("commits_expire" if is_deleted else "offsets_reset")


def test_findings_on_the_page_of_one_group_hold_as_they_do_in_the_list() -> None:
    last = {"cluster_id": "prod", "group_id": "orders", "position": 12, "cycle_s": 3_600}
    found = [{**last, "rule_id": "restart_loop"}, {**last, "rule_id": "idle_members"}, {**last, "rule_id": "idle_members", "position": 11}]
    for calm_ms, deleted_at_ms, expected in [(0, None, [True, True, False]), (10_800_001, None, [False, True, False]), (0, 5, [False] * 3)]:
        (newest,) = newest_of([group_row(newest_position=12, calm_ms=calm_ms, deleted_at_ms=deleted_at_ms)]).values()
        assert [row["is_current"] for row in with_current(found, {("prod", "orders"): newest})] == expected


def test_deleted_groups_are_counted_and_said_to_be_deleted() -> None:
    gone = group_row("gone", member_count=0, deleted_at_ms=1_790_000_200_000)
    ranked = Ranking([group_row(), gone])
    assert build_page(ReportRows(ranked=ranked), AS_OF).first_screen.totals[0] == (Figure("2", "", 2), "groups, 1 of them deleted")
    alone = ReportRows(ranked=Ranking([gone]))
    assert build_page(alone, AS_OF).first_screen.totals[0] == (Figure("1", "", 1), "group, deleted")
    assert 'evenkeel_deleted_groups{cluster_id="prod"} 1\n' in "".join(to_prometheus(ReportRows(ranked=ranked), AS_OF))
    members = {line.group_id: line.members for line in GroupLines(ranked)}
    assert members == {"gone": Figure("deleted", "at 2026-09-21 14:16:40 UTC", 0), "orders": Figure("2", "", 2)}
    assert {line["group"]: line["members"] for line in page_with(group_row(), gone).lines()} == {"gone": -1, "orders": 2}


def test_a_better_assignor_is_a_need_of_a_group_with_members() -> None:
    rows = [row for members in (2, 0) for row in merge_parts([audited(better_gain=0.2, member_count=members)], NOW)]
    assert [row["need_rule"] for row in rows] == [BETTER_ASSIGNOR, None]
    loads = [(1.0, 0.5), (1.0 + 0.9 * LEAST_GAIN, 0.5), (1.0 + 1.1 * LEAST_GAIN, 0.5), (1.5, 0.9 * LEAST_GAIN), (None, 0.5)]
    rows = [row for ratio, gain in loads for row in merge_parts([audited(better_gain=gain, imbalance_ratio=ratio)], NOW)]
    assert [row["need_rule"] for row in rows] == [None, None, BETTER_ASSIGNOR, None, None], "an imbalance cannot fall below 1"


def test_groups_of_one_name_in_two_clusters_are_two_and_findings_alone_are_none() -> None:
    parts = [audited(cluster_id="a"), audited(cluster_id="b"), found("x", "info", group_id="unknown")]
    assert [(row["cluster_id"], row["group_id"]) for row in merge_parts(parts, NOW)] == [("a", "orders"), ("b", "orders")]


@pytest.mark.parametrize(("calm_ms", "need"), [(600_000, "rebalance_storm"), (600_001, None)])
def test_a_storm_is_past_when_nothing_happens_any_more(calm_ms: int, need: str | None) -> None:
    parts = [audited(), found("rebalance_storm", "warning")]
    moments = {"prod": audited()["last_at_ms"] + calm_ms}
    (row,) = merge_parts(parts, moments)
    assert (row["need_rule"], row["current_warning_count"], row["calm_ms"]) == (need, need is not None, calm_ms)
    (shown,) = choose_findings(parts[1:], newest_of([row]), set(), 1).values()
    assert shown["is_current"] is (need is not None)


def test_calm_is_counted_from_the_newest_generation_though_a_clock_stepped_back() -> None:
    before = audited("sticky", newest_position=3, newest_at_ms=30, last_at_ms=30, settled_position=3)
    for parts in ([before, audited()], [audited(), before]):
        (row,) = merge_parts(parts, NOW)
        assert (row["calm_ms"], row["last_at_ms"]) == (20, 30)


def test_group_row_takes_the_last_settled_generation_of_all_tallies() -> None:
    settled = [{"position": position, "generation": 10 * position, "at_ms": position, "verdict": f"v{position}"} for position in (3, 7, 5)]
    tallies = [{"cluster_id": "prod", "group_id": "orders", "settled": one} for one in (None, *settled)]
    row, other = add_settled([group_row("orders"), group_row("other")], tallies)
    assert (row["settled_generation"], row["settled_at_ms"], row["verdict"]) == (70, 7, "v7")
    assert (other["settled_generation"], other["verdict"]) == (None, None)


def test_findings_of_a_rule_are_ordered_by_details_then_current_then_count() -> None:
    found_in = {"past": (9, 4), "now": (1, 5), "more": (5, 5), "worst": (1, 1)}
    parts = [found("r", "info", count, position, name) for name, (count, position) in found_in.items()]
    newest = {("prod", name): Newest(5, 0, is_deleted=False) for name in found_in}
    chosen = [choose_findings(parts, newest, {("prod", "worst")}, most) for most in (1, 2, 3, 4)]
    groups = [[group for _, group, _, _ in shown] for shown in chosen]
    assert groups[-1] == ["worst", "more", "now", "past"] and groups[:-1] == [groups[-1][:most] for most in (1, 2, 3)]
    assert [row["is_current"] for row in chosen[-1].values()] == [False, True, True, False]
    every = choose_findings(parts, newest, {("prod", name) for name in ("worst", "past", "now")}, 1)
    assert {group for _, group, _, _ in every} == {"worst", "past", "now"}, "parts of groups have all of their findings"
    totals = {"rule_finding_count": 16, "rule_group_count": 4, "rule_current_count": 2}
    assert all(row.items() >= totals.items() for shown in chosen for row in shown.values())


def test_rule_with_findings_in_all_groups_has_the_whole_count() -> None:
    """Candidates are dropped on the way, which must not change which of them are chosen."""
    parts = [found("r", "info", 1 + number % 7, group_id=f"g{number:03}") for number in range(500)]
    random.Random(1).shuffle(parts)
    chosen = choose_findings([*parts, found("other", "critical")], {}, set(), 3)
    assert [group for _, group, rule, _ in chosen if rule == "r"] == ["g006", "g013", "g020"]
    assert {row["rule_group_count"] for key, row in chosen.items() if key[2] == "r"} == {500}
    assert len(chosen) == 4


def committed(group_id: str, **changes: Any) -> dict[str, Any]:
    part = dict.fromkeys(audited()) | {"cluster_id": "prod", "group_id": group_id, "commit_count": 3}
    return part | {"first_at_ms": 5, "last_at_ms": 6_000, "newest_position": 9} | changes


def test_group_that_only_commits_is_the_last_row() -> None:
    """With its kind for a strategy; members and figures are not known, and none of the others is counted twice."""
    ranked = Ranking(merge_parts([committed("a-tool"), audited(), found("x", "info")], NOW))
    kinds = [(row["group_id"], row["strategy"], row["generation_count"]) for row in ranked]
    assert kinds == [("orders", "range", 2), ("a-tool", COMMITS_ONLY, 0)]
    line = GroupLines(ranked)[1]
    assert (line.members.text, line.generations.text, line.movements.text, line.imbalance.text) == (EN_DASH, "0", EN_DASH, EN_DASH)
    assert line.members.note == "only commits of the group have landed" and line.last_at == "1970-01-01 00:00:06"
    (packed,) = pack_lines(ranked, 10_000, 10_000)
    tool = dict(zip(PACKED, json.loads(f"[{packed.lines}]")[1], strict=True))
    assert (tool["group"], tool["strategy"], tool["members"], tool["generations"]) == ("a-tool", COMMITS_ONLY, None, 0)
    rows = ReportRows(ranked=ranked)
    assert [(count.figure.text, count.note) for count in headline(rows)[:2]] == [
        ("2", "1 of them commits only"),
        ("2", "in each group's last snapshot"),
    ]
    text = "".join(to_prometheus(rows, AS_OF))
    assert 'evenkeel_groups{cluster_id="prod"} 1\n' in text and 'evenkeel_commits_only_groups{cluster_id="prod"} 1\n' in text
    samples = [line for line in text.splitlines() if "a-tool" in line]
    assert samples == ['evenkeel_group_last_commit_timestamp_seconds{cluster_id="prod",group_id="a-tool"} 6.0']


def test_group_with_generations_and_commits_is_none_that_only_commits() -> None:
    (row,) = merge_parts([committed("orders"), audited()], NOW)
    assert (row["strategy"], row["generation_count"], row["newest_position"]) == ("range", 2, 5)
