"""Lines of coordinators are found in logs of all patterns, and a recorded log agrees with its records and with what was done."""

from __future__ import annotations

import gzip
import io
import json
import re
import time
from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.decoders import text_pieces
from jobs.decoders.captures import HEAD_BYTES
from jobs.decoders.coordinator_log import LONGEST_LINE_BYTES, DecodedLog, decode_piece, has_coordinator_line, looks_like_coordinator_log
from jobs.decoders.describe import looks_like_describe
from jobs.decoders.dump_log import looks_like_dump
from jobs.decoders.formatter_json import find_separator
from jobs.decoders.log_times import GenerationLine, fitting_zone
from jobs.runtime.errors import UsageError

ROOT = Path(__file__).parents[4]
GOLDEN = ROOT / "tests" / "golden"
RECORDED = GOLDEN / "coordinator_log"
Row = dict[str, Any]
AT_MS = 1795227707123
"""2026-11-21 02:21:47.123 UTC."""
SCALA, JAVA = "kafka.coordinator.group.GroupCoordinator", "org.apache.kafka.coordinator.group.GroupMetadataManager"
MESSAGE = "[GroupCoordinator 1]: Stabilized group orders generation 42 (__consumer_offsets-12) with 3 members"
LEFT = "[GroupCoordinator id=1 topic=__consumer_offsets partition=12] [Group orders] Member m has left group through explicit `LeaveGroup`"
LEFT += " request; client reason: the consumer is being closed"
OTHER = "[2026-11-21 02:21:47,123] INFO [Partition orders-3 broker=1] Log loaded for partition orders-3 (kafka.cluster.Partition)"


def kafka_line(message: str = MESSAGE, logger: str = SCALA, level: str = "INFO") -> str:
    return f"[2026-11-21 02:21:47,123] {level} {message} ({logger})"


def decode(*lines: str, zone: str | None = None) -> DecodedLog:
    return decode_piece("".join(f"{line}\n" for line in lines).encode(), zone)


def only_row(*lines: str, zone: str | None = None) -> Row:
    (row,) = decode(*lines, zone=zone).rows
    return dict(row)


def refusals(*lines: str) -> list[str]:
    log = decode(*lines)
    assert log.rows == []
    return [line.reason for line in log.refused]


def counted(log: DecodedLog) -> int:
    return len(log.rows) + len(log.refused) + log.other_lines + log.too_long + log.skipped.total()


# -- the recorded cluster


@cache
def recorded(broker: int) -> bytes:
    return gzip.decompress((RECORDED / f"broker-{broker}.log.gz").read_bytes())


@cache
def recorded_rows() -> list[Row]:
    return [dict(row) for broker in (1, 2, 3) for row in decode_piece(recorded(broker)).rows]


def of_file(name: str) -> list[Row]:
    return [json.loads(line) for line in gzip.decompress((RECORDED / name).read_bytes()).decode().splitlines()]


@pytest.mark.parametrize("broker", [1, 2, 3])
def test_every_line_of_a_recorded_coordinator_is_decoded_or_counted(broker: int) -> None:
    """A wording of 4.3 that is missing, or a line that is counted twice."""
    log = decode_piece(recorded(broker))
    lines = recorded(broker).decode().splitlines()
    of_coordinator = [line for line in lines if re.search(r" \(org\.apache\.kafka\.coordinator\.group\.\w+\)$", line)]
    assert log.refused == []
    assert log.lines == len(lines) == counted(log)
    assert len(log.rows) + log.skipped.total() == len(of_coordinator)
    assert "debug" not in log.skipped and "no_group" not in log.skipped
    assert {row["broker"] for row in log.rows} == {str(broker)}
    assert len({row["line_hash"] for row in log.rows}) == len(log.rows)
    assert all(f"partition={row['offsets_partition']}]" in lines[row["line_number"] - 1] for row in log.rows)


