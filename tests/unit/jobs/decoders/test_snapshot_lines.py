"""What becomes of a snapshot in the project's own envelope: the rows that land, or the one reason why none does."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given

from jobs.decoders.decoded import LAST_MS
from jobs.decoders.snapshot_lines import decode_line
from tests.builders import records
from tests.builders.group_snapshots import admin_looks, decode, envelope, envelopes_of, member

FIRST, SECOND = {"topic": "t", "partition": 0, "committed_offset": 1}, {"topic": "t", "partition": 1, "committed_offset": 2}


def snapshot(**changes: Any) -> dict[str, Any]:
    """Return the decoded snapshot of an envelope without offsets."""
    (row,) = decode(envelope(offsets=None, **changes))
    return row["snapshot"]


def storable(value: Any) -> bool:
    """Return whether columns can hold a value: text that is UTF-8, numbers of 64 bits."""
    if isinstance(value, dict):
        return all(storable(inner) for inner in value.values())
    if isinstance(value, list):
        return all(storable(inner) for inner in value)
    if isinstance(value, str):
        value.encode()  # the test fails where this does
        return True
    return value is None or isinstance(value, bool | bytes) or (type(value) is int and -(2**63) <= value < 2**63)


# -- any line


@given(records.lines(envelope()))
def test_any_line_has_rows_with_one_outcome_each(line: bytes) -> None:
    rows = list(decode_line(line))
    assert rows and all(map(storable, rows))
    for row in rows:
        targets = {"snapshot", "offset_commit", "group_record", "look"} & row.keys()
        assert (row["outcome"], len(targets)) in {("landed", 1), ("skipped", 0), ("quarantined", 0)}
        reasons = {"reason", "detail", "payload", "payload_hash"} & row.keys()
        assert len(reasons) == (4 if row["outcome"] == "quarantined" else 0)
    assert len(rows) == 1 or all(row["outcome"] != "quarantined" for row in rows), "a line is taken whole, or not at all"


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"{", id="no JSON"),
        pytest.param(b"\xed\xa0\x80", id="no UTF-8"),
        pytest.param(b"[1]", id="no object"),
        pytest.param(b"[" * 200_000, id="nested too deep"),
        pytest.param(b'{"group_id": ' + b"9" * 5_000 + b"}", id="a number too long to read"),
    ],
)
def test_malformed_snapshot_line_is_quarantined_with_its_reason(line: bytes) -> None:
    (row,) = decode_line(line)
    assert (row["outcome"], row["kind"], row["reason"]) == ("quarantined", "unreadable_line", "malformed_line")
    assert (row["payload"], row["payload_hash"]) == (line[: 64 * 1024], hashlib.sha256(line).hexdigest())
    assert "source_position" not in row, "the caller knows file and line"


# -- rows that land


def test_snapshot_row_has_every_field_of_the_envelope() -> None:
    row, _ = decode(envelope())
    found = row.pop("snapshot")
    assert row == {"outcome": "landed", "kind": "group_snapshot", "cluster_id": "own", "source_position": "9 grüppe"}
    first, second = found.pop("members")
    assert len(found.pop("fingerprint")) == 64
    assert found == {
        "group_id": "grüppe", "generation": 5, "observed_at": 1_000_000, "position": 9, "group_type": "classic",
        "protocol_type": "consumer", "state": "Stable", "strategy": "range", "leader_member_id": "a", "joined_at": 900_000,
        "reconciled_at": 950_000,
    }  # fmt: skip
    expected = member("a")
    del expected["user_data_b64"]
    assert first == {**expected, "user_data": b"u\xc3\xbc\xff"}
    assert (second["member_id"], second["assigned"]) == ("b", [])


def test_an_offset_is_a_commit_row() -> None:
    _, row = decode(envelope())
    commit = row.pop("offset_commit")
    assert row == {"outcome": "landed", "kind": "offset_commit", "cluster_id": "own", "source_position": "9 grüppe t-2"}
    assert len(commit.pop("fingerprint")) == 64
    assert commit == {
        "group_id": "grüppe", "topic": "t", "partition": 2, "position": 9, "observed_at": 1_000_000, "committed_offset": 2**53 + 1,
        "leader_epoch": 7, "metadata": "m", "committed_at": 800_000, "topic_id": "AAAAAAAAAAEAAAAAAAAAAg", "is_deleted": False,
    }  # fmt: skip


def test_optional_fields_may_be_absent() -> None:
    least = {"group_id": "g", "observed_at_ms": 1_000, "group_type": "classic", "state": "Stable"}
    (row,) = decode({**least, "members": [{"member_id": "a", "assigned": []}]})
    assert "cluster_id" not in row, "the capture, or the run, has one"
    found = row["snapshot"]
    assert (found["position"], found["generation"], found["protocol_type"], found["joined_at"]) == (1_000, None, "consumer", None)
    assert {name for name, value in found["members"][0].items() if value is not None} == {"member_id", "assigned"}


def test_null_is_the_same_as_absent() -> None:
    """Spark's ``to_json``, through which Parquet comes, leaves out nulls."""

    def without_nulls(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: without_nulls(inner) for name, inner in value.items() if inner is not None}
        return [without_nulls(inner) for inner in value] if isinstance(value, list) else value

    no_values = {name: None for name in member() if name not in ("member_id", "assigned")}
    sound = envelope(
        members=[member("a", **no_values)],
        offsets=[{**FIRST, "committed_offset": None, "leader_epoch": None, "metadata": None, "committed_at_ms": None, "topic_id": None}],
        **{name: None for name in ("cluster_id", "position", "generation", "protocol_type", "strategy", "leader_member_id")},
        joined_at_ms=None,
        reconciled_at_ms=None,
    )
    assert decode(without_nulls(sound)) == decode(sound)
    assert [row["outcome"] for row in decode(sound)] == ["landed", "landed"]


