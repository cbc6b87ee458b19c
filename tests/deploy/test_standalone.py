"""The demo on a standalone cluster of two workers: what it makes is what a local run makes, also when a worker dies in the middle.

The code travels as a zip, Delta's jars by ``--jars``, and Python's packages as an archive that the executors unpack.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.benchmarks.fleet_groups import plan_fleet
from tests.benchmarks.fleet_records import HISTORY, history, make_fleet
from tests.builders.tables import assert_equal_warehouses
from tests.deploy.clusters import AS_DEMO, LAUNCHER, Process, Standalone, bare_environment, packed_environment, wait_until
from tests.needs import skip_loudly

pytestmark = pytest.mark.slow

UNPACKED = "./environment/bin/python"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return packed_environment(tmp_path_factory.mktemp("packed"))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Standalone]:
    with Standalone(tmp_path / "cluster") as cluster:
        yield cluster


def submit(cluster: Standalone, archive: Path, tmp_path: Path, warehouse: Path) -> Process:
    options = ["--archives", f"{archive}#environment"]
    return cluster.submit(tmp_path / "driver", "run", "--warehouse", warehouse, *AS_DEMO, options=options, PYSPARK_PYTHON=UNPACKED)


def executors(worker: Process) -> list[str]:
    return [line for line in worker.members() if "CoarseGrainedExecutorBackend" in line]


def test_a_run_makes_what_a_local_run_makes(cluster: Standalone, archive: Path, demo_warehouse: Path, tmp_path: Path) -> None:
    driver = submit(cluster, archive, tmp_path, tmp_path / "warehouse")
    wait_until(lambda: all(map(executors, cluster.workers)) or not driver.is_running(), "an executor on each worker")
    assert driver.end() == 0, driver.said()
    assert f"\nreport: {(tmp_path / 'warehouse' / 'report.html').as_uri()}\n" in driver.said()
    assert_equal_warehouses(tmp_path / "warehouse", demo_warehouse)
    assert ".evenkeel.reach" not in os.listdir(tmp_path / "warehouse")
    # The executors ran what the archive holds, not the .venv that happens to be on this machine too.
    unpacked = list((tmp_path / "cluster").glob("worker-*/app-*/*/environment"))
    assert len(unpacked) == 2, unpacked


def test_a_fleet_makes_what_it_makes_on_one_machine(archive: Path, tmp_path: Path) -> None:
    """5,000 groups with the settings of any cluster, of which only the memory of the executors is chosen."""
    make_fleet(tmp_path / "fleet", plan_fleet(5_000, seed=1), [history(6)])
    arguments = ("run", "--input", tmp_path / "fleet" / HISTORY, *AS_DEMO)
    local = Process([LAUNCHER, *arguments, "--warehouse", tmp_path / "local"], tmp_path / "local.log", bare_environment(), tmp_path)
    assert local.end() == 0, local.said()
    options = ["--archives", f"{archive}#environment", "--executor-memory", "2g", "--driver-memory", "2g"]
    with Standalone(tmp_path / "cluster", memory="2g") as cluster:
        warehouse = ("--warehouse", tmp_path / "warehouse")
        driver = cluster.submit(tmp_path / "driver", *arguments, *warehouse, options=options, for_small_data=False, PYSPARK_PYTHON=UNPACKED)
        assert driver.end() == 0, driver.said()
    assert_equal_warehouses(tmp_path / "warehouse", tmp_path / "local", ("subscription_snapshots", "solutions", "generation_audits"))


def test_a_worker_that_dies_in_the_middle_changes_nothing(cluster: Standalone, archive: Path, demo_warehouse: Path, tmp_path: Path) -> None:
    """The daemon and its executor, with the tasks that it runs and the shuffle files that it holds; assigning is under way."""
    warehouse = tmp_path / "warehouse"
    driver = submit(cluster, archive, tmp_path, warehouse)

    def is_assigning() -> bool:
        return any(warehouse.glob("_staging/*/assign/_temporary"))

    wait_until(lambda: is_assigning() or not driver.is_running(), "the stage assign")
    assert executors(cluster.workers[0]), "there is an executor to kill"
    cluster.workers[0].kill()
    assert driver.end() == 0, driver.said()
    assert re.search(r"Lost executor \d+ on 127\.0\.0\.1", driver.said()), driver.said()
    assert_equal_warehouses(warehouse, demo_warehouse)


def test_a_worker_that_sees_another_folder_is_found_before_anything_is_written(archive: Path, tmp_path: Path) -> None:
    """Without the check its rows would be in its own folder: a published run without them."""
    mount = tmp_path / "mounted"
    mount.mkdir()
    can_hide = subprocess.run(
        ["unshare", "--mount", "mount", "-t", "tmpfs", "evenkeel", mount], capture_output=True, text=True, check=False
    )
    if can_hide.returncode:
        skip_loudly(f"no worker has a folder of its own: {can_hide.stderr.strip()}; run the tests as root, or behind `unshare -rm`")
    with Standalone(tmp_path / "cluster", worker_count=1, blind_to=mount) as cluster:
        driver = submit(cluster, archive, tmp_path, mount / "warehouse")
        assert driver.end() == 2, driver.said()
    (line,) = [line for line in driver.said().splitlines() if line.startswith("evenkeel: warehouse")]
    assert re.match(rf"evenkeel: warehouse {mount}/warehouse: the worker on \S+ sees another folder there than the driver; choose ", line)
    assert sorted(os.listdir(mount / "warehouse")) == [".evenkeel.lock"]
