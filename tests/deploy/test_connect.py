"""The main job over Spark Connect: a client of Python alone makes what a local run makes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.tables import COMPARED, assert_equal_warehouses, rows, versions
from tests.deploy.clusters import AS_DEMO, LAUNCHER, LONGEST_SECONDS, ROOT, ConnectServer, bare_environment, need_extra

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    need_extra("connect", "grpc_status")
    with ConnectServer(tmp_path_factory.mktemp("connect") / "server") as server:
        yield server


def call(*command: str | Path, **extra: str) -> subprocess.CompletedProcess[str]:
    """Run a program in an environment without Java."""
    environment = {**bare_environment(), "JAVA_HOME": "/nowhere", **extra}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LONGEST_SECONDS, check=False)


@pytest.fixture(scope="module")
def connected(server: ConnectServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse made by one run through the launcher; what tests add are runs that find nothing new."""
    warehouse = tmp_path_factory.mktemp("connected") / "warehouse"
    done = call(LAUNCHER, "--remote", server.address, "run", "--warehouse", warehouse, *AS_DEMO)
    assert done.returncode == 0, done.stderr
    assert f"\nreport: {(warehouse / 'report.html').as_uri()}\n" in done.stdout
    return warehouse


def test_a_run_makes_what_a_local_run_makes(connected: Path, demo_warehouse: Path) -> None:
    assert_equal_warehouses(connected, demo_warehouse)
    (run,) = rows(connected, "runs")
    (local,) = rows(demo_warehouse, "runs")
    for column in ("status", "input_counts", "output_counts", "table_versions", "gates", "input_fingerprint"):
        assert run[column] == local[column], column


def test_other_commands_over_connect_change_no_row(server: ConnectServer, connected: Path) -> None:
    """As an installed ``evenkeel`` does, with Spark's own variable."""
    before = versions(connected)
    for command in ("run", "maintain", "verify"):
        done = call(sys.executable, "-m", "jobs", command, "--warehouse", connected, PYTHONPATH=str(ROOT), SPARK_REMOTE=server.address)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    after = versions(connected)
    assert {name: after[name] for name in COMPARED} == {name: before[name] for name in COMPARED}
    assert [run["command"] for run in sorted(rows(connected, "runs"), key=lambda run: run["run_sequence"])] == ["run", "run", "maintain"]


def test_settings_that_a_session_may_choose_are_ours_whatever_the_server_has(server: ConnectServer, tmp_path: Path) -> None:
    """The server was started with the same file; so another one is asked for here."""
    (tmp_path / "spark-defaults.conf").write_text("spark.sql.execution.arrow.maxRecordsPerBatch 123\nspark.sql.extensions none\n")
    names = ["spark.sql.execution.arrow.maxRecordsPerBatch", "spark.sql.extensions", "spark.sql.session.timeZone"]
    code = f"from pathlib import Path; from jobs.runtime.session import open_session; spark = open_session(Path({str(tmp_path)!r}))"
    script = f"{code}; print([spark.conf.get(name) for name in {names}])"
    done = call(sys.executable, "-c", script, PYTHONPATH=str(ROOT), SPARK_REMOTE=server.address)
    assert done.stdout == "['123', 'io.delta.sql.DeltaSparkSessionExtension', 'UTC']\n", done


CANARY = "c2VjcmV0"


@pytest.mark.parametrize(
    "address",
    [
        *(f"sc://host:15002/;token={CANARY}==", f"sc://host:15002;token={CANARY}", f"sc://host;token={CANARY}", f"sc:///;token={CANARY}"),
        *(f"sc://host:x/;token={CANARY}", f"sc://host:99999/;token={CANARY}", f"sc://host:1/{CANARY}", f"sc://[::1/;token={CANARY}"),
        *(f"https://host/;token={CANARY}", f"sc://127.0.0.1:1/;token={CANARY}", f"sc://u:{CANARY}@a..b/"),
    ],
)
def test_an_address_is_never_repeated_with_the_token_in_it(address: str, tmp_path: Path) -> None:
    need_extra("connect", "grpc_status")
    arguments = (sys.executable, "-m", "jobs", "report", "--warehouse", tmp_path)
    for log_format in ("text", "json"):
        done = call(*arguments, "--log-format", log_format, PYTHONPATH=str(ROOT), SPARK_REMOTE=address)
        assert done.returncode == 2, done
        assert "address" in done.stderr and "Traceback" not in done.stderr
        assert CANARY.lower() not in (done.stdout + done.stderr).lower()


def test_missing_connect_server_is_named_in_one_line(tmp_path: Path) -> None:
    need_extra("connect", "grpc_status")
    done = call(LAUNCHER, "--remote", "sc://127.0.0.1:1", "run", "--warehouse", tmp_path / "warehouse")
    assert (done.returncode, done.stdout) == (2, ""), done
    (line,) = done.stderr.splitlines()
    assert line == "evenkeel: no Spark Connect server at 127.0.0.1:1 (Connection refused); correct the address"
    assert not (tmp_path / "warehouse").exists()
