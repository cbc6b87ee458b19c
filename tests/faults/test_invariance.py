"""One content, whatever makes it: batch sizes, partitions, adaptive plans, hash seeds, and order, files and form of the input."""

from __future__ import annotations

import base64
import gzip
import hashlib
import itertools
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from jobs.runtime.session import settings
from tests.builders.captures import LOOKS, RECORDED
from tests.builders.tables import COMPARED, content
from tests.faults.conftest import BAD_RECORD

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
FILES = 4
BATCH_ROWS, PARTITIONS, SEEDS = (1, 7, 60, 10_000), (1, 2, 3, 7), (0, 1, 7, 42, 4_294_967_295)
FORMS = ("recorded", "shuffled", "lines")

Row = dict[str, Any]


@dataclass(frozen=True)
class Corner:
    """One way to run; the defaults are those of a local run on the capture as it was recorded.

    Attributes:
        form: ``recorded``, or with rows and looks in random order in several files, as Parquet (``shuffled``) or ``lines``.
        runs: in how many runs the files arrive; of a shuffled capture each brings late records to nearly every group.
    """

    batch_rows: int = 200
    partitions: int = 2
    is_adaptive: bool = True
    worker_seed: int = 0
    form: str = "recorded"
    runs: int = 1

    def __str__(self) -> str:
        plan = "adaptive" if self.is_adaptive else "fixed"
        return f"batch {self.batch_rows}, {self.partitions} partitions, {plan}, seed {self.worker_seed}, {self.form}, {self.runs} runs"


CORNERS = [
    Corner(rows, partitions, (number + number // 4) % 2 == 0, SEEDS[number % len(SEEDS)], FORMS[number % len(FORMS)], 1 + number // 2 % 2)
    for number, (rows, partitions) in enumerate(itertools.product(BATCH_ROWS, PARTITIONS))
]
"""Every batch size with every number of partitions; the rest takes turns."""


# -- the capture


def conflicting(records: list[Row]) -> list[Row]:
    """Return other contents for places of the log: of two keys of each kind, what was written one record later."""
    others = []
    for kind in (b"\x00\x01", b"\x00\x02"):
        of_kind = [row for row in records if row["key"].startswith(kind) and row["value"]]
        for key in sorted({row["key"] for row in of_kind})[:2]:
            of_key = [row for row in of_kind if row["key"] == key]
            others += [{**row, "value": other["value"]} for row, other in itertools.pairwise(of_key)][:2]
    assert len(others) == 8
    return others


def as_line(row: Row) -> str:
    key, value = (None if row[name] is None else base64.b64encode(row[name]).decode() for name in ("key", "value"))
    milliseconds = round(row["timestamp"].timestamp() * 1000)
    place = {"partition": row["partition"], "offset": row["offset"], "timestamp_ms": milliseconds}
    return json.dumps({**place, "key_b64": key, "value_b64": value}) + "\n"


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    """The recorded capture, conflicting contents for some of its places, duplicates and a bad record, in each form."""
    folder = tmp_path_factory.mktemp("forms")
    table = pq.read_table(RECORDED / "consumer_offsets.parquet")
    records = table.to_pylist()
    others = conflicting(records)
    with gzip.open(LOOKS, "rt", encoding="utf-8") as file:
        looks = list(file)
    chance = random.Random(1)

    def parquet(name: str, rows: list[Row]) -> Path:
        pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), folder / name)
        return folder / name

    def lines(name: str, rows: list[str]) -> Path:
        with gzip.open(folder / name, "wt") if name.endswith("gz") else (folder / name).open("w") as file:
            file.writelines(rows)
        return folder / name

    mixed, mixed_looks = [*records, *others, *records[:50]], [*looks]
    chance.shuffle(mixed)
    chance.shuffle(mixed_looks)
    bad = lines("bad.jsonl", [BAD_RECORD])
    half = len(looks) // 2
    mixed_files = [lines("looks-1.jsonl", mixed_looks[:half]), lines("looks-2.jsonl.gz", mixed_looks[half:])]
    parts = [mixed[number::FILES] for number in range(FILES)]
    return {
        "recorded": [RECORDED / "consumer_offsets.parquet", LOOKS, parquet("others.parquet", [*others, *records[:50]]), bad],
        "shuffled": [*mixed_files, *(parquet(f"{number}.parquet", part) for number, part in enumerate(parts)), bad],
        "lines": [*mixed_files, *(lines(f"{number}.jsonl", list(map(as_line, part))) for number, part in enumerate(parts)), bad],
    }


# -- running and comparing


def digests(warehouse: Path) -> dict[str, str]:
    """Return a hash of the content of every table; the bytes of a group's state are its content too."""
    return {name: hashlib.sha256("\n".join(content(warehouse, name)).encode()).hexdigest() for name in (*COMPARED, "group_states")}


@contextmanager
def worker_hash_seed(spark: SparkSession, seed: int) -> Iterator[None]:
    """Start new Python workers, with a hash seed, for the length of the block."""
    environment = spark.sparkContext.environment
    before = environment["PYTHONHASHSEED"]
    environment["PYTHONHASHSEED"] = str(seed)
    try:
        yield
    finally:
        environment["PYTHONHASHSEED"] = before


def seed_of_workers(spark: SparkSession) -> str:
    def read_seed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"seed": [os.environ["PYTHONHASHSEED"]]})

    return spark.range(1).mapInArrow(read_seed, "seed string").collect()[0]["seed"]


def run_corner(spark: SparkSession, make_tables: Callable[..., int], corner: Corner, files: list[Path], warehouse: Path) -> None:
    used = {
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(corner.batch_rows),
        "spark.sql.shuffle.partitions": str(corner.partitions),
        "spark.sql.adaptive.enabled": str(corner.is_adaptive).lower(),
    }
    with settings(spark, used), worker_hash_seed(spark, corner.worker_seed):
        assert seed_of_workers(spark) == str(corner.worker_seed)
        for number in range(corner.runs):
            assert make_tables("run", "--warehouse", warehouse, "--input", *files[number :: corner.runs]) == 0
            assert {key: spark.conf.get(key) for key in used} == used, "a run leaves the settings of its session alone"


@pytest.fixture(scope="module")
def expected(spark: SparkSession, make_tables, captures: dict[str, list[Path]], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    warehouse = tmp_path_factory.mktemp("expected") / "warehouse"
    run_corner(spark, make_tables, Corner(), captures["recorded"], warehouse)
    assert all(content(warehouse, name) for name in (*COMPARED, "group_states")), "every table has rows"
    assert any('"has_conflict": true' in row for row in content(warehouse, "subscription_snapshots"))
    return digests(warehouse)


@pytest.mark.parametrize("corner", CORNERS, ids=lambda corner: str(corner).replace(" ", "-"))
def test_tables_are_the_same_for_each_setting_and_form_of_input(
    corner: Corner, spark: SparkSession, make_tables, captures: dict[str, list[Path]], expected: dict[str, str], tmp_path: Path
) -> None:
    run_corner(spark, make_tables, corner, captures[corner.form], tmp_path / "warehouse")
    assert digests(tmp_path / "warehouse") == expected


@pytest.mark.parametrize("seed", SEEDS)
def test_tables_are_the_same_for_each_hash_seed_of_the_driver(
    seed: int, captures: dict[str, list[Path]], expected: dict[str, str], tmp_path: Path
) -> None:
    """A process of its own, since the seed of a running one is settled; Spark hands it on to the workers."""
    command = [sys.executable, "-m", "jobs", "run", "--warehouse", tmp_path / "warehouse", "--input", *captures["lines"]]
    environment = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert digests(tmp_path / "warehouse") == expected
