"""The plan to move the groups of the recorded capture to the consumer protocol, against verdicts that were read off it by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jobs.cli import console_main

READY, NO_CLIENT = "ready", "a client library without the protocol"
BY_CLIENT = f"blocked by {NO_CLIENT}"
WITHOUT_RACKS, WITHOUT_PAIRS = "ready, and loses rack awareness", "ready, and loses co-partitioning"
BY_HAND: dict[str, tuple[str, int | None, str]] = {
    "alerts-range": (WITHOUT_PAIRS, 1, "labels-v1 and refunds-v2 have 8 partitions each; labels-v1-2 moves and refunds-v2-2 stays"),
    "alerts-rdkcoop": ("blocked by user data in assignments", None, "librdkafka's leader wrote 71 and 49 bytes into the assignments"),
    "alerts-statcoop": (READY, 0, "two static members share one topic evenly"),
    "alerts-sticky": (READY, 0, "7 partitions each; Java's sticky has user data in subscriptions only"),
    "alerts-strclassic": ("blocked by Kafka Streams", None, "assignor stream, tasks in the assignment"),
    "billing-fzsticky": (READY, 0, "franz-go; user data in subscriptions only"),
    "billing-kprange": (BY_CLIENT, None, "kafka-python"),
    "billing-rackcoop": (WITHOUT_RACKS, 0, "members in r1 and r2; 11 of 12 of their partitions have a replica there"),
    "billing-smrange": (BY_CLIENT, None, "Sarama"),
    "console-consumer-47443": (READY, 0, "one member"),
    "console-consumer-85239": (READY, 0, "one member"),
    "email-big": (READY, 0, "38 members with 3 or 4 partitions"),
    "etl-auto": (READY, 0, "one member"),
    "etl-regex": (WITHOUT_PAIRS, 0, "rxbirch-1 and rxbirch-3 have 2 partitions each; uniform keeps what is even"),
    "feed-coop": (READY, 0, "two topics of 12 partitions, but cooperative-sticky never kept them together"),
    "feed-rr": (READY, 1, "round robin left a spread of 2 with different subscriptions"),
    "fraud-fzcooper": (READY, 0, "franz-go"),
    "fraud-lag": (READY, 0, "one member; 4 and 2 partitions"),
    "fraud-upgrade": (READY, 0, "one topic of 9 partitions, 3 members"),
    "index-fzrange": (READY, 3, "franz-go; 11 and 6 partitions, different subscriptions"),
    "mart-flap": (READY, 0, "6 partitions, 3 members"),
    "mart-ghost": (READY, 0, "one of its topics does not exist; one member has nothing else"),
    "mart-js": (f"blocked by an assignor that brokers do not have and {NO_CLIENT}", None, "kafkajs with RoundRobinAssigner"),
    "mart-kpround": (BY_CLIENT, None, "kafka-python"),
    "mart-kpstick": (BY_CLIENT, None, "kafka-python; user data in its subscription, none in its assignment"),
    "mart-rack": (WITHOUT_RACKS, 1, "Java's range with members in r1, r2 and r3; two topics of 9, but other subscribers each"),
    "mart-smroundr": (BY_CLIENT, None, "Sarama"),
    "mart-storm": (READY, 0, "6 partitions, 2 members"),
    "report-deleted": (READY, 0, "one member has both topics of 3 partitions whatever happens"),
    "search-fzroundr": (READY, 3, "franz-go; round robin with different subscriptions"),
    "search-kpcoope": (BY_CLIENT, None, "kafka-python"),
    "search-mixcoop": (READY, 0, "franz-go leads; the other member writes subscriptions of version 1, so it is another library"),
    "search-racksticky": (WITHOUT_RACKS, 0, "members in r1, r3 and r9; two thirds of the partitions match"),
    "search-roll": (READY, 0, "8 partitions, 3 members"),
    "sync-gone": (READY, 0, "3 and 2 partitions: not the same count"),
    "sync-rdkdef": (READY, 5, "librdkafka's range gives 15 and 5: two topics of 10, but one has only one subscriber"),
    "sync-rdkrr": (READY, 0, "librdkafka; its user data is empty"),
    "sync-smsticky": (f"blocked by user data in assignments and {NO_CLIENT}", None, "Sarama's sticky writes 39 to 58 bytes"),
    "sync-static": (READY, 0, "two static members, one topic"),
    "sync-wide": (READY, 0, "one member has all topics whatever happens"),
}
"""Classic group -> verdict, partitions that move, and what of the group says so. Groups of the consumer protocol are not here."""


@pytest.fixture(scope="module")
def plan(recorded_warehouse: Path) -> dict[str, Any]:
    """Return the plan as JSON."""
    with pytest.MonkeyPatch.context() as patch:
        printed: list[str] = []
        patch.setattr("builtins.print", lambda text, **_: printed.append(text))
        assert console_main(["what-if", "--migrate", "--all", "--json", "--warehouse", str(recorded_warehouse)]) == 0
    (text,) = printed
    document: dict[str, Any] = json.loads(text)
    return document


def test_each_group_has_the_verdict_that_was_read_off_the_capture(plan: dict[str, Any]) -> None:
    found = {one["group_id"]: (one["verdict"], one["movement_count"]) for one in plan["groups"]}
    assert found == {group_id: by_hand[:2] for group_id, by_hand in BY_HAND.items()}


def test_groups_of_the_consumer_protocol_are_counted_only(plan: dict[str, Any]) -> None:
    assert plan["consumer_protocol_group_count"] == 5


def test_fewest_risks_come_first(plan: dict[str, Any]) -> None:
    kinds = {READY: 0, WITHOUT_PAIRS: 1, WITHOUT_RACKS: 1}
    risks = [(kinds.get(one["verdict"], 2), one["movement_count"] or 0) for one in plan["groups"]]
    assert risks == sorted(risks)
