"""Runs Evenkeel in a process that ends at a named call, as ``kill -9`` ends it.

``python -m tests.faults.dying CALLS MOMENT COUNT ARGUMENTS...``: CALLS are ``module:function`` or ``module:Class.method``, joined by ``>``.
Those of the last one are counted while the others are in progress; at the given count the process dies: ``before`` the call, ``during`` or
``after`` it, or ``frozen``, which is during it, with Spark's JVM stopped, so that it is still there when the next run starts.
"""

from __future__ import annotations

import functools
import importlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

from pyspark import SparkContext

from jobs import cli

DURING_SECONDS = 0.2
"""How long a call has been in progress when the process dies during it: long enough for Spark to be at work."""


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def freeze_and_die() -> None:
    os.kill(SparkContext._gateway.proc.pid, signal.SIGSTOP)
    die()


def replace(call: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Put a wrapped function in the place of the one that is named."""
    module, _, names = call.partition(":")
    *owners, name = names.split(".")
    owner = functools.reduce(getattr, owners, importlib.import_module(module))
    original = getattr(owner, name)
    setattr(owner, name, functools.wraps(original)(wrap(original)))


def arm(calls: list[str], moment: str, count: int) -> None:
    *outer, last = calls
    active, seen = 0, 0

    def noted(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            nonlocal active
            active += 1
            try:
                return original(*arguments, **named)
            finally:
                active -= 1

        return call

    def deadly(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            nonlocal seen
            seen += active == len(outer)
            is_last = active == len(outer) and seen == count
            if is_last and moment == "before":
                die()
            if is_last and moment in ("during", "frozen"):
                threading.Timer(DURING_SECONDS, die if moment == "during" else freeze_and_die).start()
            result = original(*arguments, **named)
            if is_last and moment == "after":
                die()
            return result

        return call

    for name in outer:
        replace(name, noted)
    replace(last, deadly)


if __name__ == "__main__":
    arm(sys.argv[1].split(">"), sys.argv[2], int(sys.argv[3]))
    sys.exit(cli.console_main(sys.argv[4:]))
