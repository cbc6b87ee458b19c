"""A slow, simple audit of one group on plain dicts, written from the definitions of the figures. It shares no code with the product.

Every function looks at one partition, one owner or one member at a time. Nothing here is imported outside tests.
"""

from __future__ import annotations

from itertools import combinations
from statistics import pstdev
from typing import Any

Row = dict[str, Any]
TopicPartition = tuple[str, int]

COOPERATIVE = ("cooperative-sticky", "stream")
MOVEMENT_COUNTS = ("retained", "revoked", "reassigned", "gained", "lost", "orphaned", "withheld", "handed_over", "returned")


def owner(member: Row) -> tuple[str, str]:
    """Return the identity of a member across generations."""
    if member["group_instance_id"] is not None:
        return ("static", member["group_instance_id"])
    return ("dynamic", member["member_id"])


def partitions_of(entries: list[Row]) -> list[TopicPartition]:
    """Return the partitions in a list of (topic, partitions) entries."""
    return [(entry["topic"], partition) for entry in entries for partition in entry["partitions"]]


# -- the history of a group


def goes_on(log: dict[int, tuple[int, bool]], tombstone: int) -> bool:
    """Return whether the records right after a tombstone, its batch, have a value of the other protocol: the group was converted.

    Args:
        log: offset -> record type, and whether it has a value.
    """
    offset = tombstone + 1
    while offset in log:
        kind, is_value = log[offset]
        if is_value and (kind == 2) != (log[tombstone][0] == 2):
            return True
        offset += 1
    return False


def assign_incarnations(snapshots: list[Row], tombstones: list[int]) -> list[int]:
    """Return the incarnation of each snapshot: it ends with a tombstone or a lower generation id, and its name is its first position."""
    names: list[int] = []
    for before, now in zip([None, *snapshots[:-1]], snapshots, strict=True):
        is_new = before is None or now["generation"] < before["generation"]
        is_new = is_new or any(before["position"] < tombstone < now["position"] for tombstone in tombstones)
        names.append(now["position"] if is_new else names[-1])
    return names


def is_static_rewrite(before: Row, now: Row) -> bool:
    """Return whether the only change is a static member that returned with a new member id."""
    instances = [sorted(str(owner(member)) for member in side["members"]) for side in (before, now)]
    held = [{owner(member): set(partitions_of(member["assigned"])) for member in side["members"]} for side in (before, now)]
    ids = [{member["member_id"] for member in side["members"]} for side in (before, now)]
    return before["generation"] == now["generation"] and instances[0] == instances[1] and held[0] == held[1] and ids[0] != ids[1]


def is_follow_up(before: Row, before_topics: dict[str, Row], now: Row, topics: dict[str, Row]) -> bool:
    """Return whether a generation only finishes the cooperative rebalance before it."""
    if before["strategy"] not in COOPERATIVE or now["strategy"] != before["strategy"]:
        return False
    gave_up = any(set(partitions_of(member["owned"])) - set(partitions_of(member["assigned"])) for member in before["members"])
    joined = [
        sorted((member["member_id"], str(member["group_instance_id"]), sorted(set(member["topics"]))) for member in side["members"])
        for side in (before, now)
    ]
    counts = [
        {name: known[name]["partition_count"] for member in side["members"] for name in member["topics"] if exists(known, name)}
        for side, known in ((before, before_topics), (now, topics))
    ]
    return gave_up and joined[0] == joined[1] and counts[0] == counts[1]


def exists(topics: dict[str, Row], topic: str, partition: int = 0) -> bool:
    """Return whether a topic has a partition."""
    return topic in topics and partition < topics[topic]["partition_count"]


# -- movements


def owners_of(partition: TopicPartition, side: Row) -> list[Row]:
    """Return the members that have a partition, in record order."""
    return [member for member in side["members"] if partition in side["held"][member["member_id"]]]


