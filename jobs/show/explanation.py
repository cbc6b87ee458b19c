"""The JSON of ``explain``: its published shape. ``python -m jobs.show.explanation > docs/explain.schema.json`` writes the schema."""

from __future__ import annotations

import json
from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field

from jobs.show.explained import Explained
from jobs.show.explained_text import all_rows, row_numbers, statement_text
from jobs.show.statements import Statement

FORMAT_VERSION = 1
"""Changes when a reader of the JSON would have to change."""


class ExplainedRows(BaseModel):
    """Rows of a table that show what a statement says."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    number: int = Field(ge=1, description="number of these rows in this document")
    table: str = Field(description="table of the warehouse")
    key: dict[str, str | int] = Field(description="key columns with their values, as they are stored")
    row_count: int = Field(ge=1, description="how many rows have this key")


class ExplainedStatement(BaseModel):
    """One thing that is said of the generation."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str = Field(description="plain English on one line; characters of names that do not print are escaped")
    rows: tuple[int, ...] = Field(description="numbers of the rows that show it")


class Explanation(BaseModel):
    """What one generation of a consumer group did, why it came about, and what to change."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format_version: int = Field(ge=FORMAT_VERSION, le=FORMAT_VERSION, description="version of this format")
    cluster_id: str = Field(description="the Kafka cluster")
    group_id: str = Field(description="the consumer group, as it is stored")
    generation: int = Field(description="generation id, or group epoch under the consumer protocol")
    position: int = Field(description="orders the generations of the group")
    observed_at: datetime = Field(description="when the generation began, or was seen if its source shows moments, UTC")
    until: datetime | None = Field(description="when the next generation began or was seen; null for the newest one")
    empty_since: datetime | None = Field(description="since when the group has had no members; null if it has some")
    deleted_at: datetime | None = Field(description="when the group was deleted; null if it was not")
    strategy: str = Field(description="the assignor; empty without members, or if it is not known")
    member_count: int = Field(ge=0, description="members of the generation")
    happened: tuple[ExplainedStatement, ...] = Field(description="what the generation did")
    why: tuple[ExplainedStatement, ...] = Field(description="why it came about, and where its imbalance comes from")
    change: tuple[ExplainedStatement, ...] = Field(
        description="what to change: first what holds now, then what is past, each with the most severe first"
    )
    rows: tuple[ExplainedRows, ...] = Field(description="the rows that show the statements")


def explanation(explained: Explained) -> Explanation:
    """Return the document of an explanation."""
    group = explained.described.group

    def stated(statements: tuple[Statement, ...]) -> tuple[ExplainedStatement, ...]:
        return tuple(ExplainedStatement(text=statement_text(one), rows=row_numbers(explained, one)) for one in statements)

    rows = enumerate(all_rows(explained), 1)
    return Explanation(
        format_version=FORMAT_VERSION,
        cluster_id=group.key.cluster_id,
        group_id=group.key.group_id,
        generation=group.audit["generation"],
        position=group.audit["position"],
        observed_at=group.audit["observed_at"],
        until=group.until,
        empty_since=group.empty_since,
        deleted_at=group.deleted_at,
        strategy=group.audit["strategy"],
        member_count=group.audit["member_count"],
        happened=stated(explained.happened),
        why=stated(explained.why),
        change=stated(explained.change),
        rows=tuple(ExplainedRows(number=number, table=one.table, key=dict(one.key), row_count=one.row_count) for number, one in rows),
    )


def schema() -> str:
    """Return the JSON schema of ``Explanation``, as docs/explain.schema.json has it."""
    made = Explanation.model_json_schema(mode="serialization")
    return json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **made}, indent=2) + "\n"


if __name__ == "__main__":
    print(schema(), end="")
