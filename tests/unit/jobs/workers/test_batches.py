"""Rows into Arrow batches: a row that does not fit names its group."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from jobs.workers.batches import to_batches
from jobs.workers.guard import GroupFailedError

KEY = {"cluster_id": "c", "group_id": "g", "position": 7}
AUDITED = pa.schema([("audit", pa.struct([("group_id", pa.string()), ("position", pa.int64()), ("gap", pa.int32())]))])
STEP = pa.schema([("cluster_id", pa.string()), ("group_id", pa.string()), ("position", pa.int64()), ("detail", pa.string())])


def test_batch_ends_with_the_row_that_reaches_its_size() -> None:
    rows = [{"detail": "a" * length} for length in (1, 1, 5, 1, 1)]
    assert [batch.num_rows for batch in to_batches(rows, STEP, 2)] == [2, 2, 1]
    assert [batch.num_rows for batch in to_batches(rows, STEP, 6, lambda row: len(row["detail"]))] == [3, 2]


@pytest.mark.parametrize(
    ("row", "schema", "what"),
    [
        pytest.param({"audit": {**KEY, "gap": 2**31}}, AUDITED, "cluster c, group g, position 7: a row does not fit", id="too large"),
        pytest.param({"audit": {**KEY, "gap": 2**70}}, AUDITED, "cluster c, group g, position 7: a row does not fit", id="far too large"),
        pytest.param({"audit": {**KEY, "gap": "x"}}, AUDITED, "cluster c, group g, position 7: a row does not fit", id="no number"),
        pytest.param({**KEY, "detail": "\ud800"}, STEP, "cluster c, group g, position 7: a row does not fit", id="no text"),
    ],
)
def test_row_that_does_not_fit_names_its_group(row: dict[str, Any], schema: pa.Schema, what: str) -> None:
    """Rows of many groups go into one batch; the others fit."""
    others = [{"audit": {"group_id": "other", "gap": 1}}] * 3 if schema is AUDITED else [{"group_id": "other"}] * 3
    with pytest.raises(GroupFailedError, match=f"^{what} its columns"):
        list(to_batches([*others, row, *others], schema, 10))
