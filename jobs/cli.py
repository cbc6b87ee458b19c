"""The command line: argv -> settings -> one run. The only place with a clock and exit codes."""

from __future__ import annotations

import argparse
import io
import logging
import math
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import yaml

import assignors
import jobs
import schemas
from assignors.registry import find_assignor
from jobs.brokers.client_properties import read_client_properties
from jobs.collect import collect_options
from jobs.launcher import SHORT_COMMANDS, Workload
from jobs.runtime.errors import EvenkeelError, PlatformError, UsageError
from jobs.runtime.installation import own_archive, unpack_conf
from jobs.runtime.location import is_text, local_folder, objection, on_one_line, told
from jobs.runtime.log_format import logs_json, set_up_logging
from jobs.runtime.output_files import check_new_file, check_outputs
from schemas.config import ReportSettings, Settings, parse_settings
from schemas.vocabulary import SOURCES_OF_GROUPS, Severity, Source

if TYPE_CHECKING:
    from jobs.brokers.live import LiveInput
    from jobs.decoders.captures import Capture

logger = logging.getLogger(__name__)

EPILOG = """\
exit codes: 0 done; 1 failed; 2 wrong usage, settings or environment (nothing written); 3 another run holds the warehouse;
4 a gate failed, or a run id was reused with other input.
A flag beats the settings file, the file beats the default. A warehouse with a slash is a path, a.b or a.b.c a catalog schema."""

LONGEST_RUN_NAME = 250
LARGEST_SETTINGS_BYTES = 1 << 20
"""PyYAML takes some seconds for these."""
DEEPEST_SETTINGS = 20
"""Ours have three levels. PyYAML's time grows with the square of them."""

_SCHEME = re.compile("[A-Za-z][A-Za-z0-9+.-]+:/")
"""How an address on another file system begins; as a path it would be a folder of that name."""

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


def conf_folder() -> Path:
    """Return the folder of settings: packaged beside this module, or in the checkout that the program was started from.

    A driver on a cluster has nothing but the zip: from there it is unpacked, for as long as the program runs.
    """
    main_file = getattr(sys.modules["__main__"], "__file__", None)
    roots = [Path(__file__).parent, Path(__file__).parent.parent]
    roots += [Path(main_file).resolve().parent.parent] if main_file else []
    for root in roots:
        if (root / "conf" / "local.yaml").is_file():
            return root / "conf"
    archive = own_archive()
    if archive is not None:
        return unpack_conf(archive)
    raise PlatformError(f"no conf folder beside the program; looked in {', '.join(str(root) for root in roots)}")


def load_settings(arguments: argparse.Namespace, folder: Path) -> Settings:
    """Return the settings file with the flags on top.

    Raises:
        UsageError: the file is missing or wrong; one line a mistake.
    """
    path = arguments.config or folder / "local.yaml"
    content = _read_yaml(path)
    try:
        settings = parse_settings(content, str(path))
        is_live = bool(arguments.__dict__.get("bootstrap_servers"))
        inputs = arguments.__dict__.get("input") or [_beside(path, name) for name in settings.inputs if not is_live]
        flags: dict[str, Any] = {"inputs": tuple(inputs)}
        for name in ("warehouse", "cluster_id"):
            if getattr(arguments, name) is not None:
                flags[name] = getattr(arguments, name)
        if arguments.strategies is not None:
            flags["strategies"] = tuple(name.strip() for name in arguments.strategies.split(",") if name.strip())
        merged = {**settings.model_dump(), **flags}
        if arguments.__dict__.get("fail_on"):
            merged["quality"]["fail_on"] = arguments.fail_on
        merged["report"] |= _report_flags(arguments, settings.report, merged["warehouse"])
        merged_settings = parse_settings(merged, "command line")
    except ValueError as error:
        raise UsageError(str(error)) from None
    _check_names(merged_settings)
    return merged_settings


