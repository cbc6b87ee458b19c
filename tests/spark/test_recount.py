"""What `verify` counts again in Spark, against the judge in Python: two ways that share no code, on random assignments."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from assignors import GroupProblem, Member, NoResultError, Topic, assign, violations
from assignors.generation.violations import CODES
from assignors.registry import BUILT_IN
from jobs.verify.recount import wrong_violations

KEY = "cluster_id string, group_id string, position bigint, "
PARTITIONS = "array<struct<topic: string, partitions: array<int>>>"
MEMBERS = f"array<struct<member_id: string, topics: array<string>, owned: {PARTITIONS}>>"
AUDITS = f"{KEY}basis string, strategy string, status string, violations array<string>"
STRATEGIES = ("range", "roundrobin", "sticky", "cooperative-sticky", "uniform", "server-range", "stream", "some.module:assignor")
CASES = 800

Given = dict[str, list[tuple[str, int]]]


def drawn(chance: random.Random, strategy: str) -> tuple[GroupProblem, Given]:
    """Return a problem with an assignment that is sound, lopsided or broken."""
    topics = {name: Topic(chance.choice([1, 2, 3, 7]), topic_id=name * 22) for name in "abc"[: chance.randint(1, 3)]}
    everything = [(name, number) for name, topic in topics.items() for number in range(topic.partition_count)]
    is_equal = chance.random() < 0.5
    members = []
    claimed = chance.sample(everything, chance.randint(0, len(everything)))
    count = chance.randint(1, 4)
    for number in range(count):
        subscribed = ("a", "b", "missing") if is_equal else tuple(chance.sample(["a", "b", "c", "missing"], chance.randint(1, 4)))
        members.append(Member(f"m{number}", subscribed, owned=tuple(claimed[number::count])))
    problem = GroupProblem(topics, tuple(members))
    try:
        given = {owner: list(partitions) for owner, partitions in assign(strategy, problem).items()} if strategy in BUILT_IN else {}
    except NoResultError:
        given = {}
    given = {member.member_id: given.get(member.member_id, []) for member in members}
    for _ in range(chance.choice([0, 0, 1, 2, 5])):
        owner, partition = chance.choice([*given, "stranger"]), chance.choice([*everything, ("a", 9), ("nowhere", 0)])
        for partitions in given.values() if chance.random() < 0.8 else ():
            if partition in partitions:
                partitions.remove(partition)
        given.setdefault(owner, []).append(partition)
    for partitions in given.values():
        if partitions and chance.random() < 0.1:
            partitions.pop()
    return problem, given


def entries(partitions: Sequence[tuple[str, int]]) -> list[dict[str, Any]]:
    by_topic: defaultdict[str, list[int]] = defaultdict(list)
    for topic, partition in partitions:
        by_topic[topic].append(partition)
    return [{"topic": topic, "partitions": partitions} for topic, partitions in by_topic.items()]


def test_violations_are_counted_alike(spark: SparkSession) -> None:
    chance = random.Random(23)
    audits, assignments, problems = [], [], []
    codes: Counter[str] = Counter()
    for number in range(CASES):
        strategy = STRATEGIES[number % len(STRATEGIES)]
        problem, given = drawn(chance, strategy)
        key = ("cluster", "group", number)
        texts = violations(problem, given, strategy)
        codes.update({text.split()[0] for text in texts})
        audits.append((*key, "observed", strategy, "solved", list(texts)))
        assignments += [(*key, "observed", strategy, owner, entries(partitions)) for owner, partitions in given.items()]
        members = [{"member_id": one.member_id, "topics": list(one.topics), "owned": entries(one.owned)} for one in problem.members]
        sizes = [{"topic": name, "topic_size": topic.partition_count} for name, topic in problem.topics.items()]
        problems.append((*key, members, sizes))
    assert set(codes) == set(CODES) and min(codes.values()) > 20, codes

    def found(rows: list[tuple[Any, ...]]) -> DataFrame:
        return wrong_violations(
            spark.createDataFrame(rows, AUDITS),
            spark.createDataFrame(assignments, f"{KEY}basis string, strategy string, member_id string, partitions {PARTITIONS}"),
            spark.createDataFrame(problems, f"{KEY}members {MEMBERS}, topics array<struct<topic: string, topic_size: int>>"),
        )

    assert found(audits).collect() == []

    # Balance alone: taken from those that have it, given to those that have not.
    def changed(texts: list[str]) -> list[str]:
        rest = [text for text in texts if not text.startswith("unbalanced ")]
        return rest if len(rest) < len(texts) else [*texts, "unbalanced a"]

    assert found([(*row[:-1], changed(row[-1])) for row in audits]).count() == CASES
