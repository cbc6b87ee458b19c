"""Rows of the output of ``kafka-consumer-groups``: recorded ones against the admin client, and what must not become a row."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.decoders.describe_rows import WAYS_OUT, decode_texts
from tests.builders.describe_texts import Consumer, Kafka, rendered, sessions

GOLDEN = Path(__file__).parents[3] / "golden"
RECORDED = GOLDEN / "describe" / "recorded.jsonl.gz"
RECORDINGS = [json.loads(line) for line in gzip.decompress(RECORDED.read_bytes()).decode().splitlines()]
FILES = {
    "members": "describe-members-verbose.txt",
    "offsets": "describe-offsets.txt",
    "state": "describe-state.txt",
    "list": "list-state.txt",
}
AS_OF_MS = 1_795_227_748_916


def decode(*texts: str, group_id: str | None = None) -> list[dict[str, Any]]:
    return list(decode_texts({f"{number}.txt": text.encode() for number, text in enumerate(texts, start=1)}, AS_OF_MS, group_id))


def outcomes(rows: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return [(row["source_position"], row["outcome"], row.get("reason") or row["kind"]) for row in rows]


def snapshots(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {row["snapshot"]["group_id"]: row["snapshot"] for row in rows if "snapshot" in row}


def commits(rows: list[dict[str, Any]]) -> dict[tuple[str, str, int], tuple[int, int | None]]:
    found = [row["offset_commit"] for row in rows if "offset_commit" in row]
    return {(one["group_id"], one["topic"], one["partition"]): (one["committed_offset"], one["leader_epoch"]) for one in found}


# Recorded looks.


def decode_recorded(recorded: dict[str, Any]) -> list[dict[str, Any]]:
    return list(decode_texts({name: recorded["texts"][command].encode() for command, name in FILES.items()}, AS_OF_MS))


def entries(held: dict[str, list[int]]) -> list[dict[str, Any]]:
    return [{"topic": topic, "partitions": sorted(numbers)} for topic, numbers in sorted(held.items())]


def admin_members(group: dict[str, Any]) -> list[dict[str, Any]]:
    is_consumer = group["type"] == "Consumer"
    return [
        {
            "member_id": member["member_id"],
            "group_instance_id": member["instance_id"],
            "client_id": member["client_id"],
            "client_host": member["host"],
            "assigned": entries(member["target_assignment"] if is_consumer else member["assignment"]),
            "current": entries(member["assignment"]) if is_consumer else None,
        }
        for member in sorted(group["members"], key=lambda member: member["member_id"])
    ]


@pytest.mark.parametrize("recorded", RECORDINGS, ids=[recorded["snapshot"] for recorded in RECORDINGS])
def test_rows_of_recorded_text_equal_the_admin_clients_description(recorded):
    rows = decode_recorded(recorded)
    by_group = snapshots(rows)
    assert by_group.keys() == recorded["groups"].keys()
    for group_id, group in recorded["groups"].items():
        found = by_group[group_id]
        assert found["members"] == admin_members(group)
        assert (found["state"], found["protocol_type"]) == (group["state"], "consumer")
        # Without --verbose the state of an empty group shows neither its type nor its epoch.
        has_members = bool(group["members"])
        assert found["group_type"] == (group["type"].lower() if has_members else None)
        strategy = "server-range" if (group["type"], group["assignor"]) == ("Consumer", "range") else group["assignor"]
        assert found["strategy"] == (strategy if has_members else None)
        assert found["generation"] == (group["target_assignment_epoch"] if has_members else None)
    placed = {
        (group_id, *partition.rsplit("-", 1)): offset
        for group_id, group in recorded["groups"].items()
        for partition, (offset, _) in group["committed"].items()
    }
    assert {(group_id, topic, str(number)): offset for (group_id, topic, number), (offset, _) in commits(rows).items()} == placed
    assert len(rows) == len(recorded["groups"]) + len(placed), "nothing is skipped or rejected"


def test_recorded_texts_have_groups_of_every_type_and_state():
    """What the test above went over: no look is empty, and none straddles a rebalance."""
    kinds = Counter((group["type"], group["state"]) for recorded in RECORDINGS for group in recorded["groups"].values())
    assert kinds == {("Classic", "Empty"): 250, ("Classic", "Stable"): 155, ("Consumer", "Empty"): 41, ("Consumer", "Stable"): 29}
    assert len(RECORDINGS) == 40


def test_equal_members_at_two_moments_have_one_fingerprint():
    prints = {}
    for recorded in RECORDINGS:
        for group_id, snapshot in snapshots(decode_recorded(recorded)).items():
            prints.setdefault(json.dumps([group_id, snapshot["members"]]), set()).add(snapshot["fingerprint"])
    assert {len(found) for found in prints.values()} == {1}
    assert len({fingerprint for found in prints.values() for fingerprint in found}) == len({key.split(",", 1)[1] for key in prints})


# What a look may not show.


def kafka(*members: Consumer, **facts: Any) -> Kafka:
    defaults = {"group_id": "g", "kind": "classic", "state": "Stable", "assignor": "range", "epoch": None, "target_epoch": None}
    return Kafka(coordinator=("b", 9092, 1), members=members, **{**defaults, "committed": {}, "ends": {}, **facts})


def consumer(name: str, held: dict[str, list[int]], target: dict[str, list[int]] | None = None, epoch: int | None = None) -> Consumer:
    return Consumer(f"{name}-3fc8d6f1-581a-4472-bdf3-3515b4aee8c1", None, name, "/10.0.0.11", held, target, epoch)


GROUP = kafka(consumer("a", {"t": [0]}), consumer("b", {"t": [1, 2]}), committed={("t", 0): (7, 3), ("u", 5): (8, None)})


def test_classic_group_gives_snapshot_and_offset_commits():
    rows = decode(*(rendered("4.0", [GROUP], output) for output in ("members --verbose", "offsets --verbose", "state")))
    first = consumer("a", {})
    snapshot = {
        "group_id": "g",
        "generation": None,
        "observed_at": AS_OF_MS * 1000,
        "position": AS_OF_MS,
        "group_type": "classic",
        "protocol_type": "consumer",
        "state": "Stable",
        "strategy": "range",
    }
    assert {name: rows[0]["snapshot"][name] for name in snapshot} == snapshot
    assert rows[0]["snapshot"]["members"][0] == {
        "member_id": first.member_id,
        "group_instance_id": None,
        "client_id": "a",
        "client_host": "/10.0.0.11",
        "assigned": [{"topic": "t", "partitions": [0]}],
        "current": None,
    }
    assert outcomes(rows) == [
        ("1.txt line 3", "landed", "described_group"),
        ("2.txt line 3", "landed", "offset_commit"),
        ("2.txt line 6", "landed", "offset_commit"),
    ]
    fingerprint = rows[2]["offset_commit"].pop("fingerprint")
    assert rows[2]["offset_commit"] == {
        "group_id": "g",
        "topic": "u",
        "partition": 5,
        "position": AS_OF_MS,
        "observed_at": AS_OF_MS * 1000,
        "committed_offset": 8,
        "leader_epoch": None,
        "end_offset": None,
        "is_deleted": False,
    }
    assert fingerprint != rows[1]["offset_commit"]["fingerprint"]


def test_end_of_the_log_lands_beside_the_commit():
    """It is no part of what is compared: two outputs of one moment may have other ends."""
    group = kafka(consumer("a", {"t": [0, 1]}), committed={("t", 0): (7, None), ("t", 1): (5, None)}, ends={("t", 0): 30, ("t", 1): 9})
    commits = {}
    for name, one in (("first", group), ("later", replace(group, ends={("t", 0): 31}))):
        commits[name] = [row["offset_commit"] for row in decode(rendered("4.0", [one], "offsets")) if row["kind"] == "offset_commit"]
    (first, second), (later, unknown) = commits["first"], commits["later"]
    assert [row["end_offset"] for row in (first, second, later, unknown)] == [30, 9, 31, None]
    assert first["fingerprint"] == later["fingerprint"]


@pytest.mark.parametrize(
    ("group", "generation"),
    [
        pytest.param(kafka(consumer("a", {"t": [0, 1]}, {"t": [0]}, 8), kind="consumer", state="Assigning", epoch=10, target_epoch=9), 9),
        pytest.param(kafka(kind="consumer", state="Empty", assignor="", epoch=11, target_epoch=9), 11),
    ],
    ids=["the epoch of the target that the members have", "the epoch at which the last member left"],
)
def test_generation_of_a_described_consumer_group_is_its_epoch(group, generation):
    rows = decode(*(rendered("4.0", [group], output) for output in ("members --verbose", "state --verbose")))
    (snapshot,) = snapshots(rows).values()
    assert (snapshot["group_type"], snapshot["state"], snapshot["generation"]) == ("consumer", group.state, generation)


def test_members_of_a_reconciling_group_have_target_and_current_partitions():
    moving = kafka(consumer("a", {"t": [0, 1]}, {"t": [0]}, 8), kind="consumer", state="Reconciling", epoch=9, target_epoch=9)
    (snapshot,) = snapshots(decode(rendered("4.0", [moving], "members --verbose"))).values()
    (member,) = snapshot["members"]
    assert (member["assigned"], member["current"]) == ([{"topic": "t", "partitions": [0]}], [{"topic": "t", "partitions": [0, 1]}])


NOBODY = kafka(consumer("a", {}), consumer("b", {}))
REBALANCING = kafka(*NOBODY.members, state="PreparingRebalance")
OWNED = rendered("4.0", [GROUP], "offsets")
COMMITTED = rendered("4.0", [kafka(committed=GROUP.committed)], "offsets")
NO_GROUP = "Error: Executing consumer group command failed due to org.apache.kafka.common.errors.GroupIdNotFoundException: "
WITH_IDLE = kafka(*GROUP.members, consumer("c", {}), committed=GROUP.committed)
MOVING = kafka(consumer("a", {"t": [0, 1]}, {"t": [0]}, 8), kind="consumer", state="Reconciling", epoch=9, target_epoch=9)


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        pytest.param([rendered("4.0", [REBALANCING], "members --verbose")], "rebalancing_group", id="the notice says so"),
        pytest.param([rendered("4.0", [NOBODY], "members --verbose")], "rebalancing_group", id="stderr was not kept"),
        pytest.param(
            [rendered("4.0", [NOBODY], "members --verbose"), rendered("4.0", [REBALANCING], "list --state")],
            "rebalancing_group",
            id="another file says so",
        ),
        pytest.param(
            [rendered("4.0", [GROUP], "members --verbose"), rendered("4.0", [REBALANCING], "list --state")],
            "rebalancing_group",
            id="it began after the members were printed",
        ),
        pytest.param(
            [rendered("4.0", [NOBODY], "members --verbose"), rendered("4.0", [NOBODY], "state"), OWNED],
            "rebalancing_group",
            id="it was stable again afterwards",
        ),
        pytest.param([rendered("4.0", [GROUP], "members")], "assignments_not_told", id="without --verbose"),
        pytest.param([COMMITTED], "members_not_told", id="offsets that nobody owns"),
        pytest.param([rendered("4.0", [MOVING], "offsets")], "rebalancing_group", id="owners of a group that moves"),
        pytest.param([OWNED, rendered("4.0", [WITH_IDLE], "state")], "idle_members_not_told", id="more members than owners"),
        pytest.param([rendered("4.0", [GROUP], "list --state")], "members_not_told", id="only listed"),
        pytest.param([rendered("4.0", [REBALANCING], "list --state")], "rebalancing_group", id="only listed, with its state"),
        pytest.param([COMMITTED.replace("\n", "\nWarning: Consumer group 'g' is rebalancing.\n", 1)], "rebalancing_group", id="no owners"),
        pytest.param([rendered("4.0", [REBALANCING], "members")], "rebalancing_group", id="members without --verbose"),
        pytest.param([rendered("4.0", [MOVING], "list --state")], "members_not_told", id="a group that moves, only listed"),
        pytest.param(["\nError: Consumer group 'gone' does not exist.\n"], "absent_group", id="no group"),
        pytest.param([f"\n{NO_GROUP}Group gone not found.\n"], "absent_group", id="no group, by a tool of 4.0"),
        pytest.param([f"\n{NO_GROUP}Group s is not a consumer group.\n"], "no_consumer_group", id="a share group"),
    ],
)
def test_rebalancing_group_without_assignment_makes_no_snapshot(texts, kind):
    rows = decode(*texts)
    assert snapshots(rows) == {}
    assert Counter(row["kind"] for row in rows if row["outcome"] == "skipped") == {kind: 1}
    assert kind in WAYS_OUT


def test_rebalancing_classic_group_is_skipped_with_what_the_text_shows_of_it():
    (seen,) = [row for row in decode(rendered("4.0", [REBALANCING], "members --verbose")) if "payload" in row]
    assert json.loads(seen["payload"]) == {
        "group_id": REBALANCING.group_id,
        "at_ms": AS_OF_MS,
        "state": None,
        "member_ids": sorted(member.member_id for member in NOBODY.members),
    }
    rows = decode(rendered("4.0", [NOBODY], "members --verbose"), rendered("4.0", [REBALANCING], "list --state"))
    assert [json.loads(row["payload"])["state"] for row in rows if "payload" in row] == ["PreparingRebalance"]
    moving = [rendered("4.0", [MOVING], "offsets"), rendered("4.0", [MOVING], "state")]
    for texts in ([rendered("4.0", [NOBODY], "members --verbose")], moving):
        assert not any("payload" in row for row in decode(*texts)), "stderr was not kept, or the group uses the consumer protocol"


def test_owners_of_partitions_are_the_members_of_a_plain_description():
    rows = decode_pasted("owners_of_partitions.txt")
    (snapshot,) = snapshots(rows).values()
    assert [(member["client_host"], member["client_id"], member["assigned"]) for member in snapshot["members"]] == [
        ("/10.0.3.51", "rdkafka", [{"topic": "payments-raw", "partitions": [0, 1]}]),
        ("/10.0.2.23", "rdkafka", [{"topic": "payments-raw", "partitions": [2, 3]}]),
        ("/10.0.2.126", "rdkafka", [{"topic": "payments-raw", "partitions": [4]}]),
    ]
    assert {(member["group_instance_id"], member["current"]) for member in snapshot["members"]} == {(None, None)}
    assert snapshot["group_type"] is None
    assert commits(rows)["PAY_WORKER", "payments-raw", 5] == (6861, None), "which nobody owns"
    assert len(commits(rows)) == 6


@pytest.mark.parametrize("edition", ["2.0", "2.3", "2.6", "3.8", "4.0"])
def test_members_beside_owners_name_those_that_hold_nothing(edition):
    static = [replace(member, instance_id=f"i-{member.client_id}") for member in WITH_IDLE.members]
    texts = (rendered(edition, [replace(WITH_IDLE, members=tuple(static))], output) for output in ("offsets", "members", "state"))
    (snapshot,) = snapshots(decode(*texts, group_id="g")).values()
    assert [(member["client_id"], member["assigned"]) for member in snapshot["members"]] == [
        ("a", [{"topic": "t", "partitions": [0]}]),
        ("b", [{"topic": "t", "partitions": [1, 2]}]),
        ("c", []),
    ]
    assert {member["group_instance_id"] for member in snapshot["members"]} == ({None} if edition < "2.6" else {"i-a", "i-b", "i-c"})
    assert (snapshot["strategy"], snapshot["state"]) == ("range", "Stable")


def test_printed_assignments_come_before_owners():
    """The owners are those of another moment; what is printed of the members holds."""
    moved = kafka(consumer("a", {"t": [0, 1]}), consumer("b", {"t": [2]}), committed=GROUP.committed)
    rows = decode(OWNED, rendered("4.0", [moved], "members --verbose"))
    (snapshot,) = snapshots(rows).values()
    assert [member["assigned"] for member in snapshot["members"]] == [entries(member.held) for member in moved.members]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(rendered("4.0", [kafka(consumer("a", {"t": [0, 1]}), GROUP.members[1])], "members"), id="other counts of partitions"),
        pytest.param(rendered("4.0", [kafka(GROUP.members[0])], "members"), id="an owner that is no member"),
        pytest.param(rendered("4.0", [kafka(GROUP.members[0])], "state"), id="fewer members than owners"),
        pytest.param(rendered("4.0", [kafka(state="Empty", assignor="")], "list --state"), id="no members"),
        pytest.param(OWNED.split("\n")[3].replace(" 1 ", " x "), id="a damaged row"),
    ],
)
def test_owners_that_other_lines_contradict_are_in_doubt(other):
    rows = decode(OWNED + other + "\n")
    assert snapshots(rows) == {}
    assert "members_in_doubt" in [row.get("reason") for row in rows]
    assert ("g", "u", 5) in commits(rows)


def test_owners_in_a_stable_consumer_group_hold_their_target():
    still = kafka(consumer("a", {"t": [0, 1]}, {"t": [0, 1]}, 9), kind="consumer", state="Stable", epoch=9, target_epoch=9)
    (snapshot,) = snapshots(decode(*(rendered("4.0", [still], output) for output in ("offsets", "state --verbose")))).values()
    (member,) = snapshot["members"]
    assert member["assigned"] == member["current"] == [{"topic": "t", "partitions": [0, 1]}]
    assert (snapshot["group_type"], snapshot["generation"]) == ("consumer", 9)


def test_a_stable_group_may_hold_nothing():
    rows = decode(rendered("4.0", [NOBODY], "members --verbose"), rendered("4.0", [NOBODY], "state"))
    assert [len(snapshot["members"]) for snapshot in snapshots(rows).values()] == [2]


def test_a_table_that_lost_a_row_does_not_become_a_snapshot():
    """Its partitions would seem to be nobody's."""
    cut = rendered("4.0", [GROUP], "members --verbose").replace("t:1,2 ", "t:1   ")
    whole = rendered("4.0", [kafka(consumer("c", {"t": [9]}), group_id="h")], "members --verbose")
    rows = decode(cut, whole)
    assert list(snapshots(rows)) == ["h"]
    assert outcomes(rows) == [
        ("1.txt line 3", "quarantined", "members_in_doubt"),
        ("2.txt line 3", "landed", "described_group"),
        ("1.txt line 4", "quarantined", "malformed_line"),
    ]
    assert rows[2]["detail"] == "#PARTITIONS is 2, and CURRENT-ASSIGNMENT has 1: the row was cut or damaged"
    assert rows[2]["payload"] == cut.split("\n")[3].encode()


