"""A process that runs tests against one changed file after the other; ``mutation.py`` starts it in a copy of the checkout.

What takes longest is done once, and each mutant gets a fork of that: libraries are imported, and with ``--spark`` a session is open.
Nothing of the project is imported before the fork. It reads one JSON object a line and answers with one:

    {"path": ..., "source": ..., "tests": [...], "first": [...]}     path and source null: the tests alone, which sets the time limits
    {"outcome": "killed", "by": ..., "seconds": ..., "cpu_seconds": ...}

Outcomes are killed, survived and timed out. A fork of the process that holds the session uses its connection to the JVM, one after the
other; one that had to be ended leaves that in an unknown state, after which the process has to be started anew.
"""

from __future__ import annotations

import json
import math
import os
import resource
import select
import shutil
import signal
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

OPTIONS = ("-x", "-q", "-m", "not slow", "-p", "no:cacheprovider", "--assert=plain", "--no-header", "--tb=short")
PROJECT = ("assignors", "schemas", "jobs", "tests")
GRACE_S, GRACE_WITH_SPARK_S, LIMIT_FACTOR = 20.0, 60.0, 10.0
"""A test may take ten times as long as without a change, and so much more: the machine may be busy with something else."""
WHOLE_LIMIT_FACTOR = 3.0
"""All tests together may take three times as long: a mutant that makes each of them a little slower would hold up the others for hours."""
MEMORY_BYTES = 6 << 30
"""For a mutant that grows without end; tests take a tenth of it."""
OPENS_THE_SESSION = "tests/spark/test_lease.py::test_busy_lease_names_its_holder"
"""One that does not read tables without Spark: the library for that has threads, which a fork would lack."""


