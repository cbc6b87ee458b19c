"""What is said of groups in situations that people have reported: many small clusters in one run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.builders.tables import content, rows

SITUATIONS = Path(__file__).resolve().parents[1] / "golden" / "situations"
AS_OF = ("--as-of", "2026-09-22T00:00:00Z")
Row = dict[str, Any]


def lines(name: str, source: str) -> list[str]:
    return (SITUATIONS / name / source).read_text(encoding="utf-8").splitlines(keepends=True)


@pytest.fixture(scope="module")
def warehouse(make_tables, hot_and_silent: list[dict[str, str]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All situations in one run, and what lands of two of them in parts elsewhere."""
    folder = tmp_path_factory.mktemp("situations")
    together = folder / "together"
    together.mkdir()
    for source in hot_and_silent[0].keys() | hot_and_silent[1].keys():
        (together / source).write_text("".join(part.get(source, "") for part in hot_and_silent), encoding="utf-8")
    assert make_tables("run", "--warehouse", folder / "w", "--input", SITUATIONS, together, *AS_OF) == 0
    return folder / "w"


@pytest.fixture(scope="module")
def tables(warehouse: Path) -> dict[str, list[Row]]:
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
    """A look at one moment shows who has what. It shows only that three members have nothing."""
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


def test_member_that_stops_to_commit_among_others_has_likely_lost_its_session(tables: dict[str, list[Row]]) -> None:
    *_, second = observed(tables, "c-expired")
    likely = {"cause": "session_expired", "member_id": "a", "source": "inferred"}
    detail = "likely: its last commit was 56 s before, and its session timeout is 45 s"
    assert second["causes"] == [{**likely, "detail": detail}]


# -- situations that arrive in parts


GREW, POLLS, HOT, SILENT = "c35", "c-polls", "c25-late", "c-expired-late"
LOOKS = ("cluster_metadata.ndjson", "looks.ndjson")
STEPS = {
    GREW: ("topic-grew-behind-generation", [("warning", 2, 1), ("warning", 1, 0), ("critical", 0, 99)]),  # commits last
    POLLS: ("polls-of-the-same-members", [(None, 0, 0), ("warning", 2, 1), ("critical", 1, 2)]),
}
"""Of each cluster: in each step so many looks land, and so many records; and the finding has this severity, if it is there."""


@pytest.fixture(scope="module")
def hot_and_silent() -> list[dict[str, str]]:
    """What lands in each step of two other situations, by file, as of clusters of their own.

    A second look after the generation shows the rate. A third, between the two, shows that nothing came in at the time.

    Commits of a member that left also come late. With half of them it was silent for much longer than its session, which is no expired one.
    With all of them a likely cause appears, and with one more it was not silent.
    """
    commits = lines("session-expires-among-others", "snapshots.ndjson")
    last = json.loads(commits[-1])
    last |= {"observed_at_ms": last["observed_at_ms"] + 50_000, "offsets": [{**last["offsets"][0], "committed_at_ms": 1_790_000_250_000}]}
    of_members = [commits[:-10], commits[-10:], [json.dumps(last) + "\n"]]
    looks = lines("hot-topic-on-one-member", "cluster_metadata.ndjson")
    quiet = json.dumps({**json.loads(looks[0]), "observed_at_ms": 1_790_000_050_000}) + "\n"
    parts = [{"looks.ndjson": look, "snapshots.ndjson": "".join(part)} for look, part in zip([*looks[:2], quiet], of_members, strict=True)]
    for part in parts:
        part["looks.ndjson"] = part["looks.ndjson"].replace('"c25"', f'"{HOT}"')
        part["snapshots.ndjson"] = part["snapshots.ndjson"].replace('"c-expired"', f'"{SILENT}"')
        assert HOT in part["looks.ndjson"] and SILENT in part["snapshots.ndjson"]
    parts[0]["records.ndjson"] = "".join(lines("hot-topic-on-one-member", "consumer_offsets.ndjson"))
    return parts


LOOP, ROLLING = "c36", "c15"
FIRST = 9
"""Records of the loop in the first step: until then the member was back four times, and three times after them."""


