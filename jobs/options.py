"""The commands: the options that each takes, what it does with the tables, and the text that explains it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeVar

from jobs.collect import options as collect
from jobs.runtime.arguments import RENAMED, LocationOptions, moment, names, option, partition, run_name, servers, wait_seconds
from jobs.runtime.errors import UsageError
from jobs.what_if import options as what_if
from schemas.vocabulary import Severity, Source

EPILOG = """\
exit codes: 0 done; 1 failed; 2 wrong usage, settings or environment (nothing written); 3 another run holds the warehouse;
4 a gate failed, or a run id was reused with other input.
A flag beats the settings file, the file beats the default. A warehouse with a slash is a path, a.b or a.b.c a catalog schema."""
_MAINTAIN = """

Run it once a day or a week, between other runs; readers go on reading. Whole months go that are older than
`maintain.retention_days` (default 730) before --as-of; what members hold in counterfactual solutions goes after
`maintain.counterfactual_days` (30), while its figures in generation_audits stay. Of each group everything stays
that the next run goes on from, its last generation at the least. Landing skips records of the months that went, so
that old captures do not bring them back. Files are removed `maintain.vacuum_hours` (168, the least) after the last
version that named them; so long an older version can be read. What was done is told in `runs.output_counts`.

With --drop-cluster it removes one cluster, rows and all that is noted of it, and nothing else. Land its captures again
to begin it anew. Make the report anew behind it."""
_VERIFY = """

Checked are every commit, checkpoint and data file of each table (a local folder only), the tables' versions against
the newest run, then what the published rows say about each other: keys, runs, counts, violations, movements. What the
assignors would have given is packed: it is counted again in 200 groups, others after each run, or in --all-groups.

Each finding is one line: code word, table, version, file or key, what was found, what was expected, what to do;
docs/recovery.md has a section for each code word. The last line counts what was checked.

