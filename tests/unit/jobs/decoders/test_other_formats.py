"""Formats that are refused by their name: samples in the words of the tools that print them."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import tarfile
import zipfile
from pathlib import Path

import pyarrow
import pytest
from hypothesis import given, settings

from jobs.decoders.captures import find_captures
from jobs.decoders.describe import looks_like_describe
from jobs.decoders.other_formats import name_old_table
from jobs.runtime.errors import InputError
from schemas.vocabulary import Source
from tests.builders import records
from tests.builders.describe_texts import printed, sessions

TEXTS = Path(__file__).parents[3] / "golden" / "texts"
MEMBERS = "{c-1-5b0c91fe-daf6-4812-9301-d2610acee9ae=[t-0]}"
BURROW = {
    **{"error": False, "message": "consumer status returned"},
    "status": {"cluster": "local", "group": "g", "status": "OK", "partitions": [], "partition_count": 3, "totallag": 0},
    "request": {"url": "/v3/kafka/local/consumer/g/status", "host": "h"},
}
KAFBAT = {
    **{"inherit": "details", "groupId": "g", "members": 1, "topics": 1, "simple": False, "partitionAssignor": "range", "state": "STABLE"},
    **{"coordinator": {"id": 1, "host": "b"}, "consumerLag": 0},
    "partitions": [{"topic": "t", "partition": 0, "currentOffset": 1, "endOffset": 1, "consumerLag": 0, "consumerId": "c", "host": "/h"}],
}
RPK = """GROUP        g
COORDINATOR  0
STATE        Stable
BALANCER     range
MEMBERS      1
TOTAL-LAG    0

