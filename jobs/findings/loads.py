"""Rules on how the records that come in are shared among the members of a generation.

``jobs/audit/uneven_loads.py`` finds the generations in which one member reads far more than the mean, or reads from another rack;
this module writes the finding. New metadata snapshots may change it.
"""

from __future__ import annotations

from dataclasses import dataclass

from assignors.generation.generation import STREAMS
from jobs.findings.rule import Found, figures, part_of, percent, rule
from schemas.vocabulary import Rule, Severity

HOT_SHARE = 1.5
"""Ratio of a load to the mean load from which it is hot: the limit of ``range_crowded`` for partitions."""

HOT_RECORDS_PER_SECOND = 100.0
"""Below it no consumer is busy, however uneven the loads are."""


@dataclass(frozen=True)
class LoadFacts:
    """What the rules use of one settled generation. Rates are records per second that come into partitions.

    Attributes:
        member_id, member_rate: the member with the largest load.
        topic, partition, partition_rate, owner: the partition with the largest load, and the member that has it.
        total_rate: of all partitions of members.
        partition_count: partitions that members have.
        least, most: partitions of the members with the fewest and the most.
        crossing_rate: of the partitions that have no replica in their reader's rack; None if racks are not known.
        crossing_count: how many partitions these are; None likewise.
    """

    strategy: str
    member_count: int
    partition_count: int
    least: int
    most: int
    member_id: str
    member_rate: float
    topic: str
    partition: int
    partition_rate: float
    owner: str
    total_rate: float
    crossing_rate: float | None = None
    crossing_count: int | None = None

    @property
    def mean_rate(self) -> float:
        """Return the mean load of the members that can have a partition."""
        return self.total_rate / min(self.member_count, self.partition_count)

    @property
    def has_hot_partition(self) -> bool:
        """Return whether one partition alone is more than a member should have."""
        return self.partition_rate >= max(HOT_RECORDS_PER_SECOND, HOT_SHARE * self.mean_rate)


@rule(
    Rule.HOT_PARTITION,
    Severity.INFO,
    "One partition brings more records than a member should read",
    when=(
        f"One partition alone gets at least {HOT_SHARE} times the records of the mean member, and at least {HOT_RECORDS_PER_SECOND:.0f} a "
        "second. The mean is over all members, or over all partitions if there are fewer of these. The rates are those between the "
        "metadata snapshots before and after the generation."
    ),
    advice=(
        "No assignor can even that out, since a partition has one reader. Spread its records: use keys with more values, or add "
        "partitions if the busy keys are several. Look for records without a proper key, or a default key that many records share."
    ),
)
def hot_partition(facts: LoadFacts) -> Found | None:
    """Return the partition with so many records that its reader has far more than the mean, whatever else it has."""
    if not facts.has_hot_partition:
        return None
    name = f"{facts.topic}-{facts.partition}"
    share = percent(facts.partition_rate / facts.total_rate)
    return Found(
        f"{name} alone brings {share} of the group's records, {facts.partition_rate:,.0f} a second. "
        f"That is {facts.partition_rate / facts.mean_rate:.1f} times the mean of a member, and no assignor can even it out",
        figures(
            partition=name,
            share_percent=round(100 * facts.partition_rate / facts.total_rate),
            records_per_second=round(facts.partition_rate),
            mean_records_per_second=round(facts.mean_rate),
            member=facts.owner,
        ),
    )


@rule(
    Rule.HOT_MEMBER,
    Severity.INFO,
    "One member reads most of the records though the loads are even",
    when=(
        f"The members have equally many partitions, give or take one. One of them gets at least {HOT_SHARE} times the records of the mean "
        f"member, {HOT_SHARE} times those of the busiest partition, and {HOT_RECORDS_PER_SECOND:.0f} a second. So another split of the "
        "same partitions would be more even. If one partition is the reason, the rule is `hot_partition`. Kafka Streams is not reported, "
        "since its tasks are sets of partitions."
    ),
    advice=(
        "Kafka's assignors count partitions, not records. roundrobin and range spread the partitions of each topic over all members, which "
        "helps if one topic is busy. An assignor of your own can go by rates. what-if shows the rates that other assignors would give."
    ),
)
def hot_member(facts: LoadFacts) -> Found | None:
    """Return the member that gets most records although it has no more partitions than others, nor one that is too busy for any member."""
    if facts.has_hot_partition or facts.strategy == STREAMS or facts.most - facts.least > 1:
        return None
    if facts.member_rate < max(HOT_RECORDS_PER_SECOND, HOT_SHARE * facts.mean_rate, HOT_SHARE * facts.partition_rate):
        return None
    share = percent(facts.member_rate / facts.total_rate)
    return Found(
        f"{facts.member_id} gets {share} of the group's records, {facts.member_rate:,.0f} a second. "
        f"That is {facts.member_rate / facts.mean_rate:.1f} times the mean of a member. Its busiest partitions could be shared: none "
        f"brings more than {percent(facts.partition_rate / facts.total_rate)}",
        figures(
            member=facts.member_id,
            share_percent=round(100 * facts.member_rate / facts.total_rate),
            records_per_second=round(facts.member_rate),
            mean_records_per_second=round(facts.mean_rate),
            busiest_partition=f"{facts.topic}-{facts.partition}",
            partitions_per_member_max=facts.most,
        ),
    )


@rule(
    Rule.RECORDS_CROSS_RACKS,
    Severity.INFO,
    "Records come from another rack",
    when=(
        f"Members set client.rack, and at least {HOT_RECORDS_PER_SECOND:.0f} records a second come into partitions that have no replica in "
        "their reader's rack. More may cross: a reader fetches from its own rack only if the brokers' replica.selector.class goes by racks "
        "(KIP-392). The rates are those between the metadata snapshots before and after the generation. The report also gives bytes and "
        "their price, if report.record_bytes and report.price_per_gb are set."
    ),
    advice=(
        "Clouds charge for bytes between zones. An assignor that goes by racks helps where a partition has a replica in the rack of "
        "another reader. Java's range, sticky and cooperative-sticky do since 3.5 (KIP-881), the assignors of Kafka's brokers do not. "
        "Otherwise give these partitions a replica in each rack."
    ),
)
def crossing_records(facts: LoadFacts) -> Found | None:
    """Return how many records a second have to come from another rack."""
    if facts.crossing_rate is None or facts.crossing_rate < HOT_RECORDS_PER_SECOND:
        return None
    share, count = facts.crossing_rate / facts.total_rate, facts.crossing_count or 0
    return Found(
        f"At least {facts.crossing_rate:,.0f} records a second, {percent(share)} of all, come from another rack: "
        f"{part_of(count, facts.partition_count, 'partition', 'has', 'have')} no replica in their reader's",
        figures(
            records_per_second=round(facts.crossing_rate),
            share_percent=round(100 * share),
            partition_count=count,
        ),
    )
