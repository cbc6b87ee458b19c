"""Makes conf/requirements.lock: exact versions and hashes of all packages that setup.cfg asks for. Also checks it.

    .venv/bin/python .ci/lock.py                      after a change of setup.cfg; a locked version that still fits stays
    .venv/bin/python .ci/lock.py --upgrade            moves every package to its newest version that fits
    .venv/bin/python .ci/lock.py --upgrade NAME...    moves these packages only
    .venv/bin/python .ci/lock.py --check              compares lock and setup.cfg, without network

uv resolves once for all supported Python versions and platforms. A second pass for each extra finds the packages of that extra.
Versions and hashes come from PyPI, or from the mirror in PIP_INDEX_URL. Making the lock needs Python 3.11 or newer; checking does not.
"""

from __future__ import annotations

import argparse
import configparser
import os
import re
import subprocess
import sys
import tempfile
import venv
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, product
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, NamedTuple

from packaging import tags
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "conf" / "requirements.lock"
UV = "uv==0.13.9"
COMMAND = ".venv/bin/python .ci/lock.py"

SOURCE_ONLY = "pyspark"
"""The one package that is published as a source distribution only. Every other one needs a wheel wherever it is required."""
BUILD_REQUIREMENTS = ("setuptools>=70.1", "wheel>=0.45")
"""What builds pyspark. Without wheel, pip before 23.1 installs it in a deprecated way, by setup.py install."""

HEAD = f"""\
# The Python packages of setup.cfg, for CPython 3.10 to 3.14 on Linux (glibc from 2.28) and macOS (from 13), x86-64 and arm64.
# Made by `{COMMAND}`; not to be edited. Section core is [options] install_requires of setup.cfg, and each other section but
# build is an extra: what the extra needs and core does not have. Section build builds pyspark, which has no wheel: install it first,
# then the others with `pip install --no-deps --require-hashes --no-build-isolation`. A package has one line, or several lines whose
# markers exclude each other. The hashes are those of the wheels for the Pythons and platforms above.
"""


class LockError(Exception):
    """The lock cannot be made, or it does not fit setup.cfg. Shown as lines of text, without a traceback."""


class Environment(NamedTuple):
    """A Python version on a platform, as markers name them."""

    python: str
    system: str
    machine: str

    def markers(self) -> dict[str, str]:
        """Return the values that markers are evaluated with; none of them comes from the running interpreter."""
        return {
            "implementation_name": "cpython",
            "implementation_version": f"{self.python}.0",
            "os_name": "posix",
            "platform_machine": self.machine,
            "platform_python_implementation": "CPython",
            "platform_release": "",
            "platform_system": {"linux": "Linux", "darwin": "Darwin"}[self.system],
            "platform_version": "",
            "python_full_version": f"{self.python}.0",
            "python_version": self.python,
            "sys_platform": self.system,
            "extra": "",
        }


PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
PLATFORMS = {
    ("linux", "x86_64"): r"(many)?linux(\d|_).*x86_64|linux_x86_64",
    ("linux", "aarch64"): r"(many)?linux(\d|_).*aarch64|linux_aarch64",
    ("darwin", "arm64"): r"macosx_\d+_\d+_(arm64|universal2)",
    ("darwin", "x86_64"): r"macosx_\d+_\d+_(x86_64|universal2|intel)",
}
"""System and machine, each with a pattern of the platform tags of its wheels."""
ENVIRONMENTS = tuple(Environment(python, *platform) for python, platform in product(PYTHONS, PLATFORMS))


@dataclass(frozen=True)
class Pin:
    """One line of the lock."""

    name: str
    version: str
    marker: str = ""
    hashes: tuple[str, ...] = ()

    PATTERN: ClassVar = re.compile(r"([a-z0-9-]+)==([^ ;]+)(?: ; (.+?))?((?: --hash=sha256:[0-9a-f]{64})*)")

    @property
    def environments(self) -> frozenset[Environment]:
        """The environments that the line applies to."""
        return _environments_of(self.marker)

    def __str__(self) -> str:
        marker = f" ; {self.marker}" if self.marker else ""
        return f"{self.name}=={self.version}{marker}" + "".join(f" --hash=sha256:{digest}" for digest in self.hashes)

    @classmethod
    def parse(cls, line: str) -> Pin:
        """Return the pin of a line.

        Raises:
            LockError: the line is no requirement with exactly one version.
        """
        parsed = cls.PATTERN.fullmatch(line)
        if parsed is None:
            raise LockError(f"expected `name==version ; marker --hash=sha256:...`, found {line[:80]!r}")
        name, version, marker, hashes = parsed.groups("")
        return cls(name, version, marker, tuple(hashes.split(" --hash=sha256:")[1:]))


