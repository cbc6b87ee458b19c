"""Settings: YAML files and options -> one checked object."""

from __future__ import annotations

import logging
import os
import re
import sys
from pathlib import Path
from typing import Any

import assignors
from assignors.registry import find_assignor
from jobs.decoders.log_times import LogTimes
from jobs.options import AssignOptions, AuditOptions, LandOptions, PageOptions, ReportOptions, StrategyOptions
from jobs.runtime.arguments import LocationOptions
from jobs.runtime.errors import PlatformError, UsageError
from jobs.runtime.installation import own_archive, unpack_conf
from jobs.runtime.locations import is_text, local_folder, masked, objection
from jobs.runtime.yaml_file import read_yaml
from schemas.config import ReportSettings, Settings, parse_settings

logger = logging.getLogger(__name__)

FORMER_KEYS = {"report": {"details": "group_pages"}}
"""Section -> the former name of a key -> its name."""

_SCHEME = re.compile("[A-Za-z][A-Za-z0-9+.-]+:/")
"""The beginning of an address on another file system; read as a path it would be a folder of that name."""


def conf_folder() -> Path:
    """Return the folder of settings: packaged beside this module, or in the checkout of the program.

    A driver on a cluster has only the zip. The folder is then unpacked from the zip for as long as the program runs.
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
    raise PlatformError(
        f"no conf/local.yaml beside the program; looked in {', '.join(str(root) for root in roots)}; restore conf from the repository"
    )


def load_settings(options: LocationOptions, folder: Path) -> Settings:
    """Return the settings of the file, overridden by the options.

    Raises:
        UsageError: the file is missing or wrong; one line for each mistake.
    """
    path = options.config or folder / "local.yaml"
    content = _with_new_names(read_yaml(path, "--config"), path)
    try:
        settings = parse_settings(content, str(path))
        if not all(map(str.strip, settings.inputs)):
            raise UsageError(f"{path}: inputs: expected names, found an empty one")
        landing = LandOptions.of(options)
        inputs = landing.input or [_beside(path, name) for name in settings.inputs if not landing.bootstrap_servers]
        flags = {
            "warehouse": options.warehouse,
            "cluster_id": landing.cluster_id,
            "strategies": StrategyOptions.of(options).strategies,
            "log_time_zone": landing.log_time_zone,
        }
        given = {name: value for name, value in flags.items() if value is not None}
        merged = {**settings.model_dump(), "inputs": tuple(inputs), **given}
        fail_on = AuditOptions.of(options).fail_on
        merged["quality"] |= {"fail_on": fail_on} if fail_on else {}
        merged["report"] |= _report_flags(options, settings.report, merged["warehouse"])
        merged_settings = parse_settings(merged, "command line")
    except ValueError as error:
        raise UsageError(str(error)) from None
    _check_names(merged_settings)
    return merged_settings


def _with_new_names(content: Any, path: Path) -> Any:
    """Return the content of a settings file with former key names replaced; logs a line for each."""
    for section, names in FORMER_KEYS.items():
        values = content.get(section) if isinstance(content, dict) else None
        for former, name in names.items():
            if isinstance(values, dict) and former in values and name not in values:
                logger.warning("%s: %s.%s is now called %s; the old name works until release 1.0", path, section, former, name)
                values = {(name if key == former else key): value for key, value in values.items()}
                content = {**content, section: values}
    return content


def _check_names(settings: Settings) -> None:
    """Refuse names that Spark would misread or that logs must not contain, and paths of the wrong kind.

    Raises:
        UsageError: naming the setting.
    """
    problem = objection(settings.warehouse)
    if problem is not None:
        raise UsageError(f"warehouse {masked(settings.warehouse)}: {problem}")
    LogTimes(settings.log_time_zone)  # it refuses an unknown zone
    report = settings.report
    paths = {"output": report.output, "group_pages": report.group_pages, "export_dir": report.export_dir}
    for setting, name in (("cluster_id", settings.cluster_id), *((f"report.{key}", path) for key, path in paths.items())):
        if name is not None and not is_text(name):
            raise UsageError(f"{setting}: expected UTF-8 without control characters, found {name!r}")
    output = report.output
    if output is not None and (Path(output).name in ("", "..") or (os.path.exists(output) and not os.path.isfile(output))):
        # Also a device: the finished report is renamed to this path, and would replace the device.
        raise UsageError(f"report.output: expected the name of a file, found {output}, which is a folder or a device")
    for key in ("group_pages", "export_dir"):
        path = paths[key]
        if path is not None and os.path.exists(path) and not os.path.isdir(path):
            raise UsageError(f"report.{key}: expected the name of a folder, found the file {path}")


def _beside(settings_file: Path, name: str) -> str:
    return name if "://" in name or Path(name).is_absolute() else str(settings_file.absolute().parent / name)


def _report_flags(options: LocationOptions, settings: ReportSettings, warehouse: str) -> dict[str, Any]:
    """Return the absolute paths of the report's files, and the formats to export."""
    report = ReportOptions.of(options)
    # Like a report, the output of assign is a file of this machine.
    output = PageOptions.of(options).output or AssignOptions.of(options).output or settings.output
    named = {
        "output": output,
        "group_pages": report.group_pages or settings.group_pages,
        "export_dir": report.export_dir or settings.export_dir,
    }
    for name, path in named.items():
        if path is not None and _SCHEME.match(path):
            raise UsageError(f"report.{name}: expected a path on this machine, found {masked(path)}; copy the report there afterwards")
    flags: dict[str, Any] = {name: str(Path(path).absolute()) for name, path in named.items() if path is not None}
    if "output" not in flags:
        folder = local_folder(warehouse)
        flags["output"] = str((folder if folder is not None else Path.cwd()) / "report.html")
    return flags if report.export is None else {**flags, "export": report.export}


def check_strategies(settings: Settings) -> None:
    """Refuse an unknown strategy now, not group by group in the workers."""
    try:
        for strategy in settings.strategies:
            find_assignor(strategy)
    except assignors.UnknownStrategyError as error:
        raise UsageError(f"strategies: {error}") from None
