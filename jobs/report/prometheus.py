"""The report's figures as a file for Prometheus: node_exporter's textfile collector takes it as it is.

All are gauges: a sum over the history that is kept falls when old generations are dropped, which a counter must not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from jobs.findings import COMMIT_RULES, RULES
from jobs.report.fleet import pool
from jobs.report.measures import MEASURES
from jobs.report.ranking import has_no_generations
from jobs.report.view import ReportRows, Row
from schemas.vocabulary import Basis, Severity

Sample = tuple[Mapping[str, str], float | int | None]

MOST_GROUPS = 20_000
"""Groups that have samples of their own, the worst, since each has fourteen series."""


def to_prometheus(rows: ReportRows, as_of: datetime) -> Iterator[str]:
    """Yield the lines of the text format, version 0.0.4, in an order that depends on nothing but the rows.

    What is not known has no sample. Names of groups are the real ones, so that they join with those of other exporters; of a fleet with
    more than ``MOST_GROUPS``, only the worst have samples of their own.
    """
    yield from clock_lines(as_of)
    kinds = list(rows.ranked.values("cluster_id", "generation_count"))
    audited = _by_cluster((cluster, int(number > 0)) for cluster, number in kinds)
    yield from _gauge("groups", "Groups with audited generations.", audited)
    only_commit = _by_cluster((cluster, int(number == 0)) for cluster, number in kinds)
    yield from _gauge("commits_only_groups", "Groups of which nothing but commits has landed.", only_commit)
    members = ((cluster, number or 0) for cluster, number in rows.ranked.values("cluster_id", "member_count"))
    yield from _gauge("members", "Members in the last snapshots of these groups.", _by_cluster(members))
    yield from _gauge(
        "generations", "Observed generations by how they compare with their own assignor's result.", _conformance(rows.tallies)
    )
    yield from _gauge("findings", "Findings of all groups by rule.", _rules(rows.findings, "rule_finding_count"))
    current = _rules(rows.findings, "rule_current_count")
    yield from _gauge("current_findings", "Findings of the newest generation of each group by rule.", current)
    listed = sorted(rows.ranked[:MOST_GROUPS], key=lambda row: (row["cluster_id"], row["group_id"]))
    ranked = [row for row in listed if not has_no_generations(row)]
    for column, (name, text) in ((measure.column, measure.gauge) for measure in MEASURES if measure.gauge):
        yield from _gauge(f"group_{name}", text, ((_group(row), row[column]) for row in ranked))
    yield from _gauge("group_findings", "Findings of the group by severity.", _severities(ranked, "{}_count"))
    current = _severities(ranked, "current_{}_count")
    yield from _gauge("group_current_findings", "Findings of the group's newest generation by severity.", current)
    seen = ((_group(row), row["last_at_ms"] / 1000) for row in ranked)
    yield from _gauge("group_last_snapshot_timestamp_seconds", "When the group's last snapshot was taken.", seen)
    committed = ((_group(row), row["last_at_ms"] / 1000) for row in listed if has_no_generations(row))
    text = "When the last commit was made of a group of which nothing but commits has landed."
    yield from _gauge("group_last_commit_timestamp_seconds", text, committed)


def clock_lines(as_of: datetime) -> Iterator[str]:
    """Yield the lines with which the file begins: the clock of the newest run that found its figures to be so.

    Args:
        as_of: the run's clock, with a time zone.
    """
    yield from _gauge(
        "report_timestamp_seconds", "The clock of the newest run, whether it has changed anything or not.", [({}, as_of.timestamp())]
    )


def _gauge(name: str, text: str, samples: Iterable[Sample]) -> Iterator[str]:
    yield f"# HELP evenkeel_{name} {text}\n# TYPE evenkeel_{name} gauge\n"
    for labels, value in samples:
        if value is not None:
            inside = ",".join(f'{label}="{_escape(text)}"' for label, text in labels.items())
            yield f"evenkeel_{name}{{{inside}}} {value}\n" if inside else f"evenkeel_{name} {value}\n"


def _escape(text: str) -> str:
    """Return a label's value as the format writes it: three characters have an escape, all others stand for themselves."""
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _group(row: Row) -> dict[str, str]:
    return {"cluster_id": row["cluster_id"], "group_id": row["group_id"]}


def _by_cluster(numbers: Iterable[tuple[str, int]]) -> Iterator[Sample]:
    totals: dict[str, int] = {}
    for cluster, number in numbers:
        totals[cluster] = totals.get(cluster, 0) + number
    return (({"cluster_id": cluster}, total) for cluster, total in sorted(totals.items()))


def _conformance(tallies: Iterable[Row]) -> Iterator[Sample]:
    """Return samples of as many assignors as the page names: clients can name any number, and each would be a series for good."""
    totals: dict[tuple[str, str], int] = {}
    for row in pool([row for row in tallies if row["basis"] == Basis.OBSERVED and row["strategy"]], others="others"):
        key = (row["strategy"], row["conformance"] or "none")
        totals[key] = totals.get(key, 0) + row["generation_count"]
    return (({"strategy": strategy, "conformance": word}, total) for (strategy, word), total in sorted(totals.items()))


def _severities(groups: Iterable[Row], column: str) -> Iterator[Sample]:
    return ((_group(row) | {"severity": str(word)}, row[column.format(word)]) for row in groups for word in Severity)


def _rules(findings: Iterable[Row], column: str) -> Iterator[Sample]:
    """Return every rule there is: an alert on one that finds nothing any more sees a 0, and not that its series has ended."""
    totals = {(str(rule.severity), str(rule.rule_id)): 0 for rule in (*RULES, *COMMIT_RULES)}
    totals |= {(row["severity"], row["rule_id"]): row[column] for row in findings}
    return (({"severity": severity, "rule_id": rule}, total) for (severity, rule), total in sorted(totals.items()))
