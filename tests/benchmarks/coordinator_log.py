"""Decoding logs of brokers, in MB of log a second of CPU time of one core.

    python tests/benchmarks/coordinator_log.py [--megabytes 64] [--rounds 5]

The lines of coordinators are those of the recorded cluster, over and over. In the first log they are 2 of 100 lines, as in a busy broker's
``server.log``; the others are those of fetchers, partitions and segments. In the second log all lines are of coordinators. The third one is
the second as JSON, a line in a field. Each log is decoded in pieces of the size that landing uses, and the rounds alternate. Printed is a
table in Markdown with the medians. Exit code 20 if a log is slower than its limit.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
MISSED_TARGET = 20
SHARE = 0.02
LIMITS = {"2 % of a coordinator": 50.0, "all of a coordinator": 5.0, "all of a coordinator, in JSON": 2.5}
OTHER_LINES = (
    "[{at}] INFO [ReplicaFetcher replicaId=2, leaderId=1, fetcherId=0] Truncating partition orders-{n} with TruncationState(offset={m},"
    " completed=true) due to local high watermark {m} (kafka.server.ReplicaFetcherThread)",
    "[{at}] INFO [Partition orders-{n} broker=2] ISR updated to 1,2,3 and version updated to {m} (kafka.cluster.Partition)",
    "[{at}] INFO [LocalLog partition=orders-{n}, dir=/var/lib/kafka] Rolled new log segment at offset {m} in 3 ms. (kafka.log.LocalLog)",
    "\tat org.apache.kafka.common.network.Selector.poll(Selector.java:{n})",
)


def coordinator_lines() -> list[str]:
    """Return the lines of the recorded coordinators."""
    folder = ROOT / "tests" / "golden" / "coordinator_log"
    texts = [gzip.decompress((folder / f"broker-{broker}.log.gz").read_bytes()).decode() for broker in (1, 2, 3)]
    return [line for text in texts for line in text.splitlines() if "GroupMetadataManager" in line]


def write_log(size: int, share: float, in_json: bool) -> bytes:
    """Return a log of about so many bytes."""
    source = random.Random(1)
    lines = coordinator_lines()
    if in_json:
        lines = [json.dumps({"log": f"{line}\n", "stream": "stdout", "time": "2026-11-25T22:08:03.470123456Z"}) for line in lines]
    written, chosen = 0, []
    while written < size:
        if source.random() < share:
            line = source.choice(lines)
        else:
            number = source.randrange(10**6)
            line = source.choice(OTHER_LINES).format(at="2026-11-25 22:08:03,470", n=number % 50, m=number)
        chosen.append(line)
        written += len(line) + 1
    return "\n".join([*chosen, ""]).encode()


def pieces_of(log: bytes, size: int) -> list[bytes]:
    """Return a log in pieces that end at line ends."""
    pieces, start = [], 0
    while start < len(log):
        end = log.rfind(b"\n", start, start + size) + 1 or len(log)
        pieces.append(log[start:end])
        start = end
    return pieces


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    from jobs.decoders.coordinator_log import decode_piece
    from jobs.decoders.text_pieces import PIECE_BYTES

    size = options.megabytes * 1_000_000
    sparse, dense, in_json = LIMITS
    logs = {sparse: write_log(size, SHARE, False), dense: write_log(size // 8, 1, False), in_json: write_log(size // 8, 1, True)}
    pieces = {name: pieces_of(log, PIECE_BYTES) for name, log in logs.items()}
    seconds: dict[str, list[float]] = {name: [] for name in logs}
    rows: dict[str, int] = {}
    for round_ in range(options.rounds + 1):
        for name in logs:
            began = time.process_time()
            rows[name] = sum(len(decode_piece(piece, "Europe/Berlin").rows) for piece in pieces[name])
            if round_:  # the first one warms up
                seconds[name].append(time.process_time() - began)
    speeds = {name: len(log) / statistics.median(seconds[name]) / 1e6 for name, log in logs.items()}
    print("| lines | MB | rows | MB/s | slowest | limit |")
    print("|---|---|---|---|---|---|")
    for name, log in logs.items():
        slowest = len(log) / max(seconds[name]) / 1e6
        print(f"| {name} | {len(log) / 1e6:.1f} | {rows[name]} | {speeds[name]:.1f} | {slowest:.1f} | {LIMITS[name]} |")
    return MISSED_TARGET if any(speeds[name] < limit for name, limit in LIMITS.items()) else 0


if __name__ == "__main__":
    sys.exit(main())
