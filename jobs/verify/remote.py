"""Checks of tables in an object store or a catalog, which only Spark can read: history, shape, versions."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import functions as F

from jobs.storage.commit_guard import SIGNATURE
from jobs.storage.warehouse import Warehouse
from jobs.verify.damage import Code, Damage, unreadable
from jobs.verify.folder import Checked, strange_commits
from jobs.verify.log import TableLog
from jobs.verify.shape import Shape
from jobs.verify.versions import LastRun, check_versions, standing
from schemas.tables import OPTIONAL_TABLES, RUNS, TABLES, TableSpec

NOT_CHECKED = "each commit, checkpoint and file: that needs a local folder"


def check_tables(warehouse: Warehouse) -> Checked:
    """Return what is wrong with the history and shape of tables that are not in a local folder."""
    checked = Checked(skipped=[NOT_CHECKED])
    histories: dict[str, TableLog] = {}

    def check(spec: TableSpec) -> None:
        checked.count("tables")
        try:
            checked.damages += _check_table(warehouse, spec, histories, checked)
        except Exception as error:  # the class differs between classic Spark, Connect and file systems
            checked.damages.append(unreadable(spec.name, None, "", error))

    for spec in TABLES.values():
        check(spec)
    if RUNS.name in histories:
        try:
            row = warehouse.newest_run()
            last = None if row is None else LastRun(row["run_id"], row["run_sequence"], row["status"], dict(row["table_versions"]))
        except Exception as error:  # as above
            checked.damages.append(unreadable(RUNS.name, histories[RUNS.name].newest, "", error))
        else:
            for name in OPTIONAL_TABLES.keys() & (last.table_versions.keys() if last is not None else ()):
                check(OPTIONAL_TABLES[name])
            checked.damages += check_versions({name: history.newest for name, history in histories.items()}, last)
            checked.damages += strange_commits(histories, last)
    return checked


def _check_table(warehouse: Warehouse, spec: TableSpec, histories: dict[str, TableLog], checked: Checked) -> Iterator[Damage]:
    identifier = warehouse.identifier(spec.name)
    history = warehouse.spark.sql(f"DESCRIBE HISTORY {identifier}")
    rows = history.select("version", "operation", "engineInfo", "userMetadata", F.col("operationParameters.version").alias("to")).collect()
    checked.count("commits", len(rows))
    log = histories[spec.name] = TableLog(min(row["version"] for row in rows), max(row["version"] for row in rows))
    foreign = {row["version"]: row for row in rows if not (row["userMetadata"] or "").startswith(SIGNATURE)}
    ours = [row for row in rows if row["version"] not in foreign]
    log.signatures = {row["version"]: row["userMetadata"] for row in ours}
    log.restores = [(row["version"], int(row["to"])) for row in ours if row["operation"] == "RESTORE" and (row["to"] or "").isdecimal()]
    for at in standing(foreign, log.restores):
        found = f"{foreign[at]['operation']} by {foreign[at]['engineInfo']}, not signed by a run"
        yield Damage(Code.FOREIGN_COMMIT, spec.name, at, "", found, f"{SIGNATURE.strip()!r} and a run's name")
    detail = warehouse.spark.sql(f"DESCRIBE DETAIL {identifier}").collect()[0]
    schema = warehouse.spark.table(identifier).schema
    checked.check_shape(spec, log.newest, Shape(schema, detail["partitionColumns"], detail["properties"], detail["minReaderVersion"]))
