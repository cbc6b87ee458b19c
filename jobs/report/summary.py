"""The summary that a run and ``report`` print at their end: what needs someone, what to change, and the next command."""

from __future__ import annotations

import json
import shlex
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from jobs.launcher.messages import program
from jobs.report.first_screen import NO_GROUP
from jobs.report.view import Page
from jobs.runtime.locations import local_folder

Facts = Mapping[str, Any]
TOTALS = ("groups", "members", "generations", "avoidable_movements")
"""The totals of the first screen by their names in JSON, in its order."""
WIDTH = 110


def facts_of(page: Page) -> dict[str, Any]:
    """Return the facts of a report as JSON has them; docs/reading-the-report.md lists them.

    Numbers that are not known are null. Texts are printable; times are UTC.
    """
    first = page.first_screen
    return {
        "run_id": page.run_id,
        "as_of": page.as_of,
        "data_until": first.data_until or None,
        "age": first.age,
        "totals": {name: figure.value for name, (figure, _) in zip(TOTALS, first.totals, strict=True)},
        "totals_in_words": [f"{figure.text} {words}" for figure, words in first.totals if figure.value is not None],
        "all_empty": first.all_empty,
        "need_count": first.need_count,
        "needs": [{name: value for name, value in asdict(line).items() if name != "anchor"} for line in first.needs],
        "past_count": first.past_count,
        "past": [{name: value for name, value in asdict(line).items() if name != "anchor"} for line in first.past],
        "clusters": len(page.clusters),
    }


def next_command(facts: Facts, warehouse: str) -> str | None:
    """Return the command to type next: it explains the group that needs someone first, or lists the groups.

    Args:
        facts: of the report.
        warehouse: where its tables are; None is returned unless that is a local folder, since these commands read no other. Nor is there a
            command if no generation has landed, since they show generations.
    """
    folder = local_folder(warehouse)
    if folder is None or (not facts["needs"] and facts["totals"].get("generations") == 0):
        return None
    words = ["show"]
    if facts["needs"]:
        worst = facts["needs"][0]
        words = ["explain", worst["group_id"]]
        words += ["--cluster-id", worst["cluster_id"]] if facts["clusters"] > 1 else []
    return shlex.join([program(), *words, "--warehouse", str(folder.absolute())])


def to_json(facts: Facts, report: Path, command: str | None) -> str:
    """Return one JSON object on one line.

    Args:
        facts: of the report.
        report: the page.
        command: to type next, if there is one.
    """
    return json.dumps({**facts, "report": report.absolute().as_uri(), "next_command": command}, ensure_ascii=False)


def to_text(facts: Facts, report: Path, command: str | None) -> str:
    """Return the summary for a terminal; arguments as of ``to_json``."""
    return "\n".join(_lines(facts, report, command))


def _lines(facts: Facts, report: Path, command: str | None) -> Iterator[str]:
    until = f"; data until {facts['data_until']}, {facts['age']} old" if facts["data_until"] else ""
    yield f"Evenkeel report as of {facts['as_of']} UTC, run {facts['run_id']}{until}"
    yield f"  {', '.join(facts['totals_in_words'])}"
    if facts["all_empty"]:
        yield f"  {facts['all_empty']}"
    yield ""
    count = facts["need_count"]
    if facts["totals"].get("groups") == 0:
        yield NO_GROUP
    yield "Nothing needs you." if not count else "1 group needs someone:" if count == 1 else f"{count:,} groups need someone:"
    has_clusters = facts["clusters"] > 1
    for line in facts["needs"]:
        name = f"{line['group_id']} ({line['cluster_id']})" if has_clusters else line["group_id"]
        yield f"  {name}: {line['rule']} ({line['severity']})" + (f", {line['since']}" if line["since"] else "")
        for text in (line["what"], f"as for {line['advised_above']}" if line["advised_above"] else line["advice"]):
            yield from textwrap.wrap(text, WIDTH, initial_indent="    ", subsequent_indent="    ")
    if count > len(facts["needs"]):
        yield f"  and {count - len(facts['needs']):,} more"
    if facts["past"]:
        yield ""
        yield "Past, and no longer so:"
        for line in facts["past"]:
            name = f"{line['group_id']} ({line['cluster_id']})" if has_clusters else line["group_id"]
            yield f"  {name}: {line['rule']} ({line['severity']}), last at {line['last_at']}"
        if facts["past_count"] > len(facts["past"]):
            yield f"  and {facts['past_count'] - len(facts['past']):,} more"
    yield ""
    yield f"report: {report.absolute().as_uri()}"
    if command is not None:
        yield f"next:   {command}"
