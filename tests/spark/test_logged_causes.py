"""Logs of coordinators land, and generations get the causes that they name, whatever lands first and however the logs are cut."""

from __future__ import annotations

import gzip
import json
import random
from collections import Counter
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs.audit.logged_causes import READ_HERE, refresh, with_groups
from jobs.workers.guard import WorkerLimits
from schemas.tables import GENERATION_AUDITS, GROUP_EVENTS, SUBSCRIPTION_SNAPSHOTS
from tests.builders.frames import StoredInMemory, frame, member_row, moment, snapshot_row, snapshots
from tests.builders.tables import assert_equal_warehouses, content, rows

RECORDED = Path(__file__).resolve().parents[1] / "golden" / "coordinator_log"
LOGS = sorted(RECORDED.glob("broker-*.log.gz"))
RECORDS = RECORDED / "consumer_offsets.parquet"
Make = Callable[..., int]
COMPARED = ("group_events", "generation_audits", "quarantine")

CLOSED_BY = {"java": "closed", "franz": "closed", "rdk": "left", "kp": "left", "sarama": "left", "js": "left"}
"""Client library -> what a coordinator logs when a classic member closes: only Java since 3.2 and franz-go give a reason."""


CLOSES = {
    ("java", "closed"): 111,
    ("java", "left"): 11,
    ("java", ""): 11,
    ("franz", "closed"): 17,
    ("kp", "left"): 13,
    ("rdk", "left"): 12,
    ("sarama", "left"): 12,
    ("js", "left"): 4,
    ("without a generation", "java"): 4,
    ("without a generation", "kp"): 1,
}
"""How often clients close in the recording, and with which words; static members have none of them."""


