"""A broker for the whole run, and what groups of real clients have written into it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Producer

from jobs import cli
from schemas.wire.keys import OFFSETS_TOPIC
from tests.kafka.broker import Broker
from tests.kafka.groups import PARTITION_COUNT, TOPIC, Commits, Groups, Member, Owned, Transactions
from tests.kafka.log_files import TopicLog, read_topic
from tests.maven_jars import JarsNotThereError
from tests.needs import skip_loudly

CLASSIC, COOPERATIVE, STATIC, NEXT_GENERATION = "classic", "cooperative", "static", "next-generation"
TRANSACTIONAL, COMMITTING = "transactional", "committing"
WITH_MESSAGES, MESSAGE_COUNT = 1, 3


def only(member_ids: set[str]) -> str:
    (member_id,) = member_ids
    return member_id


@dataclass
class History:
    """What happened on the broker before any test.

    Attributes:
        clients: by group all members that it had.
        committed: notes of the offsets that were committed.
        aborted: notes of those whose transactions were given up.
        log: what the broker had in ``__consumer_offsets`` at the end of it, while the members were there.
        folder: what was collected then.
        owned: by group and member what each one owned then.
    """

    folder: Path
    clients: dict[str, list[Member]] = field(default_factory=dict)
    committed: list[str] = field(default_factory=list)
    aborted: list[str] = field(default_factory=list)
    log: TopicLog = field(default_factory=lambda: TopicLog([], [], [], 0))
    owned: dict[str, dict[str, Owned]] = field(default_factory=dict)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    try:
        running = Broker(tmp_path_factory.mktemp("broker"))
    except JarsNotThereError as error:
        skip_loudly(str(error))
    yield running
    running.stop()


@pytest.fixture(scope="session")
def history(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> History:
    """Groups of both protocols in which members join, leave, come back under a static name, and commit; one collection; then all leave."""
    broker.make_topic(TOPIC, PARTITION_COUNT)
    groups = Groups(broker.address)
    past = History(tmp_path_factory.mktemp("collected"))

    def join(group_id: str, **properties: str) -> Member:
        member = groups.join(group_id, **properties)
        past.clients.setdefault(group_id, []).append(member)
        return member

    join(CLASSIC, partition_assignment_strategy="range")
    join(COOPERATIVE, partition_assignment_strategy="cooperative-sticky")
    stays = join(STATIC, group_instance_id="s1", partition_assignment_strategy="roundrobin")
    join(NEXT_GENERATION, protocol="consumer")
    all_groups = (CLASSIC, COOPERATIVE, STATIC, NEXT_GENERATION)
    groups.wait_until_shared(*all_groups)
    leaves = join(CLASSIC, partition_assignment_strategy="range")
    join(COOPERATIVE, partition_assignment_strategy="cooperative-sticky")
    join(STATIC, group_instance_id="s2", partition_assignment_strategy="roundrobin")
    join(NEXT_GENERATION, protocol="consumer")
    groups.wait_until_shared(*all_groups)
    groups.leave(leaves)
    groups.leave(stays)
    join(STATIC, group_instance_id="s1", partition_assignment_strategy="roundrobin")
    groups.wait_until_shared(*all_groups)

    transactions, commits = Transactions(broker.address, TRANSACTIONAL), Commits(broker.address, COMMITTING)
    for number in range(12):
        note = f"n{number}"
        if number % 3:
            transactions.begin(number % PARTITION_COUNT, 100 + number, note)
            transactions.end(commits=number % 3 == 1)
        else:
            commits.commit(number % PARTITION_COUNT, 100 + number, note)
        (past.aborted if number % 3 == 2 else past.committed).append(note)
    transactions.close()
    commits.close()
    producer = Producer({"bootstrap.servers": broker.address, "log_level": 0})
    for _ in range(MESSAGE_COUNT):
        producer.produce(TOPIC, b"message", partition=WITH_MESSAGES)
    producer.flush()

    past.owned = {name: {only(member.member_ids): member.owned for member in groups.of(name)} for name in all_groups}
    assert cli.console_main(["collect", "--bootstrap-servers", broker.address, "--output", str(past.folder)]) == 0
    past.log = read_topic(broker.log, OFFSETS_TOPIC)
    groups.close()
    return past


@pytest.fixture
def commits(broker: Broker, history: History) -> Iterator[Commits]:
    """A group that a test may commit for."""
    consumer = Commits(broker.address, "of-a-test")
    yield consumer
    consumer.close()


Collect = Callable[..., int]


@pytest.fixture(scope="session")
def collect(broker: Broker, history: History) -> Collect:
    """Runs ``collect`` in this process and returns its exit code."""

    def run(folder: Path, *options: str, servers: str = broker.address) -> int:
        return cli.console_main(["collect", "--bootstrap-servers", servers, "--output", str(folder), *options])

    return run
