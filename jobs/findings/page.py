"""``docs/findings.md``, made from the catalogue: ``python -m jobs.findings.page > docs/findings.md``."""

from __future__ import annotations

from jobs.findings.catalogue import COMMIT_RULES, RULES
from jobs.findings.commits import CommitFacts
from jobs.findings.facts import SnapshotFacts
from jobs.findings.rule import FindingRule

CATALOGUE = (*RULES, *COMMIT_RULES)

HEAD = """# Findings

Made from `jobs/findings/`. Every run looks at every snapshot of a group with these rules, and stores in `findings` what a person should
know: a row for each snapshot in which a rule holds, with the figures in `evidence`. What persists is found in every snapshot; the report
shows a group's findings of one rule together, as found last. `--fail-on SEVERITY` makes a run with such findings exit with 4.

* `critical`: records are not read, or are read twice.
* `warning`: someone should look at it during the day.
* `info`: worth knowing, often intended.

Rules judge one snapshot and, for restarts, storms and flapping, what records tell of the minutes before it. Idle members, loads and
partitions left out are judged in settled snapshots only, in which no cooperative hand-over is open. What a source does not tell
is not guessed: text of `kafka-consumer-groups` names no subscriptions, so that rules on them find nothing there, and idle members are an
`info`.

The last three rules judge the newest generation of each group, by all commits and looks that have landed: their findings come and go
with these, and go with a newer generation. So does `partitions_left_out` where a later look shows the partitions.

| rule | severity | title |
|---|---|---|
"""


def to_markdown() -> str:
    """Return the page on all rules."""
    lines = "".join(f"| [`{rule.rule_id}`](#{rule.rule_id}) | {rule.severity} | {rule.title} |\n" for rule in CATALOGUE)
    return "\n".join([HEAD + lines, *(_section(rule) for rule in CATALOGUE)])


def _section(rule: FindingRule[SnapshotFacts] | FindingRule[CommitFacts]) -> str:
    return f"## {rule.rule_id}\n\n**{rule.title}** ({rule.severity}). {rule.when}\n\nWhat to do: {rule.advice}\n"


if __name__ == "__main__":
    print(to_markdown(), end="")
