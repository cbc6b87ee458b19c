"""What a collection refuses, in one line with exit code 2, and without touching what is in its folder."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation

from jobs import cli
from schemas.wire.keys import OFFSETS_TOPIC
from tests.kafka import captures
from tests.kafka.broker import USERS, Broker
from tests.kafka.conftest import Collect
from tests.kafka.groups import Commits
from tests.kafka.log_files import read_topic
from tests.kafka.logins import LOGIN, allowed, log_in
from tests.needs import skip_loudly

ROOM_BYTES = 32 << 10
"""Room for a look or two, and no more."""


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith(".")} if folder.exists() else {}


def refusal(capsys: pytest.CaptureFixture[str], code: int) -> str:
    """Return the one line of a collection that was refused."""
    printed = capsys.readouterr()
    assert (code, printed.out) == (2, ""), printed
    (line,) = printed.err.splitlines()
    return line


# -- the connection


def test_unreachable_broker_is_refused_at_once(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    started = time.monotonic()
    code = cli.console_main(["collect", "--bootstrap-servers", "127.0.0.1:9", "--output", str(tmp_path), "--timeout", "30"])
    assert time.monotonic() - started < 10
    line = refusal(capsys, code)
    assert line == "evenkeel: 127.0.0.1:9: no broker can be reached (Connection refused); correct --bootstrap-servers"
    assert files(tmp_path) == {}


def test_broker_that_accepts_and_never_answers_is_refused(collect: Collect, broker: Broker, capsys, tmp_path: Path) -> None:
    with broker.paused():
        assert ": no answer within 1 s" in refusal(capsys, collect(tmp_path, "--timeout", "1"))


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    return tmp_path / "client.properties"


def test_wrong_password_is_refused_at_once(collect: Collect, broker: Broker, capsys, properties: Path, tmp_path: Path) -> None:
    properties.write_text(f"{LOGIN}sasl.username=reader\nsasl.password=wrong-password\n")
    started = time.monotonic()
    line = refusal(capsys, collect(tmp_path / "f", "--client-properties", str(properties), servers=broker.login_address))
    assert time.monotonic() - started < 15.0, "what does not heal is not waited for"
    assert f"evenkeel: {broker.login_address}: the connection is refused: " in line and "Authentication failed" in line
    assert line.endswith("; correct --client-properties")
    assert "wrong-password" not in line
    assert files(tmp_path / "f") == {}


def test_wrong_security_protocol_is_refused(collect: Collect, broker: Broker, capsys, properties: Path, tmp_path: Path) -> None:
    properties.write_text("security.protocol=SSL\n")
    line = refusal(capsys, collect(tmp_path / "f", "--client-properties", str(properties), "--timeout", "2"))
    assert "SSL handshake failed" in line or "SSL connection closed by peer" in line


# -- rights


@pytest.mark.parametrize("operation", [None, AclOperation.DESCRIBE])
def test_user_without_rights_on_topic_and_groups_is_refused(
    operation: AclOperation | None, collect: Collect, broker: Broker, capsys, monkeypatch, properties: Path, tmp_path: Path
) -> None:
    """One who may describe the topic learns only from reading that that is not enough."""
    log_in(monkeypatch, properties, "stranger")
    with allowed(broker, "stranger", operation) if operation else nullcontext():
        assert collect(tmp_path / "f", "--client-properties", str(properties), servers=broker.login_address) == 2
    lines = capsys.readouterr().err.splitlines()
    assert f"no right to read the topic {OFFSETS_TOPIC}: polling the groups instead" in lines[-2]
    assert lines[-1] == (
        f"evenkeel: {broker.login_address}: found no consumer groups; give the user an ACL that allows DESCRIBE on groups, and on "
        "the topics whose offsets they commit"
    )
    assert all(name.startswith("cluster_metadata-") for name in files(tmp_path / "f")), "the folder is free for either way of collecting"


def test_reading_needs_one_right(
    collect: Collect, broker: Broker, capsys, monkeypatch: pytest.MonkeyPatch, properties: Path, tmp_path: Path
) -> None:
    log_in(monkeypatch, properties, "reader")
    folder = tmp_path / "f"
    with allowed(broker, "reader", AclOperation.READ):
        assert collect(folder, "--client-properties", str(properties), servers=broker.login_address) == 0
    assert captures.records(folder) == read_topic(broker.log, OFFSETS_TOPIC).committed
    assert [topic["topic"] for topic in captures.looks(folder)[0]["topics"]] == [OFFSETS_TOPIC], "what it may not see is in no look"
    output = "".join(capsys.readouterr()).encode() + b"".join(files(folder).values())
    assert USERS["reader"].encode() not in output


# -- properties


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("sasl.jaas.config=secret-of-mine", "client properties: Java JAAS configuration is not supported"),
        ("no.such.thing=secret-of-mine", "line 2: found no.such.thing, which librdkafka does not know; expected one of its names"),
        ("security.protocol=secret-of-mine", "line 2: security.protocol: found a value that librdkafka does not take, expected one of"),
        ("socket.timeout.ms=1", "line 2: socket.timeout.ms: found a value that librdkafka does not take, expected a value in 10..300000"),
        ("ssl.key.pem=secret-of-mine\nsecurity.protocol=SSL", "client properties: Failed to create admin client: ssl.key.pem failed"),
    ],
)
def test_properties_that_librdkafka_refuses_are_named(
    line: str, message: str, collect: Collect, capsys, properties: Path, tmp_path: Path
) -> None:
    properties.write_text(f"# first\n{line}\n")
    line = refusal(capsys, collect(tmp_path / "f", "--client-properties", str(properties)))
    assert message in line and "secret-of-mine" not in line
    assert str(properties) in line or message.startswith("client properties")


# -- the folder


def test_output_folder_that_cannot_be_written_is_refused(collect: Collect, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    line = refusal(capsys, collect(tmp_path / "file" / "folder"))
    assert line == f"evenkeel: --output {tmp_path / 'file' / 'folder'}: cannot be written (Not a directory); name another folder"


@pytest.fixture
def folder(collect: Collect, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Path:
    """A folder that was collected into."""
    folder = tmp_path / "captures"
    assert collect(folder) == 0
    capsys.readouterr()
    return folder


def change_positions(folder: Path, **changes: object) -> None:
    (folder / "_positions.json").write_text(json.dumps({**captures.positions(folder), **changes}))


def test_another_name_of_the_cluster_is_refused(collect: Collect, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = files(folder)
    line = refusal(capsys, collect(folder, "--cluster-id", "prod"))
    assert "the cluster's name is " in line and "'prod' with --cluster-id; name another folder with --output" in line
    assert files(folder) == before


def test_topic_that_was_made_again_is_refused(collect: Collect, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Kafka lets nobody delete this topic, so the folder is made to remember another one."""
    change_positions(folder, topic_id="another")
    before = files(folder)
    line = refusal(capsys, collect(folder))
    assert f"{OFFSETS_TOPIC} was deleted and made again (its id was another, is " in line
    assert "records that were not read before are lost" in line
    assert files(folder) == before