def test_position_zero_is_kept() -> None:
    assert snapshot(position=0)["position"] == 0


def test_offsets_alone_are_no_snapshot() -> None:
    rows = decode(envelope(members=None, offsets=[FIRST, SECOND]))
    assert [(row["offset_commit"]["partition"], row["offset_commit"]["committed_offset"]) for row in rows] == [(0, 1), (1, 2)]


def test_a_partition_without_offset_is_a_deletion() -> None:
    (row,) = decode(envelope(members=None, offsets=[{**FIRST, "committed_offset": None}]))
    assert (row["offset_commit"]["committed_offset"], row["offset_commit"]["is_deleted"]) == (None, True)


def test_an_empty_group_has_a_snapshot_without_strategy() -> None:
    found = snapshot(members=[], state="Empty", group_type="consumer", strategy="uniform")
    assert (found["members"], found["state"], found["strategy"]) == ([], "Empty", None)


@pytest.mark.parametrize(
    ("group_type", "spelled", "expected"),
    [("classic", "range", "range"), ("consumer", "range", "server-range"), ("consumer", "uniform", "uniform"), ("classic", "", None)],
)
def test_brokers_have_a_range_of_their_own(group_type: str, spelled: str, expected: str | None) -> None:
    assert snapshot(group_type=group_type, strategy=spelled)["strategy"] == expected


def test_empty_names_become_null() -> None:
    names = ("group_instance_id", "rack", "topic_regex")
    found = snapshot(members=[member(**dict.fromkeys(names, ""))], leader_member_id="")
    assert [found["leader_member_id"], *(found["members"][0][name] for name in names)] == [None] * 4


def test_a_state_of_a_later_release_is_kept() -> None:
    assert snapshot(state="Pondering")["state"] == "Pondering"


def test_entries_of_one_topic_are_joined() -> None:
    entries = [("t", [1, 0]), ("u", [5]), ("v", []), ("t", [2])]
    listed = [{"topic": topic, "partitions": numbers} for topic, numbers in entries]
    found = snapshot(members=[member(owned=listed, assigned=listed, current=listed, pending_revocation=listed)])["members"][0]
    for name in ("owned", "assigned", "current", "pending_revocation"):
        assert found[name] == [{"topic": "t", "partitions": [1, 0, 2]}, {"topic": "u", "partitions": [5]}]


@pytest.mark.parametrize(("spelled", "state"), [("STABLE", "Stable"), ("empty", "Empty"), ("Reconciling", "Reconciling")])
def test_a_state_in_another_spelling_becomes_kafkas_word(spelled: str, state: str) -> None:
    assert snapshot(state=spelled, members=[])["state"] == state


