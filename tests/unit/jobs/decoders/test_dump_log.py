"""What kafka-dump-log prints of segments is read as the records themselves are; dumps of Kafka's own tools are the inputs."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.decoders import text_pieces
from jobs.decoders.captures import HEAD_BYTES, Capture, find_captures
from jobs.decoders.consumer_offsets import decode_record
from jobs.decoders.dump_log import DumpReader, with_headings
from jobs.runtime.errors import InputError
from schemas.vocabulary import Source

ROOT = Path(__file__).parents[4]
DUMPS = ROOT / "tests" / "golden" / "dump_log"
TRANSACTIONS = (DUMPS / "transactions-4.3.1.txt").read_bytes()
Row = dict[str, Any]
KEY = '{"type":"1","data":{"group":"g","topic":"t","partition":0}}'
VALUE = '{"version":"3","data":{"offset":5,"leaderEpoch":0,"metadata":"","commitTimestamp":1}}'
SEGMENT = "Dumping /var/lib/kafka/__consumer_offsets-12/00000000000000000000.log"


def line(rest: str, offset: int | str = 7, value_size: int = 29) -> str:
    sizes = f"keySize: 26 valueSize: {value_size} sequence: -1 headerKeys: []"
    return f"| offset: {offset} CreateTime: 1727354208209 {sizes} {rest}"


RECORD = line(f"key: {KEY} payload: {VALUE}")


def read(text: bytes, default: int | None = None) -> list[Row]:
    return list(DumpReader(default).rows([(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()], "f"))


def dump(release: str) -> list[Row]:
    return read(gzip.decompress((DUMPS / f"kafka-{release}.txt.gz").read_bytes()))


@pytest.fixture(scope="module")
def raw() -> dict[str, Row]:
    """Return by place what the records of the recorded cluster are decoded to."""
    records = pq.read_table(ROOT / "tests/golden/capture/consumer_offsets.parquet").to_pylist()
    rows = [
        decode_record(row["key"], row["value"], row["partition"], row["offset"], round(row["timestamp"].timestamp() * 1000), True)
        for row in records
    ]
    return {row["source_position"]: row for row in rows}


def without(row: Row, *names: str) -> Row:
    """Return a row, its content without some columns."""
    return {
        name: {column: of for column, of in value.items() if column not in names} if isinstance(value, dict) else value
        for name, value in row.items()
    }


def test_dump_of_the_brokers_release_is_the_log(raw: dict[str, Row]) -> None:
    """All 962 records of both protocols, tombstones, and groups that are none of consumers; of KIP-848 groups byte for byte."""
    rows = dump("4.3.1")
    assert len(rows) == len(raw) == 962
    for row in rows:
        expected = raw[row["source_position"]]
        if expected.get("snapshot", {}).get("members"):  # the version of an assignment is not printed
            assert row["snapshot"]["leader_client"] is None
            row, expected = (without(one, "fingerprint", "leader_client") for one in (row, expected))
        assert row == expected


def test_tool_of_an_older_release_loses_what_it_does_not_know(raw: dict[str, Row]) -> None:
    """3.8 knows no topic id in commits, no hashes of metadata, no regular expressions and no streams groups."""
    rows = dump("3.8.1")
    assert len(rows) == 962
    unknown = [row for row in rows if row.get("reason") == "unknown_to_tool"]
    assert {row["kind"] for row in unknown} == {"consumer_group_regular_expression"} and len(unknown) == 2
    assert all("the tool of the broker's release" in row["detail"] for row in unknown)
    for row in rows:
        expected = raw[row["source_position"]]
        if row not in unknown:
            lost = ("fingerprint", "leader_client", "topic_id", "value")
            assert without(row, *lost) == without(expected, *lost)


def test_markers_of_a_dump_belong_to_the_producers_of_commits() -> None:
    rows = read(TRANSACTIONS)
    markers = {
        int(row["source_position"].removeprefix("7@")): (
            row.get("offset_commit", {}).get("is_uncertain"),
            row.get("producer_id"),
            row.get("transaction_end"),
        )
        for row in rows
    }
    plain = (False, None, None)
    assert markers == {
        **{offset: plain for offset in (0, 5, 10)},
        **{offset: (True, 4001, None) for offset in (1, 3, 8)},
        **{offset: (True, 4002, None) for offset in (2, 7)},
        **{4: (None, 4001, "COMMIT"), 6: (None, 4002, "ABORT"), 9: (None, 4002, "COMMIT")},
    }
    assert {row["kind"] for row in rows if row["outcome"] == "skipped"} == {"transaction_marker"}
    batchless = read(b"\n".join(text for text in TRANSACTIONS.splitlines() if not text.startswith(b"baseOffset: ")))
    assert {row["offset_commit"].get("is_uncertain") for row in batchless if "offset_commit" in row} == {None}


@given(piece_bytes=st.integers(200, 4_000))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None)
def test_pieces_give_what_the_whole_gives(piece_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever a dump of two files is cut, between a file's name, a batch and its record too."""
    text = TRANSACTIONS + TRANSACTIONS.replace(b"__consumer_offsets-7", b"__consumer_offsets-8")
    monkeypatch.setattr(text_pieces, "PIECE_BYTES", piece_bytes)
    content = io.BytesIO(text)
    pieces = list(with_headings(content, list(text_pieces.cut(content, None, 1 << 20))))
    found: list[Row] = []
    for piece in pieces:
        reader = DumpReader(None)
        reader.skip(piece.heading)
        found += reader.rows(enumerate(text[piece.start : piece.end].splitlines(), piece.number), "f")
    assert len(pieces) > 2 and found == read(text)


