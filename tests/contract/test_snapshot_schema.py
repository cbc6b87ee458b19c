"""The published schema of the format ``snapshot``: it is the model's, and takes what landing takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow as pa
import pytest
from pydantic import ValidationError
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, StructType

from schemas.snapshot import GroupSnapshot
from schemas.snapshot_docs import to_json_schema
from schemas.staging import DECODED_ROWS
from tests.builders.group_snapshots import admin_looks, decode, envelope, envelopes_of, member

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = ROOT / "docs" / "snapshot.schema.json"
LAST_MS = 7_258_118_400_000  # 2200-01-01

REQUIRED = ("group_id", "observed_at_ms", "group_type", "state")
OFFSET = envelope()["offsets"][0]
VALIDATOR = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))


def offset(**changes: Any) -> dict[str, Any]:
    return {"offsets": [{**OFFSET, **changes}]}


def of_member(**changes: Any) -> dict[str, Any]:
    return {"members": [member(**changes)]}


TAKEN = [
    {},
    {"further": {"keys": [1]}},
    *({name: None} for name in envelope() if name not in REQUIRED),
    *(of_member(**{name: None}) for name in member() if name not in ("member_id", "assigned")),
    *(offset(**{name: None}) for name in OFFSET if name not in ("topic", "partition")),
    {"members": []},
    {"offsets": []},
    {"observed_at_ms": LAST_MS - 1},
    {"observed_at_ms": 0},
    {"position": 2**63 - 1},
    {"generation": 2**31 - 1},
    {"group_type": "consumer"},
    {"protocol_type": "connect"},
    {"state": "Pondering"},
    {"state": "PreparingRebalance"},
    of_member(user_data_b64=""),
    of_member(user_data_b64="AAA="),
    of_member(assigned=[{"topic": "t", "partitions": []}, {"topic": "t", "partitions": [0], "further": 1}]),
]
REFUSED = [
    *({name: None} for name in REQUIRED),
    *(of_member(**{name: None}) for name in ("member_id", "assigned")),
    *(offset(**{name: None}) for name in ("topic", "partition")),
    *({name: ["x"]} for name in envelope()),
    *(of_member(**{name: 1.5}) for name in member()),
    *(offset(**{name: {}}) for name in OFFSET),
    *({name: -1} for name, value in envelope().items() if isinstance(value, int)),
    *(of_member(**{name: -1}) for name, value in member().items() if isinstance(value, int)),
    *(offset(**{name: -1}) for name, value in OFFSET.items() if isinstance(value, int)),
    {"generation": True},
    {"observed_at_ms": LAST_MS},
    {"joined_at_ms": LAST_MS},
    {"reconciled_at_ms": LAST_MS},
    offset(committed_at_ms=LAST_MS),
    {"position": 2**63},
    {"generation": 2**31},
    offset(partition=2**31),
    offset(committed_offset=2**63),
    {"group_type": "share"},
    of_member(user_data_b64="AAA"),
    of_member(user_data_b64="AB=="),
    of_member(topics=["t", None]),
    of_member(owned=[{"topic": "t"}]),
    of_member(current=[{"partitions": [0]}]),
    of_member(pending_revocation=[{"topic": "t", "partitions": [-1]}]),
]
UNSAID = [
    {"members": [member("a"), member("a")]},
    of_member(assigned=[{"topic": "t", "partitions": [0]}, {"topic": "t", "partitions": [0]}]),
    {"offsets": [OFFSET, OFFSET]},
    {"generation": 5.0},
    {"group_id": "\ud800"},
]
"""What a JSON schema has no words for; the descriptions say it."""


def is_quarantined(line: Any) -> bool:
    return [row["outcome"] for row in decode(line)] == ["quarantined"]


def is_sound(line: Any) -> bool:
    try:
        GroupSnapshot.model_validate(line)
    except ValidationError:
        return False
    return True


def test_the_published_schema_is_the_models() -> None:
    assert SCHEMA.read_text(encoding="utf-8") == to_json_schema()
    jsonschema.Draft202012Validator.check_schema(json.loads(to_json_schema()))


@pytest.mark.parametrize("changes", TAKEN, ids=str)
def test_line_that_lands_is_valid_in_the_schema(changes: dict) -> None:
    line = envelope(**changes)
    assert (VALIDATOR.is_valid(line), is_sound(line), is_quarantined(line)) == (True, True, False)


@pytest.mark.parametrize("changes", REFUSED, ids=str)
def test_line_that_is_invalid_in_the_schema_is_quarantined(changes: dict) -> None:
    line = envelope(**changes)
    assert (VALIDATOR.is_valid(line), is_sound(line), is_quarantined(line)) == (False, False, True)


@pytest.mark.parametrize("changes", UNSAID, ids=ascii)
def test_line_that_breaks_a_rule_beyond_the_schema_is_quarantined(changes: dict) -> None:
    line = envelope(**changes)
    assert (VALIDATOR.is_valid(line), is_quarantined(line)) == (True, True)


def test_a_line_that_is_no_object_is_refused() -> None:
    assert (VALIDATOR.is_valid([]), is_sound([]), is_quarantined([])) == (False, False, True)


def test_snapshots_of_a_real_cluster_are_valid_in_the_schema() -> None:
    envelopes = [one for recorded in admin_looks() for one in envelopes_of(recorded)]
    assert len(envelopes) > 400 and [one["group_id"] for one in envelopes if not (VALIDATOR.is_valid(one) and is_sound(one))] == []


def test_every_field_of_an_envelope_is_described() -> None:
    schema = json.loads(to_json_schema())
    shapes = {"GroupSnapshot": schema, **schema["$defs"]}
    plain = {("CommittedOffset", "topic"), ("TopicPartitions", "topic"), ("TopicPartitions", "partitions")}
    bare = {(name, field) for name, shape in shapes.items() for field, of in shape["properties"].items() if "description" not in of}
    assert bare == plain


def test_the_page_shows_an_envelope_that_lands() -> None:
    page = (ROOT / "docs" / "inputs.md").read_text(encoding="utf-8")
    (example,) = [block.split("```")[0] for block in page.split("```json\n")[1:]]
    line = json.loads(example)
    assert VALIDATOR.is_valid(line)
    assert [row["kind"] for row in decode(line)] == ["group_snapshot", "offset_commit"]


# -- the columns


def columns_unknown(row: Any, shape: Any, path: str = "") -> list[str]:
    """Return the fields of a decoded row that have no column."""
    if isinstance(shape, ArrayType):
        return [name for item in row or () for name in columns_unknown(item, shape.elementType, path)]
    if not isinstance(shape, StructType) or row is None:
        return []
    unknown = [f"{path}.{name}" for name in row if name not in shape.names]
    return unknown + [name for field in shape for name in columns_unknown(row.get(field.name), field.dataType, f"{path}.{field.name}")]


def test_decoded_rows_have_the_columns_of_their_tables() -> None:
    rows = decode(envelope())
    assert [name for row in rows for name in columns_unknown(row, DECODED_ROWS)] == []
    snapshot, commit = pa.RecordBatch.from_pylist(rows, schema=to_arrow_schema(DECODED_ROWS)).to_pylist()
    absent = ["batched_epoch_count", "epoch_at", "is_superseded", "offsets_partition", "leader_client"]
    assert [name for name, value in snapshot["snapshot"].items() if value is None] == absent
    assert [name for name, value in snapshot["snapshot"]["members"][0].items() if value is None] == []
    absent = ["end_offset", "expires_at", "is_uncertain", "offsets_partition"]
    assert [name for name, value in commit["offset_commit"].items() if value is None] == absent