def test_recorded_generations_have_their_lines() -> None:
    """A generation, group or number of members that is read wrongly: the records of the same cluster have them too."""
    generations = {(row["group_id"], row["generation"]): row for row in of_file("generations.jsonl.gz") if row["members"]}
    stabilized = {(row["group_id"], row["generation"]): row for row in recorded_rows() if row["event"] == "stabilized"}
    assigned = {(row["group_id"], row["generation"]): row for row in recorded_rows() if row["event"] == "assignment_received"}
    # The coordinator itself wrote the generation of a group that it turned to the classic protocol.
    converted = {row["group_id"] for row in recorded_rows() if row["event"] == "converted_to_classic"}
    assert {group for group, _ in set(generations) - set(assigned)} == converted
    assert set(generations) - set(stabilized) == set(generations) - set(assigned)
    for key, row in assigned.items():
        if key in generations:
            assert row["member_count"] == len(generations[key]["members"])
    # The record of a static member that returned has a new leader, under a generation that was assigned before.
    others = [key for key in assigned if key in generations and assigned[key]["member_id"] != generations[key]["leader"]]
    replaced = {row["group_id"] for row in recorded_rows() if row["event"] == "static_replaced"}
    assert {group for group, _ in others} <= replaced


def test_what_was_done_to_clients_is_in_the_log() -> None:
    """A reason of another kind, or a client's reason that is lost."""
    rows = recorded_rows()

    def found(action: Row, event: str, **fields: str) -> bool:
        name = action.get("client_id") or action.get("instance", "")
        return any(
            row["event"] == event
            and row["group_id"] == action["group"]
            and 0 <= row["logged_at_ms"] - action["ts_ms"] <= 9_000
            and any((row[column] or "").startswith(name) for column in ("member_id", "reason_member_id", "group_instance_id"))
            and all(row[column] == value for column, value in fields.items())
            for row in rows
        )

    consumer_groups = {row["group_id"] for row in rows if row["event"] == "epoch_bumped"}
    done: Counter[str] = Counter()
    for action in of_file("timeline.jsonl.gz"):
        kind = action["action"]
        done[kind] += 1
        if kind == "stall":
            assert found(action, "member_left", client_reason="consumer poll timeout has expired."), action
        elif kind == "unsubscribe":
            assert found(action, "member_left", client_reason="the consumer unsubscribed from all topics"), action
        elif kind == "remove_members":
            assert found(action, "member_left", client_reason="member was removed by an admin"), action
        elif kind == "enforce":
            assert found(action, "rebalance_started", reason_kind="leader_rejoined", client_reason="capture"), action
        elif kind == "delete_group":
            assert any(row["event"] == "deleted" and row["group_id"] == action["group"] for row in rows), action
        elif kind == "kill_process" and action["group"] not in consumer_groups:
            assert found(action, "member_expired"), action
            assert found(action, "rebalance_started", reason_kind="heartbeat_expired"), action
    assert {"stall", "unsubscribe", "remove_members", "enforce", "delete_group", "kill_process"} <= set(done)


def test_zone_of_the_recorded_cluster_is_found() -> None:
    generations = {(row["group_id"], row["generation"]): [row["state_since_ms"]] for row in of_file("generations.jsonl.gz")}

    def offsets(zone: str) -> dict[str, int]:
        return fitting_zone(
            [
                GenerationLine(row["broker"], row["group_id"], row["generation"], row["logged_at_ms"])
                for broker in (1, 2, 3)
                for row in decode_piece(recorded(broker), zone).rows
                if row["event"] in ("stabilized", "assignment_received") and row["group_id"] and row["generation"] is not None
            ],
            generations,
        )

    assert offsets("UTC") == {}
    assert offsets("Asia/Kolkata") == {"1": -330, "2": -330, "3": -330}


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 556), max_size=8), st.sampled_from(["\n", "\r\n", "\r"]))
def test_rows_are_the_same_however_a_log_is_cut(cuts: list[int], end: str) -> None:
    """Anything that a line takes from the lines around it, and a count that depends on the pieces."""
    lines = [f"{line}{end}".encode() for line in recorded(1).decode().splitlines()]
    edges = [0, *sorted(cuts), len(lines)]
    pieces = [decode_piece(b"".join(lines[begin:stop])) for begin, stop in pairwise(edges)]
    shifted = [{**row, "line_number": row["line_number"] + begin} for log, begin in zip(pieces, edges, strict=False) for row in log.rows]
    whole = decode_piece(recorded(1))
    assert shifted == whole.rows
    assert sum(log.other_lines for log in pieces) == whole.other_lines
    assert sum((log.skipped for log in pieces), Counter()) == whole.skipped


