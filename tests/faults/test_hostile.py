"""Hostile input through whole runs: it is stored as it is and shown inert, runs nothing, and nothing leaks or listens."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import pickle
import re
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from prometheus_client.parser import text_string_to_metric_families

from jobs.decoders import captures
from jobs.pages.figures import visible
from jobs.pages.shell import script_of
from jobs.runtime.errors import InputError
from schemas.tables import TABLES
from tests.builders.tables import rows, unpacked_assignments
from tests.faults.drivers import INSTALLATION, linked_checkout
from tests.faults.hostile_names import LONG_TOPIC, MARKUP, NAMES, PARTITIONS, neighbours, write_capture

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = [path for room in ("pages", "report") for path in sorted((ROOT / "jobs" / room / "templates").iterdir())]
CLUSTER = "'; DROP TABLE runs; --<script>x</script>`${env:HOME}`/../../\u202e"
FLAGS = {"hidden"}
"""Attributes of the report's own elements that have no value."""
CANARY = "canary-5f0c1d7e"


class LeavesMark:
    """What makes a file of a name when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return open, (str(self.path), "w")


def leave_mark(problem: object, **_: object) -> dict:
    """What an assignor would be that a record names."""
    Path(os.environ["EVENKEEL_TEST_MARK"]).touch()
    return {}


# -- names


@pytest.fixture(scope="module")
def hostile(evenkeel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A warehouse with a report, made in a folder of its own, and what the run wrote to stderr."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "here").mkdir()
    settings = folder / "settings.yaml"
    settings.write_text("report: {worst_groups: 10, group_pages: ../pages, export: [csv, json, prometheus], export_dir: ../files}\n")
    capture = write_capture(folder / "capture", pickle.dumps(LeavesMark(folder / "mark")), [f"{__name__}:leave_mark", "os:system"])
    before = set(folder.rglob("*"))
    written = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder / "here")
        patch.setenv("EVENKEEL_TEST_MARK", str(folder / "mark"))
        patch.setattr(sys, "stderr", written)
        arguments = ("--warehouse", folder / "warehouse", "--input", capture, "--config", settings, "--cluster-id", CLUSTER)
        assert evenkeel("run", *arguments, "--output", folder / "report.html", "--run-id", "'; DROP TABLE runs; --") == 0
    new = {path for path in folder.rglob("*") if path not in before and not path.is_relative_to(folder / "warehouse")}
    pages = {path for path in (folder / "pages").iterdir() if re.fullmatch(r"group-[0-9a-f]{16}\.html", path.name)}
    tables = {f"{table}.{ending}" for table in ("findings", "generation_audits", "current_lag") for ending in ("csv", "json")}
    files = {folder / "files" / name for name in (*tables, "evenkeel.prom")}
    assert new == {folder / "report.html", folder / "pages", folder / "files"} | pages | files, "there is no mark"
    yield folder, written.getvalue()


@pytest.mark.slow
def test_names_are_stored_as_they_are(hostile: tuple[Path, str]) -> None:
    warehouse = hostile[0] / "warehouse"
    snapshots = {(row["group_id"], row["generation"]): row for row in rows(warehouse, "subscription_snapshots")}
    assert {cluster for row in snapshots.values() for cluster in [row["cluster_id"]]} == {CLUSTER}
    for number, name in enumerate(NAMES):
        first, second, topic, instance_id, client_id, host, rack = neighbours(number)[:7]
        members = snapshots[name, 2]["members"]
        assert [member["member_id"] for member in members] == [first, second]
        assert {member["group_instance_id"] for member in members} == {instance_id}
        assert {(member["client_id"], member["client_host"], member["rack"]) for member in members} == {(client_id, host, rack or None)}
        assert [entry for member in members for entry in member["assigned"]] == [
            {"topic": topic, "partitions": [0, 1]},
            {"topic": topic, "partitions": [2, 3]},
        ]
    looked_at = {row["topic"]: row["partition_count"] for row in rows(warehouse, "topic_snapshots")}
    assert looked_at == dict.fromkeys([*NAMES, "t", LONG_TOPIC], PARTITIONS)
    assert {(row["group_id"], row["metadata"]) for row in rows(warehouse, "offset_snapshots")} == {(name, name) for name in NAMES}
    assert {row["group_id"] for row in rows(warehouse, "generation_audits")} >= set(NAMES)
    owners = {row["member_id"] for row in unpacked_assignments(warehouse) if row["basis"] == "recomputed"}
    assert owners >= set(NAMES)
    (refused,) = rows(warehouse, "quarantine")
    assert (refused["reason"], refused["payload"].count(b"\\ud800")) == ("malformed_line", 2)


@pytest.mark.slow
def test_folder_names_of_the_warehouse_do_not_come_from_input(hostile: tuple[Path, str]) -> None:
    warehouse = hostile[0] / "warehouse"
    folders = {path.name for path in warehouse.rglob("*") if path.is_dir()}
    months = {name for name in folders if re.fullmatch(r"observed_month=\d{4}-\d\d-01", name)}
    assert months and folders - months == {*TABLES, "_delta_log", "_staged_commits"}


class Elements(HTMLParser):
    """Every element of a page with its attributes, and the text right after a start tag by that tag."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[tuple[str, str]] = set()
        self.text: dict[str, list[str]] = {}
        self._inside = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._inside = tag
        self.attributes |= {(name, value or "") for name, value in attributes}

    def handle_data(self, data: str) -> None:
        self.text.setdefault(self._inside, []).append(data)

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data[:100]}")


