"""Kill -9: whatever dies at whatever moment, readers see the old run or the new one, and running again gives what an undisturbed run gives.

A published warehouse is copied; a process of its own runs on it and is killed; then the same command is run again, in the session of the
tests, while the JVM of the dead driver may still be there. A reader without Spark polls all the time.
"""

from __future__ import annotations

import fcntl
import os
import random
import re
import shutil
import signal
import threading
import time
from bisect import bisect
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from jobs.runtime.file_lock import Holder, read_holder
from jobs.runtime.locations import RUN_LOCK
from jobs.verify.folder import check_folder
from tests.builders.tables import rows
from tests.faults.conftest import TwoRuns, commits
from tests.faults.drivers import Driver, wait_until
from tests.faults.readers import PollingReader, published_state

DEFAULT_SEED = 17
START_SECONDS = 12.0
"""About what a driver takes until it has the lock."""
COLD = 4.0
"""How much slower a new JVM is than that of the tests; the next commit ends a wait anyway."""
AT_ONCE = 2
"""Warehouses in use: while the session of the tests runs again on one, a process is on its way to its end on another."""
TRACEBACK_OF_OURS = re.compile(r'File ".*/jobs/')
"""PySpark's own threads may print long traces after the JVM has ended."""
FROZEN_SECONDS = 2.0
"""How long a run has to wait for a frozen JVM, which it must not overtake."""


@dataclass(frozen=True)
class Instant:
    """When to kill and whom.

    Attributes:
        commits: commits that the run has made; None for an instant before it has the lock.
        delay: seconds since then, or since the start of the process.
        victim: driver, jvm or group, which is both.
    """

    commits: int | None
    delay: float
    victim: str

    def strike(self, driver: Driver, before: Collection[Path]) -> None:
        """Wait and kill; nothing where the run has ended before.

        Args:
            before: the commits that there were without this run. Those that take back what another one left do not count as made.
        """
        known = set(before)
        own: list[Path] = []

        def made() -> int:
            for path in commits(driver.warehouse):
                if path not in known:
                    known.add(path)
                    if '"operation":"RESTORE"' not in path.read_text():
                        own.append(path)
            return len(own)

        if self.commits is not None:
            wait_until(lambda: driver.has_ended() or (driver.holder() is not None and made() >= self.commits), f"{self}")
        deadline, reached = time.monotonic() + self.delay, made()
        wait_until(lambda: driver.has_ended() or time.monotonic() > deadline or made() > reached, f"{self}")
        if driver.has_ended():
            return
        holder = driver.holder()
        if self.victim == "group":
            driver.kill_group()
        elif self.victim == "jvm" and holder is not None:
            os.kill(holder.jvm[0], signal.SIGKILL)
        else:
            os.kill(driver.process.pid, signal.SIGKILL)


def instants(two_runs: TwoRuns, count: int, first: int = 0) -> Iterator[Instant]:
    """Yield random instants over the duration of a run, by the commits made until then, so that a busy machine does not shift them.

    Every sixth lies before the lock is taken. Those before ``first`` are left out.
    """
    seed = int(os.environ.get("EVENKEEL_SEED", DEFAULT_SEED))
    print(f"EVENKEEL_SEED={seed}")
    source, times = random.Random(seed), (0.0, *two_runs.commit_times)
    for number in range(first + count):
        victim = ("driver", "jvm", "driver", "group")[number % 4]
        is_early = number % 6 == 5
        at = source.uniform(0, START_SECONDS if is_early else two_runs.duration)
        made = bisect(times, at) - 1
        if number >= first:
            yield Instant(None, at, victim) if is_early else Instant(made, (at - times[made]) * COLD, victim)


@dataclass(frozen=True)
class Step:
    """A named place where a driver kills itself; ``tests.faults.dying`` explains the words.

    Attributes:
        after: where an earlier driver has died; this one dies in the recovery.
        is_first: there is no warehouse yet.
    """

    name: str
    calls: str
    moment: str
    count: int = 1
    after: Step | None = None
    is_first: bool = False

    def arguments(self) -> list[str]:
        return ["tests.faults.dying", self.calls, self.moment, str(self.count)]


