"""Members have names that people know, and no two of a group share one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.pages.member_names import is_bare, name_members
from tests.builders.report_rows import MEMBER, OTHER

BARE, TWIN = "NEe1Jv0ERwmmoYil2vjMug", "L/hVpT78QoSQ0vvl4g4ktA"
LATER = "orders-1-9a1c2b3d-581a-4472-bdf3-3515b4aee8c1"
UUID = "3fc8d6f1-581a-4472-bdf3-3515b4aee8c1"


def known(member_id: str, **facts: Any) -> dict[str, Any]:
    return {"member_id": member_id, "group_instance_id": None, "client_id": None, "client_host": None} | facts


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([known(BARE, client_id="orders"), known(TWIN, client_id="billing")], {BARE: "orders", TWIN: "billing"}),
        (
            [known(BARE, client_id="orders", client_host="/10.0.0.1"), known(TWIN, client_id="orders", client_host="/10.0.0.2")],
            {BARE: "orders @ 10.0.0.1", TWIN: "orders @ 10.0.0.2"},
        ),
        (
            [known(BARE, client_id="orders", client_host="/10.0.0.1"), known(TWIN, client_id="orders", client_host="/10.0.0.1")],
            {BARE: "orders @ 10.0.0.1 NEe1Jv0E\N{HORIZONTAL ELLIPSIS}", TWIN: "orders @ 10.0.0.1 L/hVpT78\N{HORIZONTAL ELLIPSIS}"},
        ),
        ([known(BARE), known(UUID, group_instance_id="pearl")], {BARE: "member", UUID: "pearl"}),
        ([], {BARE: "member NEe1Jv0E\N{HORIZONTAL ELLIPSIS}", UUID: "member 3fc8d6f1\N{HORIZONTAL ELLIPSIS}"}),
        ([known(MEMBER, client_id="orders-1"), known(OTHER)], {MEMBER: "orders-1", OTHER: "orders-2"}),
        ([known(MEMBER), known(LATER)], {MEMBER: "orders-1-3fc8d6f1…", LATER: "orders-1-9a1c2b3d…"}),
        ([known(MEMBER), known(UUID, group_instance_id="orders-1")], {MEMBER: "orders-1-3fc8d6f1…", UUID: "orders-1"}),
    ],
    ids=[
        "client id",
        "host",
        "same host",
        "static",
        "nothing known",
        "client id in the id",
        "restarted",
        "an instance id like a client id",
    ],
)
def test_members_have_names_that_people_know(rows: list[dict[str, Any]], expected: dict[str, str]) -> None:
    assert name_members(expected, rows) == expected


def test_both_lives_of_a_static_member_have_its_instance_id() -> None:
    lives = [known(BARE, group_instance_id="pearl"), known(TWIN, group_instance_id="pearl")]
    assert name_members([BARE, TWIN], lives) == {BARE: "pearl", TWIN: "pearl"}


@given(st.lists(st.tuples(st.sampled_from([BARE, TWIN, UUID, "a", "member"]), *2 * [st.sampled_from([None, "a", "b @ c", "member"])])))
def test_no_name_is_a_bare_uuid_and_none_is_shared(found: list[tuple[str, str | None, str | None]]) -> None:
    rows = [known(member_id, client_id=client, client_host=host) for member_id, client, host in found]
    names = name_members((row["member_id"] for row in rows), rows)
    assert len(set(names.values())) == len(names) and not any(map(is_bare, names.values()))
