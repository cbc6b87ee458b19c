"""What stored generations cost, and what each assignor would have cost over the same history of a group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from jobs.reading.published import PublishedTables, StoredRow
from jobs.reading.stored import GroupKey
from schemas.vocabulary import Basis


@dataclass(frozen=True, slots=True)
class Cost:
    """What one generation costs under one assignor.

    Attributes:
        movement_count: partitions that have another owner than before.
        eager_revocation_count: partitions that members which stay would give up under the eager protocol.
        cooperative_revocation_count: those of them that they do not get back.
        actual_revocation_count: what the members did give up; None where their claims do not say, and for what did not happen.
    """

    movement_count: int
    eager_revocation_count: int
    cooperative_revocation_count: int
    actual_revocation_count: int | None


@dataclass(frozen=True, slots=True)
class GenerationCosts:
    """One generation of a group.

    Attributes:
        previous_generation: the number of the one that it was audited after; None for the first of an incarnation.
        strategy: the recorded one; empty without members, or if it is not known.
        missing_count: generations directly before it that are not recorded.
        is_settled: nothing is withheld.
        observed: None where the generation before is not known.
        by_strategy: assignor -> its cost; None where it has no result, or where its own history begins.
    """

    position: int
    generation: int
    previous_generation: int | None
    strategy: str
    member_count: int
    missing_count: int
    is_follow_up: bool
    is_settled: bool
    observed: Cost | None
    by_strategy: Mapping[str, Cost | None]


_COUNTS = ("movement_count", "eager_revocation_count", "cooperative_revocation_count", "actual_revocation_count")
_COLUMNS = (
    "cluster_id",
    "group_id",
    "position",
    "generation",
    "previous_generation",
    "basis",
    "strategy",
    "member_count",
    "generation_gap",
    "is_follow_up",
    "is_settled",
    *_COUNTS,
)


def read_costs(
    tables: PublishedTables, groups: Collection[GroupKey], since: datetime | None = None
) -> dict[GroupKey, list[GenerationCosts]]:
    """Return the generations of groups in their order; a group without one is not there.

    Args:
        since: the earliest ``observed_at``; None for the whole history that is stored.

    Raises:
        WarehouseDamagedError: a table cannot be read.
    """
    wanted = {"basis": [str(Basis.OBSERVED), str(Basis.COUNTERFACTUAL)], "group_id": {key.group_id for key in groups}}
    rows: dict[GroupKey, dict[int, list[StoredRow]]] = {key: defaultdict(list) for key in groups}
    for row in tables.rows("generation_audits", _COLUMNS, wanted, since):
        key = GroupKey(row["cluster_id"], row["group_id"])
        if key in rows:
            rows[key][row["position"]].append(row)
    return {key: [_costs(of_group[position]) for position in sorted(of_group)] for key, of_group in rows.items() if of_group}


def _costs(rows: Collection[StoredRow]) -> GenerationCosts:
    """Return one generation of its observed row and its counterfactual ones."""
    observed = next(row for row in rows if row["basis"] == Basis.OBSERVED)
    return GenerationCosts(
        position=observed["position"],
        generation=observed["generation"],
        previous_generation=observed["previous_generation"],
        strategy=observed["strategy"],
        member_count=observed["member_count"],
        missing_count=max(observed["generation_gap"] or 0, 0),
        is_follow_up=bool(observed["is_follow_up"]),
        is_settled=observed["is_settled"] is not False,
        observed=_cost(observed),
        by_strategy={row["strategy"]: _cost(row) for row in rows if row["basis"] == Basis.COUNTERFACTUAL},
    )


def _cost(row: StoredRow) -> Cost | None:
    return None if row["movement_count"] is None else Cost(*(row[name] for name in _COUNTS))
