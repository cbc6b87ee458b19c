"""Findings: what a person should know about one snapshot, from its solutions, their audits, and the time just before it.

Each rule is one function. It returns at most one finding a snapshot, with a message, its figures and advice. The rules are plain Python
and run in the workers, next to the audits that they read. Rules on commits judge only the newest generation of each group.
"""

from jobs.findings.catalogue import COMMIT_RULES, LOAD_RULES, LOOK_RULES, RULES, SETTLED_RULES, STUCK_RULES, find
from jobs.findings.facts import SnapshotFacts, SolutionFacts, gather_facts
from jobs.findings.history import GroupHistory
from jobs.findings.rule import Finding, FindingRule

__all__ = [
    "COMMIT_RULES",
    "LOAD_RULES",
    "LOOK_RULES",
    "RULES",
    "SETTLED_RULES",
    "STUCK_RULES",
    "Finding",
    "FindingRule",
    "GroupHistory",
    "SnapshotFacts",
    "SolutionFacts",
    "find",
    "gather_facts",
]