@cache
def _environments_of(marker: str) -> frozenset[Environment]:
    return frozenset(one for one in ENVIRONMENTS if not marker or Marker(marker).evaluate(one.markers()))


# ----------------------------------------------------------------------------------------------------------------- reading


def read_requirements() -> dict[str, list[str]]:
    """Return the requirements by section of the lock, in its order: build, core, the extras as setup.cfg has them."""
    config = configparser.ConfigParser()
    with (ROOT / "setup.cfg").open(encoding="utf-8") as file:
        config.read_file(file)
    asked = {"core": config["options"]["install_requires"], **config["options.extras_require"]}
    return {"build": list(BUILD_REQUIREMENTS)} | {name: [line for line in text.split("\n") if line] for name, text in asked.items()}


def read_lock(path: Path = LOCK) -> dict[str, list[Pin]]:
    """Return the pins by section, in the order of the file.

    Raises:
        LockError: a line is no pin, has no hash, or comes before the first section.
    """
    sections: dict[str, list[Pin]] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if heading := re.fullmatch(r"# \[([a-z0-9-]+)\]", line):
            sections[heading[1]] = []
        elif not line.startswith("#"):
            try:
                pin = Pin.parse(line)
                if not sections or not pin.hashes:
                    raise LockError(f"expected a section and then pins with hashes, found {line[:80]!r}")
                sections[list(sections)[-1]].append(pin)
            except LockError as error:
                raise LockError(f"{path}, line {number}: {error}; make it anew by `{COMMAND}`") from error
    return sections


def disagreements(requirements: Mapping[str, Collection[str]], sections: Mapping[str, Collection[Pin]]) -> Iterator[str]:
    """Yield a line for each point in which the lock does not give what is required."""
    if list(sections) != list(requirements):
        yield f"sections: expected {', '.join(requirements)}; found {', '.join(sections)}"
        return
    for environment in ENVIRONMENTS:
        where = f"Python {environment.python}, {environment.system} {environment.machine}"
        versions: dict[str, str] = {}
        applying = {name: [pin for pin in pins if environment in pin.environments] for name, pins in sections.items()}
        for section, pins in applying.items():
            beside = applying["core"] if section not in ("build", "core") else []
            names = [pin.name for pin in [*pins, *beside]]
            yield from (f"{where}: [{section}] has {name} twice" for name in sorted({name for name in names if names.count(name) > 1}))
            for pin in pins:
                if versions.setdefault(pin.name, pin.version) != pin.version:
                    yield f"{where}: [{section}] has {pin.name} {pin.version}, another section {versions[pin.name]}"
            locked = {pin.name: pin.version for pin in [*pins, *beside]}
            for requirement in map(Requirement, requirements[section]):
                if requirement.marker is not None and not requirement.marker.evaluate(environment.markers()):
                    continue
                version = locked.get(canonicalize_name(requirement.name))
                if version is None or not requirement.specifier.contains(version, prereleases=True):
                    yield f"{where}: [{section}] needs {requirement}, the lock has {version or 'none'}"


# ------------------------------------------------------------------------------------------------------------------ making


def marker_of(environments: Collection[Environment]) -> str:
    """Return a marker that holds in these environments and in no other supported one; empty if it always holds."""
    platforms: defaultdict[tuple[str, ...], list[tuple[str, str]]] = defaultdict(list)
    for system, machine in PLATFORMS:
        platforms[tuple(one for one in PYTHONS if Environment(one, system, machine) in environments)].append((system, machine))
    alternatives = []
    for pythons, having in platforms.items():
        parts = [part for part in (_python_marker(pythons), _platform_marker(having)) if part]
        if pythons:
            alternatives.append(
                "".join(parts) if len(parts) < 2 else " and ".join(f"({part})" if " or " in part else part for part in parts)
            )
    return alternatives[0] if len(alternatives) == 1 else " or ".join(f"({one})" for one in alternatives)


def _python_marker(pythons: Sequence[str]) -> str:
    """Return the marker of some of the Python versions: ranges that are open below the oldest and above the newest version."""
    ranges = []
    for index, python in enumerate(PYTHONS):
        if python in pythons and (index == 0 or PYTHONS[index - 1] not in pythons):
            end = next((later for later in PYTHONS[index:] if later not in pythons), None)
            bounds = [f'python_version >= "{python}"'] * (index > 0) + [f'python_version < "{end}"'] * (end is not None)
            ranges.append(" and ".join(bounds))
    return " or ".join(ranges)


