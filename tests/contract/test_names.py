"""Names of code, columns and settings in docstrings, comments and pages exist."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from pydantic import BaseModel

from schemas.config import Settings
from schemas.tables import ALL_TABLES

ROOT = Path(__file__).parents[2]
PACKAGES = ("assignors", "jobs", "schemas")
DOTTED = re.compile(r"(?<![`\w])`{1,2}([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)(?:\(\))?`{1,2}(?!`)")
"""A name with dots between single or double backticks."""
PATHS = re.compile(
    r"(?<![\w/.])((?:assignors|jobs|schemas|conf|docs|tests)/[\w/.-]*\w\.(?:py|md|yaml|conf|json|jsonl|txt|parquet|gz|java))\b"
)
FILE_ENDINGS = {"csv", "html", "json", "py", "md", "yaml"}
"""What is behind the last dot of a name that is a file's."""
OF_JAVA = ("java.lang.", "java.util.")
UNCLEAR = {"told", "tells", "settle", "behind"}
"""Words with so many meanings that nothing has one of them as its whole name."""


def tracked(*patterns: str) -> list[Path]:
    names = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


@cache
def modules() -> dict[str, Path]:
    """Return each module of the packages by its dotted name, and by its own name where no other has it."""
    found: dict[str, list[Path]] = {}
    for path in tracked(*(f"{package}/*.py" for package in PACKAGES)):
        parts = path.relative_to(ROOT).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        for name in {".".join(parts), parts[-1]}:
            found.setdefault(name, []).append(path)
    return {name: paths[0] for name, paths in found.items() if len(paths) == 1}


@cache
def members(path: Path) -> dict[str, ast.AST]:
    """Return what a module defines or imports at its top, by name."""
    found: dict[str, ast.AST] = {}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found[node.name] = node
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {alias.asname or alias.name: node for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found[node.id] = node
    return found


def attributes(node: ast.AST) -> set[str]:
    """Return what a class has: methods, fields, and attributes that its methods set."""
    names = {child.name for child in ast.walk(node) if isinstance(child, ast.FunctionDef)}
    names |= {child.attr for child in ast.walk(node) if isinstance(child, ast.Attribute)}
    return names | {child.id for child in ast.walk(node) if isinstance(child, ast.Name)}


def problem(name: str) -> str | None:
    """Return what a dotted name lacks; None where it is there, or is none of ours."""
    first, *rest = name.split(".")
    if rest[-1] in FILE_ENDINGS or name.startswith(OF_JAVA):
        return None
    if first in ALL_TABLES:
        return None if rest[0] in ALL_TABLES[first].stored_schema.names else f"no column {rest[0]} in {first}"
    if first in Settings.model_fields:
        section = Settings.model_fields[first].annotation
        is_section = isinstance(section, type) and issubclass(section, BaseModel)
        return None if not is_section or rest[0] in section.model_fields else f"no setting {rest[0]} in {first}"
    module = next((at for at in range(len(name.split(".")), 0, -1) if ".".join(name.split(".")[:at]) in modules()), 0)
    if not module:
        return f"no module {name}" if first in PACKAGES else None
    path, rest = modules()[".".join(name.split(".")[:module])], name.split(".")[module:]
    if not rest:
        return None
    if rest[0] not in members(path):
        return f"no {rest[0]} in {path.relative_to(ROOT)}"
    node = members(path)[rest[0]]
    return f"no {rest[1]} in {rest[0]}" if len(rest) > 1 and isinstance(node, ast.ClassDef) and rest[1] not in attributes(node) else None


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the docstrings and comments of a file of code, and the lines of a page without blocks of code, each with its line."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        plain = re.sub(r"```.*?```", lambda block: "\n" * block[0].count("\n"), text, flags=re.DOTALL)
        yield from enumerate(plain.splitlines(), 1)
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and token.string.lstrip("rbf").startswith('"""')):
            yield token.start[0], token.string


def test_dotted_names_are_there() -> None:
    """Of modules and what is in them, of columns of tables, and of settings."""
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {name}: {said}"
        for path in tracked("*.md", *(f"{package}/*.py" for package in PACKAGES))
        if "golden" not in path.parts
        for line, text in prose(path)
        for name in DOTTED.findall(text)
        if (said := problem(name)) is not None
    ]
    assert not wrong, "\n".join(wrong)


def test_paths_are_there() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in tracked("*.md", *(f"{package}/*.py" for package in PACKAGES))
        for line, text in prose(path)
        for name in PATHS.findall(text)
        if not (ROOT / name).exists()
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("runs.software_versions", None),
        ("runs.nothing", "no column nothing in runs"),
        ("workers.memory_mb", None),
        ("workers.nothing", "no setting nothing in workers"),
        ("jobs.storage.warehouse.Warehouse.recover", None),
        ("jobs.storage.warehouse.Warehouse.nothing", "no nothing in Warehouse"),
        ("deduplication.nothing", "no nothing in jobs/land/deduplication.py"),
        ("jobs.nothing", "no nothing in jobs/__init__.py"),
        ("group.instance.id", None),
    ],
)
def test_missing_name_is_reported(name: str, said: str | None) -> None:
    assert problem(name) == said


def bound(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the names of functions, classes, arguments, variables, attributes and imported things, each with its line."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from ((node.lineno, alias.asname) for alias in node.names if alias.asname is not None)
        elif isinstance(node, ast.ExceptHandler) and node.name is not None:
            yield node.lineno, node.name


def unclear(path: Path, text: str) -> list[str]:
    """Return the names in a module that are one of the unclear words, and the module's own name if it is one."""
    names = [(0, path.stem), *bound(ast.parse(text))]
    return [f"{path}:{line} {name}" for line, name in names if name.strip("_").lower() in UNCLEAR]


def test_nothing_has_an_unclear_name() -> None:
    paths = tracked(*(f"{package}/*.py" for package in (*PACKAGES, "tests")))
    assert [line for path in paths for line in unclear(path, path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(
    "code",
    [
        "told = 1",
        "def settle(): pass",
        "def f(behind): pass",
        "class A:\n    tells: int",
        "a._told = 1",
        "import a as told",
        "[told for told in a]",
        "BEHIND = 1",
    ],
)
def test_unclear_name_is_reported(code: str) -> None:
    assert len(unclear(Path("a.py"), code)) == 1


def test_unclear_module_name_is_reported() -> None:
    assert unclear(Path("jobs/told.py"), "is_settled = held = 1") == ["jobs/told.py:0 told"]
