"""Run as a program, with Spark's options for S3 in PYSPARK_SUBMIT_ARGS: threads contend for claims in a folder. Each round is printed."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone

from pyspark.sql import SparkSession

from jobs.storage.lease_claims import FencingFiles

THREADS = 4


def main(folder: str, rounds: int) -> None:
    """Print how many of the threads had the claim, a number for each round."""
    spark = SparkSession.builder.getOrCreate()
    long_ago = datetime(2000, 1, 1, tzinfo=timezone.utc)

    def contend(token: int, ready: threading.Barrier) -> bool:
        ready.wait()
        return FencingFiles(spark, folder).make(token, long_ago)

    with ThreadPoolExecutor(THREADS) as pool:
        for token in range(rounds):
            ready = threading.Barrier(THREADS)
            print(sum(pool.map(contend, [token] * THREADS, [ready] * THREADS)))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
