"""What maintain says at its end."""

from __future__ import annotations

from jobs.maintain.run import in_words


def test_the_end_says_what_was_removed_and_merged() -> None:
    counts = {
        "runs": 1,
        "findings.dropped": 1200,
        "movements.dropped": 34,
        "quarantine.dropped": 0,
        "movements.files_before": 20,
        "movements.files_after": 3,
    }
    assert in_words(counts) == (
        "maintained: removed 1,234 rows from findings, movements; merged 20 files of movements into 3; removed files that no version uses"
    )


def test_cleared_holdings_are_no_removed_rows() -> None:
    words = in_words({"assignments.dropped": 1, "solutions.holdings.dropped": 2000})
    assert words.startswith("maintained: removed 1 row from assignments; cleared solutions.holdings in 2,000 rows; removed files")


def test_the_end_says_that_nothing_was_old() -> None:
    assert in_words({"runs": 1}).startswith("maintained: no rows were old enough and no table had many files;")
