"""The shape of a table: its SQL, its properties, and a check of rows."""

from __future__ import annotations

import uuid
from itertools import pairwise

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, StructField, StructType

from jobs.runtime.errors import (
    SchemaMismatchError,
)
from jobs.storage.sql_literals import quoted
from schemas.tables import CONTRACT_PROPERTY, CONTRACT_VERSION, IDENTITY_PROPERTY, RUNS, TableSpec

KEEP_THE_LOG = "'delta.enableExpiredLogCleanup' = 'false'"
"""Property of every table. With each checkpoint Delta would remove commits older than thirty days. In a table without changes for so long,
that may be the published version, which readers need and to which the tables of a dead run are restored. ``maintain`` removes commits
instead."""
FOR_ALL_READERS = "'delta.enableDeletionVectors' = 'false', 'delta.columnMapping.mode' = 'none'"
"""Properties of a new table. A session or a workspace may have other defaults, with which readers without Spark could not read it."""
SORT_COLUMNS = ("observed_month", "cluster_id", "group_id", "topic", "observed_at", "position")


def column_definition(column: StructField) -> str:
    """Return a column as CREATE and ALTER TABLE name it."""
    return f"`{column.name}` {column.dataType.simpleString()} COMMENT {quoted(column.metadata['comment'])}"


def create_statement(spec: TableSpec, identifier: str) -> str:
    """Return the SQL that makes a table with its comments, partitioning and properties; that of ``runs`` also makes a new id."""
    columns = ",\n  ".join(map(column_definition, spec.stored_schema))
    properties = f"{declared_properties(spec)}, {FOR_ALL_READERS}" + (
        f", '{IDENTITY_PROPERTY}' = '{uuid.uuid4().hex}'" if spec is RUNS else ""
    )
    partitioning = f"\nPARTITIONED BY ({', '.join(spec.partitioning)})" if spec.partitioning else ""
    return (
        f"CREATE TABLE IF NOT EXISTS {identifier} (\n  {columns}\n) USING delta{partitioning}\nCOMMENT {quoted(spec.comment)}\n"
        f"TBLPROPERTIES ({properties})"
    )


def declared_properties(spec: TableSpec) -> str:
    """Return the properties that every table of this release has, as CREATE and ALTER TABLE name them."""
    skipping = ",".join(spec.skipping_columns)
    return f"'delta.dataSkippingStatsColumns' = '{skipping}', '{CONTRACT_PROPERTY}' = '{CONTRACT_VERSION}', {KEEP_THE_LOG}"


def aligned(rows: DataFrame, spec: TableSpec) -> DataFrame:
    """Return rows in the column order of a table, sorted in the order of its files.

    Raises:
        SchemaMismatchError: names every missing, unexpected and mistyped column.
    """
    problems = shape_problems(rows.schema, spec.schema)
    if problems:
        raise SchemaMismatchError(f"{spec.name}: {'; '.join(problems)}; this is a defect of Evenkeel, please report it")
    order = [column for column in SORT_COLUMNS if column in spec.schema.names]
    selected = with_former_columns(rows.select(*spec.schema.names), spec)
    return selected.sortWithinPartitions(*order) if order else selected


def with_former_columns(rows: DataFrame, spec: TableSpec) -> DataFrame:
    """Return rows with the columns that are also stored under former names."""
    return rows.withColumns({former: F.col(name) for former, name in spec.former.items()}) if spec.former else rows


def missing_columns(stored: StructType, spec: TableSpec) -> list[str]:
    """Return what a stored table lacks of the declared columns, as ALTER TABLE names what it adds.

    These are whole columns, and fields of the structs in an array, each after the field before it.
    """
    found = {column.name: column.dataType for column in stored}
    whole = [column_definition(column) for column in spec.stored_schema if column.name not in found]
    return whole + [
        f"`{column.name}`.element.`{field.name}` {field.dataType.simpleString()} AFTER `{before.name}`"
        for column in spec.stored_schema
        if column.name in found
        for before, field in pairwise(_fields(column.dataType))
        if field.name not in {one.name for one in _fields(found[column.name])}
    ]


def _fields(kind: DataType) -> list[StructField]:
    """Return the fields of the structs in an array; empty for other types."""
    element = kind.elementType if isinstance(kind, ArrayType) else None
    return element.fields if isinstance(element, StructType) else []


def current_columns(rows: DataFrame, spec: TableSpec) -> DataFrame:
    """Return the columns of ``spec.schema`` of stored rows.

    If an older release has made the table without some of them, these are null, or have the values of their former name. Fields that the
    structs of an array lack are null.
    """
    known, former = {column.name: column.dataType for column in rows.schema}, {name: old for old, name in spec.former.items()}

    def current(column: StructField) -> Column:
        names = [name for name in (column.name, former.get(column.name)) if name in known]
        values = [_all_fields(name, known[name], column.dataType) for name in names] or [F.lit(None).cast(column.dataType)]
        return F.coalesce(*values).alias(column.name) if len(values) > 1 else values[0].alias(column.name)

    return rows.select(*map(current, spec.schema))


def _all_fields(name: str, stored: DataType, declared: DataType) -> Column:
    """Return a stored column with all declared fields of the structs in an array."""
    present, fields = {field.name for field in _fields(stored)}, _fields(declared)
    if present.issuperset(field.name for field in fields):
        return F.col(name)

    def filled(one: Column) -> Column:
        values = [one[field.name] if field.name in present else F.lit(None).cast(field.dataType) for field in fields]
        return F.struct(*[value.alias(field.name) for value, field in zip(values, fields, strict=True)])

    return F.transform(name, filled)


def shape_problems(schema: StructType, declared_schema: StructType) -> list[str]:
    """Return what is wrong with the columns of a frame or a stored table, without nullability; empty if they are the declared ones."""
    found = {column.name: column.dataType.simpleString() for column in schema}
    declared = {column.name: column.dataType.simpleString() for column in declared_schema}
    missing = [f"missing {name}" for name in declared if name not in found]
    unexpected = [f"unexpected {name}" for name in found if name not in declared]
    mistyped = [
        f"{name} is {found[name]}, declared {declared[name]}" for name in declared if name in found and found[name] != declared[name]
    ]
    return missing + unexpected + mistyped
