"""``conf/deploy/databricks.yml``: what the platform's loader says and does not check, and its task called as the platform does."""

from __future__ import annotations

import configparser
import copy
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from fnmatch import fnmatch
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml
from databricks.bundles.jobs import Job

from jobs.parser import parse
from jobs.runtime.session import read_conf_file
from schemas.tables import TABLES

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "conf" / "deploy" / "databricks.yml"
TOP_LEVEL = {"bundle", "variables", "artifacts", "sync", "resources", "targets"}
VARIABLE_KEYS = {"description", "default"}
ARTIFACT_KEYS = {"type", "path", "build"}
TARGET_KEYS = {"default", "resources"}
KEYED_LISTS = {"tasks": "task_key", "job_clusters": "job_cluster_key"}
"""Lists of a job whose items a target's item of the same key is laid over; others are put one after the other."""
PLATFORMS_OWN = {
    "spark.sql.extensions",
    "spark.sql.catalog.spark_catalog",
    "spark.databricks.delta.snapshotPartitions",
    "spark.ui.showConsoleProgress",
}
"""Settings that are about Delta's own release and catalog, which the platform has others of, and about a terminal."""
PLATFORM = Path(__file__).with_name("platform_task.py")
BUNDLE: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
JOBS = [(target, name) for target in BUNDLE["targets"] for name in BUNDLE["resources"]["jobs"]]


def laid_over(below: Any, above: Any, key: str = "") -> Any:
    """Return a part of the bundle with a target's part over it."""
    if isinstance(below, dict) and isinstance(above, dict):
        return {name: laid_over(below[name], above[name], name) if name in below and name in above else (above | below)[name]
                for name in [*below, *(name for name in above if name not in below)]}  # fmt: skip
    if isinstance(below, list) and isinstance(above, list):
        if key not in KEYED_LISTS:
            return below + above
        items = {item[KEYED_LISTS[key]]: item for item in below}
        for item in above:
            items[item[KEYED_LISTS[key]]] = laid_over(items.get(item[KEYED_LISTS[key]], {}), item)
        return list(items.values())
    return above


def job_of(target: str, name: str) -> dict[str, Any]:
    over = BUNDLE["targets"][target]["resources"]["jobs"].get(name, {})
    return laid_over(copy.deepcopy(BUNDLE["resources"]["jobs"][name]), over)


def texts(part: Any) -> Iterator[str]:
    """Yield every text in a part of the bundle."""
    if isinstance(part, dict | list):
        for item in part.values() if isinstance(part, dict) else part:
            yield from texts(item)
    elif isinstance(part, str):
        yield part


def filled(text: str, **values: str) -> str:
    """Return a text with its variables, the platform's own ones too, replaced."""
    defaults = {name: str(variable.get("default", "")) for name, variable in BUNDLE["variables"].items()} | values
    return re.sub(r"\$\{var\.(\w+)\}", lambda found: defaults[found[1]], text).replace("{{job.run_id}}", "1234")


def parameters(name: str, **values: str) -> list[str]:
    (task,) = BUNDLE["resources"]["jobs"][name]["tasks"]
    return [filled(parameter, **values) for parameter in task["python_wheel_task"]["parameters"]]


def libraries(job: dict[str, Any]) -> list[str]:
    """Return what is installed for the one task of a job."""
    (task,) = job["tasks"]
    if "environment_key" in task:
        (environment,) = [one for one in job["environments"] if one["environment_key"] == task["environment_key"]]
        return environment["spec"]["dependencies"]
    return [library["whl"] if "whl" in library else library["pypi"]["package"] for library in task["libraries"]]


# ------------------------------------------------------------------------------------------------------------- the file


@pytest.mark.parametrize(("target", "name"), JOBS)
def test_the_loader_of_the_platform_takes_each_job(target: str, name: str):
    job = job_of(target, name)
    assert Job.from_dict(job).as_dict() == job
    assert job["email_notifications"] == {"on_failure": ["${var.alerts}"]}
    assert job["schedule"]["timezone_id"] == "UTC" and len(job["schedule"]["quartz_cron_expression"].split()) == 6
    assert job["max_concurrent_runs"] == 1
    assert [task["python_wheel_task"]["package_name"] for task in job["tasks"]] == ["evenkeel"]


