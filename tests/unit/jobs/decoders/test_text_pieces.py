"""A record of a text has one number, however the text is cut and in whatever blocks it is read."""

from __future__ import annotations

import gzip
import io
import re
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.decoders import text_pieces
from jobs.decoders.text_pieces import WHOLE, Piece, RecordTooLongError, cut, read, read_whole

LONGEST = 1 << 20
BEGIN = b'{"key":'
TEXTS = st.lists(st.sampled_from([b"a", b"bcd", b" ", b"\n", b"\r", b"\r\n", b"\n\r", b""]), max_size=40).map(b"".join)
OBJECTS = st.lists(st.sampled_from([b"1}", b'"{"', b"{", b'{"k', b"\n"]), max_size=40).map(lambda parts: BEGIN + BEGIN.join(parts))
STDERR = st.sampled_from([b"", b"\n", b"[2025-03-01 10:00:00,123] WARN x (y)\n"])


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    return monkeypatch


def all_records(path: Path, text: bytes, separator: bytes | None) -> list[tuple[int, bytes]]:
    path.write_bytes(text)
    pieces = list(cut(io.BytesIO(text), separator, LONGEST))
    assert [piece.start for piece in pieces[1:]] == [piece.end for piece in pieces[:-1]], "nothing is lost between pieces"
    return [record for piece in reversed(pieces) for record in read(str(path), piece, separator, is_gzip=False)]


@given(text=TEXTS, piece_bytes=st.integers(1, 9), block_bytes=st.integers(1, 9))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_lines_have_one_number_however_a_text_is_cut(
    text: bytes, piece_bytes: int, block_bytes: int, tmp_path: Path, small: pytest.MonkeyPatch
) -> None:
    small.setattr(text_pieces, "PIECE_BYTES", piece_bytes)
    small.setattr(text_pieces, "BLOCK_BYTES", block_bytes)
    expected = [(number, line) for number, line in enumerate(re.split(b"\r\n|\r|\n", text), 1) if line.strip()]
    assert sorted(all_records(tmp_path / "f", text, None)) == expected
    (tmp_path / "f.gz").write_bytes(gzip.compress(text))
    assert list(read(str(tmp_path / "f.gz"), WHOLE, None, is_gzip=True)) == expected
    assert read_whole(str(tmp_path / "f.gz"), is_gzip=True) == read_whole(str(tmp_path / "f"), is_gzip=False) == text


@given(text=st.tuples(STDERR, OBJECTS).map(b"".join), piece_bytes=st.integers(1, 30), block_bytes=st.integers(1, 30))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_objects_have_one_number_however_a_text_is_cut(
    text: bytes, piece_bytes: int, block_bytes: int, tmp_path: Path, small: pytest.MonkeyPatch
) -> None:
    small.setattr(text_pieces, "PIECE_BYTES", piece_bytes)
    small.setattr(text_pieces, "BLOCK_BYTES", block_bytes)
    expected = [(number, BEGIN + rest) for number, rest in enumerate(text.split(BEGIN)[1:], 1)]
    assert sorted(all_records(tmp_path / "f", text, BEGIN)) == expected


@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16-le", "utf-16-be"])
def test_text_with_a_byte_order_mark_is_read_as_utf_8(tmp_path: Path, small: pytest.MonkeyPatch, encoding: str, pack: bool) -> None:
    lines = ["первая", "", "𝄞" * 5_000, "last"]
    small.setattr(text_pieces, "BLOCK_BYTES", 7)
    marked = "\r\n".join(lines) if encoding == "utf-8-sig" else "\ufeff" + "\r\n".join(lines)
    content = marked.encode(encoding)
    (tmp_path / "f").write_bytes(gzip.compress(content) if pack else content)
    found = [(number, line.decode()) for number, line in read(str(tmp_path / "f"), WHOLE, None, is_gzip=pack)]
    assert found == [(1, lines[0]), (3, lines[2]), (4, lines[3])]
    assert read_whole(str(tmp_path / "f"), is_gzip=pack) == "\r\n".join(lines).encode()


@pytest.mark.parametrize(
    ("damaged", "found"), [(b"a\x00\x00\xd8b\x00", b"a\xed\xa0\x80b"), (b"a\x00b", b"a\xff"), (b"a\x00\x34\xd8", b"a\xff")]
)
def test_damaged_utf_16_is_no_utf_8(tmp_path: Path, damaged: bytes, found: bytes) -> None:
    """Half of a pair, alone and at the end, and half of a character."""
    (tmp_path / "f").write_bytes(b"\xff\xfe" + damaged)
    assert read_whole(str(tmp_path / "f"), is_gzip=False) == found


def test_a_text_is_cut_into_pieces_of_about_one_size(small: pytest.MonkeyPatch) -> None:
    small.setattr(text_pieces, "PIECE_BYTES", 100)
    pieces = list(cut(io.BytesIO(b"0123456\r\n" * 100), None, LONGEST))
    assert len(pieces) == 9 and pieces[1] == Piece(99, 198, 12)


@pytest.mark.parametrize(("separator", "end"), [(None, b"\n"), (None, b"\r"), (BEGIN, BEGIN)])
@pytest.mark.parametrize("more", [0, 1])
def test_a_record_may_be_so_long_and_no_longer(separator: bytes | None, end: bytes, more: int, small: pytest.MonkeyPatch) -> None:
    """What follows it does not hide it, even where all of it is read at once with the beginning of the next."""
    small.setattr(text_pieces, "PIECE_BYTES", 64)
    begin = separator or b""
    text = begin + b"x" * (100 - len(begin) + more) + end + b"more" + end + b"more" + end
    if more:
        with pytest.raises(RecordTooLongError):
            list(cut(io.BytesIO(text), separator, 100))
    else:
        assert sum(piece.end - piece.start for piece in cut(io.BytesIO(text), separator, 100)) == len(text)


def test_damage_at_the_end_of_a_packed_text_comes_to_light(tmp_path: Path) -> None:
    (tmp_path / "f.gz").write_bytes(gzip.compress(b"{}\n" * 1000)[:-9])
    with gzip.open(tmp_path / "f.gz") as content, pytest.raises((EOFError, zlib.error)):
        list(cut(content, None, LONGEST))
