"""What recurs over hours and days: where it begins, one step before it does, and that no cut between runs changes it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignors.replay.recurrence import Happening, Recurrence, Recurrences, Seat

MINUTE_MS, DAY_MINUTES = 60_000, 24 * 60
B: Seat = ("app", "/10.0.0.2")


def found(happened: Iterable[Happening], begin_minute: float = 0) -> list[Recurrences | None]:
    """Return what recurs in each generation."""
    recurrence = Recurrence.begin(round(begin_minute * MINUTE_MS))
    return [recurrence.advance(one) for one in happened]


def cycles(count: int, stay: float, away: float, *, members: int = 1) -> list[Happening]:
    """Return so many cycles of a member that leaves a seat after ``stay`` minutes and is back ``away`` minutes later."""
    happened = []
    for number in range(count):
        left = number * (stay + away) + stay
        happened.append(Happening(round(left * MINUTE_MS), left=[(B, members)]))
        happened.append(Happening(round((left + away) * MINUTE_MS), came=[B]))
    return happened


def unexplained(minutes: Iterable[float]) -> list[Happening]:
    return [Happening(round(minute * MINUTE_MS), is_unexplained=True) for minute in minutes]


def numbers_found(results: Sequence[Recurrences | None]) -> list[int]:
    return [number for number, one in enumerate(results) if one is not None]


# -- members


def test_a_member_that_is_put_out_after_300_s_and_back_60_s_later_is_a_loop_from_the_fifth_time_on() -> None:
    results = found(cycles(60, 5, 1))
    assert numbers_found(results) == [*range(9, 120, 2)]
    (loop,) = results[9].loops
    assert (loop.seat, loop.return_count, loop.span_ms, loop.cycle_ms, loop.stay_ms) == (B, 5, 24 * MINUTE_MS, 6 * MINUTE_MS, 5 * MINUTE_MS)
    assert Recurrences.decoded(results[9].encoded()) == results[9]
    assert results[119].loops[0].return_count == 10  # in an hour; more are not kept


@pytest.mark.parametrize(
    ("count", "stay", "expected"),
    [
        pytest.param(5, 13.9, [9], id="five within an hour"),
        pytest.param(9, 14.1, [], id="one later"),
        pytest.param(10, 158, [19], id="ten within a day"),
        pytest.param(30, 160, [], id="one later"),
    ],
)
def test_a_loop_is_five_returns_within_an_hour_or_ten_within_a_day(count: int, stay: float, expected: list[int]) -> None:
    """The first return is ``stay`` and a minute after the beginning, and the last at four or nine times that later."""
    assert numbers_found(found(cycles(count, stay, 1))) == expected


def test_restart_loop_threshold_grows_with_members_of_one_host_and_client() -> None:
    assert numbers_found(found(cycles(9, 5, 1, members=2))) == []
    results = found(cycles(10, 4, 1, members=2))
    assert numbers_found(results) == [19]
    assert results[19].loops[0].stay_ms is None  # which of them it was is not known


def test_a_rolling_restart_is_no_loop_however_large_the_group() -> None:
    seats = [("app", f"/10.0.0.{number}") for number in range(40)]
    happened = []
    for number, seat in enumerate(seats):
        happened += [Happening(number * 80_000, left=[(seat, 1)]), Happening(number * 80_000 + 20_000, came=[seat])]
    assert numbers_found(found(happened)) == []


def test_member_joining_more_than_a_day_after_a_leave_is_no_return() -> None:
    happened = []
    for number in range(12):
        happened += [Happening(number * 2 * MINUTE_MS, came=[B])]
    assert numbers_found(found(happened)) == []
    assert numbers_found(found(cycles(12, 1, DAY_MINUTES + 1))) == []


# -- rebalances


@pytest.mark.parametrize(
    ("count", "every", "first"),
    [
        pytest.param(14, 5, 11, id="twelve within an hour"),
        pytest.param(60, 5.5, 47, id="eleven an hour, until the day has 48"),
        pytest.param(72, 20, 47, id="72 a day"),
        pytest.param(200, 31, None, id="47 a day"),
    ],
)
def test_a_storm_is_twelve_rebalances_within_an_hour_or_48_within_a_day(count: int, every: float, first: int | None) -> None:
    results = found(unexplained(number * every for number in range(count)))
    assert numbers_found(results) == ([] if first is None else [*range(first, count)])
    if first is not None:
        storm = results[first].storm
        assert (storm.rebalance_count, storm.cycle_ms, storm.usual_count) == (first + 1, round(every * MINUTE_MS), None)
        assert storm.span_ms == round(first * every * MINUTE_MS)


def days_of(*counts: int) -> list[float]:
    """Return the minutes of so many rebalances on each day, all within its first hours."""
    return [day * DAY_MINUTES + number * 7 for day, count in enumerate(counts) for number in range(count)]


def test_usual_rebalance_rate_is_no_storm_once_seven_whole_days_are_known() -> None:
    results = found(unexplained(days_of(*[60] * 9)))
    assert numbers_found(results) == [*range(47, 480)]  # none on day 8: day 0 is not known from its beginning


def test_a_day_of_five_times_the_usual_is_a_storm() -> None:
    before = [10] * 7 + [0, 12]
    results = found(unexplained(days_of(*before, 52)))
    first = sum(before) + 49
    assert numbers_found(results) == [first, first + 1, first + 2]  # the fiftieth
    assert results[first].storm.usual_count == 10


def test_days_without_any_rebalance_count_in_the_median() -> None:
    results = found(unexplained(days_of(60, 0, 60, 0, 0, 60, 0, 0, 60)))
    assert numbers_found(results)[-13:] == [*range(227, 240)]
    assert results[-1].storm.usual_count == 0


# -- the state


SEATS = st.lists(st.sampled_from((("a",), ("b",))), max_size=2)
HAPPENINGS = st.tuples(st.sampled_from([-30, 0, 1, 5, 61, 600, 1_500]), SEATS, SEATS, st.integers(1, 2), st.booleans())
"""Minutes since the one before, seats that were left and come to, members of each, and whether a rebalance had no visible reason."""


@given(st.lists(HAPPENINGS, max_size=60), st.sets(st.integers(0, 59)))
def test_a_state_that_goes_through_text_between_two_runs_finds_the_same(drawn: list[tuple], cuts: set[int]) -> None:
    """Also where records' times go back, and where what is older than a day is left out of the text."""
    history, minute = [], 10
    for minutes, left, came, members, is_unexplained in drawn:
        minute += minutes
        history.append(Happening(minute * MINUTE_MS, [(seat, members) for seat in left], came, is_unexplained))
    through, cut = Recurrence.begin(0), Recurrence.begin(0)
    for number, happened in enumerate(history):
        assert cut.advance(happened) == through.advance(happened)
        if number in cuts:
            cut = Recurrence.decoded(json.loads(json.dumps(cut.encoded())))
    assert cut.encoded() == through.encoded()


def test_returns_older_than_a_day_do_not_decide_how_many_are_kept() -> None:
    """Two members shared the seat once, a day before a single one began to return every hour. A stored state has no return of that day."""
    shared = [Happening(60 * MINUTE_MS, left=[(B, 2)]), Happening(61 * MINUTE_MS, came=[B])]
    hourly = cycles(15, 59, 1)
    later = [Happening(one.at_ms + 26 * 60 * MINUTE_MS, one.left, one.came) for one in hourly]
    whole, cut = Recurrence.begin(0), Recurrence.begin(0)
    for happened in shared:
        assert whole.advance(happened) == cut.advance(happened) is None
    for number, happened in enumerate(later):
        if number == 2:
            cut = Recurrence.decoded(json.loads(json.dumps(cut.encoded())))
        assert whole.advance(happened) == cut.advance(happened)


def test_a_state_has_no_more_times_than_its_rules_ask_for() -> None:
    recurrence = Recurrence.begin(0)
    for happened in [*cycles(500, 0.5, 0.5), *unexplained(500 + number / 100 for number in range(2_000))]:
        recurrence.advance(happened)
    content = recurrence.encoded()
    assert (len(content["returns"][0][1]), len(content["unexplained"]), content["departures"]) == (10, 1_000, [])
