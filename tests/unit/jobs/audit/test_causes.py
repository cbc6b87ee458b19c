"""Which lines of a coordinator's log are causes of a generation, and which are not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from assignors.audit.triggers import Evidence, Participant, Trigger
from jobs.audit.causes import Around, FoundCause, LoggedEvent, around_of, explain, merged, recorded_causes
from schemas.vocabulary import Cause, CauseSource

LOG, RECORDS = CauseSource.LOG, CauseSource.RECORDS


def around(before: str, after: str, generations: tuple[int, int] = (4, 5), **changes: Any) -> Around:
    """Return two generations of members that are letters, recorded at 100 s and 200 s."""
    return Around(100_000, 200_000, *generations, frozenset(before), frozenset(after), **changes)


def line(event: str, at_s: float = 199, **fields: Any) -> LoggedEvent:
    return LoggedEvent(int(at_s * 1000), event, **fields)


def started(kind: str, at_s: float = 198, generation: int = 4, **fields: Any) -> LoggedEvent:
    return line("rebalance_started", at_s, generation=generation, reason_kind=kind, **fields)


def causes(given: Around, *events: LoggedEvent) -> list[tuple[str, str | None]]:
    found = explain(given, events).causes
    assert all(cause.source is LOG for cause in found)
    return [(cause.cause.value, cause.member_id) for cause in found]


@pytest.mark.parametrize(
    ("client_reason", "word"),
    [
        ("the consumer is being closed", "closed"),
        ("the consumer unsubscribed from all topics", "unsubscribed"),
        ("consumer poll timeout has expired.", "poll_timeout"),
        ("member was removed by an admin", "removed_by_admin"),
        ("member was removed by an admin: moved to another node", "removed_by_admin"),
        ("client leaving group per normal operation", "closed"),
        ("not provided", "left"),
        (None, "left"),
        ("the consumer is being closed by a friend", "left"),
    ],
)
def test_member_that_left_has_the_word_of_its_reason(client_reason: str | None, word: str) -> None:
    assert causes(around("ab", "a"), line("member_left", member_id="b", client_reason=client_reason)) == [(word, "b")]


@pytest.mark.parametrize(
    ("client_reason", "word"),
    [
        ("need to revoke partitions and re-join", "hand_over"),
        ("after revoking what we lost from a rebalance", "hand_over"),
        ("subscription has changed", "subscription_changed"),
        ("cached metadata has changed", "metadata_changed"),
        ("rebalance enforced by user", "enforced"),
        ("scaling out for the sale", "enforced"),
        ("group is already rebalancing", "leader_rejoined"),
        ("rebalance failed due to UnknownMemberIdException", "leader_rejoined"),
        ("not provided", "leader_rejoined"),
        (None, "leader_rejoined"),
    ],
)
def test_leader_that_joins_again_has_the_word_of_its_reason(client_reason: str | None, word: str) -> None:
    event = started("leader_rejoined", reason_member_id="a", client_reason=client_reason)
    assert causes(around("ab", "ab"), event) == [(word, "a")]


@pytest.mark.parametrize(
    ("event", "word"),
    [
        (line("member_expired", member_id="b"), "session_expired"),
        (line("member_fenced", member_id="b", reason_kind="session_expired"), "session_expired"),
        (line("member_fenced", member_id="b", reason_kind="rebalance_timed_out"), "epoch_timeout"),
        (line("member_fenced", member_id="b", reason_kind="join_timed_out"), "rebalance_timeout"),
        (line("member_fenced", member_id="b", reason_kind="other"), "fenced"),
        (line("joiners_removed", member_ids=["b", "z"]), "rebalance_timeout"),
        (line("sync_timed_out", member_ids=["b"]), "sync_timeout"),
        (started("heartbeat_expired", reason_member_id="b"), "session_expired"),
        (started("sync_expired", reason_member_id="b", member_ids=["b"]), "sync_timeout"),
    ],
)
def test_member_that_was_removed_has_the_word_of_the_coordinator(event: LoggedEvent, word: str) -> None:
    assert causes(around("ab", "a"), event) == [(word, "b")]


def bumped(epoch: int, at_s: float) -> LoggedEvent:
    return line("epoch_bumped", at_s, generation=epoch)


UPDATED = line("subscription_updated", 198, member_id="b")
"""A line that brokers of 3.7 to 3.9 write, also when a member joins; later ones do at DEBUG."""


@pytest.mark.parametrize(
    ("before", "others", "expected"),
    [
        pytest.param("ab", [bumped(5, 198)], [("subscription_changed", "b")], id="it began the epoch"),
        pytest.param("ab", [bumped(5, 197), bumped(6, 198.01)], [], id="it began the next one, a moment later"),
        pytest.param("ab", [bumped(4, 198.5), bumped(5, 199)], [], id="it began the one before, a moment earlier"),
        pytest.param("ab", [bumped(5, 197)], [], id="the line about its epoch is missing"),
        pytest.param("ab", [], [("subscription_changed", "b")], id="there are no lines about epochs"),
        pytest.param("a", [bumped(5, 198)], [], id="the member is new"),
    ],
)
def test_subscription_counts_where_it_began_the_epoch(before: str, others: list[LoggedEvent], expected: list[tuple[str, str]]) -> None:
    events = sorted([UPDATED, *others], key=lambda event: event.logged_at_ms)
    assert causes(around(before, "ab"), *events) == expected


EXPIRED, LEFT = line("member_fenced", 95, member_id="b", reason_kind="session_expired"), line("member_left", 198, member_id="b")
"""Members of the consumer protocol keep their ids: member b was fenced, joined again in epoch 4, and left later."""


@pytest.mark.parametrize(
    ("given", "events", "expected"),
    [
        pytest.param(around("ab", "a"), [EXPIRED, bumped(3, 95), bumped(4, 99), LEFT, bumped(5, 198)], ["left"], id="it left in epoch 5"),
        pytest.param(around("ab", "a"), [EXPIRED, bumped(5, 95.05)], ["session_expired"], id="clocks of coordinators differ"),
        pytest.param(around("ab", "a", (4, 7)), [bumped(4, 197), LEFT, bumped(5, 198), bumped(6, 198)], ["left"], id="one of several"),
        pytest.param(around("ab", "a"), [bumped(4, 198), LEFT, bumped(5, 198)], ["left"], id="epochs of one millisecond"),
        pytest.param(
            around("ab", "a"),
            [LEFT, bumped(5, 198), bumped(6, 199), replace(EXPIRED, logged_at_ms=202_000), bumped(7, 202)],
            ["left"],
            id="it came back and was fenced in epoch 7",
        ),
        pytest.param(around("ab", "a"), [LEFT, bumped(5, 198), bumped(2, 204)], ["left"], id="the group was made again"),
        pytest.param(around("ab", "a"), [LEFT], ["left"], id="no lines about epochs"),
        pytest.param(
            around("ab", "a"),
            [replace(LEFT, client_reason="not provided"), bumped(2, 203)],
            ["left"],
            id="a member of the classic protocol",
        ),
        pytest.param(around("ab", "a", (9, 2), is_converted=True), [LEFT, bumped(2, 199)], ["left"], id="a conversion numbers anew"),
    ],
)
def test_departure_counts_in_the_epoch_that_it_begins(given: Around, events: list[LoggedEvent], expected: list[str]) -> None:
    assert [cause for cause, _ in causes(given, *events)] == expected


REMOVED = line("member_left", 198, group_instance_id="i", client_reason="too slow")
"""An admin's request names the instance id, and the reason is the admin's."""


def test_removal_of_an_earlier_epoch_is_no_reason_for_a_later_departure() -> None:
    events = (REMOVED, bumped(4, 198), replace(EXPIRED, logged_at_ms=199_000), bumped(5, 199))
    assert causes(around("ab", "a", previous_static_ids={"i": "b"}), *events) == [("session_expired", "b")]


@pytest.mark.parametrize(
    ("generations", "expected"),
    [
        pytest.param((4, 6), [("removed_by_admin", "b"), ("joined", "b")], id="two epochs with one target"),
        pytest.param((5, 6), [], id="the removal has a target of its own"),
        pytest.param((6, 7), [], id="both were earlier"),
    ],
)
def test_member_that_left_and_came_back_between_two_targets_has_both_causes(
    generations: tuple[int, int], expected: list[tuple[str, str]]
) -> None:
    given = around("ab", "ab", generations, previous_static_ids={"i": "b"}, static_ids={"i": "b"})
    assert causes(given, REMOVED, bumped(5, 198), line("static_joined", 198.08, member_id="b"), bumped(6, 198.08)) == expected


def test_departure_has_one_cause_and_the_line_with_the_reason_wins() -> None:
    start = started("left", reason_member_id="b", member_ids=["b"])
    left = line("member_left", member_id="b", client_reason="consumer poll timeout has expired.")
    assert causes(around("ab", "a"), start, left) == causes(around("ab", "a"), left, start) == [("poll_timeout", "b")]


def test_member_that_stays_did_not_leave() -> None:
    """Such a line is of another generation, or of another group with this name."""
    assert causes(around("ab", "ab"), line("member_left", member_id="b"), started("leader_rejoined", reason_member_id="a")) == [
        ("leader_rejoined", "a")
    ]


def test_lines_of_another_group_with_the_same_name_give_nothing() -> None:
    given = explain(around("ab", "a"), (started("left", reason_member_id="x"), line("stabilized", generation=5)))
    assert given == explain(around("ab", "a"), ())


def test_rebalance_of_another_generation_is_no_cause() -> None:
    for generation in (3, 5, None):
        event = line("rebalance_started", generation=generation, reason_kind="leader_rejoined", reason_member_id="a")
        assert causes(around("ab", "ab"), event) == []


def test_rebalances_of_generations_without_a_record_count_for_the_next_one() -> None:
    events = (started("joined", generation=4, reason_member_id="b"), started("leader_rejoined", generation=5, reason_member_id="a"))
    assert causes(around("a", "ab", (4, 6)), *events) == [("joined", "b"), ("leader_rejoined", "a")]


def test_line_outside_the_times_of_the_records_is_no_cause() -> None:
    """Ten seconds are allowed, since coordinators have different clocks."""
    for at_s, word in ((89.9, []), (90, [("left", "b")]), (210, [("left", "b")]), (210.1, [])):
        events = (line("member_left", at_s, member_id="b"), line("stabilized", 199, generation=5, member_id="a"))
        assert causes(around("ab", "a"), *events) == word, at_s


def test_second_static_member_and_its_fencing() -> None:
    given = around("ab", "ac", static_ids={"i": "c"})
    replaced = line("static_replaced", previous_member_id="b", group_instance_id="i")
    assert causes(given, replaced) == [("static_returned", "c")]
    fenced = line("static_fenced", member_id="b", previous_member_id="c", group_instance_id="i")
    assert causes(given, fenced) == [("fenced", "b")]
    assert causes(around("ac", "a"), fenced) == []  # it was gone before this generation


def test_member_that_a_request_does_not_name_was_removed_by_an_admin() -> None:
    """An admin of Kafka's own client sends an instance id without the member id, and its text instead of the usual reason."""
    given = around("ab", "a", previous_static_ids={"i": "b"})
    of_consumer_group = line("member_left", group_instance_id="i", client_reason="moved to another node")
    assert explain(given, [line("epoch_bumped", member_id="a"), of_consumer_group]).causes == (
        FoundCause(Cause.REMOVED_BY_ADMIN, "b", LOG, "moved to another node"),
    )
    left = line("member_left", 198, member_id="b", client_reason="moved to another node")
    for at_s, member_ids, word in ((198, [], "removed_by_admin"), (198.2, [], "left"), (197.9, [], "left"), (198, ["b"], "left")):
        assert causes(given, left, started("left", at_s, member_ids=member_ids)) == [(word, "b")], (at_s, member_ids)


