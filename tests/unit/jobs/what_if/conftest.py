"""The command ``what-if`` on the ``warehouse`` of a file of tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from jobs import cli


@pytest.fixture
def ask(warehouse: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Return what runs the command and gives its exit code, stdout and stderr."""

    def run(*words: str) -> tuple[int, str, str]:
        code = cli.console_main(["what-if", "--warehouse", str(warehouse), *words])
        written = capsys.readouterr()
        return code, written.out, written.err

    return run
