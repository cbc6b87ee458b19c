"""When a real coordinator deletes commits that nobody uses (KIP-211), compared with the moment that the product predicts before."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from pyspark.sql import SparkSession
from pyspark.sql.types import TimestampType

from jobs.audit.commit_expiry import HOUR_MS
from jobs.audit.commit_facts import FactOrder
from jobs.audit.commit_findings import commit_facts, newest_generations
from jobs.decoders.consumer_offsets import decode_record
from jobs.storage.current_lag import newest_positions
from jobs.storage.last_commits import last_commits_of
from jobs.storage.scratch import StagedKeys
from jobs.workers.guard import WorkerLimits
from schemas.keys import GENERATION_KEY
from schemas.tables import (
    ASSIGNMENTS,
    GENERATION_AUDITS,
    GROUP_RECORDS,
    OFFSET_SNAPSHOTS,
    SUBSCRIPTION_SNAPSHOTS,
    TOPIC_SNAPSHOTS,
    TableSpec,
)
from schemas.wire.keys import OFFSETS_TOPIC
from tests.builders.frames import Row, frame, moment, unstaged
from tests.kafka.broker import Broker
from tests.kafka.conversions import Coordinator, Snapshot
from tests.kafka.groups import Groups, Member
from tests.kafka.log_files import Record, read_topic
from tests.maven_jars import JarsNotThereError
from tests.needs import skip_loudly

pytestmark = pytest.mark.slow
RETENTION_MS, CHECK_MS = 60_000, 1_000
ACTS_AFTER_S = 12.0
"""How long after the first commits something happens to the groups: what expires by it, expires so much later."""
LATE_MS = 6_000
"""How much later than predicted a commit may be deleted. The broker looks every ``CHECK_MS``, on a busy machine."""
KEPT, DROPPED, BOTH = "kept", "dropped", ("kept", "dropped")
PROTOCOLS = ("classic", "consumer")
EMPTIED_FIRST = ("altered", "returned", "deleted")
"""Groups that are empty soon after their first commits."""
FIRST_COMMIT, LAST_COMMIT, EMPTIED = "the first commit", "the last commit", "the group became empty"

Topic = tuple[str, str]
"""A group and a topic of it, which has one partition."""
EXPECTED: dict[Topic, str] = {
    **{(f"{name}-classic", topic): EMPTIED for name in ("emptied", "altered") for topic in BOTH},
    **{("emptied-consumer", topic): FIRST_COMMIT for topic in BOTH},
    ("altered-consumer", KEPT): LAST_COMMIT,
    ("altered-consumer", DROPPED): FIRST_COMMIT,
    **{(f"deleted-{protocol}", KEPT): LAST_COMMIT for protocol in PROTOCOLS},
    **{(f"drops-{protocol}", DROPPED): FIRST_COMMIT for protocol in PROTOCOLS},
}
"""Each topic whose commit expires, and since when the retention counts. Groups with members keep those of subscribed topics."""
NEVER_HAD_MEMBERS = ("simple", KEPT)
"""Its commit expires, and no finding can say so: a finding is about a generation."""


@dataclass
class Happened:
    """What a broker has written.

    Attributes:
        records: all records of ``__consumer_offsets``.
        snapshots: the generations that were there at ``acted_ms``.
        acted_ms: when the last thing had happened to a group; nothing has expired by then.
    """

    records: list[Record]
    snapshots: list[Snapshot]
    acted_ms: int

    def rows(self, spec: TableSpec, kind: str) -> list[Row]:
        """Return the landed rows of a kind that were there at ``acted_ms``."""
        decoded = [decode_record(one.key, one.value, one.partition, one.offset, one.timestamp_ms) for one in self.records]
        known = [(one, row[kind]) for one, row in zip(self.records, decoded, strict=True) if kind in row]  # type: ignore[literal-required]  # its names
        return [_stored(spec, row) for one, row in known if one.timestamp_ms <= self.acted_ms]

    def deletions(self) -> dict[Topic, int]:
        """Return when each commit was deleted after ``acted_ms``."""
        found = {}
        for one in self.records:
            row = decode_record(one.key, one.value, one.partition, one.offset, one.timestamp_ms).get("offset_commit")
            if row is not None and row["is_deleted"] and one.timestamp_ms > self.acted_ms:
                found[row["group_id"], row["topic"]] = one.timestamp_ms
        return found

    def begun_ms(self, topic: Topic) -> int:
        """Return since when the retention of a commit counts, by what ``EXPECTED`` says and by the records alone."""
        since = EXPECTED[topic]
        if since == EMPTIED:
            empty = [one["joined_at"] for one in self.snapshots if one["group_id"] == topic[0] and not one["members"]]
            return max(empty) // 1000
        commits = [row for row in self.rows(OFFSET_SNAPSHOTS, "offset_commit") if (row["group_id"], row["topic"]) == topic]
        made = [round(row["committed_at"].timestamp() * 1000) for row in commits if not row["is_deleted"]]
        return min(made) if since == FIRST_COMMIT else max(made)


def _stored(spec: TableSpec, row: Row) -> Row:
    """Return a decoded row as its table has it."""
    times = {one.name for one in spec.schema.fields if one.dataType == TimestampType()}
    known = {name: value for name, value in row.items() if name in spec.schema.names}
    return {"cluster_id": "c", **{name: moment(value // 1000) if name in times and value else value for name, value in known.items()}}


class Play:
    """All groups, and all that happens to them."""

    def __init__(self, broker: Broker, ending: ExitStack) -> None:
        self._broker = broker
        self._groups, self._coordinator = Groups(broker.address), Coordinator(broker)
        for client in (self._coordinator, self._groups):
            ending.callback(client.close)

    def run(self) -> Happened:
        """Have everything happen, and return what is written of it when all that expires has done so."""
        for topic in BOTH:
            self._broker.make_topic(topic, 1)
        for protocol in PROTOCOLS:
            self._begin(protocol)
        self._admin_commit(*NEVER_HAD_MEMBERS)
        self._poll_until(time.monotonic() + ACTS_AFTER_S)
        for protocol in PROTOCOLS:
            self._act(protocol)
        acted_ms = max(one.timestamp_ms for one in self._records())
        snapshots = [one for name in self._group_ids() for one in self._coordinator.snapshots(name)]
        self._poll_until(time.monotonic() + (RETENTION_MS + LATE_MS) / 1000)
        return Happened(self._records(), snapshots, acted_ms)

    def _begin(self, protocol: str) -> None:
        for name in ("emptied", "alive", "drops", *EMPTIED_FIRST):
            member = self._join(f"{name}-{protocol}", protocol)
            member.consumer.commit(offsets=[TopicPartition(topic, 0, 1) for topic in BOTH], asynchronous=False)
            if name == "drops":
                member.consumer.unsubscribe()
                member.consumer.subscribe([KEPT])
            elif name in EMPTIED_FIRST:
                self._groups.leave(member)

    def _act(self, protocol: str) -> None:
        (member,) = self._groups.of(f"emptied-{protocol}")
        self._groups.leave(member)
        self._join(f"returned-{protocol}", protocol)
        self._admin_commit(f"altered-{protocol}", KEPT)
        for deleted in self._broker.admin.delete_consumer_groups([f"deleted-{protocol}"]).values():
            deleted.result()
        self._admin_commit(f"deleted-{protocol}", KEPT)

    def _join(self, group_id: str, protocol: str) -> Member:
        member = self._groups.join(group_id, protocol=protocol, topics=BOTH)
        return self._coordinator.wait_for(lambda: member if member.owned else None, self._groups.poll)

    def _admin_commit(self, group_id: str, topic: str) -> None:
        asked = ConsumerGroupTopicPartitions(group_id, [TopicPartition(topic, 0, 2)])
        for answer in self._broker.admin.alter_consumer_group_offsets([asked]).values():
            answer.result()

    def _group_ids(self) -> set[str]:
        return {f"{name}-{protocol}" for name in ("emptied", "alive", "drops", *EMPTIED_FIRST) for protocol in PROTOCOLS}

    def _poll_until(self, deadline: float) -> None:
        while time.monotonic() < deadline:
            self._groups.poll()

    def _records(self) -> list[Record]:
        return read_topic(self._broker.log, OFFSETS_TOPIC).committed


@pytest.fixture(scope="module")
def happened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Happened]:
    settings = {"offsets_retention_minutes": str(RETENTION_MS // 60_000), "offsets_retention_check_interval_ms": str(CHECK_MS)}
    with ExitStack() as ending:
        try:
            broker = Broker(tmp_path_factory.mktemp("forgetful"), **settings)
        except JarsNotThereError as error:
            skip_loudly(str(error))
        ending.callback(broker.stop)
        yield Play(broker, ending).run()


def predictions(spark: SparkSession, happened: Happened) -> dict[Topic, int]:
    """Return when commits expire, by what the product knows at ``acted_ms``. It counts in hours, of which the broker keeps a part."""
    stored = [{**_stored(SUBSCRIPTION_SNAPSHOTS, one), "incarnation": 0, "is_conversion": False} for one in happened.snapshots]
    audits = [{name: row[name] for name in GENERATION_KEY} | {"basis": "observed"} for row in stored]
    newest = newest_positions(frame(spark, GENERATION_AUDITS.schema, audits))
    generations = newest_generations(newest, frame(spark, SUBSCRIPTION_SNAPSHOTS.schema, stored))
    commits = frame(spark, OFFSET_SNAPSHOTS.schema, happened.rows(OFFSET_SNAPSHOTS, "offset_commit"))
    records = frame(spark, GROUP_RECORDS.schema, happened.rows(GROUP_RECORDS, "group_record"))
    given, looks = (frame(spark, spec.schema, []) for spec in (ASSIGNMENTS, TOPIC_SNAPSHOTS))
    keys, limits = StagedKeys(generations, generations.count()), WorkerLimits(memory_mb=4_096, idle_timeout_s=60)
    facts = commit_facts(
        keys, given, commits, commits.count(), last_commits_of(commits), looks, {}, records, unstaged, limits, retention_hours=1
    ).collect()
    deleted = {row["group_id"] for row in facts if row["row_order"] == FactOrder.DELETION}
    expiring = {
        row["group_id"]: row["sign"]["expiring_if_deleted" if row["group_id"] in deleted else "expiring"]
        for row in facts
        if row["sign"] is not None
    }
    return {
        (group_id, one["topic"]): one["expires_at_ms"] - HOUR_MS + RETENTION_MS
        for group_id, topics in expiring.items()
        for one in topics or ()
    }


def test_commits_expire_when_predicted(spark: SparkSession, happened: Happened, measured: Callable[[str], None]) -> None:
    predicted, deleted = predictions(spark, happened), happened.deletions()
    for topic, at_ms in sorted(predicted.items()):
        late = f"deleted {(deleted[topic] - at_ms) / 1000:.1f} s later" if topic in deleted else "not deleted"
        measured(f"{' '.join(topic)}: predicted {(at_ms - happened.acted_ms) / 1000:.1f} s ahead, {late}")
    assert predicted.keys() == EXPECTED.keys() == deleted.keys() - {NEVER_HAD_MEMBERS}
    assert {topic: at_ms for topic, at_ms in predicted.items() if not 0 <= deleted[topic] - at_ms <= LATE_MS} == {}


@pytest.mark.parametrize("topic", EXPECTED)
def test_retention_counts_from_the_moment_that_kafka_documents(topic: Topic, happened: Happened) -> None:
    assert 0 <= happened.deletions()[topic] - happened.begun_ms(topic) - RETENTION_MS <= LATE_MS
