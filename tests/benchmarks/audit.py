"""Diff and audit of 1,200,000 owned partitions, as multiples of the speed of a plain set difference.

    python tests/benchmarks/audit.py [--shape GROUPS TOPICS PARTITIONS MEMBERS]... [--rounds 5] [--target 20]

Of every group one member leaves: what it had goes to the others, and everybody else keeps what it has. The rival makes a set of (topic,
partition, member) of both generations and takes the symmetric difference; it is given the tuples ready-made. Ours is given both
generations as a worker reads them, in Arrow's columns (``Holdings``), and compares and diffs them; or, as in a group's audit, which has
seen the generation before already, audits the second one (``GroupAudit``: movements, revocations, balance, least movement, violations,
triggers). Rounds alternate, so that a change in the machine's load meets all three. Printed are medians of CPU seconds and the ratios.

The shapes are one group that owns all, a dozen, and a fleet of 400. What a group costs besides is mostly what its members cost, about which
the set difference asks nothing: of small groups it is the faster one. So the target is of the first shape, and the others are printed; exit
code 20 when diff or audit is not ``--target`` times as fast there.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
from collections.abc import Callable
from itertools import cycle
from pathlib import Path

ROOT = Path(__file__).parents[2]
MISSED_TARGET = 20
SHAPES = ((1, 100, 12_000, 60), (12, 100, 1_000, 100), (400, 30, 100, 60))


def main() -> int:
    """Measure all three on every shape and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = ("GROUPS", "TOPICS", "PARTITIONS", "MEMBERS")
    parser.add_argument("--shape", type=int, nargs=4, metavar=names, action="append", help="topics and members of each group")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--target", type=float, default=20.0)
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    ratios = [measure(*shape, options.rounds) for shape in options.shape or SHAPES]
    print(f"ratio {ratios[0]:.2f}, target {options.target:g}")
    return 0 if ratios[0] >= options.target else MISSED_TARGET


def measure(group_count: int, topic_count: int, partition_count: int, member_count: int, rounds: int) -> float:
    """Print what a shape costs; return how many times as fast as the set difference the slower one of diff and audit is."""
    from assignors import GroupProblem, Member, Topic
    from assignors.audit.audit import AuditedGeneration, AuditedSolution, GroupAudit
    from assignors.audit.comparison import Comparison
    from assignors.audit.movements import diff_generations
    from assignors.audit.triggers import Evidence, Participant
    from assignors.generation.generation import Generation, owner_of
    from assignors.generation.holdings import Holdings
    from assignors.generation.subscriptions import subscriptions_of

    topics = {f"topic-{number}": Topic(partition_count) for number in range(topic_count)}
    partitions = [(name, number) for name in topics for number in range(partition_count)]
    subscription = tuple(topics)
    Given = dict[str, list[tuple[str, int]]]

    def reader(number: int, given: Given, claims: Given) -> Callable[[], AuditedGeneration]:
        """Return what reads a stored generation anew: columns of partitions as they are in Arrow, new objects around them."""
        stored = Holdings.of(given)
        columns = (stored.owners, stored.topics, stored.entry_counts, stored.entry_topics, stored.lengths, stored.partitions)
        members = tuple(Member(name, subscription, owned=tuple(claims.get(name, ()))) for name in given)

        def read() -> AuditedGeneration:
            problem = GroupProblem(topics, members)
            subscribed = subscriptions_of(problem)
            present = [Participant(owner_of(one), one.member_id, None, None, subscribed[one.member_id]) for one in members]
            evidence = Evidence(number, number, False, False, False, False, True, "sticky", present, topics)
            solution = AuditedSolution("observed", "sticky", Holdings(*columns))
            return AuditedGeneration(number, 0, problem, (), True, True, False, False, evidence, [solution])

        return read

    def rebalance(group: int) -> tuple[Given, Given]:
        """Return what the members of a group have before and after one of them has left."""
        names = [f"consumer-{group}-{number}" for number in range(member_count)]
        before = {name: partitions[number::member_count] for number, name in enumerate(names)}
        left, *others = names
        after = {name: list(before[name]) for name in others}
        for partition, name in zip(before[left], cycle(others), strict=False):
            after[name].append(partition)
        return before, after

    rebalances = [rebalance(group) for group in range(group_count)]
    readers = [(reader(1, before, {}), reader(2, after, before)) for before, after in rebalances]
    flat = [[[(*partition, name) for name, held in side.items() for partition in held] for side in sides] for sides in rebalances]

    def generation(read: AuditedGeneration) -> Generation:
        return Generation(read.generation, "sticky", read.problem, read.solutions[0].assignment)

    gc.collect()
    gc.freeze()  # the rival's millions of tuples are not to be looked through again while any of the three is measured
    expected = group_count * len(partitions[::member_count])
    seconds: dict[str, list[float]] = {}
    for _ in range(rounds):
        pairs = [(generation(before()), generation(after())) for before, after in readers]
        audits = [(GroupAudit(), after()) for _, after in readers]
        for (audit, _), (before, _) in zip(audits, readers, strict=True):
            audit.advance(before())
        work: tuple[tuple[str, Callable[[], int], int], ...] = (
            ("set difference", lambda: sum(len(set(before) ^ set(after)) for before, after in flat), 2 * expected),
            ("diff", lambda pairs=pairs: sum(diff_generations(Comparison(*pair)).movement_count for pair in pairs), expected),
            ("audit", lambda audits=audits: sum(one.advance(now)[0].difference.movement_count for one, now in audits), expected),
        )
        for what, call, count in work:
            started = time.process_time()
            found = call()
            seconds.setdefault(what, []).append(time.process_time() - started)
            assert found == count, f"{what}: found {found}, expected {count}"
    gc.unfreeze()
    medians = {what: statistics.median(times) for what, times in seconds.items()}
    print(f"groups {group_count}, owned partitions {group_count * len(partitions):,}, moved {expected:,}; CPU seconds")
    for what, median in medians.items():
        print(f"{what:16} {median:8.3f} s   {medians['set difference'] / median:6.2f} times as fast as the set difference")
    print(flush=True)
    return medians["set difference"] / max(medians["diff"], medians["audit"])


if __name__ == "__main__":
    sys.exit(main())
