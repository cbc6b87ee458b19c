"""Fencing files: the right to take a lease next, on stores where two commits may both succeed as the same version.

Only one process can create a fencing file. ``5.0`` gives the right to take the lease with token 5, ``0.0`` to make its table. If
the run dies before it takes the lease, the file expires; the next file is then ``5.1``.
"""

from __future__ import annotations

import logging
import os
import re
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path

from pyspark.errors import PySparkAttributeError
from pyspark.sql import SparkSession

from jobs.runtime.errors import explain
from jobs.runtime.jvm import STORAGE_ERRORS
from jobs.runtime.locations import address, local_folder
from jobs.storage.hadoop_files import remove_stored, store_once, stored_names

logger = logging.getLogger(__name__)

_NAME = re.compile(r"(\d+)\.(\d+)")


class FencingFiles:
    """The fencing files of one lease, as one run sees them.

    If no file can be made, for example over Spark Connect, every run gets the right, and only the log of the lease decides.
    """

    def __init__(self, spark: SparkSession, folder: str) -> None:
        local = local_folder(folder)
        self._store = _HadoopStore(spark, folder) if local is None else _LocalStore(local)
        self._mine: str | None = None

    def make(self, token: int, ended: datetime) -> bool:
        """Return whether this run, and no other, may use a token; removes the files of earlier tokens.

        Args:
            ended: a file made before this time has expired.
        """
        try:
            tries: dict[int, datetime] = {}
            for name, made_at in self._store.names().items():
                match = _NAME.fullmatch(name)
                if match is not None and int(match[1]) < token:
                    self._store.remove(name)
                elif match is not None and int(match[1]) == token:
                    tries[int(match[2])] = made_at
            newest = max(tries, default=-1)
            if tries and tries[newest] >= ended:
                return False
            name = f"{token}.{newest + 1}"
            is_made = self._store.make(name)
        except PySparkAttributeError:  # there is no JVM over Spark Connect
            return True
        except STORAGE_ERRORS as error:
            logger.warning("taking the lease without a fencing file; another run may take it at the same moment: %s", explain(error))
            return True
        self._mine = name if is_made else None
        return is_made

    def give_up(self) -> None:
        """Remove the newest file of this run, so that the next run need not wait until it expires."""
        if self._mine is not None:
            self._store.remove(self._mine)
            self._mine = None


class _LocalStore:
    """A folder of a file system that several machines mount; on NFS and FUSE only one process can create a file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def names(self) -> dict[str, datetime]:
        found = {}
        for path in self._folder.iterdir() if self._folder.exists() else ():
            with suppress(FileNotFoundError):  # it has just been removed
                found[path.name] = datetime.fromtimestamp(path.stat().st_mtime, timezone.utc)
        return found

    def make(self, name: str) -> bool:
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            os.close(os.open(self._folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
        except FileExistsError:
            return False
        return True

    def remove(self, name: str) -> None:
        (self._folder / name).unlink(missing_ok=True)


class _HadoopStore:
    def __init__(self, spark: SparkSession, folder: str) -> None:
        self._spark, self._folder = spark, address(folder)

    def names(self) -> dict[str, datetime]:
        return stored_names(self._spark, self._folder)

    def make(self, name: str) -> bool:
        return store_once(self._spark, f"{self._folder}/{name}")

    def remove(self, name: str) -> None:
        remove_stored(self._spark, f"{self._folder}/{name}")
