"""The command on a small warehouse: what it prints, and how it refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from jobs import cli
from tests.builders.published_warehouse import Row, commit, generation, member, metadata, write_warehouse

ORDERS = {"orders": 6}


def split(*sizes: int, names: str = "abcdefgh", **other: Any) -> list[Row]:
    """Return members that share the partitions of ``orders`` in this way."""
    starts = [sum(sizes[:number]) for number in range(len(sizes))]
    given = zip(names, starts, sizes, strict=False)
    return [member(f"{name}-1", ["orders"], {"orders": range(start, start + size)}, **other) for name, start, size in given]


def of_release(release: str, part: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """Return a generation that the audit recomputed with another release."""
    audits = [{**row, "kafka_version": release} if row["basis"] == "recomputed" else row for row in part["generation_audits"]]
    return {**part, "generation_audits": audits}


def by_range() -> list[Row]:
    """Return three members that share topics ``t`` and ``u`` of 8 partitions as the range assignor does."""
    shares = {"a-1": range(3), "b-1": range(3, 6), "c-1": range(6, 8)}
    return [member(name, "tu", {"t": numbers, "u": numbers}) for name, numbers in shares.items()]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a warehouse with one group for each question."""
    parts = [
        generation("pair", 10, split(3, 3), ORDERS, strategy="cooperative-sticky", leader_client="java"),
        generation("eager", 10, split(3, 3), ORDERS, leader_client="java"),
        generation("rdk", 10, split(3, 3), ORDERS, leader_client="librdkafka"),
        of_release("4.0.0", generation("broker", 10, split(3, 3), ORDERS, strategy="uniform", group_type="consumer")),
        generation("racked", 10, split(3, 3, rack="r1"), ORDERS, racks=[["r1"], ["r2"]] * 3),
        generation("evil\x1b[31m\u202e", 10, [member("a\u202e-1", ["t\x07"], {"t\x07": [0]}, client_id="\x1b")], {"t\x07": 1}),
        generation("static", 10, [{**one, "group_instance_id": one["client_id"]} for one in split(3, 3)], ORDERS),
        generation(
            "uneven", 10, [member("a-1", "tu", {"t": [0, 1], "u": [0, 1]}), member("b-1", "tu", {"t": [2], "u": [2]})], {"t": 3, "u": 3}
        ),
        generation("wide", 10, by_range(), {"t": 8, "u": 8}),
        generation("app", 10, split(3, 3), ORDERS, strategy="stream"),
        generation("gone", 10, [], {}),
        generation("still", 10, [member("a-1", ["s"], {"s": [0, 1]})], {"s": 2}),
        *(metadata("s", seconds, [7, 7]) for seconds in (5, 20)),
        *(metadata(topic, seconds, [end] * 3) for topic in "tu" for seconds, end in ((5, 0), (20, 150))),
        *(metadata("orders", seconds, [end, 0, 0, 0, 0, 0]) for seconds, end in ((5, 0), (20, 150))),
        commit("eager", "orders", 0, 12, 50),
        commit("eager", "orders", 1, 12, 0),
    ]
    return write_warehouse(tmp_path_factory.mktemp("what_if") / "w", *parts)


def rows(text: str) -> dict[str, list[str]]:
    """Return the cells of a table by the first one of their line."""
    lines = (re.split(r"\s{2,}", line) for line in text.splitlines() if line and not line.startswith(" "))
    return {first: cells for first, *cells in lines if cells}


def test_first_line_is_now_and_each_strategy_has_one(ask: Any):
    code, out, err = ask("pair", "--add-members", "1")
    found = rows(out)
    assert (code, err) == (0, "")
    assert list(found) == ["now", "range", "roundrobin", "sticky", "cooperative-sticky", "uniform"]
    assert found["now"] == ["2", "3", "1.00", "2.00", "-", "-", "-"]
    # Of 6 partitions each of 3 members gets 2: the least that can move. Two calls hand over what the first one takes away.
    assert found["cooperative-sticky"][:3] == ["3", "2", "1.00"] and found["cooperative-sticky"][-3:] == ["2 (least 2)", "2", "2"]
    assert found["sticky"][-3:] == ["2 (least 2)", "6", "1"]


