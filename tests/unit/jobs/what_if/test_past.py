"""What the command says of the past of groups in a small warehouse, and how it refuses."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs import cli
from jobs.backtest import judging
from jobs.reading.generations import RecordedGeneration, read_generations
from jobs.what_if import past
from tests.builders.published_warehouse import Row, generation, member, write_warehouse

FOUR = {"t": 4}
CREATED = {"previous_generation": None, "generation_gap": None, "triggers": ["group_created"]}
EVIL = "evil\x1b[31m\u202e"


def follows(before: int, *triggers: str, **other: Any) -> Row:
    """Return the columns of an audit whose predecessor is known, with the number of that one."""
    return {"previous_generation": before, "generation_gap": 0, "triggers": list(triggers), **other}


def cost(revocations: int, movements: int, actual: int | None = None) -> Row:
    """Return what an assignor costs under either protocol."""
    return {
        "eager_revocation_count": revocations,
        "cooperative_revocation_count": revocations,
        "actual_revocation_count": actual,
        "movement_count": movements,
    }


def members(**held: str) -> list[Row]:
    """Return members with their partitions of ``t``, one digit each."""
    return [member(name, ["t"], {"t": map(int, numbers)} if numbers else {}) for name, numbers in held.items()]


def costly(group: str, position: int, observed: Row, **under: Row) -> dict[str, list[Row]]:
    """Return a generation with its costs under assignors."""
    assignors = {name.replace("_", "-"): columns for name, columns in under.items()}
    return generation(group, position, members(a="01", b="23"), FOUR, audited={**follows(1, "none_visible"), **observed}, under=assignors)


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a warehouse with groups whose costs are known, and groups whose generations are predicted well or badly."""
    parts = [
        costly("pay", 10, cost(1_200, 700, 1_200), cooperative_sticky=cost(40, 30), range=cost(1_200, 700)),
        costly("pay", 20, cost(4, 3), cooperative_sticky=cost(1, 2), range=cost(4, 3)),
        costly("ship", 15, cost(6, 5, 6), cooperative_sticky=cost(2, 1)),
        generation(EVIL, 5, members(a="01", b="23"), FOUR, audited=CREATED),
        generation(EVIL, 6, members(a="0123"), FOUR, audited=follows(5, "member_left"), under={"s\x1b": cost(1, 1)}, leader_client="j\x1b"),
        generation(
            EVIL,
            7,
            members(**{"a": "01", "b\u202e": "23"}),
            FOUR,
            strategy="sticky",
            audited=follows(6, "member_joined"),
            leader_client="j\x1b",
        ),
        generation("good", 1, [], {}, audited=CREATED),
        generation("good", 2, members(a="0123"), FOUR, audited=follows(1, "member_joined"), leader_client="java"),
        generation("good", 3, members(a="01", b="23"), FOUR, audited=follows(2, "member_joined"), leader_client="java"),
        generation("good", 4, members(a="01", b="23"), FOUR, audited=follows(3, "none_visible"), leader_client="java"),
        generation("bad", 1, members(a="0123"), FOUR, audited={**CREATED, "triggers": None}),
        generation("bad", 2, members(a="23", b="01"), FOUR, audited=follows(1, "member_joined"), leader_client="sarama"),
        generation("bad", 3, members(a="012", b="3", c=""), FOUR, audited=follows(2, "member_joined"), leader_client="sarama"),
    ]
    return write_warehouse(tmp_path_factory.mktemp("past") / "w", *parts)


def rows(text: str) -> list[list[str]]:
    """Return the cells of the lines that are rows of tables."""
    return [cells for line in text.splitlines() if len(cells := re.split(r"\s{2,}", line.strip())) > 3]


# -- --history


def test_history_compares_each_assignor_with_what_was(ask: Any):
    code, out, err = ask("--history", "pay")
    assert (code, err) == (0, "")
    assert out.startswith("pay of cluster c, over all that is stored\n\n")
    assert rows(out) == [
        ["generations", "revocations", "instead of", "movements", "instead of"],
        ["as it was", "2", "1,204", "-", "703", "-"],
        ["range", "2", "1,204", "1,204", "703", "703"],
        ["cooperative-sticky", "2", "41", "1,204", "32", "703"],
    ]
    sentence = "under cooperative-sticky over all that is stored: 41 revocations instead of 1,204, 32 movements instead of 703\n"
    assert sentence in out
    assert "note: The claims of 1 generation do not show what members gave up." in out