def test_pieces_of_the_text_cutter_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_pieces, "PIECE_BYTES", 20_000)
    content = io.BytesIO(recorded(2))
    pieces = [*text_pieces.cut(content, None, 1 << 20)]
    rows = [
        {**row, "line_number": row["line_number"] + piece.number - 1}
        for piece in pieces
        for row in decode_piece(recorded(2)[piece.start : piece.end]).rows
    ]
    assert len(pieces) > 5
    assert rows == decode_piece(recorded(2)).rows


# -- patterns of log4j


@pytest.mark.parametrize(
    "line",
    [
        kafka_line(),
        f"[2026-11-21T02:21:47.123] INFO {MESSAGE} ({SCALA})",
        f"[2026-11-21 02:21:47,123]  INFO {MESSAGE} ({SCALA})",
        f"2026-11-21 02:21:47,123 INFO  [group-metadata-manager-0] {SCALA} - {MESSAGE}",
        f"2026-11-21 02:21:47,123 INFO  {MESSAGE} [{SCALA}]",
        f"INFO 2026-11-21 02:21:47.123 [data-plane-kafka-request-handler-3] {MESSAGE} ({SCALA})",
        f"INFO  [2026-11-21 02:21:47,123] [k.c.g.GroupCoordinator] [executor-Heartbeat] {MESSAGE}",
        f"2026-11-21T03:21:47.123+01:00 [executor-Rebalance] INFO GroupCoordinator: {MESSAGE}",
        f"2026-11-21T02:21:47.123Z INFO {MESSAGE}",
        f"2026-11-21 02:21:47,123 {MESSAGE}",
        f"2026-11-21T02:21:47.987654321Z stdout F [2026-11-21 02:21:47,123] INFO {MESSAGE} ({SCALA})",
        f"Nov 21 02:21:47 broker-1 kafka-server-start.sh[812]: [2026-11-21 02:21:47,123] INFO {MESSAGE} ({SCALA})",
    ],
)
def test_line_is_read_in_other_patterns_of_log4j(line: str) -> None:
    """A pattern that only Kafka's own log has."""
    row = only_row(line)
    assert (row["event"], row["group_id"], row["generation"], row["member_count"]) == ("stabilized", "orders", 42, 3)
    assert (row["broker"], row["logged_at_ms"], row["is_time_ambiguous"], row["offsets_partition"]) == ("1", AT_MS, False, 12)


def test_zone_of_the_caller_is_used_where_none_is_written() -> None:
    assert only_row(kafka_line(), zone="Europe/Berlin")["logged_at_ms"] == AT_MS - 3_600_000
    written = f"2026-11-21T02:21:47.123Z INFO {SCALA} {MESSAGE}"
    assert only_row(written, zone="Europe/Berlin")["logged_at_ms"] == AT_MS
    repeated = only_row(kafka_line().replace("2026-11-21 02:21", "2026-10-25 02:21"), zone="Europe/Berlin")
    assert repeated["is_time_ambiguous"] is True
    with pytest.raises(UsageError, match="Atlantis"):
        decode(kafka_line(), zone="Atlantis/Capital")


@pytest.mark.parametrize(
    ("prefix", "logger", "broker", "partition"),
    [
        ("[GroupCoordinator 7]: ", SCALA, "7", None),
        ("[GroupMetadataManager brokerId=7] ", "kafka.coordinator.group.GroupMetadataManager", "7", None),
        ("[GroupCoordinator id=7 topic=__consumer_offsets partition=3] ", JAVA, "7", 3),
        ("", JAVA, "", None),
    ],
)
def test_broker_and_partition_are_those_of_the_prefix(prefix: str, logger: str, broker: str, partition: int | None) -> None:
    row = only_row(kafka_line(f"{prefix}Group orders with generation 4 is now empty.", logger))
    assert (row["broker"], row["offsets_partition"], row["group_id"], row["generation"]) == (broker, partition, "orders", 4)


def test_time_before_the_line_is_not_that_of_the_collector() -> None:
    """The first time in a line."""
    line = f"2026-11-21T09:00:00.000000000Z stdout F {kafka_line()}"
    assert only_row(line, zone="Europe/Berlin")["logged_at_ms"] == AT_MS - 3_600_000


