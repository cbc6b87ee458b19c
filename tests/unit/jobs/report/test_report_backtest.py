"""Predictions in the report: which generations are chosen, and what the page says of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from jobs.pages.figures import visible
from jobs.reading.stored import GroupKey
from jobs.report.anchors import anchor
from jobs.report.backtest_rows import Chosen, choose, newest_groups
from jobs.report.page import build_page, render
from jobs.report.ranking import Ranking
from jobs.report.rows import ReportRows
from tests.builders.page_outline import Outline
from tests.builders.published_warehouse import at
from tests.builders.report_rows import AS_OF, MEMBER, group_row, of_groups, predicted_of, sample


def audits(group_id: str, *generations: int, before: int | None = None, **changes: Any) -> list[dict[str, Any]]:
    """Return audits of generations that follow each other; the number of a generation is its time and a tenth of its position."""
    each = []
    for number in generations:
        row = {"cluster_id": "c", "group_id": group_id, "position": 10 * number, "observed_at": at(number), "generation": number}
        row |= {"previous_generation": before, "member_count": 2, "partition_count": 8, "is_predictable": before is not None}
        each.append(row | changes)
        before = number
    return each


def chosen_of(chosen: Chosen) -> list[tuple[str, int]]:
    return sorted((key[1], position) for key, position in chosen.keys)


def read_of(chosen: Chosen) -> list[tuple[str, int]]:
    return [(row["group_id"], row["generation"]) for row in chosen.audits]


# -- which generations


def test_newest_generations_are_chosen_with_those_before_them():
    chosen = choose([*audits("g", 1, 2, 5, 9), *audits("h", 3, 4, 7)], 3, 1_000)
    assert chosen_of(chosen) == [("g", 50), ("g", 90), ("h", 70)]
    assert read_of(chosen) == [("g", 1), ("g", 2), ("g", 5), ("g", 9), ("h", 3), ("h", 4), ("h", 7)]


def test_key_of_a_chosen_generation_is_that_of_a_recorded_one():
    (key,) = choose(audits("g", 1, 2), 1, 1_000).keys
    assert key == (GroupKey("c", "g"), 20)


def test_generation_without_a_cause_that_can_be_played_is_only_read():
    rows = audits("g", 1, 2, 3)
    rows[2]["is_predictable"] = False
    assert chosen_of(choose(rows, 9, 1_000)) == [("g", 20)]
    rows[1]["is_predictable"], rows[2]["is_predictable"] = False, True
    chosen = choose(rows, 9, 1_000)
    assert (chosen_of(chosen), len(chosen.audits)) == ([("g", 30)], 3)


def test_generation_is_passed_over_where_what_it_needs_was_not_read():
    """The rows begin in the middle of the group. Of its third one, both before it are there."""
    assert chosen_of(choose(audits("g", 5, 6, 7, before=4), 9, 1_000)) == [("g", 70)]
    assert chosen_of(choose(audits("g", 5, 6, 7), 9, 1_000)) == [("g", 60), ("g", 70)], "nothing came before"


def test_generation_is_passed_over_where_one_before_it_is_missing_among_the_rows():
    rows = audits("g", 1, 2, 3, 4, 5, 6)
    del rows[2]
    assert chosen_of(choose(rows, 9, 1_000)) == [("g", 20), ("g", 60)]


def test_heavy_generation_is_passed_over_and_rows_count_once():
    light, heavy = audits("light", 1, 2, 3, 4), audits("heavy", 6, 7, partition_count=20)
    assert chosen_of(choose([*heavy, *light], 9, 40)) == [("light", 20), ("light", 30), ("light", 40)], "40 are four times ten"
    assert chosen_of(choose([*heavy, *light], 9, 39)) == [("light", 40)]
    assert chosen_of(choose([*heavy, *light], 9, 44)) == [("heavy", 70)]


def test_generation_without_partitions_has_the_weight_of_its_members():
    assert chosen_of(choose(audits("g", 1, 2, partition_count=None), 9, 4)) == [("g", 20)]


def test_groups_with_the_newest_generations_are_read_from_the_month_before():
    days = {"a": date(2026, 1, 31), "b": date(2026, 5, 2), "c": None, "d": date(2026, 5, 2), "e": date(2026, 3, 1)}
    times = {name: None if day is None else 86_400_000 * (day - date(1970, 1, 1)).days for name, day in days.items()}
    ranked = Ranking(group_row(name, predictable_at_ms=time, critical_count=number) for number, (name, time) in enumerate(times.items()))
    groups, since = newest_groups(ranked, 3)
    assert ([row["group_id"] for row in groups], since) == (["b", "d", "e"], date(2026, 2, 1))
    groups, since = newest_groups(ranked, 9)
    assert (groups[-1], since) == ({"cluster_id": "prod", "group_id": "a"}, date(2025, 12, 1))
    assert newest_groups(Ranking(), 3)[0] == []


# -- what the page says


def section(html: str) -> str:
    return html.partition('<section id="predictions"')[2].partition("</section>")[0]


def words_of(html: str) -> list[list[str]]:
    """Return the cells of each row of a table."""
    return [
        [re.sub("<.*?>", "", cell).strip() for cell in re.split("</t[hd]>", row)[:-1]]
        for row in re.findall("<tr>(.*?)</tr>", html, re.DOTALL)
    ]


def page_of(rows: ReportRows, **options: Any) -> str:
    return render(build_page(rows, AS_OF), **options).html


def test_shares_are_those_of_a_line_and_of_all():
    rows = sample(("a", "b"))
    shares = words_of(section(page_of(rows)).partition("<tbody>")[2].partition("</tbody>")[0])
    expected = ["", "6", "2", "33.3%", "2", "33.3%", "0", "", "2", "33.3%"]
    assert shares == [["range", "java", *expected], ["in total", "", *expected]]


@pytest.mark.parametrize(
    ("predictable", "sentence", "is_sample"),
    [
        (
            (7, 2),
            "9 recorded generations follow a change that it can play: members that join or leave, new topics, or new partitions.",
            False,
        ),
        ((7, 12_000), "12,007 recorded generations follow a change", True),
        ((1, 0), "1 recorded generation follows a change", False),
    ],
)
def test_the_part_says_how_many_of_how_many_were_predicted(predictable: Iterable[int], sentence: str, is_sample: bool):
    groups = [group_row(f"g{number}", predictable_count=count) for number, count in enumerate(predictable)]
    text = section(page_of(ReportRows(**of_groups(*groups), predicted=predicted_of("g0"))))
    assert sentence in text
    assert "3 of them were predicted, each from the generation before it." in text
    assert "Left out: 1 because a static member came back under another member id." in text
    assert ("The 9 newest were chosen, without those that are too large." in text) is is_sample
    assert ("<code>evenkeel what-if --backtest</code> predicts all" in text) is is_sample


def test_a_difference_has_its_reason_and_links_to_its_group_and_generation():
    html = page_of(sample(("orders",)))
    group = anchor("prod", "orders")
    row = words_of(section(html).partition("<h3>")[2])[-1]
    reasons = f"stayed and claimed nothing: {MEMBER}; has replicas in other racks than before: clicks"
    assert row == ["orders", "3", "2026-11-21 12:00:00", "range", "java", "\N{NOT EQUAL TO} differs", reasons]
    assert re.findall(r'href="#(.*?)"', section(html)) == [group, f"{group}-11", group, f"{group}-12"]
    seen = Outline(html)
    assert [attributes["id"] for tag, attributes in seen.tags if tag == "tr" and "id" in attributes and attributes["id"] != group] == [
        f"{group}-12",
        f"{group}-11",
    ], "a generation that nothing links to has no id"


def test_a_generation_whose_details_are_not_on_the_page_has_no_link():
    rows = sample(("a",))
    without = replace(rows, detailed=[], predicted=predicted_of("a", "gone"))
    html = section(page_of(without))
    assert re.findall(r'href="#(.*?)"', html) == [anchor("prod", "a")] * 2, "a group that is not listed has no link either"
    small = render(build_page(replace(rows, predicted=predicted_of("a")), AS_OF), most_bytes=60_000)
    assert not small.detailed and re.findall(r'href="#(.*?)"', section(small.html)) in ([anchor("prod", "a")] * 2, [])


def test_differences_beyond_the_room_are_counted():
    names = tuple(f"group-{number:03}" for number in range(40))
    rows = ReportRows(**of_groups(*(group_row(name) for name in names)), predicted=predicted_of(*names))
    html = render(build_page(rows, AS_OF), most_bytes=200_000).html
    found = re.search(r"(\d+) of 80 are listed", section(html))
    assert found is not None and 1 < int(found[1]) < 80
    assert section(html).count("differs</td>") + section(html).count("equal sets</td>") == int(found[1])
    assert len(html.encode()) <= 200_000
    assert "are listed" not in section(page_of(rows))


def test_names_of_members_are_masked_and_cut():
    member = "\u202e" + "m" * 300
    html = section(page_of(replace(sample(("orders",)), predicted=predicted_of("orders", member=member))))
    assert visible("\u202e") in html and "\u202e" not in html and "m" * 120 not in html


def test_a_report_without_predictions_says_nothing_of_them():
    rows = sample(("orders",))
    html = page_of(replace(rows, predicted=None))
    assert 'id="predictions"' not in html and 'href="#predictions"' not in html
    assert '<a href="#predictions">Predictions</a>' in page_of(rows)


def test_nothing_predicted_is_said():
    html = section(page_of(ReportRows(**of_groups(group_row(predictable_count=0)), predicted=predicted_of(chosen=0))))
    assert "0 recorded generations follow a change" in html and "No generation was predicted." in html and "<table" not in html
