"""Decoding in the workers: every row fits its columns, and each says where it came from."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema

from jobs.decoders import cluster_metadata, consumer_offsets
from jobs.decoders.captures import find_captures
from jobs.decoders.decoded import LAST_MS
from jobs.decoders.offset_commit_columns import RAW_COLUMNS, split_commits
from jobs.decoders.text_pieces import WHOLE, Piece
from jobs.land import udfs as decode_udfs
from jobs.workers.batches import to_batches
from jobs.workers.guard import DecodingFailedError
from schemas.staging import DECODED_ROWS, TARGETS
from schemas.vocabulary import Source
from tests.builders import records

SCHEMA = to_arrow_schema(DECODED_ROWS)
RAW = pa.schema(
    [
        *(("key", pa.binary()), ("value", pa.binary())),
        *(("partition", pa.int32()), ("offset", pa.int64()), ("timestamp_ms", pa.int64()), ("is_committed", pa.bool_())),
    ]
)


def piece_batch(path: Path, *pieces: Piece, name: str = "d/f") -> pa.RecordBatch:
    """Return pieces of a file as Spark hands them over."""
    rows = [{"path": str(path), "name": name, "is_gzip": path.suffix == ".gz", **piece._asdict()} for piece in pieces]
    return pa.RecordBatch.from_pylist(rows)


def assert_fits(rows: list[dict]) -> None:
    """Check that rows become Arrow and come back, naming only columns that there are."""
    assert not {name for row in rows for name in row} - set(SCHEMA.names)
    for row in rows:
        for target in TARGETS:
            assert not set(row.get(target) or ()) - set(DECODED_ROWS[target].dataType.names)
    assert pa.RecordBatch.from_pylist(rows, schema=SCHEMA).num_rows == len(rows)


@given(records.raw_records())
def test_any_record_fits_its_columns(record: tuple) -> None:
    assert_fits([consumer_offsets.decode_record(*record)])


@given(records.lines(json.loads(records.record_line())))
def test_any_line_of_records_fits_its_columns(line: bytes) -> None:
    assert_fits([consumer_offsets.decode_line(line)])


@given(records.lines(records.look()))
def test_any_line_of_cluster_metadata_fits_its_columns(line: bytes) -> None:
    assert_fits(list(cluster_metadata.decode_line(line)))


def test_parquet_rows_are_decoded_column_by_column() -> None:
    columns = {
        "key": [records.commit_key("g", "t", 0), None],
        "value": [records.commit_value(2**53 + 1, 1_000), b""],
        "partition": [3, 4],
        "offset": [2**53 + 1, 5],
        "timestamp_ms": [1_000, 1_000],
        "is_committed": [True, True],
    }
    batches = decode_udfs.decode_raw_records(iter([pa.RecordBatch.from_pydict(columns, schema=RAW)]))
    first, second = (row for batch in batches for row in batch.to_pylist())
    assert (first["source_position"], first["offset_commit"]["committed_offset"]) == (f"3@{2**53 + 1}", 2**53 + 1)
    assert first["offset_commit"]["is_uncertain"] is False
    assert (second["outcome"], second["source_position"]) == ("quarantined", "4@5")


def raw_table(chosen: list[tuple]) -> pa.Table:
    """Return records as the table in which Spark hands them over."""
    return pa.Table.from_pylist([dict(zip(RAW_COLUMNS, record, strict=False)) for record in chosen], schema=RAW)


COMMIT_TAGS = (b"\0", b"\1\0\x10" + bytes(range(16)), b"\1\0\x10" + bytes(range(15)), b"\1\5\1x", b"", b"\0\0")
"""Behind the commit time in version 4: none, a topic id, one cut short, an unknown tag, nothing at all, and a byte too many."""


@st.composite
def commits(draw: st.DrawFn) -> tuple:
    """Return a commit with any numbers, metadata and tags, now and then of another version or damaged."""
    at_ms = draw(st.sampled_from([-1, 0, 1_000, LAST_MS - 1, LAST_MS, 2**63 - 1]))
    offset, epoch = draw(st.sampled_from([-1, 0, 2**53 + 1, 2**63 - 1])), draw(st.sampled_from([-1, 0, 7, 2**31 - 1]))
    metadata = draw(st.sampled_from([b"", b"m", b"x" * 126, b"x" * 127, b"x" * 300, "é".encode(), b"\xff", b"\0"]))
    if draw(st.booleans()):
        value = struct.pack(">hqih", 3, offset, epoch, len(metadata)) + metadata + struct.pack(">q", at_ms)
    else:
        length = len(metadata) + 1
        length_bytes = bytes([length]) if length < 128 else bytes([length & 127 | 128, length >> 7])
        value = (
            struct.pack(">hqi", 4, offset, epoch) + length_bytes + metadata + struct.pack(">q", at_ms) + draw(st.sampled_from(COMMIT_TAGS))
        )
    key = draw(st.sampled_from([records.commit_key("g", "t", 0), records.commit_key("é", "t", -1), records.commit_key("g", "t", 0)[:-1]]))
    if draw(st.booleans()):
        value = draw(st.one_of(records.damaged(value), records.damaged(value), st.none(), st.just(records.commit_value(1, 2, version=1))))
    place = draw(st.sampled_from([(3, 9), (3, 2**40), (-1, 9), (3, -1), (None, 9), (3, None)]))
    return key, value, *place, draw(st.sampled_from([0, 1_000, LAST_MS, -1, None])), draw(st.sampled_from([None, False, True]))


@given(st.lists(st.one_of(commits(), commits(), commits(), records.raw_records()), max_size=40), st.integers(1, 40))
@settings(max_examples=300)
def test_columns_give_what_single_records_give(chosen: list[tuple], size: int) -> None:
    """Whatever way a record takes, and however it is batched with others."""
    table = raw_table(chosen)
    found = [row for batch in decode_udfs.decode_raw_records(iter(table.to_batches(size))) for row in batch.to_pylist()]
    rows_ = [consumer_offsets.decode_record(*record) for record in chosen]
    expected = [row for batch in to_batches(rows_, SCHEMA, 100) for row in batch.to_pylist()]
    assert sorted(map(repr, found)) == sorted(map(repr, expected))


def commit_keys() -> list[bytes]:
    """Return keys of commits with all kinds of names, some longer or shorter than their type and lengths say."""
    names = [struct.pack(">h", len(name) + more) + name for name in (b"", b"g", b"x" * 200, "é".encode(), b"\xff") for more in (0, 1, -1)]
    ends = [struct.pack(">i", number) for number in (0, 200, -1)] + [b"\0" * 5, b"\0" * 3, b""]
    return [b"".join(parts) for parts in product((b"\0\1", b"\0\0", b"\1\1"), names, names, ends)] + [b"", b"\0", b"\0\1", b"\0\1\0"]


def test_a_key_is_read_among_others_as_it_is_alone() -> None:
    chosen = [(key, records.commit_value(5, 1_000), 3, offset, 1_000) for offset, key in enumerate(commit_keys())]
    found = [row for batch in decode_udfs.decode_raw_records(iter(raw_table(chosen).to_batches())) for row in batch.to_pylist()]
    (expected,) = to_batches((consumer_offsets.decode_record(*record) for record in chosen), SCHEMA, len(chosen))
    by_place = {row["source_position"]: row for row in found}
    assert len(by_place) == len(found)
    assert [by_place[row["source_position"]] for row in expected.to_pylist()] == expected.to_pylist()


LONG_GROUPS = struct.pack(">h", -(2**15)) + b"x" * 2**15, struct.pack(">h", 2**15 - 1) + b"x" * (2**15 - 1)
"""A group whose length is negative, but would fit its bytes without the sign, and the longest that there is."""


@pytest.mark.parametrize("group", LONG_GROUPS)
def test_a_length_has_a_sign(group: bytes) -> None:
    record = b"\0\1" + group + records.string("t") + bytes(4), records.commit_value(5, 1_000), 3, 9, 1_000
    (row,) = (row for batch in decode_udfs.decode_raw_records(iter(raw_table([record]).to_batches())) for row in batch.to_pylist())
    assert row["outcome"] == consumer_offsets.decode_record(*record)["outcome"]
    assert (row["outcome"] == "landed") == (group[0] < 0x80)


def test_plain_commits_take_the_short_way() -> None:
    names = [("g", "t", 0), ("billing", "x" * 249, 200), ("", "t", 2**31 - 1), ("g", "t", 0)]
    plain = [(records.commit_key(*name), records.commit_value(5, 1_000), 3, 9, 1_000) for name in names]
    batches, others = split_commits(raw_table(plain))
    commits_ = [row["offset_commit"] for batch in batches for row in batch.to_pylist()]
    assert [(commit["group_id"], commit["topic"], commit["partition"]) for commit in commits_] == names
    assert others.num_rows == 0


@pytest.mark.parametrize("limit", ["CHUNK_ROWS", "CHUNK_BYTES"])
def test_a_chunk_ends_at_its_limit_and_the_next_begins_empty(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = raw_table([(records.commit_key("g", "t", 0), records.commit_value(5, 1_000), 3, offset, 1_000) for offset in range(5)])
    batches = table.to_batches(1)
    monkeypatch.setattr(decode_udfs, limit, 2 if limit == "CHUNK_ROWS" else 2 * batches[0].nbytes)
    found = list(decode_udfs.decode_raw_records(iter(batches)))
    assert [batch.column("source_position").to_pylist() for batch in found] == [["3@0", "3@1"], ["3@2", "3@3"], ["3@4"]]


def decoded(decode: Callable[..., Iterator[pa.RecordBatch]], *batches: pa.RecordBatch, **options: object) -> list[dict]:
    return [row for batch in decode(iter(batches), **options) for row in batch.to_pylist()]


def test_a_line_without_a_position_of_its_own_is_found_by_file_and_number(tmp_path: Path) -> None:
    """Blank lines count and are no records; so it is in whatever pieces a file comes."""
    (tmp_path / "f").write_text("{\n\n" + records.record_line() + "\n{\n")
    size, second = (tmp_path / "f").stat().st_size, 3
    pieces = piece_batch(tmp_path / "f", Piece(second, size, 3), Piece(0, second, 1))
    rows = decoded(decode_udfs.decode_raw_record_lines, pieces)
    assert [row["source_position"] for row in rows] == ["3@9", "d/f line 4", "d/f line 1"]
    (tmp_path / "f.gz").write_bytes(gzip.compress((tmp_path / "f").read_bytes()))
    packed = decoded(decode_udfs.decode_raw_record_lines, piece_batch(tmp_path / "f.gz", WHOLE, name="f.gz"))
    assert [row["source_position"] for row in packed] == ["f.gz line 1", "3@9", "f.gz line 4"]


@pytest.mark.parametrize("is_packed", [False, True])
def test_decoded_lines_are_batched_by_their_size(is_packed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A packed file is one piece, whatever it unpacks to; a look at a large cluster is a line of a hundred megabytes."""
    lines = [json.dumps({**records.look(), "observed_at_ms": time_ms}) for time_ms in range(1_000, 1_005)]
    text = "\n".join(lines).encode()
    file = tmp_path / ("f.gz" if is_packed else "f")
    file.write_bytes(gzip.compress(text) if is_packed else text)
    piece = piece_batch(file, WHOLE)
    monkeypatch.setattr(decode_udfs, "TEXT_BYTES", 2 * len(lines[0]))
    found = [batch.column("source_position").to_pylist() for batch in decode_udfs.decode_look_lines(iter([piece]))]
    assert found == [["1000 t", "1001 t"], ["1002 t", "1003 t"], ["1004 t"]]


