"""The views that the page and the text summary show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from jobs.pages.figures import Figure
from jobs.report.exchange import Exchange
from jobs.report.heat_map import Heat
from jobs.report.lag_lines import LagLine
from jobs.report.measures import TITLES
from jobs.report.need_lines import FirstScreen
from jobs.report.ranking import Ranking
from jobs.report.timeline import Timeline

IMBALANCE_BOUNDS = (1.0, 1.1, 1.25, 1.5, 2.0)
"""Upper bounds of the classes of ``imbalance_ratio``; class 0 is up to 1.0, the last one is open."""

Cell = tuple[str, Figure]
"""A figure with its name on the page."""


def _cells(figures: Mapping[str, Figure]) -> Iterator[Cell]:
    return ((TITLES.get(name, name), figure) for name, figure in figures.items())


@dataclass(frozen=True)
class Count:
    """A named figure; ``share`` is its length as a bar, 0 to 100."""

    name: str
    figure: Figure
    share: float = 0.0
    note: str = ""


@dataclass(frozen=True)
class ConformanceLine:
    """Conformance of the generations of one assignor and one client library of the leader."""

    strategy: str
    leader_client: Figure
    total: int
    counts: tuple[Count, ...]

    def cells(self) -> Iterator[Cell]:
        """Yield the figures that may not be known."""
        yield "leader", self.leader_client


@dataclass(frozen=True)
class StatusLine:
    """Results of the computations of one basis and strategy, by status."""

    basis: str
    strategy: str
    counts: tuple[Count, ...]


@dataclass(frozen=True)
class RuleLine:
    """How often one rule found something, in how many groups, and in how many of them at their newest generation."""

    severity: str
    rule: str
    findings: Figure
    groups: Figure
    current: Figure


@dataclass(frozen=True)
class StrategyLine:
    """The cost of one strategy over a history, observed or computed.

    Attributes:
        generations: number of those with members.
        is_apart: whether there are other strategies and none of them covers the same generations.
        least: columns in which it is the best of those that cover the same generations.
    """

    name: str
    is_observed: bool
    is_own: bool
    is_cooperative: bool
    is_apart: bool
    generations: Figure
    figures: Mapping[str, Figure]
    least: frozenset[str]

    def cells(self) -> Iterator[Cell]:
        """Yield the figures that may not be known."""
        return _cells(self.figures)


@dataclass(frozen=True)
class FindingView:
    """The last finding of a rule in a group; ``is_current``: whether it holds now.

    ``is_listed``: whether the group has a line.
    """

    anchor: str
    severity: str
    rule: str
    cluster_id: str
    group_id: str
    group_anchor: str
    is_listed: bool
    times: Figure
    generations: str
    last_at: str
    is_current: bool
    message: str
    evidence: tuple[tuple[str, str], ...]
    advice: str


@dataclass(frozen=True)
class DifferenceView:
    """A prediction that is not exact.

    Attributes:
        anchor: id of the generation's row in the group's details.
        is_listed: whether the group has a line.
        mark: the stored word for how near the prediction is.
    """

    anchor: str
    cluster_id: str
    group_id: str
    group_anchor: str
    is_listed: bool
    generation: str
    at: str
    strategy: str
    leader: str
    mark: str
    reasons: str


@dataclass(frozen=True)
class PredictionLine:
    """How near predictions are, of one assignor and one client library of the leader; the note of a count is its share."""

    strategy: str
    leader: str
    total: Figure
    counts: tuple[Count, ...]


@dataclass(frozen=True)
class PredictionsView:
    """How good predictions are.

    Attributes:
        lines: by strategy and client library; the last one is of all together. Empty if nothing was predicted.
        predictable: generations of all groups that could be predicted.
        chosen: how many of them were to be predicted.
        omissions: why others of these were not, and how many.
        differences: predictions that are not exact, at most ``jobs.backtest.judging.MOST_DIFFERENCES``.
        difference_count: all of them.
    """

    lines: tuple[PredictionLine, ...]
    predictable: Figure
    chosen: Figure
    predicted: Figure
    omissions: tuple[Count, ...]
    differences: tuple[DifferenceView, ...]
    difference_count: Figure

    @property
    def anchors(self) -> frozenset[str]:
        """Return the ids of the generations that differences are about."""
        return frozenset(one.anchor for one in self.differences)


@dataclass(frozen=True)
class CauseLine:
    """The cost of rebalances of one cause, or of the same causes together."""

    cause: Figure
    generations: Figure
    movements: Figure
    avoidable: Figure
    revocations: Figure

    def cells(self) -> Iterator[Cell]:
        """Yield the figures that may not be known."""
        yield "what changed", self.cause
        yield "movements", self.movements
        yield "avoidable", self.avoidable
        yield "actual revocations", self.revocations


@dataclass(frozen=True)
class Flow:
    """Partitions of one topic that went from one owner to another for the same reason; an empty owner is nobody."""

    source: str
    source_short: str
    target: str
    target_short: str
    topic: str
    partitions: str
    partition_count: Figure
    kind: str
    cause: str
    resume: Figure


@dataclass(frozen=True)
class GenerationLine:
    """One generation in figures, with its owner changes; ``course``: the steps of a consumer-protocol group's target."""

    anchor: str
    name: str
    at: str
    special: str
    start: str
    gap: int
    course: str
    triggers: Figure
    figures: Mapping[str, Figure]
    parts: str
    conformance: Figure
    mark: str
    flows: tuple[Flow, ...]
    exchange: Exchange | None

    def cells(self) -> Iterator[Cell]:
        """Yield the figures that may not be known, also of owner changes."""
        yield "what changed", self.triggers
        yield from _cells(self.figures)
        yield "conformance", self.conformance
        yield from (("still to read", flow.resume) for flow in self.flows)


