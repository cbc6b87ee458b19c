"""A warehouse in S3: Hadoop's own client and Delta, against a server of this machine that keeps conditional writes as S3 does."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders.tables import assert_equal_warehouses
from tests.deploy.clusters import AS_DEMO, LAUNCHER, LONGEST_SECONDS, ROOT, Process, bare_environment, need_extra

pytestmark = pytest.mark.slow

HADOOP, AWS_SDK = "3.4.2", "2.29.52"
SDK_PARTS = ("s3", "s3-transfer-manager", "sts")
"""Instead of the bundle that hadoop-aws asks for, which is 600 MB."""
BUCKET = "bucket"
KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}


class Store:
    """A bucket, as tests and Spark reach it."""

    def __init__(self, endpoint: str) -> None:
        import boto3

        self.endpoint = endpoint
        keys = {"aws_access_key_id": KEYS["AWS_ACCESS_KEY_ID"], "aws_secret_access_key": KEYS["AWS_SECRET_ACCESS_KEY"]}
        self.client: Any = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", **keys)
        self.client.create_bucket(Bucket=BUCKET)

    def files(self, prefix: str) -> list[str]:
        """Return the names below a prefix, without those that stand for folders."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return [entry["Key"] for page in pages for entry in page.get("Contents", ()) if not entry["Key"].endswith("/")]

    def copy_to(self, folder: Path, prefix: str) -> Path:
        """Return a folder with what lies below a prefix."""
        for name in self.files(prefix):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            self.client.download_file(BUCKET, name, str(folder / name))
        return folder / prefix

    def options(self) -> list[str]:
        """Return the options of spark-submit for the bucket."""
        packages = [f"org.apache.hadoop:hadoop-aws:{HADOOP}", *(f"software.amazon.awssdk:{part}:{AWS_SDK}" for part in SDK_PARTS)]
        settings = {"endpoint": self.endpoint, "endpoint.region": "us-east-1", "path.style.access": "true"}
        conf = [part for name, value in settings.items() for part in ("--conf", f"spark.hadoop.fs.s3a.{name}={value}")]
        return ["--packages", ",".join(packages), "--exclude-packages", "software.amazon.awssdk:bundle", *conf]

    def submit(self, folder: Path, command: str, prefix: str, *arguments: str | Path) -> Process:
        folder.mkdir()
        warehouse_option = ["--warehouse", f"s3a://{BUCKET}/{prefix}"]
        return Process(
            [LAUNCHER, *self.options(), command, *warehouse_option, *arguments], folder / "log", {**bare_environment(), **KEYS}, folder
        )


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    need_extra("object-store", "moto")
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0)
    server.start()
    host, port = server.get_host_and_port()
    yield Store(f"http://{host}:{port}")
    server.stop()


def test_a_run_makes_what_a_local_run_makes(store: Store, demo_warehouse: Path, tmp_path: Path) -> None:
    """Also where a run has died that had made the folders of lease and tables, but nothing in them yet."""
    for name in ("_lease", "movements", "runs"):
        store.client.put_object(Bucket=BUCKET, Key=f"audit/{name}/_delta_log/")
    driver = store.submit(tmp_path / "driver", "run", "audit", *AS_DEMO, "--output", tmp_path / "report.html")
    assert driver.end() == 0, driver.said()
    assert_equal_warehouses(store.copy_to(tmp_path, "audit"), demo_warehouse)
    assert store.files("audit/_lease/_claims/") == ["audit/_lease/_claims/1.0"]
    assert store.files("audit/_staging/") == []


def test_one_of_two_simultaneous_landings_lands(store: Store, demo_warehouse: Path, tmp_path: Path) -> None:
    drivers = [store.submit(tmp_path / run_id, "land", "pair", "--run-id", run_id) for run_id in ("a", "b")]
    ends = [driver.end() for driver in drivers]
    output = "\n".join(driver.said() for driver in drivers)
    assert sorted(ends) == [0, 3], output
    loser = drivers[ends.index(3)]
    assert f"held by run {'ab'[ends.index(0)]} (process" in loser.said()
    names = ("subscription_snapshots", "group_records", "topic_snapshots", "quarantine")
    assert_equal_warehouses(store.copy_to(tmp_path, "pair"), demo_warehouse, names)


def test_one_of_many_simultaneous_claims_gets_the_lease(store: Store) -> None:
    """Twenty times over: without a conditional write, whoever has looked before the first of them was done has it too."""
    options = ["--master", "local[1]", "--conf", "spark.ui.enabled=false", *store.options(), "pyspark-shell"]
    environment = {**bare_environment(), **KEYS, "PYTHONPATH": str(ROOT), "PYSPARK_SUBMIT_ARGS": shlex.join(options)}
    command = [sys.executable, "-m", "tests.deploy.s3_claims", f"s3a://{BUCKET}/w/_lease/_claims", "20"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LONGEST_SECONDS, check=False)
    assert done.stdout.split() == ["1"] * 20, done.stderr
    assert store.files("w/_lease/_claims/") == ["w/_lease/_claims/19.0"]
