"""When findings on commits are computed again although no commit landed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from jobs.audit import run as audit
from jobs.audit.commit_findings import LANDED_UNTIL_READ_HERE, has_new_records
from jobs.context import MetadataIndex, RunContext, RunState
from jobs.storage.warehouse import Warehouse
from schemas.config import Settings
from tests.builders.frames import StoredInMemory, moment


@pytest.mark.parametrize(
    ("unread", "landed_until", "audited", "is_new"),
    [(None, {"c 3": 7}, 4, False), (4, {"c 3": 7}, 4, True), (None, {"c 3": 8}, 4, True), (None, {"c 3": 7}, 3, True)],
    ids=["nothing", "records of groups", "a log was read further", "a run that did not audit came before"],
)
def test_what_else_these_findings_use_is_news_too(unread: int | None, landed_until: dict[str, int], audited: int, is_new: bool) -> None:
    """A tombstone ends the retention of commits, and a member that reaches its target leaves a record of its own."""
    before = SimpleNamespace(landed_until={"c 3": 7})
    state = SimpleNamespace(landed_until=landed_until, consumed={LANDED_UNTIL_READ_HERE: audited})
    context: Any = SimpleNamespace(unread=lambda table, reader: unread, before=before, state=state, run_sequence=5)
    assert has_new_records(context) is is_new


def test_audit_without_news_notes_up_to_which_run_logs_are_known() -> None:
    warehouse, state = cast("Warehouse", StoredInMemory()), RunState(consumed={LANDED_UNTIL_READ_HERE: 3})
    context = RunContext(warehouse, Settings(), "fourth", moment(0), MetadataIndex(warehouse), before=state, state=state)
    assert audit.run(context).state.consumed[LANDED_UNTIL_READ_HERE] == 4
