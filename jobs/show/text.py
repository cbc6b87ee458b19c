"""Groups and generations for a terminal: tables, and lines below them. Names are escaped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jobs.pages.figures import condense, counted, moment, visible, words
from jobs.pages.needs import could_be, gain_words, needs_words
from jobs.pages.plain_text import plain, table_lines
from jobs.reading.fleet import GroupSummary
from jobs.reading.one_group import GroupGeneration
from jobs.reading.published import StoredRow
from jobs.show.described import CauseOfGeneration, DescribedGeneration, DescribedMember
from jobs.show.members import NamedMember
from jobs.show.ordered import standing
from schemas.vocabulary import CauseSource, Severity

UNKNOWN = "-"
NOBODY = "nobody"
SOURCES = {
    CauseSource.LOG.value: "the coordinator's log",
    CauseSource.RECORDS.value: "the records",
    CauseSource.INFERRED.value: "likely",
}
"""What a cause is known from, in words."""


def list_lines(groups: Sequence[GroupSummary], limit: int) -> Iterator[str]:
    """Yield a line for each group, with its cluster if there are several.

    Args:
        limit: most groups; 0 for all.
    """
    shown = groups[:limit] if limit else groups
    has_clusters = len({group.key.cluster_id for group in groups}) > 1
    head = ("group", "state", "members", "partitions", "generations", "imbalance", "could be", "strategy", "needs", "findings")
    rows: list[Sequence[str]] = [("cluster", *head) if has_clusters else head]
    for group in shown:
        row = (
            plain(group.key.group_id),
            group.state,
            str(group.member_count),
            number(group.partition_count),
            str(group.generation_count),
            ratio(group.imbalance_ratio),
            better(group),
            plain(group.strategy or None),
            needs_words(standing(group)) or UNKNOWN,
            finding_counts(group),
        )
        rows.append((plain(group.key.cluster_id), *row) if has_clusters else row)
    first = 2 + has_clusters
    yield from table_lines(rows, range(first, first + 4))
    yield ""
    yield "partitions, imbalance and strategy are of the last settled generation with members; findings are of all generations"
    yield "the groups that need someone now come first"
    if len(shown) < len(groups):
        yield f"{counted(len(groups) - len(shown), 'more group')}; --limit 0 shows all"


def better(group: GroupSummary) -> str:
    """Return the imbalance that the best assignor would give, with its name if it is another one; a dash if that is not known."""
    best = ratio(could_be(group.imbalance_ratio, group.better_gain))
    is_other = group.better_strategy is not None and best not in (UNKNOWN, ratio(group.imbalance_ratio))
    return f"{best} ({plain(group.better_strategy)})" if is_other else best


def finding_counts(group: GroupSummary) -> str:
    """Return how many findings of each severity all generations of the group have."""
    counts = group.finding_counts
    return ", ".join(f"{counts[severity]} {severity}" for severity in map(str, reversed(Severity)) if counts.get(severity)) or UNKNOWN


def generation_lines(described: DescribedGeneration, limit: int = 0) -> Iterator[str]:
    """Yield one generation of a group.

    Args:
        limit: most rows of each table; 0 for all.
    """
    yield from _head_lines(described)
    if described.members:
        yield from ("", "members")
        rows = [("client", "host", "instance", "member", "partitions", "lag"), *map(_member_cells, described.members)]
        yield from _limited(rows, limit, numeric=(4, 5))
    if described.partitions:
        seen = moment(described.offsets_at) + " UTC" if described.offsets_at is not None else "no metadata snapshot"
        yield from ("", f"partitions (offsets: {seen})")
        cells = [
            (
                plain(one.topic),
                str(one.partition),
                number(one.offsets.committed_offset),
                number(one.offsets.end_offset),
                number(one.offsets.lag),
                owner(one.owner),
            )
            for one in described.partitions
        ]
        yield from _limited([("topic", "partition", "committed", "end", "lag", "owner"), *cells], limit, numeric=(1, 2, 3, 4))
    yield from _movement_lines(described, limit)
    yield from _finding_lines(described)


def _head_lines(described: DescribedGeneration) -> Iterator[str]:
    group, audit = described.group, described.group.audit
    yield f"group {plain(group.key.group_id)} of cluster {plain(group.key.cluster_id)}"
    until = "the newest" if group.until is None else f"until {moment(group.until)}"
    kind = f", {described.kind}" if described.kind else ""
    when = f"{moment(audit['observed_at'])} UTC, {until}{kind}"
    yield f"generation {audit['generation']} of {when}; {count(group.generation_count, 'generation')} stored"
    if group.empty_since is not None:
        yield f"the group has had no members since {moment(group.empty_since)} UTC"
    if group.deletion is not None:
        yield f"the group was deleted at {moment(group.deletion.at)} UTC"
    facts = [described.protocol, _assignor(audit), count(audit["member_count"], "member")]
    facts += [count(audit["partition_count"], "partition"), f"imbalance {ratio(audit['imbalance_ratio'])}"]
    yield ", ".join(fact for fact in facts if fact)
    if group.is_reconciling:
        yield f"owners are those of the target: {reached(group)}"
    if audit["verdict"] is not None:
        yield f"verdict: {verdict(audit)}"
    yield f"what changed: {described.change or 'the generation before is not known'}"
    missing = missing_before(audit)
    if missing:
        yield f"{count(missing, 'generation')} before it {'is' if missing == 1 else 'are'} not known"
    for cause in described.causes:
        yield f"cause: {cause_words(cause)}"


def _assignor(audit: StoredRow) -> str:
    """Return the assignor; nothing of a generation without members, which has none."""
    if not audit["strategy"]:
        return "assignor not known" if audit["member_count"] else ""
    return plain(audit["strategy"])


def reached(group: GroupGeneration) -> str:
    """Return what is known of members that had not reached a target, see ``GroupGeneration.is_reconciling``."""
    if (group.snapshot or {}).get("is_superseded"):
        return "another target came before all members had reached this one"
    if group.until is not None:
        return "it is not known whether all members reached this target"
    return "not all members had reached this target when the group was last seen"


def missing_before(audit: StoredRow) -> int:
    """Return how many generations between this one and the one that it is compared with are not known."""
    return max(0, audit["generation_gap"] or 0)


def verdict(audit: StoredRow) -> str:
    """Return the verdict on the balance of a generation, with the assignor that would do better."""
    if audit["better_strategy"] is None:
        return words(audit["verdict"])
    return f"{words(audit['verdict'])} ({plain(audit['better_strategy'])}{gain_words(audit['imbalance_ratio'], audit['better_gain'])})"


def cause_words(cause: CauseOfGeneration) -> str:
    """Return a cause with its member, and what it is known from."""
    member = "" if cause.member_id is None else f", member {plain(cause.member.name if cause.member else cause.member_id)}"
    detail = f" ({visible(detail_text(cause.source, cause.detail))})" if cause.detail else ""
    return f"{words(cause.cause)}{member}{detail}; source: {SOURCES.get(cause.source, cause.source)}"


def detail_text(source: str, detail: str) -> str:
    """Return further text of a cause: triggers of the records in words, a client's own text of a log as it is."""
    return words(detail) if source == CauseSource.RECORDS else detail


