"""What was measured on a fleet: numbers of each process, medians, ratios, and how they are shown and compared with recorded ones."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

BARE, FIRST, NOTHING_NEW = "bare", "first", "nothing-new"
ON_TOP_OF_NOTHING_NEW = ("generation", "commits", "metadata")
"""Scenarios whose cost is compared with that of a run with nothing new."""
STAGES = ("open", "land", "assign", "audit", "gates", "report")
MEBIBYTE = 1 << 20
MEASURED = "measured.json"
"""The file that has everything that was measured, in the folder of ``--keep``."""
RATIO, SPARK_JOBS = "x bare", "Spark jobs"
JOBS_FACTOR = 1.05
"""How many times the recorded Spark jobs a process may have: a job more or less follows from how rows fall into partitions."""


@dataclass(frozen=True)
class Measurement:
    """What one process tree took.

    Attributes:
        cpu_s: of all processes.
        workers_cpu_s: of Spark's Python workers among them.
        driver_bytes, workers_bytes: largest proportional set sizes.
        spark_jobs, sql_executions: counted in Spark's event log.
        stages: wall seconds.
        parts: CPU seconds of what a process measured by itself.
        others_cpu_s: CPU seconds of the machine's other processes meanwhile.
    """

    cpu_s: float
    wall_s: float
    workers_cpu_s: float
    driver_bytes: int
    workers_bytes: int
    spark_jobs: int
    sql_executions: int
    stages: dict[str, float] = field(default_factory=dict)
    parts: dict[str, float] = field(default_factory=dict)
    others_cpu_s: float = 0.0


@dataclass(frozen=True)
class TableSize:
    """What a Delta table has in its newest version."""

    rows: int
    bytes: int
    files: int


def median_of(measurements: Sequence[Measurement]) -> Measurement:
    """Return the median of each number by itself."""

    def middle(values: Sequence[object]) -> object:
        if isinstance(values[0], dict):
            return {name: statistics.median(value[name] for value in values if name in value) for name in values[0]}
        return statistics.median(values)

    rows = [asdict(one) for one in measurements]
    return Measurement(**{name: middle([row[name] for row in rows]) for name in rows[0]})


def compared_figures(medians: Mapping[str, Measurement]) -> dict[str, dict[str, float]]:
    """Return what each scenario is compared by: its CPU seconds as a multiple of the bare process's, and its Spark jobs."""
    bare_s = medians[BARE].cpu_s
    return {name: {RATIO: one.cpu_s / bare_s, SPARK_JOBS: one.spark_jobs} for name, one in medians.items() if name != BARE}


def count_events(folder: Path) -> tuple[int, int]:
    """Return how many Spark jobs and SQL executions the event logs of a folder have; logs are plain, one JSON object a line."""
    jobs = executions = 0
    for path in folder.iterdir():
        with path.open(encoding="utf-8") as file:
            for line in file:
                jobs += line.startswith('{"Event":"SparkListenerJobStart"')
                executions += line.startswith('{"Event":"org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart"')
    return jobs, executions


def table_sizes(warehouse: Path) -> dict[str, TableSize]:
    """Return the size of each table of a warehouse, from the commits in its log; none of them may have been removed."""
    return {log.parent.name: _table_size(log) for log in sorted(warehouse.glob("*/_delta_log"))}


def _table_size(log: Path) -> TableSize:
    files: dict[tuple[object, ...], dict[str, Any]] = {}
    for commit in sorted(log.glob("*[0-9].json")):
        for line in commit.read_text(encoding="utf-8").splitlines():
            action = json.loads(line)
            if "add" in action:
                files[_identity(action["add"])] = action["add"]
            elif "remove" in action:
                files.pop(_identity(action["remove"]), None)
    rows = sum(json.loads(file["stats"])["numRecords"] - _vector(file).get("cardinality", 0) for file in files.values())
    return TableSize(rows, sum(file["size"] for file in files.values()), len(files))


def _identity(file: Mapping[str, Any]) -> tuple[object, ...]:
    """Return what is one file in a version: one whose deletion vector changes is removed and added in one commit."""
    return file["path"], _vector(file).get("pathOrInlineDv"), _vector(file).get("offset")