class Recorder:
    """Reports which test begins, and which has failed; puts tests and files of tests into an order, those it does not name last."""

    def __init__(self, pipe: int, order: Iterable[str]) -> None:
        self._pipe = pipe
        self._rank = {name: rank for rank, name in enumerate(order)}

    def report(self, what: str, value: Any) -> None:
        os.write(self._pipe, json.dumps([what, value]).encode() + b"\n")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        of_files = {item.nodeid: self._rank.get(item.nodeid.partition("::")[0], len(self._rank)) for item in items}
        items.sort(key=lambda item: self._rank.get(item.nodeid, of_files[item.nodeid]))

    def pytest_sessionstart(self) -> None:
        from hypothesis import Phase, settings

        # Neither does it matter how small an example is that kills, nor may examples of one mutant be tried on another.
        settings.register_profile("mutants", settings.get_profile("evenkeel"), phases=[Phase.explicit, Phase.generate], database=None)
        settings.load_profile("mutants")

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.report("begins", nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.report("failed", report.nodeid)


class Runner:
    """Runs jobs in forks of this process."""

    def __init__(self, scratch: Path, with_spark: bool) -> None:
        self._scratch = scratch
        self._with_spark = with_spark
        self._seconds: dict[str, float] = {}
        self._count = 0

    def run(self, path: str | None, source: str | None, tests: list[str], first: list[str]) -> dict[str, Any]:
        """Return the outcome of the tests with one file changed, which is put back."""
        original = None if path is None else Path(path).read_bytes()
        if path is not None:
            Path(path).write_text(source, encoding="utf-8")
        self._count += 1
        folder = self._scratch / f"tests-{self._count}"  # a new one each time: Delta remembers tables by their paths
        try:
            return self._forked([*OPTIONS, f"--basetemp={folder}", *tests], self._in_order(first, tests), is_changed=path is not None)
        finally:
            if path is not None:
                Path(path).write_bytes(original)
            shutil.rmtree(folder, ignore_errors=True)

    def _in_order(self, first: list[str], tests: list[str]) -> list[str]:
        """Return these tests and then the quick ones; with Spark the others as they are given, since they share what is dear to make."""
        others = tests if self._with_spark else sorted(self._seconds, key=self._seconds.__getitem__)
        return list(dict.fromkeys([*first, *others]))

    def _forked(self, arguments: list[str], order: list[str], is_changed: bool) -> dict[str, Any]:
        started = time.monotonic()
        results, reporting = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(results)
            self._test(arguments, Recorder(reporting, order))
        os.close(reporting)
        code, by = self._watch(results, is_changed)
        os.close(results)
        with suppress(ProcessLookupError):  # what it has started may still run
            os.killpg(child, signal.SIGKILL)
        _, _, usage = os.wait4(child, 0)
        outcome = "timed out" if code == "late" else "survived" if code == 0 else "killed"
        return {
            "outcome": outcome,
            "by": by,
            "seconds": time.monotonic() - started,
            "cpu_seconds": usage.ru_utime + usage.ru_stime,
        }

    def _test(self, arguments: list[str], recorder: Recorder) -> None:
        os.setpgid(0, 0)
        code = 1
        try:
            if self._with_spark:
                _renew_session()
            else:
                resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
            code = int(pytest.main(arguments, plugins=[recorder]))
        finally:
            recorder.report("ended", code)
            os._exit(0)

    def _watch(self, pipe: int, is_changed: bool) -> tuple[int | str, str | None]:
        """Return the exit code of pytest, "late" when a test takes too long; and the test that failed or did."""
        grace = GRACE_WITH_SPARK_S if self._with_spark else GRACE_S
        current, failed, received = None, None, b""
        since = time.monotonic()
        end = since + grace + WHOLE_LIMIT_FACTOR * sum(self._seconds.values()) if is_changed else math.inf
        while True:
            limit = grace + LIMIT_FACTOR * self._seconds.get(current, 0) if is_changed else 600
            ready, _, _ = select.select([pipe], [], [], max(0.0, min(end, since + limit) - time.monotonic()))
            if not ready:
                return "late", current
            more = os.read(pipe, 1 << 16)
            if not more:
                return 1, failed or current  # it died
            *lines, received = (received + more).split(b"\n")
            for what, value in map(json.loads, lines):
                if what == "failed":
                    failed = value
                    continue
                if current is not None and not is_changed:
                    self._seconds[current] = time.monotonic() - since
                if what == "ended":
                    return value, failed
                current, since = value, time.monotonic()


def _renew_session() -> None:
    """Make the open session a new one, without the settings and views that the last mutant may have left."""
    from pyspark.sql import SparkSession

    fresh = SparkSession._instantiatedSession.newSession()
    SparkSession._instantiatedSession = fresh
    fresh._jvm.SparkSession.setActiveSession(fresh._jsparkSession)
    fresh._jvm.SparkSession.setDefaultSession(fresh._jsparkSession)


def _warm_up(tests: list[str], with_spark: bool) -> int:
    """Import what the tests import, but for the project; with Spark run one that opens the session."""
    code = int(pytest.main([*OPTIONS, "--collect-only", *tests]))
    if with_spark:
        from pyspark.sql import SparkSession

        SparkSession.stop = lambda self: None  # at the end of a fork it would stop everybody's
        code = code or int(pytest.main([*OPTIONS, OPENS_THE_SESSION]))
    for name in [name for name in sys.modules if name.partition(".")[0] in PROJECT]:
        del sys.modules[name]
    return code


def _end_jvm() -> None:
    from pyspark import SparkContext

    SparkContext._active_spark_context.stop()
    gateway = SparkContext._gateway
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(60)  # waited for, so that its CPU time counts


def main() -> None:
    """Answer until the input ends."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what tests and Spark print belongs to the log
    with_spark, scratch, tests = sys.argv[1] == "--spark", Path(sys.argv[2]), sys.argv[3:]
    del sys.path[0]  # the folder of this file
    code = _warm_up(tests, with_spark)
    answers.write(json.dumps({"outcome": "ready" if code == 0 else "killed"}) + "\n")
    runner = Runner(scratch, with_spark)
    for line in sys.stdin:
        answers.write(json.dumps(runner.run(**json.loads(line))) + "\n")
    if with_spark:
        _end_jvm()


if __name__ == "__main__":
    main()