COMMIT = "jobs.storage.warehouse:Warehouse.commit"
RESTORE = f"jobs.storage.warehouse:Warehouse.recover>{COMMIT}"
LAST_COMMIT = f"jobs.pipeline:_close>{COMMIT}"
UNPUBLISHED = Step("before the row in runs", "jobs.pipeline:_close", "before")
STEPS_OF_ANY_RUN = [
    Step("before the tables are made", "jobs.storage.warehouse:Warehouse.create", "before", is_first=True),
    Step("between two tables' creation", "jobs.storage.warehouse:create_statement", "before", 7, is_first=True),
    Step("during a table's creation", "jobs.storage.warehouse:create_statement", "during", 12, is_first=True),
    Step("after the tables are made", "jobs.storage.warehouse:Warehouse.create", "after", is_first=True),
    Step("before the first RESTORE", RESTORE, "before", after=UNPUBLISHED),
    Step("during a RESTORE", RESTORE, "during", 3, after=UNPUBLISHED),
    Step("during a RESTORE, with Spark frozen", RESTORE, "frozen", 2, after=UNPUBLISHED),
    Step("between two RESTOREs", RESTORE, "after", 3, after=UNPUBLISHED),
    Step("after the last RESTORE", "jobs.storage.warehouse:Warehouse.recover", "after", after=UNPUBLISHED),
]
"""Of landings too, which are the shorter runs."""
STEPS_OF_WHOLE_RUNS = [
    Step("between two tables' commits in land", f"jobs.land.run:run>{COMMIT}", "after", 2),
    Step("after land", "jobs.land.run:run", "after"),
    Step("during the first commit", COMMIT, "during"),
    Step("during a commit, with Spark frozen", COMMIT, "frozen", 6),
    Step("between two tables' commits in assign", f"jobs.assign.run:run>{COMMIT}", "after", 2),
    Step("after assign", "jobs.assign.run:run", "after"),
    Step("between two tables' commits in audit", f"jobs.audit.run:run>{COMMIT}", "after", 2),
    Step("after audit", "jobs.audit.run:run", "after"),
    Step("after the gates", "jobs.gates:run", "after"),
    UNPUBLISHED,
    Step("during the commit of the row in runs", LAST_COMMIT, "during"),
    Step("during the commit of the row in runs, with Spark frozen", LAST_COMMIT, "frozen"),
    Step("after the row in runs", "jobs.pipeline:_close", "after"),
    Step("while staging is cleared", "jobs.storage.warehouse:Warehouse.clear_staging>os:unlink", "after", 3),
]


What = Step | Instant | tuple[Instant, ...]
"""Where drivers die: one, or one after the other, each running again after the one before."""


