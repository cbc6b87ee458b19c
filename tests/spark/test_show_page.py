"""Show and explain on the demo: what their page shows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from jobs.cli import console_main

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "show.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"^```bash\n\./spark-submit\.sh ((?:show|explain) .*?)\n```\n\n```text\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL)


def test_each_command_of_the_page_has_its_output() -> None:
    assert len(SHOWN) == 3 == PAGE.count("```bash")


@pytest.mark.parametrize(("command", "output"), SHOWN)
def test_command_prints_what_the_page_shows(demo_warehouse: Path, capsys: pytest.CaptureFixture[str], command: str, output: str) -> None:
    assert console_main([*shlex.split(command), "--warehouse", str(demo_warehouse)]) == 0
    assert capsys.readouterr().out == output
