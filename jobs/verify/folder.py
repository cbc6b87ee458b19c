"""All checks of a warehouse in a local folder without Spark: logs, files, shapes, versions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from urllib.parse import unquote

import pyarrow.parquet as pq

from jobs.runtime.locations import LOG
from jobs.runtime.log_format import show_progress
from jobs.runtime.sidecars import has_checksums
from jobs.verify.damage import Code, Damage, unreadable
from jobs.verify.files import check_file
from jobs.verify.log import TableLog, read_log
from jobs.verify.shape import Shape, check_shape, shape_of
from jobs.verify.state import TableState
from jobs.verify.versions import LastRun, check_identity, check_signatures, check_versions
from schemas.tables import ALL_TABLES, IDENTITY_PROPERTY, OPTIONAL_TABLES, RUNS, TableSpec
from schemas.vocabulary import RunStatus

RUN_AGAIN = "no run has ended here: run again, which makes the missing tables"


@dataclass
class Checked:
    """What was checked, and what is wrong.

    Attributes:
        counts: number of checked things by kind, for the summary.
        skipped: checks that were not made, each with its reason.
        contracts: the contract versions of the tables.
        unsummed_count: Parquet files without checksums beside them.
    """

    damages: list[Damage] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    contracts: set[str] = field(default_factory=set)
    unsummed_count: int = 0

    def check_shape(self, spec: TableSpec, version: int, shape: Shape | None) -> None:
        """Add what is wrong with the shape of a table, if its log has the shape."""
        if shape is not None:
            self.contracts.add(shape.contract)
            self.damages += check_shape(spec, version, shape)

    def count(self, what: str, more: int = 1) -> None:
        """Add to the number of checked things of a kind."""
        self.counts[what] = self.counts.get(what, 0) + more


def check_folder(folder: Path) -> Checked:
    """Return what is wrong with the logs and files of a warehouse; reads every file that readers or the next run need."""
    checked = Checked()
    logs = {RUNS.name: _check_table(RUNS, folder / RUNS.name, None, checked)}
    last = published = None
    if not checked.damages:
        with _reading(checked, RUNS.name, logs[RUNS.name].newest):
            newest = logs[RUNS.name].newest
            state = logs[RUNS.name].states[newest]
            runs = _runs(folder / RUNS.name, state)
            last = runs[-1] if runs else None
            published = next((run for run in reversed(runs) if run.status == RunStatus.PUBLISHED.value), None)
            checked.damages += check_identity(newest, runs, (state.metadata or {}).get("configuration", {}).get(IDENTITY_PROPERTY))
    is_comparable = not checked.damages
    if not is_comparable:
        checked.skipped.append(f"the tables' versions against {RUNS.name}, which is damaged")
    for spec in ALL_TABLES.values():
        is_there = spec.name not in OPTIONAL_TABLES or (folder / spec.name / LOG).is_dir() or _names(last, spec)
        if spec is not RUNS and is_there:
            show_progress(f"verify: reading {spec.name} ({len(logs)} tables before)")
            wanted = published.table_versions.get(spec.name, 0) if published is not None else None
            logs[spec.name] = _check_table(spec, folder / spec.name, wanted, checked)
    if is_comparable:
        checked.damages += check_versions({name: log.newest for name, log in logs.items() if log.newest >= 0}, last)
        checked.damages += strange_commits(logs, last)
    if checked.unsummed_count:
        checked.skipped.append(f"every byte of the Parquet files: {checked.unsummed_count:,} of them have no hidden checksum file")
    if all(log.newest <= 0 for log in logs.values()):
        checked.damages = [replace(damage, advice=RUN_AGAIN) if damage.code is Code.MISSING_TABLE else damage for damage in checked.damages]
    return checked


@contextmanager
def _reading(checked: Checked, table: str, version: int, where: str = "") -> Iterator[None]:
    """Report any other error as damage, so that the remaining checks still run."""
    try:
        yield
    except Exception as error:  # on a damaged file a library may raise an error of any class
        checked.damages.append(unreadable(table, version, where, error))


def strange_commits(logs: dict[str, TableLog], last: LastRun | None) -> Iterator[Damage]:
    """Yield the tables with commits of runs of another warehouse; nothing if the log of ``runs`` does not have all runs."""
    if logs[RUNS.name].oldest != 0 or last is None:
        return
    known = set(logs[RUNS.name].signatures.values())
    for name, log in logs.items():
        yield from check_signatures(name, log.signatures, log.restores, known, last.table_versions.get(name, 0))


def _check_table(spec: TableSpec, folder: Path, wanted: int | None, checked: Checked) -> TableLog:
    """Check one table at its newest version and at the wanted one; reads files of both versions once."""
    log = read_log(spec.name, folder, wanted)
    checked.damages += log.damages
    checked.count("tables")
    checked.count("commits", log.commit_count)
    checked.count("checkpoints", log.checkpoint_count)
    checked.unsummed_count += sum(not has_checksums(path) for path in (folder / LOG).glob("*.parquet"))
    seen: set[str] = set()
    for version, state in sorted(log.states.items(), reverse=True):
        with _reading(checked, spec.name, version):
            checked.check_shape(spec, version, shape_of(state))
        for path in sorted(state.files.keys() - seen):
            seen.add(path)
            checked.count("files")
            checked.count("bytes", state.files[path]["size"])
            checked.unsummed_count += not has_checksums(folder / unquote(path))
            with _reading(checked, spec.name, version, path):
                damage = check_file(spec, folder, version, state.files[path])
                checked.damages += [damage] if damage is not None else []
    return log


def _names(last: LastRun | None, spec: TableSpec) -> bool:
    return last is not None and spec.name in last.table_versions


def _runs(folder: Path, state: TableState) -> list[LastRun]:
    """Return the runs that have ended, of any status, in their order."""
    return [run for _, run in sorted(_run_rows(folder, state), key=lambda run: run[0])]


def _run_rows(folder: Path, state: TableState) -> Iterator[tuple[tuple[int, datetime], LastRun]]:
    for path in state.files:
        for row in pq.read_table(folder / unquote(path), partitioning=None).to_pylist():
            run = LastRun(row["run_id"], row["run_sequence"], row["status"], dict(row["table_versions"]), row.get("warehouse_id"))
            yield (row["run_sequence"], row["finished_at"]), run