def test_decoded_objects_are_batched_by_their_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "f").write_text('{"key":1}{"key":2}{"key":3}')
    monkeypatch.setattr(decode_udfs, "TEXT_BYTES", 18)
    batches = decode_udfs.decode_formatter_objects(iter([piece_batch(tmp_path / "f", WHOLE)]), separator='{"key":')
    assert [batch.column("order_in_part").to_pylist() for batch in batches] == [[1, 2], [3]]


def test_metadata_have_positions_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "f").write_text(json.dumps(records.look()))
    rows = decoded(decode_udfs.decode_look_lines, piece_batch(tmp_path / "f", WHOLE))
    assert [(row["source_position"], row["cluster_id"], row["look"]["topic"]) for row in rows] == [("1000 t", "own", "t")]
    live = pa.RecordBatch.from_pydict({"value": [json.dumps(records.look()).encode(), b"{"]})
    assert [row["source_position"] for row in decoded(decode_udfs.decode_live_look, live)] == ["1000 t", "live look"]


def test_objects_are_found_by_file_and_number(tmp_path: Path) -> None:
    (tmp_path / "f").write_text('\n{"key":null}{"key":1}')
    rows = decoded(decode_udfs.decode_formatter_objects, piece_batch(tmp_path / "f", Piece(0, 20, 7)), separator='{"key":')
    assert [(row["source_position"], row["order_in_part"], row["part"]) for row in rows] == [
        (f"d/f object {number}", number, str(tmp_path / "f")) for number in (7, 8)
    ]


