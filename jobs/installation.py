"""Where the running program was imported from: folders, or the zip that is all a cluster gets. Needs no Spark."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import zipfile
from pathlib import Path

import assignors
import jobs
import schemas
from jobs.launcher import write_zip

PACKAGES = (jobs, schemas, assignors)


def own_archive() -> Path | None:
    """Return the zip that the program was imported from; None when it was folders."""
    archive = getattr(jobs.__spec__.loader, "archive", None) if jobs.__spec__ is not None else None
    return None if archive is None else Path(archive)


def unpack_conf(archive: Path) -> Path:
    """Return a folder with the ``conf/`` of a zip, which is there for as long as the program runs."""
    folder = Path(tempfile.mkdtemp(prefix="evenkeel-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(folder, [name for name in packed.namelist() if name.startswith("jobs/conf/")])
    return folder / "jobs" / "conf"


def zip_packages(folder: Path) -> Path:
    """Return a zip in a folder, with the packages that are running and the settings: the one that the launcher makes of the same files."""
    target = folder / "evenkeel.zip"
    archive = own_archive()
    if archive is not None:
        return Path(shutil.copy(archive, target))
    folders = {package.__name__: package.__path__[0] for package in PACKAGES}
    # In a checkout the settings are beside the packages, in an installed wheel inside.
    conf = Path(folders["jobs"]).parent / "conf"
    if (conf / "local.yaml").is_file():
        folders["jobs/conf"] = str(conf)
    write_zip(str(target), folders)
    return target
