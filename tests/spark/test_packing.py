"""Snapshots as rows, as packed chunks, and as what the replay reads: nothing is lost on the way there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, get_type_hints

import pytest
from pyspark.sql import DataFrame, SparkSession

from assignors import Member
from assignors.audit.audit import GroupAudit
from assignors.replay.replay import Replay
from assignors.replay.steps import Snapshot, Step
from assignors.replay.topic_metadata import ClusterLooks, TopicRun
from jobs.audit.run import snapshot_rows, solution_rows
from jobs.workers.holdings_column import TornHoldingsError, pack_holdings
from jobs.workers.packing import (
    SNAPSHOT_FIELDS,
    flatten_snapshots,
    group_by_topic,
    pack_chunks,
    runs_by_group,
    topic_runs,
    unpack_generation,
    unpack_runs,
    unpack_snapshot_row,
    unpack_snapshots,
)
from schemas.computed_row_types import StoredSnapshot, StoredSolution
from schemas.keys import GROUP_KEY
from schemas.tables import TABLES
from tests.builders.frames import entries, frame, look_row, looks, member_row, moment, snapshot_row, snapshots
from tests.builders.histories import looks as known
from tests.builders.histories import member, play, snapshot

LARGE = 2**53 + 1
"""The first whole number that a float cannot hold."""

FULL = member_row(
    "a",
    group_instance_id="i",
    client_id="client",
    client_host="/10.0.0.1",
    rack="r1",
    subscription_version=3,
    owned_generation=4,
    user_data=b"\x00\xff",
    topics=["u", "t", "u"],
    owned=entries(u=[2, 0], t=[1]),
    assigned=entries(t=[1, 0], u=[2]),
)
BARE = member_row("b", topics=[])

ROWS = [
    snapshot_row("g", 1),  # the empty generation that every group begins with
    snapshot_row("g", 2, FULL, BARE, position=LARGE, incarnation=LARGE, joined_at=moment(1_999)),  # all that a member can have, and nothing
    snapshot_row(
        "g", 3, BARE, position=LARGE + 1, strategy="sticky", is_conversion=True, batched_epoch_count=2
    ),  # no joined_at, no topic in the whole snapshot
    snapshot_row("other", 1, member_row("c", user_data=b"", assigned=entries(t=[7]))),  # empty user data is not the absence of it
]

EXPECTED = [
    Snapshot(1, 1, 1_000, 0, None, None, False, (), {}, {}, {}),
    Snapshot(
        LARGE,
        2,
        1_999,
        LARGE,
        "range",
        "a",
        False,
        (
            Member("a", ("u", "t", "u"), "i", "r1", (("u", 2), ("u", 0), ("t", 1)), 4, b"\x00\xff"),
            Member("b", (), None, None, (), -1, None),
        ),
        {"a": (("t", 1), ("t", 0), ("u", 2)), "b": ()},
        {"a": 3, "b": -1},
        {"a": "client", "b": None},
        client_hosts={"a": "/10.0.0.1", "b": None},
    ),
    Snapshot(
        LARGE + 1,
        3,
        3_000,
        0,
        "sticky",
        "b",
        True,
        (Member("b", (), None, None, (), -1, None),),
        {"b": ()},
        {"b": -1},
        {"b": None},
        client_hosts={"b": None},
        batched_epoch_count=2,
    ),
    Snapshot(
        1,
        1,
        1_000,
        0,
        "range",
        "c",
        False,
        (Member("c", ("t",), None, None, (), -1, b""),),
        {"c": (("t", 7),)},
        {"c": -1},
        {"c": None},
        client_hosts={"c": None},
    ),
]


def chunks_of(packed: DataFrame) -> list[dict[str, Any]]:
    """Return packed rows the way workers get them: through Arrow into pandas, arrays as numpy's, group by group."""
    return packed.orderBy(*GROUP_KEY, "ordinal").toArrow().to_pandas().to_dict("records")


@pytest.mark.parametrize("max_generations", [1, 2, 500])
@pytest.mark.parametrize("max_bytes", [1, 2**23])
def test_snapshots_come_back_as_they_were(spark: SparkSession, max_generations: int, max_bytes: int) -> None:
    chunks = chunks_of(pack_chunks(snapshots(spark, *reversed(ROWS)), max_generations, max_bytes))
    found = [pair for chunk in chunks for pair in unpack_snapshots(chunk)]
    assert [snapshot for snapshot, _ in found] == EXPECTED
    assert [observed_at for _, observed_at in found] == [1_000, 2_000, 3_000, 1_000]
    per_chunk = 1 if max_bytes == 1 else max_generations
    assert [chunk["ordinal"] for chunk in chunks] == [*range(0, 3, per_chunk), 0]


def test_numbers_stay_whole_and_plain(spark: SparkSession) -> None:
    (chunk, _) = chunks_of(pack_chunks(snapshots(spark, *ROWS), 500, 2**23))
    snapshot = [one for one, _ in unpack_snapshots(chunk)][1]
    numbers = [snapshot.position, snapshot.incarnation, snapshot.members[1].owned_generation, *snapshot.members[0].owned[0][1:]]
    assert [type(number) for number in numbers] == [int] * 4