@pytest.fixture(scope="module")
def recorded(make_tables: Make, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cluster with its logs, in one run."""
    warehouse = tmp_path_factory.mktemp("recorded") / "w"
    assert make_tables("run", "--warehouse", warehouse, "--input", RECORDS, *LOGS, "--strategies", "range") == 0
    return warehouse


def pieces(seed: int) -> list[bytes]:
    """Return the lines of all logs in 20 pieces in random order; a tenth of the lines is in the piece before too."""
    pieces: list[bytes] = []
    for log in LOGS:
        lines = gzip.decompress(log.read_bytes()).splitlines(keepends=True)
        size = -(-len(lines) // 7)
        cut = [lines[start : start + size + size // 10] for start in range(0, len(lines), size)]
        pieces += map(b"".join, cut)
    random.Random(seed).shuffle(pieces)
    return pieces


@pytest.mark.slow
def test_pieces_before_and_after_the_records_make_equal_tables(recorded: Path, make_tables: Make, tmp_path: Path) -> None:
    """An equal line of two pieces is one event; two equal lines of one millisecond and one piece are two."""
    for number, piece in enumerate(pieces(1)):
        folder = tmp_path / ("before" if number % 2 else "after")
        folder.mkdir(exist_ok=True)
        (folder / f"server.log.{number}").write_bytes(piece)
    for command, inputs in (("land", tmp_path / "before"), ("run", RECORDS), ("run", tmp_path / "after")):
        strategies = ("--strategies", "range") if command == "run" else ()
        assert make_tables(command, "--warehouse", tmp_path / "w", "--input", inputs, *strategies, "--cluster-id", "default") == 0
    assert_equal_warehouses(tmp_path / "w", recorded, COMPARED)
    before = content(tmp_path / "w", "group_events")
    again = ("--warehouse", tmp_path / "w", "--input", *LOGS, "--cluster-id", "default")
    assert make_tables("land", *again) == 0
    assert content(tmp_path / "w", "group_events") == before
    counts = dict(max(rows(tmp_path / "w", "runs"), key=lambda row: row["run_sequence"])["input_counts"])
    assert counts["coordinator-log.duplicate"] == len(before) and "coordinator-log.landed" not in counts


class Recorded:
    """What was done to clients, and the causes of the generations that followed."""

    def __init__(self, warehouse: Path) -> None:
        self.actions = [json.loads(line) for line in gzip.open(RECORDED / "timeline.jsonl.gz")]
        self.kinds = {(one["group"], one.get("client_id")): one["client"] for one in self.actions if one["action"] == "start"}
        snapshots = sorted(rows(warehouse, "subscription_snapshots"), key=lambda row: row["position"])
        self.members = {(row["group_id"], member["member_id"]): (row, member) for row in snapshots for member in row["members"]}
        audits = [row for row in rows(warehouse, "generation_audits") if row["basis"] == "observed"]
        self.audits = sorted(audits, key=lambda row: row["position"])

    def after(self, action: dict[str, Any], within_s: float = 15) -> list[tuple[str, str, bool]]:
        """Return cause, source and whether the member is static, of each departure of the client after an action."""
        start, found = moment(action["ts_ms"]), []
        for audit in self.audits:
            if audit["group_id"] != action["group"] or not start <= audit["observed_at"] <= start + timedelta(seconds=within_s):
                continue
            for cause in audit["causes"] or ():
                _, member = self.members.get((audit["group_id"], cause["member_id"]), (None, None))
                if member is not None and member["client_id"] == action["client_id"] and cause["cause"] not in ("joined", "hand_over"):
                    found.append((cause["cause"], cause["source"], member["group_instance_id"] is not None))
        return found


@pytest.fixture(scope="module")
def cluster(recorded: Path) -> Recorded:
    return Recorded(recorded)


def test_each_stall_kill_unsubscribe_and_removal_has_its_word(cluster: Recorded) -> None:
    expected = {"kill_process": "session_expired", "stall": "poll_timeout", "unsubscribe": "unsubscribed"}
    seen: Counter[str] = Counter()
    for action in cluster.actions:
        if action["action"] in expected:
            seen[action["action"]] += 1
            assert (expected[action["action"]], "log") in {one[:2] for one in cluster.after(action, within_s=60)}, action
    assert seen == {"kill_process": 4, "stall": 6, "unsubscribe": 1}
    (removal,) = [one for one in cluster.actions if one["action"] == "remove_members"]
    removed = [
        cause["cause"]
        for audit in cluster.audits
        if audit["group_id"] == removal["group"] and 0 <= (audit["observed_at"] - moment(removal["ts_ms"])).total_seconds() < 5
        for cause in audit["causes"]
    ]
    assert removed == ["removed_by_admin"]
    (enforced,) = [one for one in cluster.actions if one["action"] == "enforce"]
    assert cluster.after(enforced, within_s=2) == [("enforced", "log", False)]


def test_each_close_has_the_word_of_its_client_and_protocol(cluster: Recorded) -> None:
    """Members of the consumer protocol close without a reason. Static members stay, until their session expires."""
    seen: Counter[tuple[str, str]] = Counter()
    for action in cluster.actions:
        if action["action"] != "close":
            continue
        kind = cluster.kinds[action["group"], action["client_id"]]
        types = {
            row["group_type"]
            for (group_id, _), (row, member) in cluster.members.items()
            if group_id == action["group"] and member["client_id"] == action["client_id"]
        }
        found = cluster.after(action)
        if not types or not found:
            seen["without a generation", kind] += 1
            continue
        words = {word for word, _, is_static in found if not is_static}
        allowed = {CLOSED_BY[kind]} | ({"left"} if "consumer" in types else set())
        assert words <= allowed, (action, found)
        seen[kind, ",".join(sorted(words))] += 1
    assert seen == CLOSES


def test_no_cause_of_the_log_is_without_its_line(recorded: Path, cluster: Recorded) -> None:
    """Each member that the log makes leave is in no later generation."""
    last = {}
    for row in sorted(rows(recorded, "subscription_snapshots"), key=lambda row: row["position"]):
        for member in row["members"]:
            last[row["group_id"], member["member_id"]] = row["position"]
    gone = {"closed", "left", "poll_timeout", "unsubscribed", "session_expired", "removed_by_admin"}
    checked = 0
    for audit in cluster.audits:
        for cause in audit["causes"] or ():
            if cause["source"] == "log" and cause["cause"] in gone:
                checked += 1
                assert last[audit["group_id"], cause["member_id"]] < audit["position"], (audit["group_id"], cause)
    assert checked > 150


def test_line_of_a_fenced_member_belongs_to_the_group_of_its_replacement(spark: SparkSession) -> None:
    """It names members only. A member id that is replaced in two groups belongs to neither."""
    events = [
        ("c", "g", "static_replaced", None, "a"),
        ("c", "h", "static_replaced", None, "b"),
        ("c", "i", "static_replaced", None, "b"),
        *(("c", None, "static_fenced", member_id, "new") for member_id in "abz"),
        ("other", None, "static_fenced", "a", "new"),
        ("c", None, "leader_replaced", "a", "new"),
    ]
    columns = "cluster_id string, group_id string, event string, member_id string, previous_member_id string"
    found = with_groups(spark.createDataFrame(events, columns)).where("event = 'static_fenced'")
    assert [tuple(row) for row in found.select(*columns.split()[::2]).collect()] == [("c", "g", "static_fenced", "a", "new")]


def test_each_rebalance_of_the_recording_ends_and_no_departure_has_only_a_likely_cause(recorded: Path, cluster: Recorded) -> None:
    """Brokers log on for minutes, and clients have timeouts of some seconds. The log says how each member left."""
    assert "stuck_rebalancing" not in {row["rule_id"] for row in rows(recorded, "findings")}
    assert "inferred" not in {cause["source"] for audit in cluster.audits for cause in audit["causes"] or ()}


ANOTHER_ZONE = ("--input", RECORDS, *LOGS, "--log-time-zone", "Asia/Kolkata")
"""Its times are five and a half hours off, so that all lines are outside their generations."""


def test_log_in_another_zone_has_a_warning(make_tables: Make, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert make_tables("land", "--warehouse", tmp_path / "w", *ANOTHER_ZONE) == 0
    warnings = [line for line in capfd.readouterr().err.splitlines() if "Nothing was shifted" in line]
    assert len(warnings) == 3 and all("-330 minutes" in text and text.endswith("a zone that is UTC+00:00") for text in warnings)


@pytest.mark.slow
def test_log_in_another_zone_gives_no_wrong_cause(recorded: Path, make_tables: Make, tmp_path: Path) -> None:
    assert make_tables("run", "--warehouse", tmp_path / "w", *ANOTHER_ZONE, "--strategies", "range") == 0
    right = {(row["group_id"], row["position"]): row["causes"] for row in rows(recorded, "generation_audits") if row["basis"] == "observed"}
    for row in rows(tmp_path / "w", "generation_audits"):
        if row["basis"] == "observed":
            logged = [cause for cause in row["causes"] or () if cause["source"] == "log"]
            assert all(cause in right[row["group_id"], row["position"]] for cause in logged)


def second_run_of(warehouse: StoredInMemory, kept_from: date | None = None) -> Any:
    """Return the second run, which has read the events of the first one."""
    return SimpleNamespace(
        warehouse=warehouse,
        state=SimpleNamespace(retained_from=kept_from, consumed={READ_HERE: 1}),
        worker_limits=WorkerLimits(memory_mb=4_096, idle_timeout_s=60),
        run_sequence=2,
        run_columns={"run_sequence": F.lit(2).cast("bigint")},
    )


@pytest.mark.parametrize(("kept_from", "changed"), [(None, [1]), (date(1970, 2, 1), [])], ids=["no retention", "retention"])
def test_causes_of_a_generation_whose_events_are_gone_stay(spark: SparkSession, kept_from: date | None, changed: list[int]) -> None:
    """A later generation ends the pause of an old one, whose audit is written again. Its month has no events any more."""
    key = {"cluster_id": "c", "group_id": "g", "basis": "observed", "strategy": "range"}
    cause = {"cause": "joined", "member_id": "a", "source": "log", "detail": None}
    old = {**key, "generation": 1, "position": 1, "observed_at": moment(1_000), "causes": [cause], "run_sequence": 2}
    audits = [{**old, "observed_month": date(1970, 1, 1)}]
    later = {"cluster_id": "c", "group_id": "g", "broker": "1", "logged_at": moment(170 * 86_400_000), "event": "stabilized"}
    tables = {
        GENERATION_AUDITS.name: frame(spark, GENERATION_AUDITS.schema, audits),
        GROUP_EVENTS.name: frame(spark, GROUP_EVENTS.schema, [{**later, "run_sequence": 1}]),
        SUBSCRIPTION_SNAPSHOTS.name: snapshots(spark, snapshot_row("g", 1, member_row("a"), observed_at=moment(1_000))),
    }
    warehouse = StoredInMemory(tables)
    refresh(second_run_of(warehouse, kept_from))
    assert [row["position"] for row in warehouse.replaced] == changed


def test_generation_is_compared_with_the_one_before_by_position_where_a_clock_steps_back(spark: SparkSession) -> None:
    """The second generation has an earlier time than the first, as after a new coordinator whose clock is a second late."""
    times_s = {1: 1_200, 2: 1_199, 3: 1_300}
    members = {1: "ab", 2: "a", 3: "ac"}
    key = {"cluster_id": "c", "group_id": "g", "basis": "observed", "strategy": "range", "observed_month": date(1970, 1, 1)}
    audits = [{**key, "generation": n, "position": n, "observed_at": moment(times_s[n] * 1_000), "run_sequence": 2} for n in times_s]
    left = {"event": "member_left", "member_id": "b", "client_reason": "the consumer is being closed"}
    event = {"cluster_id": "c", "group_id": "g", "broker": "1", "logged_at": moment(1_198_000), "run_sequence": 1, **left}
    rows_of = [snapshot_row("g", n, *[member_row(name) for name in members[n]], observed_at=moment(times_s[n] * 1_000)) for n in times_s]
    tables = {
        GENERATION_AUDITS.name: frame(spark, GENERATION_AUDITS.schema, audits),
        GROUP_EVENTS.name: frame(spark, GROUP_EVENTS.schema, [event]),
        SUBSCRIPTION_SNAPSHOTS.name: snapshots(spark, *rows_of),
    }
    warehouse = StoredInMemory(tables)
    refresh(second_run_of(warehouse))
    assert {row["position"]: [one["cause"] for one in row["causes"]] for row in warehouse.replaced} == {2: ["closed"]}