# -- envelopes that are skipped


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        pytest.param({"protocol_type": "connect"}, "group_snapshot:connect", id="workers of Connect"),
        pytest.param({"state": "Dead", "members": []}, "group_snapshot:Dead", id="a deleted group"),
        pytest.param({"state": "DEAD", "members": []}, "group_snapshot:Dead", id="a deleted group, as a constant"),
        pytest.param({"state": "UNKNOWN"}, "group_snapshot:Unknown", id="a state that the client does not know"),
    ],
)
def test_a_snapshot_of_no_generation_is_skipped_and_its_offsets_are_not(changes: dict, kind: str) -> None:
    first, second = decode(envelope(**changes))
    assert first == {"outcome": "skipped", "kind": kind, "cluster_id": "own", "source_position": "9 grüppe"}
    assert second["outcome"] == "landed"


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance"])
def test_snapshot_between_two_generations_is_skipped_with_what_it_saw(state: str) -> None:
    first, second = decode(envelope(state=state, position=7, observed_at_ms=9_000))
    seen = json.loads(first.pop("payload"))
    assert (seen["group_id"], seen["at_ms"], seen["state"]) == ("grüppe", 9_000, state)
    assert seen["member_ids"] == sorted(member["member_id"] for member in envelope()["members"])
    assert (first["outcome"], first["kind"], second["outcome"]) == ("skipped", f"group_snapshot:{state}", "landed")


@pytest.mark.parametrize(
    ("spelled", "state"),
    [
        ("PREPARING_REBALANCE", "PreparingRebalance"),
        ("PREPARING_REBALANCING", "PreparingRebalance"),
        ("Preparing Rebalance", "PreparingRebalance"),
        ("completing-rebalance", "CompletingRebalance"),
        ("AwaitingSync", "CompletingRebalance"),
    ],
)
def test_snapshot_between_two_generations_is_skipped_in_any_spelling_of_its_state(spelled: str, state: str) -> None:
    assert decode(envelope(state=spelled)) == decode(envelope(state=state))


@pytest.mark.parametrize("offsets", [None, []])
def test_an_envelope_without_content_is_skipped(offsets: list | None) -> None:
    (row,) = decode(envelope(members=None, offsets=offsets))
    assert (row["outcome"], row["kind"]) == ("skipped", "group_snapshot_without_content")


def test_a_group_of_no_protocol_type_is_one_of_consumers() -> None:
    """A group that only ever committed has an empty one."""
    assert snapshot(protocol_type="", members=[])["protocol_type"] == ""


# -- envelopes with one mistake