def test_flat_row_is_unpacked_to_its_snapshot(spark: SparkSession) -> None:
    """As the audit reads it: through Arrow alone."""
    flat = flatten_snapshots(snapshots(spark, *ROWS))
    rows = flat.orderBy(*GROUP_KEY, "position").toArrow().to_pylist()
    assert [unpack_snapshot_row(row) for row in rows] == EXPECTED


def test_a_chunk_ends_where_its_bytes_do(spark: SparkSession) -> None:
    """Three snapshots of one member: 64 + 200 bytes and one topic of 40 each, so two fit into 608."""
    history = [snapshot_row("g", generation, member_row("a")) for generation in (1, 2, 3)]
    chunks = chunks_of(pack_chunks(snapshots(spark, *history), 500, 608))
    assert [chunk["generation"].tolist() for chunk in chunks] == [[1, 2], [3]]


def test_flat_columns_are_those_of_a_chunk(spark: SparkSession) -> None:
    assert flatten_snapshots(snapshots(spark, *ROWS)).columns == [*GROUP_KEY, *SNAPSHOT_FIELDS]


def test_group_by_topic_keeps_both_orders() -> None:
    assert group_by_topic([("u", 2), ("t", 1), ("u", 0)]) == (["u", "t"], [[2, 0], [1]])
    assert group_by_topic([]) == ([], [])


# -- stored generations


def test_the_history_has_the_columns_that_the_audit_reads(spark: SparkSession) -> None:
    tables = SimpleNamespace(read=lambda name: frame(spark, TABLES[name].schema, []))
    snapshots = snapshot_rows(tables, None, frame(spark, TABLES["subscription_snapshots"].schema, []))
    for kind, rows in ((StoredSnapshot, snapshots), (StoredSolution, solution_rows(tables, None))):
        assert {*get_type_hints(kind)} - {*rows.columns, "row_order"} == set()


def stored_rows(step: Step) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the row of a step's snapshot, and of its observed solution, as the audit reads them."""
    members = step.snapshot.members
    topics = [topic.topic for topic in step.topics]
    solved = {
        "basis": "observed",
        "strategy": step.snapshot.strategy or "",
        **{name: getattr(step, name) for name in ("has_predecessor", "is_rewrite", "is_follow_up")},
        "status": "solved",
        "cooperative_revocation_count": None,
        "holdings": pack_holdings([group_by_topic(step.snapshot.assigned[one.member_id]) for one in members], topics),
        "topic_topic": topics,
        "topic_topic_id": [topic.topic_id for topic in step.topics],
        "topic_partition_count": [topic.partition_count for topic in step.topics],
        "topic_racks": None,
        "uncertain_topics": [topic.topic for topic in step.topics if topic.is_uncertain],
    }
    stored = {"observed_at_ms": step.snapshot.joined_at_ms, "group_type": "classic"}
    return stored, [solved]


@pytest.mark.parametrize(
    ("cluster", "causes"),
    [
        pytest.param(ClusterLooks([], {}), ["unsubscribed"], id="no look at all"),
        pytest.param(known(t=1), ["unsubscribed"], id="looks, and none shows it"),
        pytest.param(known(t=1, u=1), ["unsubscribed"], id="the look shows it"),
        pytest.param(ClusterLooks([0, 50], {"t": [TopicRun(0, 1, 1)], "u": [TopicRun(0, 0, 1)]}), ["topic_deleted"], id="it is gone"),
    ],
)
def test_movement_is_caused_by_deletion_only_if_metadata_shows_it(cluster: ClusterLooks, causes: list[str]) -> None:
    """In generation 2 a subscribes to t alone, in generation 3 there is nobody."""
    history = (
        snapshot(1, {"a": "t0 u0"}, member("a", "tu"), joined_at_ms=10),
        snapshot(2, {"a": "t0"}, joined_at_ms=60),
        snapshot(3, {}, joined_at_ms=70),
    )
    audit, steps = GroupAudit(), play(Replay(()), cluster, *history)
    generations = [unpack_generation(stored, step.snapshot, *rows) for step in steps for stored, *rows in [stored_rows(step)]]
    _, abandoned, emptied = [audit.advance(generation)[0].difference.movements for generation in generations]
    assert [(row.topic, row.cause) for row in abandoned] == [("u", cause) for cause in causes]
    assert [(row.topic, row.cause) for row in emptied] == [("t", "unsubscribed")]


@pytest.mark.parametrize(
    ("again", "triggers"),
    [
        pytest.param({"s-2": "t0", "b": "t1"}, ["static_member_returned"], id="nothing else"),
        pytest.param({"s-2": "t1", "b": "t0"}, ["static_member_returned", "generation_rewritten"], id="other assignments"),
    ],
)
def test_a_repeated_generation_is_a_static_members_only_where_nothing_else_changed(again: dict[str, str], triggers: list[str]) -> None:
    history = (
        snapshot(1, {"s-1": "t0", "b": "t1"}, member("s-1", instance="s")),
        snapshot(1, again, member("s-2", instance="s"), position=9),
    )
    audit, steps = GroupAudit(), play(Replay(()), known(t=2), *history)
    generations = [unpack_generation(stored, step.snapshot, *rows) for step in steps for stored, *rows in [stored_rows(step)]]
    assert [audit.advance(generation)[0] for generation in generations][1].triggers == tuple(triggers)


