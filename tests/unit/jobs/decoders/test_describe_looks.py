"""Texts with several looks: what a loop appends to one file, or somebody pastes from before and after a change."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jobs.decoders import describe
from jobs.decoders.describe_looks import find_time
from jobs.decoders.describe_rows import WAYS_OUT, decode_texts
from tests.builders.describe_texts import Consumer, Kafka, rendered

GOLDEN = Path(__file__).parents[3] / "golden"
LINES = gzip.decompress((GOLDEN / "describe" / "recorded.jsonl.gz").read_bytes()).decode().splitlines()
AS_OF_MS = 1_795_227_748_916
DATES = ["Sat Nov 28 10:00:00 UTC 2026", "Sat Nov 28 10:01:30 UTC 2026", "Sat Nov 28 10:02:00 UTC 2026"]


def kafka(held: dict[str, dict[str, list[int]]], state: str = "Stable", committed: int = 5) -> Kafka:
    members = tuple(Consumer(f"{name}-1", None, name, "/10.0.0.1", topics) for name, topics in held.items())
    return Kafka("g", "classic", state, "range", ("b", 1, 1), None, None, members, {("t", 0): (committed, None)}, {("t", 0): 9})


FIRST, SECOND, THIRD = kafka({"a": {"t": [0, 1]}}), kafka({"a": {"t": [0]}, "b": {"t": [1]}}, committed=6), kafka({"b": {"t": [0, 1]}})


def decode(*texts: str) -> list[dict[str, Any]]:
    return list(decode_texts({f"{number}.txt": text.encode() for number, text in enumerate(texts, start=1)}, AS_OF_MS))


def owners(rows: list[dict[str, Any]]) -> dict[int, dict[str, int]]:
    """Return milliseconds before the last look -> member -> number of its partitions."""
    snapshots = [row["snapshot"] for row in rows if "snapshot" in row]
    assert all(one["observed_at"] == one["position"] * 1000 for one in snapshots)
    return {
        AS_OF_MS - one["position"]: {
            member["member_id"][0]: sum(len(entry["partitions"]) for entry in member["assigned"]) for member in one["members"]
        }
        for one in snapshots
    }


def outcomes(rows: list[dict[str, Any]]) -> Counter[tuple[str, str]]:
    return Counter((row["outcome"], row.get("reason") or row["kind"]) for row in rows)


def looks(output: str, *groups: Kafka, heads: tuple[str, ...] = ()) -> str:
    heads = heads or ("",) * len(groups)
    return "".join(f"{head}\n{rendered('4.0', [group], output)}" for head, group in zip(heads, groups, strict=True))


@pytest.mark.parametrize("output", ["members --verbose", "offsets"])
def test_looks_land_at_the_times_that_are_printed_before_them(output):
    rows = decode(looks(output, FIRST, SECOND, THIRD, heads=tuple(DATES)))
    if output == "offsets":
        found = {
            AS_OF_MS - row["offset_commit"]["position"]: row["offset_commit"]["committed_offset"] for row in rows if "offset_commit" in row
        }
        assert found == {0: 5, 30_000: 6, 120_000: 5}
    else:
        assert owners(rows) == {0: {"b": 2}, 30_000: {"a": 1, "b": 1}, 120_000: {"a": 2}}
    assert not [row for row in rows if row["outcome"] == "quarantined"]


def test_looks_without_times_land_in_their_order_without_earlier_commits():
    rows = decode(looks("members --verbose", FIRST, SECOND) + looks("offsets", SECOND))
    assert owners(rows) == {0: {"a": 1, "b": 1}, 1: {"a": 2}}
    rows = decode(looks("offsets", FIRST, SECOND))
    assert [row["offset_commit"]["committed_offset"] for row in rows if "offset_commit" in row] == [6]
    assert outcomes(rows)["skipped", "earlier_commit"] == 1


def test_only_the_last_three_looks_without_times_land():
    rows = decode(looks("members --verbose", FIRST, SECOND, THIRD, FIRST, SECOND))
    assert owners(rows) == {0: {"a": 1, "b": 1}, 1: {"a": 2}, 2: {"b": 2}}
    assert outcomes(rows) == {("landed", "described_group"): 3, ("skipped", "earlier_look"): 2}
    assert "earlier_look" in WAYS_OUT


def test_rebalance_between_two_looks_is_seen_at_its_time():
    moving = kafka({"a": {}, "b": {}}, state="PreparingRebalance")
    text = "".join(
        f"{date}\n{rendered('4.0', [group], 'members --verbose')}\n{rendered('4.0', [group], 'state')}"
        for date, group in zip(DATES, (FIRST, moving, SECOND), strict=True)
    )
    rows = decode(text)
    assert owners(rows) == {0: {"a": 1, "b": 1}, 120_000: {"a": 2}}
    assert [json.loads(row["payload"])["at_ms"] for row in rows if "payload" in row] == [AS_OF_MS - 30_000]


def test_outputs_of_one_round_belong_together():
    """The members stay as they are, and only the table of states after them shows that this is another round."""
    rounds = [rendered("4.0", [FIRST], "members --verbose") + "\n" + rendered("4.0", [group], "state") for group in (FIRST, FIRST, FIRST)]
    rounds[1] = rounds[1].replace("Stable             ", "PreparingRebalance ")
    description = describe.parse({"": "\n".join(rounds)})
    assert [[group.state for group in look.groups] for look in description.earlier] == [["Stable"], ["PreparingRebalance"]]
    assert [group.state for group in description.groups] == ["Stable"]
    assert all(group.members for look in description.earlier for group in look.groups)


def test_table_that_stays_as_it_was_is_a_look_if_a_time_is_printed():
    rows = decode(looks("members --verbose", FIRST, FIRST, SECOND, heads=tuple(DATES)))
    assert owners(rows) == {0: {"a": 1, "b": 1}, 30_000: {"a": 2}, 120_000: {"a": 2}}
    assert outcomes(decode(looks("members --verbose", FIRST, FIRST)))["skipped", "repetition"] == 1


def test_loop_over_groups_and_outputs_is_one_look():
    outputs = ("members --verbose", "state", "offsets")
    commands = [(replace(FIRST, group_id=name), output) for name in ("g", "h") for output in outputs]
    text = "".join(f"=== {DATES[at % 3]} ===\n{rendered('4.0', [group], output)}\n" for at, (group, output) in enumerate(commands))
    description = describe.parse({"": text})
    assert description.earlier == description.rejects == ()
    assert [(group.group_id, len(group.members or ())) for group in description.groups] == [("g", 1), ("h", 1)]


def test_looks_of_several_files_belong_together_from_the_end():
    rows = decode(looks("members --verbose", FIRST, SECOND), looks("offsets", FIRST, SECOND, heads=tuple(DATES[:2])))
    assert owners(rows) == {0: {"a": 1, "b": 1}, 90_000: {"a": 2}}
    assert outcomes(rows)["quarantined", "two_looks"] == 0


def test_group_whose_earlier_look_has_other_tables_is_skipped():
    """The owners are not all of the members, so an idle member would seem to have joined."""
    rows = decode(looks("offsets", FIRST, SECOND), looks("members --verbose", SECOND))
    assert owners(rows) == {0: {"a": 1, "b": 1}}
    assert outcomes(rows)["skipped", "earlier_look"] == 1


@pytest.mark.parametrize("is_empty_first", [True, False])
def test_group_without_members_in_one_look(is_empty_first):
    outputs = ["\nConsumer group 'g' has no active members.\n", rendered("4.0", [FIRST], "members --verbose")]
    before, after = outputs if is_empty_first else reversed(outputs)
    rows = decode(f"{DATES[0]}\n{before}\n{DATES[1]}\n{after}")
    assert owners(rows) == ({0: {"a": 2}, 90_000: {}} if is_empty_first else {0: {}, 90_000: {"a": 2}})


def test_notice_that_each_output_repeats_is_no_look():
    notice = "\nConsumer group 'g' has no active members.\n"
    group = replace(FIRST, members=())
    text = "".join(
        f"{date}\n{notice}{rendered('4.0', [group], output)}\n" for date, output in zip(DATES, ("offsets", "state"), strict=False)
    )
    description = describe.parse({"": text})
    assert (description.earlier, description.rejects) == ((), ())


def test_table_whose_header_is_repeated_in_the_middle_is_no_look():
    text = rendered("4.0", [SECOND], "members --verbose").split("\n")
    header = next(line for line in text if line.startswith("GROUP"))
    description = describe.parse({"": "\n".join([*text[:3], header, *text[3:]])})
    assert description.earlier == ()
    assert [line.kind for line in description.rejects] == ["two_looks"]


@pytest.mark.parametrize("pair", [(0, 1), (3, 7), (10, 25), (39, 2)])
def test_recorded_looks_in_one_file_equal_each_alone(pair):
    recorded = [json.loads(LINES[number])["texts"] for number in pair]
    for output in ("members", "offsets"):
        texts = [one[output] for one in recorded]
        together = describe.parse({"": f"{DATES[0]}\n{texts[0]}\n{DATES[1]}\n{texts[1]}"})
        (earlier,) = together.earlier
        assert earlier.before_ms == 90_000
        assert (earlier.groups, together.groups) == tuple(describe.parse({"": text}).groups for text in texts)
        assert together.rejects == ()


@pytest.mark.parametrize(
    "line",
    [
        *(
            "Sat Nov 28 10:01:30 UTC 2026",
            "Sat 28 Nov 2026 10:01:30 AM UTC",
            "Sat Nov 28 10:01:30 AM CET 2026",
            "Sat 28 Nov 10:01:30 CET 2026",
        ),
        *("2026-11-28T10:01:30Z", "2026-11-28 10:01:30", "=== 2026-11-28T10:01:30+01:00 ===", "[2026-11-28 10:01:30,000]"),
        *("2026-11-28 10:01:30.000 UTC", "Sat, 28 Nov 2026 10:01:30 +0000", "--- Sat Nov 28 10:01:30 UTC 2026 ---"),
        *("Time: 2026-11-28 10:01:30", "# look at Sat Nov 28 10:01:30 UTC 2026 #", "=== date=  2026-11-28T10:01:30Z"),
        "Every 2.0s: kafka-consumer-groups.sh --describe --group g          host-1: Sat Nov 28 10:01:30 2026",
    ],
)
def test_time_is_found_in_a_line_of_its_own(line):
    assert find_time(line) == 1_795_860_090_000


@pytest.mark.parametrize(
    "line", ["10:01:30", "[2026-11-28 10:01:30,000] WARN x (y)", "g-1 2026-11-28 10:01:30", "Sat Foo 99 10:01:30 UTC 2026", ""]
)
def test_other_lines_have_no_time(line):
    assert find_time(line) is None
