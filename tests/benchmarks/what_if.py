"""Playing scenarios of small groups, as a multiple of what one generation of the same groups costs to assign and audit.

    python tests/benchmarks/what_if.py [--groups 200] [--rounds 5] [--target 3]

Each group has eight members and forty partitions of two topics, and is to have another number of members: 6, 7, 10 or 12. Each of these is
played by six assignors. The rival computes one generation as assign does, with those of clients, and audits it. Both work in one process,
without Spark. Rounds alternate, so that a change in the machine's load meets both. Printed are medians of CPU seconds and the ratio; exit
code 20 when it is above ``--target``.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
MISSED_TARGET = 20
MEMBERS, TOPICS, PARTITIONS = 8, 2, 20
COUNTS = (6, 7, 10, 12)


def main() -> int:
    """Measure both and print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--target", type=float, default=3.0)
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    ratio = measure(options.groups, options.rounds)
    print(f"ratio {ratio:.2f}, target {options.target:g}")
    return 0 if ratio <= options.target else MISSED_TARGET


def measure(group_count: int, rounds: int) -> float:
    """Print what both cost; return how many times the one generation all scenarios take."""
    from assignors import GroupProblem, Member, Topic, assign
    from assignors.audit.audit import AuditedGeneration, AuditedSolution, GroupAudit
    from assignors.audit.passages import participants_of
    from assignors.audit.triggers import Evidence
    from assignors.generation.generation import Generation
    from assignors.generation.holdings import Holdings
    from assignors.replay.replay import Replay
    from assignors.replay.steps import Snapshot
    from assignors.replay.topic_metadata import ClusterLooks, TopicRun
    from assignors.scenario.play import Player
    from assignors.scenario.scenario import Scenario
    from schemas.vocabulary import DEFAULT_SERVER_STRATEGY, SERVER_STRATEGIES_BY_NAME, STRATEGIES

    strategies = (*STRATEGIES, DEFAULT_SERVER_STRATEGY, *SERVER_STRATEGIES_BY_NAME.values())

    def settled(group: int) -> Generation:
        topics = {f"topic-{group}-{number}": Topic(PARTITIONS, topic_id=f"{group:021}{number}") for number in range(TOPICS)}
        members = tuple(Member(f"consumer-{group}-{number}", tuple(topics)) for number in range(MEMBERS))
        problem = GroupProblem(topics, members)
        return Generation(7, "range", problem, assign("range", problem))

    def assign_and_audit(generation: Generation) -> None:
        problem = generation.problem
        looks = ClusterLooks([1], {name: [TopicRun(0, 0, PARTITIONS, topic.topic_id, None)] for name, topic in problem.topics.items()})
        snapshot = Snapshot(
            1, 7, 1, 1, "range", None, False, problem.members, generation.assignment, {one.member_id: 1 for one in problem.members}, {}
        )
        step = Replay(STRATEGIES).advance(None, snapshot, looks).step
        evidence = Evidence(7, 1, False, False, False, False, True, "range", participants_of(snapshot), problem.topics)
        solutions = [AuditedSolution(one.basis, one.strategy, Holdings.of(one.assignment or {})) for one in step.solutions]
        GroupAudit().advance(AuditedGeneration(7, 1, problem, (), True, step.has_predecessor, False, False, evidence, solutions))

    def play_all(generation: Generation) -> None:
        player = Player(generation)
        for more in (count - MEMBERS for count in COUNTS):
            for strategy in strategies:
                for outcome in player.play(Scenario(added=max(more, 0), removed=max(-more, 0), strategy=strategy)).outcomes:
                    assert outcome.balance.partition_count == TOPICS * PARTITIONS
                    assert outcome.counts.movement_count >= outcome.least.count

    seconds: dict[str, list[float]] = {"assign and audit": [], "play": []}
    for _ in range(rounds):
        for what, work in (("assign and audit", assign_and_audit), ("play", play_all)):
            generations = [settled(group) for group in range(group_count)]  # new objects: nothing is remembered about them
            started = time.process_time()
            for generation in generations:
                work(generation)
            seconds[what].append(time.process_time() - started)
    medians = {what: statistics.median(times) for what, times in seconds.items()}
    for what, median in medians.items():
        print(f"{what:17} {median:8.3f} s, {median * 1000 / group_count:7.3f} ms a group")
    return medians["play"] / medians["assign and audit"]


if __name__ == "__main__":
    sys.exit(main())
