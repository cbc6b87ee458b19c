"""What is said of groups in situations that people have reported: many small clusters in one run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.builders.tables import content, rows

SITUATIONS = Path(__file__).resolve().parents[1] / "golden" / "situations"
AS_OF = ("--as-of", "2026-09-22T00:00:00Z")
Row = dict[str, Any]


@pytest.fixture(scope="module")
def tables(make_tables, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Row]]:
    warehouse = tmp_path_factory.mktemp("situations") / "w"
    assert make_tables("run", "--warehouse", warehouse, "--input", SITUATIONS, *AS_OF) == 0
    return {name: rows(warehouse, name) for name in ("findings", "generation_audits", "solutions")}


def found(tables: dict[str, list[Row]], cluster: str, group: str | None = None) -> dict[str, list[Row]]:
    """Return the findings of a cluster, or of one group, by rule."""
    by_rule: dict[str, list[Row]] = {}
    for row in tables["findings"]:
        if row["cluster_id"] == cluster and group in (None, row["group_id"]):
            by_rule.setdefault(row["rule_id"], []).append({**row, "evidence": dict(row["evidence"])})
    return by_rule


def observed(tables: dict[str, list[Row]], cluster: str, group: str | None = None) -> list[Row]:
    audits = [row for row in tables["generation_audits"] if row["cluster_id"] == cluster and row["basis"] == "observed"]
    return sorted((row for row in audits if group in (None, row["group_id"])), key=lambda row: row["position"])


@pytest.mark.parametrize("group", ["g27", "g27-later"])
def test_verdict_of_a_generation_with_unknown_past_is_that_of_a_first_one(tables: dict[str, list[Row]], group: str) -> None:
    """Eight topics of ten partitions, thirty members: range gives ten of them eight each. Eighty over thirty are three at the most."""
    (audit,) = observed(tables, "c27", group)
    assert (audit["verdict"], audit["imbalance_ratio"]) == ("better_elsewhere", 3.0)
    ratios = {
        row["strategy"]: row["imbalance_ratio"]
        for row in tables["generation_audits"]
        if (row["group_id"], row["basis"]) == (group, "counterfactual")
    }
    even = pytest.approx(3 / (80 / 30))
    assert ratios == {"range": 3.0, "roundrobin": even, "sticky": even, "cooperative-sticky": even}
    assert "range_crowded" in found(tables, "c27", group)


def test_the_verdict_needs_subscriptions(tables: dict[str, list[Row]]) -> None:
    """A look at one moment tells who holds what. That three members hold nothing is all that it tells of them."""
    (audit,) = observed(tables, "c16")
    assert (audit["verdict"], audit["idle_member_count"]) == (None, 3)
    (idle,) = found(tables, "c16")["idle_members"]
    assert (idle["severity"], idle["evidence"]["idle_member_count"]) == ("info", "3")


def test_an_assignment_over_one_topic_needs_no_topic_id(tables: dict[str, list[Row]]) -> None:
    for cluster in ("c22a", "c22b"):
        recomputed = [row for row in tables["solutions"] if (row["cluster_id"], row["basis"]) == (cluster, "recomputed")]
        assert [(row["status"], row["conformance"]) for row in recomputed] == [("solved", "exact")]
        assert found(tables, cluster) == {}


def test_kafka_streams_has_no_verdict_and_a_finding_where_one_instance_has_all(tables: dict[str, list[Row]]) -> None:
    (audit,) = observed(tables, "c34")
    assert (audit["verdict"], audit["better_strategy"]) == (None, None)
    (idle,) = found(tables, "c34")["idle_members"]
    assert "all 8 partitions" in idle["message"] and idle["evidence"]["idle_instance_count"] == "3"


def test_a_rolling_restart_is_no_flapping(tables: dict[str, list[Row]]) -> None:
    assert not [row for of_rule in found(tables, "c15").values() for row in of_rule if row["severity"] != "info"]


def test_partitions_that_appear_after_the_newest_generation_are_left_out(tables: dict[str, list[Row]]) -> None:
    (left_out,) = found(tables, "c35")["partitions_left_out"]
    assert left_out["severity"] == "critical", "the look after that is two hours later, and so are commits"
    expected = {"left_out_count": "4", "partitions": "q-2, q-3, q-4, q-5", "seen_at": "2026-09-21T14:23:20Z"}
    assert left_out["evidence"].items() >= expected.items()


def test_polls_that_show_the_same_members_do_not_hide_that_the_topic_has_grown(tables: dict[str, list[Row]]) -> None:
    (left_out,) = found(tables, "c-polls")["partitions_left_out"]
    newest = observed(tables, "c-polls")[-1]
    assert left_out["position"] == newest["position"]
    assert (left_out["evidence"]["partitions"], left_out["severity"]) == ("p-2, p-3", "critical")


def test_first_metadata_snapshot_accuses_no_earlier_generation(tables: dict[str, list[Row]]) -> None:
    by_rule = found(tables, "c-read-late")
    assert {rule: len(of_rule) for rule, of_rule in by_rule.items()} == {"topic_basis_uncertain": 4}
    audits = observed(tables, "c-read-late")
    assert [(row["unassigned_count"], row["pause_partition_ms"]) for row in audits] == [(0, 0)] * 4


def test_topics_on_few_members_are_found_though_loads_are_even(tables: dict[str, list[Row]]) -> None:
    """Nine members have four partitions each of two topics of eighteen; with two members, each has a whole topic."""
    (skew,) = found(tables, "c13")["topic_skew"]
    assert "topic1 with 5 of 9 members, and one of them has 4 of its 18 partitions" in skew["message"]
    (skew,) = found(tables, "c25")["topic_skew"]
    assert (skew["severity"], skew["evidence"]["topics"], skew["evidence"]["topic_skew_max"]) == ("info", "cold, hot", "4")


def test_range_that_does_not_keep_numbers_together_is_found(tables: dict[str, list[Row]]) -> None:
    """Kafka's range gives partition 1 of both topics to one member. The loads are equal, so the two assignments conform."""
    (audit,) = observed(tables, "c26")
    (parted,) = found(tables, "c26")["range_not_copartitioned"]
    assert (audit["conformance"], parted["severity"], parted["evidence"]["partitions"]) == ("equal_balance", "warning", "1, 4")