def _vector(file: Mapping[str, Any]) -> Mapping[str, Any]:
    return file.get("deletionVector") or {}


# -- shown


def markdown(medians: Mapping[str, Measurement], generations: int) -> str:
    """Return a table of the processes and one of what the processes measured by themselves.

    Args:
        generations: of all groups together in the history.
    """
    bare_s = medians[BARE].cpu_s
    stages = [name for name in STAGES if any(name in one.stages for one in medians.values())]
    figures = ["CPU s", "of workers", "x bare", "beyond nothing-new", "wall s", "driver MiB", "workers MiB", "Spark jobs", "SQL executions"]
    rows = [["process", *figures, *stages]]
    for name, one in medians.items():
        beyond = ""
        if name in ON_TOP_OF_NOTHING_NEW and NOTHING_NEW in medians:
            beyond = f"{(one.cpu_s - medians[NOTHING_NEW].cpu_s) / bare_s:.2f} x bare"
        times = [f"{one.cpu_s:.1f}", f"{one.workers_cpu_s:.1f}", f"{one.cpu_s / bare_s:.2f}", beyond, f"{one.wall_s:.1f}"]
        sizes = [f"{size / MEBIBYTE:.0f}" for size in (one.driver_bytes, one.workers_bytes)]
        counts = [f"{one.spark_jobs:.0f}", f"{one.sql_executions:.0f}"]
        seconds = [f"{one.stages[stage]:.1f}" if stage in one.stages else "" for stage in stages]
        rows.append([name, *times, *sizes, *counts, *seconds])
    text = table(rows)
    text += f"\n{FIRST}: {(medians[FIRST].cpu_s - bare_s) / generations * 1000:.2f} ms a generation beyond the bare process"
    for name, one in medians.items():
        for part, seconds in one.parts.items():
            text += f"\n{name}, {part}: {seconds:.2f} CPU s, {seconds / generations * 1000:.2f} ms a generation"
    return text


def markdown_of_tables(sizes: Mapping[str, TableSize]) -> str:
    """Return a table of the warehouse's tables."""
    rows = [["table", "rows", "MiB", "files"]]
    rows += [[name, f"{size.rows:,}", f"{size.bytes / MEBIBYTE:.1f}", str(size.files)] for name, size in sizes.items()]
    return table(rows)


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; the first row is its head, the first column is text, all others are numbers."""
    head, *others = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([head, f"|---|{'--:|' * (len(rows[0]) - 1)}", *others])


# -- compared


def recorded_figures(path: Path, fleet: str) -> dict[str, dict[str, float]]:
    """Return the recorded figures of a fleet by scenario, empty where there are none."""
    return json.loads(path.read_text(encoding="utf-8")).get(fleet, {}) if path.exists() else {}


def record(path: Path, fleet: str, figures: Mapping[str, Mapping[str, float]]) -> None:
    """Write down the figures of a fleet; those of other scenarios and fleets stay."""
    recorded = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    rounded = {name: {figure: round(value, 2) for figure, value in found.items()} for name, found in figures.items()}
    recorded[fleet] = {**recorded.get(fleet, {}), **rounded}
    path.write_text(json.dumps(recorded, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def worse_than(recorded: Mapping[str, Mapping[str, float]], figures: Mapping[str, Mapping[str, float]], factor: float) -> list[str]:
    """Return one line for each figure that exceeds so many times the recorded one, for Spark jobs JOBS_FACTOR times."""
    lines = []
    for name in sorted(recorded.keys() & figures.keys()):
        known, found = recorded[name], figures[name]
        if found[RATIO] > factor * known[RATIO]:
            lines.append(f"{name}: {found[RATIO]:.2f} times the bare process, expected at most {factor:g} x {known[RATIO]:.2f}")
        if found[SPARK_JOBS] > JOBS_FACTOR * known[SPARK_JOBS]:
            lines.append(f"{name}: {found[SPARK_JOBS]:.0f} Spark jobs, expected at most {JOBS_FACTOR:g} x {known[SPARK_JOBS]:.0f}")
    return lines
