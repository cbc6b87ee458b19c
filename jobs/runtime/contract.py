"""Whether this release knows the tables of a warehouse: both readers, with Spark and without, refuse those of a newer one."""

from __future__ import annotations

from collections.abc import Mapping

from jobs.runtime.errors import NotAWarehouseError
from schemas.contract import CONTRACT_PROPERTY, CONTRACT_VERSION


def contract_version(warehouse: str, table: str, identifier: str, properties: Mapping[str, str]) -> int:
    """Return the contract version of a table, unless it is a newer one than ours.

    Args:
        warehouse: where it is, for messages.
        identifier: what SQL calls the table.
        properties: of the table; one without a version is of version 0.

    Raises:
        NotAWarehouseError: it is newer, or no number.
    """
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
