"""Rules that look back: each where it holds, one step before it does, and where something near it happens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignors.replay.recurrence import Recurrences, Storm
from jobs.findings import Finding
from jobs.findings.history import WINDOW_MS
from schemas.vocabulary import Rule
from tests.builders.histories import member
from tests.builders.situations import history_of
from tests.builders.snapshots_of import Origin, Stored, facts, last, numbers_found, stored

WINDOW = WINDOW_MS / 60_000
HERE, THERE = ("app", "/10.0.0.1"), ("app", "/10.0.0.2")


def comings_and_goings(count: int, minutes: float = 0.5, **changes: object) -> list[Stored]:
    """Return so many generations after a first one: a member comes, goes, comes."""
    shapes: Sequence[dict[str, str]] = ({"a": "t0 t1"}, {"a": "t0", "b": "t1"})
    return [stored(number + 1, shapes[number % 2], minute=number * minutes, **changes) for number in range(count + 1)]


def test_a_storm_begins_with_the_tenth_rebalance() -> None:
    assert numbers_found(Rule.REBALANCE_STORM, *comings_and_goings(11)) == [10, 11]
    finding = last(Rule.REBALANCE_STORM, *comings_and_goings(11))
    assert (finding.severity, finding.message) == (
        "warning", "11 rebalances of 2 members within 300 s, all with a visible reason",
    )  # fmt: skip
    assert finding.evidence == {"rebalance_count": "11", "seconds": "300", "none_visible_count": "0", "member_count": "2"}
    assert finding.advice.startswith("See in these generations which members come and go.")


def test_rebalances_without_a_visible_reason_count() -> None:
    history = [stored(number, {"a": "t0", "b": "t1"}, minute=number / 2) for number in range(1, 12)]
    finding = last(Rule.REBALANCE_STORM, *history)
    assert (finding.evidence["none_visible_count"], "max.poll.interval.ms" in finding.advice) == ("10", True)


def test_no_storm_for_slow_polled_or_follow_up_rebalances() -> None:
    slow = comings_and_goings(30, minutes=WINDOW / 9 + 0.01)
    looks = comings_and_goings(30, is_poll=True)
    handing_over = [stored(number, {"a": "t0", "b": "t1"}, is_follow_up=number > 3) for number in range(1, 20)]
    rewrites = [stored(1, {"a": "t0", "b": "t1"}, is_rewrite=number > 0) for number in range(20)]
    gaps = [stored(2 * number, {"a": "t0", "b": "t1"}) for number in range(1, 20)]
    for history in (slow, looks, handing_over, rewrites, gaps):
        assert numbers_found(Rule.REBALANCE_STORM, *history) == []


def test_epochs_that_share_a_target_are_one_rebalance_and_those_without_a_record_are_a_gap() -> None:
    """Brokers of 4.3 make one target for three epochs, and here a member leaves and comes back between any two targets."""
    shapes: Sequence[dict[str, str]] = ({"a": "t0 t1"}, {"a": "t0", "b": "t1"})

    def history(batched: int) -> list[Stored]:
        changes = {"strategy": "uniform", "batched_epoch_count": batched}
        return [stored(3 * number + 1, shapes[number % 2], minute=number / 2, **changes) for number in range(12)]

    assert numbers_found(Rule.REBALANCE_STORM, *history(2)) == [10, 11]
    assert last(Rule.REBALANCE_STORM, *history(2)).evidence["rebalance_count"] == "11"
    assert numbers_found(Rule.REBALANCE_STORM, *history(1)) == []  # one of the three has no record: what happened there is not known


def with_hand_overs(history: Sequence[Stored]) -> list[Stored]:
    """Return a history in which a follow-up finishes each generation: it has the same members, and nothing else has happened since."""
    doubled = []
    for one in history:
        number, evidence = one.generation.generation, one.generation.evidence
        again = replace(evidence, observed_at_ms=evidence.observed_at_ms + 1_000, generation=2 * number, is_follow_up=True)
        follow_up = replace(one.generation, generation=2 * number, is_follow_up=True, evidence=again)
        first = replace(one.generation, generation=2 * number - 1, evidence=replace(evidence, generation=2 * number - 1))
        doubled += [replace(one, generation=first), replace(one, generation=follow_up, recurrences=None)]
    return doubled


def test_a_storm_and_a_loop_hold_in_the_hand_over_that_finishes_their_last_rebalance() -> None:
    """It is the newest generation of a cooperative group almost always, and the one that says what holds now."""
    storm = with_hand_overs(comings_and_goings(11))
    assert numbers_found(Rule.REBALANCE_STORM, *storm) == [20, 21, 22, 23]
    assert last(Rule.REBALANCE_STORM, *storm) == last(Rule.REBALANCE_STORM, *storm[:-1])
    loop = with_hand_overs(bouncing(3))
    assert numbers_found(Rule.RESTART_LOOP, *loop) == [12, 13]
    assert numbers_found(Rule.RESTART_LOOP, *loop, stored(15, {"a": "t0 t1"}, minute=6.5)) == [12, 13]
    assert last(Rule.RESTART_LOOP, *loop) == last(Rule.RESTART_LOOP, *loop[:-1])


def test_what_recurs_over_hours_holds_in_the_hand_over_too() -> None:
    recurring = Recurrences((), Storm(24, 3_600_000, 150_000, None)).encoded()
    rebalance, hand_over = with_hand_overs([stored(2, {"a": "t0", "b": "t1"}, minute=1)])
    history = [stored(2, {"a": "t0", "b": "t1"}), replace(rebalance, recurrences=recurring), hand_over]
    assert numbers_found(Rule.REBALANCE_STORM, *history) == [1, 2]
    later = stored(5, {"a": "t0", "b": "t1"}, minute=2)
    assert last(Rule.REBALANCE_STORM, *history, later) is None


@pytest.mark.parametrize(("first_left", "is_found"), [(0.1, True), (-0.1, False)])
def test_only_a_member_that_left_within_the_window_came_back_in_it(first_left: float, is_found: bool) -> None:
    """It comes back three times within ten minutes, and had left before them or not."""
    times = [-1.0, first_left, 0.2, 4.0, 5.0, 9.0, WINDOW]
    shapes: Sequence[dict[str, str]] = ({"a": "t0", "b": "t1"}, {"a": "t0 t1"})
    history = [stored(number + 1, shapes[number % 2], minute=minute, at={"b": THERE}) for number, minute in enumerate(times)]
    assert (last(Rule.RESTART_LOOP, *history) is not None) is is_found


def members(count: int) -> dict[str, str]:
    return {f"m{number}": "" for number in range(count)}


def changing(count: int, until: int) -> list[Stored]:
    """Return so many generations after a first one: the fourth member goes and comes up to some generation, then all stay."""
    return [stored(number + 1, members(4 - min(number, until) % 2), minute=number / 100) for number in range(count + 1)]


def test_a_large_group_may_rebalance_more_often_and_what_follows_a_storm_is_not_one() -> None:
    history = changing(12, until=12)
    assert numbers_found(Rule.REBALANCE_STORM, *history) == [12]  # three for each of four members
    assert last(Rule.REBALANCE_STORM, *history, stored(13, members(4), minute=0.2, is_rewrite=True)) is None


def test_without_a_visible_reason_ten_are_a_storm_however_large_the_group() -> None:
    """Members learn of a rebalance by their heartbeats: a hundred of them cannot have three hundred in ten minutes."""
    history = [stored(number + 1, members(100), minute=number) for number in range(11)]
    assert numbers_found(Rule.REBALANCE_STORM, *history) == [10]
    assert last(Rule.REBALANCE_STORM, *history).message == "10 rebalances of 100 members within 540 s, all without a visible reason"
    assert numbers_found(Rule.REBALANCE_STORM, *changing(11, until=1)) == [11]
    assert numbers_found(Rule.REBALANCE_STORM, *changing(11, until=2)) == []  # nine have no reason, and two are what a restart takes


def bouncing(
    times: int,
    minutes: float = 1,
    at: Origin | None = HERE,
    ids: Sequence[str] = (),
    user_data: Sequence[bytes | None] = (),
    **changes: object,
) -> list[Stored]:
    """Return a group whose second member leaves and is back so many times.

    Args:
        ids, user_data: of each that comes back; other ids and no bytes where there are none.
    """
    history = [stored(1, {"a": "t0", "b0": "t1"}, at={"a": THERE, "b0": at}, **changes)]
    for time in range(1, times + 1):
        history.append(stored(2 * time, {"a": "t0 t1"}, at={"a": THERE}, minute=(2 * time - 1) * minutes, **changes))
        back = ids[time - 1] if ids else f"b{time}"
        one = replace(member(back), user_data=user_data[time - 1] if user_data else None)
        history.append(stored(2 * time + 1, {"a": "t0", back: "t1"}, one, at={"a": THERE, back: at}, minute=2 * time * minutes, **changes))
    return history


def test_restart_loop_is_found_at_the_third_return_of_a_member() -> None:
    assert numbers_found(Rule.RESTART_LOOP, *bouncing(4)) == [6, 8]
    finding = last(Rule.RESTART_LOOP, *bouncing(3))
    assert (finding.severity, finding.message) == ("warning", "Members came back up to 3 times within 10 minutes: app at /10.0.0.1")
    assert (finding.evidence["restart_count"], finding.evidence["same_process_count"]) == ("3", "0")


NEW_PROCESS, SINCE_FIRST, SINCE_THIRD = (number.to_bytes(4, "big", signed=True) for number in (-1, 1, 3))
OTHER_LAYOUT = bytes.fromhex("00000001000174000000010000000100000003")
"""One topic with one partition, and the generation after them; the generation alone would be read as 1."""


@pytest.mark.parametrize(
    ("strategy", "user_data", "count"),
    [
        ("cooperative-sticky", (SINCE_FIRST, NEW_PROCESS, SINCE_THIRD), 2),
        ("cooperative-sticky", (OTHER_LAYOUT, OTHER_LAYOUT[:-4] + NEW_PROCESS, None), 1),
        ("sticky", (OTHER_LAYOUT, OTHER_LAYOUT[:-4], bytes(4)), 1),  # without a generation, and a new member of franz-go's
        ("range", (SINCE_FIRST, SINCE_FIRST, SINCE_FIRST), 0),  # not these assignors' bytes
    ],
)
def test_returning_member_with_sticky_user_data_was_not_restarted(strategy: str, user_data: Sequence[bytes | None], count: int) -> None:
    finding = last(Rule.RESTART_LOOP, *bouncing(3, strategy=strategy, user_data=user_data))
    assert (finding.evidence["restart_count"], finding.evidence["same_process_count"]) == ("3", str(count))
    assert (f", {count} of them without a restart: " in finding.message) is (count > 0)


def test_returning_member_with_its_own_member_id_was_not_restarted() -> None:
    finding = last(Rule.RESTART_LOOP, *bouncing(3, strategy="uniform", ids=("b0", "b0", "b9")))
    assert (finding.evidence["restart_count"], finding.evidence["same_process_count"]) == ("3", "2")


def test_members_that_are_replaced_at_once_restart_too() -> None:
    history = [stored(number, {"a": "t0", f"b{number}": "t1"}, at={"a": THERE}, minute=number) for number in range(1, 5)]
    assert numbers_found(Rule.RESTART_LOOP, *history) == [3]


def test_static_member_is_recognised_on_any_host() -> None:
    history = []
    for number in range(4):
        name = f"b{number}"
        back = member(name, instance="b")
        history.append(
            stored(1, {"a": "t0", name: "t1"}, back, at={name: ("app", f"/10.0.1.{number}")}, minute=number, is_rewrite=number > 0)
        )
    assert numbers_found(Rule.RESTART_LOOP, *history) == [3]
    assert last(Rule.RESTART_LOOP, *history).evidence["seats"] == "b"


def test_no_restart_loop_for_rolling_slow_or_scaled_groups() -> None:
    rolled_twice = bouncing(2)
    slow = bouncing(9, minutes=WINDOW / 5 + 0.01)
    nobody_knows_where = bouncing(5, at=None)
    scaled_up_and_down = [stored(number + 1, {f"m{one}": "" for one in range(1 + min(number, 8 - number))}) for number in range(9)]
    for history in (rolled_twice, slow, nobody_knows_where, scaled_up_and_down):
        assert numbers_found(Rule.RESTART_LOOP, *history) == []


def test_rolling_restart_of_many_members_on_one_host_is_no_loop() -> None:
    """Ten members of one client id and host, each restarted once, are ten restarts of that place and one of each member."""
    names = [f"m{number}" for number in range(10)]
    history = [stored(1, dict.fromkeys(names, ""))]
    for time in range(10):
        names[time] = f"n{time}"
        history.append(stored(time + 2, dict.fromkeys(names, ""), minute=time / 2))
    assert numbers_found(Rule.RESTART_LOOP, *history) == []


def takeovers(*origins: Origin | None, minutes: float = 1) -> list[Stored]:
    """Return a static member that comes back from one place after the other, each time before it was missed."""
    history = []
    for number, origin in enumerate(origins):
        name = f"s{number}"
        one = member(name, instance="s")
        history.append(stored(1, {name: "t0 t1"}, one, at={name: origin}, minute=number * minutes, is_rewrite=number > 0))
    return history


def test_instance_id_taken_in_turns_by_two_processes_is_a_warning() -> None:
    assert numbers_found(Rule.DUPLICATE_INSTANCE_ID, *takeovers(HERE, THERE, HERE, THERE)) == [2, 3]
    finding = last(Rule.DUPLICATE_INSTANCE_ID, *takeovers(HERE, THERE, HERE))
    assert (finding.severity, finding.message) == ("warning", "1 instance id is used by several processes: s")


def test_two_members_with_one_instance_id_are_found() -> None:
    twins = stored(1, {"a": "t0", "b": "t1"}, member("a", instance="s"), member("b", instance="s"))
    assert last(Rule.DUPLICATE_INSTANCE_ID, twins).evidence["instance_ids"] == "s"


@pytest.mark.parametrize(
    "history",
    [
        pytest.param(takeovers(HERE, THERE, ("app", "/10.0.0.3")), id="it moves on"),
        pytest.param(takeovers(HERE, HERE, HERE), id="it is restarted in place"),
        pytest.param(takeovers(HERE, THERE, None, HERE), id="nobody knows where"),
        pytest.param(takeovers(HERE, THERE, HERE, minutes=WINDOW + 1), id="it moves back later"),
        pytest.param([stored(1, {"a": "t0", "b": "t1"}, member("a", instance="s"), member("b", instance="r"))], id="two names"),
        pytest.param([stored(1, {"a": "t0", "b": "t1"})], id="no names"),
    ],
)
def test_no_finding_for_an_instance_id_of_one_process(history: list[Stored]) -> None:
    assert numbers_found(Rule.DUPLICATE_INSTANCE_ID, *history) == []


def passing(owners: str, minutes: float = 1) -> list[Stored]:
    """Return a group of three in which ``t1`` belongs to one after the other; ``-`` is nobody."""
    shapes = [{name: "t0" if name == "a" else "" for name in "abc"} for _ in owners]
    for shape, owner in zip(shapes, owners, strict=True):
        if owner != "-":
            shape[owner] = f"{shape[owner]} t1".strip()
    return [stored(number + 1, shape, minute=number * minutes) for number, shape in enumerate(shapes)]


def test_partition_that_moves_back_and_forth_is_flapping() -> None:
    assert numbers_found(Rule.PARTITION_FLAPPING, *passing("bcbcbcb")) == [5, 6]
    finding = last(Rule.PARTITION_FLAPPING, *passing("bcbcbc"))
    assert (finding.severity, finding.message) == (
        "warning", "1 partition moved to the same member up to 3 times in 10 minutes: t-1",
    )  # fmt: skip
    assert finding.evidence == {"partition_count": "1", "move_count": "3", "partitions": "t-1"}


def handed_over(owners: str) -> list[Stored]:
    """Return a cooperative group in which ``t1`` is withheld before each of its owners gets it."""
    history = [stored(1, {"a": "t0", "b": "", "c": "", owners[0]: "t1"}, strategy="cooperative-sticky")]
    for number, (before, after) in enumerate(pairwise(owners), 1):
        loser = member(before, owned="t1", at=2 * number - 1)
        nobody, given = {"a": "t0", "b": "", "c": ""}, {"a": "t0", "b": "", "c": "", after: "t1"}
        history.append(stored(2 * number, nobody, loser, strategy="cooperative-sticky", minute=number / 2))
        history.append(stored(2 * number + 1, given, strategy="cooperative-sticky", minute=number / 2, is_follow_up=True))
    return history


def test_a_partition_that_is_handed_over_cooperatively_flaps_as_well() -> None:
    assert numbers_found(Rule.PARTITION_FLAPPING, *handed_over("bcbcbcb")) == [10, 12]
    assert numbers_found(Rule.PARTITION_FLAPPING, *handed_over("bbbbbbb")) == []  # it was withheld and returned each time


@pytest.mark.parametrize(
    "history",
    [
        pytest.param(passing("bcbcb"), id="it came to each twice"),
        pytest.param(passing("b-b-b-b-b-b-b"), id="it comes back from nobody"),
        pytest.param(passing("bcbcbcb", minutes=WINDOW / 4 + 0.01), id="in its own time"),
        pytest.param(passing("bcabcabc"[:7]), id="it goes round"),
    ],
)
def test_no_finding_for_partitions_that_do_not_flap(history: list[Stored]) -> None:
    assert numbers_found(Rule.PARTITION_FLAPPING, *history) == []


def test_a_partition_that_stays_with_its_last_owner_or_goes_to_a_new_one_flaps_no_more() -> None:
    assert numbers_found(Rule.PARTITION_FLAPPING, *passing("bcbcbccc")) == [5]
    assert numbers_found(Rule.PARTITION_FLAPPING, *passing("bcbcbca")) == [5]


def shared(*names: str, strategy: str = "range", number: int, minute: float, **changes: object) -> Stored:
    """Return a group that shares eight partitions evenly in the order of its names, each member at a place of its own."""
    per_member = 8 // len(names)
    given = {
        name: " ".join(f"t{at}" for at in range(8) if min(at // per_member, len(names) - 1) == index) for index, name in enumerate(names)
    }
    places_of = {name: (name[0], f"/{name[0]}") for name in names}
    return stored(number, given, topics={"t": 8}, at=places_of, strategy=strategy, minute=minute, **changes)


def restarted(*rounds: str) -> list[Stored]:
    """Return a group of four, of which one member after the other leaves and comes back under a new id."""
    names = ["a1", "b1", "c1", "d1"]
    history = [shared(*names, number=1, minute=0)]
    for number, seat in enumerate("".join(rounds)):
        at = "abcd".index(seat)
        without = [name for name in names if name[0] != seat]
        names[at] = f"{seat}{int(names[at][1:]) + 1}"
        history.append(shared(*without, number=2 * number + 2, minute=number + 0.5))
        history.append(shared(*names, number=2 * number + 3, minute=number + 0.8))
    return history


def test_members_that_are_restarted_one_after_the_other_make_nothing_flap() -> None:
    """Each restart moves partitions of the others away and back: three times in all. So does a member that is restarted again and again."""
    assert numbers_found(Rule.PARTITION_FLAPPING, *restarted("abcd")) == []
    assert numbers_found(Rule.PARTITION_FLAPPING, *restarted("aaaa")) == [5, 6, 7, 8]
    assert (
        numbers_found(
            Rule.PARTITION_FLAPPING,
            *restarted("abcd"),
            *[
                shared(*order, number=10 + number, minute=5 + number / 4)
                for number, order in enumerate(("b2 a2 c2 d2".split(), "a2 b2 c2 d2".split()) * 3)
            ],
        )
        != []
    ), "moves without a restart count"


def test_storm_window_includes_both_ends_and_stops_at_an_incarnation() -> None:
    shapes: Sequence[dict[str, str]] = ({"a": "t0 t1"}, {"a": "t0", "b": "t1"})
    first = [stored(number + 1, shapes[number % 2]) for number in range(10)]
    assert last(Rule.REBALANCE_STORM, *first, stored(11, shapes[0], minute=WINDOW)) is not None
    assert last(Rule.REBALANCE_STORM, *first, stored(11, shapes[0], minute=WINDOW + 0.001)) is None
    reborn, *again = facts(*first, stored(11, shapes[0], incarnation=1), stored(12, shapes[1], incarnation=1))[10:]
    assert (reborn.previous, reborn.window, [len(one.window) for one in again]) == (None, (), [1])


@st.composite
def histories(draw: st.DrawFn) -> list[Stored]:
    """Return a group of up to three members, some static, that come, go, move and pass partitions on, in uneven time."""
    minute, history = 0.0, []
    for number in range(draw(st.integers(2, 14))):
        minute += draw(st.sampled_from((0.0, 0.5, 3.0, WINDOW, WINDOW + 0.01)))
        seats = draw(st.lists(st.sampled_from("xyz"), max_size=3, unique=True))
        names = [f"{seat}{draw(st.integers(0, 2))}" for seat in seats]
        shape = dict.fromkeys(names, "")
        for partition in range(2 if names else 0):
            owner = draw(st.sampled_from(names))
            shape[owner] = f"{shape[owner]} t{partition}".strip()
        listed = [member(name, instance="z") for name in names if name.startswith("z")]
        at = {name: draw(st.sampled_from((HERE, THERE, None))) for name in names}
        history.append(stored(number, shape, *listed, at=at, minute=minute, strategy="sticky"))
    return history


@given(histories(), st.data())
def test_audit_that_starts_before_the_window_has_the_same_facts(history: list[Stored], data: st.DataObject) -> None:
    """The rule of ``jobs.audit.run.audited_groups``: reading begins with the generation before the first within the window."""
    cut = data.draw(st.integers(1, len(history) - 1))
    since = min(one.generation.evidence.observed_at_ms for one in history[cut:]) - WINDOW_MS
    recent = (number for number in range(cut - 1) if history[number + 1].generation.evidence.observed_at_ms >= since)
    begin = min(recent, default=cut - 1)
    later, whole = facts(*history[begin:])[cut - begin :], facts(*history)[cut:]
    assert [(one.window, one.previous) for one in later] == [(one.window, one.previous) for one in whole]


# -- over hours


def generations(rule: Rule, history: list[Stored]) -> list[int]:
    return [history[number].generation.generation for number in numbers_found(rule, *history)]


def test_a_member_put_out_after_max_poll_interval_is_a_loop_and_the_setting_is_named() -> None:
    """Out after 300 s and back 60 s later, for an hour: ten minutes show it twice."""
    history = history_of("member-put-out-by-max-poll")
    assert generations(Rule.RESTART_LOOP, history) == [11, 13, 15, 17, 19]
    finding = last(Rule.RESTART_LOOP, *history[:11])
    assert finding.message == (
        "Members came back up to 5 times within 24 minutes: s-b at /10.0.0.2; 300 s each time, and max.poll.interval.ms is 300 s"
    )
    assert finding.evidence == {
        **{"restart_count": "5", "seconds": "1440", "cycle_seconds": "360", "seat_count": "1", "seats": "s-b at /10.0.0.2"},
        **{"suspected_setting": "max.poll.interval.ms", "limit_ms": "300000"},
    }
    assert [generations(rule, history) for rule in (Rule.REBALANCE_STORM, Rule.PARTITION_FLAPPING)] == [[], []]


def test_restart_loop_of_six_hours_is_found_at_each_return() -> None:
    assert generations(Rule.RESTART_LOOP, history_of("member-put-out-by-max-poll", hours=6)) == [*range(11, 121, 2)]


def test_a_rolling_restart_is_no_finding_however_often_partitions_move() -> None:
    """Four pods one after the other, 80 s each, under range: partitions move to the same member three times within ten minutes."""
    history = history_of("rolling-restart")
    for rule in (Rule.RESTART_LOOP, Rule.REBALANCE_STORM, Rule.PARTITION_FLAPPING):
        assert generations(rule, history) == []


def test_partitions_do_not_flap_while_a_group_grows() -> None:
    """Round robin deals all partitions out again for each member that joins; none of them leaves."""
    names = [f"m{number}" for number in range(13)]
    history = []
    for count in range(1, 13):
        given = {name: " ".join(f"t{partition}" for partition in range(at, 24, count)) for at, name in enumerate(names[:count])}
        history.append(stored(count, given, strategy="roundrobin", topics={"t": 24}, minute=count / 2))
    assert generations(Rule.PARTITION_FLAPPING, history) == []


def test_rebalance_storm_names_its_duration_and_its_cycle() -> None:
    def storm_of(recurrences: Recurrences, timeout_ms: int | None = None) -> Finding:
        quiet = [stored(number, {"a": "t0", "b": "t1"}, minute=20 * number) for number in range(1, 4)]
        return last(Rule.REBALANCE_STORM, *quiet, replace(
            stored(4, {"a": "t0", "b": "t1"}, minute=80), recurrences=recurrences.encoded(), rebalance_timeout_ms=timeout_ms
        ))  # fmt: skip

    finding = storm_of(Recurrences(storm=Storm(72, 71 * 1_200_000, 1_200_000, None)))
    assert finding.message == "72 rebalances of 2 members within 23.7 hours, all without a visible reason"
    assert "suspected_setting" not in finding.evidence
    finding = storm_of(Recurrences(storm=Storm(60, 59 * 310_000, 310_000, 2.5)))
    assert finding.message.endswith("reason, 2.5 on its median day; 310 s each time, and max.poll.interval.ms is 300 s")
    finding = storm_of(Recurrences(storm=Storm(72, 71 * 1_200_000, 1_200_000, None)), timeout_ms=1_200_000)
    assert finding.message.endswith("; 1200 s each time, and max.poll.interval.ms is 1200 s")


def test_partitions_flap_where_each_newcomer_leaves_again() -> None:
    """Every one has a client id of its own, so that no seat is taken twice: still this is no restart of the group."""
    history = [stored(1, {"a": "t0", "b": "t1"})]
    for number in range(1, 5):
        new, at = f"n{number}", {f"n{number}": (f"app-{number}", "/10.0.0.9")}
        history.append(stored(2 * number, {"a": "t0", "b": "", new: "t1"}, minute=number, at=at))
        history.append(stored(2 * number + 1, {"a": "t0", "b": "t1"}, minute=number + 0.5))
    assert generations(Rule.PARTITION_FLAPPING, history) == [7, 9]


def test_rolling_restart_does_not_excuse_other_flapping() -> None:
    """A restart of one member in the window does not excuse what goes back and forth without anybody leaving."""
    history = [stored(1, {"a": "t0", "b": "t1", "c": ""}, at={"c": THERE}), stored(2, {"a": "t0", "b": "t1"})]
    for number in range(3, 10):
        given = {"a": "t0", "b": "t1"} if number % 2 else {"a": "t1", "b": "t0"}
        history.append(stored(number, given, minute=number / 2))
    assert numbers_found(Rule.PARTITION_FLAPPING, *history) == [7, 8]
