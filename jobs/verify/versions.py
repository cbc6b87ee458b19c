"""Whether the tables stand where the newest row of ``runs`` says that they do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass

from jobs.verify.damage import Code, Damage
from schemas.tables import RUNS

_EXCHANGED = "the table, or runs, is another warehouse's: restore all tables from one copy, or rebuild the warehouse from its captures"


@dataclass(frozen=True)
class LastRun:
    """What verification needs of a row of ``runs``.

    Attributes:
        table_versions: the version of every table but ``runs`` when the run ended.
        warehouse_id: id of the warehouse that it worked on; None in rows from before there were ids.
    """

    run_id: str
    run_sequence: int
    status: str
    table_versions: Mapping[str, int]
    warehouse_id: str | None = None


def check_identity(version: int, runs: Iterable[LastRun], identity: str | None) -> Iterator[Damage]:
    """Yield the rows of ``runs`` whose run worked on another warehouse, as one does whose warehouse is exchanged in its last commit.

    Args:
        version: of ``runs``.
        identity: id of this warehouse; None where an older release has made it.
    """
    for run in runs:
        if None not in (run.warehouse_id, identity) and run.warehouse_id != identity:
            found, expected = f"a run of warehouse {run.warehouse_id}", f"runs of this one, {identity}"
            yield Damage(Code.UNKNOWN_RUN, RUNS.name, version, run.run_id, found, expected, _EXCHANGED)


def check_versions(newest: Mapping[str, int], last: LastRun | None) -> Iterator[Damage]:
    """Yield the tables that are older or newer than the last run, published or not, left them.

    Args:
        newest: the newest version of each table that has any.
        last: None when no run has ended yet: every table is then as it was created.
    """
    for name, version in newest.items():
        if name == RUNS.name:
            continue
        expected = last.table_versions.get(name, 0) if last is not None else 0
        ended = f"version {expected}, where " + (f"run {last.run_id} left it" if last is not None else "it was created: no run has ended")
        if version < expected:
            yield Damage(Code.BEHIND_RUNS, name, version, "", f"version {version} as the newest", ended)
        elif version > expected:
            yield Damage(Code.AHEAD_OF_RUNS, name, version, "", f"version {version} as the newest", ended)


def check_signatures(
    table: str, signatures: Mapping[int, str], restores: Iterable[tuple[int, int]], known: Set[str], left: int
) -> Iterator[Damage]:
    """Yield that a table has commits of runs which have left none in ``runs``, as after an exchange for another warehouse's table.

    A run signs all its commits alike, and its row in ``runs`` is the last of them. What a run that died has committed is taken back by the
    next one; creation does not count, since that run may have died before it had a row.

    Args:
        signatures, restores: of the table's commits by version.
        known: the signatures in the log of ``runs``.
        left: the version at which the last run left the table.
    """
    strange = [version for version, signature in signatures.items() if 0 < version <= left and signature not in known]
    strange = standing(strange, restores)
    if strange:
        first, others = strange[0], len(strange) - 1
        found = f"the signature {signatures[first]!r}" + (f", and {others} more that {RUNS.name} does not know" if others else "")
        path = f"_delta_log/{first:020}.json"
        expected = f"one that is in the log of {RUNS.name} too"
        yield Damage(Code.FOREIGN_COMMIT, table, first, path, found, expected, _EXCHANGED)


def standing(foreign: Iterable[int], restores: Iterable[tuple[int, int]]) -> list[int]:
    """Return the versions of foreign commits that no run has taken back.

    Args:
        restores: for each RESTORE of a run the version it made, and the one that it went back to.

    >>> standing([2, 7], [(5, 1), (6, 4)])
    [7]
    """
    pairs = list(restores)
    return [version for version in foreign if not any(to < version < at for at, to in pairs)]
