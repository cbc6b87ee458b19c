"""Assignors as bad as users can write them; each is named by its path, ``tests.builders.plug_ins:hang``."""

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
    """Wait for something that never comes, whatever is raised."""
    while True:
        try:
            time.sleep(1)
        except BaseException:
            time.sleep(1)


def answer_endlessly(problem: GroupProblem, **_: Any) -> dict:
    """Answer with partitions that have no end, in a list that only looks like one."""

    class Endless(list):
        def __iter__(self) -> Iterator[tuple[str, int]]:
            while True:
                yield "t", 0

    return {problem.members[0].member_id: Endless()}


def exit_process(problem: GroupProblem, **_: Any) -> None:
    """End the process, as a command-line tool would."""
    raise SystemExit(3)


def interrupt(problem: GroupProblem, **_: Any) -> None:
    """Raise what Ctrl-C raises."""
    raise KeyboardInterrupt


def exhaust(problem: GroupProblem, **_: Any) -> None:
    """Raise what a process without memory raises."""
    raise MemoryError


def recurse(problem: GroupProblem, **_: Any) -> None:
    """Call itself without end."""
    recurse(problem)


def raise_the_unspeakable(problem: GroupProblem, **_: Any) -> None:
    """Raise an error that cannot even say what it is."""

    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise ValueError

    raise Unspeakable


def raise_a_surrogate(problem: GroupProblem, **_: Any) -> None:
    """Raise an error with half a character in its text."""
    raise ValueError("\ud800" + "x" * 5_000)


def give_up_badly(problem: GroupProblem, **_: Any) -> None:
    """Raise an error of ours that was not made in full."""

    class TooHard(NoResultError):
        def __init__(self) -> None:
            pass

    raise TooHard


def forget_topics(problem: GroupProblem, **_: Any) -> dict:
    """Empty the topics that other strategies are asked with too."""
    problem.topics.clear()
    return {}


def give_nonsense(problem: GroupProblem, **_: Any) -> dict:
    """Give the first member partitions that do not exist, in topics that do not exist, and one of them twice."""
    topic = min(problem.topics, default="t")
    return {problem.members[0].member_id: [(topic, -1), (topic, 0), (topic, 0), ("nowhere", 2**31 - 1)]}
