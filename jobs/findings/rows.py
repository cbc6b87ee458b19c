"""Findings of a generation as rows of ``FOUND_ROWS``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from jobs.findings.rule import Finding
from schemas.computed_row_types import FoundRow, GenerationRow


def generation_of(row: GenerationRow) -> GenerationRow:
    """Return the columns of a row that say which generation it is about."""
    return {
        "cluster_id": row["cluster_id"],
        "group_id": row["group_id"],
        "generation": row["generation"],
        "position": row["position"],
        "observed_at_ms": row["observed_at_ms"],
    }


def finding_rows(row: GenerationRow, found: Iterable[Finding]) -> Iterator[FoundRow]:
    """Yield findings of one generation as rows."""
    where = generation_of(row)
    for finding in found:
        yield {
            **where,
            "rule_id": finding.rule_id.value,
            "severity": finding.severity.value,
            "message": finding.message,
            "evidence": list(finding.evidence.items()),
            "advice": finding.advice,
        }
