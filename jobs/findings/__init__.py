"""Findings: what a person should know about one snapshot, from its solutions, their audits, and what happened just before.

One function a rule, each giving at most one finding a snapshot: what was found, the figures behind it, and what to do. Plain Python: the
rules run in the workers, beside the audits that they look at. Those on commits are asked of the newest generation of each group alone.
"""

from jobs.findings.catalogue import COMMIT_RULES, LOOK_RULES, RULES, find
from jobs.findings.facts import SnapshotFacts, SolutionFacts, gather_facts
from jobs.findings.history import GroupHistory
from jobs.findings.rule import Finding, FindingRule

__all__ = [
    "COMMIT_RULES",
    "LOOK_RULES",
    "RULES",
    "Finding",
    "FindingRule",
    "GroupHistory",
    "SnapshotFacts",
    "SolutionFacts",
    "find",
    "gather_facts",
]
