"""The command line: argv -> settings -> one run. Only this module has a clock and exit codes."""

from __future__ import annotations

import io
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import assignors
import jobs
import schemas
from jobs.brokers.client_properties import read_client_properties
from jobs.collect.options import CollectOptions
from jobs.launcher.command_line import log_format
from jobs.launcher.messages import INTERRUPTED, mute
from jobs.launcher.workload import Workload
from jobs.options import COMMANDS, AssignOptions, Command, LandOptions, MaintainOptions, PageOptions, ReportOptions
from jobs.parser import Parsed, parse
from jobs.runtime.arguments import LocationOptions
from jobs.runtime.errors import EvenkeelError, InterruptedRunError, PlatformError, UsageError
from jobs.runtime.extras import check_extras
from jobs.runtime.interruption import Interruption
from jobs.runtime.locations import local_folder, on_one_line
from jobs.runtime.log_format import answer, clear_progress, coloured, logs_json, set_up_logging
from jobs.runtime.output_files import check_new_file, check_outputs
from jobs.runtime.run_options import ClockOptions, RunNameOptions
from jobs.settings import check_strategies, conf_folder, load_settings
from jobs.show.options import ExplainOptions, ShowOptions
from jobs.sql.options import SqlOptions
from jobs.what_if.options import WhatIfOptions
from schemas.config import Settings
from schemas.vocabulary import SOURCES_OF_GROUPS, Source

if TYPE_CHECKING:
    from jobs.brokers.live_input import LiveInput
    from jobs.decoders.captures import Capture

logger = logging.getLogger(__name__)


def _timed(captures: tuple[Capture, ...], inputs: tuple[str, ...]) -> tuple[Capture, ...]:
    """Return the captures without those that have no time of their own, if other captures describe the groups.

    Raises:
        UsageError: such a capture was named itself, or no other capture describes groups.
    """
    named = {str(Path(name).absolute()) for name in inputs}
    timeless = [capture for capture in captures if capture.source is Source.DESCRIBE]
    others = [capture for capture in captures if capture.source in SOURCES_OF_GROUPS and capture not in timeless]
    refused = next((capture.path for capture in timeless if not others or capture.path in named), None)
    if refused is not None:
        raise UsageError(f"input {refused}: the text has no time of its own; give its time with --as-of")
    if timeless:
        logger.warning(
            "skipped %d texts such as %s: they have no time of their own, and --as-of is not given",
            len(timeless),
            timeless[0].path,
        )
    return tuple(capture for capture in captures if capture not in timeless)


def _check_packages() -> None:
    """Refuse to run with parts of two installations: the three package names are common, and may come from anywhere on the path."""
    files = {module.__name__: module.__file__ for module in (jobs, assignors, schemas)}
    folders = {name: str(Path(file).resolve().parent.parent) for name, file in files.items() if file}
    if len(set(folders.values())) != 1:
        raise PlatformError(
            f"found packages of different installations: {', '.join(f'{name} from {folder}' for name, folder in folders.items())}; "
            "expected all from one: remove the others from Python's path"
        )


def main(argv: Sequence[str] | None = None, interruption: Interruption | None = None) -> None:
    """Run one command.

    Args:
        argv: None for the arguments of the process.
        interruption: of this process; None where somebody else handles its signals.

    Raises:
        EvenkeelError: with ``exit_code``; mistakes of users and failures of machines raise nothing else.
    """
    interruption = interruption or Interruption()
    words = list(sys.argv[1:] if argv is None else argv)
    set_up_logging(log_format(words))  # also for a mistake in these words
    command, options, warnings = _parsed(words, interruption)
    set_up_logging(options.log_format, logging.DEBUG if options.verbose else logging.WARNING if options.quiet else logging.INFO)
    for line in warnings:
        logger.warning("%s", line)
    with _ending(command.name, interruption) as facts:
        _check_packages()
        check_extras(command.name, dict.fromkeys(options.extras()))
        if isinstance(options, CollectOptions):
            summary: str | None = _collect(options)
        elif isinstance(options, WhatIfOptions) and not options.save:
            summary = _what_if(options)
        elif isinstance(options, ShowOptions | ExplainOptions):
            summary = _show(options)
        else:
            summary = _run(command, options, facts, interruption)
        if summary is not None:
            answer(summary)