def recurring_parts() -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Yield of two further situations, whose clusters are their own, what lands in each step."""
    records, looks = "consumer_offsets.ndjson", "cluster_metadata.ndjson"
    name = "member-put-out-by-max-poll"
    of_loop, look = lines(name, records)[:15], "".join(lines(name, looks))
    yield name, [{records: "".join(piece), looks: look} for piece in (of_loop[:FIRST], of_loop[FIRST:])] + [{}]
    name = "rolling-restart"
    yield name, [{source: "".join(lines(name, source)) for source in (records, looks)}, {}, {}]


@dataclass(frozen=True)
class Parts:
    """A warehouse in which these situations have landed in three steps, and the rows of two tables after each step."""

    warehouse: Path
    findings: list[list[Row]]
    audits: list[list[Row]]


@pytest.fixture(scope="module")
def parts(make_tables, hot_and_silent: list[dict[str, str]], tmp_path_factory: pytest.TempPathFactory) -> Parts:
    folder = tmp_path_factory.mktemp("parts")
    landed = Parts(folder / "w", [], [])
    # Records that land without a look, beside those of two other clusters, do not name their cluster.
    (folder / "settings.yaml").write_text(f"cluster_id: {GREW}\n", encoding="utf-8")
    left = {name: {path.name: lines(name, path.name) for path in sorted((SITUATIONS / name).iterdir())} for name, _ in STEPS.values()}
    for number, part in enumerate(hot_and_silent):
        texts = {("others", source): text for source, text in part.items()}
        for name, steps in STEPS.values():
            _, look_count, record_count = steps[number]
            for source, problems in left[name].items():
                count = look_count if source in LOOKS else record_count
                texts[name, source], left[name][source] = "".join(problems[:count]), problems[count:]
        texts |= {(name, source): text for name, of_step in recurring_parts() for source, text in of_step[number].items()}
        for (name, source), text in texts.items():
            if text:
                (folder / str(number) / name).mkdir(parents=True, exist_ok=True)
                (folder / str(number) / name / source).write_text(text, encoding="utf-8")
        arguments = ("--warehouse", landed.warehouse, "--config", folder / "settings.yaml", "--input", folder / str(number))
        assert make_tables("run", *arguments, *AS_OF) == 0
        landed.findings.append(rows(landed.warehouse, "findings"))
        landed.audits.append(rows(landed.warehouse, "generation_audits"))
    return landed


def findings_of(warehouse: Path, cluster: str) -> list[Row]:
    return [row for row in map(json.loads, content(warehouse, "findings")) if row["cluster_id"] == cluster]


@pytest.mark.slow
@pytest.mark.parametrize("cluster", [pytest.param(GREW, id="commits last"), pytest.param(POLLS, id="polls")])
def test_partitions_left_out_is_the_same_for_any_arrival_of_records_and_metadata(parts: Parts, warehouse: Path, cluster: str) -> None:
    """It is there once all the time."""
    for found_by_now, (severity, *_) in zip(parts.findings, STEPS[cluster][1], strict=True):
        left_out = [row["severity"] for row in found_by_now if (row["cluster_id"], row["rule_id"]) == (cluster, "partitions_left_out")]
        assert left_out == ([] if severity is None else [severity])
    assert findings_of(parts.warehouse, cluster) == findings_of(warehouse, cluster)


def inferred_details(audits: list[Row]) -> list[str]:
    causes = [cause for row in audits if row["cluster_id"] == SILENT for cause in row["causes"] or () if cause["source"] == "inferred"]
    return [cause["detail"] for cause in causes]


@pytest.mark.slow
def test_likely_causes_are_the_same_for_any_arrival(parts: Parts, tables: dict[str, list[Row]]) -> None:
    silences = [[detail.split(",")[0].removeprefix("likely: ") for detail in inferred_details(audits)] for audits in parts.audits]
    assert silences == [[], ["its last commit was 56 s before"], []]
    assert observed(tables, SILENT) and inferred_details(tables["generation_audits"]) == []


@pytest.mark.slow
def test_hot_members_are_the_same_for_any_arrival(parts: Parts, warehouse: Path) -> None:
    hot = [[row for row in found_by_now if (row["cluster_id"], row["rule_id"]) == (HOT, "hot_member")] for found_by_now in parts.findings]
    assert list(map(len, hot)) == [0, 1, 0]
    for cluster in (HOT, SILENT):
        assert findings_of(parts.warehouse, cluster) == findings_of(warehouse, cluster)


@pytest.mark.slow
def test_a_loop_that_began_in_an_earlier_run_is_found(parts: Parts) -> None:
    """What recurs over hours is carried from run to run: the second finds what the first alone, and the second alone, would not."""
    found = [
        (row["group_id"], row["generation"], row["rule_id"])
        for row in rows(parts.warehouse, "findings")
        if row["cluster_id"] in (LOOP, ROLLING)
    ]
    about = {"restart_loop", "rebalance_storm", "partition_flapping"}
    assert sorted(one for one in found if one[2] in about) == [("g36", generation, "restart_loop") for generation in (11, 13, 15)]
    solutions = [row for row in rows(parts.warehouse, "solutions") if row["cluster_id"] in (LOOP, ROLLING)]
    recurring = {(row["group_id"], row["generation"], row["basis"]) for row in solutions if row["recurrences"]}
    assert recurring == {("g36", generation, "observed") for generation in (11, 13, 15)}
    assert {row["group_id"] for row in solutions} == {"g36", "g15"}
