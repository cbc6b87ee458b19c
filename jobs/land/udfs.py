"""Worker functions of landing: they decode records, and fold those of KIP-848 groups.

Each is a module-level function over an iterator of batches. Workers import neither pydantic nor great_expectations.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from itertools import groupby
from typing import cast
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from jobs.decoders import cluster_metadata, consumer_offsets, coordinator_log, describe_rows, dump_log, formatter_json, snapshot_lines
from jobs.decoders.compacted_groups import Record
from jobs.decoders.consumer_group_replay import fold
from jobs.decoders.decoded import Row, micros, quarantined
from jobs.decoders.formatter_merge import ADRIFT, Event, UnalignableError, align, positions
from jobs.decoders.offset_commit_columns import RAW_COLUMNS, split_commits
from jobs.decoders.text_pieces import Piece, read, read_beginning, read_blocks, read_whole
from jobs.workers.batches import Batches, to_batches
from jobs.workers.guard import DecodingFailedError, Guard, WorkerLimits, few_collections, limited_memory, out_of_memory
from schemas.row_types import AlignedRow, DecodedRow, FoldedRow, GroupEventRow, LoggedRow, RefusedLineRow
from schemas.staging import ALIGNED_ROWS, DECODED_ROWS, DUMPED_ROWS, EVENT_COLUMNS, FOLDED_ROWS, LOGGED_ROWS, PART_ROWS, REFUSED_COLUMNS
from schemas.vocabulary import Outcome, PlacedBy, Source

_DECODED = to_arrow_schema(DECODED_ROWS)
CHUNK_ROWS, CHUNK_BYTES = 50_000, 32 << 20
"""Size of the chunks that are decoded at once, however small the incoming batches are. A column costs as much for one row as for a
thousand, and in a larger chunk more records share a key, which is decoded once."""
TEXT_BYTES = 8 << 20
"""Size of the text whose rows are in memory at once, plus one record: rows take ten times the memory of their text."""


def decode_raw_records(batches: Batches) -> Batches:
    """Decode ``__consumer_offsets`` records with the columns of ``offset_commit_columns.RAW_COLUMNS``."""
    for chunk in _chunks(batches):
        commits, others = split_commits(chunk)
        yield from commits
        rows = map(consumer_offsets.decode_record, *(others[name].to_pylist() for name in RAW_COLUMNS))
        yield from to_batches(rows, _DECODED, 2_000)


def _chunks(batches: Batches) -> Iterator[pa.Table]:
    """Yield the batches joined to larger tables."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= CHUNK_ROWS or size >= CHUNK_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def decode_raw_record_lines(batches: Batches) -> Batches:
    """Decode ``__consumer_offsets`` records in NDJSON."""
    return _decode_lines(batches, lambda line: (consumer_offsets.decode_line(line),), 2_000)


def decode_look_lines(batches: Batches) -> Batches:
    """Decode topic metadata in NDJSON, one row for each topic."""
    return _decode_lines(batches, cluster_metadata.decode_line, 500)


def decode_snapshot_lines(batches: Batches) -> Batches:
    """Decode snapshots of groups in NDJSON."""
    return _decode_lines(batches, snapshot_lines.decode_line, 500)


def _decode_lines(batches: Batches, decode: Callable[[bytes], Iterable[DecodedRow]], size: int) -> Batches:
    """Decode the lines of pieces; a row without a position of its own gets that of its line."""

    def rows(records: Iterable[_Record]) -> Iterator[DecodedRow]:
        for piece, number, line in records:
            for row in decode(line):
                yield row if "source_position" in row else {**row, "source_position": f"{piece['name']} line {number}"}

    for records in _runs(_records(batches, None)):
        yield from to_batches(rows(records), _DECODED, size)


_Record = tuple[Row, int, bytes]
"""The piece of a record, its number, and its text."""


def _runs(records: Iterable[_Record]) -> Iterator[list[_Record]]:
    """Yield the records in runs; the record that makes a run ``TEXT_BYTES`` long ends it."""
    run: list[_Record] = []
    size = 0
    for record in records:
        run.append(record)
        size += len(record[2])
        if size >= TEXT_BYTES:  # before the next record is read, so that an error message does not name that one
            yield run
            run, size = [], 0
    if run:
        yield run


