"""All that can be checked of a warehouse in a local folder without Spark: logs, files, shapes, versions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

import pyarrow.parquet as pq

from jobs.verification.damage import Damage
from jobs.verification.files import check_file
from jobs.verification.log import TableLog, TableState, read_log
from jobs.verification.shape import check_state
from jobs.verification.versions import LastRun, check_versions
from schemas.tables import RUNS, TABLES, TableSpec
from schemas.vocabulary import RunStatus


@dataclass
class Checked:
    """What was looked at, and what is wrong.

    Attributes:
        counts: by what was counted, for the summary.
        skipped: what was not checked, each with its reason.
    """

    damages: list[Damage] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)

    def count(self, what: str, more: int = 1) -> None:
        """Add to what was looked at."""
        self.counts[what] = self.counts.get(what, 0) + more


def check_folder(folder: Path) -> Checked:
    """Return what is wrong with the logs and files of a warehouse; reads every file that readers or the next run need."""
    checked = Checked()
    log = _check_table(RUNS, folder / RUNS.name, None, checked)
    last = published = None
    if checked.damages:
        checked.skipped.append(f"the tables' versions against {RUNS.name}, which is damaged")
    else:
        last, published = _last_runs(folder / RUNS.name, log.states[log.newest])
    newest = {}
    for spec in TABLES.values():
        if spec is RUNS:
            continue
        wanted = published.table_versions.get(spec.name, 0) if published is not None else None
        log = _check_table(spec, folder / spec.name, wanted, checked)
        if log.newest >= 0:
            newest[spec.name] = log.newest
    if not any(damage.table == RUNS.name for damage in checked.damages):
        checked.damages += check_versions(newest, last)
    return checked


def _check_table(spec: TableSpec, folder: Path, wanted: int | None, checked: Checked) -> TableLog:
    """Check one table as it is at its newest version and at the one wanted; files that both have are read once."""
    log = read_log(spec.name, folder, wanted)
    checked.damages += log.damages
    checked.count("tables")
    checked.count("commits", log.commit_count)
    checked.count("checkpoints", log.checkpoint_count)
    seen: set[str] = set()
    for version, state in sorted(log.states.items(), reverse=True):
        checked.damages += check_state(spec, version, state)
        for path in sorted(state.files.keys() - seen):
            seen.add(path)
            checked.count("files")
            checked.count("bytes", int(state.files[path]["size"]))
            damage = check_file(spec, folder, version, state.files[path])
            if damage is not None:
                checked.damages.append(damage)
    return log


def _last_runs(folder: Path, state: TableState) -> tuple[LastRun | None, LastRun | None]:
    """Return the newest run of any status and the newest published one."""
    rows = sorted(_run_rows(folder, state), key=lambda run: run[0])
    runs = [run for _, run in rows]
    published = [run for run in runs if run.status == RunStatus.PUBLISHED.value]
    return (runs[-1] if runs else None), (published[-1] if published else None)


def _run_rows(folder: Path, state: TableState) -> Iterator[tuple[tuple, LastRun]]:
    for path in state.files:
        for row in pq.read_table(folder / unquote(path), partitioning=None).to_pylist():
            run = LastRun(row["run_id"], row["run_sequence"], row["status"], dict(row["table_versions"]))
            yield (row["run_sequence"], row["finished_at"]), run
