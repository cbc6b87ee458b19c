"""Explain on a small warehouse: its sentences, the rows that show them, and the schema of its JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from jobs import cli
from jobs.reading.groups import find_groups
from jobs.reading.one_group import read_group_generation
from jobs.reading.published import open_published
from jobs.show.described import describe_generation
from jobs.show.explanation import schema
from jobs.show.statements import listed
from jobs.show.text import count, generation_lines
from schemas.tables import ALL_TABLES
from tests.builders.published_warehouse import at, finding, generation, member, metadata, movement, write_warehouse

PUBLISHED = Path(__file__).resolve().parents[4] / "docs" / "explain.schema.json"
ORDERS = {"orders": 4}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a warehouse with a group of two generations, and one that nothing is known of."""
    alone = [member("a-1", ["orders"], {"orders": [0, 1, 2, 3]})]
    both = [
        member("a-1", ["orders"], {"orders": [0, 1, 2]}),
        member("b-2", ["orders"], {"orders": [3]}, group_instance_id="static-b"),
    ]
    causes = [{"cause": "joined", "member_id": "b-2", "source": "records", "detail": None}]
    handed = [{"cause": "hand_over", "member_id": None, "source": "records", "detail": None}]
    loads = {"partitions_per_member_min": 1, "partitions_per_member_max": 3, "imbalance_ratio": 1.5, "partition_count": 4}
    moves = {"previous_generation": 10, "movement_count": 1, "avoidable_movement_count": 1, "is_lower_bound": False}
    verdict = {"verdict": "better_elsewhere", "better_strategy": "sticky", "better_gain": 0.5, "idle_member_count": 0}
    return write_warehouse(
        tmp_path_factory.mktemp("explain") / "w",
        generation("pay", 10, alone, ORDERS, audited={"partition_count": 4}),
        generation("pay", 20, both, ORDERS, audited={**loads, **moves, **verdict, "triggers": ["member_joined"], "causes": causes}),
        movement("pay", 20, "orders", 3, "a-1", "b-2"),
        finding("pay", 20, "range_crowded", "warning", "Range gives a-1 3 of 4", "Use sticky."),
        finding("pay", 10, "idle_members", "info", "1 idle", "Nothing."),
        generation("lone", 10, alone, ORDERS, audited={"partition_count": 4}),
        generation(
            "handing", 10, both, ORDERS, audited={"previous_generation": 9, "triggers": ["cooperative_follow_up"], "causes": handed}
        ),
        finding("handing", 10, "partition_flapping", "warning", "It flaps", "Look."),
        finding("handing", 10, "restart_loop", "warning", "It restarts", "Look."),
        finding("handing", 10, "idle_members", "critical", "1 idle", "Look."),
        generation(
            "turned", 10, both, ORDERS, audited={"previous_generation": 10, "partition_count": 4, "triggers": ["upgraded_to_consumer"]}
        ),
        *(
            generation(
                name,
                10,
                both,
                ORDERS,
                audited={**loads, **moves, "previous_generation": 9 - gap, "generation_gap": gap, "triggers": ["first_seen"]},
            )
            for name, gap in (("after-one", 1), ("after-three", 3))
        ),
        movement("after-three", 10, "orders", 3, "a-1", "b-2"),
        generation("turned-midway", 10, both, ORDERS, is_conversion=True, audited={"previous_generation": 9, "partition_count": 4}),
        generation("no-assignor", 10, both, ORDERS, strategy="", audited={"partition_count": 4}),
        generation("described", 10, alone, ORDERS, has_subscriptions=False, is_generation_inferred=True),
        generation("described", 20, both, ORDERS, has_subscriptions=False, is_generation_inferred=True),
        generation("described-848", 10, alone, ORDERS, has_subscriptions=False, is_generation_inferred=False),
        generation("new", 2, both, ORDERS, audited={"movement_count": 0, "triggers": ["group_created", "member_joined"]}),
        generation("emptied", 10, [], ORDERS, strategy=""),
        generation("mended", 10, both, ORDERS, audited={**loads, **verdict}),
        finding("mended", 10, "idle_members", "info", "1 idle", "Nothing."),
        finding("mended", 10, "range_crowded", "critical", "Range gives a-1 3 of 4", "Use sticky."),
        generation("mended", 20, both, ORDERS),
        finding("mended", 20, "idle_members", "info", "1 idle", "Nothing."),
        *(
            generation(name, 10, both, ORDERS, audited={**verdict, "imbalance_ratio": ratio, "better_gain": 0.9})
            for name, ratio in (("even", 1.0), ("uneven", 1.5))
        ),
        *(
            generation(
                name, 10, both, ORDERS, audited={**loads, "verdict": "inherent", "least_spread": least_spread, "triggers": ["first_seen"]}
            )
            for name, least_spread in (("even-as-can-be", 2), ("not-even", 0))
        ),
    )


