"""The command line: argv -> settings -> one run. The only place with a clock and exit codes."""

from __future__ import annotations

import io
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import assignors
import jobs
import schemas
from jobs.brokers.client_properties import read_client_properties
from jobs.collect.options import CollectOptions
from jobs.launcher.workload import Workload
from jobs.options import AssignOptions, Command, LandOptions, MaintainOptions, PageOptions, StageOptions, WarehouseOptions, parse
from jobs.runtime.errors import EvenkeelError, PlatformError, UsageError
from jobs.runtime.locations import local_folder, on_one_line
from jobs.runtime.log_format import logs_json, set_up_logging
from jobs.runtime.output_files import check_new_file, check_outputs
from jobs.settings import check_strategies, conf_folder, load_settings
from jobs.what_if.options import WhatIfOptions
from schemas.config import Settings
from schemas.vocabulary import SOURCES_OF_GROUPS, Source

if TYPE_CHECKING:
    from jobs.brokers.live_input import LiveInput
    from jobs.decoders.captures import Capture

logger = logging.getLogger(__name__)


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


def _check_packages() -> None:
    """Refuse to run with parts of two installations: three common names can come from anywhere on the path."""
    files = {module.__name__: module.__file__ for module in (jobs, assignors, schemas)}
    folders = {name: str(Path(file).resolve().parent.parent) for name, file in files.items() if file}
    if len(set(folders.values())) != 1:
        raise PlatformError(
            f"packages of different installations: {', '.join(f'{name} from {folder}' for name, folder in folders.items())}"
        )


def main(argv: Sequence[str] | None = None) -> None:
    """Run one command.

    Raises:
        EvenkeelError: with ``exit_code``; nothing else is raised for what a user or a machine can get wrong.
    """
    set_up_logging("text")
    command, options, renamed = parse(argv)
    set_up_logging(options.log_format)
    for line in renamed:
        logger.warning("%s", line)
    with _ending(command.name) as facts:
        _check_packages()
        if isinstance(options, CollectOptions):
            summary: str | None = _collect(options)
        elif isinstance(options, WhatIfOptions):
            summary = _what_if(options)
        else:
            summary = _run(command, options, facts)
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
            summary = {"event": "end", "command": command, **ended, "seconds": round(time.monotonic() - started, 3), **facts}
            logger.log(logging.ERROR if ended["exit_code"] else logging.INFO, "%s ended", command, extra={"facts": summary})


def _run(command: Command, options: WarehouseOptions, facts: dict[str, Any]) -> str | None:
    """Return what a command that works on a warehouse tells at its end.

    Args:
        facts: filled with what is known of the run.
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
    if command.makes_report:  # refuse to replace what is read, tables, and files that no report wrote
        named = (options.config, landing.client_properties, *settings.inputs)
        read = [Path(name) for name in named if name is not None] + [Path(capture.path) for capture in captures]
        check_outputs(settings, read, overwrite=PageOptions.of(options).overwrite)
    summary = _execute(command, options, settings, folder, captures, lambda: datetime.now(timezone.utc), facts)
    if summary is not None and command.makes_report:
        facts["report"] = summary.rsplit("\n", 1)[-1]
    return summary


def _check_options(options: WarehouseOptions, settings: Settings) -> None:
    """Refuse options that do not go together.

    Raises:
        UsageError: naming them.
    """
    landing, assigned, maintained = LandOptions.of(options), AssignOptions.of(options), MaintainOptions.of(options)
    if assigned.recompute and assigned.expand:
        raise UsageError("--recompute and --expand exclude each other: one computes, the other shows what was computed")
    if assigned.since and not (assigned.recompute or assigned.expand):
        raise UsageError("--since goes with --recompute or --expand")
    if assigned.output and not assigned.expand:
        raise UsageError("--output goes with --expand")
    if assigned.output:
        check_new_file(Path(assigned.output), settings.warehouse)
    if maintained.as_of and maintained.as_of > datetime.now(timezone.utc):
        raise UsageError(f"--as-of {maintained.as_of.isoformat()} is yet to come: maintain would drop what is not old")
    if maintained.dry_run and maintained.drop_cluster is None:
        raise UsageError("--dry-run goes with --drop-cluster")
    if landing.client_properties and not landing.bootstrap_servers:
        raise UsageError("--client-properties goes with --bootstrap-servers")


def _what_if(options: WhatIfOptions) -> str:
    """Return what changes to groups would lead to."""
    settings = load_settings(options, conf_folder())
    with _needing("what-if", "deltalake", "reading"):
        from jobs.what_if import run as what_if
    return what_if.run(options, settings.warehouse)


def _collect(options: CollectOptions) -> str:
    """Return what a collection came to."""
    properties = read_client_properties(options.client_properties, os.environ)
    with _needing("collect", "confluent-kafka", "kafka"):
        from jobs.collect import run as collect
    return collect.run(options, properties, lambda: datetime.now(timezone.utc))


def _connect(options: LandOptions, now: Callable[[], datetime]) -> LiveInput | None:
    """Return the live cluster that is an input, connected; None without one."""
    if not options.bootstrap_servers:
        return None
    properties = read_client_properties(options.client_properties, os.environ)
    with _needing("--bootstrap-servers", "confluent-kafka", "kafka"):
        from jobs.brokers.live_input import LiveInput
    return LiveInput(options.bootstrap_servers, properties, now)


@contextmanager
def _needing(what: str, package: str, extra: str) -> Iterator[None]:
    """Import what knows a package that only few commands need.

    Raises:
        PlatformError: it is not there.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != package.replace("-", "_"):
            raise
        remedy = f"{sys.executable} -m pip install {package}"
        raise PlatformError(f"{what} needs the package {package}, Evenkeel's extra {extra}; install it: {remedy}") from None


def _execute(
    command: Command,
    options: WarehouseOptions,
    settings: Settings,
    folder: Path,
    captures: tuple[Capture, ...],
    now: Callable[[], datetime],
    facts: dict[str, Any],
) -> str | None:
    """Open a session and run; Spark is imported only here, so that wrong usage, or a cluster that is away, is told at once."""
    live = _connect(LandOptions.of(options), now)
    from jobs.context import Request
    from jobs.pipeline import execute
    from jobs.runtime.session import open_session

    started, stage = now(), StageOptions.of(options)
    run_id = stage.run_id or started.strftime("%Y%m%dT%H%M%S.%fZ")
    request = Request(command, options, settings, folder, run_id, stage.as_of or started, now, captures, live, facts)
    jars = os.environ.get("EVENKEEL_JARS")
    warehouse = local_folder(settings.warehouse)
    workload = Workload(
        tuple(capture.path for capture in captures),
        "" if live is None else "a live cluster",
        None if warehouse is None else str(warehouse),
        command.is_short,
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
