"""What Kafka's formatters print lands as the raw records do, in parts as well as whole, and gives way to these."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.builders.captures import LOOKS, RECORDED
from tests.builders.printed_groups import COMMITS, GROUPS, printed, write
from tests.builders.tables import assert_equal_warehouses, rows


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("formatter")
    return [write(folder, "groups.txt", printed(GROUPS)), write(folder, "commits.txt", printed(COMMITS)), LOOKS]


@pytest.fixture(scope="module")
def landed(make_tables, inputs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse in which all has landed, and no more."""
    warehouse = tmp_path_factory.mktemp("landed") / "warehouse"
    assert make_tables("land", "--warehouse", warehouse, "--input", *inputs, "--cluster-id", "demo") == 0
    return warehouse


@pytest.fixture(scope="module")
def whole(make_tables, inputs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse of a whole run."""
    warehouse = tmp_path_factory.mktemp("whole") / "warehouse"
    assert make_tables("run", "--warehouse", warehouse, "--input", *inputs, "--cluster-id", "demo") == 0
    return warehouse


def by_group(warehouse: Path, table: str, *columns: str) -> dict[str, list[tuple]]:
    """Return the named columns of each group's rows, in the order of positions."""
    found: dict[str, list[tuple]] = defaultdict(list)
    for row in sorted(rows(warehouse, table), key=lambda row: row["position"]):
        found[row["group_id"]].append(tuple(json.dumps(row[name], default=repr) for name in columns))
    return found


def test_each_group_has_the_snapshots_of_the_raw_log(landed: Path, recorded_warehouse: Path) -> None:
    """All of classic groups, but for the last two of each tool's own group, which it printed before they were written."""
    same = ("group_type", "generation", "state", "strategy", "leader_member_id", "joined_at", "members", "fingerprint")
    ours = by_group(landed, "subscription_snapshots", *same)
    raw = {
        group: [row for row in of_group if row[0] == '"classic"']
        for group, of_group in by_group(recorded_warehouse, "subscription_snapshots", *same).items()
    }
    assert sum(map(len, ours.values())) > 280
    for group in raw.keys() | ours.keys():
        expected = raw.get(group, [])
        assert ours.get(group, []) == (expected[: len(ours.get(group, []))] if group.startswith("console-consumer-") else expected), group
    lost = {group: len(raw[group]) - len(ours.get(group, [])) for group in raw if group.startswith("console-consumer-")}
    assert sum(lost.values()) == 4


def test_each_group_has_the_commits_of_the_raw_log(landed: Path, recorded_warehouse: Path) -> None:
    same = ("topic", "partition", "committed_offset", "leader_epoch", "metadata", "committed_at", "topic_id", "is_deleted", "fingerprint")
    ours, raw = (by_group(warehouse, "offset_snapshots", *same) for warehouse in (landed, recorded_warehouse))
    assert sum(map(len, ours.values())) == 223
    assert ours == raw


def test_positions_count_from_nought_and_times_are_the_values(landed: Path) -> None:
    snapshots = rows(landed, "subscription_snapshots")
    positions = defaultdict(list)
    for row in [*snapshots, *({**record, "position": record["offset"]} for record in rows(landed, "group_records"))]:
        positions[row["group_id"]].append(row["position"])
    assert all(sorted(found) == list(range(len(found))) for found in positions.values())
    assert all(row["observed_at"] == row["joined_at"] for row in snapshots)
    assert {row["source"] for row in snapshots} == {"formatter-json"}
    assert all(row["timestamp"] is not None and row["offsets_partition"] is None for row in rows(landed, "group_records"))


def test_a_group_deleted_and_made_again_has_two_lives(landed: Path, recorded_warehouse: Path) -> None:
    lives = {
        group: len({row[0] for row in of_group}) for group, of_group in by_group(landed, "subscription_snapshots", "incarnation").items()
    }
    classic = {row["group_id"] for row in rows(recorded_warehouse, "subscription_snapshots") if row["group_type"] == "consumer"}
    raw = by_group(recorded_warehouse, "subscription_snapshots", "incarnation")
    assert lives == {group: len({row[0] for row in raw[group]}) for group in lives if group not in classic} | {
        group: lives[group] for group in lives if group in classic
    }


@pytest.mark.slow
@pytest.mark.parametrize("order", [(2, 0, 1), (0, 1, 2), (1, 2, 0), (2, 1, 0)])
def test_parts_that_overlap_give_what_the_whole_gives(order: tuple[int, ...], make_tables, whole: Path, tmp_path: Path) -> None:
    """Outputs of three moments: each goes on from what is known, and an older one pushes the stored rows back."""
    warehouse = tmp_path / "warehouse"
    for number in order:
        inputs = []
        for name, between in ((GROUPS, ""), (COMMITS, "\n")):
            objects = printed(name)
            third = len(objects) // 3
            inputs.append(
                write(
                    tmp_path,
                    f"{number}-{name[:-9]}",
                    objects[max(0, number * third - 40) : (number + 1) * third + 40 * (number == 2)],
                    between,
                )
            )
        assert make_tables("run", "--warehouse", warehouse, "--input", *inputs, LOOKS, "--cluster-id", "demo") == 0
    assert_equal_warehouses(warehouse, whole)


@pytest.mark.slow
def test_parts_in_one_run_and_again_are_duplicates(make_tables, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut into pieces on the way, as large files are."""
    objects = printed(GROUPS)
    parts = [
        write(tmp_path / "monday", "groups", objects[:200]),
        write(tmp_path / "tuesday", "groups", objects[150:]),
        write(tmp_path / "tuesday", "commits", printed(COMMITS)),
    ]
    warehouse = tmp_path / "warehouse"
    with monkeypatch.context() as patched:
        patched.setattr("jobs.decoders.text_pieces.PIECE_BYTES", 20_000)
        assert make_tables("run", "--warehouse", warehouse, "--input", *parts, LOOKS, "--cluster-id", "demo") == 0
    assert_equal_warehouses(warehouse, whole)
    assert make_tables("verify", "--warehouse", warehouse) == 0
    counts = dict(rows(warehouse, "runs")[0]["input_counts"])
    assert counts["formatter-json.duplicate"] == 50
    assert make_tables("land", "--warehouse", warehouse, "--input", *parts, "--cluster-id", "demo") == 0
    last = max(rows(warehouse, "runs"), key=lambda run: run["run_sequence"])
    assert dict(last["input_counts"])["landed"] == 0
    assert dict(last["output_counts"]) == {}


TOMBSTONES: dict[str, tuple[str, list[tuple[int, int]]]] = {
    "alone, before any other record": ("012+456", [(3, 4), (0, 2), (1, 3), (2, 7)]),
    "beside one that is not the last before it": ("012+456", [(3, 5), (0, 1), (0, 3), (2, 7)]),
    "between two, beside which others turn up": ("0+1+2", [(0, 2), (3, 5), (0, 3), (1, 5)]),
    "at the beginning of a part, the one before which is late": ("012+456", [(0, 2), (3, 7), (2, 3), (0, 7)]),
}
"""A group's log, in which + is the tombstone of a recorded one and a digit one of its values; and the parts of it in their order."""


@pytest.fixture(scope="module")
def in_parts(make_tables, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two warehouses with a group for each of these cases: the parts in turn, a part of each group a run; and all of them at once."""
    folder = tmp_path_factory.mktemp("parts")
    of_group = [found for found in printed(GROUPS) if '"fraud-upgrade"' in found]
    assert [number for number, found in enumerate(of_group) if json.loads(found)["value"] is None] == [3]
    runs: list[list[Path]] = [[] for _ in range(4)]
    for case, (log, parts) in enumerate(TOMBSTONES.values()):
        objects = [of_group[3 if letter == "+" else int(letter)].replace('"fraud-upgrade"', f'"fraud-{case}"') for letter in log]
        for inputs, (first, last) in zip(runs, parts, strict=True):
            inputs.append(write(folder, f"{case}-{first}-{last}.txt", objects[first:last]))
    in_turn, at_once = folder / "in turn", folder / "at once"
    for inputs in runs:
        assert make_tables("land", "--warehouse", in_turn, "--input", *inputs) == 0
    assert make_tables("land", "--warehouse", at_once, "--input", *(path for inputs in runs for path in inputs)) == 0
    return in_turn, at_once


@pytest.mark.slow
@pytest.mark.parametrize("name", TOMBSTONES)
def test_tombstone_gets_its_position_in_any_partial_capture(name: str, in_parts: tuple[Path, Path]) -> None:
    log, group = TOMBSTONES[name][0], f"fraud-{list(TOMBSTONES).index(name)}"

    def of_group(warehouse: Path, table: str) -> list[dict[str, Any]]:
        return [row for row in rows(warehouse, table) if row["group_id"] == group]

    in_turn, at_once = in_parts
    assert_equal_warehouses(in_turn, at_once)
    snapshots = sorted(of_group(in_turn, "subscription_snapshots"), key=lambda row: row["joined_at"])
    assert [row["position"] for row in snapshots] == [index for index, letter in enumerate(log) if letter != "+"]
    ends = sorted(row["offset"] for row in of_group(in_turn, "group_records"))
    assert ends == [index for index, letter in enumerate(log) if letter == "+"]
    assert len({row["incarnation"] for row in snapshots}) == 1 + len(ends)


def test_parts_in_contradiction_are_refused(make_tables, tmp_path: Path, capfd: pytest.CaptureFixture) -> None:
    storm = [found for found in printed(GROUPS) if '"mart-storm"' in found]
    parts = [write(tmp_path, "a", storm), write(tmp_path, "b", [storm[3], storm[1]])]
    assert make_tables("land", "--warehouse", tmp_path / "warehouse", "--input", *parts) == 2
    said = capfd.readouterr().err
    assert "group mart-storm" in said and "different order" in said and f"the records in {parts[0]}, {parts[1]} cannot be put" in said
    runs = rows(tmp_path / "warehouse", "runs")
    assert [run["status"] for run in runs] == ["failed"]


@pytest.mark.slow
@pytest.mark.parametrize("order", [("formatter", "raw"), ("raw", "formatter")])
def test_raw_records_replace_printed_records(order: tuple[str, ...], make_tables, recorded_warehouse: Path, tmp_path: Path) -> None:
    inputs = {
        "raw": [RECORDED / "consumer_offsets.parquet", LOOKS],
        "formatter": [write(tmp_path, "g", printed(GROUPS)), write(tmp_path, "c", printed(COMMITS))],
    }
    cluster = rows(recorded_warehouse, "runs")[0] and rows(recorded_warehouse, "topic_snapshots")[0]["cluster_id"]
    warehouse = tmp_path / "warehouse"
    for name in order:
        assert make_tables("run", "--warehouse", warehouse, "--input", *inputs[name], "--cluster-id", cluster) == 0
    assert_equal_warehouses(warehouse, recorded_warehouse)
    runs = {run["run_sequence"]: dict(run["input_counts"]) for run in rows(warehouse, "runs")}
    if order == ("raw", "formatter"):
        assert runs[2]["formatter-json.duplicate"] + runs[2]["skipped"] == runs[2]["read"]


def test_damaged_objects_end_in_quarantine(make_tables, tmp_path: Path) -> None:
    objects = printed(GROUPS)[:5]
    bad = ['{"key":{"type":2,"data":{"group":7}},"value":null}', '{"key":{"type":2', '{"key":null,"value":null}']
    path = write(tmp_path, "cut.txt", [objects[0], *bad, *objects[1:]])
    assert make_tables("land", "--warehouse", tmp_path / "warehouse", "--input", path, "--config", settings(tmp_path)) == 0
    found = sorted((row["reason"], row["source_position"]) for row in rows(tmp_path / "warehouse", "quarantine"))
    assert found == [("malformed_object", f"cut.txt object {number}") for number in (2, 3, 4)]
    assert len(rows(tmp_path / "warehouse", "subscription_snapshots")) == 5


def settings(folder: Path) -> Path:
    (folder / "lenient.yaml").write_text("quality: {max_quarantined_ratio: 1.0}\n", encoding="utf-8")
    return folder / "lenient.yaml"
