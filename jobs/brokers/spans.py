"""The parts of a log that executors read. This module needs no Kafka client, so that executors without one can report that."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from jobs.brokers.client_properties import ClientProperties


@dataclass(frozen=True)
class Span(InputPartition):
    """The part that one task reads: the committed records of a partition from ``begin`` up to ``end``, exclusive."""

    partition: int
    begin: int
    end: int


@dataclass(frozen=True)
class Work:
    """All spans to read, and how to reach the cluster.

    Attributes:
        servers: ``host:port``, several ones separated by commas.
        timeout_seconds: how long to wait for records.
    """

    servers: str
    properties: ClientProperties
    timeout_seconds: float
    spans: tuple[Span, ...]
