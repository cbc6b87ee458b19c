"""How fast `collect` is, as a share of what confluent-kafka's bare `consume` makes of the same topic.

    python tests/benchmarks/collect.py [--records 1000000] [--rounds 5] [--target 0.7]

One broker on loopback gets a million records of the recorded capture into `__consumer_offsets`. Then it is read in turn, so that a change
in the machine's load meets all: by a loop that only counts what `consume` returns, with librdkafka's own settings (the bare rate) and with
those of `collect`; and by a whole `collect`, from connecting to its last look, all files on the disk. Printed are medians and the ratios of
`collect` to both loops. Exit code 20 when the one to the bare rate is below the target; the other says what is left to be had.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime, timezone
from itertools import cycle, islice
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

import pyarrow.parquet as pq  # noqa: E402
from confluent_kafka import Consumer, Producer, TopicPartition  # noqa: E402

from jobs.brokers import cluster  # noqa: E402
from jobs.brokers.client_properties import ClientProperties  # noqa: E402
from jobs.brokers.records import BATCH_RECORDS, BATCH_SECONDS  # noqa: E402
from jobs.collect import run as collect  # noqa: E402
from jobs.collect.options import CollectOptions  # noqa: E402
from schemas.wire.keys import OFFSETS_TOPIC  # noqa: E402
from tests.kafka.broker import Broker  # noqa: E402
from tests.kafka.groups import Commits  # noqa: E402
from tests.maven_jars import JarsNotThereError  # noqa: E402

MISSED_TARGET = 20
PARTITION_COUNT = 50
CAPTURE = ROOT / "tests" / "golden" / "capture" / "consumer_offsets.parquet"


def fill(broker: Broker, record_count: int) -> int:
    """Write records of the capture into the topic, and return how many it has then."""
    broker.make_topic("orders", 1)
    first = Commits(broker.address, "first")  # with the first group the topic comes into being
    first.commit(0, 1, "")
    first.close()
    table = pq.read_table(CAPTURE)
    pairs = cycle(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))
    # Brokers take records for this topic from one client only, by its name.
    producer = Producer({"bootstrap.servers": broker.address, "client.id": "__admin_client", "linger.ms": 50, "log_level": 0})
    for number, (key, value) in enumerate(islice(pairs, record_count)):
        while True:
            try:
                producer.produce(OFFSETS_TOPIC, value, key, partition=number % PARTITION_COUNT)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(120.0):
        sys.exit("the broker did not take all records")
    return record_count + 1


def count(broker: Broker, record_count: int, settings: dict[str, str]) -> None:
    """Read all records and count them."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "bare",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            **settings,
        }
    )
    consumer.assign([TopicPartition(OFFSETS_TOPIC, number, 0) for number in range(PARTITION_COUNT)])
    left = record_count
    while left > 0:
        left -= len(consumer.consume(BATCH_RECORDS, BATCH_SECONDS))
    consumer.close()


def collect_all(broker: Broker, record_count: int) -> None:
    """Collect into a new folder, and check that all is there."""
    with tempfile.TemporaryDirectory() as folder:
        options = CollectOptions(bootstrap_servers=broker.address, output=Path(folder))
        summary = collect.run(options, ClientProperties({}, {}), lambda: datetime.now(timezone.utc))
        if not summary.startswith(f"{record_count:,} records of "):
            sys.exit(f"expected {record_count:,} records, found: {summary}")


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000, help="how many records are read each time (default 1000000)")
    parser.add_argument("--rounds", type=int, default=5, help="how often each is measured (default 5)")
    parser.add_argument("--target", type=float, default=0.7, help="smallest accepted ratio (default 0.7)")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        try:
            broker = Broker(Path(folder))
        except JarsNotThereError as error:
            sys.exit(f"{error}, so nothing was measured")
        try:
            record_count = fill(broker, options.records)
            measured: dict[str, Callable[[], None]] = {
                "consume, librdkafka's settings": lambda: count(broker, record_count, {}),
                "consume, collect's settings": lambda: count(broker, record_count, cluster.DEFAULTS),
                "collect": lambda: collect_all(broker, record_count),
            }
            walls: dict[str, list[float]] = {name: [] for name in measured}
            cpus: dict[str, list[float]] = {name: [] for name in measured}
            for number in range(1, options.rounds + 1):
                for name, read in measured.items():
                    wall, cpu = time.monotonic(), time.process_time()
                    read()
                    walls[name].append(time.monotonic() - wall)
                    cpus[name].append(time.process_time() - cpu)
                figures = ", ".join(f"{walls[name][-1]:.2f}" for name in measured)
                print(f"round {number} of {options.rounds}: {', '.join(measured)} = {figures} s", file=sys.stderr)
        finally:
            broker.stop()

    medians = {name: statistics.median(seconds) for name, seconds in walls.items()}
    for name, seconds in medians.items():
        spread = f"{min(walls[name]):.2f} to {max(walls[name]):.2f}"
        cpu, rate = statistics.median(cpus[name]), record_count / seconds
        print(f"{name:<32} {seconds:6.2f} s ({spread})  {cpu:6.2f} CPU s  {rate:10,.0f} records/s")
    bare, tuned = (seconds / medians["collect"] for name, seconds in medians.items() if name != "collect")
    print(f"collect / bare consume           x {bare:.2f} (target {options.target})")
    print(f"collect / consume, its settings  x {tuned:.2f}")
    return MISSED_TARGET if bare < options.target else 0


if __name__ == "__main__":
    sys.exit(main())
