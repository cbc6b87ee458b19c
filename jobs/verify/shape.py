"""Whether a stored table has the columns, partitioning and properties that ``schemas.tables`` declares."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql.types import StructType

from jobs.storage.table_shape import shape_problems
from jobs.verify.damage import Code, Damage
from jobs.verify.state import TableState
from schemas.tables import CONTRACT_PROPERTY, CONTRACT_VERSION, TableSpec

SKIPPING_COLUMNS = "delta.dataSkippingStatsColumns"
_USE_THAT_RELEASE = "use the release that wrote it or a newer one, or set the property back with ALTER TABLE"


@dataclass(frozen=True)
class Shape:
    """The declaration of a table, from its log or from Spark.

    Attributes:
        schema: None if it cannot be read.
        reader_version: of the protocol.
    """

    schema: StructType | None
    partitioning: Sequence[str]
    properties: Mapping[str, str]
    reader_version: int

    @property
    def contract(self) -> str:
        """Return the contract version of the table."""
        return str(self.properties.get(CONTRACT_PROPERTY, "0"))


def shape_of(state: TableState) -> Shape | None:
    """Return the shape of a table in its log; None if the log does not have it."""
    if state.metadata is None:
        return None
    try:
        schema = StructType.fromJson(json.loads(state.metadata["schemaString"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        schema = None
    reader_version = (state.protocol or {}).get("minReaderVersion", 1)
    return Shape(schema, state.metadata["partitionColumns"], state.metadata["configuration"], reader_version)


def check_shape(spec: TableSpec, version: int, shape: Shape) -> Iterator[Damage]:
    """Yield the damage of the columns, all in one, and of partitioning, statistics columns and protocol.

    An older contract has fewer columns, which the next run adds; the columns of a newer one are not known here.

    A reader version above 1 means a feature with which deltalake, polars or DuckDB cannot read the table, such as deletion vectors.
    """
    is_known = shape.contract.isdecimal() and int(shape.contract) <= CONTRACT_VERSION
    if not is_known:
        known = f"a contract version up to {CONTRACT_VERSION}"
        yield Damage(Code.WRONG_PROPERTIES, spec.name, version, CONTRACT_PROPERTY, repr(shape.contract), known, _USE_THAT_RELEASE)
        return
    problems = ["no schema"] if shape.schema is None else shape_problems(shape.schema, spec.stored_schema)
    if int(shape.contract) < CONTRACT_VERSION:
        problems = [problem for problem in problems if not problem.startswith("missing ")]
    if problems:
        yield Damage(Code.WRONG_SCHEMA, spec.name, version, "", "; ".join(problems), "the declared columns")
    properties, partitioning, reader_version = shape.properties, shape.partitioning, shape.reader_version
    for what, found, expected in (
        ("partitionColumns", ",".join(partitioning), ",".join(spec.partitioning)),
        (SKIPPING_COLUMNS, properties.get(SKIPPING_COLUMNS), ",".join(spec.skipping_columns)),
        ("minReaderVersion", reader_version, 1),
    ):
        if found != expected:
            yield Damage(Code.WRONG_PROPERTIES, spec.name, version, what, repr(found), repr(expected))
