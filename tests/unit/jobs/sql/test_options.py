"""What ``sql`` refuses before Spark starts."""

from __future__ import annotations

import pytest

from jobs import cli
from jobs.parser import parse
from jobs.runtime.errors import UsageError
from jobs.sql.options import SqlOptions
from jobs.sql.questions import QUESTIONS


@pytest.mark.parametrize("words", [["sql"], ["sql", "SELECT 1", "--question", "why"]])
def test_either_a_query_or_a_question_is_needed(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "_execute", lambda *_: pytest.fail("a session was opened"))
    with pytest.raises(UsageError, match="expected a query or --question"):
        cli.main(words)


@pytest.mark.parametrize("words", [["--question", "who"], ["SELECT 1", "--limit", "-1"], ["SELECT 1", "--format", "xml"]])
def test_option_with_another_value_is_refused(words: list[str]) -> None:
    with pytest.raises(UsageError, match=words[-2] if len(words) > 2 else words[0]):
        parse(["sql", *words])


def test_question_is_its_query() -> None:
    assert SqlOptions(question="why").text() == QUESTIONS["why"] != SqlOptions(query="SELECT 1").text()
