"""The stored generations of groups in their order, each with what the audit says of its causes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING

from assignors.audit.triggers import Trigger
from assignors.generation.generation import Generation
from jobs.reading.groups import read_topics, stored_generation
from jobs.reading.stored import GroupKey
from schemas.vocabulary import Basis

if TYPE_CHECKING:
    from jobs.reading.published import PublishedTables, StoredRow

MEMBERS_AT_ONCE = 20_000
"""Members whose snapshots are in memory at the same time; each generation counts as one more."""
NEEDED_BEFORE = 2
"""Generations before one that are needed to predict it."""

AUDIT_COLUMNS = (
    *("cluster_id", "group_id", "position", "observed_at", "basis", "member_count", "topics_hash", "kafka_version"),
    *("previous_generation", "generation_gap", "triggers"),
)
SNAPSHOT_COLUMNS = (
    *("cluster_id", "group_id", "position", "generation", "strategy", "members", "leader_client"),
    *("has_subscriptions", "is_generation_inferred"),
)
"""The columns of ``generation_audits`` and ``subscription_snapshots`` that make a recorded generation."""


@dataclass(frozen=True)
class RecordedGeneration:
    """One generation of a group.

    Attributes:
        position: orders the generations of the group.
        is_next: whether nothing was missing before it when it was audited. Not so for the first of an incarnation, where generations are
            missing in between, and in a source that shows a group at moments only.
        previous_generation: the number of the one that it was audited after, which ``maintain`` may have dropped since. None for the
            first of an incarnation.
        triggers: None where the generation before is not known.
        leader_client: client library of the leader; None where it is not known.
        kafka_version: release whose behaviour the audit recomputed it with; None without a recomputed assignment.
    """

    key: GroupKey
    position: int
    observed_at: datetime
    generation: Generation
    is_next: bool
    previous_generation: int | None
    triggers: tuple[Trigger, ...] | None
    leader_client: str | None
    kafka_version: str | None

    def follows(self, before: RecordedGeneration) -> bool:
        """Return whether another stored generation is the one directly before it."""
        return self.is_next and self.key == before.key and self.previous_generation == before.generation.generation


def read_generations(tables: PublishedTables, groups: Collection[GroupKey], since: datetime | None = None) -> Iterator[RecordedGeneration]:
    """Yield the generations of groups, by cluster, name and position. At any time the snapshots of ``MEMBERS_AT_ONCE`` are in memory.

    Args:
        since: the time from which on all are wanted. The two before it come too. None for the whole history that is stored.

    Raises:
        WarehouseDamagedError: a table cannot be read.
    """
    for audits in _slices(_audits(tables, groups, since), MEMBERS_AT_ONCE):
        wanted = {"group_id": {row["group_id"] for row in audits}, "position": {row["position"] for row in audits}}
        yield from recorded_generations(
            audits, tables.rows("subscription_snapshots", SNAPSHOT_COLUMNS, wanted), read_topics(tables, audits)
        )


def recorded_generations(
    audits: Iterable[StoredRow], snapshots: Iterable[StoredRow], topics: Mapping[tuple[str, str], Iterable[StoredRow]]
) -> Iterator[RecordedGeneration]:
    """Yield the generations of rows, in the order of the audits; none where there is no snapshot.

    Args:
        audits: the observed ones, each with the release of the recomputed one; see ``observed_audits``.
        topics: see ``read_topics``.
    """
    by_key = {_snapshot_key(row): row for row in snapshots}
    for audit in audits:
        snapshot = by_key.get(_snapshot_key(audit))
        if snapshot is not None:
            yield _recorded(audit, snapshot, topics.get((audit["cluster_id"], audit["topics_hash"]), ()))


def observed_audits(rows: Collection[StoredRow]) -> list[StoredRow]:
    """Return the observed audits by cluster, name and position, each with the release of the recomputed one of its generation.

    Args:
        rows: observed and recomputed audits, with ``AUDIT_COLUMNS`` at least.
    """
    releases = {_snapshot_key(row): row["kafka_version"] for row in rows if row["basis"] == Basis.RECOMPUTED}
    observed = sorted((row for row in rows if row["basis"] == Basis.OBSERVED), key=_snapshot_key)
    return [{**row, "kafka_version": releases.get(_snapshot_key(row))} for row in observed]


def _audits(tables: PublishedTables, groups: Collection[GroupKey], since: datetime | None) -> list[StoredRow]:
    wanted = {"basis": [str(Basis.OBSERVED), str(Basis.RECOMPUTED)], "group_id": {key.group_id for key in groups}}
    observed = observed_audits([row for row in tables.rows("generation_audits", AUDIT_COLUMNS, wanted) if _key(row) in groups])
    return [row for _, of_group in groupby(observed, key=_key) for row in _from(list(of_group), since)]


def _from(of_group: Sequence[StoredRow], since: datetime | None) -> Sequence[StoredRow]:
    """Return the generations since a time, and those before it that are needed to judge the first one."""
    if since is None:
        return of_group
    first = next((number for number, row in enumerate(of_group) if row["observed_at"] >= since), len(of_group))
    return of_group[max(first - NEEDED_BEFORE, 0) :] if first < len(of_group) else ()


def _slices(audits: Iterable[StoredRow], most: int) -> Iterator[list[StoredRow]]:
    """Yield the audits in their order, together of so many members; a larger generation comes alone."""
    piece: list[StoredRow] = []
    size = 0
    for row in audits:
        if piece and size + row["member_count"] + 1 > most:
            yield piece
            piece, size = [], 0
        piece.append(row)
        size += row["member_count"] + 1
    if piece:
        yield piece


def _recorded(audit: StoredRow, snapshot: StoredRow, topics: Iterable[StoredRow]) -> RecordedGeneration:
    shows_moments = snapshot["is_generation_inferred"] or snapshot["has_subscriptions"] is False
    return RecordedGeneration(
        key=_key(audit),
        position=audit["position"],
        observed_at=audit["observed_at"],
        generation=stored_generation(snapshot, topics),
        is_next=audit["previous_generation"] is not None and not (audit["generation_gap"] or 0) > 0 and not shows_moments,
        previous_generation=audit["previous_generation"],
        triggers=None if audit["triggers"] is None else tuple(map(Trigger, audit["triggers"])),
        leader_client=snapshot["leader_client"],
        kafka_version=audit["kafka_version"],
    )


def _key(row: StoredRow) -> GroupKey:
    return GroupKey(row["cluster_id"], row["group_id"])


def _snapshot_key(row: StoredRow) -> tuple[str, str, int]:
    return row["cluster_id"], row["group_id"], row["position"]
