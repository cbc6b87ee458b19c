"""What the command line of ``sql`` takes."""

from __future__ import annotations

from dataclasses import dataclass

from jobs.runtime.arguments import LocationOptions, option, positional, whole_number
from jobs.runtime.errors import UsageError
from jobs.sql.questions import QUESTIONS

EXPLANATION = """

It answers one query in Spark SQL. Each table has a view <table>_published with what the last published run left; docs/tables.md has
their columns. Statements that change something are refused, and so is everything else that is no query. --question asks one of five
questions that are written already: what is unbalanced, what each rebalance cost, why it happened, whether members got what their
assignor gives, and where moved partitions resume."""

EXAMPLES = (
    "sql --question unbalanced --warehouse audit",
    "sql \"SELECT * FROM findings_published WHERE severity = 'critical'\" --warehouse audit --format json",
)
EPILOG = """\
exit codes: 0 done; 1 failed; 2 wrong usage, a query that cannot be answered, or no warehouse; 130 interrupted.
docs/reading.md has examples. A warehouse with a slash is a path; a.b or a.b.c is a catalog schema."""

MOST_ROWS = 1000


@dataclass(frozen=True, kw_only=True)
class SqlOptions(LocationOptions):
    """What ``sql`` takes. None: not given."""

    query: str | None = positional(None, nargs="?", metavar="QUERY", help="one query, such as 'SELECT * FROM findings_published'")
    question: str | None = option(choices=tuple(QUESTIONS), help="ask this question instead of a query of your own")
    format: str = option("table", choices=("table", "csv", "json"), help="how the rows are printed (default table)")
    limit: int = option(MOST_ROWS, type=whole_number, metavar="N", help=f"most rows; 0 for all (default {MOST_ROWS})")

    def extras(self) -> tuple[str, ...]:
        """Return the extras of setup.cfg that the command needs with these options."""
        return ("spark",)

    def text(self) -> str:
        """Return the query.

        Raises:
            UsageError: there is none, or there are two.
        """
        if (self.query is None) == (self.question is None):
            raise UsageError(f"sql: expected a query or --question, found {'neither' if self.query is None else 'both'}")
        return self.query if self.query is not None else QUESTIONS[self.question or ""]
