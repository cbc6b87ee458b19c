"""What can be checked of tables in an object store or a catalog, where only Spark can look: history, shape, versions."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import functions as F

from jobs.verification.damage import Code, Damage
from jobs.verification.folder import Checked
from jobs.verification.log import first_line
from jobs.verification.shape import check_properties, check_schema
from jobs.verification.versions import LastRun, check_versions, standing
from jobs.warehouse import SIGNATURE, Warehouse
from schemas.tables import RUNS, TABLES, TableSpec

NOT_CHECKED = "commits, checkpoints and files one by one: that takes a local folder"


def check_tables(warehouse: Warehouse) -> Checked:
    """Return what is wrong with the history and shape of tables that are not in a local folder."""
    checked = Checked(skipped=[NOT_CHECKED])
    newest: dict[str, int] = {}
    for spec in TABLES.values():
        checked.count("tables")
        try:
            checked.damages += _check_table(warehouse, spec, newest, checked)
        except Exception as error:  # the class differs between classic Spark, Connect and file systems
            checked.damages.append(Damage(Code.UNREADABLE_TABLE, spec.name, None, "", first_line(error)[:500], "a Delta table"))
    if RUNS.name in newest:
        row = warehouse.newest_run()
        last = None if row is None else LastRun(row["run_id"], row["run_sequence"], row["status"], dict(row["table_versions"]))
        checked.damages += check_versions(newest, last)
    return checked


def _check_table(warehouse: Warehouse, spec: TableSpec, newest: dict[str, int], checked: Checked) -> Iterator[Damage]:
    identifier = warehouse.identifier(spec.name)
    history = warehouse.spark.sql(f"DESCRIBE HISTORY {identifier}")
    latest = history.agg(F.max("version").alias("version"), F.count("*").alias("count")).collect()[0]
    checked.count("commits", latest["count"])
    version = newest[spec.name] = latest["version"]
    is_ours = F.coalesce(F.col("userMetadata").startswith(SIGNATURE), F.lit(False))
    restores = history.where(is_ours & (F.col("operation") == "RESTORE")).select("version", "operationParameters.version").collect()
    foreign = {row["version"]: row for row in history.where(~is_ours).select("version", "operation", "engineInfo").collect()}
    for at in standing(foreign, [(row[0], int(row[1])) for row in restores]):
        found = f"{foreign[at]['operation']} by {foreign[at]['engineInfo']}, not signed by a run"
        yield Damage(Code.FOREIGN_COMMIT, spec.name, at, "", found, f"{SIGNATURE.strip()!r} and a run's name")
    yield from check_schema(spec, version, warehouse.spark.table(identifier).schema)
    detail = warehouse.spark.sql(f"DESCRIBE DETAIL {identifier}").collect()[0]
    yield from check_properties(spec, version, detail["partitionColumns"], detail["properties"], detail["minReaderVersion"])