@pytest.mark.parametrize("end", ["", "\n", "\nProcessed a total of 3 messages\n"])
def test_piece_of_an_object_before_the_first_one_is_quarantined(end: str, tmp_path: Path) -> None:
    """A file that ``split`` has cut begins within an object."""
    whole = '{"key":{"type":2,"data":{"group":"g"}},"value":null}'
    stderr = 'Defaulted container "kafka" out of: kafka\n[2026-11-30 15:01:33,640] WARN {a} (kafka.Logger)\n'
    (tmp_path / "f").write_text(f"{stderr}{whole[30:]}{end}{whole}\n{whole}")
    [capture] = find_captures((str(tmp_path / "f"),))
    assert capture.separator is not None
    rows = decoded(decode_udfs.decode_formatter_objects, piece_batch(tmp_path / "f", *capture.pieces), separator=capture.separator)
    assert [(row["source_position"], row["outcome"]) for row in rows] == [
        ("d/f object 0", "quarantined"),
        ("d/f object 1", "landed"),
        ("d/f object 2", "landed"),
    ]
    assert (rows[0]["reason"], rows[0]["payload"]) == ("malformed_object", whole[30:].encode())


def test_rows_of_parquet_are_found_by_file_and_number() -> None:
    """Spark names files by URLs."""
    folder, url = "/data/a b/", "file:///data/a%20b/d%2525/f"
    batch = pa.RecordBatch.from_pydict({"value": [b"{", b"["], "file_path": [url] * 2, "row_index": [0, 9]})
    rows = decoded(decode_udfs.decode_snapshot_rows, batch, folder=folder)
    assert [row["source_position"] for row in rows] == ["d%25/f row 1", "d%25/f row 10"]


