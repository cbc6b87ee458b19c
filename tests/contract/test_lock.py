"""The lock gives what setup.cfg asks for, on each Python version and platform, and names every package that is needed."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import re
import subprocess
import sys
import venv
from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.needs import skip_loudly

ROOT = Path(__file__).parents[2]
MAKER = ROOT / ".ci" / "lock.py"
PIP = "pip==26.3"
"""Its dry run reads a wheel's metadata without the wheel."""


def _load_maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("evenkeel_lock", MAKER)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


lock = _load_maker()
SECTIONS = lock.read_lock()
REQUIREMENTS = lock.read_requirements()


def applying(section: str, environment: object) -> dict[str, object]:
    """Return the pins of a section, and of core, by name."""
    beside = ["core"] if section not in ("build", "core") else []
    return {pin.name: pin for name in [section, *beside] for pin in SECTIONS[name] if environment in pin.environments}


def test_the_lock_satisfies_setup_cfg():
    assert list(lock.disagreements(REQUIREMENTS, SECTIONS)) == []


def test_lock_check_needs_no_network():
    command = [
        sys.executable,
        "-c",
        "import socket, runpy, sys; del socket.socket; sys.argv[1:] = ['--check']; runpy.run_path(%r, run_name='__main__')",
    ]
    command[2] %= str(MAKER)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_supported_environment_is_covered():
    (python_requires,) = re.findall(r"^python_requires = >=3\.(\d+),<3\.(\d+)$", (ROOT / "setup.cfg").read_text(), re.MULTILINE)
    pythons = [f"3.{minor}" for minor in range(*map(int, python_requires))]
    platforms = [("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64"), ("darwin", "x86_64")]
    assert sorted(lock.ENVIRONMENTS) == sorted((python, *platform) for python, platform in product(pythons, platforms))


def test_each_line_is_a_comment_or_a_pin_with_hashes():
    text = lock.LOCK.read_text(encoding="utf-8")
    assert text.startswith(lock.HEAD)
    pin = r"[a-z0-9-]+==[^ ;]+( ; [a-z_.0-9\"<>=!() ]+)?( --hash=sha256:[0-9a-f]{64})+"
    assert [line for line in text.splitlines() if not line.startswith("#") and not re.fullmatch(pin, line)] == []
    assert "://" not in text


def test_source_packages_are_built_by_the_build_section_only():
    """pyspark has one file, which is no wheel; nothing else may be without a wheel, since nothing but setuptools is there to build it."""
    (digest,) = {pin.hashes for pin in SECTIONS["spark"] if pin.name == lock.SOURCE_ONLY}
    assert len(digest) == 1
    assert {"setuptools", "wheel"} <= {pin.name for pin in SECTIONS["build"]}
    with pytest.raises(lock.LockError, match=r"other 1 has no wheel for 3\.10 darwin arm64"):
        lock.hashes_of({"name": "other", "version": "1", "sdist": {"hashes": {"sha256": "1"}}}, lock.ENVIRONMENTS)


@cache
def requires(name: str, version: str) -> list[Requirement] | None:
    """Return what an installed package needs; None when another version or none is installed."""
    try:
        distribution = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return None
    return list(map(Requirement, distribution.requires or ())) if distribution.version == version else None


def test_nothing_that_an_installed_package_needs_is_missing():
    """Without dependencies, pip installs the lines of the lock only."""
    missing, read = [], set()
    for section, environment in product(SECTIONS, lock.ENVIRONMENTS):
        pins = applying(section, environment)
        asked = [Requirement(text) for name in {section, "core"} if section != "build" for text in REQUIREMENTS[name]]
        extras = {canonicalize_name(requirement.name): requirement.extras for requirement in asked}
        for pin in pins.values():
            needed = requires(pin.name, pin.version)
            read |= {pin.name} if needed is not None else set()
            for requirement in needed or ():
                values = [environment.markers() | {"extra": extra} for extra in ["", *extras.get(pin.name, ())]]
                if requirement.marker is not None and not any(map(requirement.marker.evaluate, values)):
                    continue
                locked = pins.get(canonicalize_name(requirement.name))
                if locked is None or not requirement.specifier.contains(locked.version, prereleases=True):
                    missing.append(f"[{section}] {environment}: {pin.name} needs {requirement}, found {locked and locked.version}")
    assert missing == []
    assert {"pandas", "pyspark", "great-expectations", "pytest"} <= read


