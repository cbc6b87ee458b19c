"""The wheel holds what the checkout holds, runs from anywhere, and its versions and settings agree with each other."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from jobs.launcher.archive import ZIP_SOURCES
from jobs.options import COMMANDS

ROOT = Path(__file__).parents[2]
FOLDERS = {source: name for name, source in ZIP_SOURCES.items() if (ROOT / source).is_dir()}
TOP_LEVEL = {*FOLDERS, "tests", "docs", "spark-submit.sh", "setup.cfg", "README.md", "LICENSE", "pyproject.toml"}
SPARK_VERSIONS = ("4.0", "4.1")


def run(*command: object, **options: object) -> str:
    """Return the standard output of a command that must succeed."""
    result = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL, **options
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def files_of(folder: str) -> list[Path]:
    return [path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts]


@pytest.fixture(scope="module")
def config() -> configparser.ConfigParser:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    return config


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built without network from a copy, so that no build folder is left."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", target, source)
    (built,) = target.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of an empty venv with the wheel in it; the dependencies are those of the running interpreter."""
    venv = tmp_path_factory.mktemp("venv")
    run(sys.executable, "-m", "venv", "--without-pip", venv)
    (packages,) = venv.glob("lib/python3.*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    run(sys.executable, "-m", "pip", "--python", venv / "bin" / "python", "install", "--no-deps", "--no-index", wheel)
    return venv / "bin"


def environment() -> dict[str, str]:
    """The environment of a stranger: nothing of the checkout, nothing of Spark."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SPARK", "PYSPARK", "EVENKEEL"))}


def test_the_wheel_holds_every_file(wheel: Path):
    expected = {f"{name}/{path.relative_to(ROOT / folder).as_posix()}" for folder, name in FOLDERS.items() for path in files_of(folder)}
    found = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert sorted(expected - found) == [] == sorted(found - expected)


def test_wheel_metadata_has_licence_and_commands(wheel: Path):
    archive = zipfile.ZipFile(wheel)
    about = {name.split(".dist-info/")[1]: archive.read(name).decode() for name in archive.namelist() if ".dist-info/" in name}
    assert "Apache License" in about.get("licenses/LICENSE", about.get("LICENSE", ""))
    assert about["entry_points.txt"].split("\n")[:3] == [
        "[console_scripts]",
        "evenkeel = jobs.cli:console_main",
        "evenkeel-job = jobs.cli:main",
    ]


def test_everything_imports_from_the_wheel(installed: Path):
    code = "import assignors, schemas.tables, jobs.cli; print(assignors.__file__, schemas.__file__, jobs.__file__, sep='\\n')"
    folders = run(installed / "python", "-c", code, cwd="/", env=environment()).split()
    assert all(Path(folder).is_relative_to(installed.parent) for folder in folders), folders


def test_the_command_helps_from_anywhere(installed: Path):
    text = run(installed / "evenkeel", "--help", cwd="/", env=environment())
    assert [command for command in COMMANDS if command not in text] == []


# ---------------------------------------------------------------------------------------------------------- its own version

PRINT_VERSION = "from jobs.runtime.installation import evenkeel_version; print(evenkeel_version())"


@pytest.fixture
def another(tmp_path: Path) -> Path:
    """A folder in which another version of Evenkeel seems to be installed."""
    metadata = tmp_path / "another" / "evenkeel-9.9.9.dist-info" / "METADATA"
    metadata.parent.mkdir(parents=True)
    metadata.write_text("Metadata-Version: 2.1\nName: evenkeel\nVersion: 9.9.9\n")
    return tmp_path / "another"


def version_of(python: Path | str, *path: Path) -> str:
    return run(python, "-c", PRINT_VERSION, cwd="/", env=environment() | {"PYTHONPATH": os.pathsep.join(map(str, path))}).strip()


def test_a_checkout_has_the_version_of_its_setup_cfg(another: Path, config: configparser.ConfigParser):
    assert version_of(sys.executable, another, ROOT) == config["metadata"]["version"]


def test_the_zip_has_the_version_of_the_setup_cfg_in_it(another: Path, tmp_path: Path):
    """As the launcher packs it; with a version of its own, which is not the checkout's."""
    with zipfile.ZipFile(tmp_path / "evenkeel.zip", "w") as archive:
        for folder, name in FOLDERS.items():
            for path in files_of(folder):
                archive.write(path, f"{name}/{path.relative_to(ROOT / folder).as_posix()}")
        archive.writestr("setup.cfg", re.sub("(?m)^version = .*$", "version = 7.7.7", (ROOT / "setup.cfg").read_text()))
    assert version_of(sys.executable, another, tmp_path / "evenkeel.zip") == "7.7.7"


def test_an_installed_wheel_has_the_version_of_its_metadata(installed: Path, another: Path, config: configparser.ConfigParser):
    assert version_of(installed / "python", another) == config["metadata"]["version"]


@pytest.mark.parametrize("setup", [None, "[metadata]\nname = other\nversion = 1\n"])
def test_packages_without_a_version_beside_them_are_refused(setup: str | None, another: Path, tmp_path: Path):
    for folder in ("schemas", "assignors"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    shutil.copytree(ROOT / "jobs", tmp_path / "copy" / "jobs", ignore=shutil.ignore_patterns("__pycache__"))
    if setup is not None:
        (tmp_path / "copy" / "setup.cfg").write_text(setup)
    with pytest.raises(AssertionError, match=f"no version of Evenkeel in {tmp_path}/copy: expected its setup.cfg or evenkeel-"):
        version_of(sys.executable, another, tmp_path / "copy", tmp_path)


@pytest.mark.slow
def test_the_demo_runs_from_the_wheel(installed: Path, tmp_path: Path):
    jars = {"EVENKEEL_JARS": str(ROOT / ".evenkeel" / "jars" / f"spark-{SPARK_VERSIONS[-1]}")}
    output = run(installed / "evenkeel", "run", "--warehouse", tmp_path / "warehouse", cwd="/", env={**environment(), **jars})
    assert f"\nreport: {(tmp_path / 'warehouse' / 'report.html').as_uri()}\n" in output
    assert (tmp_path / "warehouse" / "report.html").stat().st_size > 10_000


def test_the_launcher_names_the_same_commands():
    text = run(ROOT / "spark-submit.sh", "--help")
    commands = [line.split()[0] for line in text.split("\n\n")[1].splitlines()[1:]]
    assert commands == [*COMMANDS]


def test_only_agreed_names_are_at_the_top_of_the_repository():
    tracked = run("git", "ls-files", cwd=ROOT).splitlines()
    assert {name.split("/")[0] for name in tracked if not name.startswith(".")} <= TOP_LEVEL


# ------------------------------------------------------------------------------------------------ versions and settings


def jars() -> list[tuple[str, str, str]]:
    lines = (ROOT / "conf" / "delta-jars.txt").read_text().splitlines()
    return [tuple(line.split()) for line in lines if not line.startswith("#")]


def test_pins_move_together(config: configparser.ConfigParser):
    pins = {pin.name: str(pin.specifier)[2:] for pin in map(Requirement, config["options.extras_require"]["spark"].split())}
    delta = {coordinate.split(":")[1:][0]: coordinate.split(":")[2] for _, _, coordinate in jars() if coordinate.startswith("io.delta:")}
    assert set(delta.values()) == {pins["delta-spark"]}
    assert {name for name in delta if name.startswith("delta-spark_")} == {f"delta-spark_{spark}_2.13" for spark in SPARK_VERSIONS}
    assert pins["pyspark"].rsplit(".", 1)[0] == max(SPARK_VERSIONS)
    assert config["options.extras_require"]["connect"].split() == [f"pyspark[connect]~={pins['pyspark']}"]


def test_pages_name_the_versions_that_are_installed(config: configparser.ConfigParser):
    locked = dict(re.findall(r"^([a-z0-9-]+)==([^ ]+)", (ROOT / "conf" / "requirements.lock").read_text(), re.MULTILINE))
    readme = (ROOT / "README.md").read_text()
    assert f"with Delta {locked['delta-spark']}. It is tested on Spark {locked['pyspark']}." in readme
    tags = {tag for page in (ROOT / "docs").glob("*.md") for tag in re.findall(r"/evenkeel:(\d[\w.]*)", page.read_text())}
    assert tags == {config["metadata"]["version"]}


def test_each_spark_has_its_seven_jars():
    for spark in SPARK_VERSIONS:
        mine = [coordinate for version, _, coordinate in jars() if version in (spark, "*")]
        assert len(mine) == len(set(mine)) == 7
    assert all(len(digest) == 64 and int(digest, 16) for _, digest, _ in jars())


def settings(name: str) -> dict[str, tuple[str, str]]:
    """Return value and reason by key: the comment block above a setting, which settings of one block share."""
    found, reason = {}, ""
    for line in (ROOT / "conf" / name).read_text().splitlines():
        if line.startswith("#"):
            reason = f"{reason} {line[1:].strip()}".strip()
        elif line:
            key, _, value = line.partition(" ")
            assert key not in found, f"{key} stands twice in {name}"
            found[key] = (value.strip(), reason)
            reason = ""
        else:
            reason = ""
    return found


@pytest.mark.parametrize("name", ["spark-defaults.conf", "spark-local.conf", "spark-local-large.conf"])
def test_every_setting_has_its_reason(name: str):
    assert [key for key, (value, reason) in settings(name).items() if not key.startswith("spark.") or not value or len(reason) < 20] == []


def test_a_cluster_gets_nothing_that_is_for_one_machine():
    local_only = (
        "spark.master",
        "spark.driver.",
        "spark.executor.",
        "spark.ui.enabled",
        "spark.sql.shuffle.partitions",
        "spark.sql.codegen.",
    )
    assert [key for key in settings("spark-defaults.conf") if key.startswith(local_only)] == []
