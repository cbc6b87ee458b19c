"""What is predicted of the move to the consumer protocol (KIP-848), compared with the targets that a real coordinator stores.

A prediction starts from the newest settled classic generation in ``__consumer_offsets``. It is compared with the target of the first run of
the broker's assignor: the partitions of each member, and how many change their owner. A restarted member has another member id, so members
are compared by client id.

At most one member gets partitions in each of these runs. So the order of member ids, which are random, does not matter. Topic ids are
random too, and decide which partitions move: the broker is asked for them. Restarts after the first run are not compared here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError

from assignors.scenario.play import Outcome, play
from assignors.scenario.scenario import CONSUMER, Scenario
from jobs.reading.stored import PartitionWeights, StoredGeneration
from jobs.what_if.migration import Plan, plan_migration
from tests.kafka.broker import Broker
from tests.kafka.clients import Java
from tests.kafka.conversions import TOPIC_SIZE, Coordinator, Snapshot, target
from tests.kafka.groups import Groups, Owned
from tests.kafka.libraries import NEW_PROTOCOL, Library, OfJava, OfLibrdkafka

pytestmark = pytest.mark.slow
LONG_ENOUGH_TO_RESTART = "60000"
"""On a busy machine a static member may need more than a few seconds to come back."""


@pytest.fixture(scope="module")
def coordinator(broker: Broker) -> Iterator[Coordinator]:
    seen = Coordinator(broker)
    yield seen
    seen.close()


@pytest.fixture(scope="module")
def librdkafka(broker: Broker) -> Iterator[OfLibrdkafka]:
    groups = Groups(broker.address)
    yield OfLibrdkafka(groups, broker.address)
    groups.close()


@pytest.fixture(scope="module")
def java(broker: Broker) -> Iterator[OfJava]:
    client = Java(broker.address)
    yield OfJava(client)
    client.close()


@pytest.fixture(params=["librdkafka", "java"])
def library(request: pytest.FixtureRequest) -> Library:
    found: Library = request.getfixturevalue(request.param)
    return found


def plan(stored: StoredGeneration) -> Plan:
    return plan_migration(stored, PartitionWeights())


def first_run(stored: StoredGeneration, **changes: Any) -> Outcome:
    """Return what is predicted for the first run of the broker's default assignor."""
    return play(stored.generation, Scenario(protocol=CONSUMER, **changes)).expected


def predicted(stored: StoredGeneration, outcome: Outcome) -> dict[str, Owned]:
    """Return a predicted target by client id; members that were added are called by theirs."""
    clients = {member_id: client.client_id for member_id, client in stored.clients.items()}
    return {clients.get(member_id) or member_id: frozenset(given) for member_id, given in outcome.after.assignment.items()}


def held(stored: StoredGeneration) -> dict[str, Owned]:
    return {str(stored.clients[member_id].client_id): frozenset(given) for member_id, given in stored.generation.assignment.items()}


def moved(before: dict[str, Owned], after: dict[str, Owned]) -> int:
    """Return how many partitions went from one owner to another."""
    owners = {partition: name for name, owned in after.items() for partition in owned}
    return sum(owners.get(partition) not in (None, name) for name, owned in before.items() for partition in owned)


def run_after(coordinator: Coordinator, stored: StoredGeneration, poll: Callable[[], object]) -> Snapshot:
    """Return the first target that the broker's assignor has computed for the group."""
    generation = stored.generation.generation

    def found() -> Snapshot | None:
        return next((one for one in coordinator.converted(stored.key.group_id) if one["generation"] > generation), None)

    return coordinator.wait_for(found, poll)


