"""Rules on the records that members get: each where it holds, and where something near it happens."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jobs.findings import LOAD_RULES, Finding, find
from jobs.findings.loads import LoadFacts

ONE_KEY = LoadFacts(
    strategy="cooperative-sticky",
    member_count=4,
    partition_count=8,
    least=2,
    most=2,
    member_id="a",
    member_rate=620.0,
    topic="orders",
    partition=0,
    partition_rate=500.0,
    owner="a",
    total_rate=1_000.0,
)
"""The mean of a member is 250 records a second, and one partition has half of all."""
ONE_TOPIC = replace(ONE_KEY, member_rate=600.0, partition_rate=300.0)
"""One member has the two busiest partitions."""


def findings(facts: LoadFacts) -> dict[str, Finding]:
    return {finding.rule_id: finding for finding in find(facts, LOAD_RULES)}


def test_partition_that_no_assignor_can_share_is_an_info() -> None:
    (finding,) = findings(ONE_KEY).values()
    assert (finding.rule_id, finding.severity) == ("hot_partition", "info")
    assert finding.message == (
        "orders-0 alone brings 50% of the group's records, 500 a second. That is 2.0 times the mean of a member, and no assignor can even "
        "it out"
    )
    assert finding.evidence == {
        "partition": "orders-0", "share_percent": "50", "records_per_second": "500", "mean_records_per_second": "250", "member": "a",
    }  # fmt: skip


def test_member_with_the_busiest_partitions_is_an_info() -> None:
    (finding,) = findings(ONE_TOPIC).values()
    assert (finding.rule_id, finding.severity) == ("hot_member", "info")
    assert finding.message == (
        "a gets 60% of the group's records, 600 a second. That is 2.4 times the mean of a member. Its busiest partitions could be shared: "
        "none brings more than 30%"
    )
    assert finding.evidence["busiest_partition"] == "orders-0"


@pytest.mark.parametrize(
    ("near", "rules"),
    [
        pytest.param(replace(ONE_KEY, partition_rate=375.0, member_rate=380.0), {"hot_partition"}, id="half more than the mean"),
        pytest.param(replace(ONE_KEY, partition_rate=374.0, member_rate=380.0), set(), id="a little less, and the member has little else"),
        pytest.param(replace(ONE_KEY, partition_count=2), set(), id="two partitions for four members, even among those who can read"),
        pytest.param(replace(ONE_KEY, total_rate=200.0, partition_rate=99.0, member_rate=110.0), set(), id="few records"),
        pytest.param(replace(ONE_KEY, total_rate=200.0, partition_rate=100.0, member_rate=110.0), {"hot_partition"}, id="enough records"),
        pytest.param(replace(ONE_KEY, strategy="stream"), {"hot_partition"}, id="of Kafka Streams"),
        pytest.param(replace(ONE_KEY, least=0, most=8), {"hot_partition"}, id="whatever else the members have"),
        pytest.param(replace(ONE_TOPIC, most=3), {"hot_member"}, id="give or take one"),
        pytest.param(replace(ONE_TOPIC, most=4), set(), id="it has more partitions than others"),
        pytest.param(replace(ONE_TOPIC, strategy="stream"), set(), id="tasks are sets of partitions"),
        pytest.param(replace(ONE_TOPIC, member_rate=449.0), set(), id="hardly more than its busiest partition"),
        pytest.param(replace(ONE_TOPIC, member_rate=374.0, partition_rate=190.0), set(), id="hardly more than the mean"),
        pytest.param(replace(ONE_TOPIC, total_rate=160.0, member_rate=99.0, partition_rate=50.0), set(), id="few records for a member"),
    ],
)
def test_loads_are_hot_from_half_more_than_they_should_be(near: LoadFacts, rules: set[str]) -> None:
    assert findings(near).keys() == rules


ACROSS = replace(ONE_KEY, partition_rate=200.0, member_rate=300.0, crossing_rate=400.0, crossing_count=3)


def test_records_from_another_rack_are_an_info() -> None:
    (finding,) = findings(ACROSS).values()
    assert (finding.rule_id, finding.severity) == ("records_cross_racks", "info")
    assert finding.message == (
        "At least 400 records a second, 40% of all, come from another rack: 3 of 8 partitions have no replica in their reader's"
    )
    assert finding.evidence == {"records_per_second": "400", "share_percent": "40", "partition_count": "3"}


def test_a_share_is_never_said_to_be_nothing_or_all_if_it_is_not() -> None:
    hot = findings(replace(ONE_KEY, total_rate=100_000.0, partition_rate=99_900.0, member_rate=99_900.0))["hot_partition"]
    assert hot.message.startswith("orders-0 alone brings 99.9% of the group's records, 99,900 a second.")
    shared = findings(replace(ONE_TOPIC, total_rate=1_000_000.0, partition_rate=120.0, member_rate=600_000.0))["hot_member"]
    assert shared.message.endswith(" none brings more than 0.01%")
    assert (
        "120 records a second, 0.01% of all,"
        in findings(replace(ACROSS, total_rate=1_000_000.0, crossing_rate=120.0))["records_cross_racks"].message
    )


@pytest.mark.parametrize("rate", [None, 99.9])
def test_few_records_and_unknown_racks_are_no_finding(rate: float | None) -> None:
    assert findings(replace(ACROSS, crossing_rate=rate)) == {}