def test_log_that_ends_before_the_stored_position_is_refused(collect: Collect, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored = captures.positions(folder)["next_offsets"]
    change_positions(folder, next_offsets={**stored, "7": stored["7"] + 1000})
    line = refusal(capsys, collect(folder))
    assert f"{OFFSETS_TOPIC} was read beyond its end: partition 7 up to {stored['7'] + 1000}, its end is {stored['7']}. " in line


def test_malformed_positions_file_is_refused(collect: Collect, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change_positions(folder, next_offsets={"7": -1})
    line = refusal(capsys, collect(folder))
    positions_file = folder / "_positions.json"
    assert f"{positions_file}: next_offsets.7: Input should be greater than or equal to 0; expected what collect wrote there; " in line


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system in memory, which a test can make as small as it likes."""
    disk = tmp_path / "disk"
    disk.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "evenkeel", disk], capture_output=True, text=True, check=False)
    if made.returncode:
        skip_loudly(f"no disk was filled: {made.stderr.strip()}; run the tests as root, or behind `unshare -rm`")
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)


def resize(disk: Path, size_bytes: int) -> None:
    subprocess.run(["mount", "-o", f"remount,size={size_bytes}", disk], check=True)


def test_full_disk_keeps_finished_files_and_is_recovered(
    collect: Collect, broker: Broker, commits: Commits, small_disk: Path, capsys, monkeypatch
) -> None:
    """A file that has its place by then stays, and the next collection continues after it."""
    folder = small_disk / "captures"
    assert collect(folder) == 0
    before = files(folder)
    used = sum(path.lstat().st_blocks * 512 for path in small_disk.rglob("*"))
    resize(small_disk, used + ROOM_BYTES)
    for number in range(1500):
        commits.commit(0, number, f"{os.urandom(40).hex()}")
    monkeypatch.setattr("jobs.collect.parquet_file.ROW_GROUP_BYTES", 1)
    capsys.readouterr()
    assert collect(folder) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith(f"evenkeel: --output {folder}: no space left on the disk; free some space and call again: ")
    after = files(folder)
    assert {name: content for name, content in after.items() if name in before} == before
    assert all(name.startswith("cluster_metadata-") for name in after if name not in before), "half a file is not left"
    resize(small_disk, 64 << 20)
    assert collect(folder) == 0
    assert captures.records(folder) == read_topic(broker.log, OFFSETS_TOPIC).committed


# -- another cluster; the last test, since it takes the place of the broker for a while


def test_another_cluster_is_refused(
    collect: Collect, broker: Broker, folder: Path, capsys, tmp_path_factory: pytest.TempPathFactory
) -> None:
    before = files(folder)
    broker.stop()
    other = None
    try:
        other = Broker(tmp_path_factory.mktemp("other"))
        line = refusal(capsys, collect(folder, servers=other.address))
        assert line == f"evenkeel: {other.address}: found no topic {OFFSETS_TOPIC}; a cluster creates it with its first consumer group"
        other.make_topic("orders", 1)
        commits = Commits(other.address, "elsewhere")
        commits.commit(0, 1, "elsewhere")
        commits.close()
        line = refusal(capsys, collect(folder, servers=other.address))
        assert f"the folder belongs to cluster {captures.positions(folder)['cluster_id']}, this is cluster " in line
        assert line.endswith("; name another folder with --output")
    finally:
        if other is not None:
            other.stop()
        broker.start()
    assert files(folder) == before
