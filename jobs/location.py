"""What the name of a warehouse says: a folder, a place in an object store, or a schema of a catalog. Needs no Spark."""

from __future__ import annotations

import re
from pathlib import Path

_SCHEMA = re.compile(r"[^/:.]+(\.[^/:.]+){1,2}")


def is_path(location: str) -> bool:
    """Return whether a warehouse location is a path; ``a.b`` or ``a.b.c`` names a catalog schema.

    >>> is_path("s3a://bucket/a.b"), is_path("warehouse"), is_path("."), is_path("main.evenkeel")
    (True, True, True, False)
    """
    return _SCHEMA.fullmatch(location) is None


def local_folder(location: str) -> Path | None:
    """Return the folder of a warehouse on a local file system, None for object stores and catalogs.

    >>> local_folder("file:///tmp/w") == local_folder("file:/tmp/w") == local_folder("/tmp/w")
    True
    """
    path = re.sub("^file:(//(?=/))?", "", location)
    return Path(path).absolute() if is_path(location) and "://" not in path else None


SHARED_FILE_SYSTEMS = ("afs", "beegfs", "ceph", "cifs", "fuse", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "ocfs2", "smb")
"""First letters of the types of file systems that several machines mount, or that need not keep locks at all."""
OF_ONE_MACHINE = ("fuse.fuse-overlayfs",)
"""What starts with these letters all the same."""


def is_shared(folder: Path, mounts: Path = Path("/proc/self/mounts")) -> bool:
    """Return whether a folder, or the nearest one above it that exists, lies on a file system whose locks do not reach everybody.

    Args:
        mounts: the mounted file systems, a line each; where there is no such file (macOS), the folder counts as this machine's own.
    """
    if not mounts.exists():
        return False
    while not folder.exists():
        folder = folder.parent
    folder = folder.resolve()
    types: dict[Path, str] = {}
    for line in mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        _, point, kind, *_ = line.split(" ")
        types[Path(re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), point))] = kind  # a later mount hides an earlier one
    nearest = next((place for place in (folder, *folder.parents) if place in types), None)
    kind = types[nearest] if nearest is not None else ""
    return kind.startswith(SHARED_FILE_SYSTEMS) and kind not in OF_ONE_MACHINE
