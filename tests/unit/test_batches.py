"""Rows out of Arrow batches: lists of lists stay arrays, whatever part of a batch they come from."""

from __future__ import annotations

import pyarrow as pa
import pytest

from jobs.batches import to_rows

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