@pytest.fixture
def explain(warehouse: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run the command; return what it prints."""

    def run(*words: str) -> str:
        assert cli.console_main(["explain", *words, "--warehouse", str(warehouse)]) == 0
        return capsys.readouterr().out

    return run


TEXT = """\
What happened
  Generation 20 of group pay began at 2026-11-21 02:00:20 UTC. [1]
  The assignor range shared 4 partitions among 2 members. [1]
  1 member joined: static-b. [2] [3]
  1 partition changed against generation 10: 1 revoked. 1 of 1 movement was avoidable. [4] [1]
  Each member has 1 to 3 partitions. The imbalance is 1.50, where 1 is even. [1]

Why
  What changed since the generation before: member joined. [1]
  Cause: joined, member static-b. The records show it. [1]
  Another assignor would be more even. [1]

What to change
  Warning, range crowded: Range gives a-1 3 of 4. Use sticky. [5]
  With sticky the imbalance would be 1.00. Rehearse it with what-if first. [1]
  Other generations of the group have findings that this one does not have: idle members (generation 10). [6]

Rows
  [1] generation_audits: cluster_id=c, group_id=pay, position=20, basis=observed, strategy=range
  [2] subscription_snapshots: cluster_id=c, group_id=pay, position=10
  [3] subscription_snapshots: cluster_id=c, group_id=pay, position=20
  [4] movements: cluster_id=c, group_id=pay, position=20, basis=observed, strategy=range
  [5] findings: cluster_id=c, group_id=pay, position=20, rule_id=range_crowded
  [6] findings: cluster_id=c, group_id=pay, position=10, rule_id=idle_members
"""


@pytest.mark.parametrize("group", ["described", "described-848"])
def test_generation_of_a_source_that_shows_moments_was_seen_and_may_have_begun_earlier(explain: Any, group: str) -> None:
    first, second = explain(group, "--generation", "10").split("\n")[1:3]
    until = " The next generation was seen at 2026-11-21 02:00:20 UTC." if group == "described" else ""
    assert first == f"  Generation 10 of group {group} was seen at 2026-11-21 02:00:10 UTC.{until} [1]"
    assert second == "  Its source shows the group at moments, so it may have begun earlier. [2]"


def test_sentences_say_what_happened_why_and_what_to_change(explain: Any) -> None:
    assert explain("pay") == TEXT


def test_group_of_which_little_is_known_is_explained_without_guesses(explain: Any) -> None:
    text = explain("lone")
    assert "The generation before is not known, so it is not known what moved." in text
    assert "The generation before is not known, so no reason is known." in text
    assert "Nothing in this generation needs a change." in text


def test_generations_that_are_missing_before_one_are_counted_and_nothing_is_called_avoidable(explain: Any, warehouse: Path) -> None:
    one, three = explain("after-one"), explain("after-three")
    assert "1 generation between 8 and 10 is not known. What changed in it counts here too. [1]" in one
    assert "3 generations between 6 and 10 are not known. What changed in them counts here too. [1]" in three
    assert "1 partition changed against generation 6: 1 revoked. [2] [1]" in three
    assert "avoidable" not in one + three
    tables = open_published(str(warehouse))
    (key,) = find_groups(tables, ["after-three"])
    assert "3 generations before it are not known" in generation_lines(describe_generation(read_group_generation(tables, key)))


def test_first_generation_of_a_group_has_none_before_it_to_be_unknown(explain: Any) -> None:
    text = explain("new")
    assert "It is the first generation since the group was created, so there is none before it to compare with." in text
    assert "What changed: group created, member joined." in text
    assert "not known" not in text and "since the generation before" not in text


def test_members_of_a_group_without_a_known_assignor_are_not_denied(explain: Any) -> None:
    text = explain("no-assignor")
    assert "An assignor that is not known shared 4 partitions among 2 members." in text and "no members" not in text
    assert "The group had no members." in explain("emptied", "--generation", "10")


def test_a_repeated_generation_was_not_made_by_an_assignor(explain: Any) -> None:
    """The coordinator writes it when a static member returns, and when the group changes its protocol."""
    text = explain("turned")
    assert "It is a rewrite." in text and "  No assignor ran. 2 members have 4 partitions. [1]" in text and "shared" not in text


def test_a_conversion_with_a_number_of_its_own_was_not_made_by_an_assignor_either(explain: Any) -> None:
    text = explain("turned-midway")
    assert "  No assignor ran. 2 members have 4 partitions. [1]" in text and "rewrite" not in text and "shared" not in text


def test_hand_over_names_the_generation_that_it_finishes(explain: Any) -> None:
    assert "Cause: hand over, which finishes generation 9. The records show it. [1]" in explain("handing")


def test_a_text_of_a_client_stays_as_it_is_and_triggers_are_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    causes = [
        {"cause": "enforced", "member_id": None, "source": "log", "detail": "max_lag of app_1 is 5_000"},
        {"cause": "metadata_changed", "member_id": None, "source": "records", "detail": "partitions_added, topic_created"},
    ]
    alone = [member("a-1", ["orders"], {"orders": [0, 1, 2, 3]})]
    folder = write_warehouse(tmp_path / "w", generation("pay", 10, alone, ORDERS, audited={"causes": causes}))
    for command in ("explain", "show"):
        assert cli.console_main([command, "pay", "--warehouse", str(folder)]) == 0
        out = capsys.readouterr().out
        assert "ause: enforced (max_lag of app_1 is 5_000)" in out
        assert "ause: metadata changed (partitions added, topic created)" in out


def test_symptoms_come_after_other_findings_of_their_severity(explain: Any) -> None:
    found = re.findall(r"^  (?:Critical|Warning), (.*?): ", explain("handing"), re.MULTILINE)
    assert found == ["idle members", "restart loop", "partition flapping"]


def change(text: str) -> list[str]:
    """Return the sentences under the last heading, without the numbers of their rows."""
    return re.findall(r"^  (.*?) \[.*$", text.partition("What to change\n")[2].partition("\n\n")[0], re.MULTILINE)


def test_what_a_newer_generation_does_not_have_is_past_and_comes_last(explain: Any) -> None:
    assert change(explain("mended", "--generation", "10")) == [
        "Info, idle members: 1 idle. Nothing.",
        "Critical, range crowded, past: Range gives a-1 3 of 4. Use sticky.",
        "With sticky the imbalance would have been 1.00.",
    ]
    assert change(explain("mended"))[0] == "Info, idle members: 1 idle. Nothing."


@pytest.mark.parametrize(("newest", "past"), [(610, ""), (611, ", past")])
def test_a_storm_is_past_after_ten_minutes_as_in_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], newest: int, past: str
) -> None:
    alone = [member("a-1", ["orders"], {"orders": [0, 1, 2, 3]})]
    storm = finding("pay", 10, "rebalance_storm", "warning", "5 rebalances", "Look.")
    folder = write_warehouse(tmp_path / "w", generation("pay", 10, alone, ORDERS), storm, metadata("other", newest, [1]))
    assert cli.console_main(["explain", "pay", "--warehouse", str(folder)]) == 0
    sentences = change(capsys.readouterr().out)
    assert sentences[0] == f"Warning, rebalance storm{past}: 5 rebalances. Look."
    assert sentences[1:] == (["Nothing of that holds now, so nothing needs a change."] if past else [])


def test_sentences_separate_thousands_as_the_report_does() -> None:
    assert [count(number, "partition") for number in (None, 0, 1, 12_000)] == [
        "unknown partitions",
        "0 partitions",
        "1 partition",
        "12,000 partitions",
    ]
    assert listed(map(str, range(1_009)), 8)[-1] == " and 1,001 more"


def test_markdown_has_the_same_sentences_with_names_as_code(explain: Any) -> None:
    text = explain("pay", "--format", "markdown")
    assert text.startswith("### Group `pay` of cluster `c`, generation 20\n\n**What happened**\n\n* Generation 20 of group `pay` began")
    assert "* 1 member joined: `static-b`. (row 2, row 3)\n" in text
    assert "| 6 | `findings` | 1 | `cluster_id` = `c`, `group_id` = `pay`, `position` = `10`, `rule_id` = `idle_members` |\n" in text


def test_json_follows_the_published_schema(explain: Any) -> None:
    validator = jsonschema.Draft202012Validator(json.loads(PUBLISHED.read_text(encoding="utf-8")))
    for words in (["pay"], ["pay", "--generation", "10"], ["lone"]):
        validator.validate(json.loads(explain(*words, "--format", "json")))
    damaged = {**json.loads(explain("pay", "--format", "json")), "generation": "twenty"}
    assert not validator.is_valid(damaged)


def test_published_schema_is_that_of_the_model() -> None:
    assert PUBLISHED.read_text(encoding="utf-8") == schema(), "python -m jobs.show.explanation > docs/explain.schema.json"


def test_rows_that_the_json_names_are_in_the_tables(explain: Any, warehouse: Path) -> None:
    document = json.loads(explain("pay", "--format", "json"))
    tables = open_published(str(warehouse))
    assert document["observed_at"] == at(20).isoformat().replace("+00:00", "Z")
    for one in document["rows"]:
        key = {name: [value] for name, value in one["key"].items()}
        assert len(tables.rows(one["table"], [*ALL_TABLES[one["table"]].key], key)) == one["row_count"]
    stated = [number for part in ("happened", "why", "change") for one in document[part] for number in one["rows"]]
    assert {*stated} == {one["number"] for one in document["rows"]}


def test_imbalance_that_another_assignor_would_give_is_never_below_even(explain: Any) -> None:
    """The gain is that between two histories, of which the observed one may be more even than both."""
    assert "With sticky the imbalance would be 1.00." in explain("uneven")
    text = explain("even")
    assert "Nothing in this generation needs a change." in text and "sticky" not in text


def test_inherent_is_said_only_where_no_assignment_is_more_even(explain: Any) -> None:
    assert "no assignment of these partitions to these members is more even" in explain("even-as-can-be")
    text = explain("not-even")
    assert "No compared assignor would have been more even over the history of the group. A more even assignment is possible." in text
    assert "inherent" not in text
