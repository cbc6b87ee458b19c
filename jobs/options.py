"""The command line: what each command takes, and the text that explains it."""

from __future__ import annotations

import argparse
import math
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from jobs.collect import options as collect_options
from jobs.runtime.errors import UsageError
from jobs.runtime.locations import is_text
from schemas.vocabulary import Severity, Source

if TYPE_CHECKING:
    pass

EPILOG = """\
exit codes: 0 done; 1 failed; 2 wrong usage, settings or environment (nothing written); 3 another run holds the warehouse;
4 a gate failed, or a run id was reused with other input.
A flag beats the settings file, the file beats the default. A warehouse with a slash is a path, a.b or a.b.c a catalog schema."""
LONGEST_RUN_NAME = 250
COMMANDS = {
    "run": "land, assign, audit and report in one session; without options on the recorded capture, into ./warehouse",
    "collect": "a live Kafka cluster -> captures that land takes; needs neither Java nor Spark",
    "land": "captures -> group records, subscription, topic and offset snapshots, quarantine",
    "assign": "snapshots -> observed, recomputed and counterfactual assignments",
    "audit": "assignments -> movements, generation audits, findings",
    "report": "tables -> one self-contained HTML page and a summary on stdout, whose last line is the page's path",
    "maintain": "drop old history, merge small files, remove files that no reader can be using",
    "verify": "log, files and rows of the tables -> what is wrong with them, one line each; changes nothing",
}
EXPLANATIONS = {
    "run": collect_options.LIVE_EXPLANATION,
    "collect": collect_options.EXPLANATION,
    "land": collect_options.LIVE_EXPLANATION,
    "maintain": """

Run it once a day or a week, between other runs; readers go on reading. Whole months go that are older than
`maintain.retention_days` (default 730) before --as-of; what members hold in counterfactual solutions goes after
`maintain.counterfactual_days` (30), while its figures in generation_audits stay. Of each group everything stays
that the next run goes on from, its last generation at the least. Landing skips records of the months that went, so
that old captures do not bring them back. Files are removed `maintain.vacuum_hours` (168, the least) after the last
version that named them; so long an older version can be read. What was done is told in `runs.output_counts`.

With --drop-cluster it removes one cluster, rows and all that is noted of it, and nothing else. Land its captures again
to begin it anew. Make the report anew behind it.""",
    "verify": """

Checked are every commit, checkpoint and data file of each table (a local folder only), the tables' versions against
the newest run, then what the published rows say about each other: keys, runs, counts, violations, movements. What the
assignors would have given is packed: it is counted again in 200 groups, others after each run, or in --all-groups.

Each finding is one line: code word, table, version, file or key, what was found, what was expected, what to do;
docs/recovery.md has a section for each code word. The last line counts what was checked.

It reads every byte of the tables. No run can start meanwhile; while one is in progress it waits as --wait says.""",
}
EPILOGS = {
    "collect": collect_options.EPILOG,
    "verify": """\
exit codes: 0 sound; 1 damage found; 2 no warehouse, or wrong usage; 3 a run holds the warehouse.
A warehouse with a slash is a path, a.b or a.b.c a catalog schema.""",
}


