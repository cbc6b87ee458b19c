"""A live cluster as an input: executors read its log, the driver reads its topic metadata, and the next run continues after both."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from jobs.brokers.client_properties import ClientProperties
from jobs.brokers.cluster import Cluster, Connection, OffsetsLog
from jobs.brokers.log_continuity import check_same_log, resume_positions
from jobs.brokers.records import Reader
from jobs.brokers.spans import Span, Work
from jobs.runtime.errors import ClusterError, InputError, TopicForbiddenError
from schemas.positions import Positions
from schemas.wire.keys import OFFSETS_TOPIC

logger = logging.getLogger(__name__)

TIMEOUT_SECONDS = 30.0


class LiveInput:
    """A cluster that answers, and whose ``__consumer_offsets`` may be read.

    Attributes:
        servers: ``host:port``, several ones separated by commas.
    """

    def __init__(self, servers: str, properties: ClientProperties, now: Callable[[], datetime]) -> None:
        """Connect.

        Raises:
            UsageError: librdkafka refuses the properties.
            ClusterError: no answer, or the login is refused, or the topic may not be read.
        """
        self.servers, self._properties, self._now = servers, properties, now
        self._connection = Connection(servers, properties, TIMEOUT_SECONDS)
        self._cluster = Cluster(self._connection)
        try:
            self._check_right_to_read(self._cluster.offsets_log())
        except TopicForbiddenError as error:
            raise ClusterError(
                f"{error}; give the user an ACL that allows READ on it, or land the polls of `collect`, which need none"
            ) from None

    def _check_right_to_read(self, log: OffsetsLog) -> None:
        """Read at the end of a partition: a user who may ask where the log ends may still have no right to read it."""
        partition, end = next(iter(log.end.items()))
        began_at = time.monotonic()
        with closing(Reader(self._connection, {partition: end})) as reader:
            while not reader.next_batch().next_offsets:
                if time.monotonic() - began_at > TIMEOUT_SECONDS:
                    why = self._connection.outage or "the brokers answer other requests"
                    raise ClusterError(
                        f"{self.servers}: no answer to a read of {OFFSETS_TOPIC} within {TIMEOUT_SECONDS:g} s ({why}); try again"
                    )

    def begin(self, stored: Mapping[str, int], name: str | None, fallback: str | None) -> Reading:
        """Return what a run has to read: from the end of the last run up to the end of the log now.

        Args:
            stored: ``runs.positions`` of the last published run.
            name: the cluster's name in the tables; None for Kafka's own id.
            fallback: the name of a cluster that has no id.

        Raises:
            InputError: the log is not the one that was read before under this name.
            ClusterError: no answer.
        """
        log = self._cluster.offsets_log()
        cluster_id = name or self._cluster.cluster_id or fallback or "default"
        before = stored_positions(stored, cluster_id)
        topic_id, next_offsets = before or (log.topic_id, log.begin)
        found = Positions(
            cluster_id=self._cluster.cluster_id,
            cluster_name=cluster_id,
            topic=OFFSETS_TOPIC,
            topic_id=topic_id,
            next_offsets=next_offsets,
        )
        try:
            positions = resume_positions(found, log, InputError, f"land cluster {cluster_id} under another name, with --cluster-id")
        except InputError as error:
            raise InputError(f"{self.servers}: {error}") from None
        ranges = ((number, offset, log.end[number]) for number, offset in positions.next_offsets.items())
        spans = tuple(Span(number, begin, end) for number, begin, end in ranges if begin < end)
        left = sum(span.end - span.begin for span in spans)
        logger.info("cluster %s: reading %d offsets from %d of %d partitions", cluster_id, left, len(spans), len(log.end))
        work = Work(self.servers, self._properties, TIMEOUT_SECONDS, spans)
        next_positions = {position_key(cluster_id, log.topic_id, number): end for number, end in log.end.items()}
        return Reading(cluster_id, work, next_positions, partial(self._read_metadata_line, positions))

    def _read_metadata_line(self, positions: Positions) -> bytes:
        at_ms = int(self._now().timestamp() * 1000)
        look = self._cluster.read_metadata_snapshot()
        check_same_log(positions, look)
        return json.dumps({"observed_at_ms": at_ms, **look, "cluster_id": positions.cluster_name}).encode()


@dataclass(frozen=True)
class Reading:
    """What one run reads of a cluster.

    Attributes:
        cluster_id: the cluster's name in the tables.
        work: for the executors.
        next_positions: where the next run continues, as in ``runs.positions``.
        read_metadata_line: reads a metadata snapshot and returns it as a line that landing decodes; raises ClusterError without an answer,
            and CollectionBrokenError when it is another cluster by now, or another log.
    """

    cluster_id: str
    work: Work
    next_positions: dict[str, int]
    read_metadata_line: Callable[[], bytes]


def position_key(cluster_id: str, topic_id: str | None, partition: int) -> str:
    """Return the key of a partition in ``runs.positions``.

    >>> position_key("prod eu", "tGk0", 49), position_key("c", None, 0)
    ('prod eu tGk0 49', 'c  0')
    """
    return f"{cluster_id} {topic_id or ''} {partition}"


def stored_positions(stored: Mapping[str, int], cluster_id: str) -> tuple[str | None, dict[int, int]] | None:
    """Return the topic's id and the next offset of each partition of a cluster; None for one that was never read.

    >>> stored_positions({"prod eu tGk0 49": 7, "eu tGk1 49": 8}, "prod eu")
    ('tGk0', {49: 7})
    """
    of_cluster = [(key.rsplit(" ", 2), offset) for key, offset in stored.items() if key.rsplit(" ", 2)[0] == cluster_id]
    if not of_cluster:
        return None
    return of_cluster[0][0][1] or None, {int(partition): offset for (_, _, partition), offset in of_cluster}