def _member_cells(member: DescribedMember) -> Sequence[str]:
    named = member.named
    lag = UNKNOWN if member.lag is None else f"{member.lag}{'+' if member.unknown_lag_count else ''}"
    return (
        *(plain(one) for one in (named.client_id, named.client_host, named.instance_id, named.short_id)),
        str(member.partition_count),
        lag,
    )


def _movement_lines(described: DescribedGeneration, limit: int) -> Iterator[str]:
    previous = described.group.audit["previous_generation"]
    if previous is None:
        return
    yield ""
    if not described.movements:
        yield f"movements against generation {previous}: none"
        return
    yield f"movements against generation {previous}"
    cells = [
        (one.words, owner(one.source), owner(one.target), plain(one.topic), condense(one.partitions), number(one.lag))
        for one in described.movements
    ]
    yield from _limited([("movement", "from", "to", "topic", "partitions", "lag"), *cells], limit, numeric=(5,))


def _finding_lines(described: DescribedGeneration) -> Iterator[str]:
    titled = (("findings of this generation", described.findings), ("findings of the newest generation", described.now_findings))
    for title, rows in titled:
        if rows:
            yield from ("", title)
        for row in rows:
            yield f"{row['severity']}  {row['rule_id']}: {visible(row['message'])}"
            yield f"  what to do: {visible(row['advice'])}"
    if described.other_findings:
        yield from ("", "findings of other generations")
    for row in described.other_findings:
        last = f"generation {row['generation']} of {moment(row['observed_at'])} UTC"
        number_of = f", the last of {row['row_count']}" if row["row_count"] > 1 else ""
        yield f"{row['severity']}  {row['rule_id']}: {last}{number_of}"
    if not (described.findings or described.now_findings or described.other_findings):
        yield from ("", "findings: none")


def _limited(rows: Sequence[Sequence[str]], limit: int, numeric: Sequence[int]) -> Iterator[str]:
    """Yield the table, and how many of its rows are left out."""
    kept = rows[: limit + 1] if limit else rows
    yield from (f"  {line}" for line in table_lines(kept, numeric))
    if len(kept) < len(rows):
        yield f"  {len(rows) - len(kept):,} more; --limit 0 shows all"


def owner(member: NamedMember | None) -> str:
    """Return the name of an owner."""
    return NOBODY if member is None else plain(member.name)


def number(value: int | None) -> str:
    """Return a whole number, or a dash."""
    return UNKNOWN if value is None else str(value)


def ratio(value: float | None) -> str:
    """Return a number with two decimals, or a dash."""
    return UNKNOWN if value is None else f"{value:.2f}"


def count(value: int | None, noun: str) -> str:
    """Return a number with its noun."""
    return f"unknown {noun}s" if value is None else counted(value, noun)
