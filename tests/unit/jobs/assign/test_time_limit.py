"""The bound on the time of a call: it ends, whatever it catches, and leaves the process as it was."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from assignors import NoResultError
from jobs.assign import time_limit
from jobs.assign.time_limit import TimeLimit

SECONDS = 0.05


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_limit, "AGAIN_SECONDS", 0.05)


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Every test leaves the signal's handler, the timer and the tracer as it found them."""
    before, tracer = signal.getsignal(signal.SIGALRM), sys.gettrace()
    yield
    assert sys.gettrace() is tracer
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def sleep() -> None:
    time.sleep(60)


def spin() -> None:
    while True:
        pass


def catch_exceptions() -> None:
    while True:
        try:
            time.sleep(60)
        except Exception:
            continue


def catch_everything_while_spinning() -> None:
    while True:
        try:
            sum(range(1_000))
        except BaseException:
            pass


def catch_everything_while_waiting() -> None:
    while True:
        try:
            time.sleep(60)
        except BaseException:
            pass


def wait_again_after_everything() -> None:
    while True:
        try:
            time.sleep(60)
        except BaseException:
            time.sleep(60)


def answer_all_the_same() -> str:
    try:
        time.sleep(60)
    except BaseException:
        return "late"
    return "never"


def raise_another() -> None:
    try:
        time.sleep(60)
    except BaseException as error:
        raise ValueError from error


@pytest.mark.parametrize(
    "call",
    [
        sleep,
        spin,
        catch_exceptions,
        catch_everything_while_spinning,
        catch_everything_while_waiting,
        wait_again_after_everything,
        answer_all_the_same,
        raise_another,
    ],
)
def test_a_call_that_takes_too_long_is_ended(call: Callable[[], object]) -> None:
    began = time.monotonic()
    with pytest.raises(NoResultError, match=r"^no answer within 0\.05 s$") as ended:
        TimeLimit(SECONDS)("f", call)
    assert not ended.value.is_cycle
    assert time.monotonic() - began < 20


def test_a_call_in_time_is_not_touched() -> None:
    limit = TimeLimit(60)
    assert limit("f", lambda: "answer") == "answer"
    with pytest.raises(ZeroDivisionError):
        limit("f", lambda: 1 / 0)
    assert limit("f", lambda: "still asked") == "still asked"


def test_assignor_that_timed_out_is_not_called_again() -> None:
    limit, asked = TimeLimit(SECONDS), []
    with pytest.raises(NoResultError):
        limit("slow", sleep)
    with pytest.raises(NoResultError, match=r"^not called: an earlier call gave no answer within 0\.05 s$"):
        limit("slow", lambda: asked.append("slow"))
    limit("other", lambda: asked.append("other"))
    TimeLimit(60)("slow", lambda: asked.append("slow, in another group"))
    assert asked == ["other", "slow, in another group"]


def test_timer_that_was_running_before_the_call_continues() -> None:
    """Of another's ten seconds, what the call took is gone."""
    rang: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, frame: rang.append(number))
    try:
        signal.setitimer(signal.ITIMER_REAL, 10, 7)
        TimeLimit(60)("f", lambda: time.sleep(0.05))
        left, interval = signal.getitimer(signal.ITIMER_REAL)
        assert (9 < left < 9.96, interval) == (True, 7)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        TimeLimit(60)("f", lambda: time.sleep(0.2))
        time.sleep(0.05)
        assert rang == [signal.SIGALRM], "it rings late rather than never"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_timer_left_by_the_call_is_ended() -> None:
    TimeLimit(60)("f", lambda: signal.setitimer(signal.ITIMER_REAL, 30))


def test_outside_the_main_thread_a_call_takes_as_long_as_it_takes() -> None:
    answers: list[str] = []

    def ask() -> None:
        answers.append(TimeLimit(0.01)("f", lambda: time.sleep(0.05) or "answer"))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert answers == ["answer"]
