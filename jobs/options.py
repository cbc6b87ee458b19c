"""The commands: the options of each, what it does with the tables, and its help text."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import ClassVar, get_args

from jobs.collect import options as collect
from jobs.launcher.spelling import meant
from jobs.runtime.arguments import LocationOptions, moment, names, option, partition, path_name, servers
from jobs.runtime.run_options import ClockOptions, RunNameOptions, WaitOptions
from jobs.show import options as show
from jobs.sql import options as sql
from jobs.what_if import options as what_if
from schemas.config import ExportFormat
from schemas.vocabulary import Severity, Source

_PRECEDENCE = """
An option overrides the settings file, which overrides the default. A warehouse with a slash is a path; a.b or a.b.c is a catalog schema."""
EPILOG = f"""\
exit codes: 0 done; 1 failed; 2 wrong usage, settings or environment (nothing written); 3 another run holds the warehouse;
4 a gate failed, --fail-on of run or audit found something, or a run id was reused with other input or settings;
130 interrupted.{_PRECEDENCE}"""
_REPORT_EPILOG = f"""\
exit codes: 0 done; 1 a file cannot be written, or a table is damaged; 2 wrong usage, settings or environment, no warehouse, or a file
that no report wrote (nothing written); 130 interrupted. It waits for no run.{_PRECEDENCE}"""
_MAINTAIN = """

Run it once a day or a week, between other runs; it does not disturb readers. It removes whole months that are older
than `maintain.retention_days` (default 730) before --as-of. It removes the assignments of counterfactual solutions after
`maintain.counterfactual_days` (30); their figures in generation_audits stay. It keeps everything of a group that the next
run needs, at least its last generation. Landing skips records of removed months, so old captures do not bring them back.
A file is removed `maintain.vacuum_hours` (168, the minimum) after the last version that used it; until then older
versions can be read. `runs.output_counts` has the counts of what was removed.

With --drop-cluster it removes one cluster, with its rows and reading positions, and nothing else. Make the report again
afterwards. To bring the cluster back, land its captures again."""
_VERIFY = """

It checks every commit, checkpoint and data file of each table (in a local folder only), the tables' versions against
the newest run, then whether the published rows agree: keys, runs, counts, violations, movements. Counterfactual
assignments are packed: it counts those of 200 groups again, of other groups after each run; with --all-groups, of all.

Each finding is one line: code word, table, version, file or key, what was found, what was expected, what to do;
docs/recovery.md has a section for each code word. The last line counts what was checked.