TOPIC  PARTITION  CURRENT-OFFSET  LOG-START-OFFSET  LOG-END-OFFSET  LAG  MEMBER-ID  CLIENT-ID  HOST
t      0          5               0                 5               0    c-1        c          172.18.0.9
"""
SHARE = "{:15} {:22} {:15} {:15} {:<12} {}"
DUMPED = (
    "offset: 0 position: 0 CreateTime: 1510000000000 isvalid: true keysize: 29 valuesize: 250 magic: 2 compresscodec: NONE"
    f' headerKeys: [] key: {{"metadata":"g"}} payload: {{"protocolType":"consumer","assignment":"{MEMBERS}"}}\n'
)
OLD_TABLES = {
    "Kafka 0.9": "GROUP, TOPIC, PARTITION, CURRENT OFFSET, LOG END OFFSET, LAG, OWNER\ng, t, 0, 5, 9, 4, c-1_/10.0.0.1\n",
    "Kafka 0.10": f"{'GROUP':30} {'TOPIC':30} {'PARTITION':10} {'CURRENT-OFFSET':15} {'LOG-END-OFFSET':15} {'LAG':15} OWNER\n",
    "without its spaces": "Note: This will not show information about old Zookeeper-based consumers.\n\n"
    "TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID\nt 0 5 9 4 c-1 /10.0.0.1 c\n",
    "Kafka 1.1": (TEXTS / "rows_of_tools_before_2.0.txt").read_text(encoding="utf-8"),
    "quoted": "".join(f"> {line}\n" for line in (TEXTS / "rows_of_tools_before_2.0.txt").read_text(encoding="utf-8").split("\n")),
    "members without partitions": (TEXTS / "dashes_of_tools_before_2.0.txt").read_text(encoding="utf-8"),
}
OTHERS = {
    "commits of formatters before 4.0": (
        "[g,t,1]::OffsetAndMetadata(offset=0, leaderEpoch=Optional.empty, metadata=, commitTimestamp=1706166373455)\n",
        "records as Kafka's formatters printed them before 4.0",
    ),
    "commits of formatters before 2.0": (
        "[g,t,0]::[OffsetMetadata[481690879,NO_METADATA],CommitTime 1479708539051,ExpirationTime 1480313339051]\n",
        "records as Kafka's formatters printed them before 4.0",
    ),
    "groups of formatters before 4.0": (
        "g::GroupMetadata(groupId=g, generation=1, protocolType=Some(consumer), currentState=Stable, members=Map())\n",
        "records as Kafka's formatters printed them before 4.0",
    ),
    "groups of formatters before 2.0": (
        "g::[g,Some(consumer),Stable,Map(c-1 -> [c-1,c,/10.0.0.1,10000])]\n",
        "records as Kafka's formatters printed them before 4.0",
    ),
    "dump-log": (f"Dumping /var/lib/kafka/__consumer_offsets-12/00000000000000000000.log\nStarting offset: 0\n{DUMPED}", "kafka-dump-log"),
    "dump-log without its first lines": (DUMPED, "kafka-dump-log"),
    "dump-log that ends before its first record": ("Dumping /d/__consumer_offsets-0/0.log\nbaseOffset: 0 lastOffset: 3 coun", "cut before"),
    "kcat": (
        '{"topic":"__consumer_offsets","partition":0,"offset":1,"tstype":"create","ts":1,"broker":1,"key":"\\u0000","payload":"x"}\n',
        "kcat -J",
    ),
    "kcat -L": ("Metadata for all topics (from broker 1: b:9092/1):\n 1 brokers:\n  broker 1 at b:9092 (controller)\n", "kcat -L"),
    "kcat -L -J": (
        '{"originating_broker":{"id":1,"name":"b:9092/1"},"query":{"topic":"*"},"controllerid":1,"brokers":[],"topics":[]}',
        "kcat -L",
    ),
    "kafka_exporter": (
        "# HELP kafka_consumergroup_lag Current Approximate Lag of a ConsumerGroup at Topic/Partition\n"
        '# TYPE kafka_consumergroup_lag gauge\nkafka_consumergroup_lag{consumergroup="g",partition="0",topic="t"} 5\n',
        "the metrics of a lag exporter",
    ),
    "Kafka Lag Exporter": ('kafka_consumergroup_group_lag{cluster_name="c",group="g",topic="t",partition="0"} 5.0\n', "a lag exporter"),
    "KMinion": ('kminion_kafka_consumer_group_topic_lag{group_id="g",topic_name="t"} 5\n', "a lag exporter"),
    "kaf": ("Group ID:\tg\nState:\t\tStable\nProtocol:\trange\nProtocol Type:\tconsumer\nOffsets:\n", "kaf group describe"),
    "Confluent": ('{"kind": "KafkaConsumerLagList", "metadata": {}, "data": []}', "Confluent's REST API"),
    "rpk": (RPK, "rpk group describe"),
    "ConsumerOffsetChecker": (
        "[2017-07-04 16:19:49,132] WARN WARNING: ConsumerOffsetChecker is deprecated (kafka.tools.ConsumerOffsetChecker$)\n"
        "Group           Topic                          Pid Offset          logSize         Lag             Owner\n",
        "ConsumerOffsetChecker",
    ),
    "Burrow": (json.dumps(BURROW), "Burrow"),
    "Burrow, spread over lines": (json.dumps(BURROW, indent=2), "Burrow"),
    "share groups": (
        f"\n{'GROUP':15} {'TOPIC':15} {'PARTITION':10} {'START-OFFSET':13} LAG\n{'g':15} {'t':15} {'0':10} {'5':13} 3\n",
        "the output of kafka-share-groups",
    ),
    "members of share groups": (
        f"\n{SHARE.format('GROUP', 'CONSUMER-ID', 'HOST', 'CLIENT-ID', '#PARTITIONS', 'ASSIGNMENT')}\n"
        f"{SHARE.format('g', 'A' * 22, '/10.0.0.1', 'c', 3, 't:0,1;u:0')}\n{SHARE.format('g', 'B' * 22, '/10.0.0.1', 'c', 0, '')}\n",
        "the output of kafka-share-groups",
    ),
    "a share group without members": ("\nShare group 'g' has no active members.\n", "the output of kafka-share-groups"),
    "state of share groups": (
        f"\n{'GROUP':15} {'COORDINATOR (ID)':25} {'STATE':15} #MEMBERS\n{'g':15} {'b:9092  (1)':25} {'Stable':15} 1\n",
        "kafka-share-groups or kafka-streams-groups",
    ),
    "streams groups": (
        f"\n{'GROUP':15} {'MEMBER':22} {'PROCESS':22} CLIENT-ID\n{'g':15} {'A' * 22} {'B' * 22} c\nACTIVE-TASKS: 0: [0,1] \n",
        "the output of kafka-streams-groups",
    ),
    "offsets of streams groups": (
        f"\n{'GROUP':15} {'TOPIC':15} {'PARTITION':10} {'CURRENT-OFFSET':15} {'LEADER-EPOCH':15} {'LOG-END-OFFSET':15} OFFSET-LAG\n",
        "the output of kafka-streams-groups",
    ),
    "a formatter that does not know the records": (
        "Processed a total of 15 messages\n"
        "[2026-11-30 15:01:33,640] ERROR Unknown error when running consumer:  (kafka.tools.ConsoleConsumer$)\n"
        "java.lang.IllegalStateException: Unknown offset message version: 4\n"
        "\tat kafka.coordinator.group.GroupMetadataManager$.readOffsetMessageValue(GroupMetadataManager.scala:1165)\n",
        "messages of kafka-console-consumer",
    ),
    "a formatter that the tool does not know": (
        "kafka.coordinator.group.GroupMetadataManager$OffsetsMessageFormatter\n"
        f"{'Option':40} {'Description':32}\n{'------':40} {'-----------':32}\n",
        "messages of kafka-console-consumer",
    ),
    "a reader without records": (
        "[2026-11-30 14:55:56,853] ERROR Error processing message, terminating consumer process:  (o.a.k.t.c.ConsoleConsumer)\n"
        "org.apache.kafka.common.errors.TimeoutException: null\nProcessed a total of 0 messages\n",
        "messages of kafka-console-consumer",
    ),
    "kafka-groups": (f"{'GROUP':15} {'TYPE':20} PROTOCOL\n{'g':15} {'Consumer':20} consumer\n", "the output of kafka-groups"),
    "a part of the columns": ("GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG\ng t 0 5 9 4\n", "with a part of its columns"),
    "rows that grep found": (
        f"{'g':15} {'t':15} {0:<10} {5:<15} {9:<15} {4:<15} {'-':15} {'-':15} -\n",
        "without the header of their table",
    ),
    "rows of another group": (
        f"$ kafka-consumer-groups --describe | grep t\n{'g':15} t 0 5 - - c-5b0c91fe-daf6-4812-9301-d2610acee9ae /10.0.0.1 c\n",
        "without the header of their table",
    ),
    "kafka-topics": (
        "Topic: t\tTopicId: 0aHLT8OuQXy9Yk8m3RZh2A\tPartitionCount: 1\tReplicationFactor: 1\tConfigs: \n"
        "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\n",
        "the output of kafka-topics",
    ),
    "the log of a Java client": (
        "2024-12-12 02:04:02.048  INFO 1 --- [C-1] o.a.k.c.c.internals.ConsumerCoordinator  : [Consumer clientId=c-1, groupId=g] Revoke"
        " previously assigned partitions t-0\n",
        "the log of a client",
    ),
    "the log of librdkafka": (
        "%4|1602085201.171|SESSTMOUT|rdkafka#consumer-1| [thrd:main]: Consumer group session timed out\n"
        "%3|1602085201.171|FAIL|rdkafka#consumer-1| [thrd:GroupCoordinator]: GroupCoordinator: b:9092: Connect failed\n",
        "the log of a client",
    ),
    "the log of kafka-python": ("INFO:kafka.coordinator:(Re-)joining group g\n", "the log of a client"),
    "Kafbat UI": (json.dumps(KAFBAT), "Kafbat UI"),
    "a list of Kafbat UI": (json.dumps({"pageCount": 1, "consumerGroups": [KAFBAT]}, indent=2), "Kafbat UI"),
}


@pytest.mark.parametrize(("text", "name"), OTHERS.values(), ids=OTHERS)
def test_known_format_is_refused_by_its_name_with_the_way_out(text: str, name: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_text(text)
    with pytest.raises(InputError) as refused:
        find_captures((str(tmp_path / "f"),))
    assert str(refused.value).startswith(f"input {tmp_path}/f: found ")
    assert f"{name}" in str(refused.value) and "which Evenkeel does not read; " in str(refused.value)
    assert any(way in str(refused.value) for way in ("collect", "kafka-consumer-groups of Kafka 2.0"))


def _archive(mode: str) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode) as archive:
        entry = tarfile.TarInfo("members.txt")
        entry.size = len(TABLE)
        archive.addfile(entry, io.BytesIO(TABLE))
    return file.getvalue()


def _zip() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("members.txt", TABLE)
    return file.getvalue()


TABLE = (TEXTS / "table_before_a_prompt.txt").read_bytes()
SEGMENT = (7 << 20).to_bytes(8, "big") + (92).to_bytes(4, "big") + (3).to_bytes(4, "big") + b"\x02" + b"\xa5\x00\x11\x80" * 20
BINARIES = {
    "zip": (_zip(), "a zip archive"),
    "tar": (_archive("w"), "a tar archive"),
    "tgz": (_archive("w:gz"), "a tar archive"),
    "zstd": (pyarrow.compress(TABLE, codec="zstd", asbytes=True), "data packed with zstd"),
    "lz4": (pyarrow.compress(TABLE, codec="lz4", asbytes=True), "data packed with lz4"),
    "xz": (lzma.compress(TABLE), "data packed with xz"),
    "bzip2": (bz2.compress(TABLE), "data packed with bzip2"),
    "gzip twice": (gzip.compress(gzip.compress(TABLE)), "data packed with gzip twice"),
    "UTF-16": (TABLE.decode().encode("utf-16-le"), "UTF-32, or UTF-16 without a byte order mark"),
    "UTF-16, the other way": (TABLE.decode().encode("utf-16-be"), "UTF-32, or UTF-16 without a byte order mark"),
    "UTF-32": (TABLE.decode().encode("utf-32"), "UTF-32, or UTF-16 without a byte order mark"),
    "a segment": (SEGMENT, "a segment of a log of Kafka"),
}
"""Samples by the programs that write them; the segment is by the layout of Kafka's batches of version 2."""