def test_owner_that_is_no_member_puts_its_group_in_doubt():
    """As ``head`` cuts a text between two rows: the partitions of the others would seem to be nobody's."""
    members = rendered("4.0", [GROUP], "members --verbose")
    first = members[: members.rindex("\n", 0, members.rstrip().rindex("\n") + 1) + 1]
    rows = decode(first, OWNED)
    assert snapshots(rows) == {}
    assert [row["reason"] for row in rows if row["outcome"] == "quarantined"] == ["members_in_doubt"]
    assert len(snapshots(decode(members, OWNED))["g"]["members"]) == 2


def test_ids_of_members_show_the_consumer_protocol():
    """Neither plain ``--describe`` nor ``--state`` prints the type of a group; both call the assignors of both types ``range``."""
    group = kafka(consumer("Sp6AUHw-Tp6vnk_ADiaTMA", {"t": [0]}), kind="consumer", epoch=4, target_epoch=4)
    group = replace(group, members=tuple(replace(member, member_id=member.client_id) for member in group.members))
    found = snapshots(decode(rendered("4.0", [group], "offsets"), rendered("4.0", [group], "state")))["g"]
    assert (found["group_type"], found["strategy"]) == ("consumer", "server-range")
    assert found["members"][0]["current"] == found["members"][0]["assigned"]
    found = snapshots(decode(OWNED, rendered("4.0", [GROUP], "state")))["g"]
    assert (found["group_type"], found["strategy"]) == (None, "range")


