"""The lag of now in the details of a group, and what of it is not known."""

from __future__ import annotations

from dataclasses import replace

from jobs.pages.figures import EN_DASH
from jobs.report.lag_lines import lag_lines, total_lag
from jobs.report.page import build_page, render
from tests.builders.report_rows import AS_OF, MEMBER, OTHER, SUMMARY, lag_row, sample


def test_partitions_with_the_largest_lag_come_first_and_unknown_ones_last():
    unseen = {"end_offset": None, "looked_ms": None}
    rows = [lag_row(0, None, **unseen), lag_row(1, 5, member_id=None), lag_row(2, 9), lag_row(3, 9, member_id=OTHER)]
    lines = lag_lines(rows, {MEMBER: "orders-1", OTHER: "static"})
    assert [(line.partition, line.member_short, line.lag.text) for line in lines] == [
        (2, "orders-1", "9"),
        (3, "static", "9"),
        (1, "nobody", "5"),
        (0, "orders-1", EN_DASH),
    ]
    assert (lines[0].member, lines[2].member, lines[3].looked_at) == (MEMBER, "", EN_DASH)
    assert lines[3].lag.note == lines[3].end.note == "no metadata snapshot has the end of its log"


def test_lag_without_a_commit_says_so():
    (line,) = lag_lines([lag_row(0, None, committed_offset=None, committed_ms=None)], {MEMBER: "orders-1"})
    assert line.lag.note == line.committed.note == "the group has no commit of it"


def test_total_lag_says_for_how_many_partitions_it_is_known():
    assert (total_lag([lag_row(0, 7)]).text, total_lag([lag_row(0, 7)]).note) == ("7", "")
    part = total_lag([lag_row(0, 7, group_lag=1_234, partition_total=5)])
    assert (part.text, part.note, part.known) == ("1,234", "known for 2 of 5 partitions", 2)
    assert [total_lag(rows).value for rows in ([], [lag_row(0, None)])] == [None, None]


def test_group_shows_its_lag_and_when_that_was() -> None:
    page = build_page(sample(["orders"]), AS_OF, SUMMARY)
    (group,) = page.worst
    assert (group.lag_now.text, group.lag_now_at, group.lag_partitions.value) == ("7", "2026-09-21 14:15:20", 2)
    html = render(page).html
    assert "at 2026-09-21 14:15:20" in html and "Cut: the 2 partitions" not in html
    cut = build_page(replace(sample(["orders"]), lags=[lag_row(1, 7, partition_total=3)]), AS_OF, SUMMARY)
    assert "Cut: the 1 partitions with the largest lag are shown, of 3." in render(cut).html
    shared = [lag_row(1, 7, member_id=member, partition_total=2) for member in (MEMBER, OTHER)]
    html = render(build_page(replace(sample(["orders"]), lags=shared), AS_OF, SUMMARY)).html
    assert "Cut: the 1 partitions with the largest lag are shown, of 2." in html, "a partition with two owners is one"