It reads every byte of the tables. No run can start meanwhile. If a run is in progress, it waits as long as --wait says."""
_VERIFY_EPILOG = """\
exit codes: 0 sound; 1 damage found; 2 no warehouse, or wrong usage; 3 a run holds the warehouse;
130 interrupted.
A warehouse with a slash is a path; a.b or a.b.c is a catalog schema."""


def formats(text: str) -> tuple[str, ...]:
    """Return the formats of exports that commas separate."""
    found, known = names(text), get_args(ExportFormat)
    for name in found:
        if name not in known:
            raise argparse.ArgumentTypeError(f"found {name!r}, expected some of {', '.join(known)}{meant(name, known)}")
    return found


@dataclass(frozen=True, kw_only=True)
class VerifyOptions(WaitOptions):
    """Options of ``verify``."""

    all_groups: bool = option(False, action="store_true", help="count the packed assignments of all groups again, not of 200 groups")


@dataclass(frozen=True, kw_only=True)
class StrategyOptions(RunNameOptions):
    """Options of every command that computes assignments."""

    strategies: tuple[str, ...] | None = option(
        action="extend", type=names, metavar="LIST", help="assignors to compare, separated by commas (default: those of the settings)"
    )


@dataclass(frozen=True, kw_only=True)
class LandOptions(RunNameOptions, ClockOptions):
    """Options of ``land``: the captures, and a live cluster."""

    unused: ClassVar[tuple[str, ...]] = ("--strategies",)
    cluster_id: str | None = option(metavar="NAME", help="name of the Kafka cluster; overrides the name in the capture")
    input: tuple[str, ...] = option(
        (),
        action="extend",
        nargs="+",
        type=path_name,
        metavar="PATH",
        help="captures: files or folders (default: `inputs` of the settings)",
    )
    format: str | None = option(choices=[*map(str, Source)], help="source of all inputs (default: detected from their content)")
    offsets_partition: int | None = option(
        type=partition,
        metavar="N",
        help="partition of __consumer_offsets, for output of kafka-dump-log without lines 'Dumping ...'",
    )
    as_new_cluster: bool = option(False, action="store_true", help="accept captures of a cluster that has landed under another name")
    log_time_zone: str | None = option(
        metavar="ZONE", help="zone of times without one in the logs of coordinators, such as Europe/Berlin (default: UTC)"
    )
    bootstrap_servers: str | None = option(
        aliases=("--bootstrap-server",), type=servers, metavar="HOST:PORT[,...]", help="brokers of a live cluster to read from"
    )
    client_properties: Path | None = option(
        type=Path, metavar="FILE", help="file of properties of librdkafka for these brokers, one key=value on each line"
    )

    def extras(self) -> tuple[str, ...]:
        """Return the extras of setup.cfg that the command needs with these options."""
        return (*super().extras(), "quality", *(("kafka",) if self.bootstrap_servers else ()))


@dataclass(frozen=True, kw_only=True)
class AssignOptions(StrategyOptions):
    """Options of ``assign``: what is computed again, or which groups are shown."""

    unused: ClassVar[tuple[str, ...]] = ("--as-of",)
    cluster_id: str | None = option(metavar="NAME", help="with --expand: the cluster of the groups (default: every cluster)")
    recompute: bool = option(False, action="store_true", help="compute all groups again from their first generation")
    expand: tuple[str, ...] = option(
        (),
        action="extend",
        nargs="+",
        metavar="GROUP",
        help="print the assignments of these groups by every strategy; change no table",
    )
    since: datetime | None = option(
        type=moment,
        metavar="T",
        help="with --recompute: only groups with a snapshot at T or later or with new records; with --expand: only generations from T on",
    )
    output: str | None = option(metavar="FILE", help="with --expand: write the rows to this new Parquet file")

    def extras(self) -> tuple[str, ...]:
        """Return the extras of setup.cfg that the command needs with these options."""
        return (*super().extras(), "quality")


@dataclass(frozen=True, kw_only=True)
class AuditOptions(RunNameOptions):
    """Options of ``audit``."""

    unused: ClassVar[tuple[str, ...]] = ("--as-of", "--cluster-id", "--strategies")
    fail_on: str | None = option(choices=[*map(str, Severity)], help="publish, then exit 4 if a new finding is this severe or worse")

    def extras(self) -> tuple[str, ...]:
        """Return the extras of setup.cfg that the command needs with these options."""
        return (*super().extras(), "quality")


@dataclass(frozen=True, kw_only=True)
class PageOptions(ClockOptions):
    """Options of every command that makes a report."""

    output: str | None = option(metavar="FILE", help="file of the report (default: report.html in the warehouse folder)")
    overwrite: bool = option(False, action="store_true", help="let the report replace files that no report wrote; never inputs or tables")
    json: bool = option(False, action="store_true", help="print the summary as one JSON object instead of text")

    def extras(self) -> tuple[str, ...]:
        """Return the extras of setup.cfg that the command needs with these options."""
        return (*super().extras(), "report")


@dataclass(frozen=True, kw_only=True)
class ReportOptions(PageOptions):
    """Options of ``report``."""

    unused: ClassVar[tuple[str, ...]] = ("--cluster-id", "--run-id", "--strategies", "--wait")
    group_pages: str | None = option(
        None, "--details", metavar="DIR", help="folder for one page for each group whose details do not fit into the report"
    )
    export: tuple[str, ...] | None = option(
        action="extend", type=formats, metavar="LIST", help="also write formats, separated by commas: csv, json, prometheus"
    )
    export_dir: str | None = option(metavar="DIR", help="folder for the files of --export (default: the folder of the report)")


@dataclass(frozen=True, kw_only=True)
class MaintainOptions(RunNameOptions, ClockOptions):
    """Options of ``maintain``."""

    unused: ClassVar[tuple[str, ...]] = ("--cluster-id", "--strategies")
    drop_cluster: str | None = option(metavar="NAME", help="remove this cluster from all tables, and do nothing else")
    dry_run: bool = option(False, action="store_true", help="with --drop-cluster: print the number of its rows by table; change nothing")

    def extras(self) -> tuple[str, ...]:
        """Return the extras of setup.cfg that the command needs with these options."""
        return (*super().extras(), "quality")


@dataclass(frozen=True, kw_only=True)
class RunOptions(PageOptions, AuditOptions, LandOptions, StrategyOptions):
    """Options of ``run``, in the order of its stages: landing, audit, report."""

    unused: ClassVar[tuple[str, ...]] = ()


CommandOptions = collect.CollectOptions | LocationOptions
"""The options of any command."""


@dataclass(frozen=True)
class Command:
    """One command.

    Attributes:
        summary: its line in the list of commands.
        options: the class of its options.
        stages: the stages of its run, in order; empty for a command that changes no table.
        makes_report: whether it ends with a report.
        is_short: whether it ends before the settings of a large run pay.
        explanation: further text of its own ``--help``.
        examples: of its command line, without the program.
        epilog: last text of ``--help``.
    """

    name: str
    summary: str
    options: type[CommandOptions]
    stages: tuple[str, ...] = ()
    makes_report: bool = False
    is_short: bool = False
    explanation: str = ""
    examples: tuple[str, ...] = ()
    epilog: str = EPILOG

    @property
    def lands(self) -> bool:
        """Return whether it has inputs, and makes the warehouse if there is none."""
        return "land" in self.stages


_COMMANDS = (
    Command(
        "run",
        "land, assign, audit and report in one session; without options it reads a recorded capture into ./warehouse",
        RunOptions,
        ("land", "assign", "audit"),
        makes_report=True,
        explanation=collect.LIVE_EXPLANATION,
        examples=(
            "run",
            "run --input captures --warehouse audit",
            "run --bootstrap-servers broker:9092 --warehouse audit --fail-on critical",
        ),
    ),
    Command(
        "collect",
        "a live Kafka cluster -> captures for land; needs neither Java nor Spark",
        collect.CollectOptions,
        explanation=collect.EXPLANATION,
        examples=collect.EXAMPLES,
        epilog=collect.EPILOG,
    ),
    Command(
        "land",
        "captures -> group records, subscription, topic and offset snapshots, quarantine",
        LandOptions,
        ("land",),
        explanation=collect.LIVE_EXPLANATION,
        examples=("land --input captures --warehouse audit", "land --input described.txt --as-of 2026-11-21T02:21:13Z"),
    ),
    Command(
        "assign",
        "snapshots -> observed, recomputed and counterfactual assignments",
        AssignOptions,
        ("assign",),
        examples=("assign --warehouse audit", "assign --expand payments --output payments.parquet"),
    ),
    Command(
        "audit",
        "assignments -> movements, generation audits, findings",
        AuditOptions,
        ("audit",),
        examples=("audit --warehouse audit --fail-on critical",),
    ),
    Command(
        "report",
        "tables -> one self-contained HTML page and a summary on stdout: what needs someone, what to change, the next command",
        ReportOptions,
        makes_report=True,
        is_short=True,
        examples=("report --warehouse audit --output report.html", "report --warehouse audit --export csv,json,prometheus"),
        epilog=_REPORT_EPILOG,
    ),
    Command(
        "show",
        "a group as it was in any generation: members, partitions, lag, cause, movements; without a group, the list of groups",
        show.ShowOptions,
        explanation=show.SHOW_EXPLANATION,
        examples=show.SHOW_EXAMPLES,
        epilog=show.EPILOG,
    ),
    Command(
        "explain",
        "a generation of a group in sentences: what happened, why, what to change; for terminals, tickets and programs",
        show.ExplainOptions,
        explanation=show.EXPLAIN_EXPLANATION,
        examples=show.EXPLAIN_EXAMPLES,
        epilog=show.EPILOG,
    ),
    Command(
        "sql",
        "one query in Spark SQL over the published tables -> a table, CSV or JSON; changes nothing",
        sql.SqlOptions,
        is_short=True,
        explanation=sql.EXPLANATION,
        examples=sql.EXAMPLES,
        epilog=sql.EPILOG,
    ),
    Command(
        "what-if",
        "a change to groups -> what each assignor would make of it: loads, movements, steps; needs neither Java nor Spark but to save them",
        what_if.WhatIfOptions,
        ("what_if",),
        explanation=what_if.EXPLANATION,
        examples=what_if.EXAMPLES,
        epilog=what_if.EPILOG,
    ),
    Command(
        "maintain",
        "remove old history, merge small files, remove files that no reader can use",
        MaintainOptions,
        ("maintain",),
        explanation=_MAINTAIN,
        examples=("maintain --warehouse audit", "maintain --warehouse audit --drop-cluster old --dry-run"),
    ),
    Command(
        "verify",
        "log, files and rows of the tables -> their damage, one line for each; changes nothing",
        VerifyOptions,
        explanation=_VERIFY,
        examples=("verify --warehouse audit", "verify --warehouse audit --all-groups --wait 600"),
        epilog=_VERIFY_EPILOG,
    ),
)
COMMANDS: dict[str, Command] = {command.name: command for command in _COMMANDS}
