"""Groups of a text of ``kafka-consumer-groups``: the rows and notices of one moment, merged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from jobs.decoders.decoded import Row
from jobs.decoders.describe_model import TWO_LOOKS, Group, Key, Line, Member, Offset, Place
from jobs.decoders.describe_notices import EMPTY, REBALANCING
from jobs.decoders.describe_owners import members_by_owner
from jobs.decoders.describe_tables import LIST, MEMBERS, OFFSETS, STATE, TYPES_BY_STATE, Table
from schemas.vocabulary import SERVER_STRATEGIES_BY_NAME, GroupState, GroupType

_OF_GROUPS = {"group_type", "state", "strategy", "group_epoch", "target_epoch"}
"""Facts about a whole group, in rows of several kinds of tables."""
_COMMIT = {"committed_offset", "leader_epoch"}


class GroupRow(NamedTuple):
    """A parsed row; ``key`` identifies it within its group and kind of table, ``header`` is where its table begins."""

    place: Place
    text: str
    table: Table
    header: Place
    group_id: str
    key: Key
    facts: Row


class GroupNotice(NamedTuple):
    """A notice about one group; ``kind`` is one of ``describe_notices``."""

    place: Place
    kind: str
    group_id: str


class GroupBuilder:
    """Builds the groups of one moment.

    Attributes:
        rejects, skipped: rows that contradict others, and that repeat others.
        damaged: headers of tables with rejected rows.
    """

    def __init__(self, rows: Sequence[GroupRow], notices: Iterable[GroupNotice], damaged: Iterable[Place], doubtful: Sequence[str]) -> None:
        """Take all that one moment has.

        Args:
            damaged: headers of tables in which a line was rejected.
            doubtful: rows of unknown tables of members, each beginning with its group.
        """
        self.rejects: list[Line] = []
        self.skipped: list[Line] = []
        self.damaged, self.doubtful = set(damaged), doubtful
        self.noticed: dict[str, dict[str, Place]] = {}
        for notice in notices:
            self.noticed.setdefault(notice.group_id, {}).setdefault(notice.kind, notice.place)
        self.rows = rows

    def groups(self) -> tuple[Group, ...]:
        """Return the groups by their ids."""
        by_group: dict[str, list[GroupRow]] = {group_id: [] for group_id in self.noticed}
        for row in self.rows:
            by_group.setdefault(row.group_id, []).append(row)
        return tuple(self._build_group(group_id, rows) for group_id, rows in sorted(by_group.items()))

    def places(self) -> dict[Key, Place]:
        """Return the first line about each group, and about each partition of a table of offsets."""
        named = [((group_id,), place) for group_id, notices in self.noticed.items() for place in notices.values()]
        named += [((row.group_id,), row.place) for row in self.rows]
        named += [((row.group_id, *row.key[:2]), row.place) for row in self.rows if row.table.kind == OFFSETS]
        return dict(sorted(named, key=lambda one: one[1], reverse=True))

    def _build_group(self, group_id: str, lines: Sequence[GroupRow]) -> Group:
        known: dict[str, GroupRow] = {}
        members, offsets, states, _ = (
            self._choose_rows([row for row in lines if row.table.kind == kind], known) for kind in (MEMBERS, OFFSETS, STATE, LIST)
        )

        def fact(name: str) -> Any:
            return known[name].facts[name] if name in known else None

        by_owner = members_by_owner([row.facts for row in members], [row.facts for row in offsets])
        found = tuple(Member._make(map(row.facts.get, Member._fields)) for row in members) if by_owner is None else by_owner[0]
        noticed = self.noticed.get(group_id, {})
        counts = {0 for _ in noticed.keys() & {EMPTY}} | {row.facts["member_count"] for row in states}
        state = fact("state") or (GroupState.EMPTY.value if EMPTY in noticed and not found else None)
        group_type = fact("group_type") or (TYPES_BY_STATE.get(state) if state else None)
        strategy = fact("strategy")
        if group_type == GroupType.CONSUMER:
            strategy = SERVER_STRATEGIES_BY_NAME.get(strategy, strategy)
        # If no table names all members, there may be more, without partitions.
        is_contradicted = state == GroupState.EMPTY or any(count < len(found) or (members and count > len(found)) for count in counts)
        is_contradicted |= by_owner is not None and by_owner[1]
        # Of a table of members that was cut between two rows only the owners in another table are left.
        owners = {row.facts["owner"] for row in offsets if row.facts["owner"] is not None}
        is_contradicted |= bool(members) and not owners <= {member.member_id for member in found}
        is_contradicted |= any(text.startswith(f"{group_id} ") for text in self.doubtful)
        used = [rows for rows in (members, offsets if by_owner is not None else []) if rows]
        return Group(
            group_id=group_id,
            group_type=group_type,
            state=state,
            is_rebalancing=REBALANCING in noticed or state in TYPES_BY_STATE,
            strategy=strategy,
            group_epoch=fact("group_epoch"),
            target_epoch=fact("target_epoch"),
            members=tuple(sorted(found)) if found or 0 in counts else None,
            is_doubtful=bool(found) and (is_contradicted or any(rows[0].header in self.damaged for rows in used)),
            offsets=tuple(sorted((Offset._make(map(row.facts.get, Offset._fields)) for row in offsets), key=_offset_order)),
            is_by_owner=by_owner is not None,
            member_count=states[0].facts["member_count"] if states else None,
        )

    def _choose_rows(self, lines: Sequence[GroupRow], known: dict[str, GroupRow]) -> list[GroupRow]:
        """Return the rows of a group's table with the most columns, then the earliest; skip or reject the rows of others.

        Args:
            lines: rows of one kind of table.
            known: facts about the whole group from earlier kinds, with their rows; those of the returned rows are added.
        """
        found: dict[Key, GroupRow] = {}
        commits: dict[Key, GroupRow] = {}
        ordered = sorted(lines, key=lambda row: (-len(row.table.columns), row.place))
        for row in ordered:
            before, other_owner = found.get(row.key), commits.get(row.key[:2])
            compared = dict(known)
            if other_owner is not None:  # a partition may have two, but has one commit
                compared.update(dict.fromkeys(_COMMIT & other_owner.facts.keys(), other_owner))
            if before is not None:
                compared.update(dict.fromkeys(before.facts, before))
            problem = _contradiction(row, compared)
            if problem is None and before is None and row.header != ordered[0].header:
                problem = f"the table at {ordered[0].header} has this group without this row: the outputs are of different moments"
            if problem is not None:
                self.rejects.append(Line(row.place, row.text, TWO_LOOKS, problem))
                self.damaged.update({row.header} & {ordered[0].header})
            elif before is not None:
                self.skipped.append(Line(row.place, row.text, "repetition", f"repeats {before.place}"))
            else:
                found[row.key] = commits[row.key[:2]] = row
                known.update(dict.fromkeys(_OF_GROUPS & row.facts.keys(), row))
        return list(found.values())


def _contradiction(row: GroupRow, known: Mapping[str, GroupRow]) -> str | None:
    for name, value in row.facts.items():
        if name in known and known[name].facts[name] != value:
            other = known[name]
            values = f"{str(value)[:100]} here and {str(other.facts[name])[:100]} in {other.place}"
            return f"{name} is {values}: the outputs are of different moments"
    return None


def _offset_order(offset: Offset) -> tuple[str, int, str]:
    return offset.topic, offset.partition, offset.owner or ""