def test_cheapest_is_as_even_as_any_and_stops_least(ask: Any):
    _, out, _ = ask("pair", "--add-members", "1")
    assert "cheapest: cooperative-sticky: as even as any, at most 2 not read at once, 2 partitions move\n" in out
    assert "to get to cooperative-sticky:\n  1. Start 1 member.\n" in out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        # One more rebalance moves nothing under range either, but stops all 6 partitions.
        ("eager --strategies range,sticky,cooperative-sticky", "cooperative-sticky"),
        # Range moves nothing of 6, 6, 4, but stops all 16 partitions. 6, 5, 5 is as even: one member has 6 either way.
        ("wide --strategies range,cooperative-sticky", "cooperative-sticky"),
        # Range leaves 4 and 2. Sticky moves one partition, and both then have 3.
        ("uneven --strategies range,sticky", "sticky"),
        # Both move 2 and stop 2 in 2 rounds: the group's own assignor counts.
        ("broker --add-members 1 --strategies cooperative-sticky,uniform", "uniform"),
        ("pair --add-members 1 --strategies uniform,cooperative-sticky", "cooperative-sticky"),
        # The same by two assignors that the group does not have: it keeps its protocol.
        ("eager --add-members 1 --strategies uniform,cooperative-sticky", "cooperative-sticky"),
        # Both stop all 6 partitions. Range moves 3, since the new member is the first in order; 2 have to move.
        ("eager --add-members 0a --strategies range,sticky", "sticky"),
    ],
)
def test_cheapest_weighs_evenness_then_stops_then_moves(ask: Any, words: str, expected: str):
    (document,) = json.loads(ask(*words.split(), "--json")[1])
    assert document["scenarios"][0]["cheapest"] == expected


def test_json_has_the_same_figures(ask: Any):
    (document,) = json.loads(ask("pair", "--add-members", "1", "--json")[1])
    (scenario,) = document["scenarios"]
    answer = next(one for one in scenario["strategies"] if one["strategy"] == "cooperative-sticky")
    assert (document["group_id"], document["now"]["most"], scenario["cheapest"]) == ("pair", 3, "cooperative-sticky")
    assert (answer["movement_count"], answer["least_movement_count"]) == ({"low": 2, "high": 2}, 2)
    assert answer["loads"]["throughput_imbalance"] == {"low": 3.0, "high": 3.0}


def test_loads_are_by_lag_and_rate_where_they_are_known(ask: Any):
    _, out, _ = ask("eager")
    assert "Lag and rate (records a second) are of 2026-11-21 02:00:20 UTC." in out
    # Partition 0 has all 100 records that wait, and all that come in; its member has twice the mean.
    assert rows(out)["now"][:5] == ["2", "3", "1.00", "2.00", "2.00"]
    assert "note: orders-0 alone brings 100% of the records: one member reads it" in out
    assert "note: orders-0 alone has 100% of the lag" in out
    assert "alone" not in ask("uneven")[1]