def test_restarted_member_converts_the_group_as_the_plan_says(coordinator: Coordinator, librdkafka: OfLibrdkafka) -> None:
    """The member with fewer partitions comes back before the classic group has rebalanced: nobody polls the other one."""
    group_id, topics = "flip-dynamic", coordinator.make_topics("flip-dynamic", 2)
    members = {name: librdkafka.join(group_id, topics, name, {}) for name in "ab"}
    stored = coordinator.settled(group_id, librdkafka, members, topics)
    outcome = first_run(stored)
    flip = plan(stored).flip
    assert flip is not None and flip.movement_count == outcome.difference.movement_count == 1

    librdkafka.leave(members["b"])
    librdkafka.join(group_id, topics, "b", NEW_PROTOCOL)
    run = run_after(coordinator, stored, lambda: None)
    assert run["strategy"] == flip.strategy
    assert target(run) == predicted(stored, outcome), (stored.generation, run)
    assert moved(held(stored), target(run)) == flip.movement_count


def test_additional_member_converts_the_group(coordinator: Coordinator, library: Library, request: pytest.FixtureRequest) -> None:
    group_id = f"flip-surge-{request.node.callspec.params['library']}"
    topics = coordinator.make_topics(group_id, 3)
    members = {name: library.join(group_id, topics, name, {}) for name in "ab"}
    stored = coordinator.settled(group_id, library, members, topics)
    outcome = first_run(stored, added=("new",))

    library.join(group_id, topics, "new", NEW_PROTOCOL)
    run = run_after(coordinator, stored, library.poll)
    assert target(run) == predicted(stored, outcome), (stored.generation, run)
    assert moved(held(stored), target(run)) == outcome.difference.movement_count == 3


def test_static_members_convert_the_group_and_nothing_moves_until_it_changes(
    coordinator: Coordinator, library: Library, request: pytest.FixtureRequest
) -> None:
    """The converted group keeps its epoch, and the assignor does not run. A topic that grows makes it run, from the classic target."""
    group_id = f"flip-static-{request.node.callspec.params['library']}"
    topics = coordinator.make_topics(group_id, 3)
    members = {
        name: library.join(group_id, topics, name, {"group.instance.id": name, "session.timeout.ms": LONG_ENOUGH_TO_RESTART})
        for name in "ab"
    }
    stored = coordinator.settled(group_id, library, members, topics)
    classic_ids = set(stored.clients)
    for count, name in enumerate("ab", 1):
        library.leave(members[name])
        library.join(group_id, topics, name, {"group.instance.id": name, **NEW_PROTOCOL})

        def restarted(count: int = count) -> Snapshot | None:
            newest = coordinator.converted(group_id)[-1:]
            return next((one for one in newest if len({row["member_id"] for row in one["members"]} - classic_ids) == count), None)

        coordinator.wait_for(restarted, library.poll)
    snapshots = coordinator.converted(group_id)
    assert {one["generation"] for one in snapshots} == {stored.generation.generation}, snapshots
    assert target(snapshots[-1]) == held(stored)

    outcome = first_run(stored, partition_counts={topics[0]: TOPIC_SIZE + 1})
    coordinator.resize_topic(topics[0], TOPIC_SIZE + 1)
    run = run_after(coordinator, stored, library.poll)
    assert target(run) == predicted(stored, outcome), (stored.generation, run)
    assert moved(held(stored), target(run)) == outcome.difference.movement_count == 1


def test_broker_refuses_a_group_that_the_plan_calls_blocked(coordinator: Coordinator, librdkafka: OfLibrdkafka) -> None:
    """cooperative-sticky of librdkafka writes user data into assignments from the second generation on."""
    group_id, topics = "flip-blocked", coordinator.make_topics("flip-blocked", 2)
    cooperative = {"partition.assignment.strategy": "cooperative-sticky"}
    members = {}
    for name in "ab":
        members[name] = librdkafka.join(group_id, topics, name, cooperative)
        stored = coordinator.settled(group_id, librdkafka, members, topics)
    assert plan(stored).verdict_text == "blocked by user data in assignments"

    refused = librdkafka.join(group_id, topics, "new", NEW_PROTOCOL)

    def refusal() -> KafkaError | None:
        return next((error for error in refused.errors if error.code() == KafkaError._FATAL), None)

    assert "The group id does not exist" in coordinator.wait_for(refusal, librdkafka.poll).str()
    assert coordinator.converted(group_id) == []