def _parsed(words: Sequence[str], interruption: Interruption) -> Parsed:
    """Return a command line parsed.

    Raises:
        UsageError: it has a mistake.
        SystemExit: after ``--help`` or ``--version`` is printed.
    """
    try:
        parsed = parse(words)
        if parsed.options.quiet and parsed.options.verbose:
            raise UsageError("--quiet and --verbose exclude each other")
    except UsageError:
        with _ending(words[0] if words and words[0] in COMMANDS else "", interruption):
            raise
    return parsed


@contextmanager
def _ending(command: str, interruption: Interruption) -> Iterator[dict[str, Any]]:
    """Log the result of a command as the last line of a JSON log; yields a dictionary for further facts.

    Raises:
        InterruptedRunError: the block was interrupted.
    """
    facts: dict[str, Any] = {}
    started = time.monotonic()

    def log(**ended: int | str) -> None:
        if logs_json():
            logging.disable(logging.NOTSET)  # an interrupt has switched all lines off
            summary = {"event": "end", "command": command, **ended, "seconds": round(time.monotonic() - started, 3), **facts}
            logger.log(logging.ERROR if ended["exit_code"] else logging.INFO, "%s ended", command or "call", extra={"facts": summary})

    def end_at_limit() -> None:
        log(exit_code=INTERRUPTED, error=interruption.text)
        _say(interruption.text)

    interruption.at_limit = end_at_limit
    try:
        yield facts
    except KeyboardInterrupt:
        log(exit_code=INTERRUPTED, error=interruption.text)
        raise InterruptedRunError(interruption.text) from None
    except EvenkeelError as error:
        logger.debug("where the error comes from", exc_info=error)
        log(exit_code=error.exit_code, error=str(error))
        raise
    except BaseException as error:
        log(exit_code=1, error=f"{type(error).__name__}: {error}")
        raise
    else:
        log(exit_code=0)


def _run(command: Command, options: LocationOptions, facts: dict[str, Any], interruption: Interruption) -> str | None:
    """Run a command that works on a warehouse; return the text that it prints at its end.

    Args:
        facts: filled with facts of the run.
    """
    folder = conf_folder()
    settings = load_settings(options, folder)
    check_strategies(settings)
    _check_options(options, settings)
    landing = LandOptions.of(options)
    captures: tuple[Capture, ...] = ()
    if command.lands and (settings.inputs or not landing.bootstrap_servers):
        from jobs.decoders.captures import find_captures

        captures = find_captures(settings.inputs, Source(landing.format) if landing.format else None, landing.offsets_partition)
        captures = captures if landing.as_of is not None else _timed(captures, settings.inputs)
    if command.makes_report:  # refuse to replace inputs, tables, and files that no report wrote
        named = (options.config, landing.client_properties, *settings.inputs)
        read = [Path(name) for name in named if name is not None] + [Path(capture.path) for capture in captures]
        check_outputs(settings, read, overwrite=PageOptions.of(options).overwrite)
    return _execute(command, options, settings, folder, captures, lambda: datetime.now(timezone.utc), facts, interruption)


def _check_options(options: LocationOptions, settings: Settings) -> None:
    """Refuse options that cannot be used together.

    Raises:
        UsageError: naming them.
    """
    landing, assigned, maintained = LandOptions.of(options), AssignOptions.of(options), MaintainOptions.of(options)
    if assigned.recompute and assigned.expand:
        raise UsageError("--recompute and --expand cannot be used together: one computes, the other shows what was computed")
    if assigned.since and not (assigned.recompute or assigned.expand):
        raise UsageError("--since needs --recompute or --expand")
    if assigned.output and not assigned.expand:
        raise UsageError("--output needs --expand")
    if assigned.cluster_id and not assigned.expand:
        logger.warning("assign makes no use of --cluster-id without --expand")
    for name in ("strategies", "run_id", "wait"):
        if getattr(assigned, name) and assigned.expand:
            raise UsageError(f"--expand excludes --{name.replace('_', '-')}: it prints what was computed, by every strategy, and is no run")
    if assigned.output:
        check_new_file(Path(assigned.output), settings.warehouse)
    if maintained.as_of and maintained.as_of > datetime.now(timezone.utc):
        raise UsageError(f"--as-of {maintained.as_of.isoformat()} is in the future: maintain would remove history that is not old")
    if maintained.dry_run and maintained.drop_cluster is None:
        raise UsageError("--dry-run needs --drop-cluster")
    if isinstance(options, WhatIfOptions):
        from jobs.what_if.written_changes import check_save

        check_save(options)
    if isinstance(options, SqlOptions):
        options.text()
    if landing.client_properties and not landing.bootstrap_servers:
        raise UsageError("--client-properties needs --bootstrap-servers")
    for name in ("format", "offsets_partition"):
        if getattr(landing, name) is not None and landing.bootstrap_servers and not settings.inputs:
            raise UsageError(f"--{name.replace('_', '-')} needs --input: a live cluster is no file")
    if ReportOptions.of(options).export_dir and not settings.report.export:
        logger.warning("report makes no use of --export-dir without --export")


