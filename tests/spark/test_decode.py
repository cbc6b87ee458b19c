"""Decoding in the workers: every row fits its columns, and each says where it came from."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from pyspark.sql.pandas.types import to_arrow_schema

from jobs import udfs
from jobs.captures import NDJSON, PARQUET
from jobs.sources import cluster_metadata, consumer_offsets
from schemas.staging import DECODED_ROWS, TARGETS
from schemas.vocabulary import Source
from tests.unit import records

SCHEMA = to_arrow_schema(DECODED_ROWS)


def line_batch(*lines: tuple[str, str, int]) -> pa.RecordBatch:
    """Return lines with their file and the byte at which their block starts."""
    return pa.RecordBatch.from_pylist([{"value": line.encode(), "file_name": name, "block_start": start} for line, name, start in lines])


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
def test_any_line_of_looks_fits_its_columns(line: bytes) -> None:
    assert_fits(list(cluster_metadata.decode_line(line)))


def test_parquet_rows_are_decoded_column_by_column() -> None:
    columns = {
        "key": [records.commit_key("g", "t", 0), None],
        "value": [records.commit_value(2**53 + 1, 1_000), b""],
        "partition": [3, 4],
        "offset": [2**53 + 1, 5],
        "timestamp_ms": [1_000, 1_000],
    }
    (batch,) = udfs.decode_raw_records(iter([pa.RecordBatch.from_pydict(columns)]))
    first, second = batch.to_pylist()
    assert (first["source_position"], first["offset_commit"]["committed_offset"]) == (f"3@{2**53 + 1}", 2**53 + 1)
    assert (second["outcome"], second["source_position"]) == ("quarantined", "4@5")


def test_a_line_without_a_place_of_its_own_is_found_by_file_and_number() -> None:
    """Numbers go on over batches of one block and begin anew in another; blank lines count and are no records."""
    batches = [
        line_batch(("{", "a.json", 0), ("", "a.json", 0)),
        line_batch(("{", "a.json", 0), ("{", "a.json", 4096), ("{", "b.json", 0), (records.record_line(), "b.json", 0)),
    ]
    rows = [row for batch in udfs.decode_raw_record_lines(iter(batches)) for row in batch.to_pylist()]
    assert [row["source_position"] for row in rows] == [
        "a.json line 1",
        "a.json line 3",
        "a.json line 1 behind byte 4096",
        "b.json line 1",
        "3@9",
    ]


def test_a_look_has_a_place_of_its_own() -> None:
    rows = [row for batch in udfs.decode_look_lines(iter([line_batch((json.dumps(records.look()), "f", 0))])) for row in batch.to_pylist()]
    assert [(row["source_position"], row["cluster_id"], row["look"]["topic"]) for row in rows] == [("1000 t", "own", "t")]


@pytest.mark.parametrize("kind", [(Source.CONSUMER_OFFSETS, PARQUET), (Source.CONSUMER_OFFSETS, NDJSON), (Source.CLUSTER_METADATA, NDJSON)])
def test_every_kind_that_is_recognised_has_a_decoder(kind: tuple[Source, str]) -> None:
    assert list(udfs.DECODERS[kind](iter([]))) == []
    assert set(udfs.DECODERS) == {(Source.CONSUMER_OFFSETS, PARQUET), (Source.CONSUMER_OFFSETS, NDJSON), (Source.CLUSTER_METADATA, NDJSON)}


def test_rows_are_cut_into_batches_and_none_is_lost() -> None:
    rows = ({"kind": str(number)} for number in range(7))
    batches = list(udfs._to_batches(rows, SCHEMA, 3))
    assert [batch.num_rows for batch in batches] == [3, 3, 1]
    assert [row["kind"] for batch in batches for row in batch.to_pylist()] == list("0123456")
