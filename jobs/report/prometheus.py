"""The report's figures as a file for Prometheus, which node_exporter's textfile collector can read.

All metrics are gauges: a sum over the history that is kept falls when old generations are dropped, and a counter must not fall.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from jobs.findings import COMMIT_RULES, LOAD_RULES, RULES, STUCK_RULES
from jobs.report.fleet import pool
from jobs.report.measures import MEASURES
from jobs.report.ranking import has_no_generations
from jobs.report.rows import ReportRows, Row
from schemas.vocabulary import Basis, Severity

Sample = tuple[Mapping[str, str], float | int | None]

MOST_GROUPS = 20_000
"""How many groups, the worst, have their own samples; each has fourteen series."""


def to_prometheus(rows: ReportRows, as_of: datetime) -> Iterator[str]:
    """Yield the lines of the text format, version 0.0.4, in an order that depends only on the rows.

    Unknown values have no sample. Names of groups are the real ones, so they can be joined with those of other exporters. In a fleet with
    more than ``MOST_GROUPS`` groups, only the worst have their own samples.
    """
    yield from clock_lines(as_of)
    kinds = list(rows.ranked.values("cluster_id", "generation_count"))
    audited = _by_cluster((cluster, int(number > 0)) for cluster, number in kinds)
    yield from _gauge("groups", "Groups with audited generations.", audited)
    deleted = _by_cluster((cluster, int(at_ms is not None)) for cluster, at_ms in rows.ranked.values("cluster_id", "deleted_at_ms"))
    yield from _gauge("deleted_groups", "Those of these groups that were deleted.", deleted)
    only_commit = _by_cluster((cluster, int(number == 0)) for cluster, number in kinds)
    yield from _gauge("commits_only_groups", "Groups of which only commits have landed.", only_commit)
    members = ((cluster, number or 0) for cluster, number in rows.ranked.values("cluster_id", "member_count"))
    yield from _gauge("members", "Members in the last snapshots of these groups.", _by_cluster(members))
    yield from _gauge("generations", "Observed generations by conformance with their own assignor's result.", _conformance(rows.tallies))
    yield from _gauge("findings", "Findings of all groups by rule.", _rules(rows.findings, "rule_finding_count"))
    current = _rules(rows.findings, "rule_current_count")
    yield from _gauge("current_findings", "Findings that hold now by rule.", current)
    listed = sorted(rows.ranked[:MOST_GROUPS], key=lambda row: (row["cluster_id"], row["group_id"]))
    ranked = [row for row in listed if not has_no_generations(row)]
    for column, (name, text) in ((measure.column, measure.gauge) for measure in MEASURES if measure.gauge):
        yield from _gauge(f"group_{name}", text, ((_group(row), row[column]) for row in ranked))
    yield from _gauge("group_findings", "Findings of the group by severity.", _severities(ranked, "{}_count"))
    current = _severities(ranked, "current_{}_count")
    yield from _gauge("group_current_findings", "Findings of the group that hold now by severity.", current)
    seen = ((_group(row), row["last_at_ms"] / 1000) for row in ranked)
    yield from _gauge("group_last_snapshot_timestamp_seconds", "Time of the group's last snapshot.", seen)
    committed = ((_group(row), row["last_at_ms"] / 1000) for row in listed if has_no_generations(row))
    text = "Time of the last commit of a group of which only commits have landed."
    yield from _gauge("group_last_commit_timestamp_seconds", text, committed)


def clock_lines(as_of: datetime) -> Iterator[str]:
    """Yield the first lines of the file: the clock of the newest run that confirmed its figures.

    Args:
        as_of: the run's clock, with a time zone.
    """
    yield from _gauge("report_timestamp_seconds", "The clock of the newest run, even if it changed nothing.", [({}, as_of.timestamp())])


def _gauge(name: str, text: str, samples: Iterable[Sample]) -> Iterator[str]:
    yield f"# HELP evenkeel_{name} {text}\n# TYPE evenkeel_{name} gauge\n"
    for labels, value in samples:
        if value is not None:
            inside = ",".join(f'{label}="{_escape(text)}"' for label, text in labels.items())
            yield f"evenkeel_{name}{{{inside}}} {value}\n" if inside else f"evenkeel_{name} {value}\n"


def _escape(text: str) -> str:
    """Return a label's value as the format writes it: three characters have an escape."""
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _group(row: Row) -> dict[str, str]:
    return {"cluster_id": row["cluster_id"], "group_id": row["group_id"]}


def _by_cluster(numbers: Iterable[tuple[str, int]]) -> Iterator[Sample]:
    totals: dict[str, int] = {}
    for cluster, number in numbers:
        totals[cluster] = totals.get(cluster, 0) + number
    return (({"cluster_id": cluster}, total) for cluster, total in sorted(totals.items()))


def _conformance(tallies: Iterable[Row]) -> Iterator[Sample]:
    """Return samples of as many assignors as the page names: clients can name any number, and each would stay a series for ever."""
    totals: dict[tuple[str, str], int] = {}
    for row in pool([row for row in tallies if row["basis"] == Basis.OBSERVED and row["strategy"]], others="others"):
        key = (row["strategy"], row["conformance"] or "none")
        totals[key] = totals.get(key, 0) + row["generation_count"]
    return (({"strategy": strategy, "conformance": word}, total) for (strategy, word), total in sorted(totals.items()))


def _severities(groups: Iterable[Row], column: str) -> Iterator[Sample]:
    return ((_group(row) | {"severity": str(word)}, row[column.format(word)]) for row in groups for word in Severity)


def _rules(findings: Iterable[Row], column: str) -> Iterator[Sample]:
    """Return a sample of every rule: if a rule finds nothing any more, an alert on it sees a 0 and not the end of the series."""
    totals = {(str(rule.severity), str(rule.rule_id)): 0 for rule in (*RULES, *LOAD_RULES, *COMMIT_RULES, *STUCK_RULES)}
    totals |= {(row["severity"], row["rule_id"]): row[column] for row in findings}
    return (({"severity": severity, "rule_id": rule}, total) for (severity, rule), total in sorted(totals.items()))
