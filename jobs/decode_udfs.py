"""Worker functions of landing: records decoded, and those of KIP-848 groups folded.

Each is a module-level function over an iterator of batches. Workers import neither pydantic nor great_expectations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import groupby

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from jobs.batches import Batches, to_batches
from jobs.commit_columns import RAW_COLUMNS, split_commits
from jobs.sources import cluster_metadata, consumer_offsets, describe_rows, formatter_json, snapshot_lines
from jobs.sources.consumer_group_fold import Record, fold
from jobs.sources.decoded import Row
from jobs.sources.sequences import ADRIFT, Event, UnalignableError, align, positions
from jobs.worker_guard import DecodingFailedError, Guard, WorkerLimits, limited_memory, out_of_memory
from schemas.staging import ALIGNED_ROWS, DECODED_ROWS, FOLDED_ROWS, PART_ROWS
from schemas.vocabulary import PlacedBy, Source

_DECODED = to_arrow_schema(DECODED_ROWS)
CHUNK_ROWS, CHUNK_BYTES = 50_000, 32 << 20
"""Records decoded at once, however small the batches are in which they come: a column costs as much for one row as for a thousand, and
the more records there are, the more of them share a key, which is decoded once."""


def decode_raw_records(batches: Batches) -> Batches:
    """Decode ``__consumer_offsets`` records with the columns of ``commit_columns.RAW_COLUMNS``."""
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


def _lines(batches: Iterable[pa.RecordBatch], part: str = "file_name") -> Iterator[tuple[bytes, str, int, str]]:
    """Yield each line that is not blank, with its part, a number that orders the lines of the part, and its place in words.

    Args:
        part: column that tells files apart, beside value, file_name and block_start.
    """
    numbers: dict[tuple[str, int], int] = {}
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in ("value", part, "file_name", "block_start")]
        for line, of_part, file_name, block_start in zip(*columns, strict=True):
            number = numbers[of_part, block_start] = numbers.get((of_part, block_start), 0) + 1
            behind = f" behind byte {block_start}" if block_start else ""
            if line.strip():
                yield line, of_part, block_start + number, f"{file_name} line {number}{behind}"


def _decode_lines(batches: Iterable[pa.RecordBatch], decode: Callable[[bytes], Iterable[Row]], size: int) -> Batches:
    """Decode lines with the columns value, file_name, block_start; a row without a place of its own gets its line's."""
    rows = ({"source_position": place, **row} for line, _, _, place in _lines(batches) for row in decode(line))
    return to_batches(rows, _DECODED, size)


def decode_raw_record_lines(batches: Batches) -> Batches:
    """Decode ``__consumer_offsets`` records in NDJSON."""
    return _decode_lines(batches, lambda line: (consumer_offsets.decode_line(line),), 2_000)


def decode_look_lines(batches: Iterable[pa.RecordBatch]) -> Batches:
    """Decode looks at the cluster in NDJSON, one row a topic."""
    return _decode_lines(batches, cluster_metadata.decode_line, 500)


def decode_snapshot_lines(batches: Batches) -> Batches:
    """Decode snapshots of groups in NDJSON, or rows of Parquet turned into it."""
    return _decode_lines(batches, snapshot_lines.decode_line, 500)


def decode_described_texts(batches: Batches, as_of_ms: int) -> Batches:
    """Decode what ``kafka-consumer-groups`` prints; each row has the names and contents of texts that are one look."""
    looks = (dict(zip(row["names"], row["contents"], strict=True)) for batch in batches for row in batch.to_pylist())
    return to_batches((row for texts in looks for row in describe_rows.decode_texts(texts, as_of_ms)), _DECODED, 500)


def decode_formatter_objects(batches: Batches, separator: str) -> Batches:
    """Decode what Kafka's formatters print, cut at the text with which each object begins; the place of a row is that in its part."""
    begin = separator.encode()
    rows = (
        {**formatter_json.decode_object(begin + rest, number), "source_position": words, "part": part, "place": number}
        for rest, part, number, words in _lines(batches, "part")
    )
    return to_batches(rows, to_arrow_schema(PART_ROWS), 2_000)


DECODERS: dict[tuple[Source, str], Callable[[Batches], Batches]] = {
    (Source.CONSUMER_OFFSETS, "parquet"): decode_raw_records,
    (Source.CONSUMER_OFFSETS, "ndjson"): decode_raw_record_lines,
    (Source.SNAPSHOT, "parquet"): decode_snapshot_lines,
    (Source.SNAPSHOT, "ndjson"): decode_snapshot_lines,
    (Source.CLUSTER_METADATA, "ndjson"): decode_look_lines,
}
"""(kind of capture, encoding) -> the worker function that decodes its rows, where it needs to be told nothing else."""


def decode_within(batches: Batches, decode: Callable[[Batches], Batches], memory_mb: int) -> Batches:
    """Decode with so many MiB beyond what the worker has, and no more.

    Raises:
        DecodingFailedError: that is not enough; says what it was decoding, or has decoded last.
    """
    where = "the first records of a task"

    def watched() -> Batches:
        nonlocal where
        for batch in batches:
            where = _span_of(batch) if batch.num_rows else where
            yield batch

    with limited_memory(memory_mb):
        try:
            yield from decode(watched())
        except MemoryError as error:
            raise DecodingFailedError(f"decoding {where}, or what follows: {out_of_memory(memory_mb)}") from error


