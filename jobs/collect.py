"""Collecting: a live cluster -> files that ``land`` takes: the records of ``__consumer_offsets`` and looks at the cluster.

Once, from where the folder left off to where the log ended when it began; or, with ``--follow``, until Ctrl-C or SIGTERM. Read is what is
committed. Each record is in some file before the positions in the folder go past it, so that whatever ends a collection, the next one
goes on without a gap. Needs neither Java nor Spark.
"""

from __future__ import annotations

import logging
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import Any

from jobs.capture_folder import CaptureFolder, open_folder
from jobs.client_properties import ClientProperties
from jobs.errors import CaptureFolderError, ClusterError, CollectionBrokenError
from jobs.location import told
from jobs.sources.cluster import Cluster, Connection, OffsetsLog, Reader
from jobs.sources.consumer_offsets import OFFSETS_TOPIC
from schemas.positions import Positions

logger = logging.getLogger(__name__)

FOLLOW_FILE_SECONDS, ONCE_FILE_SECONDS = 5.0, 60.0
"""How long a record waits for its file to be published."""
PROGRESS_SECONDS = 1.0


@dataclass(frozen=True)
class Request:
    """What the command line asked for.

    Attributes:
        servers: ``host:port``, several ones separated by commas.
        cluster_name: what landing is to call the cluster; None for Kafka's own id, or the name that the folder has already.
        look_seconds: time between two looks with ``follow``.
        timeout_seconds: how long to wait for an answer.
    """

    servers: str
    output: Path
    properties: ClientProperties
    follow: bool = False
    cluster_name: str | None = None
    look_seconds: float = 300.0
    timeout_seconds: float = 30.0


