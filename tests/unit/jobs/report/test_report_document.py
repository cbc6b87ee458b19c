"""The report as a document: nothing in it runs or loads, names add nothing, it stays within its size, and everybody can read it."""

from __future__ import annotations

import base64
import hashlib
import itertools
import re
from dataclasses import fields, replace
from importlib import resources
from pathlib import Path

import pytest

from jobs.pages.figures import cut, visible
from jobs.report.page import MOST_BYTES, MOST_ROWS, build_page, build_views, render, render_group
from jobs.report.ranking import Ranking
from jobs.report.rows import ReportRows
from jobs.report.summary import facts_of, to_text
from tests.builders.page_outline import Outline
from tests.builders.report_rows import AS_OF, MEMBER, SUMMARY, finding_row, flow_row, group_row, large_fleet, predicted_of, sample
from tests.faults.hostile_names import MARKUP


def outline(rows, summary=None):
    return Outline(render(build_page(rows, AS_OF, summary)).html)


# --- nothing can run, nothing can load ---------------------------------------------------------------------------------


def test_policy_names_the_inline_blocks_and_allows_nothing_else():
    seen = outline(sample())
    policy = next(attributes["content"] for _, attributes in seen.tags if attributes.get("http-equiv") == "Content-Security-Policy")
    (style,), (script,) = seen.texts["style"], seen.texts["script"]
    names = {
        kind: base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for kind, text in (("style", style), ("script", script))
    }
    assert policy.split("; ") == [
        "default-src 'none'",
        f"style-src 'sha256-{names['style']}'",
        f"script-src 'sha256-{names['script']}'",
        "base-uri 'none'",
        "form-action 'none'",
    ]


def test_the_page_has_no_address_no_inline_style_and_no_handler():
    html = render(build_page(sample(), AS_OF, SUMMARY)).html
    assert not re.search(r"https?:|//|url\(|@import", html)
    for tag, attributes in Outline(html).tags:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base", "form", "use", "image")
        assert not {name for name in attributes if name.startswith("on") or name in ("style", "src", "srcdoc", "action", "xlink:href")}
        assert attributes.get("href", "#").startswith("#")


def hostile_rows(text):
    rows = sample((f"{text}-a", f"{text}-b"))

    def poison(value):
        return {key: f"{text}{item}" if key in poisoned and item is not None else item for key, item in value.items()}

    poisoned = {"member_id", "previous_member_id", "group_instance_id", "topic", "message", "advice", "cluster_id", "leader_client"}
    poisoned |= {"strategy", "better_strategy", "cause"}
    lists = {
        field.name: [poison(row) for row in getattr(rows, field.name)]
        for field in fields(rows)
        if field.name not in ("predicted", "newest_ms")
    }
    predicted = predicted_of(
        f"{text}-a", cluster_id=f"{text}prod", member=f"{text}{MEMBER}", strategy=f"{text}range", leader=f"{text}java", chosen=3
    )
    rows = ReportRows(**lists | {"ranked": Ranking(lists["ranked"]), "predicted": predicted})
    return replace(rows, findings=[row | {"evidence": {text: text}} for row in rows.findings])


@pytest.mark.parametrize("text", [*MARKUP, "' onmouseover='alert(1)", "{{ 7 * 7 }}{% raw %}", "\x1b[31m\u202ednim\x00\r\n\u2028\ud800"])
def test_names_add_no_element_and_no_attribute(text):
    """In every name there is, on the report and on a page of a single group: the pages have the elements that harmless names give."""
    summary = {"run_id": text, "input_counts": {f"a.{text}": 1}}
    pages = [build_page(rows, AS_OF, summary) for rows in (hostile_rows("n"), hostile_rows(text))]
    for plain, seen in (
        [Outline(render(page).html) for page in pages],
        [Outline(render_group(page, page.worst[0], "r.html")) for page in pages],
    ):
        assert [tag for tag, _ in seen.tags] == [tag for tag, _ in plain.tags]
        assert {name for _, given in seen.tags for name in given} == {name for _, given in plain.tags for name in given}
        assert seen.texts["script"] == plain.texts["script"] and seen.texts["style"] == plain.texts["style"]
        shown = "".join(itertools.chain(*seen.texts.values(), seen.values("title"), seen.values("aria-label"), *seen.data))
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u2028-\u202e\u2066-\u2069\ud800-\udfff]", shown)
        assert visible(f"{text}-b") in shown and visible(f"{text}clicks") in shown


def test_control_and_direction_marks_are_written_out():
    rows = sample(("\x1b[31mred\u202ednim\ud800", "plain"))
    page = build_page(rows, AS_OF)
    for shown in (render(page).html, to_text(facts_of(page), Path("r.html"), None)):
        assert "\\x1b[31mred\\u202ednim\\ud800" in shown
        assert not re.search("[\x00-\x09\x0b-\x1f\u202a-\u202e\ud800-\udfff]", shown)