@pytest.mark.parametrize(
    "line",
    [
        OTHER,
        "",
        "java.lang.IllegalStateException: [GroupCoordinator was not started",
        "\tat kafka.coordinator.group.GroupCoordinator.onCompleteJoin(GroupCoordinator.scala:1201)",
        "\tat org.apache.kafka.coordinator.group.GroupMetadataManager.lambda$x$1(GroupMetadataManager.java:77)",
        "Caused by: kafka.common.KafkaException: GroupCoordinator is down",
        "\t... 12 more",
        f"[2026-11-21 02:21:47,123] INFO the line {MESSAGE} was repeated here (kafka.server.KafkaApis)",
        f"[2026-11-21 02:21:47,123] WARN {MESSAGE} (com.example.Repeater)",
        f"2026-11-21 02:21:47,123 WARN {MESSAGE} (com.example.Repeater)",
        f"2026-11-21 02:21:47,123 INFO a story of many words in which one repeats the message {MESSAGE}",
        "[2026-11-21 02:21:47,123] INFO [GroupMetadata cache] Loaded (org.example.cache.Groups)",
    ],
)
def test_line_of_another_logger_is_only_counted(line: str) -> None:
    """A row from a stack trace, or from a message that repeats another one."""
    log = decode(line)
    assert (log.rows, log.refused, log.other_lines, log.lines) == ([], [], 1, 1)


def test_stack_trace_after_a_line_is_no_part_of_it() -> None:
    trace = "java.lang.IllegalStateException: gone\n\tat kafka.coordinator.group.GroupCoordinator.x(GroupCoordinator.scala:1)"
    log = decode(OTHER, kafka_line(), trace, kafka_line(MESSAGE.replace("orders", "bills")), OTHER)
    assert [(row["line_number"], row["group_id"]) for row in log.rows] == [(2, "orders"), (5, "bills")]
    assert (log.other_lines, log.lines, log.refused) == (4, 6, [])


@pytest.mark.parametrize(
    "line",
    [
        kafka_line(LEFT, JAVA)[:-40],
        kafka_line(LEFT, JAVA)[:180],
        kafka_line()[: len("[2026-11-21 02:21:47,123] INFO [GroupCoordinator 1]: Stabi")],
        kafka_line()[30:],
        kafka_line()[80:],
        kafka_line()[len("[2026-11-21 02:21:47,123] INFO ") :],
        kafka_line(MESSAGE.replace("orders", "or\nders")).split("\n")[0],
        kafka_line(MESSAGE.replace("orders", "or\nders")).split("\n")[1],
    ],
)
def test_part_of_a_line_is_refused(line: str) -> None:
    """A client's reason that is cut, and a message without its beginning."""
    assert refusals(line) in (["torn_line"], ["no_time"])


def test_last_line_of_a_log_may_lack_its_end() -> None:
    """A line that is complete but for its end is lost, or a reason that is cut is read."""
    before = f"2026-11-21 02:21:47,123 INFO {JAVA} - {LEFT}"
    assert [row["event"] for row in decode_piece(kafka_line(LEFT, JAVA).encode()).rows] == ["member_left"]
    assert [line.reason for line in decode_piece(before[:-10].encode()).refused] == ["torn_line"]
    assert [row["client_reason"] for row in decode_piece(f"{before}\n".encode()).rows] == ["the consumer is being closed"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (kafka_line("[GroupCoordinator 1]: Group orders went to the moon"), "unknown_wording"),
        (kafka_line("[GroupCoordinator 1]: Member a in group b in group c has failed, removing it from the group"), "ambiguous"),
        (f"02:21:47,123 INFO {SCALA} - {MESSAGE}", "no_time"),
        (kafka_line().replace("2026-11-21", "2026-11-31"), "bad_time"),
        (kafka_line().replace("2026", "0026"), "bad_time"),
        ('{"message": "[GroupCoordinator 1]: Stabilized group', "bad_json"),
        (json.dumps({"loggerName": SCALA, "message": MESSAGE, "timeMillis": -5}), "bad_json"),
        (json.dumps({"loggerName": SCALA, "message": MESSAGE}), "no_time"),
        (json.dumps({"loggerName": SCALA, "message": MESSAGE.replace("orders", "\ud800"), "timeMillis": AT_MS}), "bad_json"),
    ],
)
def test_line_that_cannot_be_used_is_refused_with_a_reason(line: str, reason: str) -> None:
    log = decode(OTHER, line)
    (refused,) = log.refused
    assert (log.rows, refused.reason, refused.line_number, refused.payload) == ([], reason, 2, line.encode())
    assert refused.detail


