"""Which generations have another leader or another coordinator than the one before."""

from __future__ import annotations

from pyspark.sql import SparkSession

from jobs.report.change_rows import coordinator_changes, leader_changes
from schemas.tables import GROUP_EVENTS
from tests.builders.frames import frame, member_row, moment, snapshot_row, snapshots


def test_change_of_leader_belongs_to_its_first_generation(spark: SparkSession) -> None:
    """A generation without members or in a source without leaders is no change, and neither is the next one."""
    leaders = {"g": ["a", "a", "b", None, "c", "a"], "h": ["b", "b"]}
    rows = [
        snapshot_row(group, number, member_row("m"), leader_member_id=name)
        for group, names in leaders.items()
        for number, name in enumerate(names, 1)
    ]
    found = {(row["position"], row["before"], row["after"], row["at_ms"]) for row in leader_changes(snapshots(spark, *rows)).collect()}
    assert found == {(3, "a", "b", 3_000), (6, "c", "a", 6_000)}


def test_change_of_coordinator_is_the_first_generation_that_another_broker_logs(spark: SparkSession) -> None:
    lines = [
        ("g", 1, "1", "stabilized", 1),
        ("g", 2, "1", "stabilized", 2),
        ("g", 2, "9", "member_left", 3),
        ("g", 3, "", "stabilized", 4),
        ("g", 4, "2", "stabilized", 5),
        ("h", 1, "3", "target_computed", 6),
    ]
    names = ("group_id", "generation", "broker", "event")
    rows = [{"cluster_id": "c", "logged_at": moment(at_s * 1_000), **dict(zip(names, line, strict=True))} for *line, at_s in lines]
    (change,) = coordinator_changes(frame(spark, GROUP_EVENTS.schema, rows)).collect()
    assert (change["group_id"], change["generation"], change["before"], change["after"]) == ("g", 4, "broker 1", "broker 2")
    assert (change["position"], change["at_ms"]) == (None, 5_000)
