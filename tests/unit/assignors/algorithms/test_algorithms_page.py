"""The sessions of ``docs/algorithms.md`` give what the page shows."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import assignors

PAGE = Path(__file__).parents[4] / "docs" / "algorithms.md"


def test_sessions_give_what_the_page_shows() -> None:
    sessions = "\n".join(re.findall(r"^```pycon\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL))
    names = {name: getattr(assignors, name) for name in assignors.__all__}
    results = doctest.DocTestRunner().run(doctest.DocTestParser().get_doctest(sessions, names, PAGE.name, str(PAGE), 0))
    assert results.attempted > 0
    assert results.failed == 0