# ------------------------------------------------------------------------------------------------------ the check can fail


def without(name: str, section: str) -> Callable[[dict[str, list]], None]:
    def change(sections: dict[str, list]) -> None:
        sections[section] = [pin for pin in sections[section] if pin.name != name]

    return change


def with_pin(line: str, section: str) -> Callable[[dict[str, list]], None]:
    def change(sections: dict[str, list]) -> None:
        pin = lock.Pin.parse(line)
        sections[section] = [one for one in sections[section] if one.name != pin.name] + [pin]

    return change


def twice(name: str, section: str) -> Callable[[dict[str, list]], None]:
    def change(sections: dict[str, list]) -> None:
        sections[section] += [pin for pin in SECTIONS["core"] if pin.name == name]

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda sections: sections.pop("report"), "sections: expected build, core, spark, "),
        (without("pydantic", "core"), r"Python 3.10, linux x86_64: [core] needs pydantic<3,>=2.7, the lock has none"),
        (with_pin("pandas==3.0.0", "core"), "Python 3.14, darwin arm64: [core] needs pandas<3,>=2.2, the lock has 3.0.0"),
        (
            with_pin('pyyaml==6.0.4 ; python_version < "3.14"', "core"),
            "Python 3.14, linux aarch64: [core] needs pyyaml>=6, the lock has none",
        ),
        (twice("pandas", "core"), "Python 3.12, linux x86_64: [core] has pandas twice"),
        (twice("pandas", "spark"), "Python 3.12, linux x86_64: [spark] has pandas twice"),
        (with_pin("py4j==0.1", "connect"), "Python 3.13, darwin x86_64: [connect] has py4j 0.1, another section "),
    ],
)
def test_lock_check_finds_each_disagreement(change: Callable[[dict[str, list]], None], message: str):
    sections = {name: list(pins) for name, pins in SECTIONS.items()}
    change(sections)
    assert any(line.startswith(message) for line in lock.disagreements(REQUIREMENTS, sections))


@pytest.mark.parametrize(
    "text", ["# [core]\npandas>=2\n", "# [core]\npandas==2.3.3\n", f"pandas==2.3.3 --hash=sha256:{'0' * 64}\n", "# [core]\n\n"]
)
def test_a_wrong_line_is_refused(text: str, tmp_path: Path):
    path = tmp_path / "requirements.lock"
    path.write_text(text)
    with pytest.raises(lock.LockError, match=rf"requirements\.lock, line {text.count(chr(10))}: expected .*; make it anew by "):
        lock.read_lock(path)


# --------------------------------------------------------------------------------------------------------------- its making


@given(st.sets(st.sampled_from(lock.ENVIRONMENTS), min_size=1))
def test_marker_matches_exactly_its_environments(environments: set[object]):
    assert lock.Pin("a", "1", lock.marker_of(environments)).environments == environments


def test_marker_of_all_environments_is_empty():
    assert lock.marker_of(lock.ENVIRONMENTS) == ""
    assert lock.marker_of([one for one in lock.ENVIRONMENTS if one.python in ("3.11", "3.12")]) == (
        'python_version >= "3.11" and python_version < "3.13"'
    )


def test_an_upgrade_moves_what_it_names():
    pins = [lock.Pin("a", "1", "", ("0",)), lock.Pin("b", "1", 'python_version < "3.11"', ("1",))]
    sections = {"core": pins, "spark": pins[:1]}
    stays = [lock.Pin("a", "1"), lock.Pin("b", "1", 'python_version < "3.11"')]
    assert lock.kept_pins(sections, None) == stays
    assert lock.kept_pins(sections, ["A"]) == stays[1:]
    assert lock.kept_pins(sections, []) == []