def _records(batches: Batches, separator: str | None) -> Iterator[_Record]:
    """Yield each record of the pieces with its piece and its number; ``batches`` has the columns of ``reading.PIECES``.

    What is before the first separator of a file has the number 0.

    Raises:
        DecodingFailedError: see ``_records_of``.
    """
    begin = None if separator is None else separator.encode()
    for row in (row for batch in batches for row in batch.to_pylist()):
        for number, record in _records_of(row, begin):
            yield row, number, record


def _records_of(row: Row, separator: bytes | None) -> Iterator[tuple[int, bytes]]:
    """Yield the records of one piece, each with its number.

    Raises:
        DecodingFailedError: this machine cannot read a file that the driver could read.
    """
    try:
        if separator is not None and row["start"] == 0:
            yield 0, read_beginning(row["path"], separator, is_gzip=row["is_gzip"])
        yield from read(row["path"], Piece(row["start"], row["end"], row["number"]), separator, is_gzip=row["is_gzip"])
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(row["path"], error) from error


def _unreadable(path: str, error: Exception) -> DecodingFailedError:
    return DecodingFailedError(f"input {path}: cannot be read by a worker ({error}); give all executors the files that the driver has")


def decode_live_look(batches: Iterable[pa.RecordBatch]) -> Batches:
    """Decode the topic metadata of a live cluster, which is the only value; one row for each topic."""
    lines = (line for batch in batches for line in batch.column("value").to_pylist())
    rows = ({"source_position": "live look", **row} for line in lines for row in cluster_metadata.decode_line(line))
    return to_batches(rows, _DECODED, 500)


def decode_snapshot_rows(batches: Batches, folder: str) -> Batches:
    """Decode snapshots of groups in Parquet, with columns value (a row as JSON), file_path (a URL) and row_index.

    Args:
        folder: the input folder of the files.
    """
    rows = (
        {"source_position": f"{_path_of(url).removeprefix(folder).lstrip('/')} row {index + 1}", **row}
        for batch in batches
        for line, url, index in zip(*(batch.column(name).to_pylist() for name in ("value", "file_path", "row_index")), strict=True)
        for row in snapshot_lines.decode_line(line)
    )
    return to_batches(rows, _DECODED, 500)


@lru_cache(maxsize=1)
def _path_of(url: str) -> str:
    return unquote(urlsplit(url).path)


def decode_described_texts(batches: Batches, as_of_ms: int) -> Batches:
    """Decode what ``kafka-consumer-groups`` prints; each row has the texts of one moment: paths, names and whether they are packed."""
    descriptions = (
        {one["name"]: read_whole(one["path"], is_gzip=one["is_gzip"]) for one in row["files"]}
        for batch in batches
        for row in batch.to_pylist()
    )
    return to_batches((row for texts in descriptions for row in describe_rows.decode_texts(texts, as_of_ms)), _DECODED, 500)


def decode_formatter_objects(batches: Batches, separator: str) -> Batches:
    """Decode what Kafka's formatters print, cut at the text with which each object begins; ``order_in_part`` counts the rows of a part."""
    schema = to_arrow_schema(PART_ROWS)
    for records in _runs(_records(batches, separator)):
        rows = (
            {**row, "source_position": f"{piece['name']} object {number}", "part": piece["path"], "order_in_part": number}
            for piece, number, text in records
            if (row := formatter_json.decode_object(text, number) if number else formatter_json.decode_beginning(text)) is not None
        )
        yield from to_batches(rows, schema, 2_000)


def decode_dumped_lines(batches: Batches) -> Batches:
    """Decode what ``kafka-dump-log`` prints of segments of the log."""

    def rows() -> Iterator[DecodedRow]:
        for piece in (row for batch in batches for row in batch.to_pylist()):
            reader = dump_log.DumpReader(piece["offsets_partition"])
            reader.skip(piece["heading"])
            yield from reader.rows(_records_of(piece, None), piece["name"])

    return to_batches(rows(), to_arrow_schema(DUMPED_ROWS), 2_000)


def decode_coordinator_logs(batches: Batches, zone: str | None) -> Batches:
    """Decode the logs of coordinators; equal lines have one row each. Lines that are neither events nor refused are only counted."""
    schema = to_arrow_schema(LOGGED_ROWS)
    for piece in (row for batch in batches for row in batch.to_pylist()):
        for text in _texts_of(piece):
            yield from to_batches(_logged_rows(piece["path"], coordinator_log.decode_piece(text, zone)), schema, 5_000)


