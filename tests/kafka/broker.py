"""One Kafka broker on loopback, with a listener for everybody and one that asks for a name and a password."""

from __future__ import annotations

import base64
import re
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from schemas.wire.keys import OFFSETS_TOPIC
from tests.kafka.broker_jars import jvm

USERS = {"reader": "reader-secret", "stranger": "stranger-secret"}
"""Who may log in on the second listener, with their passwords; on the first one everybody may do everything."""
RACK = "r1"
LONGEST_START_S = 120.0
LONGEST_STOP_S = 30.0
LOADED = re.compile(rf"Finished loading of metadata from ({OFFSETS_TOPIC}-\d+) ")
"""A line of the broker's log: it knows the groups of a partition."""

PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{login},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
sasl.enabled.mechanisms=PLAIN
listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required {users};
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
log.dirs={log}
broker.rack={rack}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
group.consumer.session.timeout.ms=10000
group.consumer.min.session.timeout.ms=6000
auto.create.topics.enable=false
# The log stays as it was written, so that what is collected can be held against it.
log.cleaner.enable=false
log.retention.check.interval.ms=500
# Groups that nobody is in stay, so that nothing is written but by a test.
offsets.retention.check.interval.ms=86400000
"""


class Broker:
    """A broker that is its whole cluster; can be stopped and started again on the same ports.

    Attributes:
        address: of the listener for everybody.
        login_address: of the listener for ``USERS``.
        log: the folder of the topics' own files.
        server_log: the file with what it logs, coordinators of groups at INFO.
        admin: a client that may do everything.
    """

    def __init__(self, folder: Path, **settings: str) -> None:
        """Make a new cluster, and start it.

        Args:
            settings: of the broker, instead of those of ``PROPERTIES``; with underscores for dots.
        """
        plain, login, controller = _free_ports(3)
        self.address, self.login_address = f"127.0.0.1:{plain}", f"127.0.0.1:{login}"
        self.log = folder / "log"
        self.server_log = folder / "server.log"
        self.admin = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._jvm = jvm("warn")
        users = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
        ports = {"plain": plain, "login": login, "controller": controller}
        lines = [f"{name.replace('_', '.')}={value}\n" for name, value in settings.items()]  # the last line of a name counts
        (folder / "server.properties").write_text(PROPERTIES.format(**ports, users=users, log=self.log, rack=RACK) + "".join(lines))
        # Kafka's own ids never begin with a dash, which its tools would take for an option.
        cluster_id = "K" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:]
        with (folder / "format.log").open("wb") as log:
            subprocess.run(self._command("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c"), stdout=log, stderr=log, check=True)
        try:
            self.start()
        except BaseException:
            self.stop()
            raise

    def _command(self, main: str, *arguments: str) -> list[str]:
        return [*self._jvm, main, *arguments, str(self._folder / "server.properties")]

    def start(self) -> None:
        """Start, and return when it answers, and leads every partition that it had before."""
        with self.server_log.open("ab") as log:
            started_at = log.tell()
            self._process = subprocess.Popen(
                self._command("kafka.Kafka"), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + LONGEST_START_S
        while True:
            try:
                if self._answers(started_at):
                    return
            except KafkaException:
                assert self._process.poll() is None, self.server_log.read_text()[-3000:]
            assert time.monotonic() < deadline, f"no broker within {LONGEST_START_S:.0f} s"
            time.sleep(0.1)

    def _answers(self, started_at: int) -> bool:
        """Return whether the broker is there, every partition that it had before is open for readers, and it has loaded all groups.

        A broker that has just started answers first without topics, then without groups: neither answer is an error.
        """
        found = self.admin.list_topics(timeout=1.0)
        known = {f"{name}-{number}" for name, topic in found.topics.items() for number in topic.partitions}
        stored = self._stored_partitions()
        if not found.brokers or not stored <= known:
            return False
        latest = {TopicPartition(name, number): OffsetSpec.latest() for name, topic in found.topics.items() for number in topic.partitions}
        asked = self.admin.list_offsets(latest, request_timeout=5.0).values() if latest else ()
        with self.server_log.open(encoding="utf-8") as log:
            log.seek(started_at)
            loaded = set(LOADED.findall(log.read()))
        return all(answer.exception() is None for answer in asked) and {one for one in stored if one.startswith(OFFSETS_TOPIC)} <= loaded

    def _stored_partitions(self) -> set[str]:
        """Return ``topic-number`` of all partitions with a folder; one of a deleted topic has a suffix."""
        names = {path.parent.name for path in self.log.glob("*/partition.metadata")}
        return {name for name in names if re.fullmatch(r".+-\d+", name) and not name.startswith("__cluster_metadata-")}

    def stop(self) -> None:
        """End the broker, if it runs, and return when it has ended."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(LONGEST_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the broker's connections open and without an answer for the length of the block."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def make_topic(self, name: str, partition_count: int) -> None:
        """Make a topic."""
        for made in self.admin.create_topics([NewTopic(name, partition_count, 1)]).values():
            made.result()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
