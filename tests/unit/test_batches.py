"""Rows out of Arrow batches: lists of lists stay arrays, whatever part of a batch they come from."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from jobs.batches import to_batches, to_rows
from jobs.worker_guard import GroupFailedError

ROWS = [
    {"name": "a", "lists": [[1, 2], [], [3]]},
    {"name": "b", "lists": None},
    {"name": "c", "lists": []},
    {"name": None, "lists": [[4]]},
]


@pytest.mark.parametrize(("first", "count"), [(0, 4), (1, 3), (3, 1), (2, 0)])
def test_lists_of_lists_stay_arrays(first: int, count: int) -> None:
    schema = pa.schema([("name", pa.string()), ("lists", pa.list_(pa.list_(pa.int32())))])
    batch = pa.RecordBatch.from_pylist(ROWS, schema=schema).slice(first, count)
    found = list(to_rows(batch, "lists"))
    assert [row["name"] for row in found] == [row["name"] for row in ROWS[first : first + count]]
    for row, expected in zip(found, ROWS[first : first + count], strict=True):
        if expected["lists"] is None:
            assert row["lists"] is None
            continue
        assert row["lists"].lengths.tolist() == [len(one) for one in expected["lists"]]
        assert row["lists"].values.tolist() == [number for one in expected["lists"] for number in one]


PLACE = {"cluster_id": "c", "group_id": "g", "position": 7}
AUDITED = pa.schema([("audit", pa.struct([("group_id", pa.string()), ("position", pa.int64()), ("gap", pa.int32())]))])
STEP = pa.schema([("cluster_id", pa.string()), ("group_id", pa.string()), ("position", pa.int64()), ("detail", pa.string())])


@pytest.mark.parametrize(
    ("row", "schema", "what"),
    [
        pytest.param({"audit": {**PLACE, "gap": 2**31}}, AUDITED, "cluster c, group g, position 7: a row does not fit", id="too large"),
        pytest.param({"audit": {**PLACE, "gap": 2**70}}, AUDITED, "cluster c, group g, position 7: a row does not fit", id="far too large"),
        pytest.param({"audit": {**PLACE, "gap": "x"}}, AUDITED, "cluster c, group g, position 7: a row does not fit", id="no number"),
        pytest.param({**PLACE, "detail": "\ud800"}, STEP, "cluster c, group g, position 7: a row does not fit", id="no text"),
    ],
)
def test_a_row_that_does_not_fit_is_told_with_its_group(row: dict[str, Any], schema: pa.Schema, what: str) -> None:
    """Rows of many groups go into one batch; the others fit."""
    others = [{"audit": {"group_id": "other", "gap": 1}}] * 3 if schema is AUDITED else [{"group_id": "other"}] * 3
    with pytest.raises(GroupFailedError, match=f"^{what} its columns"):
        list(to_batches([*others, row, *others], schema, 10))
