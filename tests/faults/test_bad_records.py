"""Any number of bad records changes nothing about the good ones: each goes to quarantine once, with its reason and its source position."""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path

import pytest

from tests.builders.tables import COMPARED, assert_equal_warehouses, rows
from tests.faults.bad_records import TRANSPARENT, Log, make_log

SEED = int(os.environ.get("EVENKEEL_SEED", "20261121"))


def check_quarantine(warehouse: Path, log: Log, capture: Path) -> None:
    lines = (capture / "log.jsonl").read_bytes().split(b"\n")
    strange, found = [], []
    for row in rows(warehouse, "quarantine"):
        if row["reason"] == "malformed_line":
            line = lines[int(row["source_position"].removeprefix("log.jsonl line ")) - 1]
            assert row["payload"] == line[: len(row["payload"])] and len(row["payload"]) == min(len(line), 64 * 1024)
            strange.append((row["source_position"], line))
        else:
            found.append((row["source_position"], row["reason"]))
        assert row["detail"]
    expected = [(record.place, record.reason) for record in log.records if record.reason not in (None, TRANSPARENT)]
    assert sorted(found) == sorted(expected)
    assert len({place for place, _ in strange}) == len(strange)
    assert Counter(line for _, line in strange) == Counter(log.strange_lines)


@pytest.mark.parametrize(
    ("command", "good", "bad"),
    [("land", 1_000, 120), pytest.param("run", 100_000, 10_000, marks=pytest.mark.slow)],
)
def test_bad_records_among_good_ones(command: str, good: int, bad: int, make_tables, measured, tmp_path: Path) -> None:
    """The same log once with its bad records and once without, as if compaction had taken them away."""
    print(f"EVENKEEL_SEED={SEED}")
    chance = random.Random(SEED)
    log = make_log(good, bad, chance)
    settings = tmp_path / "settings.yaml"
    settings.write_text("quality:\n  max_quarantined_ratio: 1.0\n")
    for name, part in (("mixed", log), ("clean", log.without_bad())):
        capture = part.write(tmp_path / f"{name} log", chance)
        arguments = ("--warehouse", tmp_path / name, "--input", capture, "--config", settings, "--cluster-id", "c")
        assert make_tables(command, *arguments) == 0
    (run,) = rows(tmp_path / "mixed", "runs")
    counts = dict(run["input_counts"])
    skipped = sum(record.reason == TRANSPARENT for record in log.records)
    assert (counts["read"], counts["landed"]) == (good + bad, good)
    assert (counts["duplicate"], counts["skipped"], counts["quarantined"]) == (0, skipped, bad - skipped)
    check_quarantine(tmp_path / "mixed", log, tmp_path / "mixed log")
    measured(f"{bad:,} bad records among {good:,}: {bad - skipped:,} in quarantine once, {skipped:,} of kinds that Kafka's readers skip")
    assert rows(tmp_path / "clean", "quarantine") == []
    begun = {f"c {record.partition}" for record in log.records if record.offset == 0 and record.reason in (None, TRANSPARENT)}
    assert dict(run["origins"]).keys() == begun
    assert_equal_warehouses(tmp_path / "mixed", tmp_path / "clean", [name for name in COMPARED if name != "quarantine"])
    for name in ("subscription_snapshots", "offset_snapshots", *(("movements",) if command == "run" else ())):
        assert rows(tmp_path / "clean", name), name
