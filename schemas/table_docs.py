"""``docs/tables.md``, made from the declarations: ``python -m schemas.table_docs > docs/tables.md``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from schemas.tables import COMPUTED_TABLES, OPTIONAL_TABLES, TABLES, TableSpec

GLOSSARY = Path(__file__).parents[1] / "docs" / "glossary.md"

HEAD = """# Tables

Made from `schemas/tables/`. A table in Delta has the comments of the release that created it. All timestamps are UTC. Keys are unique.
Facts are partitioned by `observed_month`. The key of a snapshot is (`cluster_id`, `group_id`, `generation`, `observed_at`, `position`):
`position` orders the snapshots of one group without ties. The [glossary](glossary.md) defines **snapshot**, **position** and other words.
The first use of each is a link.

`movements.kind` follows from the owners before and now. An owner is a `group_instance_id` if there is one, else a `member_id`:

| previous owner | owner now | previous owner still a member? | kind |
|---|---|---|---|
| a | a | - | `retained` (counted, not stored) |
| a | b | yes | `revoked` |
| a | b | no | `reassigned` |
| none | b | - | `gained` (cause `handed_over` or `returned` after it was withheld, `topic_recreated`) |
| a | none | yes | `lost` (cause `topic_deleted`, `unsubscribed`, `withheld`, `left_out`) |
| a | none | no | `orphaned` (causes as for `lost`) |
"""


def to_markdown() -> str:
    """Return the page on all tables."""
    page = "\n".join([HEAD, *(_section(spec) for spec in (*TABLES.values(), *OPTIONAL_TABLES.values(), *COMPUTED_TABLES.values()))])
    return link_terms(page, glossary_links(GLOSSARY.read_text(encoding="utf-8")))


def glossary_links(glossary: str) -> dict[str, str]:
    """Return each term of the glossary in lower case with a link to the section that defines it.

    >>> glossary_links("# Glossary\\n\\n## In Kafka\\n\\n**lag**: How many.\\n")
    {'lag': 'glossary.md#in-kafka'}
    """
    links, anchor = {}, ""
    for heading, term in re.findall(r"^(?:#+ (.*)|\*\*([^*]+)\*\*: .*)$", glossary, re.MULTILINE):
        if heading:
            anchor = re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
        else:
            links[term.lower()] = f"glossary.md#{anchor}"
    return links


def link_terms(page: str, links: Mapping[str, str]) -> str:
    """Return a page of Markdown with a link at the first use of each term; headings, code and other links stay as they are.

    >>> link_terms("## lag\\n`lag`: the Lags of a lag", {"lag": "glossary.md#in-kafka"})
    '## lag\\n`lag`: the [Lags](glossary.md#in-kafka) of a lag'
    """
    names = "|".join(map(re.escape, sorted(links, key=len, reverse=True)))
    pattern = re.compile(rf"^#.*$|`[^`]*`|\[[^\]]*\]\([^)]*\)|(?<![\w-])(?P<term>{names})s?(?![\w-])", re.MULTILINE | re.IGNORECASE)
    linked: set[str] = set()

    def link(found: re.Match[str]) -> str:
        term = (found["term"] or "").lower()
        if not term or term in linked:
            return found[0]
        linked.add(term)
        return f"[{found[0]}]({links[term]})"

    return pattern.sub(link, page)


def _section(spec: TableSpec) -> str:
    lines = [
        f"## {spec.name}",
        "",
        spec.comment + (f" The first {spec.created_by} creates the table." if spec.created_by else ""),
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