def test_each_worst_group_has_a_section_that_its_line_links_to():
    page = build_page(sample(("a", "b", "c")), AS_OF)
    seen = Outline(render(page).html)
    ids = seen.values("id")
    assert len(ids) == len(set(ids))
    assert {f"#{group.anchor}" for group in page.groups} <= set(seen.values("href"))
    assert {link[1:] for link in seen.values("href")} <= set(ids)


def test_every_table_has_a_caption_and_every_heading_a_scope():
    seen = outline(sample())
    assert sum(tag == "caption" for tag, _ in seen.tags) == sum(tag == "table" for tag, _ in seen.tags)
    assert all("scope" in attributes for tag, attributes in seen.tags if tag == "th")


# --- a large fleet -----------------------------------------------------------------------------------------------------


def test_five_thousand_groups_are_listed_and_the_worst_detailed_as_far_as_they_fit():
    rows = large_fleet(5_000, detailed=100)
    document = render(build_page(rows, AS_OF))
    assert MOST_BYTES / 2 < len(document.html.encode()) <= MOST_BYTES
    assert document.further == ()
    assert 10 < len(document.detailed) < 100
    seen = Outline(document.html)
    assert [line["group"] for line in seen.lines()] == [row["group_id"] for row in rows.ranked]
    sections = [attributes["id"] for tag, attributes in seen.tags if tag == "section" and attributes.get("class") == "group"]
    assert set(sections) == document.detailed
    assert f"The details of {len(document.detailed)} of 5,000 groups are on this page" in document.html
    ids = seen.values("id")
    assert len(ids) == len(set(ids)) and {link[1:] for link in seen.values("href")} <= set(ids)


def test_the_worst_are_rows_for_those_without_a_script_and_a_note_says_how_many():
    """With the groups that have details, whose rows lead to them."""
    rows = large_fleet(3_000, detailed=8)
    document = render(build_page(rows, AS_OF))
    table = document.html[document.html.index('<table id="group-table"') :].split("</table>")[0]
    names = re.findall('<th scope="row" class="id"><?.*?>?(team-[^<]*)<', table)
    assert names == [row["group_id"] for row in rows.ranked[:MOST_ROWS]]
    assert set(re.findall('href="#(group-.*?)"', table)) == document.detailed
    assert "<noscript>" in document.html and "the first 1,000 of the 3,000 lines in this file are shown" in document.html
    assert "<noscript>" not in render(build_page(large_fleet(MOST_ROWS, detailed=0), AS_OF)).html


def test_names_of_any_length_do_not_make_a_file_that_cannot_be_opened():
    rows = large_fleet(12_000, detailed=30, name="\N{PILE OF POO}<" * 300)
    rows = replace(rows, findings=[finding_row("unlisted"), finding_row(rows.ranked[11_999]["group_id"])])
    document = render(build_page(rows, AS_OF))
    files = [Outline(html) for html in (document.html, *document.further)]
    assert max(len(html.encode()) for html in (document.html, *document.further)) <= MOST_BYTES
    assert len(files) > 3 and document.detailed
    assert "unlisted" in document.html
    lines = [line["anchor"] for file in files for line in file.lines()]
    assert len(set(lines)) == len(lines) == 12_000
    for file in files:
        assert {link[1:] for link in file.values("href") if link.startswith("#")} <= {*file.values("id"), *lines}, "no link leads nowhere"


def test_names_that_are_cut_stay_different_and_whole_for_the_script():
    """In a title, and in the data that the script makes the filters of."""
    alike = [f"{'team.' * 40}{middle}{'.service' * 40}" for middle in ("first", "other")]
    strategies = ["two  blanks", "Range", "range", "x" * 121]
    names = [*alike, "a", "b"]
    rows = [group_row(name, strategy=strategy, cluster_id=name) for name, strategy in zip(names, strategies, strict=True)]
    seen = Outline(render(build_page(ReportRows(ranked=Ranking(rows)), AS_OF)).html)
    assert {given["title"] for tag, given in seen.tags if tag == "th" and "title" in given} == set(alike)
    assert {given["title"] for tag, given in seen.tags if given.get("class") == "word" and "title" in given} == {"x" * 121}
    assert {(line["group"], line["cluster"], line["strategy"]) for line in seen.lines()} == set(zip(names, names, strategies, strict=True))
    assert cut(alike[0], 30) == f"{alike[0][:17]}\N{HORIZONTAL ELLIPSIS}{alike[0][-12:]}"