class _Parser(argparse.ArgumentParser):
    """Raises instead of leaving the process, so that a platform sees an exception with an exit code."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; {self.prog} --help tells the options")


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    # An abbreviation that works today would stop to, or mean something else, with the next option.
    shape: dict[str, Any] = {"epilog": EPILOG, "formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False}
    parser = _Parser(
        prog="evenkeel",
        description="Compute and audit Kafka consumer-group assignments: who owned what, what every assignor would have given, "
        "what moved and why.",
        **shape,
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=_Parser)
    for name, text in COMMANDS.items():
        told = {**shape, "description": text + EXPLANATIONS.get(name, ""), "epilog": EPILOGS.get(name, EPILOG)}
        command = commands.add_parser(name, help=text, **told)
        command.add_argument(
            "--log-format",
            choices=("text", "json"),
            default="text",
            help="form of the log lines on stderr; in JSON the last one is the summary",
        )
        if name == "collect":
            collect_options.add_to(command)
            continue
        _add_place_options(command)
        if name == "verify":
            command.set_defaults(cluster_id=None, strategies=None, run_id=None, as_of=None)
            command.add_argument(
                "--all-groups", action="store_true", help="count again what the members of every group hold, not of 200 groups"
            )
        else:
            _add_run_options(command)
        if name in ("run", "land"):
            command.add_argument("--input", nargs="+", metavar="PATH", help="captures: files or folders (beats `inputs` in the settings)")
            formats = [str(source) for source in Source]
            command.add_argument("--format", choices=formats, help="kind of all inputs; recognised from their content when not given")
            command.add_argument(
                "--offsets-partition",
                type=partition,
                metavar="N",
                help="partition of __consumer_offsets, of dumps of kafka-dump-log whose lines 'Dumping ...' do not tell it",
            )
            command.add_argument(
                "--as-new-cluster",
                action="store_true",
                help="land captures of a cluster under this name although it has landed under another one",
            )
            collect_options.add_live_to(command)
        if name in ("run", "audit"):
            levels = [str(severity) for severity in Severity]
            command.add_argument("--fail-on", choices=levels, help="publish, then exit 4 when a new finding is this severe or worse")
        if name == "assign":
            command.add_argument("--recompute", action="store_true", help="compute all groups again from their beginning")
            command.add_argument(
                "--expand", nargs="+", metavar="GROUP", help="print what members of these groups hold by every strategy; change no table"
            )
            command.add_argument(
                "--since",
                type=moment,
                metavar="T",
                help="with --recompute: only groups with a snapshot at T or later; with --expand: only generations of T or later",
            )
            command.add_argument("--output", metavar="FILE", help="with --expand: write the rows to this new Parquet file")
        if name == "maintain":
            command.add_argument("--drop-cluster", metavar="NAME", help="remove this cluster from all tables, and do nothing else")
            command.add_argument("--dry-run", action="store_true", help="with --drop-cluster: print its rows by table; change nothing")
        if name in ("run", "report"):
            command.add_argument("--output", metavar="FILE", help="the report's file (default: report.html in the warehouse folder)")
            command.add_argument(
                "--overwrite", action="store_true", help="let the report replace files that no report wrote; never inputs or tables"
            )
        if name == "report":
            command.add_argument(
                "--details", metavar="DIR", help="folder for a page of each group whose details the report has no room for"
            )
            command.add_argument("--export", metavar="LIST", help="also write csv, json, prometheus: names separated by commas")
            command.add_argument("--export-dir", metavar="DIR", help="folder for these files (default: the report's)")
    return parser


def _add_place_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--config", metavar="FILE", type=Path, help="settings in YAML (default: the packaged local.yaml)")
    command.add_argument("--warehouse", metavar="PATH|SCHEMA", help="where the tables are: a path, or catalog.schema")
    command.add_argument("--wait", type=seconds, default=0.0, metavar="SECONDS", help="how long to wait for another run to end (default 0)")


def _add_run_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--cluster-id", metavar="NAME", help="name of the Kafka cluster; beats the capture's own")
    command.add_argument("--strategies", metavar="LIST", help="assignors to compare, separated by commas")
    command.add_argument("--run-id", type=run_name, metavar="ID", help="name of the run; a retry with the same name and input does nothing")
    command.add_argument("--as-of", type=moment, metavar="TIME", help="the run's clock, ISO 8601, UTC when no zone is given")


def moment(text: str) -> datetime:
    """Return a moment as aware UTC from ISO 8601; one without a zone is taken as UTC. From 1970 to 2200, as in the tables."""
    try:
        parsed = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected ISO 8601 such as 2026-11-21T02:21:13Z, found {text!r}") from None
    if not 1970 < parsed.year < 2200:  # at the ends a zone could lead out of them
        raise argparse.ArgumentTypeError(f"expected a time from 1971 to 2199, found {text!r}")
    return parsed.replace(tzinfo=timezone.utc) if parsed.tzinfo is None else parsed.astimezone(timezone.utc)


def run_name(text: str) -> str:
    """Return the name of a run: it stands in every commit, where Spark would replace ``${...}`` by a variable of the driver."""
    if not 0 < len(text) <= LONGEST_RUN_NAME or not is_text(text) or "${" in text:
        raise argparse.ArgumentTypeError(
            f"expected 1 to {LONGEST_RUN_NAME} characters, none of them a control character, and no ${{, found {text[:50]!r}"
        )
    return text


def seconds(text: str) -> float:
    """Return a length of time; ``inf`` is one too, ``nan`` would never be over."""
    try:
        parsed = float(text)
    except ValueError:
        parsed = math.nan
    if not parsed >= 0:
        raise argparse.ArgumentTypeError(f"expected seconds, found {text!r}")
    return parsed


def partition(text: str) -> int:
    """Return the number of a partition."""
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"expected the number of a partition, found {text[:50]!r}")
    return int(text)
