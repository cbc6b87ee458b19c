"""The contract of the tables: its version and the properties that note it. Imports nothing, so that programs without Spark can read it."""

from __future__ import annotations

CONTRACT_VERSION = 17
"""What readers of the tables can rely on. It grows by one when a table or a column is added or a meaning changes, not with the words of a
comment."""
CONTRACT_PROPERTY = "evenkeel.contractVersion"
"""Property of every table: the ``CONTRACT_VERSION`` with which it was created or migrated; 0 if it is missing."""
IDENTITY_PROPERTY = "evenkeel.warehouseId"
"""Property of the table ``runs``: the id of its warehouse, created once. A copy of the warehouse has the same id."""
