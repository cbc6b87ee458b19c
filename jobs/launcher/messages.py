"""Messages of a call to its caller, and its end if it cannot continue."""

from __future__ import annotations

import errno
import os
import sys

EXIT_CODE = 2
"""Exit code of every failure before Spark starts."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, as of a shell."""
TABLES_AS_BEFORE = "the tables are as before"
"""What an interrupted call says of the tables if it has written none."""

PROGRAM_VARIABLE = "EVENKEEL_PROGRAM"
"""The variable with the name by which the caller started the launcher."""


def program() -> str:
    """Return the name of the program that the caller typed, for messages: the launcher's, or that of an installed wheel."""
    return os.environ.get(PROGRAM_VARIABLE) or "evenkeel"


class Refusal(Exception):
    """The call cannot continue; the text is the reason, in one line without the program's name."""


def say(message: str) -> None:
    """Print one line of text on stderr, as ``write`` does."""
    write(f"evenkeel: {message}")


def write(line: str) -> None:
    """Print a line on stderr, unless nobody can read it: the exit code still says how the call ended."""
    if sys.stderr is not None:
        try:
            print(line, file=sys.stderr, flush=True)
        except OSError:
            mute(2)


def end_line(command: str, message: str) -> str:
    """Return the last line of the JSON log of a command that ends before Spark starts.

    Args:
        command: empty if the call names none.
        message: why it ends.
    """
    import json
    import logging
    from datetime import datetime, timezone

    made = logging.makeLogRecord({})  # it has the time, as every line of a log
    at = datetime.fromtimestamp(made.created, timezone.utc).isoformat(timespec="milliseconds")
    line = {"at": at, "level": "error", "logger": "jobs.launcher", "message": f"{command or 'call'} ended"}
    return json.dumps({**line, "event": "end", "command": command, "exit_code": EXIT_CODE, "error": message, "seconds": 0.0})


def mute(descriptor: int) -> None:
    """Send what is written to a descriptor nowhere, else Python fails once more at its end and changes the exit code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def unwritable(error: OSError, root: str, purpose: str) -> Exception:
    """Return the exception for a checkout that cannot be written: the error itself on a full disk, else a Refusal."""
    return error if error.errno in (errno.ENOSPC, errno.EDQUOT) else Refusal(f"cannot write into {root}, {purpose}")