@pytest.mark.parametrize(
    ("text", "reason", "said"),
    [
        (line(f"key: {KEY}"), "malformed_object", "after the key"),
        (line(f"key: {KEY} payload: {VALUE[:-2]}"), "malformed_object", ""),
        (line(f"key: {KEY} payload: {VALUE} x"), "malformed_object", "Extra data"),
        (line("key: " + KEY.replace('"1"', "1") + f" payload: {VALUE}"), "malformed_object", "expected a number in quotes, found 1"),
        (line(f"key: {KEY} payload: " + VALUE.replace('"3"', '"9"')), "malformed_object", "found value version 9, expected 0 to 4"),
        (line("key: " + KEY.replace('"group":"g",', "") + f" payload: {VALUE}"), "malformed_object", "group is missing"),
        (line(f"key: {KEY} payload: null"), "malformed_object", "NoneType"),
        (line("key: Error at offset 7, skipping. Could not read record"), "unreadable_to_tool", "Could not read record"),
        (line(""), "malformed_object", "no key"),
        (line(f"key: {KEY} payload: {VALUE}", offset=2**63 - 1), "offset_out_of_range", ""),
        ("| key: {} payload: {}", "malformed_line", "with an offset, a time, and a key"),
        ("[1, 2", "malformed_line", "found '[1, 2'"),
        ("", "", ""),
        ("Found 12 invalid bytes at the end of 00000000000000000000.log", "", ""),
        ("Non-consecutive offsets in /a/b.log", "", ""),
        ("  10 is followed by 12", "", ""),
        ("Found timestamp mismatch in :/a/0.timeindex\n  Index timestamp: 0, log timestamp: 17", "", ""),
        ("Found out of order timestamp in :/a/0.timeindex\n  Index timestamp: 0, Previously indexed timestamp: 17", "", ""),
        ("The following indexed offsets are not found in the log.\nIndexed offset: 5, found log offset: 6", "", ""),
        ("Ignoring unknown file /a/__consumer_offsets-3/partition.metadata\ntimestamp: 17 offset: 5", "", ""),
        ("[2025-03-01 10:00:00,123] WARN x (y)", "", ""),
    ],
)
def test_bad_lines_are_quarantined_with_their_reason(text: str, reason: str, said: str) -> None:
    rows = read(f"{SEGMENT}\n{RECORD.replace('offset: 7', 'offset: 6')}\n{text}\n".encode())
    assert rows[0]["source_position"] == "12@6" and rows[0]["offset_commit"]["committed_offset"] == 5
    assert [(row["reason"], said in row["detail"]) for row in rows[1:]] == ([(reason, True)] if reason else [])


