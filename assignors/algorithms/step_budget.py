"""The step limit of one call.

Kafka's general sticky assignor has no iteration limit and can run forever on legal input. A step is one visit of a partition, or of a
member for a partition. Every assignor counts its steps before it takes them.
"""

from __future__ import annotations

from assignors.model import NoResultError

DEFAULT_STEP_BUDGET = 100_000_000
"""Ten passes over ten million partitions: more than Kafka can finish within its own rebalance timeouts."""


class StepBudget:
    """A number of steps that can be spent once."""

    __slots__ = ("_left", "_total")

    def __init__(self, steps: int | None) -> None:
        self._total = DEFAULT_STEP_BUDGET if steps is None else steps
        self._left = self._total

    def spend(self, steps: int) -> None:
        """Take steps from the budget.

        Raises:
            NoResultError: the budget is used up; ``is_cycle`` is False.
        """
        self._left -= steps
        if self._left < 0:
            raise NoResultError(
                f"no assignment within {self._total} steps, and no repeated state so far; a larger step_budget may find one", is_cycle=False
            )
