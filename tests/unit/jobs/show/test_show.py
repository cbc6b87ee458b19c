"""Show on a small warehouse: which generation it takes, what it says of it, and how it refuses."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jobs import cli
from jobs.pages.figures import visible
from jobs.report.summary import next_command
from tests.builders.published_warehouse import Row, at, commit, finding, generation, member, metadata, movement, tombstone, write_warehouse

ORDERS = {"orders": 4}


def shared(*holdings: tuple[str, list[int]], **other: Any) -> list[Row]:
    """Return members that have these partitions of ``orders``."""
    return [member(member_id, ["orders"], {"orders": held}, **other) for member_id, held in holdings]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a warehouse in which ``pay`` gains a member, loses one and empties."""
    second = {"previous_generation": 10, "triggers": ["member_joined"], "movement_count": 2, "partition_count": 4, "imbalance_ratio": 1.0}
    causes = [{"cause": "session_expired", "member_id": "a-1", "source": "log", "detail": None}]
    third = {"previous_generation": 20, "triggers": ["member_left"], "movement_count": 2, "partition_count": 4, "causes": causes}
    better = {"imbalance_ratio": 2.0, "partition_count": 4, "verdict": "better_elsewhere", "better_strategy": "sticky", "better_gain": 1.0}
    even = {**better, "imbalance_ratio": 1.0}
    parts = [
        generation("pay", 10, shared(("a-1", [0, 1, 2, 3])), ORDERS, audited={"partition_count": 4}),
        generation("pay", 20, shared(("a-1", [0, 1]), ("b-2", [2, 3])), ORDERS, audited=second),
        generation("pay", 30, shared(("b-2", [0, 1, 2, 3])), ORDERS, audited=third),
        generation("pay", 40, [], {}, strategy="", audited={"previous_generation": 30, "triggers": ["group_emptied"]}),
        movement("pay", 20, "orders", 2, "a-1", "b-2"),
        movement("pay", 20, "orders", 3, "a-1", "b-2", lag=7),
        movement("pay", 30, "orders", 0, "a-1", "b-2", kind="reassigned"),
        movement("pay", 30, "orders", 1, "a-1", "b-2", kind="reassigned"),
        finding("pay", 20, "rebalance_storm", "warning", "2 rebalances", "Look at the log."),
        finding("pay", 30, "rebalance_storm", "warning", "3 rebalances", "Look at the log."),
        finding("pay", 10, "idle_members", "info", "1 idle", "Nothing."),
        metadata("orders", 15, [100, 100, 100, None]),
        metadata("orders", 25, [200, 200, 200, 200]),
        commit("pay", "orders", 0, 12, 90),
        commit("pay", "orders", 1, 12, 80),
        commit("pay", "orders", 0, 24, 150),
        commit("pay", "orders", 2, 26, 199),
        generation("skewed", 10, shared(("a-1", [0, 1, 2, 3])), ORDERS, audited=better),
        generation("even", 10, shared(("a-1", [0, 1]), ("b-2", [2, 3])), ORDERS, cluster_id="east", audited=even),
        generation("quiet", 10, shared(("a-1", [0])), ORDERS, audited={"imbalance_ratio": 1.0, "partition_count": 1}),
        generation("alarmed", 10, shared(("a-1", [0])), ORDERS),
        finding("alarmed", 10, "partition_multiply_owned", "critical", "two owners", "Stop one."),
        generation("stopped", 10, shared(("a-1", [0])), ORDERS),
        generation("stopped", 20, [], {}, strategy=""),
        finding("stopped", 20, "restart_loop", "warning", "5 restarts", "Read."),
        generation("deleted", 10, shared(("a-1", [0])), ORDERS),
        generation("deleted", 20, [], {}, strategy=""),
        finding("deleted", 20, "idle_members", "critical", "1 idle", "Read."),
        tombstone("deleted", 30, offsets_partition=7),
        generation("cut short", 10, shared(("a-1", [0])), ORDERS, audited=better),
        tombstone("cut short", 30),
        generation("twice", 10, shared(("a-1", [0])), ORDERS, cluster_id="east"),
        generation("twice", 10, shared(("a-1", [0])), ORDERS, cluster_id="west"),
    ]
    return write_warehouse(tmp_path_factory.mktemp("show") / "w", *parts)


