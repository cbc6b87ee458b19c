"""What every test shares: generated examples repeat from run to run, unless ``EVENKEEL_SEED`` asks for new ones.

One Spark session, one warehouse of the demo and one of the whole recorded capture serve the whole run, since they cost more than most
tests. Spark is imported only by the tests that ask for them: the others must do without it.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from tests.builders.captures import RECORDED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

settings.register_profile("evenkeel", deadline=None, derandomize="EVENKEEL_SEED" not in os.environ)
settings.load_profile("evenkeel")

ROOT = Path(__file__).resolve().parents[1]
DURATIONS = ROOT / "tests" / "durations.json"
"""Group of tests -> seconds it took when the durations were last recorded; what runs side by side begins with the longest."""
SHARING = {
    **dict.fromkeys(("test_crashes.py", "test_disk_full.py"), "two runs"),
    **dict.fromkeys(("test_landing_crashes.py", "test_two_writers.py"), "two landings"),
}
"""File -> the group of files that share a dear fixture; every other file is a group of its own.

The marks ``xdist_group`` would say it in the files, but have no effect with pytest 9.2 and xdist 3.8: names of tests cannot be changed."""
WITH_A_BROKER = "tests/kafka"
"""Folder whose files are one group of tests: they share a broker."""
TABLES_IN_MEMORY = 100
MANY_TESTS = 2000
"""Tests from which on a run takes so long that the second compiler pays."""
SECOND_COMPILER = (
    "-XX:TieredStopAtLevel=4 -XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000"
    " -XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)
"""Ten times its thresholds. In the first five minutes of two sessions it took 54 CPU s instead of 136, and all took 428 instead of 490."""
AS_OF = ("--as-of", "2026-11-22T00:00:00Z")
MEASURED = "measured"


def jars_folder() -> Path:
    import pyspark

    named = os.environ.get("EVENKEEL_JARS")
    minor = ".".join(pyspark.__version__.split(".")[:2])
    folder = Path(named) if named else ROOT / ".evenkeel" / "jars" / f"spark-{minor}"
    if not list(folder.glob("delta-spark*.jar")):
        pytest.exit(f"no Delta jars in {folder}: run ./spark-submit.sh --setup test", returncode=2)
    return folder


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """The session of this run, with the settings of a local run; where many tests run, with more memory and the second compiler.

    In 2 GB a session of an hour and a half collects garbage more and more of the time.

    Delta keeps the plans of every table for an hour after its last use, 2 MB each: those of a hundred warehouses, of which tests make more,
    fill the heap, and half of the time goes into collecting garbage.
    """
    from jobs.runtime.session import open_session

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    java = f"-Ddelta.log.cacheSize={TABLES_IN_MEMORY}"  # the larger of this and the setting counts
    arguments = f"--conf spark.databricks.delta.delta.log.cacheSize={TABLES_IN_MEMORY}"
    if "not slow" not in request.config.option.markexpr or request.session.testscollected > MANY_TESTS:
        java += f" {SECOND_COMPILER}"
        arguments += " --driver-memory 4g"
    arguments += f" --driver-java-options '{java}' pyspark-shell"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_SUBMIT_ARGS", arguments)
        session = open_session(ROOT / "conf", jars_folder())
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def nothing_is_left_for_later_tests() -> Iterator[None]:
    """Fail a test that leaves the thread of a lease, or takes the handler of SIGINT away.

    Such a thread would run Spark jobs beside every later test. Without the session's handler an interrupt ends no Spark job, and a later
    test would wait for free slots for ever.
    """
    before = signal.getsignal(signal.SIGINT)
    yield
    after = signal.getsignal(signal.SIGINT)
    if after is not before and after is signal.default_int_handler:
        signal.signal(signal.SIGINT, before)
        pytest.fail("the handler of SIGINT is Python's own again")
    assert not [thread for thread in threading.enumerate() if thread.name == "evenkeel-lease"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record-durations", action="store_true", help="write how long each group of tests took to tests/durations.json")


def group_of(nodeid: str) -> str:
    """Return the group of a test, which runs in one process."""
    path = nodeid.partition("::")[0]
    return WITH_A_BROKER if path.startswith(f"{WITH_A_BROKER}/") else SHARING.get(Path(path).name, path)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the group that takes longest: begun last, it would leave a process idle."""
    seconds: dict[str, float] = json.loads(DURATIONS.read_text(encoding="utf-8"))
    items.sort(key=lambda item: -seconds.get(group_of(item.nodeid), 0))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep the tests of a group in one process."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    return Scheduling(config, log)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Record how long each group of tests took that ran, where that is asked for; the others keep what was recorded of them."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or not session.config.getoption("--record-durations"):
        return
    took: dict[str, float] = {}
    for report in (report for reports in reporter.stats.values() for report in reports if isinstance(report, pytest.TestReport)):
        group = group_of(report.nodeid)
        took[group] = took.get(group, 0) + report.duration
    recorded = {**json.loads(DURATIONS.read_text(encoding="utf-8")), **took}
    lines = {group: round(seconds) for group, seconds in sorted(recorded.items()) if seconds >= 1}
    DURATIONS.write_text(json.dumps(lines, indent=1) + "\n", encoding="utf-8")


