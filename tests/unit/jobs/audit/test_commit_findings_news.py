"""When findings on commits are computed again although no commit landed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from jobs.audit.commit_findings import has_new_records


@pytest.mark.parametrize(
    ("unread", "landed_until", "is_new"),
    [(None, {"c 3": 7}, False), (4, {"c 3": 7}, True), (None, {"c 3": 8}, True)],
    ids=["nothing", "records of groups", "a log was read further"],
)
def test_what_else_these_findings_use_is_news_too(unread: int | None, landed_until: dict[str, int], is_new: bool) -> None:
    """A tombstone ends the retention of commits, and a member that reaches its target leaves a record of its own."""
    before, state = SimpleNamespace(landed_until={"c 3": 7}), SimpleNamespace(landed_until=landed_until)
    context: Any = SimpleNamespace(unread=lambda table, reader: unread, before=before, state=state)
    assert has_new_records(context) is is_new
