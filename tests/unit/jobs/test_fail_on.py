"""The line that a run ends with if it has serious findings."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from jobs import gates, pipeline
from jobs.runtime.errors import GateFailedError
from schemas.vocabulary import Severity


@pytest.mark.parametrize(("count", "said"), [(1, "1 finding is of severity critical"), (2, "2 findings are of severity critical")])
def test_one_finding_is_said_in_the_singular(monkeypatch: pytest.MonkeyPatch, count: int, said: str) -> None:
    monkeypatch.setattr(gates, "count_serious", lambda *_: count)
    request: Any = SimpleNamespace(settings=SimpleNamespace(quality=SimpleNamespace(fail_on=Severity.CRITICAL)))
    with pytest.raises(GateFailedError, match=f"^published, but {said} or above"):
        pipeline._check_fail_on(None, request, 1, None)  # type: ignore[arg-type]