def movements(
    before: Row | None, now: Row, withheld: dict[TopicPartition, Row]
) -> tuple[list[Row], list[TopicPartition], dict[TopicPartition, Row]]:
    """Return the movements of all partitions, the retained partitions, and the withheld ones.

    Args:
        before, now: ``generation``, ``strategy``, ``members``, ``held`` (member id -> set of partitions), ``topics`` (name -> row).
        withheld: partition -> its last owner and generation.
    """
    moved, retained, withheld_now = [], [], {}
    sides = [now] if before is None else [before, now]
    every = {partition for side in sides for held in side["held"].values() for partition in held} | set(withheld)
    claimed = _withheld_by_claims(now) if before is None else {}  # claims stand for the generation before the first of the log
    every |= set(claimed)
    before_generation = None if before is None else before["generation"]
    for partition in sorted(every):
        previous = [] if before is None else owners_of(partition, before)
        current = owners_of(partition, now)
        was_recreated = before is not None and _id_changed(partition[0], before["topics"], now["topics"])
        if previous and current and was_recreated:
            moved.append(_movement(partition, None, current[0], before_generation, "gained", "topic_recreated"))
        elif {owner(member) for member in previous} & {owner(member) for member in current}:
            retained.append(partition)
        elif previous and current:
            kind = "revoked" if _is_member(previous[0], now) else "reassigned"
            moved.append(_movement(partition, previous[0], current[0], before_generation, kind, None))
        elif current:
            last = None if was_recreated else withheld.get(partition)
            if last is None:
                moved.append(
                    _movement(partition, None, current[0], before_generation, "gained", "topic_recreated" if was_recreated else None)
                )
            else:
                cause = "returned" if owner(last["member"]) in map(owner, current) else "handed_over"
                moved.append(_movement(partition, last["member"], current[0], last["generation"], "gained", cause))
        elif previous:
            cause = _cause_of_loss(partition, previous[0], now)
            kind = "lost" if _is_member(previous[0], now) else "orphaned"
            moved.append(_movement(partition, previous[0], None, before_generation, kind, cause))
            if cause == "withheld":
                withheld_now[partition] = {"member": previous[0], "generation": before_generation}
        elif exists(now["topics"], *partition) and _has_subscriber(partition[0], now):
            withheld_now[partition] = {**claimed, **withheld}[partition]
    return moved, retained, withheld_now


def _withheld_by_claims(now: Row) -> dict[TopicPartition, Row]:
    """Return partition -> the first member that claims it, in a cooperative generation."""
    claims: dict[TopicPartition, Row] = {}
    for member in now["members"] if now["strategy"] == "cooperative-sticky" else ():
        for partition in now["claims"][member["member_id"]]:
            claims.setdefault(partition, {"member": member, "generation": member["owned_generation"]})
    return claims


def _id_changed(topic: str, before: dict[str, Row], now: dict[str, Row]) -> bool:
    ids = [known[topic]["topic_id"] if exists(known, topic) else None for known in (before, now)]
    return None not in ids and ids[0] != ids[1]


def _is_member(member: Row, side: Row) -> bool:
    return owner(member) in {owner(other) for other in side["members"]}


def _has_subscriber(topic: str, side: Row) -> bool:
    return any(topic in member["topics"] for member in side["members"])


def _cause_of_loss(partition: TopicPartition, last: Row, now: Row) -> str:
    is_subscribed = _has_subscriber(partition[0], now)
    is_known = is_subscribed or (partition[0] in now["topics"] and not now["topics"][partition[0]]["is_uncertain"])
    if is_known and not exists(now["topics"], *partition):
        return "topic_deleted"
    if not is_subscribed:
        return "unsubscribed"
    claims = {claimed for member in now["members"] if owner(member) == owner(last) for claimed in now["claims"][member["member_id"]]}
    if now["strategy"] in COOPERATIVE and partition in claims:
        return "withheld"
    return "left_out"