@pytest.mark.parametrize("output", ["state", "list --state"])
def test_members_that_another_file_does_not_count_are_in_doubt(output):
    after = kafka(state="Empty", assignor="") if output != "state" else kafka(GROUP.members[0])
    rows = decode(rendered("4.0", [GROUP], "members --verbose"), rendered("4.0", [after], output))
    assert snapshots(rows) == {}
    assert [row["detail"] for row in rows if row["outcome"] == "quarantined"] == [
        "group 'g': found 2 members, but a row of their table was rejected, or another table has another number; "
        "expected complete outputs of one moment"
    ]


def test_member_with_two_different_lines_makes_its_group_doubtful():
    text = rendered("4.0", [GROUP], "members --verbose")
    line = text.split("\n")[2]
    rows = decode(text + line.replace("t:0", "t:5") + "\n")
    assert snapshots(rows) == {}
    assert [row["reason"] for row in rows] == ["members_in_doubt", "two_looks"]
    assert snapshots(decode(text + line + "\n")), "a repetition changes nothing"


def test_partition_with_two_owners_has_one_offset_commit():
    both = kafka(consumer("a", {"t": [0]}), consumer("b", {"t": [0]}), committed={("t", 0): (7, None)})
    text = rendered("4.0", [both], "offsets")
    assert commits(decode(text)) == {("g", "t", 0): (7, None)}
    lines = text.split("\n")
    other = text.replace(lines[3], lines[3].replace(" 7 ", " 6 "))
    assert outcomes(decode(other))[1:] == [("1.txt line 3", "landed", "offset_commit"), ("1.txt line 4", "quarantined", "two_looks")]


