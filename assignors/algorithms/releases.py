"""Kafka releases, and how their client-side assignors differ from the newest.

Found by running the released classes. For releases in between their byte code was compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from assignors.model import KafkaVersionError

Release = tuple[int, ...]

NEWEST: Release = (999,)
"""The newest release. No client-side assignor has changed its results since 3.7.1."""


def parse_release(kafka_version: str | None) -> Release:
    """Return the numbers of a release, comparable with tuples like ``(3, 4, 1)``; the newest for None.

    Raises:
        KafkaVersionError: the text does not begin with two numbers.

    >>> parse_release("0.11.0.3") < parse_release("2.8.0-SNAPSHOT") < parse_release("3.7") < parse_release(None)
    True
    """
    if kafka_version is None:
        return NEWEST
    numbers = []
    for part in kafka_version.partition("-")[0].split("."):
        if not part.isascii() or not part.isdigit():
            break
        numbers.append(int(part))
    if len(numbers) < 2:
        raise KafkaVersionError(f"{kafka_version!r} is not a Kafka release; expected numbers like '3.9.1', or None for the newest")
    return tuple(numbers)


@dataclass(frozen=True, slots=True)
class ClientBehaviour:
    """The behaviour of a release's client-side assignors. In the newest release all are True.

    Attributes:
        orders_static_members_first: Range and RoundRobin order by ``group.instance.id`` (KIP-345 for assignors, 2.4).
        inserts_topics_at_head: Range fills its topic map by ``computeIfAbsent`` (2.1).
        is_rack_aware: racks affect the assignment (KIP-881, 3.5); before, Range iterates topics in the order of its topic -> consumers map.
        reads_generation: sticky user data has a generation (KIP-341, 2.3).
        tolerates_missing_topics: sticky skips a subscribed topic without metadata (2.3); before, it throws.
        balances_new_partitions_first: the general algorithm first tries to move only the new partitions (2.4).
        has_constrained_path: equal subscriptions have an algorithm of their own (KAFKA-9987, 2.5.1).
        invalidates_double_claims: nobody keeps a partition that is claimed twice, and cooperative user data has the generation
            (KAFKA-12984, 2.8.1).
        works_on_topics: the constrained and general algorithms are those of today (KAFKA-12464, KAFKA-12675, 3.0).
        has_generation_field: subscriptions carry the generation (KAFKA-13715, 3.4.0).
        keeps_old_generations: claims of an older generation are valid unless contested (3.4.1).
        ignores_losing_claimants: a rejected claim is not entered into the table of claimants (KAFKA-14639, 3.5.2).
        needs_a_gain_of_two: a group is unbalanced only if a move improves the balance (KAFKA-15106, 3.5.2).
        sorts_owned_partitions: claims are sorted before cutting, revocations are remembered with their member (KAFKA-16277,
            KAFKA-15170, 3.7.1).
    """

    orders_static_members_first: bool
    inserts_topics_at_head: bool
    is_rack_aware: bool
    reads_generation: bool
    tolerates_missing_topics: bool
    balances_new_partitions_first: bool
    has_constrained_path: bool
    invalidates_double_claims: bool
    works_on_topics: bool
    has_generation_field: bool
    keeps_old_generations: bool
    ignores_losing_claimants: bool
    needs_a_gain_of_two: bool
    sorts_owned_partitions: bool


@lru_cache(maxsize=64)
def client_behaviour(kafka_version: str | None) -> ClientBehaviour:
    """Return the behaviour of the client-side assignors of a release.

    Raises:
        KafkaVersionError: the text is not a release.

    >>> client_behaviour("3.4.0").keeps_old_generations, client_behaviour("3.4.1").keeps_old_generations
    (False, True)
    """
    release = parse_release(kafka_version)
    return ClientBehaviour(
        orders_static_members_first=release >= (2, 4),
        inserts_topics_at_head=release >= (2, 1),
        is_rack_aware=release >= (3, 5),
        reads_generation=release >= (2, 3),
        tolerates_missing_topics=release >= (2, 3),
        balances_new_partitions_first=release >= (2, 4),
        has_constrained_path=release >= (2, 5, 1),
        invalidates_double_claims=release >= (2, 8, 1),
        works_on_topics=release >= (3, 0),
        has_generation_field=release >= (3, 4),
        keeps_old_generations=release >= (3, 4, 1),
        ignores_losing_claimants=release >= (3, 5, 2),
        needs_a_gain_of_two=release >= (3, 5, 2),
        sorts_owned_partitions=release >= (3, 7, 1),
    )
