"""Local times of a log become UTC, hours that a change of the clocks repeats are marked, and a zone that does not fit is found."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.decoders.log_times import TIME, GenerationLine, LogTime, LogTimes, epoch_time, fitting_zone
from jobs.runtime.errors import UsageError

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def utc_ms(*parts: int) -> int:
    return int(datetime(*parts, tzinfo=timezone.utc).timestamp() * 1000)  # type: ignore[arg-type, misc]  # the first seven are numbers


@pytest.mark.parametrize(
    ("zone", "minute", "expected", "is_ambiguous"),
    [
        (None, "2026-11-21 02:21", utc_ms(2026, 11, 21, 2, 21), False),
        ("Europe/Berlin", "2026-11-21 02:21", utc_ms(2026, 11, 21, 1, 21), False),
        ("America/New_York", "2026-07-01 02:21", utc_ms(2026, 7, 1, 6, 21), False),
        ("Asia/Kolkata", "2026-07-01 02:21", utc_ms(2026, 6, 30, 20, 51), False),
        # Clocks go back at 03:00: 02:30 comes twice, the first time with the offset of summer.
        ("Europe/Berlin", "2026-10-25 02:30", utc_ms(2026, 10, 25, 0, 30), True),
        ("Europe/Berlin", "2026-10-25 03:00", utc_ms(2026, 10, 25, 2, 0), False),
        # Clocks go forward at 02:00: there is no 02:30.
        ("Europe/Berlin", "2026-03-29 02:30", utc_ms(2026, 3, 29, 1, 30), True),
        ("Europe/Berlin", "2026-03-29 01:59", utc_ms(2026, 3, 29, 0, 59), False),
        # Only half an hour is repeated.
        ("Australia/Lord_Howe", "2026-04-05 01:15", utc_ms(2026, 4, 4, 14, 15), False),
        ("Australia/Lord_Howe", "2026-04-05 01:45", utc_ms(2026, 4, 4, 14, 45), True),
    ],
)
def test_local_time_becomes_utc(zone: str | None, minute: str, expected: int, is_ambiguous: bool) -> None:
    """The wrong fold, or an offset that is kept for a whole hour or day."""
    times = LogTimes(zone)
    assert times.at(minute, 7, 89) == LogTime(expected + 7_089, is_ambiguous)
    assert times.at(minute, 0, 0) == LogTime(expected, is_ambiguous)


@given(
    st.integers(utc_ms(1970, 1, 2), utc_ms(2199, 12, 30)), st.sampled_from(["UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kathmandu"])
)
def test_times_that_are_not_ambiguous_come_back(moment_ms: int, zone: str) -> None:
    """Any error of the conversion: the local time is computed from UTC, the other way round."""
    local = (EPOCH + timedelta(milliseconds=moment_ms)).astimezone(ZoneInfo(zone))
    found = LogTimes(zone).at(local.strftime("%Y-%m-%d %H:%M"), local.second, local.microsecond // 1000)
    assert found.is_ambiguous or found.at_ms == moment_ms


@pytest.mark.parametrize(
    "minute", ["2026-13-01 00:00", "2026-02-30 00:00", "2026-01-01 24:00", "1969-12-31 00:00", "2200-01-01 00:00", "0000-00-00 00:00"]
)
def test_time_that_does_not_exist_is_refused(minute: str) -> None:
    with pytest.raises(ValueError):
        LogTimes("America/New_York").at(minute, 0, 0)


def test_second_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="up to 59"):
        LogTimes().at("2026-01-01 00:00", 61, 0)


@pytest.mark.parametrize("zone", ["Europe/Berlim", "CEST2", "../etc/passwd", "/etc/localtime", "", "+02:00", "Europe"])
def test_unknown_zone_is_named_with_how_zones_are_spelled(zone: str) -> None:
    with pytest.raises(UsageError, match=r"unknown; expected a name of the IANA database such as UTC, Europe/Berlin"):
        LogTimes(zone)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-21 02:21:47,123", utc_ms(2026, 11, 21, 1, 21, 47) + 123),
        ("2026-11-21T02:21:47.123456789", utc_ms(2026, 11, 21, 1, 21, 47) + 123),
        ("2026/11/21 02:21:47", utc_ms(2026, 11, 21, 1, 21, 47)),
        ("2026-11-21T02:21:47.5Z", utc_ms(2026, 11, 21, 2, 21, 47) + 500),
        ("2026-11-21T02:21:47,123+0200", utc_ms(2026, 11, 21, 0, 21, 47) + 123),
        ("2026-11-21 02:21:47.123 -05:30", utc_ms(2026, 11, 21, 7, 51, 47) + 123),
        ("2026-11-21 02:21:47,123+02", utc_ms(2026, 11, 21, 0, 21, 47) + 123),
        ("2026-11-21 02:21:47,123 UTC INFO", utc_ms(2026, 11, 21, 2, 21, 47) + 123),
        ("2026-11-21 02:21:47,123 - INFO", utc_ms(2026, 11, 21, 1, 21, 47) + 123),
    ],
)
def test_written_zone_is_used_instead_of_the_assumed_one(text: str, expected: int) -> None:
    match = TIME.search(text)
    assert match is not None
    assert LogTimes("Europe/Berlin").of_text(match) == LogTime(expected, False)


@pytest.mark.parametrize("number", [1795227707, 1795227707.0, 1795227707_000, 1795227707_000_000, 1795227707_000_000_000])
def test_unit_of_a_number_is_seen_from_its_size(number: float) -> None:
    assert epoch_time(number).at_ms == 1795227707_000


def lines(broker: str, offset_minutes: int, count: int, late_ms: int = 300) -> list[GenerationLine]:
    return [GenerationLine(broker, "g", at, RECORDED + at * 60_000 + offset_minutes * 60_000 + late_ms) for at in range(count)]


RECORDED = utc_ms(2026, 11, 21)
GENERATIONS = {("g", at): [RECORDED + at * 60_000] for at in range(20)}


@pytest.mark.parametrize("offset", [60, -300, 345, 330, -210, 840, -720])
def test_offset_of_the_fitting_zone_is_found(offset: int) -> None:
    assert fitting_zone([*lines("1", offset, 3), *lines("2", 0, 9)], GENERATIONS) == {"1": offset}


def test_zone_that_fits_gets_no_advice() -> None:
    """A fault in the sign or the limit, or one line that is late."""
    assert fitting_zone(lines("1", 0, 9), GENERATIONS) == {}
    assert fitting_zone(lines("1", 60, 2), GENERATIONS) == {}
    assert fitting_zone([*lines("1", 0, 9), *lines("1", 60, 4)], GENERATIONS) == {}
    assert fitting_zone(lines("1", 7, 9), GENERATIONS) == {}
    assert fitting_zone(lines("1", 60 * 30, 9), GENERATIONS) == {}
    assert fitting_zone(lines("1", 60, 9), {}) == {}
    assert fitting_zone([], GENERATIONS) == {}


def test_generation_that_was_written_twice_fits_with_either_record() -> None:
    twice = {key: [times[0] - 3_600_000, times[0]] for key, times in GENERATIONS.items()}
    once_late = GenerationLine("1", "h", 1, RECORDED + 3_600_000)
    assert fitting_zone([*lines("1", 0, 9), once_late], {**twice, ("h", 1): [RECORDED]}) == {}