@pytest.mark.parametrize(("target", "name"), JOBS)
def test_a_mistyped_key_would_be_refused(target: str, name: str):
    """The loader does look into the parts that only a target has."""
    for section in ("tasks", "environments" if target == "serverless" else "job_clusters"):
        job = job_of(target, name)
        job[section][0]["no_such_key"] = 1
        with pytest.raises(ValueError, match="no_such_key"):
            Job.from_dict(job)


@pytest.mark.parametrize(("target", "name"), JOBS)
def test_every_key_that_a_job_refers_to_is_there(target: str, name: str):
    job = job_of(target, name)
    compute = {"environment_key": "environments", "job_cluster_key": "job_clusters"}
    for task in job["tasks"]:
        (reference,) = [key for key in compute if key in task]
        assert task[reference] in [one[reference] for one in job[compute[reference]]]
        assert {one["task_key"] for one in task.get("depends_on", [])} <= {other["task_key"] for other in job["tasks"]}
        assert ("libraries" in task) == (reference == "job_cluster_key")
    (used,) = {reference for task in job["tasks"] for reference in compute if reference in task}
    assert [one for key, one in compute.items() if key != used and one in job] == []


def test_bundle_has_only_known_keys_outside_of_jobs():
    assert set(BUNDLE) == TOP_LEVEL
    assert set(BUNDLE["bundle"]) == {"name"} and set(BUNDLE["sync"]) == {"exclude"} and set(BUNDLE["resources"]) == {"jobs"}
    assert {key for variable in BUNDLE["variables"].values() for key in variable} <= VARIABLE_KEYS
    assert {key for artifact in BUNDLE["artifacts"].values() for key in artifact} == ARTIFACT_KEYS
    assert {key for target in BUNDLE["targets"].values() for key in target} == TARGET_KEYS
    assert all(set(target["resources"]) == {"jobs"} for target in BUNDLE["targets"].values())
    assert all(set(target["resources"]["jobs"]) == set(BUNDLE["resources"]["jobs"]) for target in BUNDLE["targets"].values())
    assert [target.get("default", False) for target in BUNDLE["targets"].values()].count(True) == 1


def test_variables_are_declared_and_used():
    references = {found for text in texts(BUNDLE) for found in re.findall(r"\$\{([^}]*)\}", text)}
    assert references == {f"var.{name}" for name in BUNDLE["variables"]}
    assert {found for text in texts(BUNDLE) for found in re.findall(r"\{\{([^}]*)\}\}", text)} == {"job.run_id"}


def test_job_parameters_are_parsed_by_the_command_line():
    command, run, _ = parse(parameters("evenkeel"))
    assert (command.name, run.warehouse, run.run_id, run.wait) == ("run", "main.evenkeel", "databricks-1234", 1800)
    assert (run.input, run.output) == (("/Volumes/main/evenkeel/captures",), "/Volumes/main/evenkeel/reports/report.html")
    command, upkeep, _ = parse(parameters("evenkeel_maintain"))
    assert (command.name, upkeep.warehouse, upkeep.run_id) == ("maintain", "main.evenkeel", "databricks-1234")


@pytest.mark.parametrize(("target", "name"), JOBS)
def test_a_job_installs_the_wheel_and_what_a_run_needs_beside_it(target: str, name: str):
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    extras = config["options.extras_require"]
    assert libraries(job_of(target, name)) == ["./dist/*.whl", *extras["quality"].split("\n")[1:], *extras["report"].split("\n")[1:]]


@pytest.mark.parametrize("name", BUNDLE["resources"]["jobs"])
def test_a_cluster_has_the_settings_that_every_session_needs(name: str):
    (cluster,) = job_of("classic", name)["job_clusters"]
    needed = read_conf_file(ROOT / "conf" / "spark-defaults.conf")
    assert cluster["new_cluster"]["spark_conf"] == {key: value for key, value in needed.items() if key not in PLATFORMS_OWN}


# ------------------------------------------------------------------------------------------------------------ the wheel


