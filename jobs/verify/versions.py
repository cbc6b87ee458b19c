"""Checks that the tables have the versions in the newest row of ``runs``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass

from jobs.runtime.locations import LOG
from jobs.verify.damage import Code, Damage
from schemas.tables import RUNS

_EXCHANGED = (
    "the table, or runs, belongs to another warehouse: restore all tables from one copy, or rebuild the warehouse from its captures"
)


@dataclass(frozen=True)
class LastRun:
    """The parts of a row of ``runs`` that verification needs.

    Attributes:
        table_versions: the version of every table but ``runs`` when the run ended.
        warehouse_id: id of the warehouse of the run; None in rows from before there were ids.
    """

    run_id: str
    run_sequence: int
    status: str
    table_versions: Mapping[str, int]
    warehouse_id: str | None = None


def check_identity(version: int, runs: Iterable[LastRun], identity: str | None) -> Iterator[Damage]:
    """Yield the rows of ``runs`` whose run worked on another warehouse, as when the warehouse is replaced during its last commit.

    Args:
        version: of ``runs``.
        identity: id of this warehouse; None if an older release has made it.
    """
    for run in runs:
        if None not in (run.warehouse_id, identity) and run.warehouse_id != identity:
            found, expected = f"a run of warehouse {run.warehouse_id}", f"runs of this one, {identity}"
            yield Damage(Code.UNKNOWN_RUN, RUNS.name, version, run.run_id, found, expected, _EXCHANGED)


def check_versions(newest: Mapping[str, int], last: LastRun | None) -> Iterator[Damage]:
    """Yield the tables that are older or newer than the last run, published or not, left them.

    Args:
        newest: the newest version of each table that has any.
        last: None if no run has ended yet: every table is then as it was created.
    """
    for name, version in newest.items():
        if name == RUNS.name:
            continue
        expected = last.table_versions.get(name, 0) if last is not None else 0
        ended = f"version {expected}, " + (f"which run {last.run_id} left" if last is not None else "the first one: no run has ended")
        if version < expected:
            yield Damage(Code.BEHIND_RUNS, name, version, "", f"version {version} as the newest", ended)
        elif version > expected:
            yield Damage(Code.AHEAD_OF_RUNS, name, version, "", f"version {version} as the newest", ended)


def check_signatures(
    table: str, signatures: Mapping[int, str], restores: Iterable[tuple[int, int]], known: Set[str], left: int
) -> Iterator[Damage]:
    """Yield a damage if a table has commits of runs without a commit in ``runs``, as after a replacement by another warehouse's table.

    A run signs all its commits with the same text, and its row in ``runs`` is the last commit. The next run undoes the commits of a dead
    run. The commit that creates a table does not count, since its run may have died before it had a row.

    Args:
        signatures, restores: of the table's commits by version.
        known: the signatures in the log of ``runs``.
        left: the version at which the last run left the table.
    """
    strange = [version for version, signature in signatures.items() if 0 < version <= left and signature not in known]
    strange = standing(strange, restores)
    if strange:
        first, others = strange[0], len(strange) - 1
        found = f"the signature {signatures[first]!r}" + (f", and {others} more that are not in {RUNS.name}" if others else "")
        path = f"{LOG}/{first:020}.json"
        expected = f"one that is also in the log of {RUNS.name}"
        yield Damage(Code.FOREIGN_COMMIT, table, first, path, found, expected, _EXCHANGED)


def standing(foreign: Iterable[int], restores: Iterable[tuple[int, int]]) -> list[int]:
    """Return the versions of foreign commits that no run has undone.

    Args:
        restores: for each RESTORE of a run the version it made, and the version it restored.

    >>> standing([2, 7], [(5, 1), (6, 4)])
    [7]
    """
    pairs = list(restores)
    return [version for version in foreign if not any(to < version < at for at, to in pairs)]
