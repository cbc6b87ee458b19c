"""Settings of Spark for the size of a run and for the machine."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .command_line import FLAGS
from .messages import Refusal
from .workload import ENOUGH_BYTES, MB, Workload, content, measure_inputs, measure_warehouse

PROFILES = {"small": "spark-local.conf", "large": "spark-local-large.conf"}
"""The kinds of runs on a local master, each with the file of its settings in conf/; a large run has the small one's settings too."""
DEFAULTS_FILE = "spark-defaults.conf"
"""The file of settings in conf/ that every run has."""
JAVA_OPTIONS = "spark.driver.defaultJavaOptions"
PROFILE_VARIABLE = "EVENKEEL_PROFILE"
"""The variable that sets the kind of a run, whatever its size."""
INPUT_LIMIT = 4 * MB
"""Inputs beyond it make a run large: as raw records in Parquet, of some 600 groups with six generations and 170 commits each."""
WAREHOUSE_LIMIT = 32 * MB
"""Tables beyond it make a run large, whatever its inputs; the demo's tables have 0.5 MB."""
PARTITION_BYTES = 4 * MB
"""A large run shuffles into one partition for each such part of its inputs and tables, up to the limit in its settings."""
TABLES_RATIO = 4
"""Beside inputs tables count for this much less: a run that adds to them computes little of them again."""
FEWEST_PARTITIONS = 8
SIZE_UNITS = {"": 20, "b": 0, "k": 10, "kb": 10, "m": 20, "mb": 20, "g": 30, "gb": 30, "t": 40, "tb": 40}
"""Spark's units of memory, each with its power of two; a number alone counts megabytes."""
SMALLEST_HEAP = 512 * MB
"""Spark does not start with less than 450 MB."""


class Machine(NamedTuple):
    """The limits of a driver: bytes of memory, and cores."""

    memory: int
    cores: int


class OwnSettings(NamedTuple):
    """The caller's settings of Spark, and whether Spark reads a file of theirs instead of the launcher's; ``in_file`` is what it says."""

    settings: Mapping[str, str]
    replaces_file: bool
    in_file: Mapping[str, str] = {}


class Profile(NamedTuple):
    """The settings for Spark, and the log line with the kind of run they are for and the reason.

    ``java_options``: of the driver's Java. ``defaults``: settings of conf/spark-defaults.conf that nothing overrides.
    """

    settings: Mapping[str, str]
    notice: str
    java_options: str = ""
    defaults: Mapping[str, str] = {}


