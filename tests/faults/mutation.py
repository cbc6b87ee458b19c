"""Whether the tests notice small faults of the core: several hundred mutants of it, of which nine in ten have to be killed.

    python tests/faults/mutation.py --seed 1 --count 200

Needs the extra ``mutation`` besides ``test``. The seed chooses the mutants, each in a place of its own, see ``mutants``; a third seed shows
no more than the first two, but finds other gaps. All happens in copies of the checkout. Assignors and what judges and compares their
results are tested without a JVM; what publishes is tested in one Spark session, see ``mutation_runner``. A mutant that is still running
when a test has taken ten times as long as otherwise, or all together three times, is killed too: it was noticed.

Survivors that somebody has looked at are listed in ``survivors.md`` with the reason why no test is missing; others are marked as new.

Exits with 1 when fewer than nine in ten are killed, or the tests fail on unchanged code.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random
from threading import Lock
from typing import Any

from mutants import Mutant, find_spots

ROOT = Path(__file__).resolve().parents[2]
SURVIVORS = Path(__file__).with_name("survivors.md")
REQUIRED_SHARE = 0.9
ENDING_S = 120
JAVA_OPTIONS = "-Xmx8g -XX:TieredStopAtLevel=4"
"""One JVM runs the tests many times, and keeps something of each: in the 2 GB of a session that runs them once it would collect garbage
most of the time. The second compiler, too dear for once, pays here."""
COPIED = ("assignors", "schemas", "jobs", "conf", "docs", "tests", "pyproject.toml", "setup.cfg", "README.md", "spark-submit.sh")


def _unit_tests(*names: str) -> tuple[str, ...]:
    return tuple(str(next(ROOT.glob(f"tests/unit/**/test_{name}.py")).relative_to(ROOT)) for name in names)


JUDGING_TESTS = _unit_tests(
    *("movement", "holdings", "triggers", "verdicts", "auditing", "balance", "optimum", "verification", "replay", "conformance"),
    *("passages", "recurrence", "algorithms_page"),
)
ASSIGNOR_TESTS = _unit_tests(
    *("golden", "small_groups", "properties", "replay", "topic_looks", "server_assignors", "legacy_assignors", "own_assignor"),
    "client_assignors",
    *("own_assignor_answers", "conformance", "string_hashes", "coordinator_partition", "vocabulary", "verification", "movement", "optimum"),
    "examples",
)
SCENARIO_TESTS = _unit_tests("scenario", "play", "play_properties", "backtest", "recorded_predictions")
LOCK_TESTS = (*_unit_tests("lock", "claims"), "tests/spark/test_stored.py", "tests/spark/test_lease.py")
PUBLISHING_TESTS = (
    "tests/spark/test_bad_input.py::test_a_folder_that_is_no_warehouse_stays_untouched",
    "tests/spark/test_bad_input.py::test_inputs_that_are_refused_before_anything_is_written",
    "tests/spark/test_warehouse.py",
    "tests/spark/test_pipeline.py",
    "tests/spark/test_bad_input.py::test_fail_on_publishes_first",
    "tests/spark/test_migrations.py::test_a_warehouse_from_before_there_were_versions_is_migrated",
    "tests/spark/test_maintain.py::test_files_go_when_no_version_has_named_them_for_long",
    "tests/spark/test_catalog.py",
)
"""The quick ones first, and of the others those that see what no quick one does: a survivor has to pass every one of them."""


@dataclass(frozen=True)
class Part:
    """A part of the core.

    Attributes:
        weight: how many of a hundred mutants it gets.
        files: patterns; a file belongs to the first part that names it.
        tests: what has to kill its mutants.
    """

    name: str
    weight: int
    files: tuple[str, ...]
    tests: tuple[str, ...]
    with_spark: bool = False


JUDGING = ("assignors/audit/*.py", "assignors/generation/*.py", "assignors/replay/recurrence.py")
PARTS = (
    Part("movement and audit", 30, JUDGING, JUDGING_TESTS),
    Part("scenarios", 6, ("assignors/scenario/*.py",), SCENARIO_TESTS),
    Part("assignors", 51, ("assignors/**/*.py",), ASSIGNOR_TESTS),
    Part("locks", 7, ("jobs/runtime/file_lock.py", "jobs/storage/lease.py", "jobs/storage/lease_claims.py"), LOCK_TESTS, with_spark=True),
    Part(
        "publishing",
        6,
        (
            "jobs/pipeline.py",
            *(f"jobs/storage/{name}.py" for name in ("warehouse", "scratch", "table_versions", "commit_guard", "published_views")),
        ),
        PUBLISHING_TESTS,
        with_spark=True,
    ),
)


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant; ``by`` is the test that failed, or that took too long."""

    mutant: Mutant
    outcome: str
    by: str | None


