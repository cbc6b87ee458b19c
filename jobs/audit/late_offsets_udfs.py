"""Worker function for audits and movements of earlier runs: what newly landed commits or topic metadata change in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta, timezone
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

from pyspark.sql.pandas.types import to_arrow_schema

from jobs.audit.load_imbalance import HeldTopic, weigh
from jobs.audit.offset_rows import Item, read_groups, read_rows
from jobs.audit.resume_offsets import GroupOffsets, Moment
from jobs.audit.uneven_loads import Racks, find_uneven_loads
from jobs.findings.rows import finding_rows
from jobs.workers.batches import Batches, to_batches
from jobs.workers.guard import Guard, WorkerLimits
from jobs.workers.packing import unpack_topics
from schemas.computed_row_types import ResumedRow
from schemas.staging import RESUMED_ROWS

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def resume_again(batches: Batches, max_look_delay_s: float | None, limits: WorkerLimits) -> Batches:
    """Compute the resume columns of movements again, the weights of audits and the findings on their loads: rows of ``RESUMED_ROWS``.

    Args:
        max_look_delay_s: as in ``audit_history``.
        limits: limits of a worker.

    Raises:
        GroupFailedError: any unexpected error, with its cluster and group.
    """

    def resumed_rows(guard: Guard) -> Iterator[ResumedRow]:
        for (cluster_id, group_id), items in read_groups(batches):
            resume = partial(_resume_group, max_look_delay_s=max_look_delay_s)
            yield from guard.compute(f"cluster {cluster_id}, group {group_id}", items, resume)

    with Guard(limits) as guard:
        yield from to_batches(resumed_rows(guard), to_arrow_schema(RESUMED_ROWS), 2_000)


def _resume_group(items: Iterable[Item], max_look_delay_s: float | None) -> Iterator[ResumedRow]:
    """Yield the rows of a group one by one: of a generation the assignment comes first, then its audit, then its movements."""
    offsets = GroupOffsets()
    for _, rows in groupby(read_rows(items, offsets), key=itemgetter("position")):
        moment, held = None, []
        for row in rows:
            if moment is None:
                moment = offsets.moment(row["observed_us"], row["is_complete"], max_look_delay_s)
            if row["held"] is not None:
                held += [HeldTopic(row["member_id"], **topic) for topic in row["held"]]
            elif row["audit"] is not None:
                yield from _weighed_again(row, held, moment)
            else:
                movement = row["movement"]
                columns = moment.resume(movement["topic"], movement["partition"], movement["member_id"])._asdict()
                yield {"movement": {**movement, **columns}, "is_changed": _differs(columns, movement)}


def _weighed_again(row: Mapping[str, Any], held: list[HeldTopic], moment: Moment) -> Iterator[ResumedRow]:
    audit = row["audit"]
    weighed = weigh(held, moment, audit["member_count"])
    columns = weighed.weights._asdict()
    yield {"audit": {**audit, **columns}, "is_changed": _differs(columns, audit)}
    place: Any = {**audit, "observed_at_ms": row["observed_us"] // 1_000}
    for found in finding_rows(place, find_uneven_loads(audit, held, weighed, partial(_racks, row.get("racks")))):
        yield {"finding": found}


def _racks(racks: Any) -> Racks:
    return Racks.of(zip(racks["member_ids"], racks["member_racks"], strict=True), unpack_topics(racks))


def _differs(columns: Mapping[str, Any], stored: Mapping[str, Any]) -> bool:
    """Return whether a value differs from the stored one; times are compared in microseconds."""
    return any(value != _in_microseconds(stored[name]) for name, value in columns.items())


def _in_microseconds(value: Any) -> Any:
    return (value - EPOCH) // timedelta(microseconds=1) if isinstance(value, datetime) else value
