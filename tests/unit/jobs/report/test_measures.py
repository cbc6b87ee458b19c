"""The table of measures: what the report and its exports read is there, and no two measures share a name."""

from __future__ import annotations

from jobs.report.measures import MEASURES
from schemas.tables import GENERATION_AUDITS


def test_measures_of_generations_are_columns_of_the_audits() -> None:
    read = [measure.column for measure in MEASURES if measure.aggregate is not None or measure.generation is not None]
    assert read and sorted(set(read) - set(GENERATION_AUDITS.schema.names)) == []


def test_no_two_measures_share_a_name() -> None:
    """Of two with one gauge Prometheus would refuse the file, of two with one column the page would show the last."""
    names = {
        "column": [measure.column for measure in MEASURES],
        "title": [measure.title for measure in MEASURES if measure.title],
        "total": [measure.total[0] for measure in MEASURES if measure.total],
        "gauge": [measure.gauge[0] for measure in MEASURES if measure.gauge],
    }
    assert {kind: len(given) - len(set(given)) for kind, given in names.items()} == dict.fromkeys(names, 0)
