"""``what-if --migrate`` on a small warehouse: what it prints, what it writes, and how it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from jobs import cli
from tests.builders.published_warehouse import Row, generation, member, write_warehouse

ORDERS = {"orders": 4}
Ask = Callable[..., tuple[int, str, str]]


def halves(**other: object) -> list[Row]:
    """Return two members with two partitions of ``orders`` each."""
    return [member("a-1", ["orders"], {"orders": [0, 1]}, **other), member("b-1", ["orders"], {"orders": [2, 3]}, **other)]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    parts = [
        generation("even", 10, halves(), ORDERS, leader_client="java"),
        generation("app", 10, halves(), ORDERS, strategy="stream"),
        generation("new", 10, halves(), ORDERS, strategy="uniform", group_type="consumer"),
        generation("evil\x1b[31m", 10, halves(), ORDERS, strategy="own\u202e"),
        *(generation(f"many-{number}", 10, halves(), ORDERS) for number in range(11)),
        *(generation(f"gone-{number}\x1b[31m", 10, [], ORDERS) for number in range(7)),
    ]
    return write_warehouse(tmp_path_factory.mktemp("migrate") / "w", *parts)


@pytest.fixture
def ask(ask: Ask) -> Ask:
    return partial(ask, "--migrate")


def test_few_groups_are_explained_with_the_steps(ask: Ask):
    code, out, _ = ask("even", "app", "new")
    lines = out.splitlines()
    assert (code, lines[0]) == (
        0,
        "2 classic groups, fewest risks first: 1 ready, 1 blocked. The consumer protocol is used already by 1.",
    )
    assert lines[3:5] == [
        "even      range        2           2       1.00      0              0  ready",
        "app      stream        2           2       1.00      -              -  blocked by Kafka Streams",
    ]
    assert "even: ready" in lines and "app: blocked by Kafka Streams" in lines
    assert lines[lines.index("to move a group:") + 1].startswith("  1. Check that the brokers run Kafka 4.0 or later")
    assert lines[-1] == "  Groups of Kafka Connect. They stay classic."


def test_of_many_groups_the_table_is_printed_only(ask: Ask):
    _, out, _ = ask("many-*")
    assert "many-0: ready" not in out and "Name some of the groups to see their reasons" in out


def test_without_names_it_is_about_all_groups(ask: Ask):
    (_, of_all, _), (_, out, _) = ask("--all"), ask()
    assert out == of_all and out.startswith("14 classic groups")


def test_groups_without_members_are_counted_and_named(ask: Ask):
    sentence = "7 groups are not in the plan, because no settled generation with members is stored: "
    _, out, _ = ask("even", "gone-*")
    assert out.splitlines()[1] == sentence + ", ".join(f"gone-{number}\\x1b[31m" for number in range(5)) + " and 2 more."
    _, out, _ = ask("even", "gone-*", "--json")
    assert [one["group_id"] for one in json.loads(out)["unplanned_groups"]] == [f"gone-{number}\x1b[31m" for number in range(7)]
    _, out, _ = ask("even", "gone-1\x1b[31m")
    assert out.splitlines()[1].startswith("1 group is not in the plan, ")
    _, out, _ = ask("even")
    assert "not in the plan" not in out


def test_blocked_groups_have_no_steps(ask: Ask):
    _, out, _ = ask("app")
    assert "to move a group" not in out


def test_names_are_escaped_for_the_terminal(ask: Ask):
    _, out, _ = ask("evil*")
    assert "evil\\x1b[31m" in out and not set(out) & {"\x1b", "\u202e"}


def test_document_has_the_groups_in_order_with_reasons(ask: Ask):
    _, out, _ = ask("even", "app", "new", "--json")
    document = json.loads(out)
    assert document["consumer_protocol_group_count"] == 1
    assert [(one["group_id"], one["verdict"], one["movement_count"]) for one in document["groups"]] == [
        ("even", "ready", 0),
        ("app", "blocked by Kafka Streams", None),
    ]
    assert document["groups"][1]["reasons"][0]["what"] == "Kafka Streams"


def test_page_is_written_where_it_is_asked_for_and_replaces_only_a_plan(ask: Ask, tmp_path: Path):
    page = tmp_path / "new" / "migration.html"
    for _ in range(2):
        code, out, _ = ask("even", "--output", str(page))
        assert (code, out.splitlines()[-1]) == (0, str(page))
    assert "<title>Evenkeel: migration of 1 group to the consumer protocol" in page.read_text()
    report = tmp_path / "report.html"
    report.write_text(page.read_text().replace("Evenkeel: migration", "Evenkeel: rebalances"))
    before = report.read_text()
    code, out, err = ask("even", "--output", str(report))
    assert (code, out, err) == (2, "", f"evenkeel: --output: {report} is a file that holds no migration plan; name another file\n")
    assert report.read_text() == before


def test_page_has_the_ending_of_one(ask: Ask, tmp_path: Path):
    """A text under the name of one would be HTML."""
    code, out, err = ask("even", "--output", str(tmp_path / "plan.txt"))
    said = "expected a name that ends with .html, since a page is written, found"
    assert (code, out, list(tmp_path.iterdir())) == (2, "", []) and err.startswith(f"evenkeel: --output: {said} ")


def test_nothing_is_written_into_tables(ask: Ask, warehouse: Path):
    code, _, err = ask("even", "--output", str(warehouse / "runs" / "page.html"))
    assert code == 2 and "lies in the Delta table" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("new",), "--migrate: the group uses the consumer protocol already, expected a classic group"),
        (("even", "--add-members", "2"), "--migrate excludes --add-members: it plays the move to the consumer protocol only"),
        (("even", "--threads-per-member", "2"), "--migrate excludes --threads-per-member"),
        (("even", "--strategies", "range"), "--migrate excludes --strategies"),
        (("even", "--history"), "--migrate excludes --history"),
        (("evn",), "the nearest names are 'even'"),
    ],
)
def test_what_cannot_be_planned_is_refused_in_one_line(ask: Ask, words: tuple[str, ...], message: str):
    code, out, err = ask(*words)
    assert (code, out) == (2, "") and message in err and err.count("\n") == 1


def test_output_needs_a_plan(warehouse: Path, capsys: pytest.CaptureFixture[str]):
    assert cli.console_main(["what-if", "even", "--warehouse", str(warehouse), "--output", "x.html"]) == 2
    assert capsys.readouterr().err == "evenkeel: --output goes with --migrate\n"
