"""The rule on Kafka Streams that does not need its tasks: which instances have partitions at all."""

from __future__ import annotations

from collections import defaultdict

from assignors.generation.generation import Owner, owner_of
from assignors.generation.holdings import Holdings
from jobs.findings.facts import SnapshotFacts
from jobs.findings.rule import Found, counted, figures, named
from schemas.vocabulary import Severity

THREAD = "-StreamThread-"
"""Follows the application's part in the client id of a thread's consumer: ``client.id``, or the name that Streams gives its process."""

WAIT_OR_LOOK = (
    "Kafka Streams leaves a task where its state is until another instance has restored it (acceptable.recovery.lag). It checks this every "
    "probing.rebalance.interval.ms (10 minutes). If instances stay idle, read their logs, and compare topologies and versions."
)


def idle_instances(snapshot: SnapshotFacts) -> Found | None:
    """Return the instances of a Streams application that have nothing, if a single instance has all partitions.

    A task reads partitions of one number. So two numbers are at least two tasks, which two instances could share. None if the client id or
    host of a member is not known, since its instance is not known either. An ``info`` if all idle instances are new to the group.
    """
    held = Holdings.of(snapshot.observed.assignment)
    members: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    owners: defaultdict[tuple[str, str], set[Owner]] = defaultdict(set)
    for one in snapshot.evidence.participants:
        if one.origin is None:
            return None
        client_id, host = one.origin
        instance = client_id.split(THREAD)[0], host
        members[instance].append(one.member_id)
        owners[instance].add(one.owner)
    busy = [instance for instance, names in members.items() if any(map(held.load, names))]
    task_count = len(
        {number for topic_partitions in snapshot.observed.assignment.values() for _, number in topic_partitions}
    )  # at the least
    if len(busy) != 1 or len(members) == 1 or task_count < 2:
        return None
    idle = [instance for instance in members if instance not in busy]
    earlier = snapshot.last_assigned_before
    before = None if earlier is None else set(map(owner_of, earlier.problem.members))
    are_new = before is not None and all(before.isdisjoint(owners[instance]) for instance in idle)
    names = [" at ".join(instance) for instance in idle]
    partitions = sum(held.loads)
    return Found(
        f"One of {len(members)} instances has all {counted(partitions, 'partition')}; these have nothing to read: {named(names)}",
        figures(idle_instance_count=len(idle), instance_count=len(members), partition_count=partitions, instances=names),
        Severity.INFO if are_new else None,
        WAIT_OR_LOOK,
    )
