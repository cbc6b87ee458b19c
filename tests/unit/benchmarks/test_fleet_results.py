"""What is made of the numbers that a fleet was measured with, and how processes and tables are measured."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.fleet_results import (
    BARE,
    FIRST,
    NOTHING_NEW,
    RATIO,
    SPARK_JOBS,
    Measurement,
    TableSize,
    compared_figures,
    count_events,
    markdown,
    median_of,
    record,
    recorded_figures,
    table_sizes,
    worse_than,
)
from tests.benchmarks.measuring import stage_seconds
from tests.benchmarks.processes import MemorySampler, descendants, tree_cpu_s

ONE = Measurement(10.0, 5.0, 1.0, 1 << 30, 1 << 20, 7, 3)
MEASURED = {
    BARE: ONE,
    FIRST: replace(ONE, cpu_s=40.0, stages={"land": 2.0, "audit": 3.0}),
    NOTHING_NEW: replace(ONE, cpu_s=20.0, stages={"land": 1.0}),
    "generation": replace(ONE, cpu_s=35.0, parts={"solve": 6.0}),
}


def test_medians_are_taken_of_each_number_by_itself() -> None:
    rounds = [replace(ONE, cpu_s=cpu_s, wall_s=wall_s, stages={"land": cpu_s}) for cpu_s, wall_s in ((1.0, 9.0), (5.0, 8.0), (3.0, 1.0))]
    found = median_of(rounds)
    assert (found.cpu_s, found.wall_s, found.stages) == (3.0, 8.0, {"land": 3.0})


def test_processes_are_compared_by_their_ratio_to_the_bare_one_and_by_their_jobs() -> None:
    expected = {FIRST: 4.0, NOTHING_NEW: 2.0, "generation": 3.5}
    assert compared_figures(MEASURED) == {name: {RATIO: ratio, SPARK_JOBS: 7} for name, ratio in expected.items()}


def test_table_shows_what_a_piece_costs_beyond_a_run_with_nothing_new() -> None:
    lines = [line for line in markdown(MEASURED, generations=3000).splitlines() if line.startswith("|")]
    head, _, *rows = ([cell.strip() for cell in line.split("|")[1:-1]] for line in lines)
    by_name = {row[0]: dict(zip(head, row, strict=True)) for row in rows}
    assert by_name["generation"]["beyond nothing-new"] == "1.50 x bare"
    assert by_name[FIRST]["beyond nothing-new"] == ""
    assert (by_name[FIRST]["land"], by_name[FIRST]["audit"], by_name[FIRST]["driver MiB"]) == ("2.0", "3.0", "1024")


def test_costs_of_a_generation_are_shown() -> None:
    lines = markdown(MEASURED, generations=3000).splitlines()
    assert "first: 10.00 ms a generation beyond the bare process" in lines
    assert "generation, solve: 6.00 CPU s, 2.00 ms a generation" in lines


def figures(ratio: float, jobs: int = 100) -> dict[str, float]:
    return {RATIO: ratio, SPARK_JOBS: jobs}


def test_ratios_above_the_recorded_ones_are_named() -> None:
    recorded = {FIRST: figures(4.0), NOTHING_NEW: figures(2.0), "report": figures(1.0)}
    assert worse_than(recorded, {FIRST: figures(5.0), NOTHING_NEW: figures(2.6), "rival": figures(9.0)}, 1.25) == [
        "nothing-new: 2.60 times the bare process, expected at most 1.25 x 2.00"
    ]


def test_more_spark_jobs_than_recorded_are_named() -> None:
    recorded = {FIRST: figures(4.0), NOTHING_NEW: figures(2.0)}
    assert worse_than(recorded, {FIRST: figures(4.0, 105), NOTHING_NEW: figures(2.0, 106)}, 1.25) == [
        "nothing-new: 106 Spark jobs, expected at most 1.05 x 100"
    ]


def test_recording_keeps_the_figures_of_other_scenarios_and_fleets(tmp_path: Path) -> None:
    path = tmp_path / "fleet.json"
    assert recorded_figures(path, "300 groups") == {}
    record(path, "300 groups", {FIRST: figures(4.123), NOTHING_NEW: figures(2.0)})
    record(path, "5000 groups", {FIRST: figures(20.0)})
    record(path, "300 groups", {FIRST: figures(5.0)})
    assert recorded_figures(path, "300 groups") == {FIRST: figures(5.0), NOTHING_NEW: figures(2.0)}
    assert recorded_figures(path, "5000 groups") == {FIRST: figures(20.0)}


def test_check_without_recorded_ratios_is_refused_in_one_line() -> None:
    script = Path(__file__).parents[2] / "benchmarks" / "fleet.py"
    result = subprocess.run([sys.executable, script, "--check", "--groups", "7"], capture_output=True, text=True, check=False)
    message = "fleet: found no figures of 7 groups, 6 generations in fleet.json; write them with --record first\n"
    assert (result.returncode, result.stderr) == (2, message)


def test_event_logs_are_counted(tmp_path: Path) -> None:
    execution = '{"Event":"org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart","executionId":0}\n'
    end = execution.replace("ExecutionStart", "ExecutionEnd")
    job = '{"Event":"SparkListenerJobStart","Job ID":0}\n'
    (tmp_path / "local-1").write_text(execution + job + job + end)
    (tmp_path / "local-2").write_text(job)
    assert count_events(tmp_path) == (3, 1)


def test_table_sizes_follow_the_log(tmp_path: Path) -> None:
    def file(path: str, rows: int, deleted: int = 0) -> dict[str, Any]:
        vector = {"deletionVector": {"pathOrInlineDv": f"{path}-{deleted}", "offset": 1, "cardinality": deleted}} if deleted else {}
        return {"path": path, "size": 100 * rows, "stats": json.dumps({"numRecords": rows}), **vector}

    log = tmp_path / "movements" / "_delta_log"
    log.mkdir(parents=True)
    commits = (
        [{"commitInfo": {}}, {"add": file("a", 5)}, {"add": file("b", 7)}],
        [{"add": file("a", 5, deleted=2)}, {"remove": file("a", 5)}],
        [{"remove": file("b", 7)}, {"add": file("c", 1)}],
    )
    for version, actions in enumerate(commits):
        (log / f"{version:020}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))
    assert table_sizes(tmp_path) == {"movements": TableSize(rows=4, bytes=600, files=2)}


def test_progress_lines_are_read() -> None:
    assert stage_seconds("evenkeel: land       12.5 s\nother\nevenkeel: gates 0.1 s\n") == {"land": 12.5, "gates": 0.1}


# Takes memory and CPU time in a child of its own, says so, and waits for the end of its input.
BUSY = """
import os, sys, time
if os.fork(): os.wait(); sys.exit()
kept = bytearray(os.urandom(1 << 20) * 64)
while time.process_time() < 0.5: pass
print(flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("argument", ["driver", "pyspark.daemon"])
def test_memory_and_cpu_time_of_descendants_are_sampled_workers_apart(argument: str) -> None:
    process = subprocess.Popen([sys.executable, "-c", BUSY, argument], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    process.stdout.readline()
    with MemorySampler(process.pid) as memory:
        assert len(descendants(process.pid)) == 1
        assert tree_cpu_s(process.pid) > 0.4
    process.stdin.close()
    process.wait()
    process.stdout.close()
    busy, idle = memory.driver_bytes, memory.workers_bytes
    if argument == "pyspark.daemon":
        busy, idle = idle, busy
        assert memory.workers_cpu_s > 0.4
    assert idle < 64 << 20 <= busy


WORKER_OF_A_DAEMON = """
import os, signal, sys, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
if os.fork() == 0:
    while time.process_time() < 1.5: pass
    time.sleep(2)
    os._exit(0)
try:
    os.wait()
except ChildProcessError: pass
time.sleep(1)
"""
"""As Spark's daemon of Python workers does: it ignores SIGCHLD and outlives its worker, whose time the kernel then forgets.

The worker idles before it ends, so that a sample sees all of its time, also on a busy machine."""


def test_worker_that_ends_before_its_daemon_is_counted() -> None:
    measured = (
        "import sys; from tests.benchmarks.measuring import measure;"
        "print(measure([sys.executable, '-c', 'import subprocess, sys; subprocess.run(sys.argv[1:])', sys.executable, '-c',"
        " sys.argv[1], 'pyspark.daemon']).cpu_s)"
    )
    done = subprocess.run(
        [sys.executable, "-c", measured, WORKER_OF_A_DAEMON], cwd=Path(__file__).parents[3], capture_output=True, text=True, check=True
    )
    assert float(done.stdout) > 1.4
