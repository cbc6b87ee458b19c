"""Assignors that do to their worker what memory, kernels and native libraries do, when they are asked about one group.

Each is named by its path, ``tests.faults.harmful_assignors:die``; to every other group each gives nothing.
"""

from __future__ import annotations

import ctypes
import os
import signal
from typing import Any

from pyspark import TaskContext

from assignors import GroupProblem

POISON = "feed-rr"
"""A group of the recorded capture, and a topic that no other group of the test reads."""
TOPIC_OF_THE_POISON = "prices-eu"
MORE_THAN_ALLOWED = 1024 * 1024 * 1024


def _is_poison(problem: GroupProblem) -> bool:
    return TOPIC_OF_THE_POISON in problem.topics


def die_once(problem: GroupProblem, **_: Any) -> dict[str, Any]:
    """End the worker as a kernel does that is short of memory, when the task is tried the first time."""
    if _is_poison(problem) and TaskContext.get().attemptNumber() == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return {}


def die(problem: GroupProblem, **_: Any) -> dict[str, Any]:
    """End the worker whenever it is asked."""
    if _is_poison(problem):
        os.kill(os.getpid(), signal.SIGKILL)
    return {}


def crash(problem: GroupProblem, **_: Any) -> dict[str, Any]:
    """Read what is not there, as a fault in native code does."""
    if _is_poison(problem):
        ctypes.string_at(0)
    return {}


def leave(problem: GroupProblem, **_: Any) -> dict[str, Any]:
    """End the process without a word."""
    if _is_poison(problem):
        os._exit(0)
    return {}


def hang(problem: GroupProblem, **_: Any) -> dict[str, Any]:
    """Stay in native code that neither lets other threads run nor looks at signals."""
    if _is_poison(problem):
        9**9**9
    return {}


def fill_memory(problem: GroupProblem, **_: Any) -> dict[str, Any]:
    """Take more memory than a worker may have."""
    if _is_poison(problem):
        bytearray(MORE_THAN_ALLOWED)
    return {}
