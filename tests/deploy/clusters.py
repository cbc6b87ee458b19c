"""Real Spark daemons of this machine, on loopback only: a standalone cluster and a Connect server, started from PySpark's own wheel."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from jobs.runtime.session import read_conf_file
from tests.conftest import jars_folder
from tests.needs import skip_loudly

ROOT = Path(__file__).resolve().parents[2]
LAUNCHER = ROOT / "spark-submit.sh"
LONGEST_SECONDS = 1_800.0
"""What anything here may take on a busy machine before a test fails."""
AS_DEMO = ("--run-id", "demo", "--as-of", "2026-11-22T00:00:00Z")


def need_extra(extra: str, module: str) -> None:
    """Have the launcher install an extra of setup.cfg into .venv, unless a module of it is there already."""
    if importlib.util.find_spec(module) is not None:
        return
    command = [LAUNCHER, "--setup", "test", extra]
    made = subprocess.run(command, env=bare_environment(), capture_output=True, text=True, timeout=LONGEST_SECONDS, check=False)
    if made.returncode:
        skip_loudly(f"the extra {extra} cannot be installed: {made.stderr}")


def wait_until(condition: Callable[[], bool], what: str, seconds: float = LONGEST_SECONDS) -> None:
    """Return when a condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {seconds:.0f} s"
        time.sleep(0.1)


def bare_environment() -> dict[str, str]:
    """Return the environment without what would lead to another Spark or Python; all that is started binds to loopback."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK", "PYTHON", "EVENKEEL"))}
    return {**kept, "SPARK_LOCAL_IP": "127.0.0.1"}


def pyspark_home() -> Path:
    """Return the Spark inside the wheel of the running Python."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


def cheap_settings() -> list[str]:
    """Return options that make small data as cheap as on a local master; nothing of the product depends on them."""
    settings = read_conf_file(ROOT / "conf" / "spark-local.conf")
    del settings["spark.driver.memory"]
    settings["spark.executor.defaultJavaOptions"] = settings["spark.driver.defaultJavaOptions"]
    settings["spark.log.level"] = "WARN"
    return [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]


class Process:
    """A program in a process group of its own, with all its output in one file."""

    def __init__(self, command: Sequence[str | Path], log: Path, environment: Mapping[str, str], folder: Path) -> None:
        self.log = log
        with log.open("w") as output:
            self._process = subprocess.Popen(
                list(command), cwd=folder, env=dict(environment), stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True,
            )  # fmt: skip

    def said(self) -> str:
        """Return the output so far."""
        return self.log.read_text(errors="replace")

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Return the first place in the output that matches, when there is one."""
        found: list[re.Match[str]] = []

        def is_there() -> bool:
            assert self._process.poll() is None or re.search(pattern, self.said()), f"ended before {pattern!r}:\n{self.said()}"
            found[:] = re.finditer(pattern, self.said())
            return bool(found)

        wait_until(is_there, f"{pattern!r} in {self.log}")
        return found[0]

    def is_running(self) -> bool:
        return self._process.poll() is None

    def members(self) -> list[str]:
        """Return the command lines of the processes of the group."""
        lines = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError, ValueError):
                if os.getpgid(int(entry.name)) == self._process.pid:
                    lines.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        return lines

    def kill(self) -> None:
        """Kill the program and what it started in its group, such as a worker's executors."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(LONGEST_SECONDS)

    def end(self) -> int:
        """Return the exit code, when there is one."""
        return self._process.wait(LONGEST_SECONDS)