def _texts_of(piece: Row) -> Iterator[bytes]:
    """Yield a piece in parts of whole lines.

    Raises:
        DecodingFailedError: this machine cannot read a file that the driver could read.
    """
    try:
        yield from read_blocks(piece["path"], Piece(piece["start"], piece["end"], piece["number"]), TEXT_BYTES, is_gzip=piece["is_gzip"])
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(piece["path"], error) from error


def _logged_rows(part: str, log: coordinator_log.DecodedLog) -> Iterator[LoggedRow]:
    for line in log.rows:
        decoded = cast(Row, line)
        event = cast(GroupEventRow, {name: decoded[name] for name in EVENT_COLUMNS if name != "logged_at"})
        event["logged_at"] = micros(line["logged_at_ms"])
        yield {"part": part, "outcome": Outcome.LANDED.value, "kind": "event", "line_count": 1, "event": event}
    for _, reason, detail, payload in log.refused:
        refused = quarantined(reason, reason, detail, payload)
        row = cast(RefusedLineRow, {name: cast(Row, refused)[name] for name in REFUSED_COLUMNS})
        yield {"part": part, "outcome": refused["outcome"], "kind": reason, "line_count": 1, "refused": row}
    counts: list[tuple[str | None, str | None, int]] = [(Outcome.SKIPPED.value, kind, count) for kind, count in log.skipped.items()]
    counts += [(Outcome.SKIPPED.value, "too_long", log.too_long), (None, None, log.other_lines)]
    for outcome, kind, count in counts:
        if count:
            yield {"part": part, "outcome": outcome, "kind": kind, "line_count": count}


LINE_DECODERS: dict[Source, Callable[[Batches], Batches]] = {
    Source.CONSUMER_OFFSETS: decode_raw_record_lines,
    Source.SNAPSHOT: decode_snapshot_lines,
    Source.CLUSTER_METADATA: decode_look_lines,
    Source.DUMP_LOG: decode_dumped_lines,
}
"""Source -> the worker function that decodes its lines."""


def decode_within(batches: Batches, decode: Callable[[Batches], Batches], memory_mb: int) -> Batches:
    """Decode with a limit of so many MiB beyond the memory that the worker has.

    Raises:
        DecodingFailedError: the memory is not enough; the message says what it was decoding, or has decoded last.
    """
    where = "the first records of a task"

    def watched() -> Batches:
        nonlocal where
        for batch in batches:
            # A row that names files is large by itself, so that an error message must name it and not the next one.
            step = 1 if {"path", "files"} & set(batch.schema.names) else max(1, batch.num_rows)
            for part in (batch.slice(start, step) for start in range(0, batch.num_rows, step)):
                where = _span_of(part)
                yield part

    with few_collections(), limited_memory(memory_mb):
        try:
            yield from decode(watched())
        except MemoryError as error:
            raise DecodingFailedError(f"decoding {where}, or what follows: {out_of_memory(memory_mb)}") from error


def _span_of(batch: pa.RecordBatch) -> str:
    """Return a text that names the records of an undecoded batch."""
    columns, last = batch.schema.names, batch.num_rows - 1
    if "name" in columns:
        return str(batch.column("name")[last])
    if "files" in columns:
        return ", ".join(file["name"] for file in batch.column("files")[last].as_py())
    if "file_path" in columns:
        return _path_of(batch.column("file_path")[last].as_py())
    first, end = (" ".join(f"{name} {batch.column(name)[row]}" for name in ("partition", "offset")) for row in (0, last))
    return f"records from {first} to {end}"


def fold_groups(batches: Batches, topic_names: Mapping[str, dict[str, str]], limits: WorkerLimits) -> Batches:
    """Fold the records of KIP-848 groups; the records of a group come together, by offset, in one partition.

    Args:
        topic_names: cluster id -> topic id -> name.
        limits: what a worker may use.

    Raises:
        GroupFailedError: anything unexpected, with the cluster and group it happened in.
    """

    def folded(key: tuple[str, str, str], of_group: Iterable[Row]) -> Iterator[FoldedRow]:
        cluster_id, group_id, source = key  # a group has one source
        in_order = (Record(*(row[name] for name in Record._fields)) for row in of_group)
        for snapshot in fold(group_id, in_order, topic_names.get(cluster_id, {})):
            yield {"cluster_id": cluster_id, "source": source, **snapshot}

    def rows(guard: Guard) -> Iterator[FoldedRow]:
        records = (row for batch in batches for row in batch.to_pylist())
        for key, of_group in groupby(records, key=lambda row: (row["cluster_id"], row["group_id"], row["source"])):
            yield from guard.compute(_where(*key[:2]), of_group, partial(folded, key))

    with Guard(limits) as guard:
        yield from to_batches(rows(guard), to_arrow_schema(FOLDED_ROWS), 500)