def test_lost_names_are_refused() -> None:
    """Names with the replacement character."""
    line = kafka_line(MESSAGE.replace("orders", "é")).encode("latin-1")
    other = OTHER.replace("orders", "é GroupCoordinator").encode("latin-1")
    log = decode_piece(line + b"\n" + other + b"\n")
    assert ([refused.reason for refused in log.refused], log.rows, log.other_lines) == (["not_utf8"], [], 1)


def test_lines_that_are_no_event_are_counted_by_kind() -> None:
    log = decode(
        kafka_line("[GroupCoordinator 1]: Starting up."),
        kafka_line("[GroupCoordinator 1]: Something new about nothing"),
        kafka_line("[GroupCoordinator 1]: Group orders is having a look", level="DEBUG"),
        kafka_line(
            "[GroupCoordinator id=1] Finished loading of metadata from __consumer_offsets-5 with epoch 0 in 12ms where 0ms was spent in"
            " the scheduler. Loaded 0 records which total to 0 bytes.",
            "org.apache.kafka.coordinator.common.runtime.CoordinatorRuntime",
        ),
        kafka_line(
            "[GroupMetadataManager brokerId=1] Removed 0 expired offsets in 0 milliseconds.", "kafka.coordinator.group.GroupMetadataManager"
        ),
    )
    assert log.skipped == {"lifecycle": 1, "no_group": 1, "debug": 1, "loading": 1, "offsets": 1}
    assert (log.rows, log.refused, log.other_lines) == ([], [], 0)


@pytest.mark.parametrize("size", [LONGEST_LINE_BYTES, LONGEST_LINE_BYTES + 1])
def test_too_long_line_is_counted_and_not_decoded(size: int) -> None:
    """A limit that is one byte off, a long line at the beginning or the end, and lines after one."""
    shortest = kafka_line(MESSAGE.replace("orders", ""))
    long_line = kafka_line(MESSAGE.replace("orders", "o" * (size - len(shortest))))
    assert len(long_line) == size
    is_too_long = size > LONGEST_LINE_BYTES
    for piece, others in (
        ([long_line], 0),
        ([OTHER, long_line, OTHER], 2),
        ([long_line, long_line, kafka_line()], 0),
        ([OTHER * 20_000, long_line], 0),
    ):
        log = decode(*piece)
        long_others = sum(len(line) > LONGEST_LINE_BYTES and line is not long_line for line in piece)
        assert log.too_long == is_too_long * piece.count(long_line) + long_others
        assert log.other_lines == others
        assert counted(log) == log.lines == len(piece)
    without_end = decode_piece(long_line.encode())
    assert (without_end.too_long, len(without_end.rows)) == (is_too_long, not is_too_long)


