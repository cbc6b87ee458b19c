"""The zip of our packages, which is what a cluster gets."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from .messages import unwritable

ZIP_SOURCES = {"jobs": "jobs", "schemas": "schemas", "assignors": "assignors", "jobs/conf": "conf", "setup.cfg": "setup.cfg"}
"""What a cluster imports, and setup.cfg, which has the version: the name of a folder or file in the zip, and its path in the checkout."""


def zip_path(root: str) -> str:
    """Return where a checkout keeps the zip for clusters."""
    return f"{root}/.evenkeel/evenkeel.zip"


def write_zip(target: str, sources: Mapping[str, str]) -> None:
    """Write a zip of source files. The same sources make the same bytes: one order, one date for all.

    Args:
        target: the path of the zip.
        sources: by the name that a folder or file has in the zip, where it is.
    """
    import zipfile

    paths = ((name, source, path) for name, source in sources.items() for _, files in _sources(source) for path in files)
    members = sorted((name if path == source else f"{name}/{os.path.relpath(path, source)}", path) for name, source, path in paths)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, path in members:
            with open(path, "rb") as file:
                archive.writestr(zipfile.ZipInfo(member, (1980, 1, 1, 0, 0, 0)), file.read(), zipfile.ZIP_DEFLATED)


def _sources(source: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each folder of sources, with the paths of its files; a file alone with itself."""
    if os.path.isfile(source):
        yield source, [source]
    for parent, folders, names in os.walk(source):
        folders[:] = [name for name in folders if name != "__pycache__"]
        yield parent, [f"{parent}/{name}" for name in names if not name.endswith(".pyc")]


def update_zip(root: str) -> None:
    """Write a checkout's zip anew when a source is newer, or its folder, from which another may have gone."""
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
        raise unwritable(error, root, "where evenkeel.zip for the cluster is kept; make it writable") from None
    # Made under another name and dated before the first file is read: neither a concurrent call nor a later edit can be missed.
    started = os.stat(part).st_mtime_ns
    write_zip(part, sources)
    os.utime(part, ns=(started, started))
    os.replace(part, target)
