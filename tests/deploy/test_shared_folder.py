"""A warehouse in a folder that two machines mount: a FUSE file system, mounted twice, through which no file lock of the other is seen."""

from __future__ import annotations

import fcntl
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path

import pytest

from jobs.runtime.locations import is_shared
from jobs.storage.lease_claims import FencingFiles
from tests.builders.tables import assert_equal_warehouses
from tests.deploy.clusters import AS_DEMO, LAUNCHER, Process, bare_environment
from tests.needs import need_programs, skip_loudly

pytestmark = pytest.mark.slow

LONG_AGO = datetime(2000, 1, 1, tzinfo=timezone.utc)
ROUNDS, THREADS = 20, 4
WITHOUT_FUSE = "NO FUSE, so nothing shows that leases work there"


@pytest.fixture
def mounts(tmp_path: Path) -> Iterator[list[Path]]:
    """One folder under two names, each a mount of its own, as two machines have it."""
    need_programs(["bindfs"], ["bindfs"], WITHOUT_FUSE)
    (tmp_path / "server").mkdir()
    mounted = []
    try:
        for name in ("machine-0", "machine-1"):
            mount = tmp_path / name
            mount.mkdir()
            made = subprocess.run(["bindfs", tmp_path / "server", mount], capture_output=True, text=True, check=False)
            if made.returncode:
                skip_loudly(f"{WITHOUT_FUSE}: {made.stderr.strip()}; it takes root and /dev/fuse")
            mounted.append(mount)
        yield mounted
    finally:
        for mount in mounted:
            subprocess.run(["umount", "--lazy", mount], check=True)


def test_a_lock_does_not_reach_the_other_machine(mounts: list[Path]) -> None:
    """Otherwise the tests below would pass without a lease."""
    assert all(is_shared(mount / "warehouse") for mount in mounts)
    with (mounts[0] / "lock").open("w") as ours, (mounts[1] / "lock").open("w") as theirs:
        fcntl.flock(ours, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(theirs, fcntl.LOCK_EX | fcntl.LOCK_NB)


def run_on(machine: Path, folder: Path, run_id: str) -> Process:
    """Start a run of the demo; its warehouse is in the folder that both machines mount."""
    folder.mkdir()
    command = [LAUNCHER, "run", *AS_DEMO, "--run-id", run_id, "--warehouse", machine / "warehouse", "--output", folder / "report.html"]
    return Process(command, folder / "log", bare_environment(), folder)


def test_one_of_two_simultaneous_runs_gives_the_tables_of_a_local_run(mounts: list[Path], demo_warehouse: Path, tmp_path: Path) -> None:
    """And the other may, once the lease was given back."""
    drivers = [run_on(mount, tmp_path / f"driver-{mount.name}", mount.name) for mount in mounts]
    ends = [driver.end() for driver in drivers]
    output = "\n".join(driver.said() for driver in drivers)
    assert sorted(ends) == [0, 3], output
    winner, loser = ends.index(0), ends.index(3)
    assert f"held by run {mounts[winner].name} (process" in drivers[loser].said()
    assert_equal_warehouses(tmp_path / "server" / "warehouse", demo_warehouse)
    again = run_on(mounts[loser], tmp_path / "again", "again")
    assert again.end() == 0, again.said()
    assert_equal_warehouses(tmp_path / "server" / "warehouse", demo_warehouse)


def test_one_of_many_simultaneous_claims_gets_the_lease(mounts: list[Path]) -> None:
    def contend(token: int, number: int, ready: threading.Barrier) -> bool:
        claims = FencingFiles(None, str(mounts[number % 2] / "claims"))
        ready.wait()
        return claims.make(token, LONG_AGO)

    with ThreadPoolExecutor(THREADS) as pool:
        for token in range(ROUNDS):
            ready = threading.Barrier(THREADS)
            assert sum(pool.map(contend, [token] * THREADS, range(THREADS), [ready] * THREADS)) == 1
