"""What a mistyped word was meant to be, and whether an option is one of Spark's."""

from __future__ import annotations

from collections.abc import Iterable

SPARK_OPTIONS = frozenset(
    """
    --archives --class --conf --deploy-mode --driver-class-path --driver-cores --driver-default-class-path --driver-java-options
    --driver-library-path --driver-memory --exclude-packages --executor-cores --executor-memory --files --jars --keytab --kill
    --load-spark-defaults --master --name --num-executors --packages --principal --properties-file --proxy-user --py-files --queue --remote
    --repositories --status --supervise --total-executor-cores --usage-error --verbose --version -c -v
    """.split()
)
"""The options of spark-submit, of Spark 4.0 and 4.1."""
LEAST_LIKENESS = 0.7


def meant(word: str, known: Iterable[str]) -> str:
    """Return a question with the known word that is nearest to a mistyped one, to append to a message; empty if none is near.

    >>> meant("--wherehouse", ["--warehouse", "--wait"]), meant("cvs", ["csv", "json"]), meant("x", ["run"])
    ('; did you mean --warehouse?', '; did you mean csv?', '')
    """
    from difflib import SequenceMatcher

    def likeness(name: str) -> float:
        # Of short words also the letters count: two that changed places are a third of csv.
        in_order = SequenceMatcher(None, word, name).ratio()
        return max(in_order, 0.9 * SequenceMatcher(None, sorted(word), sorted(name)).ratio())

    nearest = max(known, key=likeness, default="")
    return f"; did you mean {nearest}?" if nearest and likeness(nearest) >= LEAST_LIKENESS else ""
