"""What every test shares: generated examples repeat from run to run, unless ``EVENKEEL_SEED`` asks for new ones.

One Spark session and one warehouse made from the recorded capture serve the whole run, since both cost more than most tests. Spark
is imported only by the tests that ask for them: the others must do without it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

settings.register_profile("evenkeel", deadline=None, derandomize="EVENKEEL_SEED" not in os.environ)
settings.load_profile("evenkeel")

ROOT = Path(__file__).resolve().parents[1]
SHARING = {
    **dict.fromkeys(("test_crashes.py", "test_disk_full.py"), "two runs"),
    **dict.fromkeys(("test_landing_crashes.py", "test_two_writers.py"), "two landings"),
    **dict.fromkeys(("test_verify.py", "test_verify_rows.py", "test_recovery_page.py"), "full warehouse"),
}
"""File -> those with the same word run in one process."""
LONGEST_FIRST = (
    *("test_docs.py", "test_report_in_browser.py"),
    *("test_crashes.py", "test_landing_crashes.py", "test_two_writers.py", "test_verify.py", "test_invariance.py", "test_hostile.py"),
    *("test_workers.py", "test_interrupt.py"),
    *("test_histories.py", "test_bad_input.py", "test_maintain.py", "test_four_inputs.py", "test_pipeline.py", "test_catalog.py"),
    *("test_conflicts.py", "test_late.py", "test_lease.py"),
    *("test_pieces.py", "test_run_demo.py", "test_report.py", "test_formatter_json.py", "test_migrations.py", "test_transactions.py"),
)
"""The files that take minutes: begun last, one of them would leave the other process idle."""
TABLES_IN_MEMORY = 100
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
    """The session of this run, with the settings of a local run; where the slow tests run too, with more memory and the second compiler.

    That makes the first two runs in a session dearer by 64 CPU s together, and from then on each cheaper by 15 to 20 of 65. In 2 GB a
    session of an hour and a half collects garbage more and more of the time.

    Delta keeps the plans of every table for an hour after its last use, 2 MB each: those of a hundred warehouses, of which tests make more,
    fill the heap, and half of the time goes into collecting garbage.
    """
    from jobs.session import open_session

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    java = f"-Ddelta.log.cacheSize={TABLES_IN_MEMORY}"  # the larger of this and the setting counts
    arguments = f"--conf spark.databricks.delta.delta.log.cacheSize={TABLES_IN_MEMORY}"
    if "not slow" not in request.config.option.markexpr:
        java += " -XX:TieredStopAtLevel=4"
        arguments += " --driver-memory 5g"
    arguments += f" --driver-java-options '{java}' pyspark-shell"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_SUBMIT_ARGS", arguments)
        session = open_session(ROOT / "conf", jars_folder())
    yield session
    session.stop()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {name: place for place, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep the tests of a file in one process, and those of the files that share a dear fixture."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            path = super()._split_scope(nodeid)
            return SHARING.get(Path(path).name, path)

    return Scheduling(config, log)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell what the tests measured, whichever process they ran in."""
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.getreports(kind) if report.when == "call"]
    told = [(report.nodeid.rpartition("/")[2], text) for report in reports for name, text in report.user_properties if name == MEASURED]
    if told:
        terminalreporter.section("measured")
    for test, texts in groupby(sorted(told, key=itemgetter(0)), key=itemgetter(0)):
        terminalreporter.write_line(test)
        for _, text in texts:
            terminalreporter.write_line(f"    {text}")


@pytest.fixture
def measured(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Takes what a test measured, in words; all of it is told when the last test has ended."""
    return partial(record_property, MEASURED)


Evenkeel = Callable[..., int]


@pytest.fixture(scope="session")
def evenkeel(spark: SparkSession) -> Evenkeel:
    """Runs one command line in the session of this run and returns its exit code."""
    from jobs import cli

    def run(*argv: str | Path) -> int:
        return cli.console_main([str(argument) for argument in argv])

    return run


@pytest.fixture(scope="session")
def demo_warehouse(evenkeel: Evenkeel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse made by one `run` on the recorded capture; tests only read it."""
    folder = tmp_path_factory.mktemp("demo") / "warehouse"
    assert evenkeel("run", "--warehouse", folder, "--run-id", "demo", "--as-of", "2026-11-22T00:00:00Z") == 0
    return folder