@pytest.fixture
def ask_of_topics(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Return what asks about a group that reads ``orders`` and ``t``, and gives stdout; ``t`` has grown from 3 partitions to 4."""
    two = [
        member("a-1", ["orders", "t"], {"orders": [0, 1, 2], "t": [0]}),
        member("b-1", ["orders", "t"], {"orders": [3, 4, 5], "t": [1, 2]}),
    ]
    looks = [
        metadata("orders", 5, [0] * 6),
        metadata("orders", 20, [150, *[0] * 5]),
        metadata("t", 5, [0] * 4),
        metadata("t", 20, [150] * 4),
        metadata("u", 20, [0] * 2),
    ]
    write_warehouse(tmp_path / "w", generation("g", 10, two, {**ORDERS, "t": 3}), *looks)

    def run(*words: str) -> str:
        assert cli.console_main(["what-if", "--warehouse", str(tmp_path / "w"), "g", *words]) == 0
        return capsys.readouterr().out

    return run


def test_only_partitions_that_are_read_afterwards_are_heavy(ask_of_topics: Any):
    """Each of four partitions brings as many records, and only one of the four is of orders."""
    assert "alone" not in ask_of_topics()
    assert "note: orders-0 alone brings 100% of the records: one member reads it" in ask_of_topics("--subscribe", "orders")
    assert "alone" not in ask_of_topics("--subscribe", "u", "--partitions", "u=12")


def test_topics_that_have_grown_since_the_generation_are_named(ask_of_topics: Any):
    note = "note: t has 4 partitions in the newest metadata snapshot, and 3 in this generation: add --partitions t=4.\n"
    assert note in ask_of_topics() + "\n"
    for words in (("--partitions", "t=4"), ("--partitions", "t=5"), ("--subscribe", "orders")):
        assert "metadata snapshot" not in ask_of_topics(*words)


def test_partition_count_of_a_topic_that_is_new_to_the_group_is_that_of_its_metadata_snapshot(ask_of_topics: Any):
    note = "note: No partitions of {0} are known to the group: it counts as a topic that does not exist. {1}\n"
    out = ask_of_topics("--subscribe", "orders,u,v") + "\n"
    assert note.format("u", "It has 2 in the newest metadata snapshot: add --partitions u=2.") in out
    assert note.format("v", "Say how many it has: --partitions v=N.") in out


def test_topic_that_has_the_partitions_already_is_not_altered(ask_of_topics: Any):
    """Kafka refuses to alter a topic that has as many."""
    for words in (("--partitions", "t=4"), ("--partitions", "orders=6"), ("--subscribe", "orders,u", "--partitions", "u=2")):
        assert "Give topic" not in ask_of_topics(*words)
    command = "kafka-topics.sh --bootstrap-server HOST:PORT --alter"
    assert f"Give topic t 5 partitions: {command} --topic t --partitions 5." in ask_of_topics("--partitions", "t=5")
    expected = f"Give topic v 3 partitions, unless it has them: {command} --topic v --partitions 3."
    assert expected in ask_of_topics("--subscribe", "v", "--partitions", "v=3")


def test_topics_without_a_known_partition_count_are_named(ask: Any):
    sentence = "note: No partitions of {0} are known to the group: it counts as a topic that does not exist. "
    sentence += "Say how many it has: --partitions {0}=N."
    topics = ("s", "w\x1b", "x", "y", "z")
    _, out, _ = ask("pair", "--subscribe", ",".join(("orders", *topics)), "--partitions", "s=3")
    assert [line for line in out.splitlines() if "No partitions" in line] == [sentence.format(topic) for topic in ("w\\x1b", "x", "y")]
    assert "note: The same is so for 1 more of the topics that members subscribe to." in out
    assert "No partitions" not in ask("pair", "--subscribe", "orders,s", "--partitions", "s=3")[1]


def test_a_group_without_lag_and_rate_has_no_line_on_them(ask: Any):
    out = ask("still")[1]
    assert rows(out)["now"] == ["1", "2", "1.00", "-", "-", "-"] and "Lag and rate" not in out


@pytest.mark.parametrize(("group", "releases"), [("eager", ["3.7.0", "4.4.0"]), ("broker", ["4.4.0", "4.0.0"])])
def test_release_of_the_group_is_that_of_its_kind(ask: Any, group: str, releases: list[str]):
    """The release that the audit recomputed with is one of clients, or one of brokers."""
    (document,) = json.loads(ask(group, "--strategies", "range,uniform", "--json")[1])
    assert [one["kafka_version"] for one in document["scenarios"][0]["strategies"]] == releases


def test_group_that_holds_nothing_is_answered(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = write_warehouse(tmp_path / "w", generation("g", 10, [member("a-1", ["t"], {})], {}), metadata("t", 5, [7]))
    assert cli.console_main(["what-if", "--warehouse", str(folder), "g", "--partitions", "t=2", "--strategies", "range"]) == 0
    assert rows(capsys.readouterr().out)["range"][:2] == ["1", "2"]


def test_more_members_than_partitions_is_an_answer(ask: Any):
    code, out, _ = ask("pair", "--add-members", "5", "--strategies", "sticky")
    assert code == 0
    assert rows(out)["sticky"][:2] == ["7, 1 idle", "0-1"]
    assert "note: 7 members share 6 partitions: 1 of them has nothing to read." in out


def test_racks_are_ignored_by_some(ask: Any):
    assert "note: Racks are ignored by roundrobin, uniform.\n" in ask("racked")[1] + "\n"
    assert "Racks" not in ask("pair")[1]
    assert "note: Racks are ignored by roundrobin, uniform." in ask("pair", "--rack", "*=r1")[1]


@pytest.mark.parametrize(
    ("group", "strategy", "steps"),
    [
        ("eager", "cooperative-sticky", ["partition.assignment.strategy=cooperative-sticky,range", "take out range"]),
        (
            "eager",
            "cooperative-sticky",
            ["Until all have it, the group keeps range.", "they still give up all partitions in each rebalance"],
        ),
        ("pair", "range", ["partition.assignment.strategy=range,cooperative-sticky", "take out cooperative-sticky"]),
        (
            "pair",
            "range",
            ["the group keeps cooperative-sticky.", "the group uses range: take out cooperative-sticky, and restart them one "],
        ),
        ("rdk", "cooperative-sticky", ["Stop all members, set partition.assignment.strategy=cooperative-sticky"]),
        ("rdk", "sticky", ["partition.assignment.strategy=sticky,range", "take out range"]),
        ("eager", "uniform", ["Kafka 4.0", "group.protocol=consumer and group.remote.assignor=uniform", "Restart the members"]),
        ("eager", "server-range", ["Kafka 4.0", "group.remote.assignor=range", "Restart the members"]),
        ("broker", "server-range", ["Set group.remote.assignor=range"]),
        ("broker", "range", ["bidirectional or downgrade", "group.protocol=classic and partition.assignment.strategy=range"]),
        ("eager", "range", []),
    ],
)
def test_steps_lead_to_a_strategy(ask: Any, group: str, strategy: str, steps: list[str]):
    (document,) = json.loads(ask(group, "--strategies", strategy, "--json")[1])
    found = document["scenarios"][0]["strategies"][0]["steps"]
    assert len(found) == len(steps)
    assert all(step in sentence for step, sentence in zip(steps, found, strict=True))


def test_steps_name_the_classes_that_java_takes_and_no_other_client(ask: Any):
    def first_step(group: str, strategy: str) -> str:
        return json.loads(ask(group, "--strategies", strategy, "--json")[1])[0]["scenarios"][0]["strategies"][0]["steps"][0]

    package = "org.apache.kafka.clients.consumer"
    both = f" Java takes class names: {package}.CooperativeStickyAssignor, {package}.RangeAssignor."
    assert first_step("eager", "cooperative-sticky").endswith(f"the group keeps range.{both}")
    assert "Java" not in first_step("rdk", "sticky") + first_step("eager", "uniform")


@pytest.mark.parametrize(
    ("library", "setting"),
    [
        ("kafka-python", "partition_assignment_strategy"),
        ("franz-go", "kgo.Balancers"),
        ("sarama", "Consumer.Group.Rebalance.GroupStrategies"),
        ("kafkajs", "partitionAssigners"),
    ],
)
def test_steps_name_the_setting_of_the_client_library(library: str, setting: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    write_warehouse(tmp_path / "w", generation("g", 10, split(3, 3), ORDERS, leader_client=library))
    assert cli.console_main(["what-if", "--warehouse", str(tmp_path / "w"), "g", "--strategies", "roundrobin", "--json"]) == 0
    first, last = json.loads(capsys.readouterr().out)[0]["scenarios"][0]["strategies"][0]["steps"]
    assert first.startswith(f"Set {setting} of the members to roundrobin, range, and restart them one after another.")
    assert last == "When all have it, the group uses roundrobin: take out range, and restart them one after another again."


def test_assignors_that_the_client_library_does_not_have_are_named(ask: Any):
    """librdkafka refuses to start with plain sticky: Unsupported partition.assignment.strategy."""
    note = "note: librdkafka does not have sticky: its members would need another client library, or an assignor of their own."
    assert note in ask("rdk", "--add-members", "1")[1].splitlines()
    assert "does not have" not in ask("rdk", "--strategies", "range,cooperative-sticky")[1] + ask("eager")[1]


def test_steps_name_no_assignor_that_is_not_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    write_warehouse(tmp_path / "w", generation("g", 10, split(3, 3), ORDERS, strategy=""))
    assert cli.console_main(["what-if", "--warehouse", str(tmp_path / "w"), "g", "--strategies", "range", "--json"]) == 0
    (document,) = json.loads(capsys.readouterr().out)
    assert document["scenarios"][0]["strategies"][0]["steps"] == [
        "Set partition.assignment.strategy of the members to range, followed by the assignor that they have now, and restart them one "
        "after another. Until all have it, the group keeps that assignor. Java takes class names: "
        "org.apache.kafka.clients.consumer.RangeAssignor.",
        "When all have it, the group uses range: take out the other one, and restart them one after another again.",
    ]


def test_what_a_described_text_does_not_show_is_not_called_classic_or_without_assignor(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    described = generation("g", 10, split(3, 3), ORDERS, strategy="", group_type=None, has_subscriptions=False)
    write_warehouse(tmp_path / "w", described)
    assert cli.console_main(["what-if", "--warehouse", str(tmp_path / "w"), "g"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("g of cluster c, generation 10 of 2026-11-21 02:00:10 UTC: assignor not known, protocol not known\n")
    assert cli.console_main(["what-if", "--warehouse", str(tmp_path / "w"), "g", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["protocol"] is None
    assert "note: The capture does not show the protocol: the group counts as a classic one.\n" in out
    assert cli.console_main(["show", "--warehouse", str(tmp_path / "w"), "g"]) == 0
    assert "\nassignor not known, 2 members, " in capsys.readouterr().out


def test_changes_are_steps_too(ask: Any):
    words = ("--remove-members", "a-*", "--partitions", "orders=8", "--subscribe", "orders", "--static-ids", "--rack", "b-1=r")
    (document,) = json.loads(ask("pair", *words, "--strategies", "cooperative-sticky", "--json")[1])
    first = [step.split()[0:2] for step in document["scenarios"][0]["strategies"][0]["steps"]]
    assert first == [["Give", "topic"], ["Deploy", "members"], ["Set", "group.instance.id"], ["Set", "client.rack=r"], ["Stop", "the"]]


def test_static_ids_are_compared_with_the_next_deploy(ask: Any):
    _, out, _ = ask("eager", "--static-ids")
    # Each restart: one member alone takes all 6, then both share again; eager members stop reading all they have, each time.
    assert "2 restarts one after another are 4 rebalances of range. Partitions move 12 times, and stop being read 24 times." in out
    assert "next deploy with instance ids: no rebalance, if each member is back within its session timeout (45 s)." in out


def test_deploy_counts_the_rebalances_of_a_hand_over(ask: Any):
    """Each restart of a cooperative member: one rebalance when it leaves, and two when it is back."""
    (document,) = json.loads(ask("pair", "--static-ids", "--json")[1])
    expected = {"restart_count": 2, "rebalance_count": 6, "movement_count": 12, "longest_session_ms": 45_000}
    assert {name: document["deploy"][name] for name in expected} == expected


def test_rounds_of_heartbeats_of_a_deploy_are_one_rebalance(ask: Any):
    """Each of two members leaves and joins: four changes of members, and so four epochs of the group."""
    (document,) = json.loads(ask("broker", "--static-ids", "--json")[1])
    assert (document["deploy"]["rebalance_count"], document["deploy"]["movement_count"]) == (4, 12)


def test_members_of_a_deploy_come_back_with_their_topics_and_racks(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Each restart moves the partitions of the member away and back again."""
    topics = [member(f"{name}-1", topic, {topic: held}) for topic in "tu" for name, held in ((f"a{topic}", [0, 1]), (f"b{topic}", [2, 3]))]
    racks = [member(f"{name}-1", "t", {"t": [number, number + 3]}, rack=f"r{number}") for number, name in enumerate("abc")]
    folder = write_warehouse(
        tmp_path / "w",
        generation("topics", 10, topics, {"t": 4, "u": 4}, strategy="sticky"),
        generation("racks", 10, racks, {"t": 6}, racks=[[f"r{number % 3}"] for number in range(6)]),
    )
    assert cli.console_main(["what-if", "--warehouse", str(folder), "--all", "--static-ids", "--json"]) == 0
    counts = {one["group_id"]: one["deploy"]["movement_count"] for one in json.loads(capsys.readouterr().out)}
    assert counts == {"topics": 4 * (2 + 2), "racks": 3 * (2 + 2)}


def test_only_member_of_a_deploy_without_an_instance_id_comes_back_without_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Range has it last, after b and c: 3 partitions move when it leaves, and the same 3 when it is back. A static a would be the first."""
    static = [{**one, "group_instance_id": one["client_id"]} for one in split(3, 3, names="bc")]
    dynamic = member("a-1", ["orders"], {"orders": [6, 7]})
    folder = write_warehouse(tmp_path / "w", generation("mixed", 10, [dynamic, *static], {"orders": 8}))
    words = ("what-if", "--warehouse", str(folder), "mixed", "--static-ids", "--strategies", "range")
    assert cli.console_main(words) == 0
    out = capsys.readouterr().out
    assert "next deploy without instance ids: 1 restart is 2 rebalances of range. Partitions move 6 times" in out


def test_numbers_of_one_are_no_plurals(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """The static member keeps the partition that it takes over."""
    members = [member("a-1", ["t"], {"t": [0]}), member("b-1", ["t"], {}, group_instance_id="b")]
    folder = write_warehouse(tmp_path / "w", generation("one", 10, members, {"t": 1}, strategy="sticky"))
    words = ("what-if", "--warehouse", str(folder), "one", "--strategies", "sticky")
    assert cli.console_main([*words, "--static-ids"]) == 0
    assert "Partitions move 1 time, and stop being read 2 times." in capsys.readouterr().out
    assert cli.console_main([*words, "--add-members", "1"]) == 0
    assert "note: 3 members share 1 partition: 2 of them have nothing to read." in capsys.readouterr().out


def test_group_keeps_its_protocol_where_another_one_costs_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    stored = generation("brokers", 10, split(3, 3), ORDERS, strategy="server-range", group_type="consumer")
    folder = write_warehouse(tmp_path / "w", stored)
    words = ("what-if", "--warehouse", str(folder), "brokers", "--add-members", "1", "--strategies", "cooperative-sticky,uniform")
    assert cli.console_main(words) == 0
    assert "cheapest: uniform: as even as any, at most 2 not read at once, 2 partitions move\n" in capsys.readouterr().out


def test_session_timeouts_that_differ_are_a_range(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """A member that is away for 30 s keeps the one session of 45 s, and loses the other of 6 s."""
    members = [{**one, "session_timeout_ms": session} for one, session in zip(split(3, 3), (45_000, 6_000), strict=True)]
    folder = write_warehouse(tmp_path / "w", generation("mixed", 10, members, ORDERS))
    assert cli.console_main(["what-if", "--warehouse", str(folder), "mixed", "--static-ids"]) == 0
    assert "no rebalance, if each member is back within its session timeout (6-45 s)." in capsys.readouterr().out


def test_deploy_of_a_large_group_is_judged_by_its_first_restarts(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    members = [member(f"m{number:02}-1", "t", {"t": [number]}) for number in range(32)]
    folder = write_warehouse(tmp_path / "w", generation("large", 10, members, {"t": 32}))
    words = ("what-if", "--warehouse", str(folder), "large", "--static-ids", "--strategies", "range")
    assert cli.console_main(words) == 0
    assert "next deploy without instance ids: the first 30 of 32 restarts one after another are 60 rebalances" in capsys.readouterr().out
    assert cli.console_main([*words, "--json"]) == 0
    (document,) = json.loads(capsys.readouterr().out)
    assert (document["deploy"]["restart_count"], document["deploy"]["member_count"]) == (30, 32)


def test_members_that_are_static_already_need_no_step(ask: Any):
    _, out, _ = ask("static", "--static-ids")
    assert "note: Every member has an instance id already." in out
    assert "group.instance.id" not in out and "next deploy" not in out


def test_assignor_that_the_release_has_not_got_is_played_by_the_newest(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    write_warehouse(tmp_path / "w", of_release("2.3.1", generation("old", 10, split(3, 3), ORDERS)))
    assert cli.console_main(["what-if", "--warehouse", str(tmp_path / "w"), "old", "--add-members", "1"]) == 0
    out = capsys.readouterr().out
    assert "note: cooperative-sticky is played by Kafka 4.4.0: clients such as the group's (2.3.1) do not have it.\n" in out
    assert "sticky is played" not in out.replace("cooperative-sticky is played", "")


def test_range_of_moves_covers_new_members_among_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Range moves 3 partitions for a new member that is the first or the last, and 1 for one after a. Saved rows have the two ends."""
    write_warehouse(tmp_path / "w", generation("four", 10, split(2, 2, 1, 1), ORDERS))
    words = ("what-if", "--warehouse", str(tmp_path / "w"), "four", "--add-members", "1", "--strategies", "range")
    assert cli.console_main(words) == 0
    out = capsys.readouterr().out
    assert rows(out)["range"][-3:] == ["1-3 (least 1)", "6", "1"] and "1-3 partitions move" in out
    assert cli.console_main([*words, "--json"]) == 0
    (strategy,) = json.loads(capsys.readouterr().out)[0]["scenarios"][0]["strategies"]
    ends, tried = strategy["movement_count"], strategy["tried"]["movement_count"]
    assert (ends, tried) == ({"low": 3, "high": 3}, {"low": 1, "high": 3})


def test_member_counts_are_a_curve(ask: Any):
    _, out, _ = ask("pair", "--members", "1..4", "--strategies", "cooperative-sticky")
    assert rows(out) == {
        "members": ["cooperative-sticky"],
        "1": ["6, 3 move"],
        "2": ["3, 0 move"],
        "3": ["2, 2 move"],
        "4": ["1-2, 2 move"],
    }
    assert "divides well: 3 members, the fewest above today's with the same number of partitions for each." in out


@pytest.mark.parametrize(("threads", "expected"), [("1", 3), ("2", None), ("3", 1), ("6", None)])
def test_counts_that_divide_well_are_in_members_of_several_threads(ask: Any, threads: str, expected: int | None):
    """6 partitions over 2 consumers: 3 is the only count up to 4 that divides them; 3 threads make it one member."""
    (document,) = json.loads(ask("pair", "--members", "1..1", "--threads-per-member", threads, "--json")[1])
    assert document["curve"]["divides_well"] == expected


def test_members_of_more_threads_than_twice_the_consumers_are_not_compared(ask: Any):
    _, out, _ = ask("pair", "--members", "1..1", "--threads-per-member", "6")
    assert "divides well: one member of 6 consumers is more than twice today's consumers, of which there are 2." in out


def test_scenarios_of_a_file_are_side_by_side(ask: Any, tmp_path: Path):
    path = tmp_path / "s.yaml"
    path.write_text("more: {add_members: [x, y]}\nfewer:\n  remove_members: 1\n  strategies: [sticky]\n")
    _, out, _ = ask("pair", "--scenario", str(path), "--strategies", "range")
    assert [(name, cells[0]) for name, cells in rows(out).items()] == [("now", "2"), ("more: range", "4"), ("fewer: sticky", "1")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("more: {ad_members: 2}", "scenario 'more': unknown key 'ad_members': did you mean 'add_members'?"),
        ("more: {partitions: {orders: x}}", "scenario 'more': partitions.orders: "),
        ("more: {strategies: []}", "scenario 'more': strategies: "),
        ("more: {subscribe: []}", "scenario 'more': subscribe: "),
        ("- more", "expected names of scenarios, each with its changes, found list"),
        ("", "expected names of scenarios, each with its changes, found nothing"),
        ("more: &a {}\nless: *a", "line 2: found the alias *a, expected the value itself"),
        ("1: {add_members: 1}\n'1': {add_members: 4}", "scenario '1': found the name twice, once as another type"),
        ("more: {add_members: -1}", "added members: found -1, expected 0 or more, or names"),
    ],
)
def test_mistakes_of_a_file_are_one_line(ask: Any, tmp_path: Path, text: str, message: str):
    path = tmp_path / "s.yaml"
    path.write_text(text)
    code, out, err = ask("pair", "--scenario", str(path))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "found no group, expected names, patterns or --all"),
        ("pair --all", "--all excludes names of groups"),
        ("pare", "group 'pare': not among the groups of the warehouse, the nearest names are 'pair'"),
        ("zz*", "groups 'zz*': the pattern matches none of the 12 groups of the warehouse"),
        ("gone", "group 'gone' of cluster 'c': found no settled generation with members"),
        ("pair --cluster-id d", "cluster 'd': found no group of it"),
        ("app", "group 'app': Kafka Streams deals out tasks"),
        ("pair --remove-members 3", "removed members: found 3, expected at most the 2 of the group"),
        ("pair --remove-members zz*", "removed members: found none that matches 'zz*'"),
        ("pair --partitions orders=3", "partitions of topic 'orders': found 3, expected at least the 6"),
        ("pair --members 2..3 --partitions orders=3", "partitions of topic 'orders': found 3, expected at least the 6"),
        ("pair --members 2..3 --partitions nosuch=5", "partitions of topic 'nosuch': found no member that subscribes to it"),
        ("pair --strategies rang", "no assignor is called 'rang'"),
        ("pair --strategies range --protocol consumer", "strategy of the consumer protocol: found 'range'"),
        ("pair --members 2..3 --add-members 1", "--members excludes --add-members"),
        ("pair --scenario nowhere.yaml", "--scenario nowhere.yaml: cannot be read (No such file or directory)"),
        ("pair --scenario nowhere.yaml --static-ids", "--scenario excludes --static-ids"),
    ],
)
def test_what_cannot_be_answered_is_one_line_and_exit_code_2(ask: Any, words: str, message: str):
    code, out, err = ask(*words.split())
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_groups_that_cannot_be_played_are_lines_among_others(ask: Any):
    code, out, err = ask("--all", "--strategies", "sticky")
    assert (code, err, out.count("\nnow ")) == (0, "", 10)
    assert out.endswith(
        "\nnot played: group 'app': Kafka Streams deals out tasks, found strategy 'stream', expected an assignor of partitions\n"
    )


