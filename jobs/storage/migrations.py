"""Which contract a warehouse was made with: older ones are brought up to this release's, newer ones refused.

The version stands in a property of each table (``schemas.tables.CONTRACT_PROPERTY``), not once for all: after a crash some tables may
be back at the version before. A table without it is of version 0, from before there were versions.
"""

from __future__ import annotations

import logging

from jobs.runtime.contract import contract_version
from jobs.storage.solution_rows import holdings_of_rows
from jobs.storage.table_shape import column_definition, declared_properties
from jobs.storage.warehouse import Warehouse
from schemas.tables import CONTRACT_VERSION, RUNS, SOLUTIONS, TABLES

logger = logging.getLogger(__name__)

WITH_HOLDINGS = 11
"""The contract version that brought ``solutions.holdings``."""


def _check(warehouse: Warehouse, name: str) -> int:
    """Return the contract version of a table, unless it is a newer one than ours.

    Raises:
        NotAWarehouseError: it is newer, or no number.
    """
    return contract_version(warehouse.location, name, warehouse.identifier(name), warehouse.properties(name))


def refuse_newer(warehouse: Warehouse) -> None:
    """Do nothing unless the warehouse is of a newer contract; looks only, at ``runs``, which is migrated last.

    Raises:
        NotAWarehouseError: it is newer.
    """
    if warehouse.exists():
        _check(warehouse, RUNS.name)


def migrate(warehouse: Warehouse) -> None:
    """Give tables of an older contract the columns they lack, and this release's properties.

    The columns are null in the rows that are there, but for two kinds. What members hold by each solution is packed, since later
    generations go on from that. A column that was renamed has what the column of its former name has.
    One from before warehouses had an id gets one.

    Raises:
        NotAWarehouseError: a table is newer, which a release that died while migrating leaves behind.
    """
    for name, spec in TABLES.items():
        found = _check(warehouse, name)
        if found == CONTRACT_VERSION:
            continue
        logger.info("%s: from contract version %d to %d", name, found, CONTRACT_VERSION)
        present = warehouse.stored_columns(name)
        missing = [column_definition(column) for column in spec.stored_schema if column.name not in present]
        if missing:
            warehouse.alter(name, f"ADD COLUMNS ({', '.join(missing)})")
        renamed = {column: former for former, column in spec.former.items() if former in present and column not in present}
        if renamed:
            warehouse.fill(name, ", ".join(f"{column} = {former}" for column, former in renamed.items()))
        if spec is SOLUTIONS and found < WITH_HOLDINGS:
            count = warehouse.update(name, holdings_of_rows(warehouse), SOLUTIONS.key, "t.holdings = d.holdings")
            logger.info("%s: packed what members hold by %d solutions", name, count)
        warehouse.alter(name, f"SET TBLPROPERTIES ({declared_properties(spec)})")
    warehouse.ensure_identity()