class Ending:
    """Whether Ctrl-C or SIGTERM has come. The first one ends a collection that is reading in good order, every other one at once."""

    def __init__(self) -> None:
        self.is_asked = self.is_reading = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take the signals for the length of the block; they belong to the main thread."""
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


def run(request: Request, now: Callable[[], datetime]) -> str:
    """Collect, and return what came of it in one line.

    Raises:
        ClusterError: the cluster does not answer, or does not let us read.
        CaptureFolderError: the folder cannot be written, is in use, or does not go on where the cluster is.
        CollectionBrokenError: reading ended early; everything until then is saved.
    """
    ending = Ending()
    with ending.listening(), open_folder(request.output, now) as folder:
        try:
            collection = _begin(request, folder, now)
        except KeyboardInterrupt:
            if not request.follow:
                raise
            return "interrupted before anything was read"
        with closing(collection.reader):
            ending.is_reading = True
            collection.read(ending)
        return collection.summary()


def resume(stored: Positions | None, log: OffsetsLog, cluster_id: str | None, name: str | None) -> Positions:
    """Return where to read from: where the folder left off, at its beginning in a partition that is new.

    Raises:
        CaptureFolderError: the folder is of another cluster, or the log is not the one that it was read from. To go on would be to pass
            over records in silence, or to mix two logs whose places landing takes for the same.
    """
    if stored is None:
        return Positions(
            cluster_id=cluster_id,
            cluster_name=cluster_id if name is None else name,
            topic=OFFSETS_TOPIC,
            topic_id=log.topic_id,
            next_offsets=log.begin,
        )
    another = "name another folder with --output"
    if stored.cluster_id != cluster_id:
        raise CaptureFolderError(f"the folder is of cluster {stored.cluster_id}, this is cluster {cluster_id}; {another}")
    if name is not None and name != stored.cluster_name:
        raise CaptureFolderError(f"the folder calls the cluster {stored.cluster_name!r}, --cluster-id says {name!r}; {another}")
    if stored.topic_id != log.topic_id or not stored.next_offsets.keys() <= log.end.keys():
        raise CaptureFolderError(
            f"{OFFSETS_TOPIC} was deleted and made again (its id was {stored.topic_id}, is {log.topic_id}): what was not read before is "
            f"lost, and its offsets began anew; {another}, and another name of the cluster with --cluster-id"
        )
    ahead = [number for number, offset in stored.next_offsets.items() if offset > log.end[number]]
    if ahead:
        places = ", ".join(f"partition {number} up to {stored.next_offsets[number]}, its end is {log.end[number]}" for number in ahead)
        raise CaptureFolderError(
            f"{OFFSETS_TOPIC} was read beyond its end: {places}. Either a new leader is still catching up: try again; or the cluster has "
            f"lost records that were collected: {another}"
        )
    for number, offset in stored.next_offsets.items():
        if offset < log.begin[number]:
            logger.warning(
                "lost: offsets %d to %d of %s, partition %d, were removed from the cluster before they were read",
                *(offset, log.begin[number] - 1, OFFSETS_TOPIC, number),
            )
    return stored.model_copy(update={"next_offsets": {p: max(begin, stored.next_offsets.get(p, 0)) for p, begin in log.begin.items()}})


def _begin(request: Request, folder: CaptureFolder, now: Callable[[], datetime]) -> _Collection:
    """Return a collection that has had its first look at the cluster, and begins to read."""
    stored = folder.positions()
    connection = Connection(request.servers, request.properties, request.timeout_seconds)
    cluster = Cluster(connection)
    log = cluster.offsets_log()
    try:
        positions = resume(stored, log, cluster.cluster_id, request.cluster_name)
    except CaptureFolderError as error:
        raise CaptureFolderError(f"--output {told(str(request.output))}, {request.servers}: {error}") from None
    collection = _Collection(request, folder, connection, cluster, positions, log.end, now)
    collection.look()
    logger.info(
        "cluster %s: reading %d partitions of %s, %d offsets to go", positions.cluster_name, len(log.end), OFFSETS_TOPIC, collection.left
    )
    return collection


class _Collection:
    """One collection, from its first look to its last."""

    def __init__(
        self,
        request: Request,
        folder: CaptureFolder,
        connection: Connection,
        cluster: Cluster,
        positions: Positions,
        ends: dict[int, int],
        now: Callable[[], datetime],
    ) -> None:
        self._request, self._folder, self._connection, self._cluster, self._now = request, folder, connection, cluster, now
        self._positions, self._ends, self._next_offsets = positions, ends, dict(positions.next_offsets)
        self.reader = Reader(connection, positions.next_offsets)
        self._progress = _Progress()
        self._looked_at = self._heard_at = self._file_opened_at = time.monotonic()
        self._is_outage_told = False

    @property
    def left(self) -> int:
        """Return how many offsets are to come of those that there were at the beginning; some are no records."""
        return sum(max(0, end - self._next_offsets[number]) for number, end in self._ends.items())

    def look(self) -> None:
        """Write a look at the cluster into the folder.

        Raises:
            CollectionBrokenError: it is another cluster by now, or another log.
        """
        at_ms = int(self._now().timestamp() * 1000)
        look = self._cluster.look()
        self._looked_at = time.monotonic()
        _check_unchanged(self._positions, look)
        self._folder.publish_look({"observed_at_ms": at_ms, **look, "cluster_id": self._positions.cluster_name})

    def read(self, ending: Ending) -> None:
        """Read until there is no more to read, or until the end is asked for; then have a last look.

        Raises:
            EvenkeelError: what came before is saved, unless the folder cannot be written.
        """
        try:
            while not ending.is_asked and (self._request.follow or self.left):
                self._take()
            self._publish()
            self.look()
        except (ClusterError, CollectionBrokenError) as error:
            self._publish()
            raise type(error)(f"{error}; {self._saved()}") from None
        finally:
            self._progress.clear()
        if ending.is_asked and not self._request.follow:
            raise CollectionBrokenError(f"interrupted; {self._saved()}")

    def _take(self) -> None:
        batch, moment = self.reader.next_batch(), time.monotonic()
        if not self._folder.open_row_count:
            self._file_opened_at = moment
        if batch.records.num_rows:
            self._folder.add(batch.records)
        self._next_offsets.update(batch.next_offsets)
        if batch.next_offsets:
            self._heard_at = moment
        file_seconds = FOLLOW_FILE_SECONDS if self._request.follow else ONCE_FILE_SECONDS
        if self._folder.is_full or (self._folder.open_row_count and moment - self._file_opened_at >= file_seconds):
            self._publish()
        if self._request.follow:
            self._tell_outage()
            self._look_now_and_then(moment)
        elif moment - self._heard_at > self._request.timeout_seconds:
            why = self._connection.outage or "the brokers answer, but send no records"
            waited = f"nothing came for {self._request.timeout_seconds:g} s"
            raise CollectionBrokenError(f"{self._request.servers}: {waited}, {self.left} offsets to go ({why})")
        self._progress.tell(moment, self._record_count, self._left_now)

    def _look_now_and_then(self, moment: float) -> None:
        if moment - self._looked_at < self._request.look_seconds:
            return
        try:
            self.look()
            logger.info("%d records so far, %d offsets to go", self._record_count, self._left_now())
        except ClusterError as error:  # a cluster that is away for a while does not end this: the next look is as good
            self._looked_at = moment
            logger.warning("no look at the cluster: %s", error)

    def _tell_outage(self) -> None:
        outage = self._connection.outage
        if outage and not self._is_outage_told:
            logger.warning("no broker can be reached, trying again: %s", outage)
        elif self._is_outage_told and not outage:
            logger.info("the cluster answers again")
        self._is_outage_told = bool(outage)

    def _left_now(self) -> int:
        return self.reader.remaining(self._next_offsets) if self._request.follow else self.left

    @property
    def _record_count(self) -> int:
        return self._folder.record_count + self._folder.open_row_count

    def _publish(self) -> None:
        self._folder.publish(self._positions.model_copy(update={"next_offsets": dict(self._next_offsets)}))

    def _saved(self) -> str:
        count = self._folder.record_count
        return f"{count} records are saved, call again to go on behind them" if count else "no record was read"

    def summary(self) -> str:
        """Return what was collected into which files, and the command to go on with."""
        files = self._folder.files
        where = files[0] if len(files) == 1 else f"{len(files)} files, {files[0]} to {files[-1]}" if files else "no new file"
        folder = str(self._folder.path)
        what = f"{self._folder.record_count:,} records of {len(self._next_offsets)} partitions of {OFFSETS_TOPIC}"
        return f"{what} -> {where} in {told(folder)}; go on with: run --input {shlex.quote(folder)}"


def _check_unchanged(positions: Positions, look: dict[str, Any]) -> None:
    """Refuse to go on when the log is not the one that is being read.

    Raises:
        CollectionBrokenError: another cluster answers, or the topic was made again, or has more partitions.
    """
    if look["cluster_id"] != positions.cluster_id:
        raise CollectionBrokenError(f"cluster {look['cluster_id']} answers by now, cluster {positions.cluster_id} was being read")
    topic = next((topic for topic in look["topics"] if topic["topic"] == OFFSETS_TOPIC), None)
    if topic is None or topic["topic_id"] != positions.topic_id:
        raise CollectionBrokenError(f"{OFFSETS_TOPIC} was deleted, or deleted and made again, while it was being read")
    found, read = len(topic["partitions"]), len(positions.next_offsets)
    if found != read:
        raise CollectionBrokenError(f"{OFFSETS_TOPIC} has {found} partitions by now, {read} were being read")


class _Progress:
    """A line on a terminal that tells how far reading has come; nothing elsewhere."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._shown_at, self._shown_count = time.monotonic(), 0

    def tell(self, moment: float, record_count: int, left: Callable[[], int]) -> None:
        """Show the line, once a second at most."""
        seconds = moment - self._shown_at
        if self._is_terminal and seconds >= PROGRESS_SECONDS:
            rate = (record_count - self._shown_count) / seconds
            line = f"evenkeel: {record_count:,} records, {rate:,.0f} records/s, {left():,} to go"
            print(f"\r\x1b[K{line}", end="\r", file=sys.stderr, flush=True)
            self._shown_at, self._shown_count = moment, record_count

    def clear(self) -> None:
        """Take the line away."""
        if self._is_terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