def _movement(
    partition: TopicPartition, previous: Row | None, current: Row | None, generation: int | None, kind: str, cause: str | None
) -> Row:
    return {
        "topic": partition[0],
        "partition": partition[1],
        "previous_generation": generation,
        "previous_member_id": None if previous is None else previous["member_id"],
        "member_id": None if current is None else current["member_id"],
        "kind": kind,
        "cause": cause,
    }


def movement_counts(moved: list[Row], retained: list[TopicPartition]) -> Row:
    """Return the counts of each kind and cause, and of all movements."""
    kinds = [row["kind"] for row in moved]
    causes = [row["cause"] for row in moved]
    counts = {name: kinds.count(name) + causes.count(name) for name in MOVEMENT_COUNTS}
    counts["retained"] = len(retained)
    counts["movement"] = counts["revoked"] + counts["reassigned"] + counts["handed_over"]
    return {f"{name}_count": count for name, count in counts.items()}


# -- revocations


def live_pairs(before: Row, now: Row) -> list[tuple[Row, Row]]:
    """Return the members of owners that are in both generations: before and now."""
    return [(earlier, later) for earlier in before["members"] for later in now["members"] if owner(earlier) == owner(later)]


def revocations(before: Row | None, now: Row) -> tuple[int, int]:
    """Return the partitions that owners in both generations give up under the eager and the cooperative protocol."""
    eager = cooperative = 0
    for earlier, later in live_pairs(before, now) if before is not None else ():
        held, given = before["held"][earlier["member_id"]], now["held"][later["member_id"]]
        eager += len(held)
        cooperative += len([partition for partition in held if partition not in given])
    return eager, cooperative


def actual_revocations(before: Row | None, now: Row) -> tuple[int | None, bool | None]:
    """Return the partitions that members of both generations gave up by their claims, and whether each member gave up everything.

    Nothing and None for a first snapshot, in which no member had claims. The consumer protocol revokes what is not in the target.
    """
    if now["group_type"] == "consumer" and now["members"]:
        pairs = [] if before is None else live_pairs(before, now)
        held = [(before["held"][earlier["member_id"]], now["held"][later["member_id"]]) for earlier, later in pairs]
        return sum(len(had - has) for had, has in held), False if any(had for had, _ in held) else None
    if now["strategy"] == "sticky" or any((member["subscription_version"] or 0) < 1 for member in now["members"]):
        return None, None
    count, claims_nothing = 0, []
    for earlier, later in live_pairs(before, now) if before is not None else ():
        held, given = before["held"][earlier["member_id"]], now["held"][later["member_id"]]
        is_same = earlier["member_id"] == later["member_id"]
        gave_up_all = is_same and not now["claims"][later["member_id"]]
        count += len(held) if gave_up_all else len([partition for partition in held if partition not in given])
        if is_same and held:
            claims_nothing.append(gave_up_all)
    return count, all(claims_nothing) if claims_nothing else None


# -- balance


def balance(now: Row) -> Row:
    """Return the figures of one assignment: loads, idle members, partitions without an owner or with several."""
    topics, members = now["topics"], now["members"]
    subscribed = {topic for member in members for topic in member["topics"] if exists(topics, topic)}
    everything = [(topic, partition) for topic in sorted(subscribed) for partition in range(topics[topic]["partition_count"])]
    owned = {partition for held in now["held"].values() for partition in held}
    loads = [len(now["held"][member["member_id"]]) for member in members]
    mean = sum(loads) / len(loads) if loads else None
    differences = [abs(one - other) for one, other in combinations(loads, 2)]
    return {
        "member_count": len(members),
        "idle_member_count": sum(
            1 for member in members if not now["held"][member["member_id"]] and any(exists(topics, topic) for topic in member["topics"])
        ),
        "partition_count": len(owned),
        "unassigned_count": sum(1 for partition in everything if not owners_of(partition, now)),
        "multiply_owned_count": sum(1 for partition in owned if len(owners_of(partition, now)) > 1),
        "partitions_per_member_min": min(loads, default=None),
        "partitions_per_member_max": max(loads, default=None),
        "partitions_per_member_mean": mean,
        "partitions_per_member_stddev": pstdev(loads) if loads else None,
        "imbalance_ratio": max(loads) / mean if mean else None,
        "gini": 2 * sum(differences) / (2 * len(loads) ** 2 * mean) if mean else None,
        "balance_score": sum(differences),
        "topic_skew_max": max((_skew(topic, now) for topic in subscribed), default=0),
    }


