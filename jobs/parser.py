"""The command line: read, and refused with what was meant."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from jobs.launcher.messages import program
from jobs.launcher.spelling import SPARK_OPTIONS, meant
from jobs.options import COMMANDS, EPILOG, Command, CommandOptions
from jobs.runtime.arguments import WARNINGS, Unused
from jobs.runtime.errors import UsageError
from jobs.runtime.installation import evenkeel_version

_LOOKS_LIKE_OPTION = re.compile(r"--?[A-Za-z][\w-]*")
"""What argparse takes for an option, besides numbers."""


class _Parser(argparse.ArgumentParser):
    """Raises instead of ending the process, so that a platform sees an exception with an exit code, and says what was meant."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}{' ' if message.endswith('?') else '; '}{self.prog} --help lists the options")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        known = [str(choice) for choice in action.choices or ()]
        if known and value not in known:
            raise argparse.ArgumentError(action, f"found {value!r}, expected one of {', '.join(known)}{meant(value, known)}")

    def check_names(self, words: Iterable[str], others: Mapping[str, _Parser]) -> None:
        """Refuse unknown options.

        Args:
            words: after the command.
            others: the parsers of all commands.

        Raises:
            UsageError: naming the option that was meant, or the place of one of Spark's.
        """
        known = list(self._option_string_actions)
        for word in words:
            name = word.partition("=")[0]
            if word == "--":
                return
            if not _LOOKS_LIKE_OPTION.fullmatch(name) or name in known:
                continue
            command = self.prog.rpartition(" ")[2]
            if name in SPARK_OPTIONS:
                raise UsageError(f"{name} is an option of Spark, which comes before the command: ./spark-submit.sh {name} ... {command}")
            having = [other for other, parser in others.items() if parser._uses(name)]
            formats = self._option_string_actions.get("--format")
            if formats is not None and name[2:] in (formats.choices or ()):
                hint = f"; did you mean --format {name[2:]}?"
            else:
                hint = f", unlike {', '.join(having)}" if having else meant(name, known)
            self.error(f"{command} has no option {name}{hint}")

    def _uses(self, name: str) -> bool:
        return not isinstance(self._option_string_actions.get(name), (Unused, type(None)))


class Parsed(NamedTuple):
    """A parsed command line: the command, its options (of the class that the command names), and log lines about these options."""

    command: Command
    options: CommandOptions
    warnings: tuple[str, ...]


def parse(argv: Sequence[str] | None = None) -> Parsed:
    """Return the command and the options of a command line.

    Args:
        argv: None for the arguments of the process.

    Raises:
        UsageError: wrong usage.
        SystemExit: after ``--help`` or ``--version`` is printed.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["help"]:
        words = [*words[1:2], "--help"]
    # A new option could break an abbreviation that works today, or change its meaning.
    shape: dict[str, Any] = {"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False}
    parser = _Parser(
        prog=program(),
        description="Compute and audit Kafka consumer-group assignments: who owned what, what every assignor would have given, "
        "what moved and why.",
        epilog=EPILOG,
        **shape,
    )
    parser.add_argument("--version", action="version", version=f"evenkeel {evenkeel_version()}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=_Parser)
    parsers: dict[str, _Parser] = {}
    for name, command in COMMANDS.items():
        lines = (f"\n  {parser.prog} {example}" for example in command.examples)
        description, epilog = command.summary + command.explanation, f"examples:{''.join(lines)}\n\n{command.epilog}"
        parsers[name] = commands.add_parser(name, help=command.summary, description=description, epilog=epilog, **shape)
        command.options.add_to(parsers[name])
    if words and words[0] in parsers:
        parsers[words[0]].check_names(words[1:], parsers)
    elif words and not words[0].startswith("-"):
        parser.error(f"there is no command {words[0]!r}{meant(words[0], COMMANDS)}")
    elif words and words[0] in SPARK_OPTIONS - {"--version"}:
        raise UsageError(f"{words[0]} is an option of Spark, which only ./spark-submit.sh takes")
    given = vars(parser.parse_args(words))
    command, warnings = COMMANDS[given.pop("command")], given.pop(WARNINGS, ())
    values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    return Parsed(command, command.options(**values), warnings)