def test_long_findings_do_not_make_the_page_too_large():
    rows = large_fleet(200, detailed=0)
    long = {"message": "&" * 100_000, "evidence": {"members": "<" * 100_000}, "rule_group_count": 500}
    rows = replace(rows, findings=[finding_row(row["group_id"], **long) for row in rows.ranked for _ in range(5)])
    html = render(build_page(rows, AS_OF)).html
    assert len(html.encode()) < 2_000_000
    shown = len(re.findall(r'id="finding-\d', html))
    assert 50 < shown < 500 and f"The first {shown} of 500 are listed;" in html


def test_details_that_do_not_fit_leave_room_for_those_of_the_next_group():
    rows = sample(("small", "huge"))
    huge = [flow_row(group_id="huge", topic=f"{number:06}{'t' * 249}", partitions=[0]) for number in range(20_000)]
    rows = replace(rows, flows=[*rows.flows, *huge])
    page = build_page(rows, AS_OF)
    assert [view.line.group_id for view in page.worst] == ["huge", "small"]
    assert render(page).detailed == {page.worst[1].line.anchor}


# --- for everybody -----------------------------------------------------------------------------------------------------


def palettes():
    """The colours of both themes by name; the dark one overrides some of the light one's."""
    style = resources.files("jobs.pages").joinpath("templates", "page.css").read_text(encoding="utf-8")
    light, dark = (
        dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block)) for block in re.findall(r":root \{(.*?)\}", style, re.DOTALL)[:2]
    )
    return {"light": light, "dark": light | dark}


def luminance(colour):
    """Relative luminance as WCAG 2.2 defines it."""
    channels = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(
    ("text", "back"),
    [
        *((text, back) for text in ("ink", "quiet", "link", "critical", "warning") for back in ("paper", "sheet", "tint")),
        *((name, f"{name}-back") for name in ("critical", "warning", "info")),
        ("ink", "info-back"),
        *(("on-light", f"h{level}") for level in (1, 2, 3)),
        *(("on-dark", f"h{level}") for level in (4, 5, 6)),
    ],
)
def test_text_stands_out_from_its_background(theme, text, back):
    darker, lighter = sorted(luminance(palettes()[theme][name]) for name in (text, back))
    assert (lighter + 0.05) / (darker + 0.05) >= 4.5, "WCAG 2.2, contrast (minimum)"


def test_headings_skip_no_level_and_every_drawing_has_words():
    page = build_page(sample(), AS_OF)
    for html in (render(page).html, render_group(page, page.worst[0], "r.html")):
        seen = Outline(html)
        levels = [int(tag[1]) for tag, _ in seen.tags if re.fullmatch("h[1-6]", tag)]
        assert levels[0] == 1 and all(below - above <= 1 for above, below in itertools.pairwise(levels))
        assert all(
            given.get("aria-hidden") == "true" or (given.get("role") == "img" and given["aria-label"])
            for tag, given in seen.tags
            if tag == "svg"
        )
        assert all(given.get("aria-label") and given.get("tabindex") == "0" for _, given in seen.tags if given.get("role") == "region")
        labelled = {given["aria-labelledby"] for _, given in seen.tags if "aria-labelledby" in given}
        assert labelled | {given["aria-controls"] for _, given in seen.tags if "aria-controls" in given} <= set(seen.values("id"))


# --- pages of single groups --------------------------------------------------------------------------------------------


def test_groups_without_room_link_to_pages_of_their_own():
    rows = sample(("here", "there"))
    rows = replace(rows, detailed=[row for row in rows.detailed if row["group_id"] != "there"])
    page = build_page(rows, AS_OF)
    there = next(group.anchor for group in page.groups if group.group_id == "there")
    seen = Outline(render(page, details="some%20pages").html)
    assert f"some%20pages/{there}.html" in seen.values("href")
    assert [value for value in seen.values("href") if not value.startswith("#")] == [f"some%20pages/{there}.html"]
    assert there in seen.values("id"), "the row itself can still be linked to"


def test_a_page_of_a_group_shows_what_the_report_would_and_leads_back():
    rows = sample(("here", "there"))
    page = build_page(rows, AS_OF)
    (view,) = build_views(replace(rows, detailed=[row for row in rows.detailed if row["group_id"] == "there"]), page.groups[:1])
    assert view == page.worst[0] and view.line.group_id == "there"
    html = render_group(page, view, "../report.html")
    seen = Outline(html)
    assert f"../report.html#{view.line.anchor}" in seen.values("href")
    assert view.line.anchor in seen.values("id")
    assert sum(tag == "section" and attributes.get("class") == "group" for tag, attributes in seen.tags) == 1
    assert "look at the leader&#39;s client" in html