def test_refused_instance_id_changes_no_group() -> None:
    refused = line("instance_id_refused", member_id="d", previous_member_id="b", group_instance_id="i")
    assert causes(around("a", "ab", static_ids={"i": "b"}), refused) == []


def test_conversion_counts_only_where_records_show_one() -> None:
    events = (line("converted_to_consumer"), line("member_joined", member_id="b"))
    assert causes(around("a", "ab"), *events) == [("joined", "b")]
    assert causes(around("a", "ab", is_converted=True), *events) == [("converted", None), ("joined", "b")]


@pytest.mark.parametrize(
    ("triggers", "is_converted"),
    [(None, False), (["member_left"], False), (["member_left", "downgraded_to_classic"], True), (["upgraded_to_consumer"], True)],
)
def test_stored_causes_do_not_decide_whether_a_generation_is_a_conversion(triggers: list[str] | None, is_converted: bool) -> None:
    """The rebalance after a conversion has the word too. When it is explained again, its text stays."""
    row = {"at_ms": 1, "generation": 5, "incarnation": 9, "member_ids": [], "instance_ids": [], "triggers": triggers}
    logged = [{"cause": "converted", "member_id": None, "source": "log", "detail": "Downgrade group g from consumer to classic"}]
    assert around_of({**row, "generation": 4}, {**row, "causes": logged}).is_converted == is_converted


