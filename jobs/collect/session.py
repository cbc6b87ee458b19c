"""Parts that collecting records and polling groups share: the stop signal, and metadata snapshots."""

from __future__ import annotations

import logging
import shlex
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from types import FrameType
from typing import Any

from jobs.brokers.cluster import Cluster
from jobs.collect.folder import CaptureFolder
from jobs.collect.options import CollectOptions
from jobs.launcher.messages import program
from jobs.runtime.errors import CaptureFolderError, ClusterError
from jobs.runtime.locations import masked
from schemas.positions import PolledGroups, Positions

logger = logging.getLogger(__name__)

WAREHOUSE = "audit"
"""The warehouse of the next command, in the current folder; the docs use the same name."""
ANOTHER_FOLDER = "name another folder with --output"


class StopSignal:
    """Whether Ctrl-C or SIGTERM has come. While a collection reads, the first one ends it in good order, a second one at once."""

    def __init__(self) -> None:
        self.is_asked = self.is_reading = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle the signals during the block; only the main thread can."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._ask) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.is_asked or not self.is_reading:
            raise KeyboardInterrupt
        self.is_asked = True


class MetadataSnapshots:
    """Writes metadata snapshots of the cluster into the folder of a collection."""

    def __init__(
        self,
        cluster: Cluster,
        folder: CaptureFolder,
        cluster_name: str | None,
        check: Callable[[dict[str, Any]], None],
        now: Callable[[], datetime],
    ) -> None:
        """Prepare snapshots of a cluster that the files call ``cluster_name``; ``check`` refuses one of another cluster or log."""
        self._cluster, self._folder, self._cluster_name, self._check, self._now = cluster, folder, cluster_name, check, now
        self._looked_at = time.monotonic()

    def write(self) -> None:
        """Write a metadata snapshot into the folder.

        Raises:
            ClusterError: no answer.
            CollectionBrokenError: it is of another cluster or log than the one that is collected.
        """
        at_ms = int(self._now().timestamp() * 1000)
        look = self._cluster.read_metadata_snapshot()
        self._looked_at = time.monotonic()
        self._check(look)
        self._folder.publish_look({"observed_at_ms": at_ms, **look, "cluster_id": self._cluster_name})

    def write_after(self, seconds: float) -> bool:
        """Write a metadata snapshot if the last one is this old; return whether one was written.

        Raises:
            CollectionBrokenError: it is of another cluster or log than the one that is collected.
        """
        moment = time.monotonic()
        if moment - self._looked_at < seconds:
            return False
        try:
            self.write()
        except ClusterError as error:  # a short outage does not end the collection: the next snapshot is as good
            self._looked_at = moment
            logger.warning("could not read the topic metadata, trying again later: %s", error)
            return False
        return True


def check_cluster(stored: Positions | PolledGroups, cluster_id: str | None, name: str | None) -> None:
    """Refuse a folder of another cluster.

    Raises:
        CaptureFolderError: the folder belongs to another cluster, or has another name for it.
    """
    if stored.cluster_id != cluster_id:
        raise CaptureFolderError(f"the folder belongs to cluster {stored.cluster_id}, this is cluster {cluster_id}; {ANOTHER_FOLDER}")
    if name is not None and name != stored.cluster_name:
        raise CaptureFolderError(
            f"the cluster's name is {stored.cluster_name!r} in the folder, and {name!r} with --cluster-id; {ANOTHER_FOLDER}, "
            "or leave out --cluster-id"
        )


@contextmanager
def naming_the_folder(options: CollectOptions) -> Iterator[None]:
    """Add the folder and the cluster in front of each CaptureFolderError of the block."""
    try:
        yield
    except CaptureFolderError as error:
        raise CaptureFolderError(f"--output {masked(str(options.output))}, {options.bootstrap_servers}: {error}") from None


def next_command(folder: str) -> str:
    """Return the command that audits a folder of captures.

    Its warehouse is not the default one, which has the demo: two clusters in one report would be hard to tell apart.
    """
    return shlex.join([program(), "run", "--input", folder, "--warehouse", WAREHOUSE])


def counted(number: int, one: str) -> str:
    """Return a number with thousands separated and its noun."""
    return f"{number:,} {one if number == 1 else one + 's'}"


def saved_in_words(number: int, one: str, of: str = "") -> str:
    """Return how much a collection that ended early has saved, and what to do.

    Args:
        of: what these are of, with a blank before it.
    """
    are, them = ("is", "it") if number == 1 else ("are", "them")
    return f"{counted(number, one)}{of} {are} saved, call again to continue after {them}"


def files_in_words(files: list[str]) -> str:
    """Return the names of the written files, in a few words."""
    return files[0] if len(files) == 1 else f"{len(files)} files, {files[0]} to {files[-1]}" if files else "no new file"
