"""Files that earlier runs have read: their records are counted, but not decoded again.

A run stores in ``runs`` which files it has decoded, and the outcomes of their records. If a later run gets all of these files again, the
outcomes are known: landed records are duplicates now, all others have the same outcome. If some of the files are missing, the others are
decoded again, since the counts are of all files together.

This works only for raw logs, topic metadata and logs of coordinators. The outcome of records from other sources depends on other
records of their groups.
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from operator import itemgetter

from pyspark.sql import functions as F

from jobs.decoders.captures import Capture
from jobs.storage.warehouse import Warehouse
from schemas.tables import CONTRACT_VERSION, RUNS
from schemas.vocabulary import Outcome, RunStatus, Source

logger = logging.getLogger(__name__)

READ_ONCE = (Source.CONSUMER_OFFSETS, Source.CLUSTER_METADATA, Source.COORDINATOR_LOG)
DECODING = 1
"""A release that makes other rows from the same records increases this; then files that earlier releases read are decoded again."""


@dataclass(frozen=True)
class KnownFiles:
    """Which files of an input earlier runs have read.

    Attributes:
        unread: files that have to be decoded.
        keys: of the unread files, for later runs; only of sources in ``READ_ONCE``.
        counts: the outcomes of the records in the other files, as in ``runs.input_counts``; empty without such files.
    """

    unread: tuple[Capture, ...]
    keys: tuple[str, ...]
    counts: Mapping[str, int]


def find_known(
    warehouse: Warehouse,
    digests: Mapping[Capture, bytes],
    cluster_ids: Iterable[str | None],
    log_time_zone: str | None,
    retained_from: date | None,
) -> KnownFiles:
    """Return which captures have to be decoded, and the outcomes of the records in the others.

    Args:
        digests: by capture the SHA-256 of its content.
        cluster_ids: the option that overrides the captures' own, and the name for captures without one.
        log_time_zone: the zone of times without one in logs.
        retained_from: first month that retention keeps: older records have another outcome since then.
    """
    common = (DECODING, CONTRACT_VERSION, retained_from, *cluster_ids)
    keys = {
        capture: _key(capture, digest, (*common, log_time_zone) if capture.source is Source.COORDINATOR_LOG else common)
        for capture, digest in digests.items()
        if capture.source in READ_ONCE
    }
    given = Counter(keys.values())
    known: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for files, ended in _batches(warehouse, given):
        batch = Counter(files)
        if all(known[key] + count <= given[key] for key, count in batch.items()):
            known.update(batch)
            counts.update(landed_again(ended))
    unread = []
    for capture in digests:
        key = keys.get(capture)
        if key is None or not known[key]:
            unread.append(capture)
        else:
            known[key] -= 1
    if len(unread) < len(digests):
        logger.info("%d of %d files are not decoded again, because earlier runs have read them", len(digests) - len(unread), len(digests))
    return KnownFiles(tuple(unread), tuple(keys[capture] for capture in unread if capture in keys), dict(counts))


def _key(capture: Capture, digest: bytes, context: tuple[object, ...]) -> str:
    described = (digest.hex(), str(capture.source), capture.cluster_id, *context)
    return hashlib.sha256(repr(described).encode()).hexdigest()


def _batches(warehouse: Warehouse, keys: Iterable[str]) -> list[tuple[list[str], dict[str, int]]]:
    """Return the files that each published run has decoded together, and the outcomes of their records, newest first.

    Only runs with some of these files are returned, and only runs after the last one whose ``files`` is null.
    """
    if not keys or warehouse.is_empty(RUNS.name):
        return []
    runs = warehouse.read(RUNS.name).where(F.col("status") == str(RunStatus.PUBLISHED))
    is_concerned = F.arrays_overlap("files", F.lit(sorted(keys)))
    silent = F.max(F.when(F.col("files").isNull(), F.col("run_sequence"))).alias("silent")
    concerned = F.collect_list(F.when(is_concerned, F.struct("run_sequence", "files", "file_counts"))).alias("concerned")
    found = runs.agg(silent, concerned).collect()[0]
    batches = sorted(found["concerned"], key=itemgetter("run_sequence"), reverse=True)
    return [(row["files"], dict(row["file_counts"])) for row in batches if row["run_sequence"] > (found["silent"] or 0)]


def counts_to_note(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the part of ``runs.input_counts`` of the sources in ``READ_ONCE``, without the totals of all sources."""
    return {name: count for name, count in counts.items() if name.partition(".")[0] in READ_ONCE}


def landed_again(noted: Mapping[str, int]) -> dict[str, int]:
    """Return the outcomes of records that are read again, with totals, from their first outcomes.

    >>> landed_again({"cluster-metadata.read": 3, "cluster-metadata.landed": 3, "cluster-metadata.landed.look": 3})
    {'cluster-metadata.read': 3, 'read': 3, 'cluster-metadata.duplicate': 3, 'duplicate': 3, 'cluster-metadata.duplicate.look': 3}
    """
    again: Counter[str] = Counter()
    for name, count in noted.items():
        source, word, *kind = name.split(".", 2)
        word = str(Outcome.DUPLICATE) if word == str(Outcome.LANDED) else word
        again[".".join((source, word, *kind))] += count
        if not kind:
            again[word] += count
    return dict(again)