def test_texts_of_one_folder_are_read_together_packed_or_not(tmp_path: Path) -> None:
    (tmp_path / "members.txt").write_text("strange\n")
    (tmp_path / "state.txt.gz").write_bytes(gzip.compress(b"\nstranger\n"))
    files = [{"path": str(path), "name": f"d/{path.name}", "is_gzip": path.suffix == ".gz"} for path in sorted(tmp_path.iterdir())]
    rows = decoded(decode_udfs.decode_described_texts, pa.RecordBatch.from_pylist([{"files": files}]), as_of_ms=0)
    assert [row["source_position"] for row in rows] == ["d/members.txt line 1", "d/state.txt.gz line 2"]


def test_a_file_that_a_worker_cannot_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(DecodingFailedError, match=f"^input {tmp_path}/f: cannot be read by a worker .*No such file or directory"):
        decoded(decode_udfs.decode_look_lines, piece_batch(tmp_path / "f", WHOLE))


def test_every_kind_that_is_recognised_has_a_decoder() -> None:
    kinds_of_lines = {Source.CONSUMER_OFFSETS, Source.SNAPSHOT, Source.CLUSTER_METADATA, Source.DUMP_LOG}
    assert set(decode_udfs.LINE_DECODERS) == kinds_of_lines
    assert all(list(decode(iter([]))) == [] for decode in decode_udfs.LINE_DECODERS.values())
    assert list(decode_udfs.decode_formatter_objects(iter([]), '{"key":')) == []
    assert list(decode_udfs.decode_described_texts(iter([]), 0)) == []
    assert list(decode_udfs.decode_snapshot_rows(iter([]), "/")) == []


def test_rows_are_cut_into_batches_and_none_is_lost() -> None:
    rows = ({"kind": str(number)} for number in range(7))
    batches = list(to_batches(rows, SCHEMA, 3))
    assert [batch.num_rows for batch in batches] == [3, 3, 1]
    assert [row["kind"] for batch in batches for row in batch.to_pylist()] == list("0123456")
