"""Diff and audit of a fleet's rebalance, as a multiple of the speed of a plain set difference.

    python tests/benchmarks/audit.py [--groups 400] [--rounds 5] [--target 20]

Every group has 60 members and 3,000 partitions of 30 topics, 1,200,000 in all, and one member leaves: what it had goes to the others, and
everybody else keeps what it has. The rival makes a set of (topic, partition, member) of both generations and takes the symmetric
difference. Ours diffs the generations (``diff_generations``), or audits them (``GroupAudit``: movements, revocations, balance, least
movement, violations, triggers). Rounds alternate, so that a change in the machine's load meets all three. Printed are medians of CPU
seconds and the ratios; exit code 20 when the audit is not ``--target`` times as fast as the set difference.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
MISSED_TARGET = 20
TOPICS, PARTITIONS, MEMBERS = 30, 100, 60


def main() -> int:
    """Measure all three and tell the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--target", type=float, default=20.0)
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    from assignors import GroupProblem, Member, Topic
    from assignors.auditing import AuditedGeneration, AuditedSolution, GroupAudit
    from assignors.generations import Generation, owner_of
    from assignors.movement import diff_generations
    from assignors.triggers import Evidence, Participant

    topics = {f"topic-{number}": Topic(PARTITIONS) for number in range(TOPICS)}
    places = [(name, number) for name in topics for number in range(PARTITIONS)]
    subscription = tuple(topics)

    def generation(number: int, names: list[str], given: dict[str, list[tuple[str, int]]], claims: dict[str, tuple]) -> tuple:
        """Return what a stored generation is read as: new objects, as rows give them."""
        problem = GroupProblem(topics, tuple(Member(name, subscription, owned=claims.get(name, ())) for name in names))
        assignment = {name: tuple((str(topic), partition) for topic, partition in given[name]) for name in names}
        present = [Participant(owner_of(member), member.member_id, None, None, frozenset(subscription)) for member in problem.members]
        evidence = Evidence(number, number, False, False, False, False, True, "sticky", present, topics)
        solution = AuditedSolution("observed", "sticky", assignment)
        stored = AuditedGeneration(number, 0, problem, (), True, True, False, False, evidence, [solution])
        return stored, Generation(number, "sticky", problem, assignment)

    def rebalance(group: int) -> tuple:
        """Return two generations of a group: in the second one a member has left."""
        names = [f"consumer-{group}-{number}" for number in range(MEMBERS)]
        given = {name: places[number::MEMBERS] for number, name in enumerate(names)}
        left, *others = names
        after = {name: list(given[name]) for name in others}
        for place, name in zip(given[left], others, strict=False):
            after[name].append(place)
        claims = {name: tuple(given[name]) for name in others}
        return generation(1, names, given, {}), generation(2, others, after, claims)

    rebalances = [rebalance(group) for group in range(options.groups)]
    flat = [
        [[(*place, name) for name, held in kept.assignment.items() for place in held] for _, kept in pair] for pair in rebalances
    ]  # made beforehand: the rival is given rows

    def set_difference() -> int:
        return sum(len(set(before) ^ set(after)) for before, after in flat)

    def diff() -> int:
        return sum(diff_generations(before, after).movement_count for (_, before), (_, after) in rebalances)

    def audit() -> int:
        moved = 0
        for group_audit, (_, (after, _)) in zip(audits, rebalances, strict=True):
            moved += group_audit.advance(after)[0].difference.movement_count
        return moved

    expected = options.groups * len(places[::MEMBERS])
    seconds: dict[str, list[float]] = {}
    for _ in range(options.rounds):
        audits = [GroupAudit() for _ in rebalances]
        for group_audit, ((before, _), _) in zip(audits, rebalances, strict=True):
            group_audit.advance(before)
        for what, work, count in (("set difference", set_difference, 2 * expected), ("diff", diff, expected), ("audit", audit, expected)):
            started = time.process_time()
            found = work()
            seconds.setdefault(what, []).append(time.process_time() - started)
            if found != count:
                print(f"{what}: found {found}, expected {count}", file=sys.stderr)
                return 1
    medians = {what: statistics.median(times) for what, times in seconds.items()}
    print(f"{options.groups * len(places):,} owned partitions of {options.groups} groups, {expected:,} of them moved; CPU seconds")
    for what, median in medians.items():
        print(f"{what:16} {median:8.3f} s   {medians['set difference'] / median:6.2f} times as fast as the set difference")
    ratio = medians["set difference"] / medians["audit"]
    print(f"ratio {ratio:.2f}, target {options.target:g}")
    return 0 if ratio >= options.target else MISSED_TARGET


if __name__ == "__main__":
    sys.exit(main())
