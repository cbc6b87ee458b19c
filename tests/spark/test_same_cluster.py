"""A cluster that has landed under one name is refused under another, by the ids in its captures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.builders import records
from tests.builders.tables import rows, versions

TOPIC_ID = "h4iV23IwTGSBaoQ1ykZbbw"


def look(folder: Path, cluster_id: str | None, topic_id: str | None = TOPIC_ID) -> Path:
    """Write a folder with one look at one topic, and one record."""
    folder.mkdir()
    topic = {"topic": "t", "topic_id": topic_id, "partitions": [{"partition": 0}]}
    content = {"observed_at_ms": 1_000, "cluster_id": cluster_id, "brokers": [], "topics": [topic]}
    (folder / "look").write_text(json.dumps(content) + "\n")
    (folder / "record").write_text(records.record_line())
    return folder


@pytest.fixture
def refused(evenkeel, capsys: pytest.CaptureFixture[str]):
    """Runs a command that is refused, and returns what it says."""

    def run(*argv: str | Path) -> str:
        capsys.readouterr()
        assert evenkeel(*argv) == 2
        return next(line for line in capsys.readouterr().err.splitlines() if line.startswith("evenkeel: cluster "))

    return run


def test_other_name_of_a_landed_cluster_is_refused(refused, make_tables, tmp_path: Path) -> None:
    """By the id in its looks; the message has both names and the way out, and no table is changed."""
    warehouse, folder = tmp_path / "w", look(tmp_path / "capture", "kafka-id")
    assert make_tables("land", "--warehouse", warehouse, "--input", folder) == 0
    before = {name: version for name, version in versions(warehouse).items() if name != "runs"}
    said = refused("land", "--warehouse", warehouse, "--input", folder, "--cluster-id", "prod")
    assert said.startswith("evenkeel: cluster prod: its captures are of the cluster that has landed as kafka-id: ")
    assert "--cluster-id kafka-id, or with --as-new-cluster" in said
    assert {name: version for name, version in versions(warehouse).items() if name != "runs"} == before
    assert make_tables("land", "--warehouse", warehouse, "--input", folder, "--cluster-id", "prod", "--as-new-cluster") == 0
    assert {row["cluster_id"] for row in rows(warehouse, "topic_snapshots")} == {"kafka-id", "prod"}


def test_topic_ids_and_notes_of_collect_identify_a_cluster(refused, make_tables, tmp_path: Path) -> None:
    """Where the name of one's own came first, and in a folder whose looks have no ids."""
    warehouse = tmp_path / "w"
    assert make_tables("land", "--warehouse", warehouse, "--input", look(tmp_path / "a", "kafka-id"), "--cluster-id", "prod") == 0
    said = refused("land", "--warehouse", warehouse, "--input", tmp_path / "a")
    assert said.startswith("evenkeel: cluster kafka-id: its captures are of the cluster that has landed as prod: ")
    noted = look(tmp_path / "b", None, None)
    positions = {"cluster_id": "kafka-id", "cluster_name": "prod", "topic": "t", "topic_id": None, "next_offsets": {}}
    (noted / "_positions.json").write_text(json.dumps(positions))
    said = refused("land", "--warehouse", warehouse, "--input", noted, "--cluster-id", "prod-2")
    assert said.startswith("evenkeel: cluster prod-2: its captures are of the cluster that has landed as prod: ")
    other = look(tmp_path / "c", "other-id", "AAAAAAAAAAAAAAAAAAAAAQ")
    assert make_tables("land", "--warehouse", warehouse, "--input", other) == 0, "another cluster is no other name"
