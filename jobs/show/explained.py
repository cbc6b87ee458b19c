"""A generation explained: what happened, why, and what to change, each sentence with the rows that show it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from assignors.audit.triggers import Trigger
from jobs.pages.figures import moment, movement_words, words
from jobs.pages.needs import could_be, severest_first
from jobs.reading.deletions import Deletion
from jobs.reading.published import StoredRow
from jobs.reading.stored import GroupKey
from jobs.show.described import CauseOfGeneration, DescribedGeneration
from jobs.show.statements import Name, Part, Quoted, Rows, Statement, listed
from jobs.show.text import count, detail_text, missing_before, ratio, reached
from schemas.keys import GENERATION_KEY
from schemas.vocabulary import Cause, CauseSource

MOST_NAMES = 8
"""Members that a sentence names; the others are counted."""
KNOWN_FROM = {
    CauseSource.LOG.value: "The coordinator logged it.",
    CauseSource.RECORDS.value: "The records show it.",
    CauseSource.INFERRED.value: "This is only likely.",
}
VERDICTS = {
    "inherent": "The imbalance is inherent: no assignment of these partitions to these members is more even.",
    "better_elsewhere": "Another assignor would be more even.",
    "unexpected": "The imbalance is unexpected: the group's own assignor gives another assignment than this one.",
}
NONE_BETTER = "No compared assignor would have been more even over the history of the group. A more even assignment is possible."
"""What ``inherent`` means where the loads could differ less."""
EVEN = 1.005
"""An imbalance below this is 1.00 in the text."""


@dataclass(frozen=True)
class Explained:
    """The sentences on one generation."""

    described: DescribedGeneration
    happened: tuple[Statement, ...]
    why: tuple[Statement, ...]
    change: tuple[Statement, ...]


def explain(described: DescribedGeneration) -> Explained:
    """Return what a generation did, why it came about, and what to change."""
    return Explained(described, tuple(_happened(described)), tuple(_why(described)), tuple(_change(described)))


def _happened(described: DescribedGeneration) -> Iterator[Statement]:
    group, audit = described.group, described.group.audit
    audited, snapshots = _audit_rows(audit), _snapshot_rows(described)
    kind = f" It is a {described.kind}." if described.kind else ""
    came, began_at = ("was seen", "was seen") if group.is_of_a_moment else ("came", "began")
    until = "" if group.until is None else f" The next generation {came} at {moment(group.until)} UTC."
    began = f" {began_at} at {moment(audit['observed_at'])} UTC.{kind}{until}"
    yield Statement((f"Generation {audit['generation']} of group ", Name(group.key.group_id), began), (audited,))
    if group.is_of_a_moment:
        yield Statement(("Its source shows the group at moments, so it may have begun earlier.",), snapshots)
    partitions, members = count(audit["partition_count"], "partition"), count(audit["member_count"], "member")
    if not audit["member_count"]:
        yield Statement(("The group had no members.",), (audited,))
    elif described.kind == "rewrite" or (group.snapshot is not None and group.snapshot.get("is_conversion")):
        yield Statement((f"No assignor ran. {_who_have(audit['member_count'], 'member')} {partitions}.",), (audited,))
    elif audit["strategy"]:
        yield Statement(("The assignor ", Name(audit["strategy"]), f" shared {partitions} among {members}."), (audited,))
    else:
        yield Statement((f"An assignor that is not known shared {partitions} among {members}.",), (audited,))
    if group.is_reconciling:
        text = reached(group)
        yield Statement((f"{text[0].upper()}{text[1:]}.",), snapshots[-1:])
    yield from _memberships(described, snapshots)
    yield from _moved(described, audited)
    if audit["imbalance_ratio"] is not None:
        least, most = audit["partitions_per_member_min"], audit["partitions_per_member_max"]
        loads = count(most, "partition") if least == most else f"{least:,} to {most:,} partitions"
        text = f"Each member has {loads}. The imbalance is {ratio(audit['imbalance_ratio'])}, where 1 is even."
        yield Statement((text,), (audited,))
    if audit["idle_member_count"]:
        yield Statement((f"{_who_have(audit['idle_member_count'], 'member')} no partitions.",), (audited,))
    if audit["unassigned_count"]:
        yield Statement((f"{_who_have(audit['unassigned_count'], 'partition')} no owner.",), (audited,))
    if group.empty_since is not None:
        yield Statement((f"The group has had no members since {moment(group.empty_since)} UTC.",), (_newest_rows(described),))
    if group.deletion is not None:
        yield Statement((f"The group was deleted at {moment(group.deletion.at)} UTC.",), (_tombstone(group.key, group.deletion),))


def _memberships(described: DescribedGeneration, snapshots: tuple[Rows, ...]) -> Iterator[Statement]:
    """Yield who came and who went, by instance id or else by member id."""
    before, after = described.group.previous_snapshot, described.group.snapshot
    if before is None or after is None or described.group.audit["previous_generation"] is None:
        return
    earlier, now = _identities(before), _identities(after)
    names = described.names
    for verb, ids in (
        ("joined", [now[one] for one in now if one not in earlier]),
        ("left", [earlier[one] for one in earlier if one not in now]),
    ):
        if ids:
            named = listed((names[member_id].name for member_id in ids), MOST_NAMES)
            yield Statement((f"{count(len(ids), 'member')} {verb}: ", *named, "."), snapshots)


def _identities(snapshot: StoredRow) -> dict[tuple[bool, str], str]:
    """Return the member ids by what identifies a member across generations."""
    members = snapshot["members"]
    return {(bool(one["group_instance_id"]), one["group_instance_id"] or one["member_id"]): one["member_id"] for one in members}


def _moved(described: DescribedGeneration, audited: Rows) -> Iterator[Statement]:
    audit, movements = described.group.audit, described.group.movements
    previous = audit["previous_generation"]
    if _is_first(audit):
        text = "It is the first generation since the group was created, so there is none before it to compare with."
        yield Statement((text,), (audited,))
        return
    if audit["movement_count"] is None or previous is None:
        yield Statement(("The generation before is not known, so it is not known what moved.",), (audited,))
        return
    yield from _missing(audit, audited)
    if not movements:
        yield Statement((f"Every partition has the owner that it had in generation {previous}.",), (audited,))
        return
    kinds = sorted((row["kind"], movement_words(row["kind"], row["cause"])) for row in movements)
    parts = [f"{len(list(of_kind)):,} {text}" for (_, text), of_kind in groupby(kinds)]
    rows = Rows("movements", {**_key(audit), "basis": audit["basis"], "strategy": audit["strategy"]}, len(movements))
    text = f"{count(len(movements), 'partition')} changed against generation {previous}: {', '.join(parts)}."
    missing = missing_before(audit)
    avoidable = None if missing else audit["avoidable_movement_count"]
    if avoidable:
        at_most = "At most " if audit["is_lower_bound"] else ""
        text += f" {at_most}{avoidable:,} of {count(audit['movement_count'], 'movement')} {'was' if avoidable == 1 else 'were'} avoidable."
    yield Statement((text,), (rows, audited))


def _missing(audit: StoredRow, audited: Rows) -> Iterator[Statement]:
    """Yield how many generations before this one are not known: what changed may have changed in them."""
    missing = missing_before(audit)
    if missing:
        are = "is not known. What changed in it counts" if missing == 1 else "are not known. What changed in them counts"
        previous, generation = audit["previous_generation"], audit["generation"]
        yield Statement((f"{count(missing, 'generation')} between {previous} and {generation} {are} here too.",), (audited,))


def _is_first(audit: StoredRow) -> bool:
    """Return whether the group is known to begin with this generation."""
    return audit["previous_generation"] is None and Trigger.GROUP_CREATED.value in (audit["triggers"] or ())


def _why(described: DescribedGeneration) -> Iterator[Statement]:
    audit = described.group.audit
    audited = _audit_rows(audit)
    if described.change is None:
        yield Statement(("The generation before is not known, so no reason is known.",), (audited,))
    elif audit["triggers"] == ["none_visible"] and not described.causes:
        yield Statement(("Nothing in the records shows a reason.",), (audited,))
    else:
        since = "" if _is_first(audit) else " since the generation before"
        yield Statement((f"What changed{since}: {described.change}.",), (audited,))
    ordered = sorted(described.causes, key=lambda one: (one.cause, one.source, one.detail or ""))
    for (cause, source, detail), of_kind in groupby(ordered, key=lambda one: (one.cause, one.source, one.detail)):
        finished = audit["previous_generation"] if cause == Cause.HAND_OVER else None
        yield Statement(_cause_parts(cause, source, detail, list(of_kind), finished), (audited,))
    if audit["verdict"] is not None and (audit["imbalance_ratio"] or 0) >= EVEN:
        yield Statement(
            (NONE_BETTER if _could_be_more_even(audit) else VERDICTS.get(audit["verdict"], words(audit["verdict"])),), (audited,)
        )


def _could_be_more_even(audit: StoredRow) -> bool:
    """Return whether no assignor was better although the loads could differ less; also where that is not known."""
    if audit["verdict"] != "inherent":
        return False
    spread = audit["partitions_per_member_max"] - audit["partitions_per_member_min"]
    return audit["least_spread"] is None or spread > audit["least_spread"]


def _cause_parts(
    cause: str, source: str, detail: str | None, causes: Iterable[CauseOfGeneration], finished: int | None
) -> tuple[Part, ...]:
    names = [one.member_id if one.member is None else one.member.name for one in causes if one.member_id is not None]
    members: list[Part] = [f", {'member' if len(names) == 1 else 'members'} ", *listed(names, MOST_NAMES)] if names else []
    because: list[Part] = [" (", Quoted(detail_text(source, detail)), ")"] if detail else []
    finishes = "" if finished is None else f", which finishes generation {finished}"
    return (f"Cause: {words(cause)}{finishes}", *because, *members, f". {KNOWN_FROM.get(source, '')}")


def _change(described: DescribedGeneration) -> Iterator[Statement]:
    deletion = described.group.deletion
    if deletion is not None:
        text = "The group was deleted, so its assignments need no change."
        yield Statement((text,), (_tombstone(described.group.key, deletion),))
    rows = (*described.findings, *described.now_findings)
    for row in sorted(
        rows, key=lambda row: (row["rule_id"] not in described.holding_rules, severest_first(row["severity"], row["rule_id"]))
    ):
        found = f"{row['severity'].capitalize()}, {words(row['rule_id'])}{_when(row, described)}: "
        yield Statement((found, Quoted(row["message"]), ". ", Quoted(row["advice"])), (_finding_rows(row),))
    if deletion is None:
        yield from _better_or_nothing(described)
    if described.other_findings:
        rules = ", ".join(f"{words(row['rule_id'])} (generation {row['generation']})" for row in described.other_findings)
        yield Statement(
            (f"Other generations of the group have findings that this one does not have: {rules}.",),
            tuple(_finding_rows(row) for row in described.other_findings),
        )


def _when(row: StoredRow, described: DescribedGeneration) -> str:
    """Return whether a finding is past, and of which generation it is if it is not of this one."""
    if row["rule_id"] not in described.holding_rules:
        return ", past"
    is_of_this = row["position"] == described.group.audit["position"]
    return "" if is_of_this else f" in the newest generation, {row['generation']}"


def _better_or_nothing(described: DescribedGeneration) -> Iterator[Statement]:
    """Yield what another assignor would give, or that there is nothing to change."""
    audit, is_last = described.group.audit, described.group.is_last_with_members
    reached = could_be(audit["imbalance_ratio"], audit["better_gain"])
    is_better = reached is not None and ratio(reached) != ratio(audit["imbalance_ratio"])
    if is_better:
        text = f" the imbalance would {'be' if is_last else 'have been'} {ratio(reached)}."
        text += " Rehearse it with what-if first." if is_last else ""
        yield Statement(("With ", Name(audit["better_strategy"]), text), (_audit_rows(audit),))
    if described.now_findings or is_better:
        return
    if not described.findings:
        yield Statement(("Nothing in this generation needs a change.",), (_audit_rows(audit),))
    elif not any(row["rule_id"] in described.holding_rules for row in described.findings):
        yield Statement(("Nothing of that holds now, so nothing needs a change.",), (_audit_rows(audit),))


def _who_have(number: int, noun: str) -> str:
    return f"{count(number, noun)} {'has' if number == 1 else 'have'}"


def _key(row: StoredRow) -> Mapping[str, Any]:
    return {name: row[name] for name in GENERATION_KEY}


def _audit_rows(audit: StoredRow) -> Rows:
    return Rows("generation_audits", {**_key(audit), "basis": audit["basis"], "strategy": audit["strategy"]})


def _snapshot_rows(described: DescribedGeneration) -> tuple[Rows, ...]:
    both = (described.group.previous_snapshot, described.group.snapshot)
    names = ("cluster_id", "group_id", "position")
    return tuple(Rows("subscription_snapshots", {name: row[name] for name in names}) for row in both if row is not None)


def _newest_rows(described: DescribedGeneration) -> Rows:
    key = described.group.key
    return Rows("subscription_snapshots", {**key._asdict(), "position": described.group.newest_position})


def _tombstone(key: GroupKey, deletion: Deletion) -> Rows:
    place = {"offsets_partition": deletion.offsets_partition, "offset": deletion.offset}
    return Rows("group_records", {**key._asdict(), **{name: value for name, value in place.items() if value is not None}})


def _finding_rows(row: StoredRow) -> Rows:
    return Rows("findings", {**_key(row), "rule_id": row["rule_id"]})
