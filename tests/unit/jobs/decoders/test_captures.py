"""Which files a run takes in, which it passes over, and which it refuses."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from jobs.decoders import captures, text_pieces
from jobs.decoders.captures import Capture, content_digest, find_captures, fingerprint
from jobs.decoders.formatter_json import decode_object
from jobs.decoders.text_pieces import WHOLE, Piece
from jobs.runtime.errors import InputError
from schemas.vocabulary import Source
from tests.builders import records

ROOT = Path(__file__).resolve().parents[4]
RAW_RECORDS = {
    "key": pyarrow.array([b"k"], pyarrow.binary()),
    "value": pyarrow.array([None], pyarrow.binary()),
    "partition": pyarrow.array([0], pyarrow.int32()),
    "offset": pyarrow.array([1], pyarrow.int64()),
    "timestamp": pyarrow.array([datetime(2026, 1, 1, tzinfo=timezone.utc)], pyarrow.timestamp("us", "UTC")),
    "timestampType": pyarrow.array([0], pyarrow.int32()),
}


def parquet(path: Path, **changes: pyarrow.Array | None) -> Path:
    columns = {name: column for name, column in {**RAW_RECORDS, **changes}.items() if column is not None}
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


def lines(path: Path, *texts: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = "".join(f"{text}\n" for text in texts).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def look_line(cluster_id: str | None = None) -> str:
    return json.dumps(records.look(cluster_id=cluster_id))


def found(*inputs: Path, forced: Source | None = None) -> dict[str, tuple[str, str, str | None]]:
    captures = find_captures(tuple(map(str, inputs)), forced)
    return {Path(one.path).name: (str(one.source), one.encoding, one.cluster_id) for one in captures}


def test_kinds_are_recognised_by_content_and_not_by_name(tmp_path: Path) -> None:
    parquet(tmp_path / "no-suffix")
    lines(tmp_path / "records.txt", records.record_line())
    lines(tmp_path / "looks.json.gz", look_line())
    assert found(tmp_path) == {
        "looks.json.gz": ("cluster-metadata", "lines", None),
        "no-suffix": ("consumer-offsets", "parquet", None),
        "records.txt": ("consumer-offsets", "lines", None),
    }


def test_captures_come_in_an_order_of_their_own(tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        lines(tmp_path / name, records.record_line())
    captures = find_captures((str(tmp_path / "b"), str(tmp_path)))
    assert [Path(one.path).name for one in captures] == ["a", "b", "c"]
    size = (tmp_path / "a").stat().st_size
    assert captures[0] == Capture(str(tmp_path / "a"), Source.CONSUMER_OFFSETS, "lines", size, name="a", pieces=(Piece(0, size, 1),))


def test_a_file_that_is_named_twice_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines(tmp_path / "looks", look_line("own"))
    lines(tmp_path / "records", records.record_line())
    monkeypatch.chdir(tmp_path)
    captures = find_captures((str(tmp_path), str(tmp_path / "records"), "records"))
    assert [(Path(one.path).name, one.cluster_id) for one in captures] == [("looks", "own"), ("records", "own")]


def test_files_that_are_no_captures_are_passed_over(tmp_path: Path) -> None:
    lines(tmp_path / "records", records.record_line())
    lines(tmp_path / "README.md", "# A capture")
    lines(tmp_path / "summary.json", json.dumps({"records": 1}))
    (tmp_path / "image").write_bytes(b"\xff\xfe\xfd")
    parquet(tmp_path / "_temporary" / "part-0")
    parquet(tmp_path / ".hidden")
    assert list(found(tmp_path)) == ["records"]


def table(path: Path) -> Path:
    """A table whose files would pass for captures of snapshots, as those of ``subscription_snapshots`` do."""
    texts = pyarrow.array(["a"])
    parquet(path / "observed_month=2026-11" / "part-0.parquet", group_id=texts, group_type=texts)
    lines(path / "_delta_log" / "00000000000000000000.json", "{}")
    return path


def test_tables_among_captures_are_passed_over_and_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A warehouse in the folder that is landed, and a copy of one of its tables."""
    caplog.set_level("INFO", "jobs")
    lines(tmp_path / "a" / "records", records.record_line())
    for name in ("runs", "subscription_snapshots"):
        table(tmp_path / "warehouse" / name)
    table(tmp_path / "a" / "copy")
    assert list(found(tmp_path)) == ["records"]
    assert sorted(record.getMessage() for record in caplog.records) == [
        f"passed over 1 Delta tables in the folder {tmp_path}/a, such as copy: they are not captures",
        f"passed over 2 Delta tables in the warehouse {tmp_path}/warehouse, such as runs: they are not captures",
    ]


