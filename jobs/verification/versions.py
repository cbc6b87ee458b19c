"""Whether the tables stand where the newest row of ``runs`` says that they do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from jobs.verification.damage import Code, Damage
from schemas.tables import RUNS


@dataclass(frozen=True)
class LastRun:
    """What verification needs of a row of ``runs``.

    Attributes:
        table_versions: the version of every table but ``runs`` when the run ended.
    """

    run_id: str
    run_sequence: int
    status: str
    table_versions: Mapping[str, int]


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


def standing(foreign: Iterable[int], restores: Iterable[tuple[int, int]]) -> list[int]:
    """Return the versions of foreign commits that no run has taken back.

    Args:
        restores: for each RESTORE of a run the version it made, and the one that it went back to.

    >>> standing([2, 7], [(5, 1), (6, 4)])
    [7]
    """
    pairs = list(restores)
    return [version for version in foreign if not any(to < version < at for at, to in pairs)]