def test_lines_of_other_kinds_are_counted_by_kind():
    text = rendered("4.0", [GROUP], "members --verbose")
    rows = decode(
        f"$ kafka-consumer-groups.sh --describe --group g\n[2026-11-21 02:21:13,123] WARN x (y)\n{text}{text}"
        "\nError: Consumer group 'gone' does not exist.\nError: Executing consumer group command failed due to x\n"
    )
    assert Counter((row["outcome"], row.get("reason") or row["kind"]) for row in rows) == {
        ("landed", "described_group"): 1,
        ("skipped", "command_line"): 1,
        ("skipped", "log_line"): 1,
        ("skipped", "repetition"): 2,
        ("skipped", "absent_group"): 1,
        ("quarantined", "failed_command"): 1,
    }


def decode_pasted(name: str) -> list[dict[str, Any]]:
    return list(decode_texts({name: (GOLDEN / "texts" / name).read_bytes()}, AS_OF_MS))


@pytest.mark.parametrize(
    ("name", "members", "others"),
    [
        ("tables_behind_a_line_of_kubectl.txt", {"billing": 2, "mailer": 1}, 1),
        ("table_before_a_prompt.txt", {"billing": 1}, 1),
        ("tables_with_headings.txt", {"audit": 1, "billing": 2, "mailer": 2}, 3),
    ],
)
def test_lines_between_pasted_tables_are_skipped(name, members, others):
    rows = decode_pasted(name)
    assert {group_id: len(snapshot["members"]) for group_id, snapshot in snapshots(rows).items()} == members
    assert Counter((row["outcome"], row["kind"]) for row in rows) == {
        ("landed", "described_group"): len(members),
        ("skipped", "not_a_table_line"): others,
    }


