"""Two processes, each with a Spark of its own, at one warehouse: no commit is lost, and of two runs one lands."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs.verify.folder import check_folder
from tests.builders.tables import rows
from tests.faults.conftest import TwoRuns, commits
from tests.faults.drivers import environment
from tests.faults.readers import published_state
from tests.faults.second_process import TABLE, commit_rows, make_table, run

ROOT = Path(__file__).resolve().parents[2]


class Other:
    """The second process; asked and answered in lines."""

    def __init__(self, folder: Path) -> None:
        self._log = (folder / "second_process.log").open("w")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.second_process"],
            cwd=ROOT,
            env=environment(folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def answer(self) -> Any:
        line = self.process.stdout.readline()
        assert line, f"the second process has ended; see {self._log.name}"
        return json.loads(line)

    def ask(self, **what: Any) -> None:
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()

    def end(self) -> None:
        self.process.stdin.close()
        self.process.wait()
        self._log.close()


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Other]:
    process = Other(tmp_path_factory.mktemp("second"))
    assert process.answer() == "ready"
    yield process
    process.end()


def check_commits(spark: SparkSession, measured, other: Other, folder: Path, count: int) -> None:
    folder.mkdir()
    make_table(spark, folder)
    other.ask(folder=str(folder), writer="b", count=count)
    acknowledged = {"a": commit_rows(spark, folder, "a", count), "b": other.answer()}
    assert acknowledged == {"a": list(range(count)), "b": list(range(count))}
    stored = sorted((row["writer"], row["number"]) for row in rows(folder, TABLE))
    assert stored == [(writer, number) for writer in "ab" for number in range(count)]
    assert sorted(int(path.stem) for path in commits(folder)) == list(range(2 * count + 1))
    signed = [re.search("evenkeel run ([ab])", path.read_text()) for path in sorted(commits(folder))[1:]]
    turns = sum(one[1] != next_one[1] for one, next_one in pairwise(signed))
    measured(f"{2 * count} commits by two processes, who took turns {turns} times")
    assert turns >= count / 5, "one came after the other, so that nothing was shown"


def test_no_commit_of_two_processes_is_lost(spark: SparkSession, measured, other: Other, tmp_path: Path) -> None:
    check_commits(spark, measured, other, tmp_path / "warehouse", 25)


@pytest.mark.slow
def test_no_commit_of_two_processes_is_lost_at_length(spark: SparkSession, measured, other: Other, tmp_path: Path) -> None:
    check_commits(spark, measured, other, tmp_path / "warehouse", 500)


def check_pair(evenkeel, measured, other: Other, two_runs: TwoRuns, warehouse: Path, other_id: str) -> None:
    """Start a run here and one there at the same moment; one of them publishes."""
    shutil.copytree(two_runs.first, warehouse)
    other.ask(argv=two_runs.second_run(warehouse, other_id))
    ours = run(two_runs.second_run(warehouse, "second"))
    theirs = other.answer()
    measured(f"second and {other_id} ended with {ours['code']} and {theirs['code']}")
    ends = {"second": ours, other_id: theirs} if other_id != "second" else {"second": min(ours, theirs, key=lambda end: end["code"])}
    busy = [end for end in (ours, theirs) if end["code"] == 3]
    assert sorted(end["code"] for end in (ours, theirs)) in ([0, 0], [0, 3]), (ours, theirs)
    for end in busy:
        assert re.search(
            rf"is held by run ({'|'.join(ends)}) \(process \d+ on {re.escape(socket.gethostname())}\), started \d+ s ago", end["messages"]
        )
    done = [run_id for run_id, end in ends.items() if end["code"] == 0]
    published = [run for run in rows(warehouse, "runs") if run["status"] == "published" and run["run_id"] != "first"]
    assert sorted(run["run_id"] for run in published) == sorted(done)
    assert sum(dict(run["input_counts"])["landed"] > 0 for run in published) == 1
    assert published_state(warehouse)[1] == two_runs.after[1]
    assert check_folder(warehouse).damages == []


@pytest.mark.slow
@pytest.mark.parametrize("number", range(16))
def test_one_of_two_simultaneous_landings_lands(
    number: int, evenkeel, measured, other: Other, two_landings: TwoRuns, tmp_path: Path
) -> None:
    check_pair(evenkeel, measured, other, two_landings, tmp_path / "warehouse", "second" if number % 2 else "rival")


@pytest.mark.slow
@pytest.mark.parametrize("number", range(4))
def test_one_of_two_simultaneous_runs_lands(number: int, evenkeel, measured, other: Other, two_runs: TwoRuns, tmp_path: Path) -> None:
    check_pair(evenkeel, measured, other, two_runs, tmp_path / "warehouse", "second" if number % 2 else "rival")