def test_durations_are_between_the_lines_of_the_generation() -> None:
    events = (
        started("joined", 190, reason_member_id="b"),
        started("leader_rejoined", 195, reason_member_id="a"),
        line("stabilized", 196.5, generation=5),
        line("assignment_received", 196.75, generation=5, member_id="a"),
    )
    found = explain(around("a", "ab"), events)
    assert (found.rebalance_ms, found.assignment_ms) == (6_500, 250)
    assert explain(around("a", "ab"), events[1:]).rebalance_ms == 1_500
    later = explain(around("a", "ab", (5, 5)), events)
    assert (later.rebalance_ms, later.assignment_ms) == (None, None), "the generation was written again"


def test_assignor_of_brokers_says_how_long_it_ran() -> None:
    events = (line("target_computed", generation=5, duration_ms=17), line("member_joined", member_id="b"))
    assert explain(around("a", "ab"), events).assignment_ms == 17


def evidence(*members: Participant, generation: int = 4) -> Evidence:
    return Evidence(generation, 0, False, False, False, False, True, "range", members, {})


def member(member_id: str, instance_id: str | None = None, topics: str = "t") -> Participant:
    owner = (True, instance_id) if instance_id else (False, member_id)
    return Participant(owner, member_id, None, None, frozenset(topics))


