"""What lies beside captures, and captures that Spark cannot read: named, counted or refused, each in one line, before Spark starts."""

from __future__ import annotations

import base64
import os
import re
import socket
import struct
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest

from jobs.decoders import text_pieces
from jobs.decoders.captures import find_captures
from jobs.runtime.errors import InputError
from tests.builders.records import record_line
from tests.builders.tables import rows

RECORDS = pa.table(
    {
        "key": pa.array([b"k"], pa.binary()),
        "value": pa.array([b"v"], pa.binary()),
        "partition": pa.array([0], pa.int32()),
        "offset": pa.array([1], pa.int64()),
        "timestamp": pa.array([0], pa.timestamp("us", "UTC")),
        "further": ["x"],
    }
)


def refusal(path: Path | str) -> str:
    with pytest.raises(InputError) as refused:
        find_captures((str(path),))
    assert "\n" not in str(refused.value)
    return str(refused.value).removeprefix(f"input {path}: ")


def names(*inputs: Path) -> list[str]:
    return [capture.name for capture in find_captures(tuple(map(str, inputs)))]


# -- neither files nor folders


def odd_files(folder: Path) -> dict[str, str]:
    """Make what is no file; return each by its name with what it is."""
    os.mkfifo(folder / "pipe.jsonl")
    with socket.socket(socket.AF_UNIX) as listener:
        before = Path.cwd()
        os.chdir(folder)  # the name of a socket may be so long only
        listener.bind("socket.jsonl")
        os.chdir(before)
    (folder / "device.jsonl").symlink_to("/dev/zero")
    (folder / "nothing.jsonl").symlink_to("gone")
    (folder / "loop.jsonl").symlink_to("loop.jsonl")
    (folder / "secret.parquet").write_bytes(b"PARE and then what nobody can read")
    return {
        "pipe.jsonl": "a named pipe",
        "socket.jsonl": "a socket",
        "device.jsonl": "a device",
        "nothing.jsonl": "a symbolic link to nothing",
        "loop.jsonl": "a symbolic link to nothing",
        "secret.parquet": "a Parquet file with an encrypted footer",
    }


def test_pipes_and_broken_links_are_passed_over_named_and_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It was passed over in silence: whatever it would have held was missing, and nobody knew."""
    problems = odd_files(tmp_path)
    (tmp_path / "f.jsonl").write_text(record_line())
    assert names(tmp_path) == ["f.jsonl"]
    *lines, last = [record.getMessage() for record in caplog.records]
    assert sorted(lines) == sorted(f"passed over {tmp_path}/{name}: {what}" for name, what in problems.items())
    assert last.startswith("passed over 6 files, links and folders in all (") and "a symbolic link to nothing: 2" in last


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("pipe.jsonl", "a named pipe; expected a file or a folder"),
        ("socket.jsonl", "a socket; expected a file or a folder"),
        ("device.jsonl", "a device; expected a file or a folder"),
        ("nothing.jsonl", "a symbolic link to gone, which is not there; correct --input"),
        ("loop.jsonl", "cannot be read (Too many levels of symbolic links)"),
        ("secret.parquet", "a Parquet file with an encrypted footer; expected one of consumer-offsets"),
    ],
)
def test_odd_file_as_the_only_input_is_refused_with_its_kind(name: str, what: str, tmp_path: Path) -> None:
    odd_files(tmp_path)
    assert refusal(tmp_path / name).startswith(what)


def test_only_the_first_of_many_ignored_files_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A few strange ones are named all the same among thousands of others."""
    (tmp_path / "f.jsonl").write_text(record_line())
    for number in range(50):
        (tmp_path / f"{number}.md").write_text("# notes")
    os.mkfifo(tmp_path / "pipe")
    with caplog.at_level("INFO", logger="jobs"):
        assert names(tmp_path) == ["f.jsonl"]
    lines = [record.getMessage() for record in caplog.records]
    assert sum("the first line is not JSON" in line for line in lines) == 20
    assert f"passed over {tmp_path}/pipe: a named pipe" in lines
    assert lines[-1] == "passed over 51 files, links and folders in all (a named pipe: 1; no capture: 50)"


# -- links