def _platform_marker(platforms: Sequence[tuple[str, str]]) -> str:
    """Return the marker of some of the platforms; empty for all of them."""
    excluded = [platform for platform in PLATFORMS if platform not in platforms]
    if len(excluded) < len(platforms):
        absent = [f'sys_platform != "{system}" or platform_machine != "{machine}"' for system, machine in excluded]
        return " and ".join(f"({one})" for one in absent) if len(absent) > 1 else "".join(absent)
    return " or ".join(f'sys_platform == "{system}" and platform_machine == "{machine}"' for system, machine in platforms)


def _wheel_environments(file_name: str) -> frozenset[Environment]:
    """Return the environments that a wheel can be installed in, whatever their release of glibc or macOS."""
    _, _, _, wheel_tags = parse_wheel_filename(file_name)
    return frozenset(one for one in ENVIRONMENTS if any(_fits(tag, one) for tag in wheel_tags))


def _fits(tag: tags.Tag, environment: Environment) -> bool:
    if tag.platform == "any":
        return tag in _usable_tags(environment.python)
    is_platform = re.fullmatch(PLATFORMS[environment.system, environment.machine], tag.platform) is not None
    return is_platform and tags.Tag(tag.interpreter, tag.abi, "platform") in _usable_tags(environment.python)


@cache
def _usable_tags(python: str) -> frozenset[tags.Tag]:
    """Return the tags of wheels that a CPython can use on a platform by the name of platform."""
    major, minor = map(int, python.split("."))
    interpreter = f"cp{major}{minor}"
    generators = (
        tags.cpython_tags((major, minor), [interpreter], ["platform"]),
        tags.compatible_tags((major, minor), interpreter, ["platform"]),
    )
    return frozenset(chain(*generators))


def hashes_of(package: Mapping[str, Any], environments: Collection[Environment]) -> tuple[str, ...]:
    """Return the SHA-256 hashes of the wheels for these environments, or of the source distribution of ``SOURCE_ONLY``.

    Args:
        package: an entry of ``packages`` in a pylock.toml.

    Raises:
        LockError: an environment has no wheel.
    """
    if package["name"] == SOURCE_ONLY:
        return (package["sdist"]["hashes"]["sha256"],)
    usable = {wheel["hashes"]["sha256"]: _wheel_environments(_file_name(wheel)) & set(environments) for wheel in package.get("wheels", ())}
    if missing := set(environments).difference(*usable.values()):
        where = "; ".join(" ".join(one) for one in sorted(missing))
        raise LockError(f"{package['name']} {package['version']} has no wheel for {where}; exclude them by a marker in setup.cfg")
    return tuple(sorted(digest for digest, fitting in usable.items() if fitting))


def _file_name(artifact: Mapping[str, Any]) -> str:
    return artifact.get("name") or PurePosixPath(artifact["url"]).name


