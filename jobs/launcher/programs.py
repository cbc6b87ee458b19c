"""Programs of the setup: their output goes to a file, and a long one reports that it still works."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from .checkout import explain_failure
from .messages import Refusal, say

if TYPE_CHECKING:
    import subprocess

PROGRESS_SECONDS = 10.0
"""How often a long setup says that it still works."""
END_SECONDS = 2.0
"""How long an interrupted program may take to end by itself."""


def run_program(
    what: str,
    remedy: str,
    command: Sequence[str],
    log: str,
    environ: Mapping[str, str],
    folder: str | None = None,
    lock: int = -1,
    limit_seconds: float = math.inf,
) -> None:
    """Run a program to its end.

    Args:
        what: names the work.
        remedy: what to do if it fails without a known cause.
        command: the program and its arguments.
        log: the path of the file for its output; an older file is replaced.
        environ: its environment.
        folder: its current folder; None for the caller's.
        lock: a descriptor that it inherits; -1 for none.
        limit_seconds: after this time it is ended.

    Raises:
        Refusal: it failed or took too long; one line with `what`, the cause and the remedy.
    """
    import subprocess

    inherited = () if lock < 0 else (lock,)
    with open(log, "wb") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=environ, stdin=subprocess.DEVNULL, stdout=output, stderr=output, pass_fds=inherited
        )
        try:
            code = wait_for_end(process.wait, what, limit_seconds=limit_seconds)
        except KeyboardInterrupt:
            end(process)
            raise
        except TimeoutError:
            end(process)
            raise Refusal(f"{what} took more than {limit_seconds:.0f} s and was ended (its output: {log})") from None
    if code:
        with open(log, encoding="utf-8", errors="replace") as file:
            cause = explain_failure(file.read(), remedy, _is_full(log))
        raise Refusal(f"{what} failed: {cause}, then call again (its output: {log})")


def end(process: subprocess.Popen[bytes]) -> None:
    """End a program of the setup: by asking it, then by force."""
    import subprocess

    process.terminate()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_for_end(wait: Callable[[float], int], what: str, limit_seconds: float = math.inf) -> int:
    """Return the exit code of a process; report regularly that it still works.

    Args:
        wait: returns the exit code, or raises ``subprocess.TimeoutExpired`` after so many seconds.
        what: names the work.
        limit_seconds: how long to wait.

    Raises:
        TimeoutError: the process still works after ``limit_seconds``.
    """
    import subprocess
    import time

    started = time.monotonic()
    while True:
        try:
            return wait(min(PROGRESS_SECONDS, max(0.0, started + limit_seconds - time.monotonic())))
        except subprocess.TimeoutExpired:
            if time.monotonic() - started >= limit_seconds:
                raise TimeoutError from None
            say(f"still {what} ({time.monotonic() - started:.0f} s)")


def _is_full(log: str) -> bool:
    """Return whether nothing can be written beside a log: on a full disk the program's own message may be lost."""
    probe = f"{log}.probe"
    try:
        with open(probe, "wb") as file:
            file.write(bytes(4096))
    except OSError:
        return True
    finally:
        if os.path.exists(probe):
            os.unlink(probe)
    return False