def test_partition_of_a_dump_comes_from_the_segment_path_only() -> None:
    text = f"{RECORD}\n{SEGMENT}\n{RECORD}\nDumping C:\\kafka\\__consumer_offsets-3\\0.log\n{RECORD}\nDumping 0.log\n{RECORD}\nx\n"
    assert [row["source_position"] for row in read(text.encode(), 9)] == ["9@7", "12@7", "3@7", "9@7", "f line 8"]
    lost = read(text.encode())
    assert [(row["source_position"], row.get("reason")) for row in lost[:2]] == [("f line 1", "missing_position"), ("12@7", None)]


@given(st.lists(st.one_of(st.text(max_size=60), st.sampled_from([RECORD, SEGMENT, *TRANSACTIONS.decode().splitlines()])), max_size=12))
def test_each_line_has_one_row_at_most(lines: list[str]) -> None:
    """Whatever stands in it; a record line always has one."""
    text = [(number, entry.encode("utf-8", "surrogatepass")) for number, entry in enumerate(lines, 1)]
    rows = list(DumpReader(None).rows(text, "f"))
    assert sum(entry.startswith("| offset: ") for entry in lines) <= len(rows) <= len(lines)


def capture(folder: Path, text: str, partition: int | None = None) -> Capture:
    (folder / "dump").write_text(text)
    (found,) = find_captures((str(folder / "dump"),), None, partition)
    return found


def test_dump_needs_a_partition(tmp_path: Path) -> None:
    found = capture(tmp_path, f"{SEGMENT}\nLog starting offset: 0\n{RECORD}\n")
    assert (found.source, found.offsets_partition) == (Source.DUMP_LOG, None)
    assert capture(tmp_path, f"{RECORD}\n", 4).offsets_partition == 4
    for begin in ("", "Dumping 00000000000000000000.log\n", "Dumping /a/orders-3/00000000000000000000.log\n"):
        with pytest.raises(InputError, match=r"dump: found no line 'Dumping .*name the partition with --offsets-partition"):
            capture(tmp_path, f"{begin}{RECORD}\n")


def test_dump_may_begin_with_markers_for_long(tmp_path: Path) -> None:
    """Compaction removes superseded commits, and keeps the markers of their transactions for a day."""
    marker = "| offset: {} CreateTime: 1 keySize: 4 valueSize: 6 sequence: -1 headerKeys: [] endTxnMarker: COMMIT coordinatorEpoch: 12\n"
    markers = "".join(marker.format(offset) for offset in range(HEAD_BYTES // 100))
    for text in (f"{SEGMENT}\n{markers}{RECORD}\n", f"{SEGMENT}\n{markers}"):
        assert capture(tmp_path, text).source is Source.DUMP_LOG
    other = SEGMENT.replace("__consumer_offsets-12", "orders-3")
    for text in (f"{SEGMENT}\n{markers}{line('key: g payload: x')}\n", f"{other}\n{markers}"):
        with pytest.raises(InputError, match="kafka-dump-log before"):
            capture(tmp_path, text)


def test_dump_without_typed_json_is_refused(tmp_path: Path) -> None:
    """Of --print-data-log alone, and of 1.1 to 3.7."""
    old = "key: offset_commit::group=g,partition=t-0 payload: offset=5"
    for rest in (f"key: {json.loads(KEY)['data']['group']} payload: x", old):
        with pytest.raises(InputError, match=r"kafka-dump-log before 3\.8, without --offsets-decoder, or cut .*of Kafka 3\.8 or newer"):
            capture(tmp_path, f"{SEGMENT}\nLog starting offset: 0\n{line(rest)}\n")
