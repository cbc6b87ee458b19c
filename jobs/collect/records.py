"""Collecting the records of ``__consumer_offsets``: where to continue, which records came, and when their file is published.

Each record is in a file before the positions in the folder pass it. So the next collection continues without a gap, however this one
ends. Only committed records are read.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from datetime import datetime
from functools import partial

from jobs.brokers.cluster import Cluster, OffsetsLog
from jobs.brokers.log_continuity import check_same_log, resume_positions
from jobs.brokers.records import Reader
from jobs.collect.folder import CaptureFolder
from jobs.collect.options import CollectOptions
from jobs.collect.session import (
    ANOTHER_FOLDER,
    MetadataSnapshots,
    StopSignal,
    check_cluster,
    counted,
    files_in_words,
    naming_the_folder,
    next_command,
    saved_in_words,
)
from jobs.runtime.errors import CaptureFolderError, ClusterError, CollectionBrokenError, InterruptedRunError, TopicForbiddenError
from jobs.runtime.locations import masked
from schemas.positions import Positions
from schemas.wire.keys import OFFSETS_TOPIC

logger = logging.getLogger(__name__)

PROGRESS_SECONDS = 1.0


def resume(stored: Positions | None, log: OffsetsLog, cluster_id: str | None, name: str | None) -> Positions:
    """Return where to read from: after the folder's records, in a new partition at its beginning.

    Raises:
        CaptureFolderError: the folder belongs to another cluster, or its records are of another log. Reading on would miss records
            without notice, or mix two logs whose positions landing could not distinguish.
    """
    if stored is None:
        return Positions(
            cluster_id=cluster_id,
            cluster_name=cluster_id if name is None else name,
            topic=OFFSETS_TOPIC,
            topic_id=log.topic_id,
            next_offsets=log.begin,
        )
    check_cluster(stored, cluster_id, name)
    return resume_positions(stored, log, CaptureFolderError, f"{ANOTHER_FOLDER}, and another name of the cluster with --cluster-id")


class RecordCollection:
    """One collection of records, from its first metadata snapshot to its last."""

    def __init__(
        self, options: CollectOptions, folder: CaptureFolder, cluster: Cluster, stored: Positions | None, now: Callable[[], datetime]
    ) -> None:
        """Write a first metadata snapshot, and begin to read.

        Raises:
            ClusterError: no answer, or the topic may not be read.
            CaptureFolderError: the folder belongs to another cluster or another log.
        """
        log = cluster.offsets_log()
        with naming_the_folder(options):
            self._positions = resume(stored, log, cluster.cluster_id, options.cluster_id)
        self._options, self._folder, self._connection = options, folder, cluster.connection
        self._ends, self._next_offsets = log.end, dict(self._positions.next_offsets)
        self._looks = MetadataSnapshots(cluster, folder, self._positions.cluster_name, partial(check_same_log, self._positions), now)
        self._looks.write()
        self._reader = Reader(cluster.connection, self._positions.next_offsets)
        self._progress = _Progress()
        self._heard_at = self._file_opened_at = time.monotonic()
        self._is_outage_logged = False
        name = self._positions.cluster_name
        logger.info("cluster %s: reading %d offsets from %d partitions of %s", name, self.left, len(log.end), OFFSETS_TOPIC)

    def close(self) -> None:
        """Disconnect."""
        self._reader.close()

    @property
    def left(self) -> int:
        """Return how many of the offsets that the log had at the beginning are not read yet; some are not records."""
        return sum(max(0, end - self._next_offsets[number]) for number, end in self._ends.items())

    def read(self, ending: StopSignal) -> None:
        """Read up to the end of the log, or with ``--follow`` until a stop signal; then write a last metadata snapshot.

        Raises:
            EvenkeelError: earlier records are saved, unless the folder cannot be written.
        """
        try:
            while not ending.is_asked and (self._options.follow or self.left):
                self._take()
            self._publish()
            self._looks.write()
        except TopicForbiddenError as error:
            if not self._record_count:
                raise  # nothing was collected, so the folder can still take polls
            self._publish()
            raise ClusterError(f"{error}; {self._saved()}") from None
        except (ClusterError, CollectionBrokenError) as error:
            self._publish()
            raise type(error)(f"{error}; {self._saved()}") from None
        finally:
            self._progress.clear()
        if ending.is_asked and not self._options.follow:
            raise InterruptedRunError(f"interrupted; {self._saved()}")

    def _take(self) -> None:
        batch, moment = self._reader.next_batch(), time.monotonic()
        if not self._folder.open_row_count:
            self._file_opened_at = moment
        if batch.records.num_rows:
            self._folder.add(batch.records)
        self._next_offsets.update(batch.next_offsets)
        if batch.next_offsets:
            self._heard_at = moment
        is_old = moment - self._file_opened_at >= self._options.roll_interval
        if self._folder.is_full or (self._folder.open_row_count and is_old):
            self._publish()
        if self._options.follow:
            self._log_outage()
            if self._looks.write_after(self._options.metadata_interval):
                logger.info("read %d records so far, %d offsets are left", self._record_count, self._left_now())
        elif moment - self._heard_at > self._options.timeout:
            why = self._connection.outage or "the brokers answer, but send no records"
            waited = f"no records came for {self._options.timeout:g} s"
            raise CollectionBrokenError(f"{self._options.bootstrap_servers}: {waited}, {self.left} offsets are left ({why})")
        self._progress.print_line(moment, self._record_count, self._left_now)

    def _log_outage(self) -> None:
        outage = self._connection.outage
        if outage and not self._is_outage_logged:
            logger.warning("no broker can be reached, trying again: %s", outage)
        elif self._is_outage_logged and not outage:
            logger.info("the cluster answers again")
        self._is_outage_logged = bool(outage)

    def _left_now(self) -> int:
        return self._reader.remaining(self._next_offsets) if self._options.follow else self.left

    @property
    def _record_count(self) -> int:
        return self._folder.record_count + self._folder.open_row_count

    def _publish(self) -> None:
        self._folder.publish(self._positions.model_copy(update={"next_offsets": dict(self._next_offsets)}))

    def _saved(self) -> str:
        count = self._folder.record_count
        return saved_in_words(count, "record") if count else "no records were read"

    def summary(self) -> str:
        """Return what was collected into which files; the next command is the last line."""
        folder = str(self._folder.path)
        what = f"{counted(self._folder.record_count, 'record')} of {counted(len(self._next_offsets), 'partition')} of {OFFSETS_TOPIC}"
        return f"{what} -> {files_in_words(self._folder.files)} in {masked(folder)}\n{next_command(folder)}"


class _Progress:
    """A line with the progress of reading; shown on a terminal only."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._shown_at, self._shown_count = time.monotonic(), 0

    def print_line(self, moment: float, record_count: int, left: Callable[[], int]) -> None:
        """Show the line, once a second at most."""
        seconds = moment - self._shown_at
        if self._is_terminal and seconds >= PROGRESS_SECONDS:
            rate = (record_count - self._shown_count) / seconds
            line = f"evenkeel: {record_count:,} records, {rate:,.0f} records/s, {left():,} to go"
            print(f"\r\x1b[K{line}", end="\r", file=sys.stderr, flush=True)
            self._shown_at, self._shown_count = moment, record_count

    def clear(self) -> None:
        """Remove the line."""
        if self._is_terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