def test_links_to_folders_are_followed_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A folder is called by its own name where it has one in the input, whatever its links are called; a loop ends."""
    outside, inside = tmp_path / "outside", tmp_path / "input"
    for folder in (outside, inside / "own"):
        folder.mkdir(parents=True)
        (folder / "f.jsonl").write_text(record_line())
    (inside / "a link").symlink_to("own")
    (inside / "elsewhere").symlink_to(outside)
    (inside / "again").symlink_to(outside)
    (outside / "up").symlink_to(inside)
    with caplog.at_level("INFO", logger="jobs"):
        assert names(inside) == ["again/f.jsonl", "own/f.jsonl"]
    twice = [record.getMessage().split(": ")[0] for record in caplog.records if "a folder that is read already" in record.getMessage()]
    assert [one for one in twice if "in all" not in one] == [f"passed over {inside}/{name}" for name in ("a link", "again/up", "elsewhere")]


@pytest.mark.parametrize("order", [1, -1])
def test_a_file_has_the_name_below_the_outermost_input(order: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "f.jsonl").write_text(record_line())
    monkeypatch.chdir(tmp_path / "a")
    inputs = (tmp_path, tmp_path / "a", tmp_path / "b" / "f.jsonl")[::order]
    assert names(*inputs) == ["a/f.jsonl", "b/f.jsonl"]
    assert names(Path("../a/..")) == ["a/f.jsonl", "b/f.jsonl"]
    assert names(tmp_path / "b" / "f.jsonl") == ["f.jsonl"]


# -- Parquet


def encrypted(path: Path) -> Path:
    """Write a file with a footer that can be read, and one encrypted column."""

    class Keys(pe.KmsClient):
        def wrap_key(self, key: bytes, name: str) -> bytes:
            return base64.b64encode(key)

        def unwrap_key(self, wrapped: bytes, name: str) -> bytes:
            return base64.b64decode(wrapped)

    asked = pe.EncryptionConfiguration(footer_key="footer", column_keys={"column": ["value"]}, plaintext_footer=True)
    properties = pe.CryptoFactory(lambda _: Keys()).file_encryption_properties(pe.KmsConnectionConfig(), asked)
    with pq.ParquetWriter(path, RECORDS.schema, encryption_properties=properties) as writer:
        writer.write_table(RECORDS)
    return path


def test_encrypted_columns_are_refused(tmp_path: Path) -> None:
    """Asked for one of them, pyarrow ends the process."""
    assert refusal(encrypted(tmp_path / "f")) == "some of its columns are encrypted; write the file without encryption"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"compression": {"value": "brotli"}}, "column value is written with BROTLI"),
        ({"use_dictionary": False, "column_encoding": {"offset": "BYTE_STREAM_SPLIT"}}, "column offset is written with BYTE_STREAM_SPLIT"),
        ({"compression": {"further": "brotli"}}, None),
        ({"compression": "lz4"}, None),
        ({"compression": "gzip", "use_dictionary": False, "column_encoding": {"offset": "DELTA_BINARY_PACKED"}}, None),
    ],
)
def test_codecs_and_encodings_that_spark_lacks_are_refused(options: dict, message: str | None, tmp_path: Path) -> None:
    """In any part of the file, but not of a column that is not read."""
    options.setdefault("compression", "snappy")
    if isinstance(options["compression"], dict):
        options["compression"] = {**dict.fromkeys(RECORDS.column_names, "snappy"), **options["compression"]}
    pq.write_table(pa.concat_tables([RECORDS] * 3), tmp_path / "f", row_group_size=1, **options)
    if message is None:
        assert names(tmp_path) == ["f"]
    else:
        assert refusal(tmp_path / "f") == f"{message}, which Spark cannot read; write it again, with Snappy or Zstandard"


def checksums(path: Path) -> None:
    content = path.read_bytes()
    sums = [zlib.crc32(content[start : start + 512]) for start in range(0, len(content), 512)]
    path.with_name(f".{path.name}.crc").write_bytes(b"crc\0" + struct.pack(f">I{len(sums)}I", 512, *sums))


def test_a_file_that_does_not_fit_its_hidden_checksums_is_refused(tmp_path: Path) -> None:
    """A tool that writes into a folder of Hadoop's leaves the old ones; Hadoop reads no such file."""
    path = tmp_path / "f.parquet"
    pq.write_table(RECORDS, path)
    checksums(path)
    assert names(tmp_path) == ["f.parquet"]
    sums = path.with_name(".f.parquet.crc")
    sums.write_bytes(sums.read_bytes()[:-1] + b"?")
    last = r"found bytes \d+-\d+ that do not match their checksum; copy it again, or delete .f.parquet.crc if the file is correct"
    assert re.fullmatch(last, refusal(path))
    pq.write_table(RECORDS, path, store_schema=False)
    assert re.match(r"found \d+ bytes, which are not the \d blocks of 512 bytes of its checksums", refusal(path))


# -- the places of what cannot be used


def snapshot(**changes: object) -> dict:
    return {"group_id": "g", "group_type": "classic", "state": "Empty", "observed_at_ms": 5, "members": [], **changes}