class Resolver:
    """uv in a folder of its own, which is removed with it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._environment = os.environ | {"UV_CACHE_DIR": str(folder / "cache")}
        if index := os.environ.get("PIP_INDEX_URL"):
            self._environment.setdefault("UV_DEFAULT_INDEX", index)
        # As a project's own settings, since uv has no options for them: which platforms count, and that each of them must have a wheel.
        cpython = "implementation_name == 'cpython' and platform_python_implementation == 'CPython'"
        platforms = [f"sys_platform == '{system}' and platform_machine == '{machine}'" for system, machine in PLATFORMS]
        supported = [f"{platform} and {cpython} and python_version <= '{PYTHONS[-1]}'" for platform in platforms]
        (folder / "pyproject.toml").write_text(f"[tool.uv]\nenvironments = {supported}\nrequired-environments = {platforms}\n")
        venv.create(folder / "venv", with_pip=True)
        self._run(folder / "venv" / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", UV)

    def resolve(self, requirements: Iterable[str], wanted: Iterable[Pin] = (), fixed: Iterable[Pin] = ()) -> list[Pin]:
        """Return one resolution for all environments, without hashes.

        Args:
            wanted: versions to take wherever they satisfy the requirements.
            fixed: versions that a package must have if it is needed.
        """
        output = self._write("output.txt", wanted)
        self._compile(requirements, fixed, output)
        pins = [Pin.parse(line) for line in output.read_text().splitlines() if line]
        return [pin for pin in pins if pin.environments]

    def packages(self, requirements: Iterable[str], fixed: Iterable[Pin]) -> dict[tuple[str, str], dict[str, Any]]:
        """Return the files of each package by name and version, as pylock.toml has them."""
        import tomllib

        output = self._folder / "pylock.toml"
        self._compile(requirements, fixed, output)
        with output.open("rb") as file:
            return {(package["name"], package["version"]): package for package in tomllib.load(file)["packages"]}

    def _compile(self, requirements: Iterable[str], fixed: Iterable[Pin], output: Path) -> None:
        inputs = [self._write("requirements.in", requirements), "--constraints", self._write("constraints.txt", fixed)]
        options = ["--universal", "--python-version", PYTHONS[0], "--only-binary", ":all:", "--no-binary", SOURCE_ONLY]
        options += ["--no-python-downloads", "--no-header", "--no-annotate", "--quiet"]
        self._run(self._folder / "venv" / "bin" / "uv", "pip", "compile", *options, *inputs, "--output-file", output)

    def _write(self, name: str, lines: Iterable[object]) -> Path:
        path = self._folder / name
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    def _run(self, *command: object) -> None:
        words = [str(part) for part in command]
        done = subprocess.run(words, cwd=self._folder, env=self._environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise LockError(f"{PurePosixPath(words[0]).name} failed: {done.stderr.strip()}")


def resolve_sections(requirements: Mapping[str, Collection[str]], wanted: Collection[Pin], resolver: Resolver) -> dict[str, list[Pin]]:
    """Return the pins of each section, with hashes.

    Args:
        wanted: the versions to stay with, wherever they still satisfy the requirements.
    """
    everything = [line for lines in requirements.values() for line in lines]
    whole = resolver.resolve(everything, wanted)
    packages = resolver.packages(everything, whole)
    sections: dict[str, list[Pin]] = {}
    for section, lines in requirements.items():
        core = [] if section in ("build", "core") else requirements["core"]
        in_core = {pin.name: frozenset[Environment]() for pin in whole}
        for pin in sections["core"] if core else ():
            in_core[pin.name] |= pin.environments
        sections[section] = []
        for pin in resolver.resolve([*core, *lines], fixed=whole):
            if environments := pin.environments - in_core[pin.name]:
                hashes = hashes_of(packages[pin.name, pin.version], environments)
                sections[section].append(Pin(pin.name, pin.version, marker_of(environments), hashes))
    return sections


def kept_pins(sections: Mapping[str, Collection[Pin]], upgrade: Collection[str] | None) -> list[Pin]:
    """Return the pins, without hashes, whose versions are to stay.

    Args:
        upgrade: names of packages whose versions may move; None for no package, empty for every package.
    """
    if upgrade is not None and not upgrade:
        return []
    moving = set(map(canonicalize_name, upgrade or ()))
    return sorted({replace(pin, hashes=()) for pins in sections.values() for pin in pins if pin.name not in moving}, key=str)


def make_lock(upgrade: Collection[str] | None) -> None:
    """Write the lock.

    Args:
        upgrade: as for ``kept_pins``.

    Raises:
        LockError: this Python is too old, uv finds no resolution, or a package has no wheel for a platform.
    """
    if sys.version_info < (3, 11):
        raise LockError(f"Python {sys.version.split()[0]} cannot make the lock; run .ci/lock.py with Python 3.11 or newer")
    kept = kept_pins(read_lock() if LOCK.exists() else {}, upgrade)
    with tempfile.TemporaryDirectory(prefix="evenkeel-lock-") as folder:
        sections = resolve_sections(read_requirements(), kept, Resolver(Path(folder)))
    parts = [f"# [{name}]\n" + "".join(f"{pin}\n" for pin in pins) for name, pins in sections.items()]
    LOCK.write_text(HEAD + "".join(parts), encoding="utf-8")


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--upgrade", nargs="*", metavar="NAME", help="take the newest versions, of all packages or of these")
    action.add_argument("--check", action="store_true", help="change nothing; compare the lock with setup.cfg")
    arguments = parser.parse_args(argv)
    try:
        if not arguments.check:
            make_lock(arguments.upgrade)
        if found := list(disagreements(read_requirements(), read_lock())):
            raise LockError("\n".join([*found, f"conf/requirements.lock does not fit setup.cfg; make it anew by `{COMMAND}`"]))
    except LockError as error:
        sys.exit(f"{error}")


if __name__ == "__main__":
    main()