def _read_yaml(path: Path) -> Any:
    """Return what a settings file holds.

    Raises:
        UsageError: it is missing, no YAML, or takes too long to read: it is too large, nested too deep, or has aliases, since what they
            repeat can grow beyond any memory.
    """
    try:
        if path.exists() and not path.is_file():  # a pipe would keep us waiting
            raise UsageError(f"--config {path}: expected a file")
        with path.open("rb") as file:
            content = file.read(LARGEST_SETTINGS_BYTES + 1)
        if len(content) > LARGEST_SETTINGS_BYTES:
            raise UsageError(
                f"--config {path}: expected at most {LARGEST_SETTINGS_BYTES} bytes; name folders under inputs, not their files"
            )
        text = content.decode()
        depth = 0
        for event in yaml.parse(text, yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                raise UsageError(f"--config {path}: {_line(event.start_mark)}found the alias *{event.anchor}, expected the value itself")
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST_SETTINGS:
                raise UsageError(f"--config {path}: {_line(event.start_mark)}expected at most {DEEPEST_SETTINGS} levels, found more")
        return yaml.safe_load(text)
    except OSError as error:
        raise UsageError(f"--config {path}: cannot be read ({error.strerror})") from None
    except yaml.MarkedYAMLError as error:  # its own text quotes the file, where a password may stand
        what = " ".join(filter(None, (error.context, error.problem)))
        raise UsageError(f"--config {path}: {_line(error.problem_mark)}not YAML ({what})") from None
    except (yaml.YAMLError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        # All but the first come out of PyYAML too: of a month 13, of `!!bool maybe`, of brackets nested too deep.
        raise UsageError(f"--config {path}: not YAML ({' '.join(str(error).split())})") from None


class _Mark(Protocol):
    """A place in a settings file, in both of PyYAML's forms; lines count from 0."""

    line: int


def _line(mark: _Mark | None) -> str:
    """Return the line of a mistake, to go before what is wrong with it; empty where PyYAML does not say."""
    return f"line {mark.line + 1}: " if mark is not None else ""


def _check_names(settings: Settings) -> None:
    """Refuse names that Spark would read as something else, or that logs must not repeat, and places of another kind than is needed.

    Raises:
        UsageError: naming the setting.
    """
    problem = objection(settings.warehouse)
    if problem is not None:
        raise UsageError(f"warehouse {told(settings.warehouse)}: {problem}")
    report = settings.report
    places = {"output": report.output, "details": report.details, "export_dir": report.export_dir}
    for setting, name in (("cluster_id", settings.cluster_id), *((f"report.{key}", place) for key, place in places.items())):
        if name is not None and not is_text(name):
            raise UsageError(f"{setting}: expected UTF-8 without control characters, found {name!r}")
    output = report.output
    if output is not None and (Path(output).name in ("", "..") or (os.path.exists(output) and not os.path.isfile(output))):
        # A device, too: the finished report is moved to its place, and would take that of the device.
        raise UsageError(f"report.output: expected the name of a file, found {output}, which is a folder or a device")
    for key in ("details", "export_dir"):
        place = places[key]
        if place is not None and os.path.exists(place) and not os.path.isdir(place):
            raise UsageError(f"report.{key}: expected the name of a folder, found the file {place}")


def _beside(settings_file: Path, name: str) -> str:
    return name if "://" in name or Path(name).is_absolute() else str(settings_file.absolute().parent / name)


def _report_flags(arguments: argparse.Namespace, settings: ReportSettings, warehouse: str) -> dict[str, Any]:
    """Return where the report's files go, as absolute paths, and which there are besides the page."""
    given = arguments.__dict__
    named = {name: given.get(name) or getattr(settings, name) for name in ("output", "details", "export_dir")}
    for name, path in named.items():
        if path is not None and _SCHEME.match(path):
            raise UsageError(f"report.{name}: expected a path of this machine, found {told(path)}; copy the report there when it is done")
    changed: dict[str, Any] = {"output": _report_path(named["output"], warehouse)}
    changed |= {name: None if named[name] is None else str(Path(named[name]).absolute()) for name in ("details", "export_dir")}
    if given.get("export") is not None:
        changed["export"] = tuple(name.strip() for name in given["export"].split(",") if name.strip())
    return changed


def _report_path(named: str | None, warehouse: str) -> str:
    if named is not None:
        return str(Path(named).absolute())
    folder = local_folder(warehouse)
    return str((folder if folder is not None else Path.cwd()) / "report.html")


def _timed(captures: tuple[Capture, ...], inputs: tuple[str, ...]) -> tuple[Capture, ...]:
    """Return the captures without those that do not tell when they were taken, which have others beside them that tell more.

    Raises:
        UsageError: such a capture was named itself, or there is no other that tells of groups.
    """
    named = {str(Path(name).absolute()) for name in inputs}
    timeless = [capture for capture in captures if capture.source is Source.DESCRIBE]
    others = [capture for capture in captures if capture.source in SOURCES_OF_GROUPS and capture not in timeless]
    refused = next((capture.path for capture in timeless if not others or capture.path in named), None)
    if refused is not None:
        raise UsageError(f"input {refused}: the text does not tell when it was printed; say so with --as-of")
    if timeless:
        logger.warning(
            "passed over %d texts such as %s: they do not tell when they were printed, and there is no --as-of",
            len(timeless),
            timeless[0].path,
        )
    return tuple(capture for capture in captures if capture not in timeless)


def _check_strategies(settings: Settings) -> None:
    """Refuse a strategy that is not there before the workers find out group by group."""
    try:
        for strategy in settings.strategies:
            find_assignor(strategy)
    except assignors.UnknownStrategyError as error:
        raise UsageError(f"strategies: {error}") from None


def _check_packages() -> None:
    """Refuse to run with parts of two installations: three common names can come from anywhere on the path."""
    files = {module.__name__: module.__file__ for module in (jobs, assignors, schemas)}
    places = {name: str(Path(file).resolve().parent.parent) for name, file in files.items() if file}
    if len(set(places.values())) != 1:
        raise PlatformError(f"packages of different installations: {', '.join(f'{name} from {place}' for name, place in places.items())}")


def main(argv: Sequence[str] | None = None) -> None:
    """Run one command.

    Raises:
        EvenkeelError: with ``exit_code``; nothing else is raised for what a user or a machine can get wrong.
    """
    set_up_logging("text")
    arguments = build_parser().parse_args(argv)
    set_up_logging(arguments.log_format)
    with _ending(arguments.command) as facts:
        _check_packages()
        summary = _collect(arguments) if arguments.command == "collect" else _run(arguments, facts)
        if summary is not None:
            print(summary, flush=True)


@contextmanager
def _ending(command: str) -> Iterator[dict[str, Any]]:
    """Log as the last line of a JSON log what a command came to; yields what it is to say besides."""
    facts: dict[str, Any] = {}
    started = time.monotonic()
    ended: dict[str, int | str] = {"exit_code": 1}
    try:
        yield facts
        ended = {"exit_code": 0}
    except EvenkeelError as error:
        ended = {"exit_code": error.exit_code, "error": str(error)}
        raise
    except BaseException as error:
        ended["error"] = "interrupted" if isinstance(error, KeyboardInterrupt) else f"{type(error).__name__}: {error}"
        raise
    finally:
        if logs_json():
            told = {"event": "end", "command": command, **ended, "seconds": round(time.monotonic() - started, 3), **facts}
            logger.log(logging.ERROR if ended["exit_code"] else logging.INFO, "%s ended", command, extra={"facts": told})


def _run(arguments: argparse.Namespace, facts: dict[str, Any]) -> str | None:
    """Return what a command that works on a warehouse tells at its end.

    Args:
        facts: filled with what is known of the run.
    """
    folder = conf_folder()
    settings = load_settings(arguments, folder)
    _check_strategies(settings)
    if arguments.command == "assign":
        _check_assign_options(arguments, settings)
    if arguments.command == "maintain" and arguments.as_of and arguments.as_of > datetime.now(timezone.utc):
        raise UsageError(f"--as-of {arguments.as_of.isoformat()} is yet to come: maintain would drop what is not old")
    if arguments.__dict__.get("dry_run") and arguments.drop_cluster is None:
        raise UsageError("--dry-run goes with --drop-cluster")
    if arguments.__dict__.get("client_properties") and not arguments.bootstrap_servers:
        raise UsageError("--client-properties goes with --bootstrap-servers")
    captures: tuple[Capture, ...] = ()
    if arguments.command in ("run", "land") and (settings.inputs or not arguments.bootstrap_servers):
        from jobs.decoders.captures import find_captures

        captures = find_captures(settings.inputs, Source(arguments.format) if arguments.format else None, arguments.offsets_partition)
        captures = captures if arguments.as_of is not None else _timed(captures, settings.inputs)
    if arguments.command in ("run", "report"):
        _check_outputs(arguments, settings, captures)
    summary = _execute(arguments, settings, folder, captures, lambda: datetime.now(timezone.utc), facts)
    if summary is not None and arguments.command in ("run", "report"):
        facts["report"] = summary.rsplit("\n", 1)[-1]
    return summary


def _check_assign_options(arguments: argparse.Namespace, settings: Settings) -> None:
    if arguments.recompute and arguments.expand:
        raise UsageError("--recompute and --expand exclude each other: one computes, the other shows what was computed")
    if arguments.since and not (arguments.recompute or arguments.expand):
        raise UsageError("--since goes with --recompute or --expand")
    if arguments.output and not arguments.expand:
        raise UsageError("--output goes with --expand")
    if arguments.output:
        check_new_file(Path(arguments.output), settings.warehouse)


def _check_outputs(arguments: argparse.Namespace, settings: Settings, captures: tuple[Capture, ...]) -> None:
    """Refuse to replace what is read, tables, and files that no report wrote.

    Raises:
        UsageError: naming the setting and the file.
    """
    named = (arguments.config, arguments.__dict__.get("client_properties"), *settings.inputs)
    read = [Path(name) for name in named if name is not None] + [Path(capture.path) for capture in captures]
    check_outputs(settings, read, overwrite=arguments.overwrite)


def _collect(arguments: argparse.Namespace) -> str:
    """Return what a collection came to."""
    properties = read_client_properties(arguments.client_properties, os.environ)
    with _needing_kafka("collect"):
        from jobs.collect import collection
        from jobs.collect import run as collect
    request = collection.Request(
        arguments.bootstrap_servers,
        arguments.output,
        properties,
        follow=arguments.follow,
        polls=arguments.poll,
        cluster_name=arguments.cluster_id,
        look_seconds=arguments.look_every,
        poll_seconds=arguments.poll_every,
        publish_seconds=arguments.publish_every,
        timeout_seconds=arguments.timeout,
    )
    return collect.run(request, lambda: datetime.now(timezone.utc))


def _connect(arguments: argparse.Namespace, now: Callable[[], datetime]) -> LiveInput | None:
    """Return the live cluster that is an input, connected; None without one."""
    if not arguments.__dict__.get("bootstrap_servers"):
        return None
    properties = read_client_properties(arguments.client_properties, os.environ)
    with _needing_kafka("--bootstrap-servers"):
        from jobs.brokers.live import LiveInput
    return LiveInput(arguments.bootstrap_servers, properties, now)


@contextmanager
def _needing_kafka(what: str) -> Iterator[None]:
    """Import what knows confluent-kafka, which only few commands need.

    Raises:
        PlatformError: it is not there.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "confluent_kafka":
            raise
        remedy = f"{sys.executable} -m pip install confluent-kafka"
        raise PlatformError(f"{what} needs the package confluent-kafka, Evenkeel's extra kafka; install it: {remedy}") from None


def _execute(
    arguments: argparse.Namespace,
    settings: Settings,
    folder: Path,
    captures: tuple[Capture, ...],
    now: Callable[[], datetime],
    facts: dict[str, Any],
) -> str | None:
    """Open a session and run; Spark is imported only here, so that wrong usage, or a cluster that is away, is told at once."""
    live = _connect(arguments, now)
    from jobs.pipeline import Request, execute
    from jobs.runtime.session import open_session

    started = now()
    request = Request(
        arguments.command,
        settings,
        folder,
        arguments.run_id or started.strftime("%Y%m%dT%H%M%S.%fZ"),
        arguments.as_of or started,
        now,
        captures,
        arguments.cluster_id,
        arguments.wait,
        arguments.__dict__.get("recompute", False),
        arguments.__dict__.get("since"),
        live,
        facts,
        tuple(arguments.__dict__.get("expand") or ()),
        Path(arguments.output) if arguments.__dict__.get("expand") and arguments.output else None,
        arguments.__dict__.get("all_groups", False),
        arguments.__dict__.get("as_new_cluster", False),
        arguments.__dict__.get("drop_cluster"),
        arguments.__dict__.get("dry_run", False),
    )
    jars = os.environ.get("EVENKEEL_JARS")
    warehouse = local_folder(settings.warehouse)
    workload = Workload(
        tuple(capture.path for capture in captures),
        "" if live is None else "a live cluster",
        None if warehouse is None else str(warehouse),
        arguments.command in SHORT_COMMANDS,
    )
    spark = open_session(folder, Path(jars) if jars else None, workload)
    return execute(spark, request)


def _restore_stderr() -> None:
    """Write to the launcher's own stderr again: spark-submit mixes what a Python driver writes there into its stdout."""
    path = os.environ.get("EVENKEEL_STDERR")
    if path:
        os.dup2(os.open(path, os.O_WRONLY | os.O_APPEND), 2)


def _tell(*lines: str) -> None:
    """Print why a command ended, unless the last line of its log says so."""
    if not logs_json():
        for line in lines:
            print(f"evenkeel: {on_one_line(line)}", file=sys.stderr)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Have the signals that ask a process to end interrupt the block as Ctrl-C does, so that a run takes its tables back."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        handler = signal.getsignal(signal.SIGINT)  # that of now: Spark's ends its jobs, and a run has its own for its last commit
        if callable(handler):
            handler(number, frame)
        else:
            raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    taken = [number for number, handler in before.items() if handler is not signal.SIG_IGN]  # nohup ignores SIGHUP
    for number in taken:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, before[number])


def console_main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code, telling errors in one line on stderr."""
    _restore_stderr()
    if isinstance(sys.stdout, io.TextIOWrapper):  # not every terminal can show the name of every group
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with _ended_by_signals():
            main(argv)
    except EvenkeelError as error:
        _tell(*str(error).split("\n"))  # one a mistake
        return error.exit_code
    except KeyboardInterrupt:
        _tell("interrupted")
        return 1
    return 0