@pytest.mark.parametrize(
    "name", ["in group ", "] Member ", " with old generation 5 (reason: ", " has left group ", "(", "2026-11-21 02:21:47,123 "]
)
def test_line_of_separators_is_read_in_time_that_grows_with_its_length(name: str) -> None:
    """A search that begins anew at each separator takes hours."""
    names = name * (LONGEST_LINE_BYTES // len(name) - 20)
    for message in (f"Member {names}", f"[GroupId {names}", f"Preparing to rebalance group {names}", names):
        began = time.process_time()
        log = decode(kafka_line(f"[GroupCoordinator 1]: {message}"), f"{names} [GroupCoordinator 1]: Stabilized group a generation 1")
        assert time.process_time() - began < 20
        assert log.lines == counted(log) == 2


def test_hash_of_a_line_is_that_of_its_text() -> None:
    """A hash that differs from process to process, or with the line end."""
    row = only_row(kafka_line())
    assert row["line_hash"] == decode_piece(kafka_line().encode() + b"\r\n").rows[0]["line_hash"] == "c281609ac0c78d84"  # b2sum -l 64
    in_json = only_row(json.dumps({"log": kafka_line() + "\n", "stream": "stdout", "time": "2026-11-21T02:21:47.200Z"}))
    assert in_json["line_hash"] == row["line_hash"]
    assert only_row(kafka_line().replace("orders", "order"))["line_hash"] != row["line_hash"]


@pytest.mark.parametrize(
    "coloured",
    [
        pytest.param(f"\x1b[32m{kafka_line()}\x1b[0m", id="a whole line"),
        pytest.param(kafka_line().replace("Coordinator", "\x1b[01;31m\x1b[KCoordinator\x1b[m\x1b[K"), id="words that grep found"),
        pytest.param(kafka_line().replace("Group", "\x1b[1mGroup\x1b(B\x1b[m"), id="in bold"),
        pytest.param(f"\x1b[36mbroker-1  |\x1b[0m {kafka_line()}", id="after the name of a container"),
        pytest.param(json.dumps({"log": f"\x1b[32m{kafka_line()}\x1b[0m\n", "stream": "stdout"}), id="in JSON"),
    ],
)
def test_colours_of_a_terminal_are_no_part_of_a_line(coloured: str) -> None:
    assert looks_like_coordinator_log(f"{coloured}\n".encode())
    assert only_row(coloured) == only_row(re.sub(r"\x1b\(B|\x1b\[[0-9;]*[mK]", "", coloured))
    assert only_row(coloured)["group_id"] == "orders"


def test_an_empty_log_has_nothing() -> None:
    assert decode_piece(b"") == DecodedLog()


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.one_of(st.binary(max_size=60), st.sampled_from([kafka_line().encode(), b'{"message":', b"GroupCoordinator", b"}", b"\xff"]))
    )
)
def test_any_bytes_are_counted_once(parts: list[bytes]) -> None:
    for piece in (b"".join(parts), b"\n".join(parts), b'{"message": "GroupCoordinator x", "a": [' + b"".join(parts)):
        log = decode_piece(piece)
        assert log.lines == counted(log)
        assert log.other_lines >= 0


# -- JSON of log systems

FIELDS = {"loggerName": SCALA, "level": "INFO", "message": MESSAGE}


