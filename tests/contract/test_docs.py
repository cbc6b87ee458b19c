"""What the documents promise: pages are what the code declares, links lead to something, and every command block of the README runs."""

from __future__ import annotations

import ast
import configparser
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jobs.findings import page as findings_page
from jobs.launcher.command_line import WITHOUT_SPARK
from jobs.launcher.making import DEFAULT_EXTRAS
from jobs.sql.questions import QUESTIONS
from schemas import table_docs
from schemas.tables import CONTRACT_VERSION
from tests.conftest import Evenkeel

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(bash|python)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
THIS_VERY_RUN = ".ci/run\n"
"""The one block that is not started here: it would start this test again, and is what runs it."""


def test_the_page_on_tables_is_made_from_the_declarations() -> None:
    assert (ROOT / "docs" / "tables.md").read_text(encoding="utf-8") == table_docs.to_markdown()


def test_the_page_on_findings_is_made_from_the_catalogue() -> None:
    assert (ROOT / "docs" / "findings.md").read_text(encoding="utf-8") == findings_page.to_markdown()


@pytest.mark.parametrize("page", ["architecture.md", "contributing.md"])
def test_a_page_on_the_code_names_files_that_exist(page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    named = {name for name in re.findall(r"`([\w./*-]+)`", text) if "/" in name and not name.startswith(("./", "/"))}
    assert named and {name for name in named if not any(ROOT.glob(name))} == set()


def test_pages_name_what_is_in_the_files_that_they_name() -> None:
    pages = " ".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md") if path.name != "changelog.md")
    name, file = r"`[A-Za-z_]+`", r"`((?:tests|jobs|schemas|assignors)/[\w/.]+\.py)`"
    named = re.findall(rf"((?:{name}(?:,| and)?\s+)+)(?:of|in)\s+{file}", pages)
    missing = {
        (word, path)
        for words, path in named
        for word in re.findall(r"`([A-Za-z_]+)`", words)
        if not re.search(rf"^\s*(?:(?:def|class) {word}\b|{word}\b.*=)", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert len(named) > 5 and missing == set()


def test_pages_name_methods_that_exist() -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md"))
    named = set(re.findall(r"`([A-Z]\w+\.[a-z_]\w*)`", pages))
    trees = (ast.parse(path.read_text(encoding="utf-8")) for folder in ("jobs", "assignors") for path in (ROOT / folder).rglob("*.py"))
    classes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    methods = {f"{owner.name}.{part.name}" for owner in classes for part in owner.body if isinstance(part, ast.FunctionDef)}
    assert named and named - methods == set()


def test_the_page_on_reliability_names_tests_that_exist() -> None:
    named = re.findall(
        r"`((?:tests/|test_)\S+\.py)(?: -k (\w+|\"[^\"]+\"))?`", (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    )
    missing = []
    for file, words in named:
        paths = ROOT.glob(file if "/" in file else f"tests/faults/{file}")
        tests = [name for path in paths for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)]
        missing += [(file, word) for word in words.strip('"').split(" or ") if not any(word in name for name in tests)]
    assert len(named) > 50 and missing == []


def test_the_page_on_contributing_has_each_folder_of_tests() -> None:
    text = (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")
    folders = {f"tests/{path.name}" for path in (ROOT / "tests").iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert set(re.findall(r"^\| `(tests/\w+)` \|", text, re.MULTILINE)) == folders


def test_the_changelog_has_each_contract_version_newest_first() -> None:
    headings = re.findall(r"^## (.*)$", (ROOT / "docs" / "changelog.md").read_text(encoding="utf-8"), re.MULTILINE)
    versions = [re.sub(r"^Version (\d+) \(\d{4}-\d\d-\d\d\)$", r"\1", heading) for heading in headings]
    assert versions == ["Unreleased", *map(str, range(CONTRACT_VERSION, 0, -1))]


def test_the_readme_shows_how_to_run_every_test() -> None:
    assert [text for _, text in BLOCKS].count(THIS_VERY_RUN) == 1
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub makes of a page's headings."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))])
def test_links_lead_to_pages_and_headings(page: str) -> None:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", (ROOT / page).read_text(encoding="utf-8")):
        name, _, anchor = link.partition("#")
        target = (ROOT / page).parent / name if name else ROOT / page
        if "://" not in link and not (target.exists() and (not anchor or anchor in anchors(target))):
            broken.append(link)
    assert broken == []


def test_the_pages_show_the_query_of_each_question() -> None:
    pages = README + "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md")))
    shown = re.findall(r"^```sql\n(.*?)^```", pages, re.MULTILINE | re.DOTALL)
    assert {*QUESTIONS.values()} - {*shown} == set()


def test_the_readme_links_every_page() -> None:
    pages = {f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")}
    assert pages - set(re.findall(r"\]\(([^)#]+)", README)) == set()


@pytest.mark.parametrize("page", ["README.md", "docs/reading.md"])
def test_page_says_how_to_install_packages_that_its_examples_need(page: str) -> None:
    """Who has only called the launcher ran into a ModuleNotFoundError; here the packages are there, for other tests."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    extras = config["options.extras_require"]
    installed = [config["options"]["install_requires"], *(extras[name] for name in DEFAULT_EXTRAS)]
    names = {re.split("[^a-z0-9_]", line)[0] for text in installed for line in text.lower().split()}
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = "".join(re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    imported = set(re.findall(r"^(?:import|from) (\w+)", blocks, re.MULTILINE)) - set(sys.stdlib_module_names) - {"assignors"}
    named = {name for packages in re.findall(r"pip install ([\w ]+)`", text) for name in packages.split()}
    assert "deltalake" in imported and imported - names <= named


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the checkout."""
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, files):
        (tmp_path / "checkout" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, tmp_path / "checkout" / name)
    for made in (".venv", ".evenkeel"):
        (tmp_path / "checkout" / made).symlink_to(ROOT / made)
    return tmp_path / "checkout"


def call(checkout: Path, language: str, text: str) -> str:
    """Run a block in a process of its own, as a reader would, and return what it printed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK", "PYTHON", "EVENKEEL"))}
    command = ["bash", "-euc", text] if language == "bash" else [sys.executable, "-c", text]
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def check_results(checkout: Path, printed: str) -> None:
    """Compare what the blocks have printed and written with what the README says of it."""
    assert re.search(r"^```text\n(.*?)^```", README, re.MULTILINE | re.DOTALL)[1] in printed
    report = (checkout / "warehouse" / "report.html").read_text(encoding="utf-8")
    counted = [re.search(f"<dd>([^<]*)</dd><dt>{name}[,<]", report)[1] for name in ("groups", "generations seen")]
    assert counted == list(re.search(r"(\d+) groups\s+and\s+(\d+)\s+generations", README).groups())
    assert (checkout / "first-look" / "report.html").exists()


def test_every_block_of_the_readme_runs(
    evenkeel: Evenkeel, checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In order: later blocks read what earlier ones wrote. What takes Spark has the session of the tests, all else the launcher."""
    monkeypatch.chdir(checkout)
    printed = ""
    for language, text in BLOCKS:
        lines = text.splitlines() if language == "bash" and text != THIS_VERY_RUN else []
        for program, command, *words in map(shlex.split, lines):
            assert program == "./spark-submit.sh"
            if command in WITHOUT_SPARK or "--help" in words:
                printed += call(checkout, language, shlex.join([program, command, *words]))
            else:
                assert evenkeel(command, *words) == 0, text
                printed += capsys.readouterr().out
        if language != "bash":
            printed += call(checkout, language, text)
    check_results(checkout, printed)


@pytest.mark.slow
def test_every_block_of_the_readme_runs_as_it_is_written(checkout: Path) -> None:
    """Each in a process of its own, with a Spark of its own where it takes one."""
    check_results(checkout, "".join(call(checkout, language, text) for language, text in BLOCKS if text != THIS_VERY_RUN))
