"""Makes ``docs/findings.md`` from the catalogue: ``python -m jobs.findings.page > docs/findings.md``."""

from __future__ import annotations

from jobs.findings.catalogue import COMMIT_RULES, LOAD_RULES, RULES, STUCK_RULES
from jobs.findings.commits import CommitFacts
from jobs.findings.facts import SnapshotFacts
from jobs.findings.loads import LoadFacts
from jobs.findings.rule import FindingRule
from jobs.findings.stuck import StuckFacts

CATALOGUE = (*RULES, *LOAD_RULES, *COMMIT_RULES, *STUCK_RULES)

HEAD = """# Findings

This page is made from `jobs/findings/`. Evenkeel applies these rules to every snapshot of a group. The table `findings` has one row for
each snapshot in which a rule holds, with the figures in `evidence`. A lasting problem is found in every snapshot. The report shows a
group's findings of one rule together, with the text of the newest one. `--fail-on SEVERITY` makes a run exit with 4 if it has a new
finding of this severity or a worse one. A finding is new if the run before had none of its rule and severity for the same snapshot.
Figures that change, as of a member that is still stalled, make no new finding.

* `critical`: records are not read, or are read twice.
* `warning`: someone should check it during the day.
* `info`: worth knowing, often intended.

Rules judge one snapshot. Rules on restarts, storms and flapping also use the records of the minutes, hours and days before it. Idle
members, loads and partitions left out are judged only in settled snapshots, in which no cooperative hand-over is open. Evenkeel does not
guess what a source does not show. Text of `kafka-consumer-groups` shows no subscriptions, so rules on subscriptions find nothing there,
and idle members are an `info`.

The rules on rates are `hot_partition`, `hot_member` and `records_cross_racks`. They use the metadata snapshots before and after each
generation. Their findings change if a nearer one lands later. They find nothing unless the rates of all partitions of members are known.

The last rules, from `commits_unsubscribed` on, judge only the newest generation of each group, with all commits, metadata snapshots and
events that have landed. Their
findings appear and disappear as more of these land, and disappear with a newer generation. The same holds for `partitions_left_out` if
only a later metadata snapshot shows the partitions.

| rule | severity | title |
|---|---|---|
"""


def to_markdown() -> str:
    """Return the page of all rules."""
    lines = "".join(f"| [`{rule.rule_id}`](#{rule.rule_id}) | {rule.severity} | {rule.title} |\n" for rule in CATALOGUE)
    return "\n".join([HEAD + lines, *(_section(rule) for rule in CATALOGUE)])


def _section(rule: FindingRule[SnapshotFacts] | FindingRule[LoadFacts] | FindingRule[CommitFacts] | FindingRule[StuckFacts]) -> str:
    return f"## {rule.rule_id}\n\n**{rule.title}** ({rule.severity}). {rule.when}\n\nWhat to do: {rule.advice}\n"


if __name__ == "__main__":
    print(to_markdown(), end="")
