"""The first line of a capture: which kind it is, and what is wrong with it."""

from __future__ import annotations

import json

import pytest

from schemas.snapshot import line_cluster_id, recognise_line
from schemas.vocabulary import Source
from tests.builders import records


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param(records.record_line(), (Source.CONSUMER_OFFSETS, ""), id="a record"),
        pytest.param(records.record_line(value_b64=None), (Source.CONSUMER_OFFSETS, ""), id="a tombstone"),
        pytest.param(records.record_line(topic="__consumer_offsets"), (Source.CONSUMER_OFFSETS, ""), id="a record with more keys"),
        pytest.param(json.dumps(records.look()), (Source.CLUSTER_METADATA, ""), id="a look"),
        pytest.param(
            '{"observed_at_ms": 1, "brokers": [], "topics": [{"topic": "t", "partitions": [{"partition": 0}]}]}',
            (Source.CLUSTER_METADATA, ""),
            id="a look with nothing that may be absent",
        ),
        pytest.param(
            '{"key_b64": null, "value_b64": null, "offset": 1, "timestamp_ms": 1}',
            (Source.CONSUMER_OFFSETS, "line 1, partition: Field required"),
            id="a record without partition",
        ),
        pytest.param(
            '{"observed_at_ms": 1, "brokers": [{"rack": "r"}], "topics": []}',
            (Source.CLUSTER_METADATA, "line 1, brokers.0.id: Field required"),
            id="a broker without id",
        ),
        pytest.param("{", (None, "the first line is not JSON"), id="no JSON"),
        pytest.param("[" * 200_000, (None, "the first line is not JSON"), id="nested too deep"),
        pytest.param("[]", (None, "the first line is not a JSON object"), id="a list"),
        pytest.param(
            '{"g": 1, "f": 1, "e": 1, "d": 1, "c": 1, "b": 1, "a": 1}',
            (None, "no known kind of capture has the keys a, b, c, d, e, f"),
            id="keys of nothing",
        ),
    ],
)
def test_kind_of_a_capture_comes_from_its_first_line(line: str, expected: tuple[Source | None, str]) -> None:
    assert recognise_line(line) == expected


def test_cluster_id_of_a_metadata_snapshot_line() -> None:
    assert line_cluster_id(json.dumps(records.look())) == "own"
    assert line_cluster_id(json.dumps({"observed_at_ms": 1, "brokers": [], "topics": []})) is None
