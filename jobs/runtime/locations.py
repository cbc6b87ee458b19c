"""Kinds of warehouse locations: a folder, a path in an object store, or a schema of a catalog. Needs no Spark."""

from __future__ import annotations

import os
import re
from pathlib import Path

from jobs.launcher import workload

LOG = "_delta_log"
SCRATCH, LEASE, PROBE_FILE = "_staging", "_lease", ".evenkeel.reach"
RUN_LOCK, COMMIT_LOCK = ".evenkeel.lock", ".evenkeel.commit.lock"
OTHER_ENTRIES = {SCRATCH, RUN_LOCK, COMMIT_LOCK, LEASE, PROBE_FILE, "report.html"}
"""Entries of a warehouse's folder besides its tables."""


def is_path(location: str) -> bool:
    """Return whether a warehouse location is a path; ``a.b`` or ``a.b.c`` names a catalog schema."""
    return not workload.is_schema(location)


def local_folder(location: str) -> Path | None:
    """Return the folder of a warehouse on a local file system, None for object stores and catalogs.

    >>> local_folder("file:///tmp/w") == local_folder("file:/tmp/w") == local_folder("/tmp/w")
    True
    """
    folder = workload.local_folder(location, "")
    return None if folder is None else Path(folder).absolute()


def table_around(path: Path) -> Path | None:
    """Return the folder of the Delta table that a path is in, or is itself; None if it is in none."""
    for folder in (path, *path.parents):
        if folder.name == LOG:
            return folder.parent
        if is_table(folder):
            return folder
    return None


def is_table(folder: Path) -> bool:
    """Return whether a folder is that of a Delta table, of Evenkeel or not."""
    return os.path.isdir(folder / LOG)  # unlike Path's own, no error if it cannot be read


def is_warehouse(folder: Path) -> bool:
    """Return whether runs have been recorded in a folder."""
    return is_table(folder / "runs")


def address(location: str) -> str:
    """Return a path in the form for Spark: without a scheme it would be on the cluster's default file system, such as HDFS.

    >>> address("/data/w"), address("file:/data/w"), address("s3a://bucket/w")
    ('file:/data/w', 'file:/data/w', 's3a://bucket/w')

    Databricks knows its volumes by the bare path.

    >>> address("/Volumes/main/audit/captures")
    '/Volumes/main/audit/captures'
    """
    folder = local_folder(location)
    if folder is None:
        return location
    return str(folder) if folder.is_relative_to("/Volumes") else f"file:{folder}"


_NOT_TEXT = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
_SPARKS_OWN_IN_PATHS, _SPARKS_OWN_IN_SCHEMAS = re.compile(r"[*?\[\]{}\\`]"), re.compile("[{}]")
_USER = re.compile("://[^/]*@")
_SCHEME_WITHOUT_HOST = re.compile("(?!file:)[A-Za-z][A-Za-z0-9+.-]+:/(?!/)")


def is_text(name: str) -> bool:
    """Return whether a name can be written into tables, logs and file systems alike: UTF-8 without control characters."""
    return _NOT_TEXT.search(name) is None


def objection(location: str) -> str | None:
    r"""Return why Spark cannot use a location; None if it can.

    >>> objection("data/2026-11")
    >>> objection("data/[ab]")
    "found '[' in its name, which has a special meaning in Spark; choose another name, or rename it"
    >>> objection("dbfs:/w")
    "found 'dbfs:/'; write a location on another file system as dbfs://..., on this machine as file:/..."
    """
    if not re.sub("^file:(//)?", "", location).strip():
        return "expected a name, found none"
    if not is_text(location):
        return "found a control character, or bytes that are not UTF-8, in its name; choose another name, or rename it"
    if _USER.search(location):
        return "found a user or password in an address, which logs would repeat; pass them in Spark's settings or in the environment"
    scheme = _SCHEME_WITHOUT_HOST.match(location)
    if scheme is not None:  # it would be a folder of that name on the driver's own disk
        return f"found {scheme[0]!r}; write a location on another file system as {scheme[0]}/..., on this machine as file:/..."
    odd = (_SPARKS_OWN_IN_PATHS if is_path(location) else _SPARKS_OWN_IN_SCHEMAS).search(location)
    return None if odd is None else f"found {odd[0]!r} in its name, which has a special meaning in Spark; choose another name, or rename it"


def masked(location: str) -> str:
    """Return a location in the form that messages may contain.

    >>> masked("s3a://key:secret@bucket/w")
    's3a://***@bucket/w'
    """
    return on_one_line(_USER.sub("://***@", location))


def on_one_line(text: str) -> str:
    r"""Return a text with escapes in place of unprintable characters.

    >>> print(on_one_line("a\nb"))
    a\nb
    """
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


SHARED_FILE_SYSTEMS = (
    *("9p", "acfs", "afs", "beegfs", "ceph", "cifs", "fuse", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "ocfs2", "orangefs"),
    *("panfs", "prl_fs", "pvfs2", "smb", "vboxsf", "virtiofs", "vmhgfs", "wekafs"),
)
"""First letters of the types of file systems that several machines may mount (also a host and its guests), or that may have no locks."""
OF_ONE_MACHINE = ("fuse.fuse-overlayfs",)
"""Exceptions: types that begin with these letters, but belong to one machine."""


def is_shared(folder: Path, mounts: Path = Path("/proc/self/mounts")) -> bool:
    """Return whether a folder, or the nearest existing one above it, is on a file system whose locks may not reach all machines.

    Args:
        mounts: the mounted file systems, one on each line; without such a file (macOS) the folder counts as local.
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
    nearest = next((folder_above for folder_above in (folder, *folder.parents) if folder_above in types), None)
    kind = types[nearest] if nearest is not None else ""
    return kind.startswith(SHARED_FILE_SYSTEMS) and kind not in OF_ONE_MACHINE