@pytest.mark.parametrize("status", ["solved", "carried"])
def test_a_result_whose_holdings_are_gone_is_not_taken_for_an_empty_one(status: str) -> None:
    (step,) = play(Replay(()), known(t=1), snapshot(1, {"a": "t0"}))
    stored, [solved] = stored_rows(step)
    with pytest.raises(TornHoldingsError, match=f"expected solutions.holdings for status {status}, found null"):
        unpack_generation(stored, step.snapshot, [{**solved, "status": status, "holdings": None}])


def test_solutions_that_are_alike_share_their_holdings() -> None:
    (step,) = play(Replay(()), known(t=1), snapshot(1, {"a": "t0"}))
    stored, [solved] = stored_rows(step)
    rows = [solved, {**solved, "basis": "recomputed"}, {**solved, "basis": "counterfactual", "status": "over_budget"}]
    same, again, none = [one.assignment for one in unpack_generation(stored, step.snapshot, rows).solutions]
    assert dict(same) == {"a": (("t", 0),)}
    assert again is same
    assert none is None


def test_generations_with_the_same_racks_share_them() -> None:
    """There is a list for each partition: read anew, a million of them take a second a generation, and their memory again."""
    (step,) = play(Replay(()), known(t=2), snapshot(1, {"a": "t0"}))
    stored, [solved] = stored_rows(step)

    def read(racks: str) -> Any:
        return unpack_generation(stored, step.snapshot, [{**solved, "topic_racks": racks}]).problem.topics["t"].partition_racks

    first, again, other = (read(f'[[["{name}",null],["b"]]]') for name in "aac")
    assert first == (("a", None), ("b",)) and other == (("c", None), ("b",))
    assert again is first


# -- looks


def runs(spark: SparkSession, *rows: dict) -> dict[str, list[tuple]]:
    found = topic_runs(looks(spark, *rows)).orderBy("topic", "first_look").collect()
    by_topic: dict[str, list[tuple]] = {}
    for row in found:
        by_topic.setdefault(row["topic"], []).append((row["first_look"], row["last_look"], row["partition_count"], row["topic_id"]))
    return by_topic


def test_equal_consecutive_metadata_of_a_topic_is_packed_as_one(spark: SparkSession) -> None:
    one, two = [["r1"]], [["r1"], ["r1"]]
    assert runs(
        spark,
        look_row("t", 10, one),
        look_row("t", 20, one),  # unchanged
        look_row("t", 30, two),  # grown
        look_row("t", 40, two, topic_id="new"),  # deleted and created between two looks
        look_row("t", 50, [["r2"], ["r1"]], topic_id="new"),  # a replica on another rack
        look_row("u", 10, one),
        look_row("u", 30, one),  # not there at 20
    ) == {
        "t": [(0, 1, 1, "id-t"), (2, 2, 2, "id-t"), (3, 3, 2, "new"), (4, 4, 2, "new")],
        "u": [(0, 0, 1, "id-u"), (2, 2, 1, "id-u")],
    }


def test_an_id_that_is_not_known_is_no_change_of_id_every_time(spark: SparkSession) -> None:
    rows = [look_row("t", at, [["r1"]], topic_id=None) for at in (10, 20)]
    assert runs(spark, *rows) == {"t": [(0, 1, 1, None)]}


def test_metadata_snapshots_are_numbered_per_cluster(spark: SparkSession) -> None:
    rows = [look_row("t", 10, [["r1"]]), look_row("t", 5, [["r1"]], cluster_id="d"), look_row("t", 10, [["r1"]], cluster_id="d")]
    found = topic_runs(looks(spark, *rows)).orderBy("cluster_id").collect()
    assert [(row["cluster_id"], row["first_look"], row["last_look"]) for row in found] == [("c", 0, 0), ("d", 0, 1)]


def test_a_group_gets_the_runs_of_the_topics_it_names(spark: SparkSession) -> None:
    """Subscribed to t, given a partition of u; v is nobody's. Null racks stay null, and a topic in no look has no run."""
    cluster = topic_runs(looks(spark, look_row("t", 10, [["r1", None]]), look_row("u", 10, [[]]), look_row("v", 10, [[]])))
    history = snapshots(spark, snapshot_row("g", 1, member_row("a", topics=["t", "gone"], assigned=entries(u=[0]))), snapshot_row("h", 1))
    packed = runs_by_group(history, cluster).toArrow().to_pandas().to_dict("records")
    assert [row["group_id"] for row in packed] == ["g"]
    assert unpack_runs(packed[0]) == {
        "t": [TopicRun(0, 0, 1, "id-t", (("r1", None),))],
        "u": [TopicRun(0, 0, 1, "id-u", ((),))],
    }
    assert unpack_runs({"run_topic": None}) == {}
