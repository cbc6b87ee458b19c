"""One damage of a warehouse: its code word, where it is, what was found, what was expected, what to do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from schemas.vocabulary import Word


class Code(Word):
    """The kinds of damage; ``docs/recovery.md`` has a section for each."""

    MISSING_TABLE = "missing_table"
    MISSING_COMMIT = "missing_commit"
    EMPTY_COMMIT = "empty_commit"
    TORN_COMMIT = "torn_commit"
    CHANGED_COMMIT = "changed_commit"
    FOREIGN_COMMIT = "foreign_commit"
    DAMAGED_CHECKPOINT = "damaged_checkpoint"
    DAMAGED_VERSION_CHECKSUM = "damaged_version_checksum"
    WRONG_SCHEMA = "wrong_schema"
    WRONG_PROPERTIES = "wrong_properties"
    MISSING_FILE = "missing_file"
    TRUNCATED_FILE = "truncated_file"
    CHANGED_FILE = "changed_file"
    BEHIND_RUNS = "behind_runs"
    AHEAD_OF_RUNS = "ahead_of_runs"
    UNREADABLE_TABLE = "unreadable_table"
    UNBALANCED_INPUT = "unbalanced_input"
    UNKNOWN_RUN = "unknown_run"
    DUPLICATE_KEY = "duplicate_key"
    MISSING_ROWS = "missing_rows"
    STRAY_ROWS = "stray_rows"
    WRONG_COUNT = "wrong_count"
    WRONG_VIOLATIONS = "wrong_violations"
    WRONG_MOVEMENTS = "wrong_movements"


_RESTORE = "restore the table's folder from a copy, or rebuild the warehouse from its captures"
_REBUILD = "rebuild the warehouse from its captures"
_RECOMPUTE = "compute the rows again with assign --recompute, then audit"

ADVICE = {
    Code.MISSING_TABLE: _RESTORE,
    Code.MISSING_COMMIT: _RESTORE,
    Code.EMPTY_COMMIT: _RESTORE,
    Code.TORN_COMMIT: _RESTORE,
    Code.CHANGED_COMMIT: _RESTORE,
    Code.FOREIGN_COMMIT: "find the program that wrote to the table; RESTORE the table to the version before, then run again",
    Code.DAMAGED_CHECKPOINT: "delete the file; if missing_commit is found too, restore it from a copy instead",
    Code.DAMAGED_VERSION_CHECKSUM: "delete the file: Delta does not need it",
    Code.WRONG_SCHEMA: _RESTORE,
    Code.WRONG_PROPERTIES: "set the property back with ALTER TABLE, or rebuild the warehouse from its captures",
    Code.MISSING_FILE: _RESTORE,
    Code.TRUNCATED_FILE: _RESTORE,
    Code.CHANGED_FILE: _RESTORE,
    Code.BEHIND_RUNS: "restore all tables from one copy, or rebuild the warehouse from its captures",
    Code.AHEAD_OF_RUNS: "a run did not end; readers do not see its rows; run again, which removes them",
    Code.UNREADABLE_TABLE: _RESTORE,
    Code.UNBALANCED_INPUT: _REBUILD,
    Code.UNKNOWN_RUN: _REBUILD,
    Code.DUPLICATE_KEY: _REBUILD,
    Code.MISSING_ROWS: _RECOMPUTE,
    Code.STRAY_ROWS: f"{_RECOMPUTE}; that keeps stray movements and findings: for these {_REBUILD}",
    Code.WRONG_COUNT: _RECOMPUTE,
    Code.WRONG_VIOLATIONS: _RECOMPUTE,
    Code.WRONG_MOVEMENTS: _RECOMPUTE,
}
"""What to do, in one line; ``docs/recovery.md`` has the details."""

LEAVES_ROWS_READABLE = {Code.FOREIGN_COMMIT, Code.DAMAGED_VERSION_CHECKSUM, Code.WRONG_PROPERTIES, Code.AHEAD_OF_RUNS}
"""Damage to log or files that still allows to read, and so to check, the published rows."""


@dataclass(frozen=True)
class Damage:
    """One damage.

    Attributes:
        version: of the table; None if the damage is not of one version.
        where: file within the table's folder, or the key of a row; empty for the table as a whole.
        advice: what to do, if the advice of the code does not apply.
    """

    code: Code
    table: str
    version: int | None
    where: str
    found: str
    expected: str
    advice: str = ""

    def __str__(self) -> str:
        version = "" if self.version is None else f" version {self.version}"
        where = f", {self.where}" if self.where else ""
        return f"{self.code} {self.table}{version}{where}: found {self.found}, expected {self.expected}; {self.advice or ADVICE[self.code]}"


def unreadable(table: str, version: int | None, where: str, error: BaseException) -> Damage:
    """Return the damage for anything that cannot be read, for whatever reason."""
    is_forbidden = isinstance(error, PermissionError)
    advice = "let the user who runs verify read it" if is_forbidden else ""
    return Damage(Code.UNREADABLE_TABLE, table, version, where, first_line(error)[:500], "something that can be read", advice)


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def in_order(damages: Iterable[Damage]) -> list[Damage]:
    """Return damages by table, version and place, so that two calls on one warehouse have the same output."""

    def order(damage: Damage) -> tuple[str, int, str, str]:
        return damage.table, -1 if damage.version is None else damage.version, damage.where, str(damage)

    return sorted(damages, key=order)
