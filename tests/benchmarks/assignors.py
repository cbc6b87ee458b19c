"""How fast the client-side assignors are, beside kafka-python, aiokafka and Kafka's own Java classes.

    python tests/benchmarks/assignors.py

It fetches what it measures us beside, see ``rivals`` and ``tests/kafka_classes.py``; a JDK must be on the path. Before our time
counts, the result is compared with Kafka's, or with the peers' where sending the group to a JVM would take minutes: their Range and
RoundRobin give what Kafka's give. Python is billed by CPU time, the best of a few runs, so what assignors remember from call to call
counts. Of many small groups each is solved once, by us and by the peers, who get the first few hundred; the mean counts for all. Java
is billed by the wall time of a warm JVM, the best of eleven.

A million partitions are dealt out as 10,000 topics of 100: clusters that large have many topics, and hardly a topic of 10,000.

Exits with 20 when a ratio is below its target, and with 1 when one cannot be measured.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT))

from peer_assignors import digest  # noqa: E402
from rivals import PEERS, peers_python  # noqa: E402

from assignors import Assignment, GroupProblem, Member, Topic, assign  # noqa: E402
from assignors.algorithms.sticky.user_data import write_sticky_user_data  # noqa: E402
from tests.kafka_classes import KafkaClasses, kafka_classes  # noqa: E402
from tests.maven_jars import JarsNotThereError  # noqa: E402

MISSED_TARGET = 20
SAME_AS_PEERS = ("range", "roundrobin")
KAFKA_HEAP = "-Xmx8g"  # with racks, a million partitions leave no room in 3 GB, and collecting garbage would be most of the time
KAFKA = "4.3.1"
SMALL_GROUPS_FOR_PEERS = 300
SEED = 20251


@dataclass(frozen=True)
class Case:
    """One thing to time.

    Attributes:
        name: what is solved.
        strategy: by which assignor.
        problems: the groups, solved one after the other; the peers solve the first of them, Kafka the very first.
        peer_target: how many times as fast as the better peer we are to be; None where no target is set.
        kafka_target: the same for Kafka.
        has_peers: whether the peers have the strategy.
        has_kafka: whether the group can be sent to a JVM in a time worth waiting for.
        repeat: how many times we solve all problems.
    """

    name: str
    strategy: str
    problems: Sequence[GroupProblem]
    peer_target: float | None = None
    kafka_target: float | None = None
    has_peers: bool = True
    has_kafka: bool = True
    repeat: int = 3


def even_group(members: int, topics: int, partitions: int, prefix: str = "consumer-", topic_prefix: str = "topic-") -> GroupProblem:
    """Return a fresh group with equal subscriptions."""
    names = tuple(f"{topic_prefix}{number}" for number in range(topics))
    return GroupProblem(dict.fromkeys(names, Topic(partitions)), tuple(Member(f"{prefix}{number}", names) for number in range(members)))


def with_racks(problem: GroupProblem) -> GroupProblem:
    """Return the group with its members, and two replicas of each partition, spread over three racks."""
    racks = ("a", "b", "c")
    replicas = [(racks[index - 1], racks[index]) for index in range(len(racks))]
    topics = {
        name: replace(topic, partition_racks=tuple(replicas[number % len(racks)] for number in range(topic.partition_count)))
        for name, topic in problem.topics.items()
    }
    members = tuple(replace(member, rack=racks[number % len(racks)]) for number, member in enumerate(problem.members))
    return GroupProblem(topics, members)


def uneven_group(members: int, topics: int, partitions: int) -> GroupProblem:
    """Return a fresh group whose members subscribe to random halves of the topics at most."""
    random = Random(SEED)
    names = [f"topic-{number}" for number in range(topics)]
    return GroupProblem(
        dict.fromkeys(names, Topic(partitions)),
        tuple(Member(f"consumer-{number}", tuple(random.sample(names, random.randint(1, topics // 2)))) for number in range(members)),
    )


def claiming(problem: GroupProblem, assignment: Assignment, strategy: str) -> GroupProblem:
    """Return the group with each member claiming what it was given in generation 1."""
    members = []
    for member in problem.members:
        held = assignment.get(member.member_id, ())
        if strategy == "sticky" and held:
            member = replace(member, user_data=write_sticky_user_data(held, 1))
        members.append(replace(member, owned=tuple(sorted(held)), owned_generation=1 if held else None))
    return replace(problem, members=tuple(members))


def joined(problem: GroupProblem, strategy: str, new_count: int = 1) -> GroupProblem:
    """Return the group one rebalance later, the last members being new."""
    before = replace(problem, members=problem.members[:-new_count])
    return claiming(problem, assign(strategy, before), strategy)


def cases() -> Iterator[Case]:
    small = [even_group(10, 5, 12, f"app-{number}-") for number in range(20_000)]
    yield Case("20,000 x sticky, 10 members, 5 x 12 partitions, fresh", "sticky", small, peer_target=100, repeat=1)
    small = [joined(problem, "sticky") for problem in small]
    yield Case("20,000 x sticky, the same, one joins", "sticky", small, peer_target=100, repeat=1)
    # Nothing is shared between these groups, so that nothing remembered helps.
    small = [even_group(10, 5, 12, f"app-{number}-", f"topic-{number}-") for number in range(2_000)]
    yield Case("2,000 x sticky, the same, fresh, topics of their own", "sticky", small, repeat=1)
    small = [joined(problem, "sticky") for problem in small]
    yield Case("2,000 x sticky, the same, one joins, topics of their own", "sticky", small, repeat=1)
    del small
    targets = {"peer_target": 5000, "kafka_target": 0.5}
    yield Case("sticky, 1,000 members, 100 x 100 partitions, fresh", "sticky", [even_group(1000, 100, 100)], **targets, repeat=10)
    large = joined(even_group(1001, 100, 100), "sticky")
    yield Case("sticky, 1,001 members, the same, one joins", "sticky", [large], **targets, repeat=10)
    yield Case("sticky, 200 members, 40 x 50 partitions, uneven, fresh", "sticky", [uneven_group(200, 40, 50)], repeat=5)
    many = [even_group(1000, 10_000, 100)]
    yield Case("range, 1,000 members, 10,000 x 100 partitions", "range", many, peer_target=5, has_kafka=False)
    yield Case("roundrobin, 1,000 members, 10,000 x 100 partitions", "roundrobin", many, peer_target=300, has_kafka=False)
    del many
    yield from cooperative_cases()


def cooperative_cases() -> Iterator[Case]:
    """Yield rebalances of 2,000 members and a million partitions.

    Where subscriptions are equal and no racks known, Kafka itself takes a few seconds. With racks, of brokers and of consumers, it
    takes more than ten; so it would with differing subscriptions, but then not seconds but hours.
    """
    strategy = "cooperative-sticky"

    def case(shape: str, problem: GroupProblem, kafka_target: float | None = None) -> Case:
        return Case(f"{strategy}, {shape}", strategy, [problem], kafka_target=kafka_target, has_peers=False)

    yield case("2,001 members, 500 x 2,000 partitions, one joins", joined(even_group(2001, 500, 2000), strategy))
    yield case("2,000 members, 10,000 x 100, half of them join", joined(even_group(2000, 10_000, 100), strategy, new_count=1000))
    near = joined(with_racks(even_group(2001, 10_000, 100)), strategy)
    yield case("2,001 members, 10,000 x 100, racks, one joins", near, kafka_target=10)


def cpu_seconds(call: Callable[[], Any], repeat: int) -> float:
    """Return the least CPU time of one call."""
    best = float("inf")
    for _ in range(repeat):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return best


def peer_seconds(python: str, library: str, case: Case) -> float:
    """Return the CPU time of a peer for one problem, the mean of the first few, after checking its result where it should be ours."""
    problems = case.problems[:SMALL_GROUPS_FOR_PEERS]
    request = {"library": library, "strategy": case.strategy, "groups": list(map(as_request, problems))}
    script = str(Path(__file__).with_name("peer_assignors.py"))
    result = subprocess.run([python, script], input=json.dumps(request), capture_output=True, text=True, check=False)
    if result.returncode:
        raise SystemExit(f"{library} failed on {case.name}: {result.stderr[-2000:]}")
    answer = json.loads(result.stdout)
    if case.strategy in SAME_AS_PEERS and answer["digests"] != [digest(assign(case.strategy, problem)) for problem in problems]:
        raise SystemExit(f"our result is not that of {library}: {case.name}")
    return answer["seconds"] / len(problems)


def as_request(problem: GroupProblem) -> dict[str, Any]:
    """Return a group as ``peer_assignors.py`` reads it."""
    subscriptions = {subscription: number for number, subscription in enumerate(dict.fromkeys(member.topics for member in problem.members))}
    return {
        "topics": {name: topic.partition_count for name, topic in problem.topics.items()},
        "subscriptions": list(subscriptions),
        "members": {member.member_id: (subscriptions[member.topics], member.owned) for member in problem.members},
    }


def kafka_seconds(kafka: KafkaClasses, case: Case) -> float:
    """Return the least wall time of Kafka for the first problem, after checking that its result is ours."""
    problem = case.problems[0]
    assignment, seconds = kafka.assign_timed(case.strategy, problem, KAFKA, repeats=11)
    if assignment != assign(case.strategy, problem):
        raise SystemExit(f"our result is not Kafka's: {case.name}")
    return seconds


def print_memory_case() -> None:
    """Print time and peak memory of two million partitions, beside building the same tuples; run in a process of its own."""
    problem = even_group(2000, 1000, 2000)
    seconds = cpu_seconds(lambda: assign("sticky", problem), 1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20

    def build() -> Assignment:
        return {member.member_id: tuple([(name, number) for name in problem.topics]) for number, member in enumerate(problem.members)}

    plain = cpu_seconds(build, 3)
    print(
        f"sticky, 2,000 members, 1,000 x 2,000 partitions, fresh: {seconds:.2f} s, peak {peak:.2f} GiB; "
        f"building such tuples alone {plain:.2f} s, ratio {seconds / plain:.1f}"
    )


def row(cells: Iterable[str]) -> str:
    first, *others = cells
    return f"{first:70s}" + "".join(f"{cell:>13s}" for cell in others)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", metavar="PYTHON", help="a Python that has the peers, instead of one that is made")
    parser.add_argument("--memory", action="store_true", help="only the case of two million partitions")
    options = parser.parse_args()
    if options.memory:
        print_memory_case()
        return
    peers_interpreter = options.peers or peers_python()
    try:
        verdicts = measure(peers_interpreter)
    except JarsNotThereError as error:
        raise SystemExit(f"nothing was measured: {error}") from None
    subprocess.run([sys.executable, __file__, "--memory"], check=True)
    if "missed" in verdicts:
        raise SystemExit(MISSED_TARGET)


def measure(peers_interpreter: str) -> list[str]:
    """Print a row for each case; return their verdicts."""
    verdicts = []
    with kafka_classes([KAFKA_HEAP]) as kafka:
        print(row(("ms for one group", "ours", *PEERS, "best / ours", "target", "Kafka", "Kafka / ours", "target", "verdict")))
        for case in cases():
            kafka_time = kafka_seconds(kafka, case) if case.has_kafka else None
            peers = [peer_seconds(peers_interpreter, library, case) if case.has_peers else None for library in PEERS]
            ours = cpu_seconds(lambda case=case: solve_all(case), case.repeat) / len(case.problems)
            peer_ratio = ratio(min((seconds for seconds in peers if seconds is not None), default=None), ours)
            kafka_ratio = ratio(kafka_time, ours)
            verdicts.append(verdict((peer_ratio, case.peer_target), (kafka_ratio, case.kafka_target)))
            cells = [milliseconds(ours), *map(milliseconds, peers), number(peer_ratio), number(case.peer_target)]
            cells += [milliseconds(kafka_time), number(kafka_ratio), number(case.kafka_target), verdicts[-1]]
            print(row((case.name, *cells)), flush=True)
    return verdicts


def solve_all(case: Case) -> None:
    """Solve the problems, keeping no result: the peers' results are not kept either, and the garbage collector would walk over them."""
    for problem in case.problems:
        assign(case.strategy, problem)


def verdict(*ratios_and_targets: tuple[float | None, float | None]) -> str:
    """Return ``met`` or ``missed``; ``no target`` where none is set."""
    targets = [(measured, target) for measured, target in ratios_and_targets if target is not None]
    if any(measured is None or measured < target for measured, target in targets):
        return "missed"
    return "met" if targets else "no target"


def milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1000:,.3f}"


def ratio(seconds: float | None, ours: float) -> float | None:
    return None if seconds is None else seconds / ours


def number(value: float | None) -> str:
    return "" if value is None else f"{value:,.1f}"


if __name__ == "__main__":
    main()
