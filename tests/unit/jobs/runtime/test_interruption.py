"""The end of a process by a signal: in time, and with a line that is true."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest

from jobs.runtime import interruption as module
from jobs.runtime.interruption import Interruption, TableState


class ProcessEndedError(Exception):
    """Instead of the end of the process."""


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The exit codes with which the process would have ended."""
    codes: list[int] = []

    def end(code: int) -> None:
        codes.append(code)
        raise ProcessEndedError

    monkeypatch.setattr(module.os, "_exit", end)
    before = signal.getsignal(signal.SIGINT)
    yield codes
    assert signal.getsignal(signal.SIGINT) is before


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_command_that_does_not_end_in_time_is_ended_with_its_line(monkeypatch: pytest.MonkeyPatch, ended: list[int]) -> None:
    monkeypatch.setattr(module, "LONGEST_SECONDS", 0.05)
    interruption, said = Interruption(), []
    interruption.at_limit = lambda: said.append(interruption.text)
    with interruption.handled():
        try:
            interrupt()
        except KeyboardInterrupt:
            interruption.tables = TableState.UNPUBLISHED
            time.sleep(0.3)
    assert (said, ended) == (["interrupted; the next run takes the tables back"], [130])


def test_a_command_that_ends_in_time_is_left_alone(monkeypatch: pytest.MonkeyPatch, ended: list[int]) -> None:
    monkeypatch.setattr(module, "LONGEST_SECONDS", 0.05)
    interruption, cancelled = Interruption(), []
    interruption.cancel = lambda: cancelled.append("jobs")
    with pytest.raises(KeyboardInterrupt), interruption.handled():
        interrupt()
    time.sleep(0.2)
    assert (cancelled, ended) == (["jobs"], [])


def test_only_a_later_second_interrupt_ends_the_process_at_once(monkeypatch: pytest.MonkeyPatch, ended: list[int]) -> None:
    """``timeout -s INT`` signals the process, and then its group."""
    interruption = Interruption()
    with interruption.handled():
        with pytest.raises(KeyboardInterrupt):
            interrupt()
        interrupt()
        assert ended == []
        monkeypatch.setattr(module, "SAME_INTERRUPT_SECONDS", 0.0)
        with pytest.raises(ProcessEndedError):
            interrupt()
    assert ended == [130]


def test_an_interrupt_counts_even_where_a_script_has_it_ignored(ended: list[int]) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(KeyboardInterrupt), Interruption().handled():
            interrupt()
    finally:
        signal.signal(signal.SIGINT, before)