def test_named_groups_without_members_are_lines_among_others(ask: Any):
    code, out, _ = ask("pair", "gone", "app", "--strategies", "sticky")
    assert (code, out.count("\nnow ")) == (0, 1)
    assert "\nnot played: group 'gone' of cluster 'c': found no settled generation with members among 1; the newest, " in out
    assert "\nnot played: group 'app': Kafka Streams deals out tasks" in out


def test_groups_whose_topics_cannot_grow_so_are_lines_among_others(ask: Any):
    code, out, _ = ask("--all", "--members", "2..3", "--partitions", "orders=12", "--strategies", "sticky")
    assert (code, out.count("divides well: "), out.count("\nnot played: ")) == (0, 6, 5)
    assert "\nnot played: group 'wide', sticky: partitions of topic 'orders': found no member that subscribes to it" in out


def test_names_of_scenarios_are_escaped(ask: Any, tmp_path: Path):
    path = tmp_path / "s.yaml"
    path.write_text('"x\\e": {}\n')
    _, out, _ = ask("pair", "--scenario", str(path))
    assert [char for char in out if not char.isprintable() and char != "\n"] == []
    assert list(rows(out))[1] == "x\\x1b: range"


@pytest.mark.parametrize("words", [["--static-ids"], ["--members", "1..2"], ["--add-members", "n\x1b"]])
def test_names_are_escaped(ask: Any, words: list[str]):
    code, out, _ = ask("evil*", *words)
    assert code == 0 and "evil\\x1b[31m\\u202e of cluster c" in out
    assert [char for char in out if not char.isprintable() and char != "\n"] == []


def test_warehouse_stays_as_it_is(ask: Any, warehouse: Path):
    before = {path: path.stat().st_mtime_ns for path in warehouse.rglob("*")}
    assert ask("pair", "--add-members", "1")[0] == 0
    assert {path: path.stat().st_mtime_ns for path in warehouse.rglob("*")} == before
