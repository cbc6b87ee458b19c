"""One generation of a group as people ask for it: members, partitions, movements, cause and findings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from jobs.pages.figures import movement_words
from jobs.pages.generation_words import special, what_changed
from jobs.pages.needs import RECURRENT, holds_now, severest_first
from jobs.reading.fleet import cycle_s
from jobs.reading.one_group import GroupGeneration, PartitionOffsets, partitions_of
from jobs.reading.published import StoredRow
from jobs.show.members import NamedMember, members_of
from schemas.vocabulary import CauseSource, GroupType

_NO_OFFSETS = PartitionOffsets(None, None, None, None)
PROTOCOLS = {GroupType.CONSUMER.value: "consumer protocol", GroupType.CLASSIC.value: "classic protocol"}


@dataclass(frozen=True)
class DescribedMember:
    """A member with what it has.

    Attributes:
        lag: of the partitions whose lag is known, together; None where none is.
        unknown_lag_count: partitions whose lag is not known.
    """

    named: NamedMember
    rack: str | None
    partition_count: int
    lag: int | None
    unknown_lag_count: int


@dataclass(frozen=True)
class DescribedPartition:
    """A partition with its owner; None where nobody owns it."""

    topic: str
    partition: int
    offsets: PartitionOffsets
    owner: NamedMember | None


@dataclass(frozen=True)
class MovementGroup:
    """Partitions of one topic that moved from the same owner to the same owner, in the same way.

    Attributes:
        words: kind of the movement in words.
        source: owner before; None for nobody.
        target: owner now; None for nobody.
        lag: records still to read there, where known.
    """

    words: str
    kind: str
    source: NamedMember | None
    target: NamedMember | None
    topic: str
    partitions: tuple[int, ...]
    lag: int | None


@dataclass(frozen=True)
class CauseOfGeneration:
    """Why a generation came about.

    Attributes:
        member: the member that it is about; None for a cause of the whole group.
        member_id: its id, also where the member is not among those known.
        source: what the cause is known from.
    """

    cause: str
    member: NamedMember | None
    member_id: str | None
    source: str
    detail: str | None


@dataclass(frozen=True)
class DescribedGeneration:
    """All of it. Names are as clients sent them.

    Attributes:
        names: the members of this generation and the one before, by member id.
        kind: ``follow-up``, ``rewrite`` or ``repeat``; empty for an ordinary rebalance.
        change: what changed, in the words of the report; None where the generation before is not known.
        offsets_at: time of the newest metadata snapshot among the offsets; None without one.
        findings: of this generation, the severest first.
        now_findings: those that hold now, by rules that found nothing in this generation.
        other_findings: of the other rules that have found something only in other generations, the newest of each.
        holding_rules: rules of which a finding holds now, see ``holds_now`` of jobs/pages/needs.py.
    """

    group: GroupGeneration
    names: Mapping[str, NamedMember]
    protocol: str | None
    kind: str
    change: str | None
    causes: tuple[CauseOfGeneration, ...]
    members: tuple[DescribedMember, ...]
    partitions: tuple[DescribedPartition, ...]
    movements: tuple[MovementGroup, ...]
    offsets_at: datetime | None
    findings: tuple[StoredRow, ...]
    now_findings: tuple[StoredRow, ...]
    other_findings: tuple[StoredRow, ...]
    holding_rules: frozenset[str]


def asks_for_calm(group: GroupGeneration) -> bool:
    """Return whether it takes the newest moment of the cluster to know what holds now."""
    return any(row["rule_id"] in RECURRENT and row["position"] == group.newest_position for row in group.newest_findings)


def describe_generation(group: GroupGeneration, newest_moment: datetime | None = None) -> DescribedGeneration:
    """Return a generation as people ask for it.

    Args:
        newest_moment: that has landed from the cluster; None for the time of the group's newest generation.
    """
    names = members_of(group)
    audit, members = group.audit, [] if group.snapshot is None else group.snapshot["members"]
    owners = {one: names[row["member_id"]] for row in members for one in partitions_of(row["assigned"])}
    lost = {(row["topic"], row["partition"]) for row in group.movements if row["member_id"] is None}
    topics = {topic for topic, _ in owners}
    without_owner = {one for one, offsets in group.offsets.items() if one[0] in topics and offsets.committed_offset is not None}
    partitions = sorted({*owners, *lost, *without_owner})
    causes = tuple(_cause(row, names) for row in audit["causes"] or ())
    worded = {
        **audit,
        "logged_causes": _known_from(CauseSource.LOG, causes),
        "likely_causes": _known_from(CauseSource.INFERRED, causes),
    }
    calm_ms = 0 if newest_moment is None else (newest_moment - group.newest_at) // timedelta(milliseconds=1)
    holding = [row for row in group.newest_findings if _holds(row, group, calm_ms)]
    found_here = {row["rule_id"] for row in group.findings}
    others = sorted((row for row in group.newest_findings if row["rule_id"] not in found_here), key=_severest_first)
    now = [row for row in others if row in holding]
    return DescribedGeneration(
        group=group,
        names=names,
        protocol=None if group.snapshot is None else PROTOCOLS.get(group.snapshot["group_type"]),
        kind=special(audit),
        change=what_changed(worded),
        causes=causes,
        members=tuple(_member(row, names, group.offsets) for row in members),
        partitions=tuple(
            DescribedPartition(topic, number, group.offsets.get((topic, number), _NO_OFFSETS), owners.get((topic, number)))
            for topic, number in partitions
        ),
        movements=tuple(_movements(group.movements, names)),
        offsets_at=max((one.seen_at for one in group.offsets.values() if one.seen_at is not None), default=None),
        findings=tuple(sorted(group.findings, key=_severest_first)),
        now_findings=tuple(now),
        other_findings=tuple(row for row in others if row not in now),
        holding_rules=frozenset(row["rule_id"] for row in holding),
    )


def _holds(row: StoredRow, group: GroupGeneration, calm_ms: int) -> bool:
    is_of_newest = row["position"] == group.newest_position
    return holds_now(row["rule_id"], is_of_newest, calm_ms, cycle_s(row["evidence"]), group.deletion is not None)


def _severest_first(row: StoredRow) -> tuple[int | str, ...]:
    return (*severest_first(row["severity"], row["rule_id"]), -int(row["position"]))


def _known_from(source: CauseSource, causes: Iterable[CauseOfGeneration]) -> list[str]:
    return list(dict.fromkeys(one.cause for one in causes if one.source == source))


def _cause(row: StoredRow, names: Mapping[str, NamedMember]) -> CauseOfGeneration:
    member_id = row["member_id"]
    return CauseOfGeneration(row["cause"], None if member_id is None else names.get(member_id), member_id, row["source"], row["detail"])


def _member(row: StoredRow, names: Mapping[str, NamedMember], offsets: Mapping[tuple[str, int], PartitionOffsets]) -> DescribedMember:
    held = partitions_of(row["assigned"])
    lags = [lag for one in held if (lag := offsets.get(one, _NO_OFFSETS).lag) is not None]
    return DescribedMember(names[row["member_id"]], row["rack"], len(held), sum(lags) if lags else None, len(held) - len(lags))


def _movements(rows: Sequence[StoredRow], names: Mapping[str, NamedMember]) -> Iterable[MovementGroup]:
    grouped: dict[tuple[object, ...], list[StoredRow]] = defaultdict(list)
    for row in rows:
        before, now = row["previous_member_id"], row["member_id"]
        words = movement_words(row["kind"], row["cause"])
        grouped[row["kind"], words, before is None, before or "", now is None, now or "", row["topic"]].append(row)
    for _, of_group in sorted(grouped.items()):
        first, lags = of_group[0], [row["lag"] for row in of_group if row["lag"] is not None]
        source, target = first["previous_member_id"], first["member_id"]
        yield MovementGroup(
            words=movement_words(first["kind"], first["cause"]),
            kind=first["kind"],
            source=None if source is None else names[source],
            target=None if target is None else names[target],
            topic=first["topic"],
            partitions=tuple(row["partition"] for row in of_group),
            lag=sum(lags) if lags else None,
        )
