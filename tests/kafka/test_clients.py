"""Other clients than librdkafka, whole: the tables have the assignment that each member received in each generation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs import cli
from tests.conftest import Evenkeel
from tests.kafka import captures
from tests.kafka.broker import Broker
from tests.kafka.clients import SESSION, Client, Java, KafkaPython, Witness, wait_until_shared
from tests.kafka.conftest import Collect
from tests.kafka.tables import Observed, observed

pytestmark = pytest.mark.slow

JAVA = "org.apache.kafka.clients.consumer."
KIP848 = {"group.protocol": "consumer"}
JAVA_GROUPS = {
    "java-range": {"partition.assignment.strategy": f"{JAVA}RangeAssignor", **SESSION},
    "java-roundrobin": {"partition.assignment.strategy": f"{JAVA}RoundRobinAssignor", **SESSION},
    "java-sticky": {"partition.assignment.strategy": f"{JAVA}StickyAssignor", **SESSION},
    "java-cooperative": {"partition.assignment.strategy": f"{JAVA}CooperativeStickyAssignor", **SESSION},
    "java-uniform": KIP848,
    "java-server-range": {**KIP848, "group.remote.assignor": "range"},
}
KIP848_GROUPS = ("java-uniform", "java-server-range")
PYTHON_GROUPS = ("kafka-python-range", "kafka-python-roundrobin", "kafka-python-sticky", "kafka-python-cooperative")
SHARING = "java-sharing"


def python_properties(group_id: str) -> dict[str, object]:
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    assignors = (RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor, CooperativeStickyAssignor)
    return {"partition_assignment_strategy": [assignors[PYTHON_GROUPS.index(group_id)]]}


def lives(client: Client, group_id: str, properties: dict) -> list[Witness]:
    """Return all members of a group to which one after the other two more come, and from which the first one goes."""
    first = client.join(group_id, properties)
    wait_until_shared([first])
    second = client.join(group_id, properties)
    wait_until_shared([first, second])
    third = client.join(group_id, properties)
    wait_until_shared([first, second, third])
    client.leave(first)
    first.owned = frozenset()
    wait_until_shared([second, third])
    return [first, second, third]


@pytest.fixture(scope="module")
def java(broker: Broker, collect: Collect) -> Iterator[Java]:
    client = Java(broker.address)
    yield client
    client.close()


@pytest.fixture(scope="module")
def witnesses(java: Java, broker: Broker) -> Iterator[dict[str, list[Witness]]]:
    """The members of all groups, by group; some still alive."""
    python = KafkaPython(broker.address)
    found = {group_id: lives(java, group_id, properties) for group_id, properties in JAVA_GROUPS.items()}
    found |= {group_id: lives(python, group_id, python_properties(group_id)) for group_id in PYTHON_GROUPS}
    yield found
    python.close()


@pytest.fixture(scope="module")
def generations(
    witnesses: dict[str, list[Witness]], broker: Broker, make_tables: Evenkeel, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[Observed]]:
    folder = tmp_path_factory.mktemp("clients")
    assert cli.console_main(["collect", "--bootstrap-servers", broker.address, "--output", str(folder / "captures")]) == 0
    assert make_tables("run", "--input", folder / "captures", "--warehouse", folder / "warehouse") == 0
    return observed(folder / "warehouse")


@pytest.mark.parametrize("group_id", [*JAVA_GROUPS, *PYTHON_GROUPS])
def test_members_own_what_their_clients_received(
    group_id: str, witnesses: dict[str, list[Witness]], generations: dict[str, list[Observed]]
) -> None:
    """One of a KIP-848 group may get its target in parts, the last of them in a later epoch: it gets no more than the target."""
    in_tables = {snapshot.generation: snapshot.owned for snapshot in generations[group_id]}
    for witness in witnesses[group_id]:
        assert witness.owned_in
        for (generation, member_id), owned in witness.owned_in.items():
            target = in_tables[generation][member_id]
            if group_id in KIP848_GROUPS:
                assert any(word <= target for word in owned), (generation, member_id)
            else:
                assert owned[-1] == target, (generation, member_id)
    living = {witness.member_id: witness.owned for witness in witnesses[group_id] if witness.owned}
    assert in_tables[max(in_tables)] == living
    assert max(in_tables) == max(generation for witness in witnesses[group_id] for generation, _ in witness.owned_in)


def test_polls_leave_share_groups_out(java: Java, collect: Collect, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sharing = java.join(SHARING, {}, "share")
    try:
        for number in range(100):
            assert collect(tmp_path / str(number), "--poll") == 0
            if ", not shown: 1 (of share, streams and other types) -> " in capsys.readouterr().out:
                break
        else:
            pytest.fail("the share group is not counted")
        assert SHARING not in {line["group_id"] for line in captures.polls(tmp_path / str(number))}
    finally:
        java.leave(sharing)