def test_the_same_files_again_add_nothing_to_quarantine(make_tables, spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However they are cut, and whatever their folder is called by: lines were numbered by Spark's block and by the last name alone."""
    captures = tmp_path / "captures"
    for number, folder in enumerate(("d1", "d2")):
        (captures / folder).mkdir(parents=True)
        sound = "".join(record_line(offset=1000 * number + offset) + "\n" for offset in range(20))
        (captures / folder / "same.jsonl").write_text(sound + "{\n" * number + "{bad\n" + sound + "{bad\n")
        row = "g c-5b0c91fe-daf6-4812-9301-d2610acee9ae /10.0.0.1 c 1"  # without a header
        (captures / folder / "list.txt").write_text(f"\nConsumer group 'g' has no active members.\n{row}\n")
        (captures / folder / "printed.json").write_text('{"key":{"type":2,"data":{"group":"g"}},"value":null}{"key":7}\n')
        wrong = pa.Table.from_pylist([snapshot(observed_at_ms=number), snapshot(observed_at_ms=-1 - number)])
        pq.write_table(wrong, captures / folder / "snapshots.parquet", row_group_size=1)
    (tmp_path / "settings.yaml").write_text("quality: {max_quarantined_ratio: 1.0}\n")
    options = (
        "--warehouse",
        tmp_path / "w",
        "--config",
        tmp_path / "settings.yaml",
        "--cluster-id",
        "c",
        "--as-of",
        "2026-01-01T00:00:00Z",
    )
    assert make_tables("land", *options, "--input", captures) == 0
    first = sorted((row["source_position"], row["reason"]) for row in rows(tmp_path / "w", "quarantine"))
    assert first == [
        ("d1/list.txt line 3", "malformed_line"),
        ("d1/printed.json object 2", "malformed_object"),
        ("d1/same.jsonl line 21", "malformed_line"),
        ("d1/same.jsonl line 42", "malformed_line"),
        ("d1/snapshots.parquet row 2", "malformed_line"),
        ("d2/list.txt line 3", "malformed_line"),
        ("d2/printed.json object 2", "malformed_object"),
        ("d2/same.jsonl line 21", "malformed_line"),
        ("d2/same.jsonl line 22", "malformed_line"),
        ("d2/same.jsonl line 43", "malformed_line"),
        ("d2/snapshots.parquet row 2", "malformed_line"),
    ]
    monkeypatch.setattr(text_pieces, "PIECE_BYTES", 100)
    monkeypatch.chdir(captures / "d1")
    spark.conf.set("spark.sql.files.maxPartitionBytes", "4000")
    try:
        assert make_tables("land", *options, "--input", "..") == 0
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
    assert sorted((row["source_position"], row["reason"]) for row in rows(tmp_path / "w", "quarantine")) == first
    counts = dict(max(rows(tmp_path / "w", "runs"), key=lambda run: run["run_sequence"])["input_counts"])
    assert (counts["read"], counts["landed"], counts["quarantined"]) == (counts["duplicate"] + counts["skipped"] + 11, 0, 11)


def test_snapshots_of_different_types_land_together(make_tables, tmp_path: Path) -> None:
    """Each of the files lands alone; put together by Spark, columns without a value and numbers of two widths end the run."""
    entry = [{"topic": "t", "partitions": [0]}]
    whole = {
        "generation": 3,
        "members": [{"member_id": "m", "assigned": entry}],
        "offsets": [{"topic": "t", "partition": 0, "committed_offset": 4}],
    }
    changes = [whole, {"generation": None}, {"members": []}, {"members": [{"member_id": "m", "assigned": []}]}, {"members": None}]
    folder = tmp_path / "captures"
    folder.mkdir()
    for number, change in enumerate(changes):
        pq.write_table(pa.Table.from_pylist([snapshot(group_id=f"g{number}", **change)]), folder / f"{number}.parquet")
    narrow = pa.Table.from_pylist([snapshot(group_id="narrow", generation=7)])
    pq.write_table(
        narrow.set_column(narrow.schema.get_field_index("generation"), "generation", pa.array([7], pa.int32())), folder / "n.parquet"
    )
    assert make_tables("land", "--warehouse", tmp_path / "w", "--input", folder, "--cluster-id", "c") == 0
    found = {row["group_id"]: (row["generation"], len(row["members"])) for row in rows(tmp_path / "w", "subscription_snapshots")}
    assert found == {"g0": (3, 1), "g1": (1, 0), "g2": (1, 0), "g3": (1, 1), "narrow": (7, 0)}
    assert rows(tmp_path / "w", "quarantine") == []