@pytest.mark.slow
def test_the_report_shows_names_and_obeys_none(hostile: tuple[Path, str]) -> None:
    templates = "".join(path.read_text(encoding="utf-8") for path in TEMPLATES if path.suffix == ".j2")
    ours = set(re.findall(r"<([a-z]\w*)", templates))
    attributes = {name.lower() for name in re.findall(r'\s([a-zA-Z][\w-]*)="', templates)}
    report, *others = [hostile[0] / "report.html", *sorted((hostile[0] / "pages").iterdir())]
    assert len(others) >= len(NAMES) - 10
    for path in (report, *others):
        page = path.read_text(encoding="utf-8")
        found = Elements(page)
        assert set(found.tags) <= ours
        assert {name for name, _ in found.attributes} - attributes <= FLAGS
        assert [name for name, _ in found.attributes if name.startswith("on") or name in ("src", "srcset", "action", "style")] == []
        links = [value for name, value in found.attributes if name == "href"]
        own = r"#[\w-]*|#needs=someone|pages/group-\w{16}\.html|\.\./report\.html#group-\w{16}"
        assert [link for link in links if not re.fullmatch(own, link)] == []
        *data, script = found.text["script"]
        assert script == script_of("jobs.report", "report.js") and found.tags.count("style") == 1
        assert found.tags.count("script") == 1 + len(data) == 1 + (path == report) and "<" not in "".join(data)
        assert set(page) & set("\x00\x1b\x7f\u202e\u2066\u2028\u2029\ufeff\r") == set()
        shown = "".join(text for texts in found.text.values() for text in texts)
        assert visible(CLUSTER) in shown
        assert path != report or [name for name in MARKUP if visible(name) not in shown] == []


@pytest.mark.slow
def test_exports_keep_hostile_names_unchanged(hostile: tuple[Path, str]) -> None:
    files = hostile[0] / "files"
    audits = json.loads((files / "generation_audits.json").read_text())
    assert {row["group_id"] for row in audits} >= set(NAMES)
    with (files / "generation_audits.csv").open(encoding="utf-8", newline="") as file:
        cells = {row["group_id"] for row in csv.DictReader(file)}
    assert [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r"))] == []
    assert cells >= {name for name in MARKUP if not name.startswith(("=", "+", "-", "@"))}
    metrics = text_string_to_metric_families((files / "evenkeel.prom").read_bytes().decode())
    members = next(family for family in metrics if family.name == "evenkeel_group_members")
    assert {sample.labels["group_id"] for sample in members.samples} == {row["group_id"] for row in audits}


@pytest.mark.slow
def test_the_log_keeps_names_on_its_lines(hostile: tuple[Path, str]) -> None:
    lines = hostile[1].split("\n")
    assert lines.pop() == ""
    assert all(line.isprintable() and line.startswith("evenkeel: ") for line in lines)
    assert sum("skipped 1 records of groups with protocol type" in line for line in lines) >= len(NAMES) - 1
    assert any(r"'\r\nevenkeel: forged'" in line for line in lines)


@pytest.mark.slow
def test_verify_accepts_a_warehouse_of_hostile_input(hostile: tuple[Path, str], evenkeel) -> None:
    folder, _ = hostile
    assert evenkeel("verify", "--warehouse", folder / "warehouse") == 0


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("no.such.schema", "single-part namespace"),
        ("no-such.schema", "[INVALID_IDENTIFIER]"),
        ("w" * 300, "File name too long"),
        # Ten seconds each: whether another run is just making the lease is not known at once.
        pytest.param("s3a://bucket/w", "org.apache.hadoop.fs.s3a.S3AFileSystem not found", marks=pytest.mark.slow),
        pytest.param("hdfs://nowhere.invalid/w", "nowhere.invalid", marks=pytest.mark.slow),
        pytest.param("http://localhost:1/w", "UnsupportedOperationException", marks=pytest.mark.slow),
    ],
)
def test_warehouse_that_cannot_be_opened_is_named_in_one_line(
    location: str, message: str, evenkeel, capfd: pytest.CaptureFixture[str]
) -> None:
    assert evenkeel("land", "--warehouse", location) == 2
    (line,) = [line for line in capfd.readouterr().err.splitlines() if line.startswith("evenkeel: warehouse")]
    assert message in line and location in line


