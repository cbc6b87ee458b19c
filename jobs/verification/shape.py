"""Whether a stored table has the columns, partitioning and properties that ``schemas.tables`` declares."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from pyspark.sql.types import StructType

from jobs.verification.damage import Code, Damage
from jobs.verification.log import TableState
from jobs.warehouse import shape_problems
from schemas.tables import TableSpec

SKIPPING_COLUMNS = "delta.dataSkippingStatsColumns"


def check_state(spec: TableSpec, version: int, state: TableState) -> Iterator[Damage]:
    """Yield what is wrong with the shape of a table as its log tells it; nothing where the log does not tell it."""
    if state.metadata is not None:
        try:
            schema = StructType.fromJson(json.loads(state.metadata["schemaString"]))
        except (ValueError, KeyError, TypeError) as error:
            yield Damage(Code.WRONG_SCHEMA, spec.name, version, "", f"no schema ({error})", "the declared columns")
        else:
            yield from check_schema(spec, version, schema)
        partitioning, properties = state.metadata["partitionColumns"], state.metadata["configuration"]
        yield from check_properties(spec, version, partitioning, dict(properties), int((state.protocol or {}).get("minReaderVersion", 1)))


def check_schema(spec: TableSpec, version: int | None, schema: StructType) -> Iterator[Damage]:
    """Yield what is wrong with the columns, all in one."""
    problems = shape_problems(schema, spec)
    if problems:
        yield Damage(Code.WRONG_SCHEMA, spec.name, version, "", "; ".join(problems), "the declared columns")


def check_properties(
    spec: TableSpec, version: int | None, partitioning: Sequence[str], properties: Mapping[str, str], reader_version: int
) -> Iterator[Damage]:
    """Yield what is wrong with partitioning, statistics columns and protocol.

    A reader version above 1 stands for a feature with which deltalake, polars or DuckDB cannot read the table, such as deletion vectors.
    """
    for what, found, expected in (
        ("partitionColumns", ",".join(partitioning), ",".join(spec.partitioning)),
        (SKIPPING_COLUMNS, properties.get(SKIPPING_COLUMNS), ",".join(spec.skipping_columns)),
        ("minReaderVersion", reader_version, 1),
    ):
        if found != expected:
            yield Damage(Code.WRONG_PROPERTIES, spec.name, version, what, repr(found), repr(expected))
