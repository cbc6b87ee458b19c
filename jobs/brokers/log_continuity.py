"""Where reading of ``__consumer_offsets`` continues, and whether its log is still the one that was read before."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from jobs.runtime.errors import CollectionBrokenError, EvenkeelError
from schemas.positions import Positions
from schemas.wire.keys import OFFSETS_TOPIC

if TYPE_CHECKING:
    from jobs.brokers.cluster import OffsetsLog

logger = logging.getLogger(__name__)


def resume_positions(stored: Positions, log: OffsetsLog, refusal: type[EvenkeelError], remedy: str) -> Positions:
    """Return where to read from: after the records that were read, in a new partition at its beginning.

    Args:
        refusal: the kind of error for a log that is not the one that was read.
        remedy: what to do about that.

    Raises:
        EvenkeelError: the log is not the one that was read. Reading on would miss records without notice, or mix two logs whose
            positions landing could not distinguish.
    """
    if stored.topic_id != log.topic_id or not stored.next_offsets.keys() <= log.end.keys():
        raise refusal(
            f"{OFFSETS_TOPIC} was deleted and made again (its id was {stored.topic_id}, is {log.topic_id}): records that were not read "
            f"before are lost, and its offsets begin at 0 again; {remedy}"
        )
    ahead = [number for number, offset in stored.next_offsets.items() if offset > log.end[number]]
    if ahead:
        ends = ", ".join(f"partition {number} up to {stored.next_offsets[number]}, its end is {log.end[number]}" for number in ahead)
        raise refusal(
            f"{OFFSETS_TOPIC} was read beyond its end: {ends}. Either a new leader is still catching up: then try again. Or the cluster "
            f"has lost records that were read: then {remedy}"
        )
    for number, offset in stored.next_offsets.items():
        if offset < log.begin[number]:
            logger.warning(
                "offsets %d to %d of %s, partition %d, are lost: the cluster removed them before they were read",
                *(offset, log.begin[number] - 1, OFFSETS_TOPIC, number),
            )
    return stored.model_copy(update={"next_offsets": {p: max(begin, stored.next_offsets.get(p, 0)) for p, begin in log.begin.items()}})


def check_same_log(positions: Positions, look: dict[str, Any]) -> None:
    """Refuse a metadata snapshot of another log than the one that is read.

    Raises:
        CollectionBrokenError: another cluster answers, or the topic was made again, or has another number of partitions.
    """
    if look["cluster_id"] != positions.cluster_id:
        raise CollectionBrokenError(f"cluster {look['cluster_id']} answers now, cluster {positions.cluster_id} answered before")
    topic = next((topic for topic in look["topics"] if topic["topic"] == OFFSETS_TOPIC), None)
    if topic is None or topic["topic_id"] != positions.topic_id:
        raise CollectionBrokenError(f"{OFFSETS_TOPIC} was deleted, or deleted and made again, while it was being read")
    found, read = len(topic["partitions"]), len(positions.next_offsets)
    if found != read:
        raise CollectionBrokenError(f"{OFFSETS_TOPIC} has {found} partitions now, it had {read} when reading began")