class Case:
    """A warehouse on which drivers die, until ``run_again``."""

    def __init__(self, two_runs: TwoRuns, folder: Path, what: What) -> None:
        self.two_runs, self.folder, self.what = two_runs, folder, what
        self.warehouse = folder / "warehouse"
        self.is_first = isinstance(what, Step) and what.is_first
        self.argv = (two_runs.first_run if self.is_first else two_runs.second_run)(self.warehouse)
        self.left: Holder | None = None
        self.is_overtaken = False
        self._open = ExitStack()
        self.reader = PollingReader(self.warehouse)
        if not self.is_first:
            shutil.copytree(two_runs.first, self.warehouse)
            self._open.enter_context(self.reader)

    def crash(self) -> Case:
        """Run in processes of their own until these are dead, but for the JVM of a killed driver."""
        try:
            self._crash(self.what)
        except BaseException:
            self._open.close()
            raise
        return self

    def _crash(self, what: What) -> None:
        if isinstance(what, tuple):
            for instant in what:
                self._crash(instant)
        elif isinstance(what, Instant):
            before = commits(self.warehouse)
            driver = self._start("jobs")
            what.strike(driver, before)
            code = self._outlive(driver)
            assert code in (-signal.SIGKILL, 0) or what.victim == "jvm", f"{what}: ended with {code}, see {driver.log}"
            said = driver.log.read_text()
            assert TRACEBACK_OF_OURS.search(said) is None, driver.log
            # Not at the end, nor at the beginning of a line: a thread of PySpark's may write between and into ours.
            ours = rf"evenkeel: \w+ on {re.escape(str(self.warehouse))}: "
            assert code in (-signal.SIGKILL, 0) or re.search(ours, said), driver.log
        else:
            for step in (what.after, what) if what.after is not None else (what,):
                driver = self._start(*step.arguments())
                assert self._outlive(driver) == -signal.SIGKILL, f"{step.name}: never reached, see {driver.log}"

    def _start(self, *arguments: str) -> Driver:
        driver = Driver(self.folder, self.warehouse, [*arguments, *self.argv])
        self._open.callback(driver.kill_group)
        return driver

    def _outlive(self, driver: Driver) -> int:
        code = driver.end()
        self.left = driver.holder()
        return code

    def run_again(self, evenkeel) -> list[str]:
        """Return what is wrong after the same command has been run again; empty when all is as after an undisturbed run."""
        with self._open:
            if isinstance(self.what, Step) and self.what.moment == "frozen":
                threading.Thread(target=self._thaw, daemon=True).start()
            code = evenkeel(*self.argv, "--wait", "60")  # for ``_thaw``, whose look at the lock is one
        return list(self._wrongs(code))

    def _thaw(self) -> None:
        """Let the JVM go on once the next run waits for it; a run that did not wait would have written its own name into the lock."""
        with (self.warehouse / RUN_LOCK).open() as file:

            def is_locked() -> bool:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    return True
                fcntl.flock(file, fcntl.LOCK_UN)
                return False

            wait_until(is_locked, "the next run")
        time.sleep(FROZEN_SECONDS)
        self.is_overtaken = read_holder(self.warehouse / RUN_LOCK) != self.left
        os.kill(self.left.jvm[0], signal.SIGCONT)

    def _wrongs(self, code: int) -> Iterator[str]:
        if self.is_overtaken:
            yield "the JVM of the dead driver was overtaken"
        if code != 0:
            yield f"running again ended with {code}"
            return
        expected = [self.two_runs.before] if self.is_first else [self.two_runs.before, self.two_runs.after]
        if published_state(self.warehouse) != expected[-1]:
            yield "the tables are not those of an undisturbed run"
        published = sorted(run["run_id"] for run in rows(self.warehouse, "runs") if run["status"] == "published")
        if published != [run_id for run_id, _ in expected]:
            yield f"published: {published}"
        yield from map(str, check_folder(self.warehouse).damages)
        if (self.warehouse / "_staging").exists():
            yield "staging is still there"
        if not self.is_first:
            seen = list(dict.fromkeys(self.reader.seen))
            if seen != expected:
                yield f"a reader saw {seen}"


def check_crashes(evenkeel, measured: Callable[[str], None], two_runs: TwoRuns, folder: Path, whats: Iterable[What]) -> None:
    """Let drivers die and run again after each, while the next one runs to its end."""
    wrong, started = [], time.monotonic()
    whats_by_crash: dict[Future[Case], What] = {}

    def finish(crashes: Iterable[Future[Case]]) -> None:
        for crash in crashes:
            found = [str(crash.exception())] if crash.exception() else crash.result().run_again(evenkeel)
            what = whats_by_crash.pop(crash)
            polls = 0 if crash.exception() else len(crash.result().reader.seen)
            measured(f"{what}: {found or 'as undisturbed'}, in {polls} polls, {time.monotonic() - started:.0f} s after the first")
            wrong.extend(f"{what}: {one}" for one in found)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for number, what in enumerate(whats):
            (folder / str(number)).mkdir()
            whats_by_crash[pool.submit(lambda number=number, what=what: Case(two_runs, folder / str(number), what).crash())] = what
            if len(whats_by_crash) == AT_ONCE:
                finish(wait(whats_by_crash, return_when=FIRST_COMPLETED).done)
        finish(list(whats_by_crash))
    assert wrong == []