def find_machine(root: str = "") -> Machine:
    """Return the limits of this process; its memory is the least of its control groups' limits and the machine's memory.

    Args:
        root: the folder with ``proc`` and ``sys``.
    """
    total = next((line.split()[1] for line in content(f"{root}/proc/meminfo").splitlines() if line.startswith("MemTotal:")), None)
    # macOS has no /proc.
    limits = [int(total) * 1024 if total else os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for line in content(f"{root}/proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        if not controllers:
            folder, name = f"{root}/sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            folder, name = f"{root}/sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        # Parent groups have limits too. In a container the path may be the host's; then only the root exists, which is its own group.
        group = group.strip("/")
        while True:
            limit = content(f"{folder}/{group}/{name}").strip()
            if limit.isdigit():
                limits.append(int(limit))
            if not group:
                break
            group = os.path.dirname(group)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Machine(min(limits), cores)


def read_settings(text: str) -> dict[str, str]:
    """Return the settings of a file of Spark: a key and a value on each line, separated by a blank, ``=`` or ``:``; ``#`` begins a comment.

    >>> read_settings("# comment\\nspark.a   b c\\n spark.d=e=f\\nspark.g : h")
    {'spark.a': 'b c', 'spark.d': 'e=f', 'spark.g': 'h'}
    """
    settings = {}
    for line in map(str.strip, text.splitlines()):
        if line and line[0] not in "#!":
            end = next((number for number, char in enumerate(line) if char in "=: \t"), len(line))
            value = line[end:].lstrip(" \t")
            settings[line[:end]] = value[1:].lstrip() if value[:1] in ("=", ":") else value
    return settings


def memory_bytes(name: str, text: str) -> int:
    """Return the bytes of an amount of memory as Spark reads it.

    >>> memory_bytes("--driver-memory", "2g"), memory_bytes("--driver-memory", "1500M"), memory_bytes("--driver-memory", "1")
    (2147483648, 1572864000, 1048576)

    Args:
        name: of the option or setting, for messages.
        text: its value.

    Raises:
        Refusal: it is no amount of memory.
    """
    word = text.strip().lower()
    number = word.rstrip("bkmgt")
    power = SIZE_UNITS.get(word[len(number) :])
    if power is None or not (number.isascii() and number.isdecimal()):
        raise Refusal(f"{name} needs an amount of memory such as 1500m or 8g, found {text!r}")
    return int(number) << power


def own_settings(options: Sequence[str], environ: Mapping[str, str]) -> OwnSettings:
    """Return the caller's settings: from SPARK_CONF_DIR, overridden by ``--properties-file``, overridden by single options.

    Args:
        options: those for spark-submit.
        environ: the caller's.
    """
    folder = environ.get("SPARK_CONF_DIR")
    settings = read_settings(content(f"{folder}/spark-defaults.conf")) if folder else {}
    path = ""
    given = {}
    words = iter(options)
    for name in words:
        if name in FLAGS:
            continue
        value = next(words)
        if name == "--properties-file":
            path = value
        elif name == "--driver-memory":
            given["spark.driver.memory"] = value
        elif name in ("--conf", "-c"):
            key, _, given[key] = value.partition("=")
    in_file = read_settings(content(path)) if path else {}
    return OwnSettings({**settings, **in_file, **given}, bool(path), in_file)


def missing_defaults(conf_folder: str, own: OwnSettings) -> dict[str, str]:
    """Return the settings of conf/spark-defaults.conf that neither the caller's file of settings nor an option has: on a cluster Spark
    reads that file instead. None without such a file."""
    if not own.replaces_file:
        return {}
    return {key: value for key, value in read_settings(content(f"{conf_folder}/{DEFAULTS_FILE}")).items() if key not in own.settings}


def choose_profile(workload: Workload, conf_folder: str, forced: str, machine: Machine, own: OwnSettings) -> Profile:
    """Return the settings for the size of a run and for the machine.

    The settings of a small run make a large run many times slower; those of a large run make a small one a little slower. So a run of
    unknown size counts as large.

    Args:
        workload: the inputs and tables of the run.
        conf_folder: contains the files of settings.
        forced: the kind of run that the caller names; empty if its size decides.
        machine: the limits of the driver.
        own: the caller's settings, which override these.

    Raises:
        Refusal: the kind of run is unknown, or the file of its settings is missing or has no readable heap.
    """
    if forced and forced not in PROFILES:
        raise Refusal(f"{PROFILE_VARIABLE} is {forced!r}; set it to {' or '.join(PROFILES)}, or unset it")
    inputs = measure_inputs(workload.inputs)
    tables = None if workload.warehouse is None else measure_warehouse(workload.warehouse)
    is_unknown = workload.warehouse is None or bool(workload.without_size and tables is None)
    is_much = is_unknown or not inputs.is_all or inputs.counted > INPUT_LIMIT or (tables or 0) > WAREHOUSE_LIMIT
    is_large = is_much and not workload.is_short
    name = forced or ("large" if is_large else "small")
    beneath, special = (_settings_of(f"{conf_folder}/{PROFILES[kind]}") for kind in ("small", name))
    adds_little = is_large and not (forced or is_unknown) and bool(workload.inputs) and inputs.is_all and inputs.counted <= INPUT_LIMIT
    if adds_little:
        special = {**special, JAVA_OPTIONS: _first_compiler(beneath[JAVA_OPTIONS], special[JAVA_OPTIONS])}
    stored = (tables or 0) // (TABLES_RATIO if workload.inputs or workload.without_size else 1)
    fitted = _fit({**beneath, **special}, machine, ENOUGH_BYTES if is_unknown else inputs.counted + stored)
    chosen = {key: own.settings.get(key, value) for key, value in fitted.items()}
    needed = {key: value for key, value in chosen.items() if own.replaces_file or value != beneath.get(key)}
    warehouse = "no tables yet" if tables is None else f"tables of {_size(tables)}"
    facts = (
        f"inputs of {_size(inputs.found)}{'' if inputs.is_all else ' and more'}" if workload.inputs else "",
        workload.without_size,
        "tables elsewhere" if workload.warehouse is None else warehouse,
        _heap(chosen["spark.driver.memory"], machine),
    )
    reason = f", as {PROFILE_VARIABLE} says" if forced else " with the first compiler alone" if adds_little else ""
    notice = f"settings for a {name} run{reason}: {', '.join(filter(None, facts))} (conf/{PROFILES[name]})"
    others = read_settings(content(f"{conf_folder}/{DEFAULTS_FILE}"))
    defaults = {key: value for key, value in others.items() if key not in own.settings and (own.replaces_file or key not in beneath)}
    return Profile(needed, notice, chosen[JAVA_OPTIONS], defaults)


def _settings_of(path: str) -> dict[str, str]:
    settings = read_settings(content(path))
    if not settings:
        raise Refusal(f"no settings in {path}; restore it from the repository")
    return settings


def _fit(settings: Mapping[str, str], machine: Machine, counted: int) -> dict[str, str]:
    """Return settings reduced to the machine and to the bytes that are read: memory, partitions and the collector's threads."""
    fitted = dict(settings)
    third = max(machine.memory // 3, SMALLEST_HEAP)
    if third < memory_bytes("spark.driver.memory", settings["spark.driver.memory"]):
        fitted["spark.driver.memory"] = f"{third // MB}m"
    partitions = max(FEWEST_PARTITIONS, counted // PARTITION_BYTES)
    fitted["spark.sql.shuffle.partitions"] = str(min(int(settings["spark.sql.shuffle.partitions"]), partitions))
    if machine.cores == 1:
        fitted[JAVA_OPTIONS] = settings[JAVA_OPTIONS].replace("UseParallelGC", "UseSerialGC")
    return fitted


def _first_compiler(of_small: str, of_large: str) -> str:
    """Return Java's options for a run that adds little to large tables: the compiler of a small run, the collector of a large one.

    Most of such a run plans queries, which is code that runs once. With one more generation of 250 of 5,000 groups a run took 158 CPU s
    with both compilers, and 130 with the first alone.
    """
    compiler = [option for option in of_small.split() if not option.endswith("GC")]
    return " ".join([*compiler, *(option for option in of_large.split() if option.endswith("GC"))])


def _heap(memory: str, machine: Machine) -> str:
    """Return a heap size for the log line, in gigabytes."""
    is_third = memory == f"{machine.memory // 3 // MB}m"
    text = f"{int(memory[:-1]) / 1024:.1f}g" if memory[-1:] == "m" and memory[:-1].isdigit() else memory
    return f"heap of {text}{', a third of the memory' if is_third else ''}"


def _size(count: int) -> str:
    """Return a number of bytes for the log line."""
    if count < MB:
        return f"{max(count // 1024, min(count, 1))} KB"
    return f"{count / MB:.1f} MB" if count < 10 * MB else f"{count / MB:.0f} MB"
