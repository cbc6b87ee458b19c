"""The processes that are measured on a fleet, one after another, round after round."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.fleet_records import COMMITS, GENERATION, HISTORY, METADATA, METADATA_FILE, RECORDS_FILE
from tests.benchmarks.fleet_results import BARE, FIRST, NOTHING_NEW, Measurement, count_events
from tests.benchmarks.measuring import LAUNCHER, ROOT, Command, bare_command, measure, spark_command, stage_seconds, user_environment
from tests.benchmarks.processes import PART, MemorySampler
from tests.benchmarks.rivals import peers_python

REPORT, FLOORS, RIVAL = "report", "floors", "rival"
SCENARIOS = {
    FIRST: "run over the history into a fresh warehouse",
    NOTHING_NEW: "the same run again",
    GENERATION: "one more generation of some groups",
    COMMITS: "five minutes of commits of all groups, a metadata snapshot and some rebalances",
    METADATA: "a metadata snapshot alone",
    REPORT: "the command report",
}
"""What our command is measured on, in this order: each goes on with the warehouse that the one before left."""


class Bench:
    """A folder with a fleet, and what is measured on it."""

    def __init__(self, folder: Path, scenarios: Sequence[str], *, has_rival: bool, kept: Path | None = None) -> None:
        """Prepare the measurement; with a rival its packages are fetched, if they are not there.

        Args:
            folder: has the pieces of the fleet in ``fleet``; gets everything else.
            scenarios: names of SCENARIOS besides the first run, which is always measured.
            has_rival: measure the rival and the floors, too.
            kept: gets the event logs of the last round, each in a folder of its process's name.
        """
        self.warehouse = folder / "warehouse"
        self._folder, self._fleet, self._events, self._kept = folder, folder / "fleet", folder / "events", kept
        self._options = ["--conf", "spark.eventLog.enabled=true", "--conf", f"spark.eventLog.dir={self._events.as_uri()}"]
        self._options += ["--conf", "spark.eventLog.compress=false", "--conf", "spark.eventLog.rolling.enabled=false"]
        self._commands = {BARE: bare_command(folder / "bare-table", folder / "bare.py", *self._options)}
        self._commands |= {name: self._ours(name) for name in SCENARIOS if name == FIRST or name in scenarios}
        if has_rival:
            self._commands |= {FLOORS: self._floors(), RIVAL: self._rival()}

    def rounds(self, count: int) -> dict[str, list[Measurement]]:
        """Return what every process took in each round; rounds alternate, so that a change in the machine's load meets all."""
        found: dict[str, list[Measurement]] = {name: [] for name in self._commands}
        for number in range(1, count + 1):
            for name in ("warehouse", "bare-table", "rival-table"):
                shutil.rmtree(self._folder / name, ignore_errors=True)
            for name, command in self._commands.items():
                found[name].append(self._measure(command))
                if self._kept is not None:
                    shutil.rmtree(self._kept / name, ignore_errors=True)
                    shutil.copytree(self._events, self._kept / name)
                print(f"round {number} of {count}: {name} {found[name][-1].cpu_s:.1f} CPU s", file=sys.stderr, flush=True)
        return found

    def _measure(self, command: Command) -> Measurement:
        shutil.rmtree(self._events, ignore_errors=True)
        self._events.mkdir()
        with MemorySampler() as memory:
            usage = measure(*command)
        return Measurement(
            usage.cpu_s,
            usage.wall_s,
            memory.workers_cpu_s,
            memory.driver_bytes,
            memory.workers_bytes,
            *count_events(self._events),
            stage_seconds(usage.output),
            {name: float(seconds) for name, seconds in PART.findall(usage.output)},
            usage.others_cpu_s,
        )

    def _ours(self, name: str) -> Command:
        argv = [LAUNCHER, *self._options, "report" if name == REPORT else "run", "--warehouse", str(self.warehouse)]
        if name != REPORT:
            argv += ["--input", str(self._fleet / (HISTORY if name in (FIRST, NOTHING_NEW) else name))]
        return Command(argv, user_environment())

    def _rival(self) -> Command:
        (packages,) = Path(peers_python()).parents[1].glob("lib/python3.*/site-packages")
        history = self._fleet / HISTORY
        arguments = (str(path) for path in (history / RECORDS_FILE, history / METADATA_FILE, self._folder / "rival-table"))
        return spark_command(_script("fleet_rival.py"), *arguments, options=self._options, packages=[str(ROOT), str(packages)])

    def _floors(self) -> Command:
        arguments = str(self._fleet / HISTORY / RECORDS_FILE), str(self.warehouse)
        return spark_command(_script("fleet_floors.py"), *arguments, options=self._options, packages=[str(ROOT)])


def _script(name: str) -> Path:
    return Path(__file__).with_name(name)
