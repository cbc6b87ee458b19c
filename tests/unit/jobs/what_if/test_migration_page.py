"""The page of a migration plan: what it shows, that names stay text, and that it is split where it would become too large."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from jobs.pages.figures import visible
from jobs.reading.stored import GroupKey, PartitionWeights, StoredGeneration
from jobs.runtime.output_files import MIGRATION
from jobs.what_if.migration import FleetPlan, in_order, plan_migration
from jobs.what_if.migration_page import LONGEST_SENTENCE, MOST_ROWS, render_plan
from tests.builders.page_outline import Outline
from tests.builders.stored_groups import stored_group
from tests.faults.hostile_names import NAMES

LOADS_NOTHING = re.compile(r"default-src 'none'; style-src 'sha256-[^']+'; script-src 'sha256-[^']+'; base-uri 'none'; form-action 'none'")


def group(group_id: str = "g", topic: str = "t", **other: Any) -> StoredGeneration:
    return stored_group({"a": {topic: (0, 1)}, "b": {topic: (2, 3)}}, {topic: 4}, group_id=group_id, **other)


def pages(*groups: StoredGeneration, **other: Any) -> dict[str, str]:
    return render_plan(
        FleetPlan(tuple(in_order(plan_migration(one, PartitionWeights()) for one in groups)), 2), "run-1", "migration.html", **other
    )


def data(html: str) -> dict[str, Any]:
    """Return what the script makes rows of, with texts instead of their numbers."""
    (text,) = Outline(html).data
    document = json.loads(text)
    lines = [dict(zip(document["columns"], line, strict=True)) for line in document["lines"]]
    for line in lines:
        line.update({name: document["texts"][line[name]] for name in ("cluster", "strategy", "reasons", "partitions", "imbalance")})
        line["sentences"] = [document["texts"][number] for number in line["sentences"]]
    return {**document, "lines": lines}


def test_page_loads_nothing_and_is_known_as_a_migration_plan():
    (html,) = pages(group()).values()
    (policy,) = (attributes["content"] for tag, attributes in Outline(html).tags if attributes.get("http-equiv"))
    assert LOADS_NOTHING.fullmatch(policy)
    assert f"<title>{MIGRATION} of 1 group to the consumer protocol" in html
    assert not re.search(r"(src|href)=\"(?!#)", html)


def test_line_has_what_its_row_shows():
    (html,) = pages(group(leader_client="sarama", strategy="sticky"), group("other")).values()
    ready, blocked = data(html)["lines"]
    assert (ready["group"], ready["kind"], ready["moves"], ready["stopped"], ready["partitions"]) == ("other", 0, 0, 0, "2")
    assert (blocked["kind"], blocked["moves"]) == (2, None)
    assert blocked["reasons"] == "user data in assignments and a client library without the protocol"
    rows = re.findall(r"<tr><td>(\d+)</td><th[^>]*>(.*?)</th>.*?</tr>", html)
    assert rows == [("1", "other"), ("2", "g")]
    for sentence in blocked["sentences"]:
        assert sentence in html.replace("&#39;", "'").partition("group-lines")[0]


def test_cluster_has_a_column_only_where_there_are_several():
    (one,) = pages(group()).values()
    (two,) = pages(group(), replace(group(), key=GroupKey("other", "g"))).values()
    assert ('data-column="cluster"' in one, 'data-column="cluster"' in two) == (False, True)


@pytest.mark.parametrize("name", NAMES)
def test_any_name_stays_text(name: str):
    odd = replace(group(name or "g", topic=name, strategy=name or "range", leader_client=None), key=GroupKey(name, name))
    (html,) = pages(odd, group("plain")).values()
    (plain,) = pages(group("other"), group("plain")).values()
    tags = {tag for tag, _ in Outline(html).tags}
    assert tags <= {tag for tag, _ in Outline(plain).tags} | {"noscript"}
    (line,) = (line for line in data(html)["lines"] if line["group"] != "plain")
    assert (line["group"], line["cluster"]) == (visible(name), visible(name))
    assert "<" not in "".join(Outline(html).data)
    assert set(html) & set("\x00\x1b\x7f\u202e\u2066\u2028\u2029\ufeff\r") == set()


def test_long_sentences_are_cut():
    (html,) = pages(group(strategy="x" * 9_000)).values()
    assert max(len(sentence) for line in data(html)["lines"] for sentence in line["sentences"]) == LONGEST_SENTENCE


def test_lines_continue_in_further_files_that_are_small_enough():
    groups = [group(f"g-{number:04}") for number in range(1_500)]
    found = pages(*groups, most_bytes=140_000)
    assert list(found)[-1] == "migration.html" and len(found) > 1
    assert max(len(html.encode()) for html in found.values()) <= 140_000
    ordered = ["migration.html", *(f"migration-groups-{number}.html" for number in range(2, len(found) + 1))]
    assert [line["group"] for name in ordered for line in data(found[name])["lines"]] == [one.key.group_id for one in groups]
    counts = [len(data(found[name])["lines"]) for name in ordered]
    assert [data(found[name])["first"] for name in ordered] == [1 + sum(counts[:at]) for at in range(len(ordered))]
    assert all(f'href="{name}"' in found["migration.html"] for name in ordered[1:])


def test_first_lines_are_rows_and_twenty_thousand_groups_fit():
    one = plan_migration(group(), PartitionWeights())
    plans = [replace(one, stored=replace(one.stored, key=GroupKey("c", f"team.service-{number}"))) for number in range(20_000)]
    (html,) = render_plan(FleetPlan(tuple(plans)), "run-1", "m.html").values()
    assert len(html.encode()) < 3_000_000
    assert html.partition("group-lines")[0].count("<tr><td>") == MOST_ROWS


def test_groups_that_are_not_in_the_plan_are_named():
    plans = tuple(in_order([plan_migration(group(), PartitionWeights())]))
    (html,) = render_plan(FleetPlan(plans, 0, (GroupKey("c", "<b>gone"),)), "run-1", "m.html").values()
    assert "1 group is not in the plan, because no settled generation with members is stored: &lt;b&gt;gone." in html
    (html,) = render_plan(FleetPlan(plans), "run-1", "m.html").values()
    assert "not in the plan" not in html
