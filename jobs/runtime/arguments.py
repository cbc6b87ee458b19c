"""Options of a command line as fields of a dataclass, and how their texts are parsed."""

from __future__ import annotations

import argparse
import math
import re
from dataclasses import MISSING, dataclass, field, fields
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, ClassVar

from jobs.runtime.locations import is_text, on_one_line

LONGEST_RUN_NAME = 250
WARNINGS = "warnings"
"""Name in a parsed command line of the log lines about its options, such as those that were given by a former name."""
FORMERLY = "formerly"
ALIASES = "aliases"
POSITIONAL = "positional"
_ADDRESS = re.compile(r"([^\s:@/]+|\[[0-9a-fA-F:.]+\]):\d{1,5}")


def option(default: Any = None, formerly: str | None = None, aliases: tuple[str, ...] = (), **argument: Any) -> Any:
    """Return the field of an option whose name is that of the field, with dashes.

    Args:
        default: MISSING for an option that has to be given.
        formerly: another name of the option, which works until release 1.0.
        aliases: further names of it that stay.
        argument: further arguments of ``add_argument``; ``help`` gets the default, unless it names one. An option of several values
            has ``action="extend"``, so that a second use does not drop the values of the first.
    """
    return field(default=default, metadata={FORMERLY: formerly, ALIASES: aliases, **argument})


def positional(default: Any, **argument: Any) -> Any:
    """Return the field of an argument that is given without a name.

    Args:
        default: where it is not given, with ``nargs="*"``.
        argument: further arguments of ``add_argument``.
    """
    return field(default=default, metadata={FORMERLY: None, ALIASES: (), POSITIONAL: True, **argument})


class _Renamed(argparse.Action):
    """Takes the value of an option that was given by its former name, and adds a line with both names to ``WARNINGS``."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, value: Any, name: str | None = None) -> None:
        setattr(namespace, self.dest, value)
        new = f"--{self.dest.replace('_', '-')}"
        _warn(namespace, f"{name} is now called {new}; the old name works until release 1.0")


class Unused(argparse.Action):
    """Takes an option that the command makes no use of, and adds a line that says so to ``WARNINGS``."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, value: Any, name: str | None = None) -> None:
        command = parser.prog.rpartition(" ")[2]
        _warn(namespace, f"{command} makes no use of {name}; it takes this option until release 1.0")


