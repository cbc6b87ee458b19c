"""Commits of one run: signed, read back, and made while no other process commits."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from pyspark.sql import SparkSession

from jobs.runtime.errors import ForeignCommitError, WarehouseExchangedError
from jobs.runtime.file_lock import exchanged
from jobs.storage.table_versions import TableVersions
from schemas.tables import IDENTITY_PROPERTY, RUNS

logger = logging.getLogger(__name__)

COMMIT_NOTE = "spark.databricks.delta.commitInfo.userMetadata"
SIGNATURE = "evenkeel run "
_SAID = {
    "numOutputRows": "rows written",
    "numCopiedRows": "of them copied",
    "numDeletedRows": "rows deleted",
    "numTargetRowsDeleted": "rows deleted",
    "numTargetRowsUpdated": "rows changed",
}
"""Delta's metrics of a commit that ``--verbose`` shows, with their words."""
STOP_IT = "something else writes to this warehouse: stop it and run again"


class CommitGuard(TableVersions):
    """Tables that one run commits to.

    Attributes:
        identity: id of the warehouse when the run began; None before, and if an older release has made it.
        nonce: identifies this process.
        committing: keeps every other process from committing while its block runs.
    """

    def __init__(self, spark: SparkSession, location: str) -> None:
        super().__init__(spark, location)
        self.identity: str | None = None
        self._expected_versions: dict[str, int] = {}
        self.nonce = uuid.uuid4().hex
        self.committing: Callable[[], AbstractContextManager[None]] = nullcontext
        self._signature = ""

    @contextmanager
    def signed(self, run_id: str, committing: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
        """Sign every commit of the block with the run's name, which distinguishes it from foreign ones.

        The setting belongs to the session, which other programs may use too: it is restored, so that their commits are not signed.

        Args:
            committing: keeps every other process from committing while its block runs.
        """
        self._signature, self.committing = f"{SIGNATURE}{run_id} {self.nonce}", committing
        try:
            with self.setting(COMMIT_NOTE, self._signature):
                yield
        finally:
            self._signature, self.committing = "", nullcontext

    @contextmanager
    def setting(self, name: str, value: str) -> Iterator[None]:
        """Give a setting of the session a value, and its own one back when the block ends."""
        conf = self.spark.conf
        before = conf.get(name, None)
        conf.set(name, value)
        try:
            yield
        finally:
            conf.unset(name) if before is None else conf.set(name, before)

    def commit(self, name: str, write: Callable[[], object]) -> dict[str, Any] | None:
        """Write to a table while no other process commits; read the commit back and return its information, None if there was no commit.

        Raises:
            ForeignCommitError: another program has written to the table since ``recover`` or this run did, or overwrote the commit.
            WarehouseExchangedError: the location has another warehouse by now; checked here if its log is a local file.
        """
        with self.committing():
            if self.folder is not None:
                self.check_identity()
            before = self.version(name)
            self.check_left(name, before)
            write()
            after = self.version(name)
            if after == before:
                return None
            info = self.commit_info(name)
        if after != before + 1 or (info.get("userMetadata") or "") != self._signature:
            raise ForeignCommitError(
                f"{name}: expected version {before + 1} by this run, found version {after} by {self.newest_writer(name)}; {STOP_IT}"
            )
        if name in self._expected_versions:
            self._expected_versions[name] = after
        metrics = info.get("operationMetrics") or {}
        figures = ", ".join(f"{words} {metrics[key]}" for key, words in _SAID.items() if int(metrics.get(key) or 0))
        logger.debug("%s: version %d by %s%s", name, after, info.get("operation"), f": {figures}" if figures else "")
        return info

    def verify_own_versions(self) -> dict[str, int]:
        """Return the version of every table but ``runs`` after ``recover`` and the commits of this run.

        Raises:
            ForeignCommitError: another program has written to a table meanwhile, also to one that this run does not write to.
        """
        versions = self.versions()
        for name, version in versions.items():
            self.check_left(name, version)
        return versions

    def check_left(self, name: str, version: int) -> None:
        """Check that a table has the version that this run found or left.

        Raises:
            ForeignCommitError: it has another version.
        """
        left = self._expected_versions.get(name, version)
        if version != left:
            raise ForeignCommitError(
                f"{name}: expected version {left}, as this run found or left it, found version {version} by {self.newest_writer(name)}; "
                f"{STOP_IT}"
            )

    def stored_identity(self) -> str | None:
        """Return the id of the warehouse at the location; None if an older release has made it."""
        return self.properties(RUNS.name).get(IDENTITY_PROPERTY)

    def check_identity(self) -> None:
        """Check that the location still has the warehouse that ``recover`` found; a copy of it counts as the same.

        Raises:
            WarehouseExchangedError: it has another one.
        """
        if self.identity is not None and (found := self.stored_identity()) != self.identity:
            raise WarehouseExchangedError(exchanged(self.location, f"the one with the id {self.identity}", found or "one without an id"))

    def alter(self, name: str, change: str) -> None:
        """Change the declaration of a table; ``change`` is the part of ALTER TABLE after the name."""
        self.commit(name, lambda: self.spark.sql(f"ALTER TABLE {self.identifier(name)} {change}"))

    def fill(self, name: str, change: str) -> None:
        """Change every row of a table; ``change`` is the part of UPDATE after SET."""
        self.commit(name, lambda: self.spark.sql(f"UPDATE {self.identifier(name)} SET {change}"))