@pytest.mark.parametrize("name", ["", "observed_month=2026-11", "observed_month=2026-11/part-0.parquet", "../link"])
def test_a_table_is_no_input(name: str, tmp_path: Path) -> None:
    whole = table(tmp_path / "copy")
    (tmp_path / "link").symlink_to(whole / "observed_month=2026-11")
    with pytest.raises(InputError) as refused:
        find_captures((str(whole / name),))
    assert f": found the Delta table {whole}, expected captures; write its rows as Parquet into another folder" in str(refused.value)


def test_an_export_does_not_pass_for_a_capture(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A group can call itself a description of groups; a quoted cell of CSV has it on lines of its own."""
    caplog.set_level("INFO", "jobs")
    key = "cluster_id,group_id,generation,observed_at,position,rule_id"
    description = "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID"
    lines(tmp_path / "description", description)
    (tmp_path / "findings.csv").write_bytes(f'{key},severity\r\nc,"\n{description}\n",1,,1,r,info\r\n'.encode())
    assert list(found(tmp_path)) == ["description"]
    assert [record.getMessage() for record in caplog.records] == [f"skipped 1 files that a report wrote, such as {tmp_path}/findings.csv"]


# -- the cluster


def test_files_of_a_folder_share_its_cluster_id(tmp_path: Path) -> None:
    """Spark writes a folder of parts: they lie one level below the looks."""
    parquet(tmp_path / "offsets" / "part-0")
    lines(tmp_path / "looks", look_line("own"))
    assert {name: cluster_id for name, (_, _, cluster_id) in found(tmp_path).items()} == {"part-0": "own", "looks": "own"}


def test_files_named_one_by_one_share_their_cluster_id(tmp_path: Path) -> None:
    offsets, looks = parquet(tmp_path / "offsets"), lines(tmp_path / "looks", look_line("own"))
    assert found(offsets, looks)["offsets"][2] == "own"


def test_each_cluster_below_one_folder_keeps_its_own_id(tmp_path: Path) -> None:
    for cluster in ("eu", "us"):
        parquet(tmp_path / cluster / f"{cluster}-offsets")
        lines(tmp_path / cluster / f"{cluster}-looks", look_line(cluster))
    parquet(tmp_path / "stray")
    ids = {name: cluster_id for name, (_, _, cluster_id) in found(tmp_path).items()}
    assert ids == {"eu-offsets": "eu", "eu-looks": "eu", "us-offsets": "us", "us-looks": "us", "stray": None}


def test_captures_without_a_clear_cluster_are_named_up_to_a_number(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(7):
        lines(tmp_path / f"c{number}" / "look", look_line(f"c{number}"))
    for number in range(25):
        lines(tmp_path / f"stray{number:02}", records.record_line())
    found(tmp_path)
    messages = [record.getMessage() for record in caplog.records]
    ids = "c0, c1, c2, c3, c4 and 2 more"
    assert messages[:-1] == [
        f"{tmp_path}/stray{number:02} has no cluster id, and the captures in its folder name several: {ids}; name one with --cluster-id"
        for number in range(20)
    ]
    assert messages[-1] == "25 captures in all have no cluster id, and several in their folders"


# -- refusals


@pytest.mark.parametrize(
    ("make", "message"),
    [
        pytest.param(lambda folder: folder / "absent", "no such file or folder", id="nothing there"),
        pytest.param(lambda folder: folder, "no capture in this folder", id="an empty folder"),
        pytest.param(lambda folder: lines(folder / "f"), "the file is empty", id="an empty file"),
        pytest.param(lambda folder: lines(folder / "f", "text"), "the first line is not JSON; expected one of consumer-offsets", id="text"),
        pytest.param(lambda folder: lines(folder / "f", "[1]"), "the first line is not a JSON object", id="a list"),
        pytest.param(lambda folder: lines(folder / "f", "[", look_line(), "]"), "the first line is not JSON", id="a list over lines"),
        pytest.param(lambda folder: lines(folder / "f", "[" * 200_000), "the first line is not JSON", id="nested too deep"),
        pytest.param(lambda folder: lines(folder / "f", '{"b": 1, "a": 2}'), "no known kind of capture has the keys a, b", id="unknown"),
        pytest.param(lambda folder: lines(folder / "f", records.record_line(offset=-1)), "line 1, offset: ", id="a negative offset"),
        pytest.param(lambda folder: lines(folder / "f", records.record_line(offset="9")), "line 1, offset: ", id="a string for an offset"),
        pytest.param(lambda folder: lines(folder / "f", '{"brokers": [], "topics": []}'), "line 1, observed_at_ms: ", id="no time"),
        pytest.param(
            lambda folder: parquet(folder / "f", offset=None, key=pyarrow.array(["k"])),
            "missing or of another type: key binary, offset bigint; found key string",
            id="other columns",
        ),
        pytest.param(
            lambda folder: parquet(folder / "f", isCommitted=pyarrow.array(["yes"])),
            "missing or of another type: isCommitted boolean",
            id="another type of a column that may be there",
        ),
    ],
)
def test_input_without_a_capture_is_refused_by_name(tmp_path: Path, make: Callable[[Path], Path], message: str) -> None:
    with pytest.raises(InputError) as refused:
        find_captures((str(make(tmp_path)),))
    assert str(refused.value).startswith(f"input {tmp_path}")
    assert message in str(refused.value)


def test_run_without_any_input_is_refused() -> None:
    with pytest.raises(InputError, match="no input: name captures with --input"):
        find_captures(())


def odd_parquet(path: Path, *columns: tuple[str, pyarrow.Array], **options: object) -> Path:
    """Write columns that may have one name, or none that is text."""
    names, arrays = zip(*RAW_RECORDS.items(), strict=True)
    more = [pyarrow.field(name, array.type) for name, array in columns]
    fields = [pyarrow.field(name, array.type) for name, array in RAW_RECORDS.items()]
    table = pyarrow.Table.from_arrays([*arrays, *(array for _, array in columns)], schema=pyarrow.schema([*fields, *more]))
    kept = [index for index, name in enumerate(names) if name not in dict(columns)]
    pyarrow.parquet.write_table(table.select([*kept, *range(len(names), len(names) + len(columns))]), path, **options)
    return path


NOW_NS = pyarrow.array([1_795_000_000_000_000_001], pyarrow.timestamp("ns", "UTC"))


def test_times_in_nanoseconds_are_refused_unless_spark_can_read_them(tmp_path: Path) -> None:
    """Arrow shows both as the same; what pandas writes by itself is the one that Spark has no type for."""
    with pytest.raises(InputError, match="f: column timestamp is of nanoseconds, which Spark cannot read; write it in microseconds"):
        find_captures((str(odd_parquet(tmp_path / "f", ("timestamp", NOW_NS))),))
    path = odd_parquet(tmp_path / "g", ("timestamp", NOW_NS), use_deprecated_int96_timestamps=True)
    assert found(path) == {"g": ("consumer-offsets", "parquet", None)}
    path = odd_parquet(tmp_path / "h", ("at", NOW_NS), ("of_day", pyarrow.array([1], pyarrow.time64("us"))))
    assert found(path) == {"h": ("consumer-offsets", "parquet", None)}, "columns that are not read"


@pytest.mark.parametrize(
    ("column", "what"),
    [
        (NOW_NS, "column at is of nanoseconds, which Spark cannot read; write it in microseconds"),
        (pyarrow.array([1], pyarrow.time32("ms")), "column at is of TIME, which Spark cannot read; write the file without it"),
        (
            pyarrow.array([[{"x": 1}]], pyarrow.list_(pyarrow.struct({"x": pyarrow.time64("ns")}))),
            r"column at\.list\.element\.x is of TIME",
        ),
    ],
)
def test_snapshots_have_no_columns_that_spark_cannot_read(tmp_path: Path, column: pyarrow.Array, what: str) -> None:
    """All columns are read: they become one object, of which what is not known is passed over."""
    marks = (("group_id", pyarrow.array(["g"])), ("group_type", pyarrow.array(["classic"])))
    with pytest.raises(InputError, match=what):
        find_captures((str(odd_parquet(tmp_path / "f", *marks, ("at", column))),))


def test_columns_that_differ_in_case_alone_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="differ only in case, which Spark ignores; rename them"):
        find_captures((str(odd_parquet(tmp_path / "f", ("Key", pyarrow.array([b"k"])))),))


def test_a_column_whose_name_is_not_text_is_refused(tmp_path: Path) -> None:
    path = odd_parquet(tmp_path / "f", ("xxxxxxxx", pyarrow.array([1])), store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"xxxxxxxx", b"xxx\xff\xfexxx"))
    with pytest.raises(InputError, match="the name of a column is not UTF-8"):
        find_captures((str(path),))


@pytest.mark.parametrize(("last", "is_odd"), [(9_223_372_036_854_775, False), (9_223_372_036_854_776, True), (-(2**63), True)])
def test_milliseconds_that_spark_has_no_room_for_are_noticed(tmp_path: Path, last: int, is_odd: bool) -> None:
    times = pyarrow.array([last], pyarrow.timestamp("ms", "UTC"))
    (capture,) = find_captures((str(parquet(tmp_path / "f", timestamp=times)),))
    assert capture.has_odd_times == is_odd


@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize("end", ["\n", "\r\n", PRINTED_BEGIN := '{"key":'])
def test_overlong_line_is_refused_anywhere_in_a_file(tmp_path: Path, pack: bool, end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captures, "LONGEST_TEXT_BYTES", 3 << 20)
    first = PRINTED if end == PRINTED_BEGIN else records.record_line()
    lines = [first, " " * (2 << 20), first, " " * (2 << 20), first]
    if end == PRINTED_BEGIN:
        lines = [line + PRINTED for line in lines]
    path = tmp_path / ("f.gz" if pack else "f")
    for more, is_refused in (([], False), ([" " * (4 << 20)], True)):
        text = ("" if end == PRINTED_BEGIN else end).join([*lines, *more, first]).encode()
        path.write_bytes(gzip.compress(text) if pack else text)
        if is_refused:
            with pytest.raises(InputError, match="a line is longer than 3145728 bytes"):
                find_captures((str(path),))
        else:
            assert len(find_captures((str(path),))) == 1


def test_file_that_is_still_being_copied_is_passed_over_and_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lines(tmp_path / "f", records.record_line())
    lines(tmp_path / "g._COPYING_", records.record_line())
    assert found(tmp_path).keys() == {"f"}
    assert [record.getMessage() for record in caplog.records] == [f"passed over {tmp_path}/g._COPYING_: still being copied, by its name"]


def test_a_folder_that_cannot_be_read_is_not_passed_over(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to become somebody who may not read a folder")
    lines(tmp_path / "f", records.record_line())
    lines(tmp_path / "closed" / "g", records.record_line())
    for folder in (*tmp_path.parents, tmp_path):
        if folder.is_relative_to(tmp_path.parents[2]):
            folder.chmod(0o755)
    for mode in (0o000, 0o444):
        (tmp_path / "closed").chmod(mode)
        code = "import os, sys; from jobs.decoders.captures import find_captures; os.setuid(65534); find_captures((sys.argv[1],))"
        ended = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False, cwd=ROOT)
        last = ended.stderr.strip().splitlines()[-1]
        assert last.startswith(f"jobs.runtime.errors.InputError: input {tmp_path}/closed") and "cannot be read (Permission denied)" in last
    (tmp_path / "closed").chmod(0o755)


def test_a_damaged_parquet_file_is_refused(tmp_path: Path) -> None:
    path = parquet(tmp_path / "f")
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InputError, match="not a readable Parquet file"):
        find_captures((str(path),))


@pytest.mark.parametrize("damage", [lambda data: data[:15], lambda data: data[:10] + b"\xff" * 20])
def test_damaged_gzip_is_refused_also_in_a_folder(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    path = lines(tmp_path / "f.gz", records.record_line())
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError, match="damaged gzip data"):
        find_captures((str(tmp_path),))


@pytest.mark.parametrize("name", ["f", "f.gz", "f.jsonl.snappy"])
@pytest.mark.parametrize("pack", [False, True])
def test_a_text_is_packed_or_not_whatever_its_name_says(tmp_path: Path, name: str, pack: bool) -> None:
    text = records.record_line().encode()
    (tmp_path / name).write_bytes(gzip.compress(text) if pack else text)
    (capture,) = find_captures((str(tmp_path),))
    assert (capture.is_gzip, capture.pieces) == (pack, (WHOLE,) if pack else (Piece(0, len(text), 1),))


def test_empty_file_in_a_folder_is_passed_over_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A tool that had nothing to say leaves one with ``2> errors.txt``."""
    lines(tmp_path / "records", records.record_line())
    lines(tmp_path / "errors.txt")
    assert list(found(tmp_path)) == ["records"]
    assert [(one.levelname, one.getMessage()) for one in caplog.records] == [
        ("WARNING", f"passed over {tmp_path}/errors.txt: an empty file")
    ]


@pytest.mark.parametrize(
    "first",
    [
        pytest.param("", id="blank"),
        pytest.param('9, "timestamp_ms": 1, "key_b64": null}', id="without its beginning"),
        pytest.param("\udce9'}", id="without the beginning of a letter"),
        pytest.param('{"partition": 3, "off', id="without its end"),
        pytest.param('Defaulted container "kafka" out of: kafka, exporter (init)', id="a message of kubectl"),
        pytest.param(records.record_line(offset=-1), id="a negative offset"),
        pytest.param("[" * 200_000, id="nested too deep"),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_first_line_that_cannot_be_read_does_not_hide_those_after_it(tmp_path: Path, first: str, end: str) -> None:
    for name, line in (("raw", records.record_line()), ("look", look_line("eu"))):
        (tmp_path / name).write_bytes(end.join((first, line, "")).encode(errors="surrogateescape"))
    expected = {"raw": ("consumer-offsets", "lines", "eu"), "look": ("cluster-metadata", "lines", "eu")}
    assert found(tmp_path) == expected


def test_forced_source_has_to_match_the_content(tmp_path: Path) -> None:
    looks, offsets = lines(tmp_path / "looks", look_line()), parquet(tmp_path / "offsets")
    assert found(looks, forced=Source.CLUSTER_METADATA) == {"looks": ("cluster-metadata", "lines", None)}
    with pytest.raises(InputError, match="expected consumer-offsets by --format, found cluster-metadata"):
        find_captures((str(looks),), Source.CONSUMER_OFFSETS)
    with pytest.raises(InputError, match="expected cluster-metadata by --format, found consumer-offsets"):
        find_captures((str(offsets),), Source.CLUSTER_METADATA)
    with pytest.raises(InputError, match="the first line is not JSON"):
        find_captures((str(lines(tmp_path / "text", "text")),), Source.CLUSTER_METADATA)


PRINTED = '{"key":{"type":2,"data":{"group":"g"}},"value":null}'
DESCRIBED = "\nConsumer group 'g' has no active members.\n"
SNAPSHOT = '{"group_id": "g", "group_type": "classic", "state": "Empty", "observed_at_ms": 5, "members": []}'


@pytest.mark.parametrize("pack", [False, True])
def test_each_kind_of_text_is_recognised_by_its_content(tmp_path: Path, pack: bool) -> None:
    texts = {"printed": PRINTED * 2, "described": DESCRIBED, "snapshot": SNAPSHOT, "look": look_line(), "record": records.record_line()}
    for name, text in texts.items():
        (tmp_path / f"{name}{'.gz' * pack}").write_bytes(gzip.compress(text.encode()) if pack else text.encode())
    (tmp_path / "notes.txt").write_text("what I did on Monday")
    (tmp_path / "events.jsonl").write_text('{"group_id": "g", "members": [], "topics": ["t"]}')
    kinds = {name.removesuffix(".gz"): (kind, encoding) for name, (kind, encoding, _) in found(tmp_path).items()}
    assert kinds == {
        "printed": ("formatter-json", "objects"),
        "described": ("describe", "text"),
        "snapshot": ("snapshot", "lines"),
        "look": ("cluster-metadata", "lines"),
        "record": ("consumer-offsets", "lines"),
    }


@pytest.mark.parametrize("mark", ["utf-8-sig", "utf-16"])
def test_text_of_each_kind_may_have_a_byte_order_mark(tmp_path: Path, mark: str) -> None:
    texts = {"printed": PRINTED, "described": DESCRIBED, "snapshot": SNAPSHOT, "look": look_line("own"), "record": records.record_line()}
    for name, text in texts.items():
        (tmp_path / name).write_bytes(text.encode(mark))
    captures = find_captures((str(tmp_path),))
    assert {Path(one.path).name: one.pieces for one in captures} == {**dict.fromkeys(texts, (WHOLE,)), "described": ()}
    assert {one.cluster_id for one in captures} == {"own"}


def test_byte_order_mark_before_binary_content_makes_no_text_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"\xff\xfe\x00\xd8\x00\x00")
    with pytest.raises(InputError, match="not a text file"):
        find_captures((str(tmp_path / "f"),))


@pytest.mark.parametrize("before", ["# How it is printed\n\n", "The tool prints this:\n```\n", "<pre>\n"])
def test_printed_object_in_a_document_is_no_capture(tmp_path: Path, before: str) -> None:
    (tmp_path / "README").write_text(f"{before}{PRINTED}\n")
    with pytest.raises(InputError, match="no capture in this folder"):
        find_captures((str(tmp_path),))


@pytest.mark.parametrize(
    ("name", "offsets"),
    [
        ("log_line_before_objects.json", {1: ("orders", 0, 5), 2: ("orders", 1, 7)}),
        ("errors_behind_objects.json", {1: ("orders", 0, 5), 2: ("orders", 1, 5), 3: ("orders", 2, 5)}),
    ],
)
def test_lines_of_stderr_around_printed_objects_cost_no_record(name: str, offsets: dict[int, tuple[str, int, int]]) -> None:
    [capture] = find_captures((str(Path(__file__).parents[3] / "golden" / "texts" / name),))
    assert capture.source == Source.FORMATTER_JSON and capture.separator is not None
    found = {}
    for piece in capture.pieces:
        for number, record in text_pieces.read(capture.path, piece, capture.separator.encode(), is_gzip=False):
            commit = decode_object(record, number)["offset_commit"]
            found[number] = (commit["topic"], commit["partition"], commit["committed_offset"])
    assert found == offsets


@pytest.mark.parametrize("pack", [False, True])
def test_overlong_description_is_refused(tmp_path: Path, pack: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captures, "LONGEST_TEXT_BYTES", 1 << 16)
    text = (DESCRIBED + "\n" * ((1 << 16) - len(DESCRIBED))).encode()
    for name, content in (("most", text), ("more", text + b"\n")):
        (tmp_path / f"{name}.txt{'.gz' * pack}").write_bytes(gzip.compress(content) if pack else content)
    most, more = (str(tmp_path / f"{name}.txt{'.gz' * pack}") for name in ("most", "more"))
    assert [capture.source for capture in find_captures((most,))] == [Source.DESCRIBE]
    with pytest.raises(InputError, match="more than 65536 bytes of text; describe fewer groups at a time"):
        find_captures((more,))


@pytest.mark.parametrize(
    ("forced", "expected"),
    [
        (Source.FORMATTER_JSON, {"printed": "formatter-json", "look": "cluster-metadata"}),
        (Source.DESCRIBE, {"described": "describe", "look": "cluster-metadata"}),
        (Source.CLUSTER_METADATA, {"look": "cluster-metadata"}),
    ],
)
def test_one_kind_of_capture_can_be_selected_from_a_mixed_folder(tmp_path: Path, forced: Source, expected: dict[str, str]) -> None:
    for name, text in {"printed": PRINTED, "described": DESCRIBED, "snapshot": SNAPSHOT, "look": look_line(), "notes": "text"}.items():
        (tmp_path / name).write_text(text)
    assert {name: kind for name, (kind, _, _) in found(tmp_path, forced=forced).items()} == expected


LATE = "[2026-11-21 02:21:47,123] INFO [GroupCoordinator 1]: Stabilized group g generation 8 (__consumer_offsets-3) with 3 members"


@pytest.mark.parametrize("forced", [None, Source.COORDINATOR_LOG])
@pytest.mark.parametrize(
    "other",
    [
        "2026-11-21 02:21:47 INFO  [ReplicaFetcherThread-0-2] UnifiedLog:123 - Truncating to 1234 has no effect",
        '{"level": "INFO", "loggerName": "kafka.log.UnifiedLog", "message": "Truncating to 1234 has no effect"}',
        "[2026-11-21 02:21:47,123] WARN Connection to node 2 could not be established. (org.apache.kafka.clients.NetworkClient)",
        "kafka-1  | [2026-11-21 02:21:47,123] INFO Log loaded for partition orders-3 (kafka.log.UnifiedLog)",
    ],
)
def test_log_of_a_broker_is_recognised_by_a_line_far_from_its_beginning(tmp_path: Path, other: str, forced: Source | None) -> None:
    path = lines(tmp_path / "f", *[other] * 1_000, f"{LATE} (kafka.coordinator.group.GroupCoordinator)")
    assert found(path, forced=forced) == {"f": ("coordinator-log", "lines", None)}
    path = lines(tmp_path / "f", *[other] * 1_000)
    if forced is None:
        with pytest.raises(InputError):
            found(path)
    else:
        assert found(path, forced=forced) == {"f": ("coordinator-log", "lines", None)}


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        (
            f"Error: Port already in use: 9999\n{LATE} (kafka.coordinator.group.GroupCoordinator)\n",
            {"f": ("coordinator-log", "lines", None)},
        ),
        ("Monday: the job stopped.\nError: disk full\n", {}),
    ],
)
def test_a_line_that_begins_with_error_makes_no_description(tmp_path: Path, text: str, kinds: dict[str, tuple]) -> None:
    record = lines(tmp_path / "record", records.record_line())
    (tmp_path / "f").write_text(text)
    assert found(tmp_path) == {**found(record), **kinds}


