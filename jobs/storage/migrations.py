"""The contract version of a warehouse: an older one is migrated to this release's, a newer one is refused.

Each table has the version in a property (``schemas.tables.CONTRACT_PROPERTY``), since after a crash some tables may be restored to the
version before. A table without it has version 0, from before there were versions.
"""

from __future__ import annotations

import logging

from jobs.storage.solution_rows import holdings_of_rows
from jobs.storage.table_shape import declared_properties, missing_columns
from jobs.storage.warehouse import Warehouse
from schemas.tables import ALL_TABLES, CONTRACT_VERSION, RUNS, SOLUTIONS

logger = logging.getLogger(__name__)

WITH_HOLDINGS = 11
"""The contract version that brought ``solutions.holdings``."""


def refuse_newer(warehouse: Warehouse) -> None:
    """Refuse a warehouse with a newer contract; reads only ``runs``, which is migrated last, and changes nothing.

    Raises:
        NotAWarehouseError: it is newer, or the table is of another program.
    """
    if warehouse.exists():
        warehouse.contract(RUNS.name)


def migrate(warehouse: Warehouse) -> None:
    """Give tables of an older contract the columns they lack, and this release's properties.

    New columns, and new fields of structs in arrays, are null in existing rows, with two exceptions. The assignments of each solution are
    packed, since later generations need them. A renamed column gets the values of its former name. A warehouse without an id gets one.

    Raises:
        NotAWarehouseError: a table is newer, as after a newer release that died while it migrated.
    """
    for name, spec in ((name, ALL_TABLES[name]) for name in warehouse.table_names):
        found = warehouse.contract(name)
        if found == CONTRACT_VERSION:
            continue
        logger.info("%s: migrating from contract version %d to %d", name, found, CONTRACT_VERSION)
        stored = warehouse.stored_schema(name)
        missing = missing_columns(stored, spec)
        if missing:
            warehouse.alter(name, f"ADD COLUMNS ({', '.join(missing)})")
        renamed = {column: former for former, column in spec.former.items() if former in stored.names and column not in stored.names}
        if renamed:
            warehouse.fill(name, ", ".join(f"{column} = {former}" for column, former in renamed.items()))
        if spec is SOLUTIONS and found < WITH_HOLDINGS:
            count = warehouse.update(name, holdings_of_rows(warehouse), SOLUTIONS.key, "t.holdings = d.holdings")
            logger.info("%s: packed the assignments of %d solutions", name, count)
        warehouse.alter(name, f"SET TBLPROPERTIES ({declared_properties(spec)})")
    warehouse.ensure_identity()