It reads every byte of the tables. No run can start meanwhile; while one is in progress it waits as --wait says."""
_VERIFY_EPILOG = """\
exit codes: 0 sound; 1 damage found; 2 no warehouse, or wrong usage; 3 a run holds the warehouse.
A warehouse with a slash is a path, a.b or a.b.c a catalog schema."""
_Taken = TypeVar("_Taken", bound="WarehouseOptions")


@dataclass(frozen=True, kw_only=True)
class WarehouseOptions(LocationOptions):
    """What each command takes that waits for a warehouse. None and an empty tuple: not given. Moments are aware UTC, ``wait`` is in
    seconds."""

    wait: float = option(0.0, type=wait_seconds, metavar="SECONDS", help="how long to wait for another run to end (default 0)")

    @classmethod
    def of(cls: type[_Taken], options: LocationOptions) -> _Taken:
        """Return what a command was given of these options: their defaults where it does not take them."""
        return options if isinstance(options, cls) else cls()


@dataclass(frozen=True, kw_only=True)
class VerifyOptions(WarehouseOptions):
    """What ``verify`` takes."""

    all_groups: bool = option(False, action="store_true", help="count again what the members of every group hold, not of 200 groups")


@dataclass(frozen=True, kw_only=True)
class StageOptions(WarehouseOptions):
    """What each command takes that makes tables or a report."""

    cluster_id: str | None = option(metavar="NAME", help="name of the Kafka cluster; beats the capture's own")
    strategies: tuple[str, ...] | None = option(type=names, metavar="LIST", help="assignors to compare, separated by commas")
    run_id: str | None = option(type=run_name, metavar="ID", help="name of the run; a retry with the same name and input does nothing")
    as_of: datetime | None = option(type=moment, metavar="TIME", help="the run's clock, ISO 8601, UTC when no zone is given")


@dataclass(frozen=True, kw_only=True)
class LandOptions(StageOptions):
    """What ``land`` takes: which captures, and which live cluster."""

    input: tuple[str, ...] = option((), nargs="+", metavar="PATH", help="captures: files or folders (beats `inputs` in the settings)")
    format: str | None = option(choices=[*map(str, Source)], help="kind of all inputs; recognised from their content when not given")
    offsets_partition: int | None = option(
        type=partition,
        metavar="N",
        help="partition of __consumer_offsets, of dumps of kafka-dump-log whose lines 'Dumping ...' do not tell it",
    )
    as_new_cluster: bool = option(
        False, action="store_true", help="land captures of a cluster under this name although it has landed under another one"
    )
    bootstrap_servers: str | None = option(type=servers, metavar="HOST:PORT[,...]", help="brokers of a live cluster to read from")
    client_properties: Path | None = option(type=Path, metavar="FILE", help="properties of librdkafka for it, key=value a line")


@dataclass(frozen=True, kw_only=True)
class AssignOptions(StageOptions):
    """What ``assign`` takes: what is computed again, or which groups are shown."""

    recompute: bool = option(False, action="store_true", help="compute all groups again from their beginning")
    expand: tuple[str, ...] = option(
        (), nargs="+", metavar="GROUP", help="print what members of these groups hold by every strategy; change no table"
    )
    since: datetime | None = option(
        type=moment,
        metavar="T",
        help="with --recompute: only groups with a snapshot at T or later; with --expand: only generations of T or later",
    )
    output: str | None = option(metavar="FILE", help="with --expand: write the rows to this new Parquet file")


@dataclass(frozen=True, kw_only=True)
class AuditOptions(StageOptions):
    """What ``audit`` takes."""

    fail_on: str | None = option(choices=[*map(str, Severity)], help="publish, then exit 4 when a new finding is this severe or worse")


@dataclass(frozen=True, kw_only=True)
class PageOptions(StageOptions):
    """What each command takes that makes a report."""

    output: str | None = option(metavar="FILE", help="the report's file (default: report.html in the warehouse folder)")
    overwrite: bool = option(False, action="store_true", help="let the report replace files that no report wrote; never inputs or tables")


@dataclass(frozen=True, kw_only=True)
class ReportOptions(PageOptions):
    """What ``report`` takes."""

    group_pages: str | None = option(
        None, "--details", metavar="DIR", help="folder for a page of each group whose details the report has no room for"
    )
    export: tuple[str, ...] | None = option(type=names, metavar="LIST", help="also write csv, json, prometheus: names separated by commas")
    export_dir: str | None = option(metavar="DIR", help="folder for these files (default: the report's)")


@dataclass(frozen=True, kw_only=True)
class MaintainOptions(StageOptions):
    """What ``maintain`` takes."""

    drop_cluster: str | None = option(metavar="NAME", help="remove this cluster from all tables, and do nothing else")
    dry_run: bool = option(False, action="store_true", help="with --drop-cluster: print its rows by table; change nothing")


@dataclass(frozen=True, kw_only=True)
class RunOptions(PageOptions, AuditOptions, LandOptions):
    """What ``run`` takes; ``--help`` tells first what comes first: landing, audit, report."""


@dataclass(frozen=True)
class Command:
    """One command.

    Attributes:
        summary: its line in the list of commands.
        options: what it takes.
        stages: what its run is made of, in order; empty for a command that changes no table.
        makes_report: whether it ends with a report.
        is_short: whether it ends before the settings of a large run pay.
        explanation: what its own ``--help`` tells besides.
        epilog: what ``--help`` ends with.
    """

    name: str
    summary: str
    options: type[collect.CollectOptions] | type[what_if.WhatIfOptions] | type[WarehouseOptions]
    stages: tuple[str, ...] = ()
    makes_report: bool = False
    is_short: bool = False
    explanation: str = ""
    epilog: str = EPILOG

    @property
    def lands(self) -> bool:
        """Return whether it has inputs, and makes the warehouse where there is none."""
        return "land" in self.stages


_COMMANDS = (
    Command(
        "run",
        "land, assign, audit and report in one session; without options on the recorded capture, into ./warehouse",
        RunOptions,
        ("land", "assign", "audit"),
        makes_report=True,
        explanation=collect.LIVE_EXPLANATION,
    ),
    Command(
        "collect",
        "a live Kafka cluster -> captures that land takes; needs neither Java nor Spark",
        collect.CollectOptions,
        explanation=collect.EXPLANATION,
        epilog=collect.EPILOG,
    ),
    Command(
        "land",
        "captures -> group records, subscription, topic and offset snapshots, quarantine",
        LandOptions,
        ("land",),
        explanation=collect.LIVE_EXPLANATION,
    ),
    Command("assign", "snapshots -> observed, recomputed and counterfactual assignments", AssignOptions, ("assign",)),
    Command("audit", "assignments -> movements, generation audits, findings", AuditOptions, ("audit",)),
    Command(
        "report",
        "tables -> one self-contained HTML page and a summary on stdout, whose last line is the page's path",
        ReportOptions,
        makes_report=True,
        is_short=True,
    ),
    Command(
        "what-if",
        "a change to groups -> what each assignor would make of it: loads, movements, steps; needs neither Java nor Spark",
        what_if.WhatIfOptions,
        explanation=what_if.EXPLANATION,
        epilog=what_if.EPILOG,
    ),
    Command(
        "maintain",
        "drop old history, merge small files, remove files that no reader can be using",
        MaintainOptions,
        ("maintain",),
        explanation=_MAINTAIN,
    ),
    Command(
        "verify",
        "log, files and rows of the tables -> what is wrong with them, one line each; changes nothing",
        VerifyOptions,
        explanation=_VERIFY,
        epilog=_VERIFY_EPILOG,
    ),
)
COMMANDS: dict[str, Command] = {command.name: command for command in _COMMANDS}


class _Parser(argparse.ArgumentParser):
    """Raises instead of leaving the process, so that a platform sees an exception with an exit code."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; {self.prog} --help tells the options")


class Parsed(NamedTuple):
    """What a command line asks for: a command, its options, which are of the class that it names, and a line a former name."""

    command: Command
    options: collect.CollectOptions | what_if.WhatIfOptions | WarehouseOptions
    renamed: tuple[str, ...]


def parse(argv: Sequence[str] | None = None) -> Parsed:
    """Return what a command line asks for.

    Args:
        argv: None for the arguments of the process.

    Raises:
        UsageError: wrong usage.
        SystemExit: ``--help``, when it is printed.
    """
    # An abbreviation that works today would stop to, or mean something else, with the next option.
    shape: dict[str, Any] = {"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False}
    parser = _Parser(
        prog="evenkeel",
        description="Compute and audit Kafka consumer-group assignments: who owned what, what every assignor would have given, "
        "what moved and why.",
        epilog=EPILOG,
        **shape,
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=_Parser)
    for name, command in COMMANDS.items():
        description = command.summary + command.explanation
        command.options.add_to(commands.add_parser(name, help=command.summary, description=description, epilog=command.epilog, **shape))
    given = vars(parser.parse_args(argv))
    command, renamed = COMMANDS[given.pop("command")], given.pop(RENAMED, ())
    values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    return Parsed(command, command.options(**values), renamed)