def _where(cluster_id: str, group_id: str) -> str:
    return f"cluster {cluster_id}, group {group_id}"


SEQUENCE = ("cluster_id", "group_id", "sequence")
STORED = ""
"""The part of the records that are stored already."""


def align_groups(batches: Batches, limits: WorkerLimits) -> Batches:
    """Merge the parts of groups; the records of a part come together and in order, and all of a group in one partition.

    Columns: cluster_id, group_id, sequence, part, order_in_part, token, is_end, time_ms, and of stored records stored_ms and placed_by. A
    group has several sequences, each on its own.

    Args:
        limits: what a worker may use.

    Raises:
        GroupFailedError: anything unexpected, with the cluster and group it happened in.
    """

    def rows(guard: Guard) -> Iterator[AlignedRow]:
        records = (row for batch in batches for row in batch.to_pylist())
        for key, of_sequence in groupby(records, key=lambda row: tuple(row[name] for name in SEQUENCE)):
            yield from guard.compute(_where(*key[:2]), of_sequence, partial(_aligned, key))

    with Guard(limits) as guard:
        yield from to_batches(rows(guard), to_arrow_schema(ALIGNED_ROWS), 5_000)


def _aligned(key: tuple[str, str, str], of_sequence: Iterable[Row]) -> Iterator[AlignedRow]:
    group: AlignedRow = {"cluster_id": key[0], "group_id": key[1], "sequence": key[2]}
    parts = {part: list(of_part) for part, of_part in groupby(of_sequence, key=lambda row: row["part"])}
    events = {part: [(row, event) for row in rows for event in _events(row)] for part, rows in parts.items()}
    try:
        placed = align([[event for _, event in of_part] for of_part in events.values()])
    except UnalignableError as error:
        yield {**group, "problem": str(error), "part": ", ".join(part or "what has landed" for part in parts)}
        return
    # A tombstone that comes as two events and still is one has one position.
    found = [
        list({(row["order_in_part"], merged): row for (row, _), merged in zip(of_part, records, strict=True)}.items())
        for of_part, records in zip(events.values(), placed, strict=True)
    ]
    kept = found[0] if STORED in parts else ()  # the empty name sorts first
    stored = {merged.index: row["order_in_part"] for (_, merged), row in kept if not merged.is_adrift and row["order_in_part"] < ADRIFT}
    in_order = positions(stored, max((1 + merged.index for of_part in placed for merged in of_part if not merged.is_adrift), default=0))
    for part, rows in zip(parts, found, strict=True):
        times_placed = Counter(row["order_in_part"] for _, row in rows)
        for (_, merged), row in rows:
            position = ADRIFT + merged.index if merged.is_adrift else in_order[merged.index]
            now: AlignedRow = {"position": position, "time_ms": merged.time_ms, "placed_by": merged.placed_by}
            is_moved = part == STORED and (times_placed[row["order_in_part"]] > 1 or _is_moved(row, now))
            yield {**group, "part": part, "order_in_part": row["order_in_part"], **now, "is_moved": is_moved}


def _is_moved(row: Row, now: AlignedRow) -> bool:
    """Return whether a stored record has another position now, another ``placed_by``, or another time of a neighbour."""
    is_retimed = row["stored_ms"] is not None and now["time_ms"] not in (None, row["stored_ms"])
    return is_retimed or (now["position"], now["placed_by"]) != (row["order_in_part"], row["placed_by"])


def _events(row: Row) -> list[Event]:
    """Return the events of a record: two for a stored tombstone that both its neighbours place, else one.

    A record that was stored before ``placed_by`` existed counts as placed by the record before it.
    """
    is_adrift = row["part"] == STORED and row["order_in_part"] >= ADRIFT
    leads = {PlacedBy.NEXT.value: [True], PlacedBy.BOTH.value: [False, True]}.get(row["placed_by"], [False])
    return [Event(row["token"], row["is_end"], row["time_ms"], is_adrift, leads_so) for leads_so in leads]