@pytest.mark.parametrize(
    "content",
    [
        {"log": kafka_line() + "\n", "stream": "stdout", "time": "2026-11-21T05:00:00.200000000Z"},
        {"timestamp": 1795000000000, "message": kafka_line(), "ingestionTime": 1795000000001},
        {"@timestamp": "2026-11-21 09:00:00.000", "@message": kafka_line()},
        {
            "insertId": "x",
            "textPayload": kafka_line(),
            "timestamp": "2026-11-21T05:00:00.2Z",
            "resource": {"labels": {"pod": "GroupCoordinator x"}},
        },
        {"line": kafka_line(), "labels": {"app": "kafka"}},
        {"result": {"_raw": kafka_line()}},
        {"_source": {"event": {"original": kafka_line()}, "log": {"level": "INFO"}}},
        {"log": json.dumps({**FIELDS, "timeMillis": AT_MS}) + "\n", "stream": "stdout", "time": "2026-11-21T05:00:00Z"},
        {"message": kafka_line() + "\njava.lang.RuntimeException: x\n\tat kafka.Kafka.main(Kafka.scala:1)"},
        {"message": f"2026-11-21 02:21:47,123 INFO [{SCALA}] {MESSAGE}"},
        {**FIELDS, "timeMillis": AT_MS},
        {**FIELDS, "instant": {"epochSecond": AT_MS // 1000, "nanoOfSecond": 123_456_789}},
        {**FIELDS, "timestamp": AT_MS},
        {**FIELDS, "@timestamp": "2026-11-21T02:21:47.123Z", "@version": "1"},
        {"time": "2026-11-21T03:21:47.123+0100", "logger": SCALA, "msg": MESSAGE},
        {"ts": AT_MS / 1000, "msg": MESSAGE},
        {"time": "2026-11-21T02:21:47.123Z", "jsonPayload": {"logger": SCALA, "message": MESSAGE}},
        {"timestamp": "2026-11-21 02:21:47,123", "log": {"logger": SCALA}, "message": MESSAGE},
    ],
)
def test_line_is_read_in_json_of_log_systems(content: Row) -> None:
    """A field or a form of a time that is missing, or a time of the collector instead of the line's."""
    row = only_row(json.dumps(content))
    assert (row["event"], row["group_id"], row["generation"], row["broker"]) == ("stabilized", "orders", 42, "1")
    assert row["logged_at_ms"] == AT_MS


def test_times_of_log_systems_are_in_utc_and_times_of_brokers_are_not() -> None:
    assert only_row(json.dumps({**FIELDS, "@timestamp": "2026-11-21 02:21:47.123"}), zone="Asia/Tokyo")["logged_at_ms"] == AT_MS
    assert (
        only_row(json.dumps({**FIELDS, "timestamp": "2026-11-21 02:21:47.123"}), zone="Asia/Tokyo")["logged_at_ms"] == AT_MS - 9 * 3_600_000
    )


@pytest.mark.parametrize(
    "content",
    [
        {"loggerName": "kafka.server.KafkaApis", "message": MESSAGE, "timeMillis": AT_MS},
        {"log": f"[2026-11-21 02:21:47,123] INFO {MESSAGE} (com.example.Repeater)\n"},
        {"message": "the GroupCoordinator is well", "timestamp": AT_MS},
        {"message": ["GroupCoordinator"]},
        {"a": {"b": {"c": {"d": {"e": {"f": {"g": {"message": kafka_line()}}}}}}}},
    ],
)
def test_json_of_another_logger_is_only_counted(content: Row) -> None:
    log = decode(json.dumps(content))
    assert (log.rows, log.refused, log.other_lines) == ([], [], 1)


def huawei(**fields: Any) -> str:
    message = {"leaderId": "m-1", "generationId": "1", "groupId": "orders", "coordinatorId": "0", "type": "END_REBALANCE", **fields}
    return json.dumps({"level": "INFO", "timestamp": "2026-11-21 02:21:47,123", "message": message})


def test_rebalancing_log_of_huawei_is_read() -> None:
    """Its fields have what the text of other logs has."""
    ended = only_row(
        huawei(reason="Assignment received from leader for group orders for generation 1", group="GroupMetadata(groupId=orders)")
    )
    assert (ended["event"], ended["group_id"], ended["generation"]) == ("assignment_received", "orders", 1)
    assert (ended["member_id"], ended["broker"], ended["logged_at_ms"]) == ("m-1", "0", AT_MS)
    reason = "Adding new member m-2 with group instance id None"
    for text in (
        reason,
        f"Preparing to rebalance group orders in state Stable with old generation 1 (__consumer_offsets-3) (reason: {reason})",
    ):
        began = only_row(huawei(type="START_REBALANCE", reason=text), zone="Asia/Shanghai")
        assert (began["event"], began["reason_kind"], began["reason_member_id"]) == ("rebalance_started", "joined", "m-2")
        assert (began["reason"], began["generation"], began["logged_at_ms"]) == (reason, 1, AT_MS - 8 * 3_600_000)
    assert refusals(huawei(generationId="many")) == ["unknown_wording"]
    assert refusals(huawei(generationId=str(2**40))) == ["unknown_wording"]


# -- detection


def heads() -> list[tuple[str, bytes]]:
    """Return the beginnings of captures of other kinds."""
    dumps = [(path.name, gzip.decompress(path.read_bytes())) for path in (GOLDEN / "dump_log").glob("*.gz")]
    dumps += [(path.name, path.read_bytes()) for path in (GOLDEN / "dump_log").glob("*.txt")]
    texts = [(path.name, path.read_bytes()) for path in (GOLDEN / "texts").iterdir()]
    described = [json.loads(line) for line in gzip.decompress((GOLDEN / "describe" / "recorded.jsonl.gz").read_bytes()).splitlines()[:3]]
    texts += [(name, text.encode()) for record in described for name, text in record["texts"].items()]
    others = [("cluster_metadata", gzip.decompress((ROOT / "tests/golden/capture/cluster_metadata.jsonl.gz").read_bytes()))]
    others += [(name, gzip.decompress((GOLDEN / name).read_bytes())) for name in ("capture_group_metadata_formatter.jsonl.gz",)]
    return [(name, content[:HEAD_BYTES]) for name, content in (*dumps, *texts, *others)]


@pytest.mark.parametrize(("name", "head"), heads(), ids=lambda value: value if isinstance(value, str) else "")
def test_captures_of_other_kinds_are_no_coordinator_log(name: str, head: bytes) -> None:
    """Also with lines of stderr that name a coordinator, and with groups that are called like one."""
    assert not looks_like_coordinator_log(head)
    warning = b"[2026-11-21 02:21:47,123] WARN [Consumer clientId=a] Group coordinator is gone (org.apache.kafka.clients.NetworkClient)\n"
    assert not looks_like_coordinator_log(warning + head)
    text = head.decode(errors="replace")
    if find_separator(text) or looks_like_dump(text) or looks_like_describe(text):  # their tools may log with what brokers have too
        assert not looks_like_coordinator_log(f"{OTHER}\n".encode() + head)


def test_snapshot_of_a_group_with_a_hostile_name_is_no_coordinator_log() -> None:
    snapshot = {"group_id": kafka_line(), "observed_at_ms": AT_MS, "group_type": "classic", "state": "Stable", "members": []}
    assert not looks_like_coordinator_log(json.dumps(snapshot).encode() + b"\n")


@pytest.mark.parametrize(
    "head",
    [
        *(recorded(broker)[:HEAD_BYTES] for broker in (1, 2, 3)),
        f"{OTHER}\n".encode(),
        f"cut\n\tat a.b.c(D.java:1)\n{OTHER}\r\n".encode(),
        f"2026-11-21 02:21:47,123 INFO  [executor] {SCALA} - {MESSAGE}\n".encode(),
        json.dumps({"log": kafka_line() + "\n"}).encode() + b"\n",
        json.dumps({**FIELDS, "timeMillis": AT_MS}).encode() + b"\n",
        huawei().encode(),
    ],
)
def test_coordinator_log_is_recognised(head: bytes) -> None:
    text = head.decode(errors="replace")
    assert looks_like_coordinator_log(head)
    assert not looks_like_dump(text)
    assert not looks_like_describe(text)
    assert find_separator(text) is None


@pytest.mark.parametrize(
    "line",
    [
        f"2026-11-21 02:21:47,123 INFO {MESSAGE} ({SCALA}) [data-plane-kafka-request-handler-3]",  # Strimzi up to Kafka 3.9
        f"[2026-11-21 02:21:47,123] INFO [data-plane-kafka-request-handler-3] {MESSAGE} ({SCALA})",
        f"[2026-11-21 02:21:47,123] INFO {MESSAGE} ({SCALA}:66)",
        f"[2026-11-21 02:21:47,123] INFO {MESSAGE} (ClassicGroup)",
    ],
)
def test_pattern_may_have_a_thread_a_line_number_or_a_short_logger(line: str) -> None:
    row = only_row(line)
    assert (row["event"], row["group_id"], row["member_count"], row["logged_at_ms"]) == ("stabilized", "orders", 3, AT_MS)
    assert looks_like_coordinator_log(f"{line}\n".encode())


def test_log_of_several_containers_may_have_a_table_of_one() -> None:
    header = "GROUP           CONSUMER-ID     HOST            CLIENT-ID       #PARTITIONS     ASSIGNMENT"
    assert looks_like_coordinator_log(f"setup-1   | {header}\nbroker-1  | {kafka_line()}\n".encode())
    assert not looks_like_coordinator_log(f"{header}\n{kafka_line()}\n".encode())


def test_line_of_a_coordinator_is_found_however_late_it_comes() -> None:
    """Over the edge of what is read at once, and as the last line without an end."""
    others = f"{OTHER}\n".encode() * (LONGEST_LINE_BYTES // len(OTHER))
    for content in (others + kafka_line().encode(), others * 2 + kafka_line().encode() + b"\n" + others):
        assert has_coordinator_line(io.BytesIO(content))
    assert not has_coordinator_line(io.BytesIO(others + b"GroupCoordinator\n" + others))


@pytest.mark.parametrize(
    "head", [b"", b"\n", b"hello GroupCoordinator\n", b"\x00\x01GroupCoordinator", b"# a page\n" + kafka_line()[:50].encode()]
)
def test_other_texts_are_no_coordinator_log(head: bytes) -> None:
    assert not looks_like_coordinator_log(head)
