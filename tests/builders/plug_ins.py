"""Bad assignors, as users may write them. The strategy is the path of one, such as ``tests.builders.plug_ins:hang``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from assignors import GroupProblem, NoResultError


def path_of(function: Callable[..., Any]) -> str:
    """Return the strategy's name."""
    return f"{__name__}:{function.__name__}"


def hang(problem: GroupProblem, **_: Any) -> None:
    """Run for ever."""
    while True:
        pass


def retry(problem: GroupProblem, **_: Any) -> None:
    """Wait for ever, even if an error is raised."""
    while True:
        try:
            time.sleep(1)
        except BaseException:
            time.sleep(1)


def answer_endlessly(problem: GroupProblem, **_: Any) -> dict:
    """Return endless partitions in an object that looks like a list."""

    class Endless(list):
        def __iter__(self) -> Iterator[tuple[str, int]]:
            while True:
                yield "t", 0

    return {problem.members[0].member_id: Endless()}


def exit_process(problem: GroupProblem, **_: Any) -> None:
    """End the process, as a command-line tool would."""
    raise SystemExit(3)


def interrupt(problem: GroupProblem, **_: Any) -> None:
    """Raise the error of Ctrl-C."""
    raise KeyboardInterrupt


def exhaust(problem: GroupProblem, **_: Any) -> None:
    """Raise the error of a process without memory."""
    raise MemoryError


def recurse(problem: GroupProblem, **_: Any) -> None:
    """Call itself for ever."""
    recurse(problem)


def raise_the_unspeakable(problem: GroupProblem, **_: Any) -> None:
    """Raise an error whose message cannot be read."""

    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise ValueError

    raise Unspeakable


def raise_a_surrogate(problem: GroupProblem, **_: Any) -> None:
    """Raise an error with half a surrogate pair in its text."""
    raise ValueError("\ud800" + "x" * 5_000)


def give_up_badly(problem: GroupProblem, **_: Any) -> None:
    """Raise an error of ours without its attributes."""

    class TooHard(NoResultError):
        def __init__(self) -> None:
            pass

    raise TooHard


def forget_topics(problem: GroupProblem, **_: Any) -> dict:
    """Remove the topics that other strategies use too."""
    problem.topics.clear()
    return {}


def give_nonsense(problem: GroupProblem, **_: Any) -> dict:
    """Give the first member partitions that do not exist, in topics that do not exist, and one of them twice."""
    topic = min(problem.topics, default="t")
    return {problem.members[0].member_id: [(topic, -1), (topic, 0), (topic, 0), ("nowhere", 2**31 - 1)]}