def _span_of(batch: pa.RecordBatch) -> str:
    """Return which records a batch of undecoded ones has."""
    columns, last = batch.schema.names, batch.num_rows - 1
    if "file_name" in columns:
        return str(batch.column("file_name")[last])
    if "names" in columns:
        return ", ".join(batch.column("names")[last].as_py())
    first, end = (" ".join(f"{name} {batch.column(name)[row]}" for name in ("partition", "offset")) for row in (0, last))
    return f"records from {first} to {end}"


def fold_groups(batches: Batches, topic_names: Mapping[str, dict[str, str]], limits: WorkerLimits) -> Batches:
    """Fold the records of KIP-848 groups; a group's records come one after another, by offset, in one partition.

    Args:
        topic_names: cluster id -> topic id -> name.
        limits: what a worker may use.

    Raises:
        GroupFailedError: anything unexpected, with the cluster and group it happened in.
    """

    def folded(key: tuple[str, str], of_group: Iterable[Row]) -> Iterator[Row]:
        cluster_id, group_id = key
        in_order = (Record(*(row[name] for name in Record._fields)) for row in of_group)
        for snapshot in fold(group_id, in_order, topic_names.get(cluster_id, {})):
            yield {"cluster_id": cluster_id, **snapshot}

    def rows(guard: Guard) -> Iterator[Row]:
        records = (row for batch in batches for row in batch.to_pylist())
        for key, of_group in groupby(records, key=lambda row: (row["cluster_id"], row["group_id"])):
            yield from guard.compute(_where(*key), of_group, partial(folded, key))

    with Guard(limits) as guard:
        yield from to_batches(rows(guard), to_arrow_schema(FOLDED_ROWS), 500)


def _where(cluster_id: str, group_id: str) -> str:
    return f"cluster {cluster_id}, group {group_id}"


SEQUENCE = ("cluster_id", "group_id", "sequence")
STORED = ""
"""The part that a warehouse holds already."""


def align_groups(batches: Batches, limits: WorkerLimits) -> Batches:
    """Put the parts of groups together; records of one part come one after another, in order, and all of a group in one partition.

    Columns: cluster_id, group_id, sequence, part, place, token, is_end, time_ms, and of stored records stored_ms and placed_by. A group has
    several sequences, each on its own.

    Args:
        limits: what a worker may use.

    Raises:
        GroupFailedError: anything unexpected, with the cluster and group it happened in.
    """

    def rows(guard: Guard) -> Iterator[Row]:
        records = (row for batch in batches for row in batch.to_pylist())
        for key, of_sequence in groupby(records, key=lambda row: tuple(row[name] for name in SEQUENCE)):
            yield from guard.compute(_where(*key[:2]), of_sequence, partial(_aligned, dict(zip(SEQUENCE, key, strict=True))))

    with Guard(limits) as guard:
        yield from to_batches(rows(guard), to_arrow_schema(ALIGNED_ROWS), 5_000)


def _aligned(group: Row, of_sequence: Iterable[Row]) -> Iterator[Row]:
    parts = {part: list(of_part) for part, of_part in groupby(of_sequence, key=lambda row: row["part"])}
    told = {part: [(row, event) for row in rows for event in _events(row)] for part, rows in parts.items()}
    try:
        placed = align([[event for _, event in of_part] for of_part in told.values()])
    except UnalignableError as error:
        yield {**group, "problem": str(error), "part": ", ".join(part or "what has landed" for part in parts)}
        return
    # A tombstone that comes as two events and still is one has one place.
    found = [
        list({(row["place"], place): row for (row, _), place in zip(of_part, places, strict=True)}.items())
        for of_part, places in zip(told.values(), placed, strict=True)
    ]
    kept = found[0] if STORED in parts else ()  # the empty name sorts first
    stored = {place.index: row["place"] for (_, place), row in kept if not place.is_adrift and row["place"] < ADRIFT}
    in_order = positions(stored, max((1 + place.index for of_part in placed for place in of_part if not place.is_adrift), default=0))
    for part, rows in zip(parts, found, strict=True):
        times_placed = Counter(row["place"] for _, row in rows)
        for (_, place), row in rows:
            position = ADRIFT + place.index if place.is_adrift else in_order[place.index]
            now = {"position": position, "time_ms": place.time_ms, "placed_by": place.placed_by}
            is_moved = part == STORED and (times_placed[row["place"]] > 1 or _is_moved(row, now))
            yield {**group, "part": part, "place": row["place"], **now, "is_moved": is_moved}


def _is_moved(row: Row, now: Row) -> bool:
    """Return whether a stored record stands elsewhere now, by something else, or has another time of a neighbour."""
    is_retimed = row["stored_ms"] is not None and now["time_ms"] not in (None, row["stored_ms"])
    return is_retimed or (now["position"], now["placed_by"]) != (row["place"], row["placed_by"])


def _events(row: Row) -> list[Event]:
    """Return what a record tells: a stored tombstone that both its neighbours place is one by each of them.

    Where it was stored before there was ``placed_by``, it is taken to have been told behind the record before.
    """
    is_adrift = row["part"] == STORED and row["place"] >= ADRIFT
    leads = {PlacedBy.NEXT.value: [True], PlacedBy.BOTH.value: [False, True]}.get(row["placed_by"], [False])
    return [Event(row["token"], row["is_end"], row["time_ms"], is_adrift, leads_so) for leads_so in leads]