def test_any_text_can_be_read_as_description_if_forced(tmp_path: Path) -> None:
    path = lines(tmp_path / "f", "some words before", DESCRIBED)
    assert found(path, forced=Source.DESCRIBE) == {"f": ("describe", "text", None)}


@pytest.mark.parametrize(
    ("text", "separator"),
    [
        (PRINTED, '{"key":'),
        ('\n { "key": {"version": 1', '{ "key":'),
        ('{\n  "key": {\n    "data": {}', '{\n  "key":'),
        ('{"key":null', '{"key":'),
    ],
)
def test_objects_are_cut_where_they_begin(tmp_path: Path, text: str, separator: str) -> None:
    [capture] = find_captures((str(lines(tmp_path / "f", text)),))
    assert (capture.source, capture.separator) == (Source.FORMATTER_JSON, separator)


def test_snapshots_in_parquet_are_known_by_their_columns(tmp_path: Path) -> None:
    table = pyarrow.table({"group_id": ["g"], "group_type": ["classic"], "state": ["Empty"], "observed_at_ms": [5]})
    pyarrow.parquet.write_table(table, tmp_path / "f")
    assert found(tmp_path) == {"f": ("snapshot", "parquet", None)}


def test_text_without_topic_names_is_refused_by_file_and_line(tmp_path: Path) -> None:
    member = "c-5b0c91fe-daf6-4812-9301-d2610acee9ae"
    columns = {"GROUP": "g", "CONSUMER-ID": member, "HOST": "/10.0.0.1", "CLIENT-ID": "c", "#PARTITIONS": "1", "ASSIGNMENT": "(0)"}
    path = lines(tmp_path / "f", *("".join(f"{cell:42}" for cell in row).rstrip() for row in (columns, columns.values())))
    with pytest.raises(InputError, match=r"f: line 2: .*3\.8"):
        find_captures((str(path),))


