"""What a call says to its caller, and how it ends when it cannot go on."""

from __future__ import annotations

import errno
import sys

EXIT_CODE = 2
"""Of every failure before Spark starts."""


class Refusal(Exception):
    """The call cannot go on, for the reason that is its text: one line, without the program's name."""


def say(message: str) -> None:
    """Print one line on stderr."""
    if sys.stderr is not None:
        print(f"evenkeel: {message}", file=sys.stderr, flush=True)


def unwritable(error: OSError, root: str, purpose: str) -> Exception:
    """Return what to raise where a checkout cannot be written: the error itself on a full disk, else a Refusal."""
    return error if error.errno in (errno.ENOSPC, errno.EDQUOT) else Refusal(f"cannot write into {root}, {purpose}")
