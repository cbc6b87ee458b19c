"""Rows have two declarations, a TypedDict for Python and a StructType for Spark: the same columns, of the same types.

``RecordBatch.from_pylist`` drops a key that its schema has not, without a word, so that a column under another name would be null.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from typing import Any, TypedDict

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from assignors.audit.movements import Difference, Movement
from assignors.generation.balance import Balance
from jobs.audit.arrived_records import WaitingPartition
from jobs.audit.udfs import BALANCE_COLUMNS, BOUND_COLUMNS, DIFFERENCE_COLUMNS, SOLUTION_COLUMNS
from jobs.findings.commits import ExpiringTopic, UnsubscribedTopic
from jobs.findings.looks import GrownTopic
from schemas import computed_row_types, row_types, staging

PLAIN: dict[type[DataType], type] = {
    StringType: str,
    BinaryType: bytes,
    BooleanType: bool,
    IntegerType: int,
    LongType: int,
    DoubleType: float,
    TimestampType: int,
}
ROWS = {
    "PART_ROWS": row_types.DecodedRow,
    "DUMPED_ROWS": row_types.DecodedRow,
    "ALIGNED_ROWS": row_types.AlignedRow,
    "FOLDED_ROWS": row_types.FoldedRow,
    "SOLVED_ROWS": computed_row_types.SolvedRow,
    "LOGGED_ROWS": row_types.LoggedRow,
    "AUDITED_ROWS": computed_row_types.AuditedRow,
    "RESUMED_ROWS": computed_row_types.ResumedRow,
    "EXPLAINED_ROWS": computed_row_types.ExplainedRow,
    "EXPIRED_SESSIONS": computed_row_types.ExpiredSession,
    "PLAYED_ROWS": computed_row_types.PlayedRow,
    "FOUND_ROWS": computed_row_types.FoundRow,
    "PLACED_GROUPS": computed_row_types.PlacedGroup,
    "COMMIT_SIGNS": computed_row_types.CommitSignsRow,
    "GROWTH_FACTS": computed_row_types.GrowthFactsRow,
    "STUCK_FACTS": computed_row_types.StuckFactsRow,
}
# Both begin with these columns; their workers hand most of the others on as they come.
WITHOUT_A_TYPE = {"DECODED_ROWS", "UNPACKED_ROWS", "PACKED_ROWS"}
OF_ONE_SOURCE = {"PART_ROWS": {"producer_id", "transaction_end"}, "DUMPED_ROWS": {"part", "order_in_part"}}
AUDIT, MOVEMENT = (typing.cast(StructType, staging.AUDITED_ROWS[name].dataType) for name in ("audit", "movement"))


def struct_of(field: StructField) -> StructType:
    """Return the struct that a column has, or has a list of."""
    return typing.cast(StructType, field.dataType.elementType if isinstance(field.dataType, ArrayType) else field.dataType)


def differences(declared: Any, struct: StructType, *, but_for: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield what a class with annotations and a struct do not share, but for the class's columns named."""
    hints = {name: hint for name, hint in typing.get_type_hints(declared).items() if name not in but_for}
    yield from (f"{name}: only in {declared.__name__}" for name in sorted(hints.keys() - set(struct.names)))
    yield from (f"{name}: not in {declared.__name__}" for name in sorted(set(struct.names) - hints.keys()))
    for name in sorted(hints.keys() & set(struct.names)):
        yield from (f"{name}{what}" for what in mismatches(hints[name], struct[name].dataType))


def mismatches(hint: Any, data_type: DataType) -> Iterator[str]:
    """Yield where a type of Python's is none of those that a column of this type takes."""
    if isinstance(hint, types.UnionType):
        (hint,) = (one for one in typing.get_args(hint) if one is not types.NoneType)
    if hint == dict[str, Any] and isinstance(data_type, StructType):
        return  # filled by name, from what another test looks at
    if typing.is_typeddict(hint) and isinstance(data_type, StructType):
        yield from (f".{what}" for what in differences(hint, data_type))
    elif typing.get_origin(hint) is list and isinstance(data_type, ArrayType):
        yield from mismatches(typing.get_args(hint)[0], data_type.elementType)
    elif hint == list[tuple[str, str]] and isinstance(data_type, MapType):
        yield from mismatches(str, data_type.keyType)
        yield from mismatches(str, data_type.valueType)
    else:
        wanted = PLAIN.get(type(data_type))
        is_right = isinstance(hint, type) and wanted is not None and issubclass(hint, wanted)
        if not is_right or (hint is bool) != (wanted is bool):
            yield f": {hint} in a column of type {data_type.simpleString()}"


@pytest.mark.parametrize("name", ROWS)
def test_a_row_has_the_columns_of_its_struct(name: str) -> None:
    but_for = frozenset(OF_ONE_SOURCE.get(name, ()))
    assert list(differences(ROWS[name], getattr(staging, name), but_for=but_for)) == []


def test_every_struct_has_a_type() -> None:
    assert {name for name, value in vars(staging).items() if isinstance(value, StructType)} == ROWS.keys() | WITHOUT_A_TYPE


@pytest.mark.parametrize(
    ("struct", "declared"),
    [
        (struct_of(staging.COMMIT_SIGNS["unsubscribed"]), UnsubscribedTopic),
        (struct_of(staging.COMMIT_SIGNS["waiting"]), WaitingPartition),
        (struct_of(staging.COMMIT_SIGNS["expiring"]), ExpiringTopic),
        (struct_of(staging.COMMIT_SIGNS["expiring_if_deleted"]), ExpiringTopic),
        (struct_of(staging.GROWTH_FACTS["grown"]), GrownTopic),
    ],
)
def test_facts_have_the_columns_of_their_structs(struct: StructType, declared: type) -> None:
    assert list(differences(declared, struct)) == []


@pytest.mark.parametrize(
    ("struct", "declared", "names"),
    [
        (MOVEMENT, Movement, Movement._fields),
        (AUDIT, Balance, BALANCE_COLUMNS),
        (AUDIT, Difference, tuple(name for name in DIFFERENCE_COLUMNS if name != "movement_count")),
    ],
)
def test_figures_are_columns_of_their_table(struct: StructType, declared: type, names: tuple[str, ...]) -> None:
    known = StructType([field for field in struct if field.name in names])
    others = frozenset(typing.get_type_hints(declared).keys() - set(names))
    assert list(differences(declared, known, but_for=others)) == []


def test_other_columns_of_an_audit_are_columns_of_its_table() -> None:
    assert {"movement_count", *BOUND_COLUMNS, *SOLUTION_COLUMNS} <= set(AUDIT.names)


class Inner(TypedDict):
    b: int


class Outer(TypedDict):
    number: bool
    flag: int | None
    texts: list[int]
    one: Inner
    extra: str


def test_a_class_that_differs_is_found() -> None:
    inner = StructType([StructField("a", IntegerType())])
    struct = StructType(
        [
            StructField("number", IntegerType()),
            StructField("flag", BooleanType()),
            StructField("texts", ArrayType(StringType())),
            StructField("one", inner),
            StructField("words", MapType(StringType(), StringType())),
        ]
    )
    assert list(differences(Outer, struct)) == [
        "extra: only in Outer",
        "words: not in Outer",
        "flag: <class 'int'> in a column of type boolean",
        "number: <class 'bool'> in a column of type int",
        "one.b: only in Inner",
        "one.a: not in Inner",
        "texts: <class 'int'> in a column of type string",
    ]