def sampled(seed: int, count: int) -> dict[Part, list[Mutant]]:
    """Return the mutants of each part, so many as its weight gives it."""
    weights = sum(part.weight for part in PARTS)
    taken: set[Path] = set()
    chosen = {}
    for part in PARTS:
        files = sorted({path for pattern in part.files for path in ROOT.glob(pattern)} - taken)
        taken.update(files)
        chosen[part] = _sample(seed, files, round(count * part.weight / weights))
    return chosen


def _sample(seed: int, files: Sequence[Path], count: int) -> list[Mutant]:
    """Return so many mutants; drawn by the names of their places, so that a change of the code changes few of them."""
    found = [spot for path in files for spot in find_spots(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"))]
    chosen: dict[str, Mutant] = {}
    for draw, spot in sorted(((Random(f"{seed} {spot.name}"), spot) for spot in found), key=lambda drawn: drawn[0].random()):
        mutant = spot.mutant(draw.randrange(len(spot.changes)))
        if mutant is not None:
            chosen.setdefault(row_of(mutant), mutant)
        if len(chosen) == count:
            break
    return list(chosen.values())


def row_of(mutant: Mutant) -> str:
    """Return the cells of ``survivors.md`` that a mutant is known by: all but the reason."""
    cells = (mutant.path, mutant.function or "(top)", mutant.before, mutant.after)
    return f"| {' | '.join(_code(text) for text in cells)} |"


def _code(text: str) -> str:
    quotes = "``" if "`" in text else "`"
    return f"{quotes}{text}{quotes}".replace("|", "\\|") if text else ""


class TestProcess:
    """A ``mutation_runner`` in a copy of the checkout; started again when a mutant has left it in an unknown state."""

    __test__ = False

    def __init__(self, part: Part, folder: Path) -> None:
        self._part = part
        self._folder = folder
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> TestProcess:
        copy = self._folder / "checkout"
        copy.mkdir(parents=True)
        for name in COPIED:
            source, target = ROOT / name, copy / name
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, target)
        if (ROOT / ".evenkeel").exists():
            (copy / ".evenkeel").symlink_to(ROOT / ".evenkeel")  # Delta's jars
        # What is compiled is known by its source: by time and size two mutants made within a second would be the same.
        compiling = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash", "."]
        subprocess.run(compiling, cwd=copy, check=True, stdout=subprocess.DEVNULL)
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stdin.close()
        try:
            self._process.wait(ENDING_S)
        except subprocess.TimeoutExpired:
            self._kill()

    def _kill(self) -> None:
        """End it and all it has started: Spark may be blocked by what a mutant has begun, and never end by itself."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _start(self) -> None:
        copy = self._folder / "checkout"
        kind = "--spark" if self._part.with_spark else "--plain"
        self._process = subprocess.Popen(
            [sys.executable, copy / "tests" / "faults" / "mutation_runner.py", kind, self._folder, *self._part.tests],
            cwd=copy,
            env=_environment(copy),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(self._folder / "log").open("a"),
            text=True,
            start_new_session=True,
        )
        ready = self._answer()
        baseline = self._ask(None, [])
        if (ready["outcome"], baseline["outcome"]) != ("ready", "survived"):
            log = (self._folder / "log").read_text(encoding="utf-8")[-2000:]
            raise SystemExit(f"{self._part.name}: the tests fail on unchanged code ({baseline['by']}):\n{log}")
        print(f"{self._part.name}: all tests pass on unchanged code in {baseline['seconds']:.0f} s", flush=True)

    def test(self, mutant: Mutant, first: Sequence[str]) -> dict[str, Any]:
        """Return what became of a mutant, see ``mutation_runner``."""
        answer = self._ask(mutant, first)
        if answer["outcome"] == "timed out" and self._part.with_spark:
            self._kill()
            self._start()
        return answer

    def _ask(self, mutant: Mutant | None, first: Sequence[str]) -> dict[str, Any]:
        path, source = (mutant.path, mutant.source) if mutant is not None else (None, None)
        self._process.stdin.write(json.dumps({"path": path, "source": source, "tests": self._part.tests, "first": first}) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self._part.name}: the tests ended:\n{(self._folder / 'log').read_text(encoding='utf-8')[-2000:]}")
        return json.loads(line)


def _environment(copy: Path) -> dict[str, str]:
    """Return ours with the copy for the workers, without what would make examples differ from run to run."""
    kept = {name: value for name, value in os.environ.items() if name != "EVENKEEL_SEED"}
    ours = {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0", "PYSPARK_PYTHON": sys.executable}
    return {**kept, **ours, "_JAVA_OPTIONS": JAVA_OPTIONS}


class Progress:
    """Prints a line a mutant."""

    def __init__(self, total: int) -> None:
        self._total, self._count, self._lock = total, 0, Lock()

    def show(self, mutant: Mutant, answer: dict[str, Any]) -> None:
        with self._lock:
            self._count += 1
            if answer["by"] is not None:
                change = f"by {answer['by']}"
            else:
                change = f"{mutant.before}  ->  {mutant.after}"
            where = f"{mutant.path} {mutant.function or '(top)'}"
            print(f"[{self._count:3}/{self._total}] {answer['outcome']} in {answer['seconds']:.1f} s  {where}: {change}", flush=True)


class Judge:
    """Finds out what becomes of mutants, in several processes at once.

    Attributes:
        verdicts: those that there are.
    """

    def __init__(self, mutants: dict[Part, list[Mutant]], folder: Path) -> None:
        self._waiting = {part: deque(several) for part, several in mutants.items()}
        self._killers: defaultdict[str, list[str]] = defaultdict(list)
        self._folder = folder
        self._progress = Progress(sum(map(len, mutants.values())))
        self.verdicts: list[Verdict] = []

    def judge(self, parts: Sequence[Part]) -> None:
        """Judge the mutants of parts, one part after the other; together with whoever else is at the same part."""
        for part in parts:
            if self._waiting[part]:
                with TestProcess(part, Path(tempfile.mkdtemp(dir=self._folder))) as process:
                    self._judge(part, process)

    def _judge(self, part: Part, process: TestProcess) -> None:
        """Judge what waits of one part; a test that has killed a mutant of a file comes first for the next of that file."""
        while True:
            try:
                mutant = self._waiting[part].popleft()
            except IndexError:
                return
            answer = process.test(mutant, self._killers[mutant.path])
            if answer["by"] is not None:
                self._killers[mutant.path] = list(dict.fromkeys([answer["by"], *self._killers[mutant.path]]))
            self._progress.show(mutant, answer)
            self.verdicts.append(Verdict(mutant, answer["outcome"], answer["by"]))


def table(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Yield the lines of the table by file."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for verdict in verdicts:
        for name in (verdict.mutant.path, "all"):
            counts[name].update(["mutants", verdict.outcome])
    columns = ("mutants", "killed", "timed out", "survived")
    yield f"{'':40}{''.join(f'{column:>11}' for column in columns)}"
    for name in sorted(counts, key=lambda name: (name == "all", name)):
        yield f"{name:40}{''.join(f'{counts[name][column]:11}' for column in columns)}"


def main() -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1, help="chooses the mutants (default: %(default)s)")
    parser.add_argument("--count", type=int, default=200, help="how many (default: %(default)s)")
    parser.add_argument("--only", choices=[part.name for part in PARTS], help="of these only those of one part")
    arguments = parser.parse_args()
    started = time.monotonic()
    parts = [part for part in PARTS if arguments.only in (None, part.name)]
    every = sampled(arguments.seed, arguments.count)
    with tempfile.TemporaryDirectory(prefix="evenkeel-mutants-") as scratch, ThreadPoolExecutor(2) as pool:
        judge = Judge({part: every[part] for part in parts}, Path(scratch))
        # From both ends, so that each core has work until the last mutant, and Spark one session while there is something else.
        jobs = [pool.submit(judge.judge, order) for order in (parts, parts[::-1])]
    code = print_result(judge.verdicts, time.monotonic() - started, arguments.seed) if judge.verdicts else 1
    for job in jobs:
        job.result()  # raises what has ended it; the verdicts until then have been printed
    return code


def print_result(verdicts: Sequence[Verdict], seconds: float, seed: int) -> int:
    """Print the table, the survivors and the result; return the exit code."""
    survivors = [verdict.mutant for verdict in verdicts if verdict.outcome == "survived"]
    listed = SURVIVORS.read_text(encoding="utf-8").splitlines()
    new = [mutant for mutant in survivors if not any(line.startswith(row_of(mutant)) for line in listed)]
    print("", *table(verdicts), sep="\n")
    for mutant in survivors:
        note = "  (new)" if mutant in new else ""
        print(f"\n{mutant.path} {mutant.function or '(top)'}{note}\n- {mutant.before}\n+ {mutant.after}")
    if new:
        print("\nNew survivors, as rows of survivors.md:", *(f"{row_of(mutant)}  |" for mutant in new), sep="\n")
    for verdict in verdicts:
        if verdict.outcome != "survived" and any(line.startswith(row_of(verdict.mutant)) for line in listed):
            print(f"\nlisted in survivors.md, but {verdict.outcome} by {verdict.by}:\n{row_of(verdict.mutant)}")
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    share = 1 - len(survivors) / len(verdicts)
    print(
        f"\nseed {seed}: {len(verdicts)} mutants, {len(verdicts) - len(survivors)} killed ({share:.1%}), {len(survivors)} survived, "
        f"{len(new)} of them new; {seconds / 60:.1f} min, {usage.ru_utime + usage.ru_stime:.0f} CPU s"
    )
    return 0 if share >= REQUIRED_SHARE else 1


if __name__ == "__main__":
    sys.exit(main())