@dataclass(frozen=True)
class GroupLine:
    """A group in the table of groups. ``anchor`` is its id in every report: it depends only on the names.

    Attributes:
        needs: what needs someone now, as text; empty if nothing does.
        needs_severity: that of ``needs``; empty if nothing does.
        critical, warning: findings of all generations that are kept.
        could_be: the imbalance that the best assignor would give.
    """

    rank: int
    anchor: str
    cluster_id: str
    group_id: str
    strategy: str
    needs: str
    needs_severity: str
    critical: Figure
    warning: Figure
    avoidable: Figure
    movements: Figure
    imbalance: Figure
    could_be: Figure
    lag_now: Figure
    members: Figure
    generations: Figure
    last_at: str


@dataclass(frozen=True)
class GroupView:
    """Everything that the section of one group shows.

    Attributes:
        lag_now: the lag of all partitions with a known one, as of ``lag_now_at``, the newest moment that has landed from the cluster.
        lags: the partitions with the largest lag, a line for each owner, at most ``jobs.report.collecting.MOST_LAGS`` lines. They are
            ``lag_partitions_shown`` of all ``lag_partitions``.
    """

    line: GroupLine
    loads: str
    weights: Mapping[str, Figure]
    verdict: Figure
    first_at: str
    settled: str
    timeline: Timeline
    causes: tuple[CauseLine, ...]
    lines: tuple[GenerationLine, ...]
    cuts: tuple[str, ...]
    heat: Heat | None
    strategies: tuple[StrategyLine, ...]
    findings: tuple[FindingView, ...]
    lag_now: Figure
    lag_now_at: str
    lag_partitions: Figure
    lag_partitions_shown: int
    lags: tuple[LagLine, ...]


@dataclass(frozen=True)
class Page:
    """The content of the report.

    Attributes:
        groups: a line of each group, worst first.
        ranked: the figures of the same groups in the same order.
        has_lags: whether the lag of now was collected, of the groups with details.
        worst: the groups whose details were collected, in the same order.
        finding_total: number of rules and groups with findings, shown or not.
        predictions: None if the page has no such part.
    """

    as_of: str
    run_id: str
    clusters: tuple[str, ...]
    inputs: tuple[Count, ...]
    input_kinds: tuple[Count, ...]
    headline: tuple[Count, ...]
    conformance: tuple[ConformanceLine, ...]
    statuses: tuple[StatusLine, ...]
    severities: tuple[Count, ...]
    rules: tuple[RuleLine, ...]
    imbalance: tuple[Count, ...]
    strategies: tuple[StrategyLine, ...]
    groups: Sequence[GroupLine]
    ranked: Ranking
    has_lags: bool
    worst: tuple[GroupView, ...]
    findings: tuple[FindingView, ...]
    finding_total: int
    first_screen: FirstScreen
    predictions: PredictionsView | None = None

    @property
    def drawn_causes(self) -> tuple[tuple[str, str], ...]:
        """Return the signs of causes in the drawings of all groups, each with its meaning."""
        return tuple(dict.fromkeys(cause for view in self.worst for cause in view.timeline.causes))

    @property
    def linked_generations(self) -> frozenset[str]:
        """Return the ids of generations to which a part of the page links."""
        return frozenset() if self.predictions is None else self.predictions.anchors


def reasons(lines: Iterable[ConformanceLine | StrategyLine | CauseLine | GenerationLine | LagLine]) -> str:
    """Return why figures of a table are not known or not exact, each reason once: a note shows only when a reader points at it."""
    reasons_by_kind: dict[str, dict[str, None]] = {}
    for name, figure in (cell for line in lines for cell in line.cells()):
        if figure.note and figure.known is None:
            reasons_by_kind.setdefault(figure.note, {})[name] = None
    return "; ".join(f"{', '.join(names)} ({note})" for note, names in reasons_by_kind.items())