def outcomes(reporter: pytest.TerminalReporter) -> dict[str, Counter[str]]:
    """Return by folder how many tests passed, failed, were skipped or could not be set up."""
    found: dict[str, Counter[str]] = {}
    for kind in ("passed", "failed", "error", "skipped"):
        for report in reporter.getreports(kind):
            found.setdefault("/".join(report.nodeid.split("/")[:2]), Counter())[kind] += 1
    return found


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell how each folder of tests ended, and what the tests measured, whichever process they ran in."""
    if ended := outcomes(terminalreporter):
        terminalreporter.section("folders")
    for folder, counts in sorted(ended.items()):
        terminalreporter.write_line(f"{folder}: " + ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())))
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.getreports(kind) if report.when == "call"]
    measured = [(report.nodeid.rpartition("/")[2], text) for report in reports for name, text in report.user_properties if name == MEASURED]
    if measured:
        terminalreporter.section("measured")
    for test, texts in groupby(sorted(measured, key=itemgetter(0)), key=itemgetter(0)):
        terminalreporter.write_line(test)
        for _, text in texts:
            terminalreporter.write_line(f"    {text}")


@pytest.fixture
def measured(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Takes what a test measured, in words; all of it is printed when the last test has ended."""
    return partial(record_property, MEASURED)


@contextmanager
def made_once(factory: pytest.TempPathFactory, name: str) -> Iterator[tuple[Path, bool]]:
    """Yield a folder for what is made once and only read by tests, and whether it is to be made now.

    The processes of a run share it.
    """
    is_alone = "PYTEST_XDIST_WORKER" not in os.environ
    folder = (factory.getbasetemp() if is_alone else factory.getbasetemp().parent) / name
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        complete = folder / "complete"
        is_new = not complete.exists()
        if is_new:  # what a process left that has failed is in the way
            for name in ("captures", "warehouse"):
                shutil.rmtree(folder / name, ignore_errors=True)
        yield folder, is_new
        complete.touch()


Evenkeel = Callable[..., int]


@pytest.fixture(scope="session")
def empty_warehouse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with all its tables and nothing in them: to copy it costs nothing, and to make it costs a fifth of a small run."""
    from jobs.storage.warehouse import Warehouse

    with made_once(tmp_path_factory, "empty") as (folder, is_new):
        if is_new:
            warehouse = Warehouse(spark, str(folder / "warehouse"))
            with warehouse.signed("empty", nullcontext):
                warehouse.create()
    return folder / "warehouse"


@pytest.fixture(scope="session")
def evenkeel(spark: SparkSession, empty_warehouse: Path) -> Evenkeel:
    """Runs one command line in the session of this run and returns its exit code.

    The tables of a new warehouse are copies of the empty one's. That a run makes them is shown where processes of their own run, and in
    test_warehouse.py.
    """
    from jobs import cli
    from jobs.storage.warehouse import Warehouse

    create = Warehouse.create

    def copy_tables(warehouse: Warehouse, optional: Collection[str]) -> None:
        folder = warehouse.folder
        if folder is not None and not any((folder / table.name).exists() for table in empty_warehouse.iterdir()):
            shutil.copytree(empty_warehouse, folder, dirs_exist_ok=True)
        create(warehouse, optional)

    def run(*argv: str | Path) -> int:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Warehouse, "create", copy_tables)
            return cli.console_main([str(argument) for argument in argv])

    return run


@pytest.fixture(scope="session")
def make_tables(evenkeel: Evenkeel) -> Evenkeel:
    """Runs one command line for its tables alone: as ``evenkeel``, without gates, and without the report of ``run``.

    These take a third of a small run, and change nothing in any table but ``runs.gates``.
    """
    from jobs import pipeline

    def run(*argv: str | Path) -> int:
        assert argv[0] != "report", "there would be none"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pipeline.gates, "run", lambda context, conf_folder: [])
            patch.setattr(pipeline.report, "run", lambda *arguments, **options: "")
            return evenkeel(*argv)

    return run


@pytest.fixture(scope="session")
def demo_warehouse(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse made by one `run` on the demo; tests only read it. Where it is there already, this starts no Spark."""
    with made_once(tmp_path_factory, "demo") as (folder, is_new):
        if is_new:
            evenkeel: Evenkeel = request.getfixturevalue("evenkeel")
            assert evenkeel("run", "--warehouse", folder / "warehouse", "--run-id", "demo", *AS_OF) == 0
    return folder / "warehouse"


@pytest.fixture(scope="session")
def recorded_warehouse(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As ``demo_warehouse``, of the whole recorded capture, of which the demo is the beginning."""
    with made_once(tmp_path_factory, "recorded") as (folder, is_new):
        if is_new:
            evenkeel: Evenkeel = request.getfixturevalue("evenkeel")
            assert evenkeel("run", "--warehouse", folder / "warehouse", "--input", RECORDED, "--run-id", "recorded", *AS_OF) == 0
    return folder / "warehouse"