def test_several_groups_have_a_total(ask: Any):
    _, out, _ = ask("--history", "pay", "ship")
    assert [line for line in out.splitlines() if " of cluster " in line or "total" in line] == [
        "pay of cluster c, over all that is stored",
        "ship of cluster c, over all that is stored",
        "in total, 2 groups, over all that is stored",
    ]
    assert rows(out)[-3:] == [
        ["as it was", "3", "1,210", "-", "708", "-"],
        ["range", "2", "1,204", "1,204", "703", "703"],
        ["cooperative-sticky", "3", "43", "1,210", "33", "708"],
    ]
    assert out.endswith("left out for range: 1 generation: no run has computed it there\n")


def test_history_begins_with_the_time_that_is_named(ask: Any):
    _, out, _ = ask("--history", "--since", "2026-11-21T02:00:15Z", "pay", "ship")
    assert out.startswith("pay of cluster c, since 2026-11-21 02:00:15 UTC\n")
    assert [cells[1:3] for cells in rows(out) if cells[0] == "as it was"] == [["1", "4"], ["1", "6"], ["2", "10"]]


def test_history_as_json_has_the_same_figures(ask: Any):
    document = json.loads(ask("--history", "--json", "pay", "--since", "2026-11-21")[1])
    (group,) = document["groups"]
    strategy = group["strategies"][1]
    assert (document["since"], group["group_id"], group["best"]) == ("2026-11-21T00:00:00+00:00", "pay", "cooperative-sticky")
    assert group["observed"] == {"generation_count": 2, "revocation_count": 1_204, "movement_count": 703}
    assert (strategy["strategy"], strategy["revocation_count"], strategy["observed_revocation_count"]) == ("cooperative-sticky", 41, 1_204)
    assert document["total"] == {name: group[name] for name in document["total"]}


# -- --backtest


def test_backtest_has_the_shares_of_each_strategy_and_client(ask: Any):
    code, out, err = ask("--backtest", "good", "bad")
    assert (code, err) == (0, "")
    assert rows(out) == [
        ["predicted", "exact", "equal sets", "equal balance", "differs"],
        ["range, java", "1", "1 (100.0%)", "0", "0", "0"],
        ["range, sarama", "2", "0", "0", "1 (50.0%)", "1 (50.0%)"],
        ["in total", "3", "1 (33.3%)", "0", "1 (33.3%)", "1 (33.3%)"],
    ]
    reason = "the leader's client gives out something else than Kafka's assignor"
    assert f"not exact: 2\n  bad of cluster c, generation 2, range, sarama: equal balance: {reason}\n" in out
    assert f"  bad of cluster c, generation 3, range, sarama: differs: {reason}\n\nleft out: 4\n" in out
    omitted = out.partition("left out: 4\n")[2].splitlines()
    assert omitted == [
        "  2: it or the one before has no members",
        "  1: nothing shows why the group rebalanced",
        "  1: the generation before is not known",
    ]


def test_backtest_begins_with_the_time_that_is_named(ask: Any):
    """The generation before the span is what its first one is predicted from."""
    document = json.loads(ask("--backtest", "--json", "--since", "2026-11-21T02:00:03Z", "good", "bad")[1])
    assert (document["total"]["prediction_count"], document["left_out"]) == (2, {"no_visible_cause": 1})
    assert [(one["group_id"], one["generation"]) for one in document["differences"]] == [("bad", 3)]


def test_backtest_reads_what_the_span_needs(ask: Any, monkeypatch: pytest.MonkeyPatch):
    read: list[int] = []

    def spy(*arguments: Any) -> Iterator[RecordedGeneration]:
        for one in read_generations(*arguments):
            read.append(one.generation.generation)
            yield one

    monkeypatch.setattr(past, "read_generations", spy)
    ask("--backtest", "--since", "2026-11-21T02:00:04Z", "good")
    assert read == [2, 3, 4]


def test_backtest_as_json_has_the_same_figures(ask: Any):
    document = json.loads(ask("--backtest", "--json", "good", "bad")[1])
    counts = {"exact_count": 0, "equal_sets_count": 0, "equal_balance_count": 1, "differs_count": 1}
    assert document["shares"][1] == {"strategy": "range", "leader_client": "sarama", "prediction_count": 2, **counts}
    assert (document["reasons"], document["difference_count"]) == ({"other_client": 2}, 2)
    assert document["differences"][0]["reasons"] == [{"reason": "other_client", "names": []}]


