"""Python workers that are killed, crash, hang or run out of memory: the run ends well, or names the group and publishes nothing.

The harm is done by an assignor of the user's, which is called in the worker: the one place where anybody's code can do it. For landing it
is put in the place of what its workers call.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from jobs.land import udfs as decode_udfs
from jobs.workers.guard import DecodingFailedError, GroupFailedError, Guard, WorkerLimits
from tests.builders.captures import LOOKS, of_groups
from tests.builders.tables import content, rows, versions
from tests.faults.harmful_assignors import POISON, crash, die, die_once, fill_memory, hang, leave

OTHER = "alerts-range"
MEMORY_MB = 512
LIMITS = WorkerLimits(MEMORY_MB, 3600)


@pytest.fixture(scope="module")
def landed(make_tables, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse of two groups, landed only."""
    folder = tmp_path_factory.mktemp("workers")
    records = of_groups(folder, "two.parquet", POISON, OTHER)
    assert make_tables("land", "--warehouse", folder / "warehouse", "--input", records, LOOKS) == 0
    return folder / "warehouse"


@pytest.fixture
def assign_with(landed: Path, make_tables, tmp_path: Path) -> Callable[..., int]:
    """Assigns a copy of the landed warehouse, with an assignor and limits, and returns the exit code."""

    def assign(function: Callable[..., object] | None, idle_timeout_s: float = 3600) -> int:
        own = [] if function is None else [f"{function.__module__}:{function.__name__}"]
        settings = {"strategies": ["range", *own], "workers": {"memory_mb": MEMORY_MB, "idle_timeout_s": idle_timeout_s}}
        (tmp_path / "settings.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
        shutil.rmtree(tmp_path / "warehouse", ignore_errors=True)
        shutil.copytree(landed, tmp_path / "warehouse")
        return make_tables("assign", "--config", tmp_path / "settings.yaml", "--warehouse", tmp_path / "warehouse")

    return assign


def without_own(warehouse: Path) -> list[dict[str, Any]]:
    return [
        {name: value for name, value in row.items() if name not in ("run_id", "run_sequence")}
        for row in sorted(rows(warehouse, "solutions"), key=lambda row: (row["group_id"], row["position"], row["basis"], row["strategy"]))
        if ":" not in row["strategy"]
    ]


def test_a_worker_that_dies_once_changes_nothing(assign_with: Callable[..., int], tmp_path: Path) -> None:
    assert assign_with(None) == 0
    undisturbed, states = without_own(tmp_path / "warehouse"), len(rows(tmp_path / "warehouse", "group_states"))
    topics = content(tmp_path / "warehouse", "generation_topics")
    assert assign_with(die_once) == 0
    assert without_own(tmp_path / "warehouse") == undisturbed
    assert {row["group_id"] for row in undisturbed} == {POISON, OTHER}
    assert len(rows(tmp_path / "warehouse", "group_states")) == states
    assert content(tmp_path / "warehouse", "generation_topics") == topics


@pytest.mark.parametrize(
    ("function", "end"),
    [
        (die, "signal SIGKILL"),
        pytest.param(crash, "signal SIGSEGV", marks=pytest.mark.slow),
        pytest.param(leave, "exit code 0", marks=pytest.mark.slow),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_worker_that_always_dies_names_its_group(
    function: Callable[..., object],
    end: str,
    assign_with: Callable[..., int],
    tmp_path: Path,
    landed: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert assign_with(function) == 1
    last_line = capsys.readouterr().err.splitlines()[-1]
    assert f"cluster default, group {POISON}: its process ended with {end}" in last_line
    assert_nothing_is_published(tmp_path / "warehouse", landed)


@pytest.mark.slow
def test_a_worker_that_hangs_names_its_group(
    assign_with: Callable[..., int], tmp_path: Path, landed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert assign_with(hang, idle_timeout_s=5) == 1
    assert f"cluster default, group {POISON}: no result for 5 s" in capsys.readouterr().err.splitlines()[-1]
    assert_nothing_is_published(tmp_path / "warehouse", landed)


def assert_nothing_is_published(warehouse: Path, landed: Path) -> None:
    before, (*_, failed) = rows(landed, "runs"), sorted(rows(warehouse, "runs"), key=lambda row: row["run_sequence"])
    assert [row["status"] for row in before] == ["published"]
    assert failed["status"] == "failed"
    assert rows(warehouse, "solutions") == [] == rows(warehouse, "assignments")
    assert versions(warehouse)["subscription_snapshots"] == versions(landed)["subscription_snapshots"]


@pytest.mark.slow
def test_a_worker_has_so_much_memory_and_no_more(assign_with: Callable[..., int], tmp_path: Path) -> None:
    assert assign_with(fill_memory) == 0
    details = {row["detail"] for row in rows(tmp_path / "warehouse", "solutions") if row["group_id"] == POISON and ":" in row["strategy"]}
    assert details >= {"the assignor raised MemoryError: "}


# -- the guard by itself


def test_rows_come_through_unchanged_and_memory_is_as_before() -> None:
    before = resource.getrlimit(resource.RLIMIT_AS)
    with Guard(LIMITS) as guard:
        assert list(guard.compute("g", iter([1, 2]), lambda numbers: ({"n": number} for number in numbers))) == [{"n": 1}, {"n": 2}]
        assert resource.getrlimit(resource.RLIMIT_AS) != before
    assert resource.getrlimit(resource.RLIMIT_AS) == before


def on_try(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    class Context:
        def attemptNumber(self) -> int:  # Spark's name
            return number

    monkeypatch.setattr("jobs.workers.guard.TaskContext.get", Context)


@pytest.fixture
def second_try(monkeypatch: pytest.MonkeyPatch) -> None:
    on_try(1, monkeypatch)


@pytest.fixture(params=[0, 1], ids=["first try", "second try"])
def any_try(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    on_try(request.param, monkeypatch)


@pytest.mark.usefixtures("any_try")
def test_error_for_too_little_memory_names_the_limit() -> None:
    def work(numbers: object) -> Iterator[dict[str, Any]]:
        yield {"n": len(bytearray(2 * MEMORY_MB * 1024 * 1024))}

    with Guard(LIMITS) as guard, pytest.raises(GroupFailedError, match=r"^g: out of memory: it takes more than the 512 MiB that workers"):
        list(guard.compute("g", iter([1]), work))


@pytest.mark.usefixtures("second_try")
def test_a_second_try_gives_the_same_rows_in_order() -> None:
    with Guard(LIMITS) as guard:
        rows_ = list(guard.compute("g", iter(range(1_001)), lambda numbers: ({"n": number} for number in numbers)))
    assert rows_ == [{"n": number} for number in range(1_001)]


@pytest.mark.usefixtures("any_try")
def test_error_of_a_worker_names_the_group_once() -> None:
    def work(numbers: object) -> Iterator[dict[str, Any]]:
        yield {}
        raise GroupFailedError("g, generation 3: KeyError: 'x'")

    def surprise(numbers: object) -> Iterator[dict[str, Any]]:
        yield from ()
        raise KeyError("y")

    with Guard(LIMITS) as guard:
        with pytest.raises(GroupFailedError, match=r"^g, generation 3: KeyError: 'x'$"):
            list(guard.compute("g", iter([1]), work))
        with pytest.raises(GroupFailedError, match=r"^g: KeyError: 'y'$"):
            list(guard.compute("g", iter([1]), surprise))


@pytest.mark.usefixtures("second_try")
@pytest.mark.parametrize("sent", [b"", b"\0\0", b"\0\0\0\x64half a message"])
@pytest.mark.parametrize(("number", "name"), [(signal.SIGKILL, "SIGKILL"), (signal.SIGRTMIN + 3, signal.SIGRTMIN + 3)])
def test_process_that_dies_while_it_sends_names_its_group(sent: bytes, number: int, name: object, monkeypatch: pytest.MonkeyPatch) -> None:
    def hand_over(work: object, explain: object, writer: Any) -> None:
        os.write(writer.fileno(), sent)
        os.kill(os.getpid(), number)

    monkeypatch.setattr("jobs.workers.guard._hand_over", hand_over)
    with Guard(LIMITS) as guard, pytest.raises(GroupFailedError, match=rf"^g: its process ended with signal {name}; its machine may have"):
        list(guard.compute("g", iter([1]), lambda numbers: iter(())))


# -- landing: nobody else's code runs there, but a defect, or a record nobody thought of, can do the same harm


def fold_one(limits: WorkerLimits) -> list[dict[str, Any]]:
    columns = {
        "cluster_id": ["c"],
        "group_id": ["g"],
        "source": ["consumer-offsets"],
        "offsets_partition": [0],
        "offset": [0],
        "timestamp_ms": [0],
    }
    batch = pa.RecordBatch.from_pydict({**columns, "key": [b""], "value": pa.array([None], pa.binary())})
    return [row for made in decode_udfs.fold_groups(iter([batch]), {}, limits) for row in made.to_pylist()]


def align_one(limits: WorkerLimits) -> list[dict[str, Any]]:
    columns = {"cluster_id": ["c"], "group_id": ["g"], "sequence": ["group"], "part": ["a"], "order_in_part": [0], "token": ["x"]}
    unknown = {"stored_ms": pa.array([None], pa.int64()), "placed_by": pa.array([None], pa.string())}
    batch = pa.RecordBatch.from_pydict({**columns, "is_end": [False], "time_ms": [0], **unknown})
    return [row for made in decode_udfs.align_groups(iter([batch]), limits) for row in made.to_pylist()]


def kill(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def sleep(*_: object) -> None:
    time.sleep(60)


def fill(*_: object) -> bytes:
    return bytes(2 * MEMORY_MB * 1024 * 1024)


def fail(*_: object) -> None:
    raise KeyError("x")


OF_GROUPS = [pytest.param(fold_one, "fold", id="fold"), pytest.param(align_one, "align", id="align")]


@pytest.mark.usefixtures("second_try")
@pytest.mark.parametrize(("run", "name"), OF_GROUPS)
@pytest.mark.parametrize(
    ("harm", "message"),
    [
        pytest.param(kill, "its process ended with signal SIGKILL", id="killed"),
        pytest.param(sleep, "no result for 1 s", id="hung"),
    ],
)
def test_group_that_kills_a_landing_worker_is_named(
    run: Callable[..., object], name: str, harm: Callable[..., object], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decode_udfs, name, harm)
    with pytest.raises(GroupFailedError, match=f"^cluster c, group g: {message}"):
        run(WorkerLimits(MEMORY_MB, 1))


@pytest.mark.usefixtures("any_try")
@pytest.mark.parametrize(("run", "name"), OF_GROUPS)
@pytest.mark.parametrize(("harm", "message"), [(fill, "out of memory: it takes more than the 512 MiB"), (fail, "KeyError: 'x'")])
def test_a_group_that_fails_in_landing_is_named(
    run: Callable[..., object], name: str, harm: Callable[..., object], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decode_udfs, name, harm)
    with pytest.raises(GroupFailedError, match=f"^cluster c, group g: {message}"):
        run(LIMITS)


@pytest.mark.parametrize(
    ("columns", "where"),
    [
        ({"path": ["/d/a.json", "/d/b.json"], "name": ["a.json", "b.json"]}, "a.json"),
        ({"files": [[{"name": "members.txt"}, {"name": "state.txt"}], [{"name": "x.txt"}]]}, "members.txt, state.txt"),
        ({"file_path": ["file:///d/a%20b", "file:///d/c%20d"]}, "/d/c d"),
        ({"partition": [3, 3], "offset": [7, 9]}, "records from partition 3 offset 7 to partition 3 offset 9"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_decoding_out_of_memory_names_the_record(columns: dict[str, Any], where: str) -> None:
    before = resource.getrlimit(resource.RLIMIT_AS)

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            fill()
            yield batch

    with pytest.raises(DecodingFailedError, match=f"^decoding {where}, or what follows: out of memory: it takes more than the 512 MiB"):
        list(decode_udfs.decode_within(iter([pa.RecordBatch.from_pydict(columns)]), decode, MEMORY_MB))
    assert resource.getrlimit(resource.RLIMIT_AS) == before


def test_landing_more_than_fits_names_the_file_and_publishes_nothing(
    make_tables, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line of 9 MB, which as objects of Python takes thirty times as much, where workers may take 64 MiB and what they have set free."""
    (tmp_path / "settings.yaml").write_text("workers: {memory_mb: 64}\n", encoding="utf-8")
    group = {"group_id": "g", "group_type": "classic", "state": "Empty", "observed_at_ms": 1, "members": []}
    line = {**group, "further": [{"": 0}] * 1_200_000}
    (tmp_path / "large.ndjson").write_text(json.dumps(line, separators=(",", ":")) + "\n", encoding="utf-8")
    command = ("land", "--config", tmp_path / "settings.yaml", "--warehouse", tmp_path / "warehouse", "--input", tmp_path / "large.ndjson")
    assert make_tables(*command) == 1
    last_line = capsys.readouterr().err.splitlines()[-1]
    assert "decoding large.ndjson, or what follows: out of memory: it takes more than the 64 MiB that workers.memory_mb allows" in last_line
    assert [row["status"] for row in rows(tmp_path / "warehouse", "runs")] == ["failed"]