def test_records_show_who_joined_and_what_changed_but_not_why_somebody_left() -> None:
    before = evidence(member("a"), member("b"), member("c", "i"), member("d"))
    now = evidence(member("a", topics="tu"), member("e"), member("f", "i"), generation=5)
    triggers = (Trigger.MEMBER_JOINED, Trigger.MEMBER_LEFT, Trigger.SUBSCRIPTION_CHANGED, Trigger.PARTITIONS_ADDED)
    assert recorded_causes(before, now, triggers) == (
        FoundCause(Cause.SUBSCRIPTION_CHANGED, "a", RECORDS),
        FoundCause(Cause.JOINED, "e", RECORDS),
        FoundCause(Cause.STATIC_RETURNED, "f", RECORDS),
        FoundCause(Cause.METADATA_CHANGED, None, RECORDS, "partitions_added"),
    )
    assert recorded_causes(None, now, (Trigger.GROUP_CREATED,))[1:] == tuple(FoundCause(Cause.JOINED, one, RECORDS) for one in "ef")


def test_causes_of_records_stay_unless_the_log_has_them() -> None:
    logged = (FoundCause(Cause.JOINED, "a", LOG), FoundCause(Cause.METADATA_CHANGED, "b", LOG, "cached metadata has changed"))
    stored = (
        FoundCause(Cause.JOINED, "a", RECORDS),
        FoundCause(Cause.JOINED, "c", RECORDS),
        FoundCause(Cause.METADATA_CHANGED, None, RECORDS, "partitions_added"),
        FoundCause(Cause.LEFT, "d", LOG),
    )
    assert merged(logged, stored) == (*logged, FoundCause(Cause.JOINED, "c", RECORDS))
    assert merged(merged(logged, stored)[:2], merged(logged, stored)) == merged(logged, stored), "a second run changes nothing"


def test_logged_departure_replaces_the_inferred_one_of_its_member_alone() -> None:
    likely = [FoundCause(Cause.SESSION_EXPIRED, member_id, CauseSource.INFERRED, "likely") for member_id in "bc"]
    logged = (FoundCause(Cause.CLOSED, "b", LOG), FoundCause(Cause.JOINED, "c", LOG))
    assert merged(logged, likely) == (*logged, likely[1])


def test_group_that_was_made_again_has_no_generation_before() -> None:
    row = {"at_ms": 2_000_000, "generation": 1, "incarnation": 9, "member_ids": ["a"], "instance_ids": ["i"], "triggers": None}
    older = {**row, "at_ms": 1_000_000, "member_ids": ["b"]}
    for before in (None, {**older, "generation": 7, "incarnation": 3}, {**older, "generation": 1, "incarnation": 3}):
        found = around_of(before, row)
        assert (found.previous_generation, found.previous_ids, found.previous_ms) == (0, frozenset(), 1_400_000)
        assert found.static_ids == {"i": "a"}
    known = around_of(older, row)
    assert (known.previous_generation, known.previous_ids, known.previous_ms) == (1, frozenset("b"), 1_000_000)
