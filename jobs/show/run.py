"""Show and explain: what the last published run has stored of groups. Reads a local folder, without Spark."""

from __future__ import annotations

import json

from jobs.reading.fleet import read_fleet
from jobs.reading.groups import find_groups
from jobs.reading.names import listed, shown, spellings
from jobs.reading.one_group import newest_moment, read_group_generation
from jobs.reading.published import PublishedTables, open_published
from jobs.reading.stored import GroupKey
from jobs.runtime.errors import UsageError
from jobs.show.described import DescribedGeneration, asks_for_calm, describe_generation
from jobs.show.document import generation_document, list_document
from jobs.show.explained import explain
from jobs.show.explained_text import explained_lines, explained_markdown
from jobs.show.explanation import explanation
from jobs.show.options import ExplainOptions, GenerationOptions, ShowOptions
from jobs.show.ordered import order_groups
from jobs.show.text import generation_lines, list_lines

MOST_GROUPS = 50
"""Lines of a list without ``--limit``."""


def answer_show(options: ShowOptions, warehouse: str) -> str:
    """Return one generation of a group, or the list of groups, as text or as one JSON document.

    Args:
        warehouse: where the tables are.

    Raises:
        UsageError: there is no such group or generation, or several clusters have the group.
        NotAWarehouseError: there are no tables, or nothing is published.
        WarehouseDamagedError: a table cannot be read.
    """
    tables = open_published(warehouse)
    key = None if options.group is None else _one_group(tables, options.group, options)
    if key is not None:
        if options.json and options.limit is not None:
            raise UsageError("--limit of one group excludes --json: the document has all rows")
        described = _describe(tables, key, options)
        if options.json:
            return json.dumps(generation_document(described), indent=1)
        return "\n".join(generation_lines(described, options.limit or 0))
    if options.generation is not None or options.at is not None:
        raise UsageError("--generation and --at need the name of one group")
    groups = order_groups(read_fleet(tables, options.group, options.cluster_id))
    if options.json:
        return json.dumps(list_document(groups[: options.limit] if options.limit else groups), indent=1)
    return "\n".join(list_lines(groups, MOST_GROUPS if options.limit is None else options.limit))


def answer_explain(options: ExplainOptions, warehouse: str) -> str:
    """Return what a generation of a group did, why, and what to change, in the format that is asked for.

    Raises:
        UsageError: there is no such group or generation, or several clusters have the group.
        NotAWarehouseError: there are no tables, or nothing is published.
        WarehouseDamagedError: a table cannot be read.
    """
    tables = open_published(warehouse)
    key = _one_group(tables, options.group, options)
    if key is None:
        raise UsageError(f"group {shown(options.group)}: is a pattern of several groups, expected the name of one")
    explained = explain(_describe(tables, key, options))
    if options.format == "json":
        return json.dumps(explanation(explained).model_dump(mode="json"), indent=1)
    lines = explained_markdown(explained) if options.format == "markdown" else explained_lines(explained)
    return "\n".join(lines)


def _one_group(tables: PublishedTables, name: str, options: GenerationOptions) -> GroupKey | None:
    """Return the group that has a name; None where the name is a pattern that groups match.

    Raises:
        UsageError: there is no such group, or several clusters have it.
    """
    keys = [key for key in find_groups(tables, [name], cluster_id=options.cluster_id) if key.group_id in spellings(name)]
    if len(keys) > 1:
        raise UsageError(f"group {shown(name)}: is in the clusters {listed(key.cluster_id for key in keys)}; choose one with --cluster-id")
    return keys[0] if keys else None


def _describe(tables: PublishedTables, key: GroupKey, options: GenerationOptions) -> DescribedGeneration:
    """Return the generation that is asked for.

    Raises:
        UsageError: there is no such generation.
    """
    if options.generation is not None and options.at is not None:
        raise UsageError("--generation and --at exclude each other")
    group = read_group_generation(tables, key, options.generation, options.at)
    moment = newest_moment(tables, key.cluster_id, group.newest_at) if asks_for_calm(group) else None
    return describe_generation(group, moment)