def test_member_that_stayed_without_its_claims_is_found(tables: dict[str, list[Row]]) -> None:
    """It names no generation any more, so it is no eager member: it has reset what it had."""
    by_rule = found(tables, "c30")
    (lost,) = by_rule["claims_lost"]
    assert (lost["generation"], lost["evidence"]["partitions"], "protocols_mixed" in by_rule) == (4, "x-3, x-4, x-5", False)


def test_member_that_does_not_give_up_its_partitions_is_found(tables: dict[str, list[Row]]) -> None:
    """Its own time is five minutes. Two hours later it still has them, by its record, and the other member waits."""
    (open_target,) = found(tables, "c38")["not_reconciled"]
    assert (open_target["generation"], open_target["evidence"]["waiting_member_count"]) == (2, "2")
    assert open_target["evidence"]["blocking_members"] == "AAAAAAAAAAAAAAAAAAAAA1"


def test_group_that_polls_see_rebalancing_for_an_hour_is_stuck(tables: dict[str, list[Row]]) -> None:
    """One stable poll, then sixty a minute apart. These are no generations."""
    (stuck,) = found(tables, "c20")["stuck_rebalancing"]
    assert (stuck["severity"], stuck["evidence"]["seconds"], stuck["evidence"]["poll_count"]) == ("critical", "3540", "60")
    assert "waits for members to join again" in stuck["message"] and "w1-00000001-0000-4000-8000-000000000001" in stuck["message"]
    assert len(observed(tables, "c20")) == 1


def test_member_with_all_records_is_found_though_loads_are_even(tables: dict[str, list[Row]]) -> None:
    """No partition of the busy topic has more than a quarter of the records, so it could be shared."""
    by_rule = found(tables, "c25")
    (hot,) = by_rule["hot_member"]
    assert (hot["generation"], hot["evidence"]["share_percent"], hot["evidence"]["busiest_partition"]) == (3, "100", "hot-3")
    assert "hot_partition" not in by_rule


def lines(name: str, source: str) -> list[str]:
    return (SITUATIONS / name / source).read_text(encoding="utf-8").splitlines(keepends=True)