# -- files that run something


def test_a_pickle_is_never_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither as a file, nor in another one, nor in the types of a Parquet file, which pyarrow once unpickled."""
    mark = tmp_path / "mark"
    payload = pickle.dumps(LeavesMark(mark))
    (tmp_path / "a.pickle").write_bytes(payload)
    (tmp_path / "a.jsonl").write_bytes(pickle.dumps(LeavesMark(mark), protocol=0))
    np.save(tmp_path / "a.npy", np.array([LeavesMark(mark)], dtype=object), allow_pickle=True)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.pickle", payload)
    with gzip.open(tmp_path / "a.jsonl.gz", "wb") as file:
        file.write(bytes(50_000_000))
    monkeypatch.setattr(captures, "LONGEST_TEXT_BYTES", 1 << 20)
    for name in ("a.pickle", "a.jsonl", "a.npy", "a.zip", "a.jsonl.gz"):
        with pytest.raises(InputError, match=re.escape(name)):
            captures.find_captures((str(tmp_path / name),))
    extension = {b"ARROW:extension:name": b"arrow.py_extension_type", b"ARROW:extension:metadata": payload}
    kinds = {
        "key": pa.binary(),
        "value": pa.binary(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", "UTC"),
    }
    schema = pa.schema([pa.field(name, kind, metadata=extension) for name, kind in kinds.items()], metadata={b"pandas": payload})
    pq.write_table(pa.table({name: pa.array([], kind) for name, kind in kinds.items()}, schema=schema), tmp_path / "a.parquet")
    assert len(captures.find_captures((str(tmp_path / "a.parquet"),))) == 1
    assert not mark.exists()
    pickle.loads(payload).close()
    assert mark.exists(), "the payload does what it is for"


# -- listeners and secrets


def processes_below(root: int) -> set[int]:
    """Return a process and all that it started."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
    found = {root}
    while grown := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= grown
    return found


def listening(processes: set[int]) -> set[str]:
    """Return the local addresses, in the kernel's hexadecimal form, at which processes listen."""
    sockets = set()
    for pid in processes:
        try:
            sockets |= {os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir()}
        except (FileNotFoundError, ProcessLookupError):
            continue
    addresses = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *rest = line.split()
            if state == "0A" and f"socket:[{rest[5]}]" in sockets:
                addresses.add(local.partition(":")[0])
    return addresses


LOOPBACK = {"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="asks Linux who listens")
@pytest.mark.parametrize("way", ["python -m jobs", "spark-submit.sh"])
def test_a_run_listens_on_this_machine_only_and_keeps_secrets(way: str, tmp_path: Path) -> None:
    """Secrets are where Spark and Kafka's clients look for them: in the environment, and in a setting of Spark."""
    command = (
        [sys.executable, "-m", "jobs"]
        if way == "python -m jobs"
        else [linked_checkout(tmp_path), "--conf", f"spark.hadoop.fs.s3a.secret.key={CANARY}"]
    )
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_LOCAL_IP"}
    environment |= {"AWS_SECRET_ACCESS_KEY": CANARY, "SASL_JAAS_CONFIG": f'Login required password="{CANARY}";', "PYTHONPATH": str(ROOT)}
    environment |= INSTALLATION
    with (tmp_path / "out").open("wb") as out, (tmp_path / "err").open("wb") as err:
        arguments = ["run", "--warehouse", str(tmp_path / "warehouse")]
        child = subprocess.Popen([*command, *arguments], cwd=tmp_path, env=environment, stdout=out, stderr=err)
        seen: set[str] = set()
        deadline = time.monotonic() + 600
        while child.poll() is None:
            if time.monotonic() > deadline:
                child.kill()
            seen |= listening(processes_below(child.pid))
            time.sleep(0.2)
    assert child.returncode == 0, (tmp_path / "err").read_text()
    assert seen and seen <= LOOPBACK
    hidden = CANARY.encode()
    assert [path for path in tmp_path.rglob("*") if path.is_file() and not path.is_symlink() and hidden in path.read_bytes()] == []
    assert not any(CANARY in json.dumps(rows(tmp_path / "warehouse", name), default=repr) for name in TABLES)
