"""Whether this release knows the tables of a warehouse: both readers, with Spark and without, refuse those of a newer one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from jobs.runtime.errors import NotAWarehouseError
from schemas.contract import CONTRACT_PROPERTY, CONTRACT_VERSION

OF_EVERY_TABLE = "run_sequence"
"""A column that every table has had in every release: a table without it, and without a version, is of another program."""


def contract_version(
    warehouse: str, table: str, identifier: str, properties: Mapping[str, str], columns: Callable[[], Collection[str]]
) -> int:
    """Return the contract version of a table, unless it is a newer one than ours, or the table is of another program.

    Args:
        warehouse: where it is, for messages.
        identifier: what SQL calls the table.
        properties: of the table; one without a version is of version 0.
        columns: returns those of the table; asked only where it has no version.

    Raises:
        NotAWarehouseError: it is newer, no number, or not of Evenkeel.
    """
    if CONTRACT_PROPERTY not in properties and OF_EVERY_TABLE not in columns():
        raise NotAWarehouseError(
            f"warehouse {warehouse}: {table} is a table of another program (no column {OF_EVERY_TABLE}); "
            "name another location with --warehouse"
        )
    text = properties.get(CONTRACT_PROPERTY, "0")
    if not text.isdecimal():
        raise NotAWarehouseError(
            f"warehouse {warehouse}: expected a number as property {CONTRACT_PROPERTY} of {table}, found {text!r}; "
            f"set it back with ALTER TABLE {identifier} SET TBLPROPERTIES"
        )
    if int(text) > CONTRACT_VERSION:
        raise NotAWarehouseError(
            f"warehouse {warehouse}: {table} has contract version {text}, this release of Evenkeel knows versions up to "
            f"{CONTRACT_VERSION}; use the release that wrote it or a newer one, or name another warehouse with --warehouse"
        )
    return int(text)