@pytest.mark.parametrize(("content", "name"), BINARIES.values(), ids=BINARIES)
def test_packed_file_or_segment_is_refused_by_its_name(content: bytes, name: str, tmp_path: Path) -> None:
    """An archive that is not packed, or packed as a whole, has the text of a table in it, beside names and zeros."""
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(InputError) as refused:
        find_captures((str(tmp_path / "f"),))
    assert str(refused.value).startswith(f"input {tmp_path}/f: found {name}, which Evenkeel does not read; ")


def test_table_that_a_terminal_has_folded_is_refused(tmp_path: Path) -> None:
    rows = [SHARE.format(*cells) for cells in (("GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "ASSIGNMENT"), "gmhcnt")]
    (tmp_path / "f").write_text("\n".join(piece for row in rows for piece in (row[:90], row[90:])))
    with pytest.raises(InputError, match="f: line 1: found a table of kafka-consumer-groups that was folded at 90 columns"):
        find_captures((str(tmp_path / "f"),))


@pytest.mark.parametrize("text", OLD_TABLES.values(), ids=OLD_TABLES)
def test_table_of_tools_before_2_0_is_refused_with_the_version_that_is_needed(text: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_text(text)
    line = next(number for number, line in enumerate(text.split("\n"), 1) if "TOPIC" in line)
    with pytest.raises(InputError) as refused:
        find_captures((str(tmp_path / "f"),))
    expected = "found a table of kafka-consumer-groups from before Kafka 2.0, expected one of 2.0 to 4.3; describe the group again"
    assert str(refused.value).startswith(f"input {tmp_path}/f: line {line}: {expected}")


def test_log_of_a_client_and_a_broker_is_read(tmp_path: Path) -> None:
    broker = "[2026-11-21 02:21:47,123] INFO [GroupCoordinator 1]: Stabilized group g generation 4 (__consumer_offsets-1) with 3 members"
    text = f"{OTHERS['the log of a Java client'][0] * 700}{broker} (kafka.coordinator.group.GroupCoordinator)\n"
    (tmp_path / "f").write_text(text)
    assert [one.source for one in find_captures((str(tmp_path / "f"),))] == [Source.COORDINATOR_LOG]


@pytest.mark.parametrize("rows", [1, 2])
def test_table_of_members_with_two_spaces_between_columns_is_not_that_of_share_groups(rows: int) -> None:
    """As ``column -t`` prints it: with long ids the widths are those of a table of share groups."""
    wide = SHARE.replace("{:15}", "{:30}")
    lines = [wide.format("GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "ASSIGNMENT")]
    lines += [wide.format("g" * 30, "A" * 22, "/10.0.0.1", "c", 1, f"t({number})") for number in range(rows)]
    assert looks_like_describe("\n".join(lines))


def test_known_format_in_a_folder_is_passed_over_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "burrow.json").write_text(json.dumps(BURROW))
    with pytest.raises(InputError, match=r"no capture in this folder; .*/a/burrow\.json: found an answer of Burrow"):
        find_captures((str(tmp_path / "a"),))
    (tmp_path / "records").write_text(records.record_line())
    caplog.clear()
    assert [Path(one.path).name for one in find_captures((str(tmp_path),))] == ["records"]
    assert [(one.levelname, one.getMessage().partition(",")[0]) for one in caplog.records] == [
        ("WARNING", f"passed over {tmp_path}/a/burrow.json: found an answer of Burrow")
    ]


@given(sessions())
@settings(max_examples=100)
def test_tables_of_tools_since_2_0_are_not_refused_as_old(session) -> None:
    assert name_old_table(printed(*session)) is None