def run(*command: object, **options: Any) -> str:
    """Return the standard output of a command that must succeed."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **({"timeout": 1800} | options))
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def environment(**extra: str) -> dict[str, str]:
    """The environment of a stranger: nothing of the checkout, nothing of Spark."""
    own = ("PYTHON", "SPARK", "PYSPARK", "EVENKEEL", "DATABRICKS")
    return {**{name: value for name, value in os.environ.items() if not name.startswith(own)}, **extra}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as a deployment builds it: by the bundle's own command, at the root of a checkout, with an older build's rest there."""
    checkout = tmp_path_factory.mktemp("checkout")
    for name in run("git", "ls-files", cwd=ROOT).splitlines():
        if not name.startswith("tests/") and (ROOT / name).exists():
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, checkout / name)
    for rest in ("dist/evenkeel-0.0.1-py3-none-any.whl", "build/lib/jobs/rest.py"):
        (checkout / rest).parent.mkdir(parents=True)
        (checkout / rest).touch()
    # Without network: the build system is the running interpreter's.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    offline = environment(PATH=path, PIP_NO_INDEX="1", PIP_NO_BUILD_ISOLATION="0")
    run("bash", "-euc", BUNDLE["artifacts"]["wheel"]["build"], cwd=checkout, env=offline)
    (built,) = [path for path in checkout.rglob("*.whl") if fnmatch(f"./{path.relative_to(checkout)}", libraries(job_of(*JOBS[0]))[0])]
    return built


def test_the_wheel_has_the_entry_point(wheel: Path):
    archive = zipfile.ZipFile(wheel)
    assert "jobs/rest.py" not in archive.namelist()
    (text,) = [archive.read(name).decode() for name in archive.namelist() if name.endswith("entry_points.txt")]
    entries = configparser.ConfigParser()
    entries.read_string(text)
    for target, name in JOBS:
        for task in job_of(target, name)["tasks"]:
            assert entries["console_scripts"][task["python_wheel_task"]["entry_point"]] == "jobs.cli:main"


def test_the_wheel_leaves_spark_to_the_platform(wheel: Path):
    archive = zipfile.ZipFile(wheel)
    (text,) = [archive.read(name).decode() for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
    required = Parser().parsestr(text).get_all("Requires-Dist")
    always = {re.match(r"[\w-]+", line)[0].lower() for line in required if "extra ==" not in line}
    assert always >= {"pydantic", "pyarrow"}
    assert always & {"pyspark", "pyspark-client", "delta-spark", "databricks-connect"} == set()
    assert [name for name in archive.namelist() if name.endswith(".jar")] == []


# ------------------------------------------------------------------------------------------------------ as the platform does


@pytest.mark.slow
def test_the_task_runs_as_the_platform_runs_it(wheel: Path, tmp_path: Path):
    """With the bundle's own parameters: a run into a catalog's schema, its retry, its run id with other input, and wrong usage."""
    venv, other = tmp_path / "venv", tmp_path / "other"
    run(sys.executable, "-m", "venv", "--without-pip", venv)
    (packages,) = venv.glob("lib/python3.*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    run(sys.executable, "-m", "pip", "--python", venv / "bin" / "python", "install", "--no-deps", "--no-index", wheel)
    other.mkdir()
    shutil.copy(ROOT / "conf" / "demo" / "consumer_offsets.parquet", other)

    values = {"catalog": "spark_catalog", "schema": "evenkeel_task", "reports": str(tmp_path), "captures": str(ROOT / "conf" / "demo")}
    (task,) = BUNDLE["resources"]["jobs"]["evenkeel"]["tasks"]
    called = [task["python_wheel_task"]["package_name"], task["python_wheel_task"]["entry_point"]]
    first = parameters("evenkeel", **values)
    calls = [first, first, parameters("evenkeel", **(values | {"captures": str(other)})), ["run", "--no-such-option"]]
    minor = ".".join(metadata.version("pyspark").split(".")[:2])
    output = run(
        venv / "bin" / "python", PLATFORM, ROOT / "conf", ROOT / ".evenkeel" / "jars" / f"spark-{minor}", tmp_path / "catalog",
        input=json.dumps([[*called, call] for call in calls]), cwd="/", env=environment(SPARK_LOCAL_IP="127.0.0.1"),
    )  # fmt: skip
    result = json.loads(output.splitlines()[-1])
    assert result["outcomes"][:2] == [{"returned": None}, {"returned": None}]
    assert [(outcome["raised"], outcome["exit_code"]) for outcome in result["outcomes"][2:]] == [("RunIdReusedError", 4), ("UsageError", 2)]
    assert result["runs"] == [{"run_id": "databricks-1234", "status": "published"}]
    assert result["views"] == sorted(f"{name}_published" for name in TABLES if name != "runs")
    assert result["settings"] == {"spark.sql.shuffle.partitions": "3"}
    assert Path(result["module_file"]).is_relative_to(venv)
    assert (tmp_path / "report.html").stat().st_size > 10_000
