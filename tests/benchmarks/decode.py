"""Decoding raw ``__consumer_offsets`` records in Spark, as a multiple of a Python UDF that does nothing with the same bytes.

    python tests/benchmarks/decode.py [--records 1000000] [--rounds 5] [--limit 2.5]

One core. Of the records 97 of 100 are offset commits of 2,000 groups, as a consumer writes them; the others are those of the recorded
capture that are no commits, over and over. Both UDFs read the same Parquet file and feed the same sink, which drops the rows; rounds
alternate, so that a change in the machine's load meets both. Printed are the medians, the ratio, and the records a second that the
difference to the idle UDF stands for. Exit code 20 when the ratio exceeds the limit.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import struct
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).parents[2]
MISSED_TARGET = 20
GROUPS, PARTITIONS = 2_000, 12
NOW_MS = 1_795_000_000_000


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def write_records(path: Path, count: int) -> None:
    """Write the records as a capture."""
    source = random.Random(1)
    recorded = pq.read_table(ROOT / "tests/golden/capture/consumer_offsets.parquet", columns=["key", "value"]).to_pylist()
    others = [(row["key"], row["value"]) for row in recorded if row["key"][:2] != b"\0\1"]
    names = [(f"billing-service-{number}", f"payments.events.v{number % 40}") for number in range(GROUPS)]
    keys, values = [], []
    for number in range(count):
        if number % 100 < 97:
            group, topic = source.choice(names)
            keys.append(b"\0\1" + _string(group) + _string(topic) + struct.pack(">i", source.randrange(PARTITIONS)))
            values.append(struct.pack(">hqihq", 3, number, 7, 0, NOW_MS + number))
        else:
            key, value = source.choice(others)
            keys.append(key)
            values.append(value)
    columns = {
        "key": pa.array(keys, pa.binary()),
        "value": pa.array(values, pa.binary()),
        "partition": pa.array([number % 50 for number in range(count)], pa.int32()),
        "offset": pa.array(range(count), pa.int64()),
        "timestamp": pa.array([(NOW_MS + number) * 1000 for number in range(count)], pa.timestamp("us", "UTC")),
    }
    pq.write_table(pa.table(columns), path)


def same(batches):
    """Return the batches as they came."""
    yield from batches


def main() -> int:
    """Measure both and print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=float, default=2.5)
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    from jobs.decoders.offset_commit_columns import RAW_COLUMNS
    from jobs.land.udfs import decode_raw_records
    from schemas.staging import DECODED_ROWS

    with tempfile.TemporaryDirectory() as folder:
        write_records(Path(folder) / "records.parquet", options.records)
        settings = {"spark.ui.enabled": "false", "spark.sql.files.maxPartitionBytes": "1g", "spark.log.level": "ERROR"}
        builder = SparkSession.builder.master("local[1]")
        for name, value in settings.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        raw = spark.read.parquet(folder).withColumns({"timestamp_ms": F.unix_millis("timestamp"), "is_committed": F.lit(False)})
        raw = raw.select(*RAW_COLUMNS)
        kinds = {"idle": raw.mapInArrow(same, raw.schema), "decoding": raw.mapInArrow(decode_raw_records, DECODED_ROWS)}
        seconds: dict[str, list[float]] = {name: [] for name in kinds}
        for round_ in range(options.rounds + 1):
            for name, frame in kinds.items():
                started = time.perf_counter()
                frame.write.format("noop").mode("overwrite").save()
                if round_:  # the first one warms up
                    seconds[name].append(time.perf_counter() - started)
        spark.stop()
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    ratio = medians["decoding"] / medians["idle"]
    own = options.records / max(medians["decoding"] - medians["idle"], 1e-9)
    print(f"{options.records} records: idle {medians['idle']:.2f} s, decoding {medians['decoding']:.2f} s, ratio {ratio:.2f}", end=", ")
    print(f"limit {options.limit}; {options.records / medians['decoding']:,.0f} records/s in all, {own:,.0f} for the decoding alone")
    return MISSED_TARGET if ratio > options.limit else 0


if __name__ == "__main__":
    sys.exit(main())