# -- the fingerprint


def test_a_fingerprint_is_of_the_content_alone(tmp_path: Path) -> None:
    first = lines(tmp_path / "one" / "a", records.record_line())
    lines(tmp_path / "one" / "b", look_line())
    lines(tmp_path / "two" / "x", look_line())
    lines(tmp_path / "two" / "y", records.record_line())

    def found_in(name: str) -> str:
        return fingerprint(map(content_digest, find_captures((str(tmp_path / name),))))

    one = found_in("one")
    assert one == found_in("two")
    lines(first, records.record_line(offset=10))
    assert found_in("one") != one
    assert fingerprint(()) != one


@pytest.mark.parametrize("piece_bytes", [text_pieces.PIECE_BYTES, 100])
def test_fingerprint_has_no_line_that_was_appended_after_the_file_was_cut(
    tmp_path: Path, piece_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later run takes a file with a known digest for one whose lines have all landed."""
    monkeypatch.setattr(text_pieces, "PIECE_BYTES", piece_bytes)
    path = lines(tmp_path / "log", *(records.record_line(offset=offset) for offset in range(3)))
    (capture,) = find_captures((str(path),))
    before = content_digest(capture)
    with path.open("a") as file:
        file.write(records.record_line(offset=3) + "\n")
    assert content_digest(capture) == before == hashlib.sha256(path.read_bytes()[: capture.pieces[-1].end]).digest()
    assert [number for piece in capture.pieces for number, _ in text_pieces.read(str(path), piece, None, is_gzip=False)] == [1, 2, 3]
    (grown,) = find_captures((str(path),))
    assert content_digest(grown) == hashlib.sha256(path.read_bytes()).digest() != before


def test_truncated_gzip_file_is_refused(tmp_path: Path) -> None:
    """Its first line is whole: only its end shows it."""
    whole = (Path(__file__).resolve().parents[4] / "tests" / "golden" / "capture" / "cluster_metadata.jsonl.gz").read_bytes()
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"cut\.jsonl\.gz: damaged gzip data"):
        find_captures((str(cut),))