def test_assignments_without_spaces_between_topics_are_read():
    """The text has lost its alignment, too."""
    rows = decode_pasted("assignments_without_spaces.txt")
    (snapshot,) = snapshots(rows).values()
    held = {member["client_host"]: [(one["topic"], one["partitions"]) for one in member["assigned"]] for member in snapshot["members"]}
    assert held == {
        "/10.16.100.90": [("topic_1", [1, 2, 3])],
        "/10.16.96.154": [],
        "/10.16.109.218": [("topic_2", [1, 2, 3])],
        "/10.16.150.15": [("topic_2", [4]), ("topic_3", [1])],
        "/10.16.109.23": [("topic_4", [1])],
    }
    assert [row["kind"] for row in rows if row["outcome"] != "landed"] == ["command_line"]


def test_bytes_that_are_no_text_are_kept():
    text = rendered("4.0", [GROUP], "offsets").encode() + b"g" + b" " * 15 + b"t\xff\n"
    *_, last = decode_texts({"a.txt": text}, AS_OF_MS)
    assert (last["reason"], last["detail"], last["payload"]) == ("malformed_line", "it is not UTF-8", b"g" + b" " * 15 + b"t\xff")


def test_a_file_does_not_go_on_with_the_table_of_the_one_before():
    members = rendered("2.0", [GROUP], "members --verbose")
    rows = decode(members, members.split("\n")[2], group_id="g")
    assert outcomes(rows)[1:] == [("2.txt line 1", "quarantined", "malformed_line")]
    assert list(snapshots(rows)) == ["g"]


