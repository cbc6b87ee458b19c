"""What executors are to read of a log; known to them where the client of Kafka is missing, so that they can say so."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from jobs.brokers.client_properties import ClientProperties


@dataclass(frozen=True)
class Span(InputPartition):
    """What one task reads: the committed records of a partition from ``begin`` up to, but not at, ``end``."""

    partition: int
    begin: int
    end: int


@dataclass(frozen=True)
class Work:
    """All that is to be read, and how.

    Attributes:
        servers: ``host:port``, several ones separated by commas.
        timeout_seconds: how long to wait for records.
    """

    servers: str
    properties: ClientProperties
    timeout_seconds: float
    spans: tuple[Span, ...]
