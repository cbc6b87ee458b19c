"""The zip of Evenkeel's packages for a cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from .messages import unwritable

ZIP_SOURCES = {"jobs": "jobs", "schemas": "schemas", "assignors": "assignors", "jobs/conf": "conf", "setup.cfg": "setup.cfg"}
"""The code for a cluster, and setup.cfg, which has the version: name of a folder or file in the zip -> its path in the checkout."""


def zip_path(root: str) -> str:
    """Return the path of a checkout's zip for clusters."""
    return f"{root}/.evenkeel/evenkeel.zip"


def write_zip(target: str, sources: Mapping[str, str]) -> None:
    """Write a zip of source files. The same sources give the same bytes: a fixed order and one date for all.

    Args:
        target: the path of the zip.
        sources: name of a folder or file in the zip -> its path.
    """
    import zipfile

    paths = ((name, source, path) for name, source in sources.items() for _, files in _sources(source) for path in files)
    members = sorted((name if path == source else f"{name}/{os.path.relpath(path, source)}", path) for name, source, path in paths)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, path in members:
            with open(path, "rb") as file:
                archive.writestr(zipfile.ZipInfo(member, (1980, 1, 1, 0, 0, 0)), file.read(), zipfile.ZIP_DEFLATED)


def _sources(source: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each folder of sources with the paths of its files; for a single file, the file with itself."""
    if os.path.isfile(source):
        yield source, [source]
    for parent, folders, names in os.walk(source):
        folders[:] = [name for name in folders if name != "__pycache__"]
        yield parent, [f"{parent}/{name}" for name in names if not name.endswith(".pyc")]


def update_zip(root: str) -> None:
    """Write a checkout's zip again if a source is newer, or a folder, from which a source may have been removed."""
    target = zip_path(root)
    sources = {name: f"{root}/{source}" for name, source in ZIP_SOURCES.items()}
    paths = (path for source in sources.values() for parent, files in _sources(source) for path in (parent, *files))
    if os.path.exists(target):
        made = os.stat(target).st_mtime_ns
        if all(os.stat(path).st_mtime_ns < made for path in paths):
            return
    part = f"{target}.{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        open(part, "wb").close()
    except OSError as error:
        raise unwritable(error, root, "the folder of evenkeel.zip for the cluster; make it writable") from None
    # Made under another name, with a date before the first file is read, so that no concurrent call and no later edit is missed.
    started = os.stat(part).st_mtime_ns
    write_zip(part, sources)
    os.utime(part, ns=(started, started))
    os.replace(part, target)
