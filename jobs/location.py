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
