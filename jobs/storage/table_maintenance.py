"""Maintenance of tables: merge small files, remove files that no reader can use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from jobs.runtime.session import settings
from jobs.storage.warehouse import Warehouse
from schemas.tables import ALL_TABLES

FILE_RETENTION = "delta.deletedFileRetentionDuration"
DEFAULT_FILE_RETENTION = "interval 168 hours"
OPTIMIZE_SETTINGS = {
    # Merges only files below the first size, up to the second: the default of 1 GiB for both would rewrite nearly all files each time.
    "spark.databricks.delta.optimize.minFileSize": str(32 * 1024 * 1024),
    "spark.databricks.delta.optimize.maxFileSize": str(256 * 1024 * 1024),
}


def file_counts(warehouse: Warehouse, name: str) -> dict[str, int]:
    """Return the number of files of a table by ``observed_month=...``, or of the whole table if it has no months."""
    folders = (path.rsplit("/", 2)[1] for path in warehouse.read(name).inputFiles())
    return dict(Counter(folder if ALL_TABLES[name].partitioning else name for folder in folders))


def optimize(warehouse: Warehouse, name: str, parts: Collection[str]) -> None:
    """Merge the small files in parts of a table, as ``file_counts`` names them; commits nothing if fewer than two are small."""
    months = ", ".join(f"DATE'{part.rpartition('=')[2]}'" for part in sorted(parts))
    where = f" WHERE observed_month IN ({months})" if ALL_TABLES[name].partitioning else ""
    with settings(warehouse.spark, OPTIMIZE_SETTINGS):
        warehouse.commit(name, lambda: warehouse.spark.sql(f"OPTIMIZE {warehouse.identifier(name)}{where}"))


def keep_files(warehouse: Warehouse, name: str, hours: int) -> None:
    """Make VACUUM keep a table's files for so many hours after the last version that used them; commits nothing if it already does.

    Sets a property of the table, since Delta 4 ignores RETAIN of VACUUM; it also holds for other callers of VACUUM.
    """
    wanted = f"interval {hours} hours"
    if warehouse.properties(name).get(FILE_RETENTION, DEFAULT_FILE_RETENTION) != wanted:
        warehouse.alter(name, f"SET TBLPROPERTIES ('{FILE_RETENTION}' = '{wanted}')")


def vacuum(warehouse: Warehouse, name: str) -> None:
    """Remove the files of a table that no version has used for as long as ``keep_files`` says; only after publication."""
    used = {
        # VACUUM's own commit would come after the published version, as if a run had died.
        "spark.databricks.delta.vacuum.logging.enabled": "false",
        # Number of tasks that list folders: the default of 10,000 takes minutes for a table of ten files.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(warehouse.spark.conf.get("spark.sql.shuffle.partitions")),
    }
    with settings(warehouse.spark, used):
        warehouse.spark.sql(f"VACUUM {warehouse.identifier(name)}")
