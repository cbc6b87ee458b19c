"""The contract of the tables: its version and the properties that note it. Imports nothing, so that programs without Spark can read it."""

from __future__ import annotations

CONTRACT_VERSION = 14
"""What the tables promise to those who read them; grows by one when a column is added or a meaning changes."""
CONTRACT_PROPERTY = "evenkeel.contractVersion"
"""Property of every table: the ``CONTRACT_VERSION`` it was made or migrated with; 0 where it is missing."""
IDENTITY_PROPERTY = "evenkeel.warehouseId"
"""Property of the table ``runs``: the id of its warehouse, made once. A copy of the warehouse has the same."""