def _what_if(options: WhatIfOptions) -> str:
    """Return what changes to groups would lead to."""
    settings = load_settings(options, conf_folder())
    from jobs.what_if import run as what_if

    return what_if.run(options, settings.warehouse)


def _show(options: ShowOptions | ExplainOptions) -> str:
    """Return what is stored of groups, as tables or as sentences."""
    settings = load_settings(options, conf_folder())
    from jobs.show import run as show

    if isinstance(options, ExplainOptions):
        return show.answer_explain(options, settings.warehouse)
    return show.answer_show(options, settings.warehouse)


def _collect(options: CollectOptions) -> str:
    """Collect from a live cluster; return the summary."""
    for name in ("metadata_interval", "poll_interval"):
        if getattr(options, name) != getattr(CollectOptions, name) and not options.follow:
            raise UsageError(f"--{name.replace('_', '-')} needs --follow")
    properties = read_client_properties(options.client_properties, os.environ)
    from jobs.collect import run as collect

    return collect.run(options, properties, lambda: datetime.now(timezone.utc))


def _connect(options: LandOptions, now: Callable[[], datetime]) -> LiveInput | None:
    """Return the live cluster that is an input, connected; None without one."""
    if not options.bootstrap_servers:
        return None
    properties = read_client_properties(options.client_properties, os.environ)
    from jobs.brokers.live_input import LiveInput

    return LiveInput(options.bootstrap_servers, properties, now)


def _execute(
    command: Command,
    options: LocationOptions,
    settings: Settings,
    folder: Path,
    captures: tuple[Capture, ...],
    now: Callable[[], datetime],
    facts: dict[str, Any],
    interruption: Interruption,
) -> str | None:
    """Open a session and run; Spark is imported only here, so that wrong usage or an unreachable cluster is reported at once."""
    live = _connect(LandOptions.of(options), now)
    from jobs.context import Request
    from jobs.pipeline import execute
    from jobs.runtime.session import open_session

    started = now()
    run_id, as_of = RunNameOptions.of(options).run_id or started.strftime("%Y%m%dT%H%M%S.%fZ"), ClockOptions.of(options).as_of or started
    request = Request(command, options, settings, folder, run_id, as_of, now, captures, live, facts, interruption)
    jars = os.environ.get("EVENKEEL_JARS")
    warehouse = local_folder(settings.warehouse)
    workload = Workload(
        tuple(capture.path for capture in captures),
        "" if live is None else "a live cluster",
        None if warehouse is None else str(warehouse),
        command.is_short,
    )
    spark = open_session(folder, Path(jars) if jars else None, workload, interruption)
    return execute(spark, request)


def _say(*lines: str) -> None:
    """Print why a command ended, unless the last line of its JSON log has it."""
    if not logs_json():
        clear_progress()
        try:
            for line in lines:
                print(coloured(f"evenkeel: {on_one_line(line)}", sys.stderr), file=sys.stderr, flush=True)
        except OSError:  # nobody reads it; the exit code still says how the command ended
            mute(2)


def console_main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; each error is one line on stderr."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # not every terminal can show every group name
        sys.stdout.reconfigure(errors="backslashreplace")
    interruption = Interruption()
    try:
        with interruption.handled():
            main(argv, interruption)
    except EvenkeelError as error:
        _say(*str(error).split("\n"))  # one line for each mistake
        return error.exit_code
    except KeyboardInterrupt:
        _say(interruption.text)
        return INTERRUPTED
    return 0
