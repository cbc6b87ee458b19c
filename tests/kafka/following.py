"""Processes that follow a broker, for tests that send them signals."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.kafka.broker import Broker

ROOT = Path(__file__).resolve().parents[2]
LONGEST_S = 120.0
START = """
import sys
from jobs import cli
from jobs.brokers import records
records.BATCH_SECONDS = 0.02
raise SystemExit(cli.console_main(sys.argv[1:]))
"""


def wait_for(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + LONGEST_S
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {LONGEST_S:.0f} s"
        time.sleep(0.05)


class Collector:
    """A process that follows a broker."""

    def __init__(self, address: str, folder: Path, log: Path, *options: str) -> None:
        self.folder, self.log = folder, log
        follow = ["collect", "--bootstrap-servers", address, "--output", str(folder), "--follow", *options]
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-c", START, *follow],
                cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            )  # fmt: skip

    @property
    def output(self) -> str:
        """What it has printed."""
        return self.log.read_text()

    def is_ready(self) -> bool:
        assert self.process.poll() is None, self.output
        return ": reading " in self.output or " groups" in self.output

    def file_count(self) -> int:
        return len(list(self.folder.glob("consumer_offsets-*")))

    def end(self, number: int) -> int:
        """Send a signal, and return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(LONGEST_S)


@contextmanager
def following(broker: Broker, folder: Path, *options: str, roll_interval: str = "0.3") -> Iterator[Collector]:
    """A collector that has begun to read."""
    log = folder.with_suffix(f".{time.monotonic_ns()}.log")
    collector = Collector(broker.address, folder, log, "--roll-interval", roll_interval, *options)
    try:
        wait_for(collector.is_ready, "the collector begins to read")
        yield collector
    finally:
        if collector.process.poll() is None:
            collector.process.kill()
            collector.process.wait()