class Standalone:
    """A master and workers of one core each, for the length of a ``with``.

    Args:
        folder: where daemons and executors leave their files.
        blind_to: a folder that one worker has another of, as if it were on a machine of its own.
        memory: what a worker has for its executors.

    Attributes:
        master: the address.
        workers: their daemons; the executors are in their groups.
    """

    def __init__(self, folder: Path, worker_count: int = 2, blind_to: Path | None = None, memory: str = "1g") -> None:
        self._folder = folder
        self._worker_count = worker_count
        self._memory = memory
        self._blind_to = blind_to
        self._daemons: list[Process] = []

    def __enter__(self) -> Standalone:
        try:
            master = self._start("master", ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0"])
            self.master = master.wait_for(r"Starting Spark master at (spark://\S+)")[1]
            worker = ["org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "-c", "1", "-m", self._memory, "-d"]
            names = [f"worker-{number}" for number in range(self._worker_count)]
            self.workers = [self._start(name, [*worker, str(self._folder / name), self.master], name == "worker-0") for name in names]
            for daemon in self.workers:
                daemon.wait_for("Successfully registered with master")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        for daemon in reversed(self._daemons):
            daemon.kill()

    def _start(self, name: str, arguments: list[str], may_be_blind: bool = False) -> Process:
        folder = self._folder / name
        folder.mkdir(parents=True)
        command = [str(pyspark_home() / "bin" / "spark-class"), *arguments, "--webui-port", "0"]
        if may_be_blind and self._blind_to is not None:
            hide = f'mount -t tmpfs evenkeel "{self._blind_to}" && exec "$@"'
            command = ["unshare", "--mount", "sh", "-c", hide, "sh", *command]
        environment = {**bare_environment(), "SPARK_HOME": str(pyspark_home()), "SPARK_DAEMON_MEMORY": "256m"}
        self._daemons.append(Process(command, folder / "log", environment, folder))
        return self._daemons[-1]

    def submit(
        self, folder: Path, *arguments: str | Path, options: Sequence[str] = (), for_small_data: bool = True, **extra: str
    ) -> Process:
        """Start the launcher on this cluster, as a user without a Python on the workers' path would.

        Args:
            for_small_data: with settings that make small data cheap; else with those that every cluster gets.
        """
        folder.mkdir(exist_ok=True)
        command = [LAUNCHER, "--master", self.master, *(cheap_settings() if for_small_data else ()), *options, *arguments]
        return Process(command, folder / "driver.log", {**bare_environment(), **extra}, folder)


class ConnectServer:
    """A Spark Connect server with Delta, a local master, and nothing of ours, for the length of a ``with``.

    Attributes:
        address: ``sc://127.0.0.1:port``.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> ConnectServer:
        jars = ",".join(str(jar) for jar in sorted(jars_folder().glob("*.jar")))
        loopback = ["--conf", "spark.connect.grpc.binding.address=127.0.0.1", "--conf", "spark.connect.grpc.binding.port=0"]
        settings = ["--properties-file", str(ROOT / "conf" / "spark-defaults.conf"), *cheap_settings(), "--conf", "spark.log.level=INFO"]
        main = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
        command = [pyspark_home() / "bin" / "spark-submit", "--master", "local[2,4]", "--jars", jars, *settings, *loopback, *main]
        environment = {**bare_environment(), "SPARK_HOME": str(pyspark_home()), "PYSPARK_PYTHON": sys.executable}
        self._folder.mkdir()
        self.process = Process(command, self._folder / "log", environment, self._folder)
        try:
            self.address = "sc://127.0.0.1:" + self.process.wait_for(r"Spark Connect server started at: \S*?:(\d+)")[1]
        except BaseException:
            self.process.kill()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.process.kill()


def packed_environment(folder: Path) -> Path:
    """Return .venv packed as docs/deploy-cluster.md has it, without what only tests import."""
    need_extra("cluster", "venv_pack")
    archive = folder / "environment.tar.gz"
    left_out = ["pyspark", "deltalake", "polars", "_polars_runtime_32", "selenium", "confluent_kafka*", "cryptography", "pip"]
    command = [Path(sys.prefix) / "bin" / "venv-pack", "--quiet", "--prefix", sys.prefix, "--compress-level", "1", "--output", archive]
    command += [part for name in left_out for part in ("--exclude", f"*/site-packages/{name}/*")]
    subprocess.run(command, check=True, env=bare_environment(), timeout=LONGEST_SECONDS)
    return archive
