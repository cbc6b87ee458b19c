"""What the stage ``lint`` asks of the code: every tool runs, types are checked strictly, and an exception says why it is one."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("assignors", "schemas", "jobs")
TOOLS = ["-m ruff check .", "-m ruff format --check .", "-m mypy"]
WITH_REASON = re.compile(r"# type: ignore\[[a-z-]+(, [a-z-]+)*\]  # \w.+")


def unexplained(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of every comment that silences the type checker without a code and a reason."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and "type: ignore" in token.string and not WITH_REASON.fullmatch(token.string):
            yield token.start[0], token.string


def lint_function() -> str:
    """Return the shell function of ``.ci/run`` that the stage calls."""
    match = re.search(r"^lint\(\) \{\n.*?^\}\n", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert match is not None
    return match[0]


@pytest.mark.parametrize("failing", ["nothing", *TOOLS])
def test_lint_runs_every_tool_and_fails_with_any(failing: str, tmp_path: Path) -> None:
    python, log = tmp_path / "python", tmp_path / "log"
    python.write_text(f'#!/bin/sh\necho "$*" >>"{log}"\n[ "$*" != "{failing}" ]\n')
    python.chmod(0o755)
    done = subprocess.run(["bash", "-c", f"{lint_function()}python={python}; lint"], cwd=ROOT, timeout=60)
    assert log.read_text().splitlines() == TOOLS
    assert done.returncode == (failing != "nothing")


def test_types_are_checked_strictly_in_every_package() -> None:
    (section,) = re.findall(r"^\[tool\.mypy\]\n(.*?)^\[\[", (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert "\nstrict = true\n" in section
    (files,) = re.findall(r"^files = \[(.*)\]$", section, re.MULTILINE)
    assert files == ", ".join(f'"{package}"' for package in PACKAGES)


def test_no_module_is_left_out_of_the_type_check() -> None:
    """An override may only say how other people's packages are read."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert re.search(r"ignore_errors|follow_imports|disable_error_code|^exclude", text, re.MULTILINE) is None
    modules = [name for names in re.findall(r"^module = \[(.*)\]$", text, re.MULTILINE) for name in re.findall(r'"([\w.]+)', names)]
    assert modules and [name for name in modules if name.split(".")[0] in PACKAGES] == []


def test_a_silenced_error_has_its_code_and_a_reason() -> None:
    files = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    assert [(path.name, *found) for path in files for found in unexplained(path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(
    "comment", ["# type: ignore", "# type: ignore[arg-type]", "# type: ignore[arg-type]  #", "# type: ignore  # because"]
)
def test_a_silenced_error_without_code_or_reason_is_found(comment: str) -> None:
    assert list(unexplained(f"x = 1\ny = x  {comment}\n")) == [(2, comment)]


def test_no_frame_of_a_window_goes_from_each_row_to_the_end() -> None:
    """Spark goes through the rest of the window again for each row. It does not for an aggregate of the whole window, or from its end."""
    files = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    assert [path.name for path in files if "unboundedFollowing" in path.read_text(encoding="utf-8")] == []


def test_rows_that_are_sorted_for_workers_are_not_distributed_by_a_repartition() -> None:
    """Spark may leave it out: see ``jobs.workers.partitions``. Only rows of an aggregate or a window may be distributed so."""
    sorting = {}
    for path in sorted((ROOT / "jobs").rglob("*.py")):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef):
                called = {node.attr for node in ast.walk(function) if isinstance(node, ast.Attribute)}
                if "sortWithinPartitions" in called:
                    sorting[f"{path.name} {function.name}"] = called
    assert len(sorting) > 5
    assert [name for name, called in sorting.items() if "repartition" in called] == []