LOOKS = ("cluster_metadata.ndjson", "looks.ndjson")


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        pytest.param("topic-grew-behind-generation", [("warning", 2, 1), ("warning", 1, 0), ("critical", 0, 99)], id="commits last"),
        pytest.param("polls-of-the-same-members", [("warning", 2, 1), ("critical", 1, 2)], id="polls"),
    ],
)
def test_partitions_left_out_is_the_same_for_any_arrival_of_records_and_metadata(
    make_tables, tmp_path: Path, name: str, steps: list[tuple[str, int, int]]
) -> None:
    """In each step so many looks land, and so many records; and the finding has this severity. It is there once all the time."""
    left = {path.name: lines(name, path.name) for path in sorted((SITUATIONS / name).iterdir())}
    for number, (severity, look_count, record_count) in enumerate(steps):
        folder = tmp_path / str(number)
        folder.mkdir()
        for source, problems in left.items():
            count = look_count if source in LOOKS else record_count
            if count:
                (folder / source).write_text("".join(problems[:count]), encoding="utf-8")
            left[source] = problems[count:]
        # The folder of records alone does not tell their cluster.
        cluster = () if look_count else ("--cluster-id", "c35")
        assert make_tables("run", "--warehouse", tmp_path / "parts", "--input", folder, *cluster) == 0
        found_by_now = [row["severity"] for row in rows(tmp_path / "parts", "findings") if row["rule_id"] == "partitions_left_out"]
        assert found_by_now == [severity]
    assert make_tables("run", "--warehouse", tmp_path / "at-once", "--input", SITUATIONS / name) == 0
    parts, at_once = ([json.loads(row) for row in content(tmp_path / warehouse, "findings")] for warehouse in ("parts", "at-once"))
    assert parts == at_once


def test_member_that_stops_to_commit_among_others_has_likely_lost_its_session(tables: dict[str, list[Row]]) -> None:
    *_, second = observed(tables, "c-expired")
    likely = {"cause": "session_expired", "member_id": "a", "source": "inferred"}
    detail = "likely: its last commit was 56 s before, and its session timeout is 45 s"
    assert second["causes"] == [{**likely, "detail": detail}]


def inferred_details(warehouse: Path) -> list[str]:
    causes = [cause for row in rows(warehouse, "generation_audits") for cause in row["causes"] or () if cause["source"] == "inferred"]
    return [cause["detail"] for cause in causes]


def test_hot_members_and_likely_causes_are_the_same_for_any_arrival(make_tables, tmp_path: Path) -> None:
    """A second look after the generation shows the rate. A third, between the two, shows that nothing came in at the time.

    Commits of a member that left also come late. With half of them it was silent for much longer than its session, which is no expired one.
    With all of them a likely cause appears, and with one more it was not silent.
    """
    commits = lines("session-expires-among-others", "snapshots.ndjson")
    last = json.loads(commits[-1])
    last |= {"observed_at_ms": last["observed_at_ms"] + 50_000, "offsets": [{**last["offsets"][0], "committed_at_ms": 1_790_000_250_000}]}
    of_members = [commits[:-10], commits[-10:], [json.dumps(last) + "\n"]]
    silences: list[list[str]] = [[], ["its last commit was 56 s before"], []]
    name = "hot-topic-on-one-member"
    looks = lines(name, "cluster_metadata.ndjson")
    quiet = json.dumps({**json.loads(looks[0]), "observed_at_ms": 1_790_000_050_000}) + "\n"
    steps = [(looks[0], 0), (looks[1], 1), (quiet, 0)]
    for number, (look, count) in enumerate(steps):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "look.ndjson").write_text(look, encoding="utf-8")
        if number == 0:
            (folder / "records.ndjson").write_text("".join(lines(name, "consumer_offsets.ndjson")), encoding="utf-8")
        (folder / "snapshots.ndjson").write_text("".join(of_members[number]), encoding="utf-8")
        assert make_tables("run", "--warehouse", tmp_path / "parts", "--input", folder) == 0
        assert [detail.split(",")[0].removeprefix("likely: ") for detail in inferred_details(tmp_path / "parts")] == silences[number]
        assert len([row for row in rows(tmp_path / "parts", "findings") if row["rule_id"] == "hot_member"]) == count
    together = tmp_path / "together"
    together.mkdir()
    (together / "looks.ndjson").write_text("".join(look for look, _ in steps), encoding="utf-8")
    (together / "records.ndjson").write_text("".join(lines(name, "consumer_offsets.ndjson")), encoding="utf-8")
    (together / "snapshots.ndjson").write_text("".join(line for part in of_members for line in part), encoding="utf-8")
    assert make_tables("run", "--warehouse", tmp_path / "at-once", "--input", together) == 0
    assert inferred_details(tmp_path / "at-once") == []
    assert content(tmp_path / "parts", "findings") == content(tmp_path / "at-once", "findings")
