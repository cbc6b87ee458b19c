"""``docs/tables.md``, made from the declarations: ``python -m schemas.table_docs > docs/tables.md``."""

from __future__ import annotations

from schemas.tables import TABLES, TableSpec

HEAD = """# Tables

Made from `schemas/tables/`; every comment stands in Delta as well. All timestamps are UTC. Keys are unique; facts are partitioned by
`observed_month`. A snapshot's key is (`cluster_id`, `group_id`, `generation`, `observed_at`, `position`): `position` orders the
snapshots of one group strictly. The [glossary](glossary.md) defines **snapshot**, **position** and the other words of this page.

Whose owner changed, and how (`movements.kind`); an owner is a `group_instance_id` where there is one, else a `member_id`:

| previous owner | owner now | previous owner still a member? | kind |
|---|---|---|---|
| a | a | - | `retained` (counted, not stored) |
| a | b | yes | `revoked` |
| a | b | no | `reassigned` |
| none | b | - | `gained` (cause `handed_over` or `returned` after it was withheld, `topic_recreated`) |
| a | none | yes | `lost` (cause `topic_deleted`, `unsubscribed`, `withheld`, `left_out`) |
| a | none | no | `orphaned` (cause likewise) |
"""


def to_markdown() -> str:
    """Return the page on all tables."""
    return "\n".join([HEAD, *(_section(spec) for spec in TABLES.values())])


def _section(spec: TableSpec) -> str:
    lines = [
        f"## {spec.name}",
        "",
        spec.comment,
        "",
        f"Key: {', '.join(f'`{name}`' for name in spec.key)}",
        "",
        "| column | type | meaning |",
        "|---|---|---|",
    ]
    lines += [f"| `{column.name}` | `{column.dataType.simpleString()}` | {column.metadata['comment']} |" for column in spec.stored_schema]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    print(to_markdown(), end="")