def test_differences_are_shown_up_to_a_number(ask: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(judging, "MOST_DIFFERENCES", 1)
    _, out, _ = ask("--backtest", "bad")
    assert re.findall(r"^  (?:bad of|and).*?(?=,|$)", out, re.MULTILINE) == ["  bad of cluster c", "  and 1 more"]
    document = json.loads(ask("--backtest", "--json", "bad")[1])
    assert (document["difference_count"], len(document["differences"])) == (2, 1)


def test_group_without_predictions_is_an_answer(ask: Any):
    code, out, _ = ask("--backtest", "--since", "2026-11-21T02:00:04Z", "good")
    assert (code, out) == (0, "no generation can be predicted\n\nleft out: 1\n  1: nothing shows why the group rebalanced\n")


# -- both


@pytest.mark.parametrize("asked", ["--history", "--backtest"])
def test_groups_are_answered_in_batches(ask: Any, monkeypatch: pytest.MonkeyPatch, asked: str):
    whole = ask(asked)
    assert whole[0] == 0 and whole == ask(asked, "--all")
    monkeypatch.setattr(past, "GENERATIONS_AT_ONCE", 3)
    code, out, err = ask(asked)
    assert (code, out) == (0, whole[1])
    assert err.splitlines()[-1].endswith("5 of 5 groups are done")


@pytest.mark.parametrize("asked", ["--history", "--backtest"])
def test_names_are_escaped(ask: Any, asked: str):
    code, out, _ = ask(asked, "evil*", "pay")
    assert code == 0 and "\\x1b" in out
    assert [char for char in out if not char.isprintable() and char != "\n"] == []


@pytest.mark.parametrize("asked", ["--add-members 1", "--history", "--migrate"])
def test_a_name_with_a_backslash_does_not_look_like_an_escape(tmp_path: Path, capsys: pytest.CaptureFixture[str], asked: str):
    """A group that is called as show shows another one."""
    both = [member("a-1", ["t"], {"t": [0]}), member("b-1", ["t"], {"t": [1]})]
    names = ("two\nlines", "two\\nlines", " ")
    folder = write_warehouse(tmp_path / "w", *(generation(name, 10, both, {"t": 2}) for name in names))
    groups = ["*"] if asked != "--migrate" else []
    assert cli.console_main(["what-if", "--warehouse", str(folder), *groups, *asked.split()]) == 0
    out = capsys.readouterr().out
    shown = (r"two\nlines", r"two\\nlines", "' '")
    begun = [line.removeprefix(name)[:1] for name in shown for line in out.splitlines() if line.startswith(name)]
    assert set(begun) <= {" ", ":", ","} and len(begun) == len(names) * (2 if asked == "--migrate" else 1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--history --backtest", "--history excludes --backtest"),
        ("--history --add-members 1", "--history excludes --add-members: it is about what has happened, and plays no change"),
        ("--backtest --members 1..3", "--backtest excludes --members"),
        ("--backtest --strategies sticky", "--backtest excludes --strategies"),
        ("--history --scenario x.yaml", "--history excludes --scenario"),
        ("--history --threads-per-member 2", "--history excludes --threads-per-member"),
        ("--history --all pay", "--all excludes names of groups"),
        ("--since 2026-11-21 pay", "--since goes with --history or --backtest"),
        ("--history pey", "group 'pey': not among the groups of the warehouse, the nearest names are 'pay'"),
        ("--backtest zz*", "groups 'zz*': the pattern matches none of the 5 groups"),
        ("--history --since 2027-01-01 pay", "these groups have no generation since 2027-01-01 00:00:00 UTC: expected one at least"),
        ("--backtest --since 2027-01-01", "these groups have no generation since 2027-01-01 00:00:00 UTC"),
        ("--history --since yesterday", "expected ISO 8601 such as 2026-11-21T02:21:13Z, found 'yesterday'"),
    ],
)
def test_what_cannot_be_answered_is_one_line_and_exit_code_2(ask: Any, words: str, message: str):
    code, out, err = ask(*words.split())
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
