"""The audit of a group: each generation is compared with the one before, on every basis and strategy."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Any, TypeVar

from assignors.audit.comparison import Comparison
from assignors.audit.least_movement import Least, least_movements, least_spread
from assignors.audit.movements import Difference, Withheld, diff_generations
from assignors.audit.revocations import actual_revocations
from assignors.audit.triggers import Evidence, Past, Trigger, find_triggers
from assignors.generation.balance import Balance, measure_balance
from assignors.generation.generation import COOPERATIVE, Generation
from assignors.generation.holdings import Holdings
from assignors.generation.subscriptions import NO_CLAIM, with_claims
from assignors.generation.violations import violations
from assignors.model import AssignmentMapping, GroupProblem
from assignors.replay.steps import COUNTERFACTUAL, OBSERVED, RECOMPUTED

_Chain = tuple[str, str]
_Figure = TypeVar("_Figure")
_NOTHING: AssignmentMapping = {}
"""The assignment of an empty generation."""


@dataclass(frozen=True, slots=True)
class AuditedSolution:
    """The solution of one basis and strategy, as it was stored.

    Attributes:
        assignment: None if the status has none.
        cooperative_revocation_count: sum over the calls of one step; None if the comparison gives it.
    """

    basis: str
    strategy: str
    assignment: Holdings | None
    cooperative_revocation_count: int | None = None


@dataclass(frozen=True, slots=True)
class AuditedGeneration:
    """One stored generation with its solutions.

    Attributes:
        incarnation: identifies the incarnation of the group.
        problem: the members in record order with their recorded claims, and the topics that exist.
        gone_topics: topics held in the generation before that no longer exist.
        claims_are_known: the version of every subscription has claims, or the protocol has the partitions of each member.
        has_predecessor: False if the generation before is not known.
        evidence: facts of the generation that show its causes.
        batched_epoch_count: known group epochs since the generation before that have no assignment; 0 for classic groups.
    """

    generation: int
    incarnation: int
    problem: GroupProblem
    gone_topics: Collection[str]
    claims_are_known: bool
    has_predecessor: bool
    is_rewrite: bool
    is_follow_up: bool
    evidence: Evidence
    solutions: Sequence[AuditedSolution]
    batched_epoch_count: int = 0


@dataclass(frozen=True, slots=True)
class Audit:
    """The figures of one solution; each is None if it is not known.

    Attributes:
        previous_generation: the generation before in the same incarnation; None for the first.
        generation_gap: number of unknown generations between the two; -1 if the generation is repeated, None for the first.
        difference: None without an assignment, or if the generation before is not known.
        is_settled: nothing is withheld.
        violations: empty if the assignment has none.
        triggers: the same for every solution of a generation; None if the generation before is not known.
        least_movements: see ``least_movement.least_movements``; 0 for a rewrite, in which nothing could move.
        smallest_spread: see ``least_movement.least_spread``; the same for every solution of a generation that has an assignment.
    """

    generation: int
    previous_generation: int | None
    generation_gap: int | None
    difference: Difference | None
    balance: Balance | None
    is_settled: bool | None
    violations: tuple[str, ...] | None
    triggers: tuple[Trigger, ...] | None
    least_movements: Least | None = None
    smallest_spread: Least | None = None

    @property
    def least_movement_count(self) -> int | None:
        """Return the least movement, or a lower bound of it."""
        return None if self.least_movements is None else self.least_movements.count

    @property
    def least_spread(self) -> int | None:
        """Return the smallest possible spread, or a lower bound of it."""
        return None if self.smallest_spread is None else self.smallest_spread.count

    @property
    def is_lower_bound(self) -> bool | None:
        """Return whether one of the two is only a lower bound; None if neither is known."""
        known = [least for least in (self.least_movements, self.smallest_spread) if least is not None]
        return any(not least.is_exact for least in known) if known else None

    @property
    def avoidable_movement_count(self) -> int | None:
        """Return the number of movements that balance did not need; None if the least movement is not known."""
        if self.difference is None or self.least_movements is None:
            return None
        return self.difference.movement_count - self.least_movements.count


@dataclass(frozen=True, slots=True)
class _Compared:
    """A result compared with the one before it.

    Attributes:
        difference: without figures from members' claims.
        least_movements: None if not known.
    """

    comparison: Comparison
    difference: Difference
    least_movements: Least | None


@dataclass
class GroupAudit:
    """The audit of one group, which gets its generations in order.

    Observed generations are compared with the observed one before. Recomputed ones are too, because their assignor started from it. A
    counterfactual is compared with the last settled result of its own history; after an empty generation that result is empty.

    Strategies often give the same assignment. If it is the same object in two solutions of a generation, it is measured and compared once.
    """

    _incarnation: int | None = None
    _previous: AuditedGeneration | None = None
    _last: dict[_Chain, Generation] = field(default_factory=dict)
    _withheld: Withheld = field(default_factory=dict)
    _past: Past | None = None
    _figures: dict[Hashable, Any] = field(default_factory=dict)

    @property
    def last_evidence(self) -> Evidence | None:
        """Return the facts of the last generation; None before the first."""
        return None if self._past is None else self._past.last

    def advance(self, current: AuditedGeneration) -> list[Audit]:
        """Return the audits of one more generation, in the order of its solutions."""
        if current.incarnation != self._incarnation:
            self._incarnation, self._previous, self._last, self._withheld, self._past = current.incarnation, None, {}, {}, None
        triggers, self._past = find_triggers(self._past, current.evidence)
        is_compared = any(solution.basis == COUNTERFACTUAL for solution in current.solutions)
        smallest_spread = least_spread(current.problem)
        hypothetical = with_claims(current.problem, repeat(NO_CLAIM, len(current.problem.members))) if is_compared else current.problem
        audits: list[Audit] = []
        next_withheld: Withheld = {}
        for solution in current.solutions:
            problem = hypothetical if solution.basis == COUNTERFACTUAL else current.problem
            audit, withheld = self._audit(current, solution, problem, triggers if current.has_predecessor else None, smallest_spread)
            audits.append(audit)
            if solution.basis == OBSERVED:
                next_withheld = withheld
        self._remember(current)
        self._figures = {}
        self._previous, self._withheld = current, next_withheld
        return audits

    def _audit(
        self,
        current: AuditedGeneration,
        solution: AuditedSolution,
        problem: GroupProblem,
        triggers: tuple[Trigger, ...] | None,
        smallest_spread: Least | None,
    ) -> tuple[Audit, Withheld]:
        """Return the audit of one solution, and its withheld partitions, which in a first known generation follow from claims."""
        before_it = self._distance(current)
        if solution.assignment is None:
            return Audit(current.generation, *before_it, None, None, None, None, triggers), {}
        assignment, is_observed = solution.assignment, solution.basis == OBSERVED
        before = self._before(solution)
        result = Generation(current.generation, solution.strategy, problem, assignment)
        compared = self._compare(current, before, result, {} if solution.basis == COUNTERFACTUAL else self._withheld)
        difference = compared.difference
        if current.is_rewrite:
            difference = replace(difference, actual_revocation_count=0 if is_observed else None)
        elif is_observed and current.claims_are_known:
            actual, is_eager = actual_revocations(compared.comparison.claimed_in(result))
            difference = replace(difference, actual_revocation_count=actual, is_eager=is_eager)
        if current.evidence.is_conversion:  # nobody joins for it; the rebalance that follows has the revocations
            difference = replace(difference, eager_revocation_count=0, is_eager=None)
            if is_observed:
                difference = replace(difference, actual_revocation_count=difference.cooperative_revocation_count)
        if solution.cooperative_revocation_count is not None:
            difference = replace(difference, cooperative_revocation_count=solution.cooperative_revocation_count)
        is_known = current.has_predecessor and (before is not None or self._previous is None)
        keeps_back = _keeps_back(result)
        audit = Audit(
            current.generation,
            *before_it,
            difference if is_known else None,
            self._once(("balance", id(assignment)), lambda: measure_balance(problem, assignment)),
            difference.is_settled,
            self._once(
                ("violations", id(assignment), solution.strategy, keeps_back),
                lambda: violations(problem, assignment, solution.strategy or None),
            ),
            triggers,
            compared.least_movements if is_known else None,
            smallest_spread,
        )
        return audit, difference.withheld

    def _compare(self, current: AuditedGeneration, before: Generation | None, result: Generation, withheld: Withheld) -> _Compared:
        """Return the comparison of a result with the one before. Claims and strategy matter if partitions may be withheld."""

        def compared() -> _Compared:
            comparison = Comparison(before, result)
            if current.is_rewrite:
                difference = _unmoved(comparison, withheld)
            else:
                difference = diff_generations(comparison, withheld, is_follow_up=current.is_follow_up, deleted_topics=current.gone_topics)
            return _Compared(comparison, difference, _least_movements(comparison, withheld, difference, is_rewrite=current.is_rewrite))

        since = None if before is None else (id(before.problem), id(before.assignment))
        return self._once(("compared", since, id(result.assignment), _keeps_back(result), bool(withheld)), compared)

    def _once(self, key: Hashable, figure: Callable[[], _Figure]) -> _Figure:
        """Return a figure of this generation; it is computed at the first call."""
        if key not in self._figures:
            self._figures[key] = figure()
        found: _Figure = self._figures[key]
        return found

    def _distance(self, current: AuditedGeneration) -> tuple[int | None, int | None]:
        """Return the generation before, and the number of unknown ones between the two; None for a first one."""
        if self._previous is None:
            return None, None
        previous = self._previous.generation
        return previous, current.generation - previous - 1 - current.batched_epoch_count

    def _before(self, solution: AuditedSolution) -> Generation | None:
        """Return the generation to compare a solution with. An empty generation has no row of the group's next strategy."""
        last = self._last.get(_chain_of(solution))
        if last is None and self._previous is not None and not self._previous.problem.members:
            return Generation(self._previous.generation, solution.strategy, self._previous.problem, _NOTHING)
        return last

    def _remember(self, current: AuditedGeneration) -> None:
        """Keep the last result of each strategy that the generation has a row of: from this generation or, if it failed, from before."""
        last = {}
        for solution in current.solutions:
            if solution.basis == RECOMPUTED:
                continue
            kept = self._before(solution)
            if solution.assignment is not None:  # earlier claims are not needed
                kept = Generation(current.generation, solution.strategy, current.problem, solution.assignment)
            if kept is not None:
                last[_chain_of(solution)] = kept
        self._last = last


