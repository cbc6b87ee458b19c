"""The origin of the running program: folders, or the zip, which is all that a cluster gets. Needs no Spark."""

from __future__ import annotations

import atexit
import configparser
import importlib.metadata
import shutil
import tempfile
import zipfile
from pathlib import Path

import assignors
import jobs
import schemas
from jobs.launcher.archive import write_zip
from jobs.runtime.errors import PlatformError

PACKAGES = (jobs, schemas, assignors)


def own_archive() -> Path | None:
    """Return the zip that the program was imported from; None if it was imported from folders."""
    archive = getattr(jobs.__spec__.loader, "archive", None) if jobs.__spec__ is not None else None
    return None if archive is None else Path(archive)


def evenkeel_version() -> str:
    """Return the version of the running program.

    A checkout and evenkeel.zip have it in setup.cfg beside the packages, an installed wheel in its metadata there. Another evenkeel
    that is installed elsewhere does not count.

    Raises:
        PlatformError: neither is beside the packages.
    """
    archive = own_archive()
    root = Path(jobs.__file__).resolve().parent.parent if archive is None else archive
    setup = root / "setup.cfg" if archive is None else zipfile.Path(archive) / "setup.cfg"
    if setup.is_file():
        config = configparser.ConfigParser()
        config.read_string(setup.read_text(encoding="utf-8"))
        if config.get("metadata", "name", fallback=None) == "evenkeel":
            return config["metadata"]["version"]
    for distribution in importlib.metadata.distributions(name="evenkeel", path=[str(root)]):
        return distribution.version
    raise PlatformError(f"no version of Evenkeel in {root}: expected its setup.cfg or evenkeel-*.dist-info there; copy setup.cfg there too")


def unpack_conf(archive: Path) -> Path:
    """Return a folder with the ``conf/`` of a zip, which exists as long as the program runs."""
    folder = Path(tempfile.mkdtemp(prefix="evenkeel-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(folder, [name for name in packed.namelist() if name.startswith("jobs/conf/")])
    return folder / "jobs" / "conf"


def zip_packages(folder: Path) -> Path:
    """Write a zip of the running packages and the settings into a folder; return its path. The launcher makes the same zip."""
    target = folder / "evenkeel.zip"
    archive = own_archive()
    if archive is not None:
        return Path(shutil.copy(archive, target))
    sources = {package.__name__: package.__path__[0] for package in PACKAGES}
    root = Path(sources["jobs"]).parent
    # In a checkout the settings and the version are beside the packages; in an installed wheel the settings are inside.
    if (root / "conf" / "local.yaml").is_file():
        sources |= {"jobs/conf": str(root / "conf"), "setup.cfg": str(root / "setup.cfg")}
    write_zip(str(target), sources)
    return target