def _skew(topic: str, now: Row) -> int:
    subscribers = [member["member_id"] for member in now["members"] if topic in member["topics"]]
    loads = [len([partition for partition in now["held"][subscriber] if partition[0] == topic]) for subscriber in subscribers]
    return max(loads) - min(loads)


# -- verdict


def is_open_to(strategy: str, other: str, group_type: str) -> bool:
    """Return whether a group can change to another assignor: it must be of the same side, and Kafka Streams cannot change."""
    if other == strategy:
        return True
    clients, brokers = ("range", "roundrobin", "sticky", "cooperative-sticky"), ("uniform", "server-range")
    return strategy != "stream" and other not in (clients if group_type == "consumer" else brokers)


def verdict(audit: Row, of_generation: list[Row], group_type: str) -> tuple[str | None, str | None, float | None]:
    """Return the verdict, the better strategy and its gain of one audit, from the other columns of all audits of its generation.

    Subscriptions are assumed to be known.
    """
    is_streams = audit["strategy"] == "stream"
    if audit["basis"] != "observed" or not audit["is_settled"] or audit["imbalance_ratio"] is None or is_streams:
        return None, None, None
    ratios, ginis = {}, {}
    for row in of_generation:
        is_whole = row["violations"] is not None and not [text for text in row["violations"] if not text.startswith("unbalanced")]
        is_open = is_open_to(audit["strategy"], row["strategy"], group_type)
        if row["basis"] == "counterfactual" and is_whole and is_open and row["imbalance_ratio"] is not None:
            ratios[row["strategy"]], ginis[row["strategy"]] = row["imbalance_ratio"], row["gini"]
    own = ratios.get(audit["strategy"], audit["imbalance_ratio"])
    better = sorted((ratio, ginis[strategy], strategy) for strategy, ratio in ratios.items() if ratio < own)
    expected = "better_elsewhere" if better else "inherent"
    word = "unexpected" if audit["conformance"] == "differs" else expected
    spread = audit["partitions_per_member_max"] - audit["partitions_per_member_min"]
    if word == "inherent" and not set(ratios) - {audit["strategy"]} and spread > audit["least_spread"]:
        return None, None, None
    return (word, better[0][2], own - better[0][0]) if better else (word, None, None)


# -- conformance and coordinator


def compare(observed: Row, computed: Row) -> str:
    """Return the first relation that holds between two assignments: member id -> list of partitions."""
    members = sorted(set(observed) | set(computed))
    sides = [(observed.get(member, []), computed.get(member, [])) for member in members]
    topics = {partition[0] for pair in sides for held in pair for partition in held}

    def of_topic(held: list[TopicPartition], topic: str) -> list[TopicPartition]:
        return [partition for partition in held if partition[0] == topic]

    if all(of_topic(one, topic) == of_topic(two, topic) for one, two in sides for topic in topics):
        return "exact"
    if all(set(one) == set(two) for one, two in sides):
        return "equal_sets"
    loads = [sorted(map(len, column)) for column in zip(*sides, strict=True)]
    union = [{partition for held in column for partition in held} for column in zip(*sides, strict=True)]
    return "equal_balance" if loads[0] == loads[1] and union[0] == union[1] else "differs"


def coordinator_partition(group_id: str, count: int) -> int:
    """Return the partition of a group: Java's String hash, absolute, modulo the count."""
    units = group_id.encode("utf-16-be")
    value = 0
    for at in range(0, len(units), 2):
        value = value * 31 + int.from_bytes(units[at : at + 2], "big")
    value %= 2**32
    signed = value - 2**32 if value >= 2**31 else value
    return 0 if signed == -(2**31) else abs(signed) % count