def _warn(namespace: argparse.Namespace, line: str) -> None:
    setattr(namespace, WARNINGS, (*getattr(namespace, WARNINGS, ()), line))


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of every command; each command has a subclass, in the order of its ``--help``.

    Attributes:
        unused: options that other stages have, and that the command takes only so that one list of options can be given to every stage.
    """

    unused: ClassVar[tuple[str, ...]] = ()

    log_format: str = option(
        "text", choices=("text", "json"), help="format of the log lines on stderr; in JSON the last line is the summary"
    )
    quiet: bool = option(False, action="store_true", help="log only warnings and errors")
    verbose: bool = option(False, aliases=("-v",), action="store_true", help="log more, and where an error comes from")

    def extras(self) -> tuple[str, ...]:
        """Return the extras of setup.cfg that the command needs with these options."""
        return ()

    @classmethod
    def add_to(cls, parser: argparse.ArgumentParser) -> None:
        """Add these options to the parser of their command."""
        for name in cls.unused:
            hidden: dict[str, Any] = {"default": argparse.SUPPRESS, "help": argparse.SUPPRESS}
            parser.add_argument(name, action=Unused, dest=WARNINGS, type=_OF_OTHER_STAGES[name], **hidden)
        for one in fields(cls):
            default: Any = one.default
            if one.metadata.get("action") == "extend" and default is not None:
                default = list(default)  # which argparse copies and extends
            need = {"required": True} if default is MISSING else {"default": default}
            argument = {name: value for name, value in one.metadata.items() if name not in (FORMERLY, ALIASES, POSITIONAL)}
            if "(default" not in argument["help"] and not isinstance(one.default, bool) and one.default not in (None, (), MISSING):
                argument["help"] += " (default %(default)s)"
            if POSITIONAL in one.metadata:
                parser.add_argument(one.name, default=one.default, **argument)
                continue
            parser.add_argument(f"--{one.name.replace('_', '-')}", *one.metadata[ALIASES], dest=one.name, **need, **argument)
            if one.metadata[FORMERLY] is not None:
                argument |= {"help": argparse.SUPPRESS, "default": argparse.SUPPRESS, "dest": one.name, "action": _Renamed}
                parser.add_argument(one.metadata[FORMERLY], **argument)


def path_name(text: str) -> str:
    """Return the name of a file or folder; an empty one, as of a variable that is not set, would be the current folder."""
    if not text.strip():
        raise argparse.ArgumentTypeError("expected a name, found none")
    return text


def file_path(text: str) -> Path:
    """Return the path of a file."""
    return Path(path_name(text))


@dataclass(frozen=True, kw_only=True)
class LocationOptions(Options):
    """What every command takes that works on a warehouse. None: not given."""

    config: Path | None = option(metavar="FILE", type=file_path, help="settings in YAML (default: the packaged local.yaml)")
    warehouse: str | None = option(
        metavar="PATH|SCHEMA", help="where the tables are: a path, or catalog.schema (default: that of the settings, ./warehouse)"
    )


def moment(text: str) -> datetime:
    """Return a time in ISO 8601 as aware UTC; one without a zone counts as UTC. From 1971 to 2199, as in the tables."""
    try:
        parsed = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected ISO 8601 such as 2026-11-21T02:21:13Z, found {text!r}") from None
    if not 1970 < parsed.year < 2200:  # a zone could move the first or last year out of the range
        raise argparse.ArgumentTypeError(f"expected a time from 1971 to 2199, found {text!r}")
    return parsed.replace(tzinfo=timezone.utc) if parsed.tzinfo is None else parsed.astimezone(timezone.utc)


def run_name(text: str) -> str:
    """Return the name of a run. Every commit has it, and Spark would replace ``${...}`` there by a variable of the driver."""
    if not 0 < len(text) <= LONGEST_RUN_NAME or not is_text(text) or "${" in text:
        raise argparse.ArgumentTypeError(
            f"expected 1 to {LONGEST_RUN_NAME} characters, none of them a control character, and no ${{, found {text[:50]!r}"
        )
    return text


def cluster_name(text: str) -> str:
    """Return a name that tables and logs can hold."""
    if not text or not is_text(text):
        raise argparse.ArgumentTypeError(f"expected UTF-8 without control characters, found {text!r}")
    return text


def names(text: str) -> tuple[str, ...]:
    """Return the names of a list that commas separate."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def wait_seconds(text: str) -> float:
    """Return a number of seconds; ``inf`` is allowed, ``nan`` would never end."""
    seconds = _number(text)
    if not seconds >= 0:
        raise argparse.ArgumentTypeError(f"expected a number of seconds from 0, found {text!r}")
    return seconds


def interval_seconds(text: str) -> float:
    """Return the seconds of an interval, from 0.1 to one day."""
    seconds = _number(text)
    if not 0.1 <= seconds <= 86_400:
        raise argparse.ArgumentTypeError(f"expected 0.1 to 86400 seconds, found {text!r}")
    return seconds


def _number(text: str) -> float:
    """Return a number; ``nan``, with which every comparison is false, if the text is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def whole_number(text: str, what: str = "whole number") -> int:
    """Return a whole number from 0 on; ``what`` names it in the message."""
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"expected a {what}, found {text[:50]!r}")
    return int(text)


def partition(text: str) -> int:
    """Return the number of a partition."""
    return whole_number(text, "partition number")


_OF_OTHER_STAGES = {"--as-of": moment, "--cluster-id": cluster_name, "--run-id": run_name, "--strategies": names, "--wait": wait_seconds}
"""Options that a command may take without a use for them -> how their values are parsed all the same."""


def servers(text: str) -> str:
    """Return the addresses of brokers, ``host:port`` separated by commas."""
    addresses = [address.strip() for address in text.split(",")]
    for address in addresses:
        if not _ADDRESS.fullmatch(address):
            raise argparse.ArgumentTypeError(f"expected HOST:PORT, or several separated by commas, found {on_one_line(address)!r}")
    return ",".join(addresses)