def _chain_of(solution: AuditedSolution) -> _Chain:
    return (COUNTERFACTUAL, solution.strategy) if solution.basis == COUNTERFACTUAL else (OBSERVED, "")


def _keeps_back(result: Generation) -> bool:
    """Return whether members may have claimed partitions that a cooperative assignor withholds."""
    return result.strategy in COOPERATIVE and any(member.owned for member in result.problem.members)


def _unmoved(comparison: Comparison, withheld: Withheld) -> Difference:
    """Return the comparison of a rewrite: no assignor ran, so nothing moved, and withheld partitions stay withheld.

    It is not computed from the members: the one that returned has no claims now, and a recomputed assignment that differs from the
    observed one would count its movements a second time.
    """
    return Difference(
        retained_count=comparison.held.owners_in(comparison.layout).partition_count,
        revoked_count=0,
        reassigned_count=0,
        gained_count=0,
        lost_count=0,
        orphaned_count=0,
        withheld_count=0,
        handed_over_count=0,
        returned_count=0,
        eager_revocation_count=0,
        cooperative_revocation_count=0,
        movements=(),
        withheld=withheld,
    )


def _least_movements(comparison: Comparison, withheld: Withheld, compared: Difference, *, is_rewrite: bool) -> Least | None:
    if not compared.is_settled:
        return None
    least = least_movements(comparison, withheld)
    return Least(0) if is_rewrite and least is not None else least
