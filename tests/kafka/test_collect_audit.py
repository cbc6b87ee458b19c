"""What is collected goes through the pipeline as it is: every record is accounted for, and the tables have what clients received."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Evenkeel
from tests.kafka import captures
from tests.kafka.conftest import CLASSIC, COOPERATIVE, NEXT_GENERATION, STATIC, History
from tests.kafka.groups import TOPIC
from tests.kafka.tables import observed, rows

GROUPS = (CLASSIC, COOPERATIVE, STATIC, NEXT_GENERATION)


@pytest.fixture(scope="module")
def warehouse(make_tables: Evenkeel, history: History, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with what was collected: landed, assigned and audited."""
    folder = tmp_path_factory.mktemp("audited") / "warehouse"
    assert make_tables("run", "--input", history.folder, "--warehouse", folder) == 0
    return folder


def test_every_record_is_accounted_for(warehouse: Path, history: History) -> None:
    (run,) = rows(warehouse, "runs")
    counts = dict(run["input_counts"])
    assert counts["consumer-offsets.read"] == len(captures.records(history.folder))
    assert counts["cluster-metadata.read"] == sum(len(look["topics"]) for look in captures.looks(history.folder))
    assert (counts["duplicate"], counts["quarantined"]) == (0, 0)


def test_commits_and_topics_land(warehouse: Path, history: History) -> None:
    notes = {row["metadata"].removesuffix("\0") for row in rows(warehouse, "offset_snapshots") if row["metadata"]}
    assert set(history.committed) <= notes and not notes & set(history.aborted)
    assert {row["topic"] for row in rows(warehouse, "topic_snapshots")} >= {TOPIC}


@pytest.mark.parametrize("group_id", GROUPS)
def test_observed_assignments_are_what_clients_received(group_id: str, warehouse: Path, history: History) -> None:
    snapshots = observed(warehouse)[group_id]
    assert snapshots[-1].owned == history.owned[group_id]
    if group_id == NEXT_GENERATION:  # its members get what they may have by now, which comes to the target step by step
        return
    for client in history.clients[group_id]:
        owned = [snapshot.owned[member_id] for snapshot in snapshots for member_id in client.member_ids & snapshot.owned.keys()]
        assert client.owned_sets and [one for one in client.owned_sets if one not in owned] == []


@pytest.mark.parametrize("group_id", GROUPS)
def test_every_generation_is_audited(group_id: str, warehouse: Path) -> None:
    audits = [row for row in rows(warehouse, "generation_audits") if row["group_id"] == group_id]
    assert {row["generation"] for row in audits if row["basis"] == "observed"} >= {
        snapshot.generation for snapshot in observed(warehouse)[group_id]
    }
    assert {tuple(row["violations"]) for row in audits if row["basis"] == "observed" and row["is_settled"]} == {()}
