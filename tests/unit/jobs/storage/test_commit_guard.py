"""Commits of another program: the run that meets one ends with one line, whatever is in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from jobs.runtime.errors import ForeignCommitError
from jobs.storage.commit_guard import CommitGuard


@pytest.mark.parametrize(
    "content", ['{"txn": {"appId": "x", "version": 1}}', "", "{", "7", "\xff", '{"commitInfo": 7}', '{"commitInfo": {}}']
)
def test_commit_that_names_no_writer_is_of_an_unknown_one(tmp_path: Path, content: str) -> None:
    """Delta's protocol does not ask for the information; and a commit may be read while it is written."""
    log = tmp_path / "findings" / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{1:020}.json").write_text(content, encoding="latin-1")
    guard = CommitGuard(cast(Any, None), str(tmp_path))
    guard._expected_versions = {"findings": 0}
    with pytest.raises(ForeignCommitError, match=r"findings: expected version 0, .* found version 1 by an unknown writer"):
        guard.check_left("findings", 1)