WHOLE_32, WHOLE_64 = "expected a whole number of 32 bits, found ", "expected a whole number of 64 bits, found "
MISTAKES = [
    pytest.param({"group_id": None}, "group_id: expected a string, found None", id="no group"),
    pytest.param({"group_id": "\ud800"}, "group_id: 'utf-8' codec can't encode character '\\ud800'", id="half a surrogate pair"),
    pytest.param({"cluster_id": 5}, "cluster_id: expected a string, found 5", id="a number for a cluster"),
    pytest.param({"observed_at_ms": None}, f"observed_at_ms: {WHOLE_64}None", id="no time"),
    pytest.param({"observed_at_ms": 1e400}, f"observed_at_ms: {WHOLE_64}inf", id="an infinite time"),
    pytest.param(
        {"observed_at_ms": LAST_MS}, f"observed_at_ms: expected milliseconds from 1970 to 2200, found {LAST_MS}", id="a time after 2199"
    ),
    pytest.param({"joined_at_ms": -1}, "joined_at_ms: expected milliseconds from 1970 to 2200, found -1", id="a time before 1970"),
    pytest.param({"reconciled_at_ms": 10**400}, f"reconciled_at_ms: {WHOLE_64}1000", id="a huge time"),
    pytest.param({"position": -1}, "position: expected 0 or more, found -1", id="a negative position"),
    pytest.param({"position": 2**63}, f"position: {WHOLE_64}{2**63}", id="a position that no column holds"),
    pytest.param({"generation": 5.0}, f"generation: {WHOLE_32}5.0", id="a generation with a decimal point"),
    pytest.param({"generation": -1}, "generation: expected 0 or more, found -1", id="what Kafka calls no generation"),
    pytest.param({"generation": True}, f"generation: {WHOLE_32}True", id="a boolean for a generation"),
    pytest.param({"group_type": "Classic"}, "group_type: expected classic or consumer, found 'Classic'", id="another spelling"),
    pytest.param({"group_type": ["classic"]}, "group_type: expected classic or consumer, found ['classic']", id="a list of types"),
    pytest.param({"state": None}, "state: expected a string, found None", id="no state"),
    pytest.param({"members": {}}, "members: expected a list, found {}", id="members by name"),
    pytest.param({"members": [7]}, "members[0]: expected an object, found 7", id="a number for a member"),
    pytest.param({"members": [member(), member("b", assigned=None)]}, "members[1].assigned: expected a list, found None", id="untold"),
    pytest.param({"members": [member(topics=["t", None])]}, "members[0].topics[1]: expected a string, found None", id="no topic"),
    pytest.param({"members": [member(strategies="range")]}, "members[0].strategies: expected a list, found 'range'", id="one strategy"),
    pytest.param({"members": [member(user_data_b64="%%%")]}, "members[0].user_data_b64: expected base64, found '%%%'", id="no base64"),
    pytest.param({"members": [member(user_data_b64="YQ===")]}, "members[0].user_data_b64: expected base64, found 'YQ==='", id="padded"),
    pytest.param(
        {"members": [member(owned=[{"topic": "t", "partitions": [0, -1]}])]},
        "members[0].owned[0].partitions[1]: expected 0 or more, found -1",
        id="a negative partition",
    ),
    pytest.param(
        {"members": [member(current=[{"topic": "t", "partitions": [2**31]}])]},
        f"members[0].current[0].partitions[0]: {WHOLE_32}{2**31}",
        id="a partition that no column holds",
    ),
    pytest.param({"offsets": [{**FIRST, "topic": None}]}, "offsets[0].topic: expected a string, found None", id="an offset of nothing"),
    pytest.param(
        {"offsets": [FIRST, {**SECOND, "committed_offset": -1}]},
        "offsets[1].committed_offset: expected 0 or more, found -1",
        id="what clients call no offset",
    ),
    pytest.param(
        {"offsets": [{**FIRST, "committed_at_ms": LAST_MS}]},
        f"offsets[0].committed_at_ms: expected milliseconds from 1970 to 2200, found {LAST_MS}",
        id="a commit after 2199",
    ),
]


@pytest.mark.parametrize(("changes", "detail"), MISTAKES)
def test_one_mistake_keeps_the_whole_line_out(changes: dict, detail: str) -> None:
    (row,) = decode(envelope(**changes))
    assert (row["outcome"], row["kind"], row["reason"]) == ("quarantined", "unreadable_line", "malformed_line")
    assert row["detail"].startswith(detail)
    assert "source_position" not in row


@pytest.mark.parametrize(
    ("changes", "reason", "detail"),
    [
        pytest.param(
            {"members": [member("a"), member("b"), member("a")]},
            "duplicate_member",
            "members: expected each member once, found 'a' more than once",
            id="a member twice",
        ),
        *[
            pytest.param(
                {"members": [member(**{name: [{"topic": "t", "partitions": [1, 0]}, {"topic": "t", "partitions": [0]}]})]},
                "duplicate_partition",
                f"members[0].{name}: expected each partition once, found ('t', 0) more than once",
                id=f"a partition twice in {name}",
            )
            for name in ("owned", "assigned", "current", "pending_revocation")
        ],
        pytest.param(
            {"offsets": [FIRST, SECOND, FIRST]},
            "duplicate_partition",
            "offsets: expected each partition once, found ('t', 0) more than once",
            id="two offsets of a partition",
        ),
    ],
)
def test_snapshot_line_with_a_doubled_member_or_offset_is_quarantined(changes: dict, reason: str, detail: str) -> None:
    (row,) = decode(envelope(**changes))
    assert (row["outcome"], row["reason"], row["detail"]) == ("quarantined", reason, detail)


def test_one_partition_at_two_members_is_for_the_audit() -> None:
    assert len(snapshot(members=[member("a"), member("b")])["members"]) == 2


# -- fingerprints


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"observed_at_ms": 2_000, "position": 10}, id="another moment"),
        pytest.param({"members": envelope()["members"][::-1]}, id="members in another order"),
        pytest.param(
            {
                "members": [
                    member("a", assigned=[{"topic": "t", "partitions": [0, 1]}, {"topic": "u", "partitions": [2]}]),
                    envelope()["members"][1],
                ]
            },
            id="partitions in another order",
        ),
    ],
)
def test_the_same_membership_has_the_same_fingerprint(changes: dict) -> None:
    assert snapshot(**changes)["fingerprint"] == snapshot()["fingerprint"]


