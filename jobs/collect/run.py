"""Collecting: a live cluster -> files for ``land``: the records of ``__consumer_offsets`` or polls of the groups, and topic metadata.

Collect reads records where the user may read the topic, since they are complete. Otherwise, or with ``--poll``, it polls the groups. It
works once, or with ``--follow`` until Ctrl-C or SIGTERM. A folder has records or polls, never both: landing would take the two for
different generations. Collect needs neither Java nor Spark.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import closing
from datetime import datetime

from jobs.brokers.client_properties import ClientProperties
from jobs.brokers.cluster import Cluster, Connection
from jobs.collect.folder import CaptureFolder, open_folder
from jobs.collect.groups import GroupCollection
from jobs.collect.options import CollectOptions
from jobs.collect.records import RecordCollection
from jobs.collect.session import ANOTHER_FOLDER, StopSignal
from jobs.runtime.errors import CaptureFolderError, TopicForbiddenError
from jobs.runtime.locations import masked
from schemas.wire.keys import OFFSETS_TOPIC

logger = logging.getLogger(__name__)


def run(options: CollectOptions, properties: ClientProperties, now: Callable[[], datetime]) -> str:
    """Collect, and return the result in one line.

    Raises:
        ClusterError: the cluster does not answer, or the user may neither read the topic nor see a group.
        CaptureFolderError: the folder cannot be written, is in use, or belongs to another cluster or log.
        CollectionBrokenError: collecting ended early; everything read until then is saved.
    """
    ending = StopSignal()
    with ending.listening(), open_folder(options.output, now) as folder:
        try:
            return _collect(options, properties, folder, ending, now)
        except KeyboardInterrupt:
            if not options.follow or ending.is_reading:
                raise
            return "interrupted before anything was read"


def _collect(
    options: CollectOptions, properties: ClientProperties, folder: CaptureFolder, ending: StopSignal, now: Callable[[], datetime]
) -> str:
    positions, polled = folder.positions(), folder.polled()
    is_polled = options.poll or polled is not None
    if is_polled and positions is not None:
        raise CaptureFolderError(
            f"--output {masked(str(options.output))}: found records of {OFFSETS_TOPIC}, expected a folder without them for polls; "
            f"{ANOTHER_FOLDER}"
        )
    cluster = Cluster(Connection(options.bootstrap_servers, properties, options.timeout))
    if not is_polled:
        try:
            with closing(RecordCollection(options, folder, cluster, positions, now)) as records:
                return _read(records, ending)
        except TopicForbiddenError as error:
            if positions is not None:
                raise TopicForbiddenError(f"{error}, and the folder already has records of it; to poll, {ANOTHER_FOLDER}") from None
            logger.warning("%s: polling the groups instead, which misses changes between two polls", error)
            ending.is_reading = False
    return _read(GroupCollection(options, folder, cluster, polled, now), ending)


def _read(collection: RecordCollection | GroupCollection, ending: StopSignal) -> str:
    ending.is_reading = True
    collection.read(ending)
    return collection.summary()