WHEELS = {
    "cp310-cp310-manylinux_2_17_x86_64.manylinux2014_x86_64": True,
    "cp311-abi3-manylinux_2_28_x86_64": True,
    "cp310-abi3-manylinux_2_28_aarch64": True,
    "py3-none-macosx_10_9_universal2": True,
    "cp310-abi3-musllinux_1_2_x86_64": False,
    "cp310-abi3-manylinux_2_28_ppc64le": False,
    "cp310-abi3-win_amd64": False,
    "cp313-cp313t-manylinux_2_28_x86_64": False,
    "cp39-cp39-manylinux_2_28_x86_64": False,
    "pp311-pypy311_pp73-macosx_11_0_arm64": False,
}
PACKAGE = {
    "name": "a",
    "version": "1",
    "sdist": {"hashes": {"sha256": "sdist"}},
    "wheels": [{"url": f"x/a-1-{tags}.whl", "hashes": {"sha256": tags}} for tags in WHEELS],
}


def test_the_hashes_are_those_of_usable_wheels():
    assert lock.hashes_of(PACKAGE, lock.ENVIRONMENTS) == tuple(sorted(tags for tags, is_usable in WHEELS.items() if is_usable))


def test_pin_has_the_hashes_of_its_own_environments():
    assert lock.hashes_of(PACKAGE, [one for one in lock.ENVIRONMENTS if one[:2] == ("3.10", "linux")]) == (
        "cp310-abi3-manylinux_2_28_aarch64",
        "cp310-cp310-manylinux_2_17_x86_64.manylinux2014_x86_64",
    )


# ----------------------------------------------------------------------------------------------------------------- with pip

TAGS = {
    ("linux", "x86_64"): [f"manylinux_2_{minor}_x86_64" for minor in range(28, 4, -1)] + ["manylinux2014_x86_64", "manylinux1_x86_64"],
    ("linux", "aarch64"): [f"manylinux_2_{minor}_aarch64" for minor in range(28, 16, -1)] + ["manylinux2014_aarch64"],
    ("darwin", "arm64"): ["macosx_13_0_arm64"],
    ("darwin", "x86_64"): ["macosx_13_0_x86_64"],
}
"""The oldest machines of the lock: those with glibc 2.28, or with macOS 13."""


@pytest.fixture(scope="module")
def pip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pip of the version ``PIP``."""
    folder = tmp_path_factory.mktemp("pip")
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    done = subprocess.run([python, "-m", "pip", "install", "--quiet", PIP], capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        skip_loudly(f"NOBODY ASKS PIP ABOUT THE LOCK: {PIP} cannot be installed: {done.stderr}")
    return folder / "bin" / "pip"


@pytest.mark.slow
@pytest.mark.parametrize("environment", lock.ENVIRONMENTS, ids=" ".join)
def test_pip_takes_a_file_whose_hash_is_in_the_lock(environment: tuple[str, str, str], pip: Path, tmp_path: Path):
    """Asked without hashes, for then it downloads nothing but metadata: with them it would take some 4 GB for all environments."""
    pins = {pin.name: pin for section in SECTIONS for pin in applying(section, environment).values() if pin.name != lock.SOURCE_ONLY}
    platforms = [option for tag in TAGS[environment[1:]] for option in ("--platform", tag)]
    target = ["--python-version", environment[0], "--target", str(tmp_path / "target"), *platforms]
    options = [
        "--dry-run",
        "--ignore-installed",
        "--no-deps",
        "--only-binary",
        ":all:",
        "--quiet",
        "--report",
        str(tmp_path / "report.json"),
    ]
    wanted = [f"{pin.name}=={pin.version}" for pin in pins.values()]
    done = subprocess.run([pip, "install", *options, *target, *wanted], capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stderr
    taken = json.loads((tmp_path / "report.json").read_text())["install"]
    hashes = {canonicalize_name(one["metadata"]["name"]): one["download_info"]["archive_info"]["hashes"]["sha256"] for one in taken}
    assert sorted(hashes) == sorted(pins)
    assert [f"{name}: {digest}" for name, digest in hashes.items() if digest not in pins[name].hashes] == []
