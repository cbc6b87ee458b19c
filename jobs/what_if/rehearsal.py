"""A group with its scenarios played by each strategy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from assignors.audit.least_movement import least_spread
from assignors.generation.generation import SERVER_SIDE, STREAMS
from assignors.model import AssignorError, KafkaVersionError
from assignors.replay.replay import NEWEST_KAFKA, UNSUPPORTED, status_of
from assignors.scenario.changes import apply_changes
from assignors.scenario.play import Played, Player
from assignors.scenario.scenario import Scenario
from jobs.reading.stored import PartitionWeights, StoredGeneration
from jobs.runtime.errors import UsageError
from jobs.what_if.changes import Changes, scenario_for, strategies_for
from jobs.what_if.figures import Answer, Loads, cheapest, loads_of, measure_loads


@dataclass(frozen=True)
class Subject:
    """A group whose changes are rehearsed.

    Attributes:
        stored: the generation to begin with.
        weights: what its partitions carry.
        threads: consumers of each member that is counted.
        now: the loads before any change.
    """

    stored: StoredGeneration
    weights: PartitionWeights
    threads: int
    now: Loads

    @classmethod
    def of(cls, stored: StoredGeneration, weights: PartitionWeights, threads: int) -> Subject:
        """Return a group with its loads of now.

        Raises:
            UsageError: it is a Kafka Streams application.
        """
        if stored.generation.strategy == STREAMS:
            found = f"found strategy {STREAMS!r}, expected an assignor of partitions"
            raise UsageError(f"group {stored.key.group_id!r}: Kafka Streams deals out tasks, {found}")
        return cls(stored, weights, threads, measure_loads(stored.generation, weights))

    @cached_property
    def player(self) -> Player:
        """Return what plays scenarios of the group."""
        return Player(self.stored.generation)


@dataclass(frozen=True)
class Rehearsal:
    """One scenario of one group.

    Attributes:
        name: of the scenario; empty where there is one only.
        changes: what was asked for.
        answers: one a strategy.
        cheapest: the best of them, see ``figures.cheapest``; None where no strategy has an outcome.
    """

    name: str
    changes: Changes
    answers: tuple[Answer, ...]
    cheapest: Answer | None


@dataclass(frozen=True)
class Count:
    """One member count of a curve.

    Attributes:
        members: in the unit in which they are counted, such as pods.
        rehearsal: what each strategy makes of it.
    """

    members: int
    rehearsal: Rehearsal


@dataclass(frozen=True)
class Curve:
    """Several member counts of one group.

    Attributes:
        counts: one or more, ascending.
        divides_well: the smallest count above today's, up to twice today's, with which every member can have as much as any other; None
            where there is none, and where the changes do not fit the group.
    """

    counts: tuple[Count, ...]
    divides_well: int | None


def rehearse(subject: Subject, name: str, changes: Changes) -> Rehearsal:
    """Return what each strategy makes of a scenario."""
    answers = tuple(_answer(subject, changes, strategy) for strategy in strategies_for(changes, subject.stored))
    return Rehearsal(name, changes, answers, cheapest(answers, subject.stored.generation.strategy))


def _answer(subject: Subject, changes: Changes, strategy: str) -> Answer:
    try:
        scenario = scenario_for(changes, subject.stored, strategy, subject.threads)
        played, release = _play(subject.player, scenario, release_for(subject.stored, strategy))
    except ValueError as error:  # the change does not fit the group
        return Answer(strategy, None, status=UNSUPPORTED, refusal=str(error))
    except AssignorError as error:
        return Answer(strategy, None, status=status_of(error), refusal=str(error))
    loads = tuple(loads_of(outcome, subject.weights) for outcome in played.outcomes)
    return Answer(strategy, played, release, loads)


def _play(player: Player, scenario: Scenario, release: str) -> tuple[Played, str]:
    """Return what a scenario leads to, and the release that it was played by: the newest where the group's own has no such assignor."""
    try:
        return player.play(scenario, release), release
    except KafkaVersionError:
        return player.play(scenario, NEWEST_KAFKA), NEWEST_KAFKA


def release_for(stored: StoredGeneration, strategy: str) -> str:
    """Return the release to play a strategy by: the group's own among its kind, that of clients or of brokers, else the newest."""
    is_of_one_kind = (strategy in SERVER_SIDE) == stored.is_consumer_protocol
    return stored.kafka_version if is_of_one_kind and stored.kafka_version is not None else NEWEST_KAFKA


def draw_curve(subject: Subject, changes: Changes, ends: tuple[int, int]) -> Curve:
    """Return what each strategy makes of each member count between two ends, both included."""
    return Curve(tuple(rehearse_counts(subject, changes, ends)), _divides_well(subject, changes))


def rehearse_counts(subject: Subject, changes: Changes, ends: tuple[int, int]) -> Iterator[Count]:
    """Yield what each strategy makes of each member count between two ends, both included."""
    plain = replace(subject, threads=1)
    for members in range(ends[0], ends[1] + 1):
        more = members * subject.threads - subject.now.member_count
        resized = replace(changes, add_members=max(more, 0), remove_members=max(-more, 0))
        yield Count(members, rehearse(plain, str(members), resized))


def _divides_well(subject: Subject, changes: Changes) -> int | None:
    today, threads = subject.now.member_count, subject.threads
    for members in range(today // threads + 1, 2 * today // threads + 1):
        added = members * threads - today
        scenario = Scenario(added=added, partition_counts=changes.partitions, topics=changes.subscribe, strategy="range")
        try:
            problem = apply_changes(subject.stored.generation, scenario).problem
        except ValueError:  # the change does not fit the group, which each strategy says
            return None
        least = least_spread(problem)
        # Where no topic exists the spread is 0 too.
        if subject.now.most and least is not None and least.is_exact and not least.count:
            return members
    return None


def require_outcome(rehearsals: Sequence[Rehearsal], group_id: str) -> None:
    """Do nothing where a strategy has an outcome.

    Raises:
        UsageError: none has, with the reason of the first.
    """
    if not any(rehearsal.cheapest for rehearsal in rehearsals):
        refusal = next(answer for rehearsal in rehearsals for answer in rehearsal.answers)
        raise UsageError(f"group {group_id!r}, {refusal.strategy}: {refusal.refusal}")