@pytest.fixture
def show(warehouse: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run the command; return what it prints."""

    def run(*words: str, command: str = "show") -> str:
        assert cli.console_main([command, *words, "--warehouse", str(warehouse)]) == 0
        return capsys.readouterr().out

    return run


def test_deleted_group_is_said_to_be_deleted_and_needs_nobody(show: Any, document: Any) -> None:
    (line,) = [one for one in document() if one["group_id"] == "deleted"]
    assert (line["state"], line["need"], line["current_findings"], line["deleted_at"]) == ("deleted", None, [], at(30).isoformat())
    text = show("deleted")
    assert "the group has had no members since 2026-11-21 02:00:20 UTC\nthe group was deleted at 2026-11-21 02:00:30 UTC\n" in text
    assert "findings of the newest generation" not in text and "idle_members" in text
    (line,) = [one for one in document() if one["group_id"] == "cut short"]  # its record without members is not there any more
    assert (line["state"], line["member_count"], line["need"]) == ("deleted", 0, None)
    assert "the group was deleted at 2026-11-21 02:00:30 UTC" in show("cut short") and "sticky" not in show("cut short", command="explain")
    assert document("deleted")["deleted_at"] == at(30).isoformat()
    explained = show("deleted", command="explain")
    assert "  The group was deleted at 2026-11-21 02:00:30 UTC. [3]\n" in explained
    assert "What to change\n  The group was deleted, so its assignments need no change. [3]\n  Other generations" in explained
    assert "  [3] group_records: cluster_id=c, group_id=deleted, offsets_partition=7, offset=30\n" in explained
    assert (document("stopped")["deleted_at"], document("pay")["deleted_at"]) == (None, None)


@pytest.fixture
def document(show: Any) -> Any:
    """Run the command; return its JSON."""
    return lambda *words: json.loads(show(*words, "--json"))


def refused(warehouse: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert cli.console_main([*words, "--warehouse", str(warehouse)]) == 2
    return capsys.readouterr().err


def test_newest_generation_with_members_is_shown_and_since_when_the_group_is_empty(document: Any) -> None:
    found = document("pay")
    assert (found["generation"], found["until"], found["empty_since"]) == (30, at(40).isoformat(), at(40).isoformat())
    assert [one["member_id"] for one in found["members"]] == ["b-2"]


def test_generation_is_chosen_by_its_id(document: Any) -> None:
    found = document("pay", "--generation", "20")
    assert {one["member_id"]: one["partition_count"] for one in found["members"]} == {"a-1": 2, "b-2": 2}
    assert found["movements"] == [
        {"kind": "revoked", "previous_member_id": "a-1", "member_id": "b-2", "topic": "orders", "partitions": [2, 3], "lag": 7}
    ]


@pytest.mark.parametrize(
    ("text", "generation"), [("2:00:20", 20), ("02:00:29", 20), ("2:00:30", 30), ("23:59", 40), ("2026-11-21T02:00:19Z", 10)]
)
def test_newest_generation_at_or_before_a_time_is_shown(document: Any, text: str, generation: int) -> None:
    assert document("pay", "--at", text)["generation"] == generation


def test_offsets_are_those_of_the_newest_metadata_snapshot_in_the_generation(document: Any) -> None:
    found = document("pay", "--generation", "20")
    offsets = {one["partition"]: (one["committed_offset"], one["end_offset"], one["lag"]) for one in found["partitions"]}
    assert found["offsets_at"] == at(25).isoformat()
    assert offsets == {0: (150, 200, 50), 1: (80, 200, 120), 2: (None, 200, None), 3: (None, 200, None)}


def test_committed_partition_without_owner_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of topics that members have. Of a topic with a metadata snapshot it must be in there; a deleted commit does not count."""
    parts = [
        generation("seen", 10, shared(("a-1", [0])), ORDERS),
        metadata("orders", 15, [100, 100, 100, None]),
        *(commit("seen", "orders", number, 12, offset) for number, offset in ((1, 90), (2, None), (9, 90))),
        generation("unseen", 10, [member("a-1", ["mails"], {"mails": [0]})], {"mails": 1}),
        commit("unseen", "mails", 5, 12, 90),
        commit("unseen", "other", 0, 12, 90),
    ]
    warehouse = write_warehouse(tmp_path / "w", *parts)
    shown = {}
    for group in ("seen", "unseen"):
        assert cli.console_main(["show", group, "--json", "--warehouse", str(warehouse)]) == 0
        found = json.loads(capsys.readouterr().out)["partitions"]
        shown[group] = [(one["topic"], one["partition"], one["member_id"], one["committed_offset"], one["lag"]) for one in found]
    assert shown == {
        "seen": [("orders", 0, "a-1", None, None), ("orders", 1, None, 90, 10)],
        "unseen": [("mails", 0, "a-1", None, None), ("mails", 5, None, 90, None)],
    }


def test_end_that_the_tool_printed_beside_a_commit_is_shown_until_a_later_metadata_snapshot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    described = {"source": "describe", "end_offset": 100}
    parts = [
        generation("pasted", 10, shared(("a-1", [0, 1, 2])), ORDERS),
        *(commit("pasted", "orders", 0, second, offset, **described) for second, offset in ((20, 90), (30, 95))),
        *(commit("pasted", "orders", 1, 20, 90, **described), commit("pasted", "orders", 1, 30, 99)),
        commit("pasted", "orders", 3, 30, 60, **described),
    ]
    shown = {}
    for name, others in (("alone", []), ("before", [metadata("orders", 25, [500] * 4)]), ("after", [metadata("orders", 35, [500] * 4)])):
        warehouse = write_warehouse(tmp_path / name, *parts, *others)
        assert cli.console_main(["show", "pasted", "--json", "--warehouse", str(warehouse)]) == 0
        found = json.loads(capsys.readouterr().out)["partitions"]
        shown[name] = {one["partition"]: (one["committed_offset"], one["end_offset"], one["lag"]) for one in found}
    assert shown == {
        "alone": {0: (95, 100, 5), 1: (99, None, None), 2: (None, None, None), 3: (60, 100, 40)},
        "before": {0: (95, 100, 5), 1: (90, 500, 410), 2: (None, 500, None), 3: (60, 100, 40)},
        "after": {0: (95, 500, 405), 1: (99, 500, 401), 2: (None, 500, None), 3: (60, 500, 440)},
    }


def test_offsets_at_a_time_leave_out_what_came_later(document: Any) -> None:
    found = document("pay", "--at", "2:00:22")
    offsets = {one["partition"]: (one["committed_offset"], one["end_offset"], one["lag"]) for one in found["partitions"]}
    assert offsets == {0: (90, 100, 10), 1: (80, 100, 20), 2: (None, 100, None), 3: (None, None, None)}


def test_findings_of_the_generation_come_apart_from_those_of_others(document: Any) -> None:
    found = document("pay", "--generation", "20")
    assert [(one["rule_id"], one["message"]) for one in found["findings"]] == [("rebalance_storm", "2 rebalances")]
    assert [(one["rule_id"], one["finding_count"]) for one in found["other_findings"]] == [("idle_members", 1)]


def test_findings_of_the_newest_generation_are_shown_with_any(show: Any, document: Any) -> None:
    found = document("pay", "--generation", "10")
    assert [one["rule_id"] for one in found["now_findings"]] == []
    assert [one["rule_id"] for one in document("stopped", "--generation", "10")["now_findings"]] == ["restart_loop"]
    assert "findings of the newest generation\nwarning  restart_loop: 5 restarts\n  what to do: Read." in show("stopped")


def test_text_has_cause_movements_and_advice(show: Any) -> None:
    text = show("pay", "--generation", "30")
    assert "what changed: member left (session expired)\n" in text
    assert "cause: session expired, member a; source: the coordinator's log\n" in text
    assert re.search(r"reassigned +a +b +orders +0-1 +-\n", text)
    assert "warning  rebalance_storm: 3 rebalances\n  what to do: Look at the log.\n" in text


def test_list_has_those_first_that_need_someone(document: Any) -> None:
    found = document("--cluster-id", "c")
    assert [one["group_id"] for one in found] == ["alarmed", "stopped", "skewed", "pay", "quiet", "deleted", "cut short"]
    pay = next(one for one in found if one["group_id"] == "pay")
    assert (pay["state"], pay["member_count"], pay["generation_count"], pay["partition_count"]) == ("empty", 0, 4, 4)
    assert (pay["need"], pay["current_findings"]) == (None, [])
    assert (pay["finding_counts"]["warning"], pay["finding_counts"]["info"], pay["movement_count"]) == (2, 1, 4)
    assert found[0]["need"] == {"severity": "critical", "rule": "partition_multiply_owned"}
    assert found[2]["need"] == {"severity": "info", "rule": "better_assignor"}


def test_list_says_what_could_be_and_how_many_groups_are_left_out(show: Any) -> None:
    text = show("--cluster-id", "c", "--limit", "3")
    assert re.search(r"^skewed +stable +1 +4 +1 +2\.00 +1\.00 \(sticky\) +range +better assignor +-$", text, re.MULTILINE)
    assert text.endswith("4 more groups; --limit 0 shows all\n") and "quiet" not in text
    assert show("--cluster-id", "c", "--limit", "6").endswith("\n1 more group; --limit 0 shows all\n")


def test_group_whose_rebalance_does_not_end_is_not_called_stable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_warehouse(
        tmp_path / "w",
        *(generation("stuck", number, shared(("a-1", [0])), ORDERS) for number in (10, 20)),
        finding("stuck", 20, "stuck_rebalancing", "critical", "for an hour", "Restart."),
        *(generation("past", number, shared(("a-1", [0])), ORDERS) for number in (10, 20)),
        finding("past", 10, "stuck_rebalancing", "critical", "for an hour", "Restart."),
    )
    assert cli.console_main(["show", "--json", "--warehouse", str(folder)]) == 0
    assert {row["group_id"]: row["state"] for row in json.loads(capsys.readouterr().out)} == {"stuck": "rebalancing", "past": "stable"}


def test_group_on_its_way_to_a_target_is_not_called_stable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Records of targets have this state; whether all members reached one is seen later."""
    moving = {"strategy": "uniform", "group_type": "consumer", "state": "Reconciling"}
    both = shared(("a-1", [0, 1]), ("b-2", [2, 3]))
    folder = write_warehouse(
        tmp_path / "w",
        generation("moving", 10, both, ORDERS, **moving, audited={"epoch_at": at(9), "is_superseded": True}, is_superseded=True),
        generation("moving", 20, both, ORDERS, **moving, audited={"epoch_at": at(19)}),
        generation("there", 10, both, ORDERS, **moving, audited={"epoch_at": at(9), "reconciled_at": at(11)}, reconciled_at=at(11)),
        generation("seen", 10, both, ORDERS, **{**moving, "state": "Stable"}),
    )

    def answer(*words: str) -> str:
        assert cli.console_main([*words, "--warehouse", str(folder)]) == 0
        return capsys.readouterr().out

    listed = dict(re.findall(r"^(moving|there|seen) +(\w+)", answer("show"), re.MULTILINE))
    assert listed == {"moving": "reconciling", "there": "stable", "seen": "stable"}
    last, superseded = "not all members had reached this target when the group was last seen", "another target came before all members"
    assert f"\nowners are those of the target: {last}\n" in answer("show", "moving")
    assert f"\nowners are those of the target: {superseded} had reached this one\n" in answer("show", "moving", "--generation", "10")
    assert f"\n  {last[0].upper()}{last[1:]}. [" in answer("explain", "moving")
    assert "target" not in answer("show", "there") + answer("show", "seen") + answer("explain", "there")


def test_even_group_needs_no_assignor_that_was_better_only_over_the_history(show: Any, document: Any) -> None:
    """The gain is that between two histories, of which the observed one may be more even than both."""
    assert re.search(r"^even +stable +2 +4 +1 +1\.00 +1\.00 +range +- +-$", show("ev*"), re.MULTILINE)
    assert document("ev*")[0]["need"] is None
    assert "verdict: better elsewhere (sticky)\n" in show("even")


def test_list_names_clusters_where_there_are_several(show: Any) -> None:
    assert re.search(r"^cluster +group ", show("tw*")) and not show("p*").startswith("cluster")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("pai",), "the nearest names are 'pay'"),
        (("twice",), "is in the clusters 'east', 'west'; choose one with --cluster-id"),
        (("pay", "--generation", "21"), "generation 21 is not stored, expected one such as 10, 20, 30, 40"),
        (("pay", "--at", "1:00"), "found no generation at or before 2026-11-21 01:00:59 UTC, expected a time from 2026-11-21 02:00:10 on"),
        (("pay", "--at", "25:00"), "expected a time such as 21:14, found '25:00'"),
        (("pay", "--at", "2:00", "--generation", "1"), "--generation and --at exclude each other"),
        (("p*", "--generation", "20"), "--generation and --at need the name of one group"),
        (("even", "--json", "--limit", "3"), "--limit of one group excludes --json: the document has all rows"),
        (("--cluster-id", "north"), "groups of cluster 'north': found none, expected a cluster such as 'c', 'east', 'west'"),
        (("--cluster-id", "wast"), "groups of cluster 'wast': found none, expected a cluster such as 'west', 'east'"),
    ],
)
def test_mistake_is_one_line(warehouse: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str) -> None:
    message = refused(warehouse, capsys, "show", *words)
    assert said in message and message.count("\n") == 1


def test_group_is_named_as_the_summary_of_the_report_names_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_warehouse(tmp_path / "w", generation("DOMAIN\\svc", 10, shared(("a-1", [0])), ORDERS))
    command = next_command({"needs": [{"group_id": visible("DOMAIN\\svc"), "cluster_id": "c"}], "clusters": 1}, str(folder))
    assert cli.console_main(shlex.split(command or "")[1:]) == 0
    assert "Generation 10 of group DOMAIN\\\\svc began" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["show", "explain", "what-if"])
def test_group_with_commits_alone_is_said_to_have_no_generation(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    """The report lists such a group, so its name is not wrong."""
    folder = write_warehouse(tmp_path / "w", generation("pay", 10, shared(("a-1", [0])), ORDERS), commit("reader", "orders", 0, 12, 90))
    message = refused(folder, capsys, command, "reader")
    assert "group 'reader': only its offset commits have landed, so it has no generation; the report has its lag\n" in message
    assert "cluster 'other': found no group of it" in refused(folder, capsys, command, "reader", "--cluster-id", "other")


def test_group_of_several_clusters_is_chosen_by_its_cluster(document: Any) -> None:
    assert document("twice", "--cluster-id", "west")["cluster_id"] == "west"


def test_explanation_of_several_groups_is_refused(warehouse: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "is a pattern of several groups" in refused(warehouse, capsys, "explain", "p*")


def test_a_reader_that_closes_the_pipe_gets_no_error(warehouse: Path) -> None:
    """As ``| head -1`` does once it has its line."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    call = [sys.executable, "-m", "jobs", "show", "--warehouse", str(warehouse)]
    result = subprocess.run(call, stdout=write_end, stderr=subprocess.PIPE, text=True, check=False, timeout=300)
    os.close(write_end)
    assert (result.returncode, result.stderr) == (0, "")