# Any text.


def assert_has_one_outcome(row: dict[str, Any]) -> None:
    targets = {"snapshot", "offset_commit"} & row.keys()
    assert (len(targets) == 1) == (row["outcome"] == "landed")
    assert ({"reason", "detail", "payload", "payload_hash"} <= row.keys()) == (row["outcome"] == "quarantined")
    assert row["kind"]
    assert row["source_position"]
    assert all(len(row[name]["fingerprint"]) == 64 for name in targets)
    json.dumps({name: value for name, value in row.items() if name != "payload"}, ensure_ascii=False).encode()


@given(sessions(), st.data())
@settings(max_examples=150, deadline=None)
def test_damaged_files_give_rows(session, data):
    edition, groups, _ = session
    text = rendered(edition, groups, data.draw(st.sampled_from(["members --verbose", "offsets"])))
    lines = data.draw(st.permutations(text.encode().split(b"\n")))
    lines += data.draw(st.lists(st.sampled_from(lines), max_size=3))
    for at in data.draw(st.lists(st.integers(0, len(lines) - 1), max_size=4)):
        cut = data.draw(st.integers(0, len(lines[at])))
        lines[at] = (
            lines[at][:cut] + data.draw(st.sampled_from([b"", b" ", b"x", b"\t", b"\xff", b"9", b"-", b"\0"])) + lines[at][cut + 1 :]
        )
    half = data.draw(st.integers(0, len(lines)))
    files = {"a": lines[:half], "b": lines[half:]}
    rows = list(decode_texts({name: b"\n".join(some) for name, some in files.items()}, AS_OF_MS, "g"))
    for row in rows:
        assert_has_one_outcome(row)


@given(
    st.lists(st.one_of(st.binary(), st.sampled_from([b"GROUP ", b"TOPIC ", b"CONSUMER-ID ", b"HOST", b" STATE\n", b"\n", b"\r", b"(0)"])))
)
@settings(max_examples=200, deadline=None)
def test_any_bytes_give_rows_with_one_outcome(pieces):
    for row in decode_texts({"a": b"".join(pieces), "b": b"\n".join(pieces)}, AS_OF_MS):
        assert_has_one_outcome(row)
