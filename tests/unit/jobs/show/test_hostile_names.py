"""Names that somebody chose to do harm, in each format of show and explain."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import mistune
import pytest

from jobs.reading.fleet import GroupSummary, NewestFinding
from jobs.reading.one_group import GroupGeneration
from jobs.reading.stored import GroupKey
from jobs.show.described import describe_generation
from jobs.show.document import generation_document, list_document
from jobs.show.explained import explain
from jobs.show.explained_text import explained_lines, explained_markdown
from jobs.show.explanation import explanation
from jobs.show.text import generation_lines, list_lines
from schemas.vocabulary import Severity
from tests.builders.published_warehouse import START
from tests.faults.hostile_names import NAMES

HARMFUL = [*NAMES, "`` ` ``", "| a | b |", "[a](http://evil)", "![a](//evil)", "@everyone", "www.evil.com", "# a", "\ud800"]
"""Also what has a meaning in Markdown."""


def stored(names: Sequence[str], number: int) -> GroupGeneration:
    """Return a generation in which everything that a client may name has one of these names, the group the one of this number."""
    key = GroupKey(names[number], names[number])
    at = {**key._asdict(), "generation": 2, "position": 2, "observed_at": START}
    clients = [*names[number + 1 :], *names[:number]]
    members = [
        {
            **dict(zip(("member_id", "client_id", "client_host", "rack"), [name, *clients], strict=False)),
            "group_instance_id": name if index % 2 else None,
            "assigned": [{"topic": name, "partitions": [0]}],
        }
        for index, name in enumerate(clients)
    ]
    causes = [{"cause": "joined", "member_id": name, "source": "log", "detail": f"by {name}"} for name in clients]
    names_of_figures = ("generation_gap", "unassigned_count", "multiply_owned_count", "pause_partition_ms", "rebalance_ms")
    audit: dict[str, Any] = {
        **dict.fromkeys(names_of_figures),
        **dict.fromkeys(("revoked_count", "movement_count", "avoidable_movement_count", "idle_member_count", "member_count"), 3),
        **dict.fromkeys(("partition_count", "partitions_per_member_min", "partitions_per_member_max"), 3),
        **{
            **at,
            "basis": "observed",
            "strategy": names[number] or "none",
            "is_follow_up": False,
            "is_settled": True,
            "previous_generation": 1,
        },
        **{"imbalance_ratio": 2.0, "verdict": "better_elsewhere", "better_strategy": names[number], "better_gain": 1.0},
        **{"triggers": ["member_joined"], "causes": causes, "is_lower_bound": False},
    }
    found = [
        {
            **at,
            "rule_id": "idle_members",
            "severity": "warning",
            "message": f"Look at {name}, {name}",
            "advice": f"Stop {name}",
            "row_count": 1,
        }
        for name in clients
    ]
    moved = [
        {"topic": name, "partition": 0, "previous_member_id": name, "member_id": None, "kind": "lost", "cause": "left_out", "lag": None}
        for name in clients
    ]
    return GroupGeneration(
        key=key,
        audit=audit,
        snapshot={**at, "group_type": "classic", "members": members},
        previous=audit,
        previous_snapshot={**at, "position": 1, "members": members[: len(members) // 2]},
        movements=moved,
        findings=found,
        newest_findings=[{**found[0], "rule_id": "topics_missing", "evidence": None}],
        offsets={},
        generation_count=2,
        until=START + timedelta(seconds=1),
        empty_since=None,
        deletion=None,
        newest_position=3,
        newest_at=START,
    )


def listed(names: Sequence[str]) -> list[GroupSummary]:
    """Return groups of these names."""
    counts = dict.fromkeys(map(str, Severity), 1)
    keys = [GroupKey(cluster_id, group_id) for cluster_id, group_id in zip(reversed(names), names, strict=True)]
    found = (NewestFinding("warning", "restart_loop", None),)
    return [
        GroupSummary(key, "stable", 1, None, 1, START, key.cluster_id, 1, 2.0, key.group_id, 1.0, 0, 0, found, 0, counts) for key in keys
    ]


TEXTS: dict[str, Callable[[GroupGeneration], list[str]]] = {
    "show": lambda group: list(generation_lines(describe_generation(group))),
    "explain": lambda group: list(explained_lines(explain(describe_generation(group)))),
    "markdown": lambda group: list(explained_markdown(explain(describe_generation(group)))),
}


def numbered(names: Sequence[str]) -> list[str]:
    """Return harmless names of the same number."""
    return [f"name{number}" for number in range(len(names))]


@pytest.mark.parametrize("form", TEXTS)
@pytest.mark.parametrize("number", range(len(HARMFUL)))
def test_no_name_brings_a_line_or_a_character_that_a_terminal_obeys(form: str, number: int) -> None:
    lines = TEXTS[form](stored(HARMFUL, number))
    assert all(line.isprintable() for line in lines)
    assert len(lines) == len(TEXTS[form](stored(numbered(HARMFUL), number)))


def test_list_has_a_printable_line_for_each_group() -> None:
    lines = list(list_lines(listed(HARMFUL), 0))
    assert all(line.isprintable() for line in lines)
    assert len(lines) == len(list(list_lines(listed(numbered(HARMFUL)), 0)))


def outline(tokens: list[dict[str, Any]]) -> list[Any]:
    """Return what kinds of elements a text of Markdown has, without what they say."""
    merged = []
    for token in tokens:
        kind = (token["type"], outline(token.get("children", ())))
        if not (kind[0] == "text" and merged and merged[-1][0] == "text"):
            merged.append(kind)
    return merged


@pytest.mark.parametrize("number", range(len(HARMFUL)))
def test_no_name_is_markup(number: int) -> None:
    parse = mistune.create_markdown(renderer="ast", plugins=["table", "url", "strikethrough"])
    read = [outline(parse("\n".join(TEXTS["markdown"](stored(names, number))))) for names in (HARMFUL, numbered(HARMFUL))]
    assert read[0] == read[1]


def prose(tokens: list[dict[str, Any]]) -> str:
    """Return what a text of Markdown says outside code."""
    return "".join(token["raw"] if token["type"] == "text" else prose(token.get("children", [])) for token in tokens)


@pytest.mark.parametrize("number", range(len(HARMFUL)))
def test_nothing_outside_code_is_a_mention_or_an_address(number: int) -> None:
    parse = mistune.create_markdown(renderer="ast", plugins=["table"])
    said = prose(parse("\n".join(TEXTS["markdown"](stored(HARMFUL, number))))).lower()
    assert "pass" in said or "evil" in said
    assert not any(sign in said for sign in ("@", "://", "www."))


def test_json_has_the_names_as_they_are_in_ascii() -> None:
    described = describe_generation(stored(HARMFUL, 3))
    printed = json.dumps(generation_document(described))
    assert printed.isascii() and printed.isprintable()
    assert {one["member_id"] for one in json.loads(printed)["members"]} == {*HARMFUL} - {HARMFUL[3]}
    assert json.loads(json.dumps(list_document(listed(HARMFUL))))[5]["group_id"] == HARMFUL[5]
    document = json.dumps(explanation(explain(described)).model_dump(mode="json"))
    assert document.isascii() and json.loads(document)["group_id"] == HARMFUL[3]
    assert all(one["text"].isprintable() for one in json.loads(document)["happened"])
