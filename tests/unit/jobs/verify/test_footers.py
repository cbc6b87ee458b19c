"""What the footer of a Parquet file says twice, names of columns and Spark's schema beside Parquet's; and texts that nobody can read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.verify.footers import footer_problem

NAME = "org.apache.spark.sql.parquet.row.metadata"
COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("at", pa.timestamp("us", tz="UTC")),
        pa.field("tags", pa.map_(pa.string(), pa.string())),
        pa.field("parts", pa.list_(pa.struct([pa.field("number", pa.int32())]))),
    ]
)
SCHEMA = (
    '{"type":"struct","fields":[{"name":"id","type":"long","nullable":false,"metadata":{"comment":"a number"}},'
    '{"name":"at","type":"timestamp","nullable":true,"metadata":{}},'
    '{"name":"tags","type":{"type":"map","keyType":"string","valueType":"string","valueContainsNull":true},"nullable":true,"metadata":{}},'
    '{"name":"parts","type":{"type":"array","elementType":{"type":"struct","fields":'
    '[{"name":"number","type":"integer","nullable":true,"metadata":{}}]},"containsNull":true},"nullable":true,"metadata":{}}]}'
)
"""As Spark writes it."""


def problem_of(folder: Path, texts: dict[str, str | bytes], **options: bool) -> str | None:
    path = folder / "file.parquet"
    pq.write_table(COLUMNS.empty_table().replace_schema_metadata(texts), path, **options)
    return footer_problem(pq.ParquetFile(path))


@pytest.mark.parametrize(
    "texts",
    [{}, {"writer": "another"}, {NAME: SCHEMA}, {NAME: SCHEMA.replace("a number", "another number")}],
    ids=["no text", "another writer's", "Spark's", "another comment"],
)
def test_sound_footer_has_no_problem(texts: dict[str, str | bytes], tmp_path: Path) -> None:
    assert problem_of(tmp_path, texts) is None


def test_footer_with_int96_times_is_sound(tmp_path: Path) -> None:
    assert problem_of(tmp_path, {NAME: SCHEMA}, use_deprecated_int96_timestamps=True, store_schema=False) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param('"id"', '"ie"', id="name"),
        pytest.param('"long"', '"integer"', id="type"),
        pytest.param('"type":"long"', '"typf":"long"', id="no type"),
        pytest.param('"nullable":false', '"nullable":true', id="nulls"),
        pytest.param('"number","type"', '"nunber","type"', id="name in a struct"),
        pytest.param('"containsNull":true', '"containsNull":false', id="nulls in an array"),
        pytest.param('"keyType":"string"', '"keyType":"binary"', id="type of keys"),
    ],
)
def test_spark_schema_that_differs_from_parquet_is_found(old: str, new: str, tmp_path: Path) -> None:
    assert SCHEMA.count(old) == 1
    assert problem_of(tmp_path, {NAME: SCHEMA.replace(old, new)}) == "a footer with the schema of other columns"


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        (b"uncommom", "a footer with the column s.uncommom where the schema has s.uncommon"),
        (b"\xffncommon", "a footer with an unreadable text ('utf-8' codec can't decode byte 0xff in position 2: invalid start byte)"),
    ],
    ids=["another name", "no text"],
)
def test_column_name_that_differs_between_footer_and_schema_is_found(changed: bytes, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    pq.write_table(pa.table({"s": [{"uncommon": 1}]}), path, store_schema=False)
    in_schema, in_group, rest = path.read_bytes().split(b"uncommon")
    path.write_bytes(in_schema + b"uncommon" + in_group + changed + rest)
    assert footer_problem(pq.ParquetFile(path)) == problem


@pytest.mark.parametrize(
    "texts",
    [{"writer": b"\xff"}, {b"\xff": "writer"}, {NAME: SCHEMA[1:]}, {NAME: SCHEMA.encode().replace(b"id", b"\xffd")}, {NAME: ""}],
    ids=["no text", "no name", "no JSON", "no text in it", "empty"],
)
def test_unreadable_footer_text_is_found(texts: dict[str, str | bytes], tmp_path: Path) -> None:
    problem = problem_of(tmp_path, texts)
    assert problem is not None
    assert problem.startswith("a footer with an unreadable text (")
