"""The stages of ``.ci/run`` are those of the GitHub workflow and of the page on contributing. Nothing is run: both files are parsed."""

from __future__ import annotations

import configparser
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
WORKFLOW = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")
JOBS = {"short": ".ci/run ${{ matrix.stage }}", "weekly": ".ci/run --all ${{ matrix.stage }}"}
"""Job -> its only command that runs tests."""


def stages(profile: str) -> list[str]:
    """Return the stages that ``.ci/run`` declares as ``short`` or ``long``."""
    declaration = re.search(rf"^{profile}_stages=\((.*)\)$", SCRIPT, re.MULTILINE)
    assert declaration is not None, f".ci/run has no line {profile}_stages=(...)"
    return declaration[1].split()


@pytest.fixture(scope="module")
def workflow() -> dict[Any, Any]:
    return yaml.safe_load(WORKFLOW)


def versions(job: dict[str, Any], name: str) -> set[str]:
    """Return the versions of ``python`` or ``java`` in the matrix of the job ``short``."""
    matrix = job["strategy"]["matrix"]
    return {*matrix[name], *(combination[name] for combination in matrix["include"])}


def test_each_change_runs_the_short_stages(workflow: dict[Any, Any]) -> None:
    matrix = workflow["jobs"]["short"]["strategy"]["matrix"]
    assert matrix["stage"] == stages("short")
    assert {combination["stage"] for combination in matrix["include"]} <= set(stages("short"))


def test_each_week_runs_every_stage_once(workflow: dict[Any, Any]) -> None:
    entries = workflow["jobs"]["weekly"]["strategy"]["matrix"]["stage"]
    assert sorted(stage for entry in entries for stage in entry.split()) == sorted(stages("short") + stages("long"))
    # `.ci/run --all faults` runs mutation as well: an entry of its own would run it twice.
    assert "faults mutation" in entries


def test_each_job_calls_the_script(workflow: dict[Any, Any]) -> None:
    commands = {name: [step["run"] for step in job["steps"] if ".ci/run" in step.get("run", "")] for name, job in workflow["jobs"].items()}
    assert commands == {name: [command] for name, command in JOBS.items()}


def test_a_missing_tool_fails_a_job(workflow: dict[Any, Any]) -> None:
    """``tests.needs`` skips otherwise."""
    assert workflow["env"]["CI"] == "true"


def test_jobs_end_and_may_only_read(workflow: dict[Any, Any]) -> None:
    assert workflow["permissions"] == {"contents": "read"}
    assert [name for name, job in workflow["jobs"].items() if "timeout-minutes" not in job or "permissions" in job] == []


def test_actions_are_pinned_to_a_major_version(workflow: dict[Any, Any]) -> None:
    used = {step["uses"] for job in workflow["jobs"].values() for step in job["steps"] if "uses" in step}
    assert used and [name for name in used if not re.fullmatch(r"actions/[a-z-]+@v\d+", name)] == []


def test_the_oldest_and_the_newest_python_and_each_java_are_tested(workflow: dict[Any, Any]) -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    oldest, beyond = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", config["options"]["python_requires"]).groups()
    short = workflow["jobs"]["short"]
    assert {f"3.{oldest}", f"3.{int(beyond) - 1}"} <= versions(short, "python")
    java = re.search(r"Java (\d+) or (\d+)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert java is not None and versions(short, "java") == set(java.groups())


def test_a_change_of_the_lock_makes_a_new_cache() -> None:
    hashed = re.findall(r"hashFiles\('([^']*)'\)", WORKFLOW)
    assert hashed and [name for name in hashed if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize("profile", ["short", "long"])
def test_the_page_on_contributing_lists_the_stages(profile: str) -> None:
    section = PAGE.split(f"### The {profile} stages\n")[1].split("\n#")[0]
    assert re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE) == stages(profile)