@pytest.mark.parametrize("name", [name for name in member() if name != "member_id"])
def test_whatever_a_member_is_or_holds_is_in_the_fingerprint(name: str) -> None:
    other = {"assigned": [], "subscription_version": 1, "owned_generation": 0, "session_timeout_ms": 1, "rebalance_timeout_ms": 1}
    changed = [member("a", **{name: other.get(name)}), envelope()["members"][1]]
    assert snapshot(members=changed)["fingerprint"] != snapshot()["fingerprint"]


def test_the_fingerprint_of_a_commit_is_of_its_content() -> None:
    def fingerprint(at_ms: int = 1_000, **changes: Any) -> str:
        (row,) = decode(envelope(members=None, offsets=[{**FIRST, **changes}], observed_at_ms=at_ms))
        return row["offset_commit"]["fingerprint"]

    assert fingerprint() == fingerprint(at_ms=2_000)
    others = {"committed_offset": 3, "leader_epoch": 1, "metadata": "m", "committed_at_ms": 5, "topic_id": "x"}
    assert len({fingerprint(), *(fingerprint(**{name: value}) for name, value in others.items())}) == 6


# -- what a real cluster answered


def held(entries: list[dict[str, Any]]) -> dict[str, list[int]]:
    return {entry["topic"]: entry["partitions"] for entry in entries}


def test_admin_client_descriptions_land_unchanged() -> None:
    counts: Counter[str] = Counter()
    for recorded in admin_looks():
        rows = [row for one in envelopes_of(recorded) for row in decode(one)]
        assert {row["kind"] for row in rows if row["outcome"] != "landed"} <= {"group_snapshot:connect"}, recorded["snapshot"]
        found = {row["snapshot"]["group_id"]: row["snapshot"] for row in rows if "snapshot" in row}
        described = {name: group.get("describeConsumerGroups", {}) for name, group in recorded["groups"].items()}
        of_consumers = {name: group for name, group in described.items() if "error" not in group and group}
        assert found.keys() == of_consumers.keys(), recorded["snapshot"]
        for name, group in of_consumers.items():
            ours = {member["member_id"]: member for member in found[name]["members"]}
            assert ours.keys() == {member["member_id"] for member in group["members"]}, (recorded["snapshot"], name)
            for theirs in group["members"]:
                target = theirs["assignment"] if theirs["target_assignment"] is None else theirs["target_assignment"]
                assert held(ours[theirs["member_id"]]["assigned"]) == target, (recorded["snapshot"], name)
                counts["members"] += 1
                counts["partitions"] += sum(map(len, target.values()))
        commits = {
            (row["offset_commit"]["group_id"], f"{row['offset_commit']['topic']}-{row['offset_commit']['partition']}"): [
                row["offset_commit"][name] for name in ("committed_offset", "leader_epoch", "metadata")
            ]
            for row in rows
            if "offset_commit" in row
        }
        assert commits == {
            (name, partition): envelope for name, of_group in recorded["committed"].items() for partition, envelope in of_group.items()
        }
        counts.update(looks=1, groups=len(found), commits=len(commits), skipped=sum(row["outcome"] == "skipped" for row in rows))
    assert counts == {"looks": 40, "groups": 475, "members": 672, "partitions": 3296, "commits": 575, "skipped": 3}


def test_fingerprint_changes_exactly_when_a_real_groups_members_change() -> None:
    """Kafka's own answer says whether members, or what they hold, changed between two looks; the fingerprint says the same."""
    before: dict[str, tuple[list, str]] = {}
    seen: Counter[bool] = Counter()
    for one in (one for recorded in admin_looks() for one in envelopes_of(recorded)):
        row = decode(one)[0]
        if row["outcome"] == "landed":
            group_id, now = one["group_id"], (one["members"], row["snapshot"]["fingerprint"])
            members, fingerprint = before.get(group_id, now)
            is_same = members == now[0]
            assert (fingerprint == now[1]) == is_same, (group_id, one["observed_at_ms"])
            seen[is_same] += group_id in before
            before[group_id] = now
    assert seen[True] >= 100 and seen[False] >= 100, seen
