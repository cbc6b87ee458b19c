"""How fast the client-side assignors are, beside kafka-python, aiokafka and Kafka's own Java classes.

    python -m venv peers && peers/bin/pip install kafka-python==3.0.12 aiokafka
    python tests/benchmarks/assignors.py --peers peers/bin/python --jars kafka-clients-4.3.1.jar slf4j-api-1.7.36.jar

The jars are on Maven Central; ``java`` must be on the path, and py4j comes with PySpark. Without ``--peers`` or ``--jars`` those
columns stay empty. Every result is compared with Kafka's before anything is timed. Python is billed by CPU time, the best of a few
runs; Java by wall time of a warm JVM, the best of ten.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT))

from assignors import Assignment, GroupProblem, Member, Topic, assign  # noqa: E402
from assignors.sticky.user_data import write_sticky_user_data  # noqa: E402

PEERS = ("kafka-python", "aiokafka")
SEED = 20251


@dataclass(frozen=True)
class Case:
    """One thing to time.

    Attributes:
        name: what is solved.
        strategy: by which assignor.
        problems: the groups, solved one after the other; the peers and Kafka solve the first.
        has_peers: whether the peers have the strategy.
        has_kafka: whether the group can be sent to a JVM in a time worth waiting for.
        repeat: how many times we solve all problems.
    """

    name: str
    strategy: str
    problems: Sequence[GroupProblem]
    has_peers: bool = True
    has_kafka: bool = True
    repeat: int = 3


def even_group(members: int, topics: int, partitions: int, prefix: str = "consumer-") -> GroupProblem:
    """Return a fresh group with equal subscriptions."""
    names = tuple(f"topic-{number}" for number in range(topics))
    return GroupProblem(dict.fromkeys(names, Topic(partitions)), tuple(Member(f"{prefix}{number}", names) for number in range(members)))


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


def joined(problem: GroupProblem, strategy: str) -> GroupProblem:
    """Return the group one rebalance later, the last member being new."""
    before = replace(problem, members=problem.members[:-1])
    return claiming(problem, assign(strategy, before), strategy)


def cases() -> Iterator[Case]:
    small = [even_group(10, 5, 12, f"app-{number}-") for number in range(20_000)]
    yield Case("20,000 x sticky, 10 members, 5 x 12 partitions, fresh", "sticky", small, repeat=1)
    yield Case("20,000 x sticky, the same, one joins", "sticky", [joined(problem, "sticky") for problem in small], repeat=1)
    del small
    large = even_group(1000, 100, 100)
    yield Case("sticky, 1,000 members, 100 x 100 partitions, fresh", "sticky", [large], repeat=10)
    yield Case("sticky, 1,001 members, the same, one joins", "sticky", [joined(even_group(1001, 100, 100), "sticky")], repeat=10)
    yield Case("sticky, 200 members, 40 x 50 partitions, uneven, fresh", "sticky", [uneven_group(200, 40, 50)], repeat=5)
    yield Case("range, 1,000 members, 100 x 10,000 partitions", "range", [even_group(1000, 100, 10_000)])
    yield Case("roundrobin, 1,000 members, 100 x 10,000 partitions", "roundrobin", [even_group(1000, 100, 10_000)])
    many = even_group(1000, 10_000, 100)
    yield Case("range, 1,000 members, 10,000 x 100 partitions", "range", [many], has_kafka=False)
    yield Case("roundrobin, 1,000 members, 10,000 x 100 partitions", "roundrobin", [many], has_kafka=False)
    del many
    huge = joined(even_group(2001, 500, 2000), "cooperative-sticky")
    yield Case("cooperative-sticky, 2,001 members, 500 x 2,000 partitions, one joins", "cooperative-sticky", [huge], has_peers=False)


def cpu_seconds(call: Callable[[], Any], repeat: int) -> float:
    """Return the least CPU time of one call."""
    best = float("inf")
    for _ in range(repeat):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return best


def peer_seconds(python: str, library: str, case: Case) -> float:
    """Return the least CPU time of a peer for the first problem."""
    problem = case.problems[0]
    subscriptions = {subscription: number for number, subscription in enumerate(dict.fromkeys(member.topics for member in problem.members))}
    request = {
        "library": library,
        "strategy": case.strategy,
        "topics": {name: topic.partition_count for name, topic in problem.topics.items()},
        "subscriptions": list(subscriptions),
        "members": {member.member_id: (subscriptions[member.topics], member.owned) for member in problem.members},
        "repeat": 20 if len(case.problems) > 1 else 1,
    }
    script = str(Path(__file__).with_name("peer_assignors.py"))
    result = subprocess.run([python, script], input=json.dumps(request), capture_output=True, text=True, check=False)
    if result.returncode:
        raise SystemExit(f"{library} failed on {case.name}: {result.stderr[-2000:]}")
    return float(result.stdout)


@contextmanager
def kafka_classes(jars: Sequence[str]) -> Iterator[Any]:
    """Yield Kafka's classes in a JVM of their own."""
    import pyspark
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

    from tests.kafka_classes import KafkaClasses

    (py4j_jar,) = (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar")
    port = launch_gateway(jarpath=str(py4j_jar), classpath=":".join(jars), javaopts=["-Xmx3g"], die_on_exit=True)
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    try:
        yield KafkaClasses(gateway, jars)
    finally:
        gateway.shutdown()


def kafka_seconds(kafka: Any, case: Case) -> float:
    """Return the least wall time of Kafka for the first problem, after checking that its result is ours."""
    problem = case.problems[0]
    cluster = kafka.cluster(problem)
    if kafka.assign_prepared(case.strategy, cluster, kafka.group_subscription(problem)) != assign(case.strategy, problem):
        raise SystemExit(f"our result is not Kafka's: {case.name}")
    best = float("inf")
    for _ in range(10):
        # Reading a subscription's user data uses it up.
        group, assignor = kafka.group_subscription(problem), kafka.new_assignor(case.strategy)
        start = time.perf_counter()
        assignor.assign(cluster, group)
        best = min(best, time.perf_counter() - start)
    return best


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
    return f"{first:70s}" + "".join(f"{cell:>15s}" for cell in others)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", help="a Python with kafka-python and aiokafka")
    parser.add_argument("--jars", nargs="+", default=[], help="kafka-clients and slf4j-api")
    parser.add_argument("--memory", action="store_true", help="only the case of two million partitions")
    options = parser.parse_args()
    if options.memory:
        print_memory_case()
        return
    with kafka_classes(options.jars) if options.jars else nothing() as kafka:
        print(row(("ms for one group", "ours", *PEERS, "best / ours", "Kafka", "Kafka / ours")))
        for case in cases():
            kafka_time = kafka_seconds(kafka, case) if kafka and case.has_kafka else None
            peers = [peer_seconds(options.peers, library, case) if options.peers and case.has_peers else None for library in PEERS]
            ours = cpu_seconds(lambda case=case: [assign(case.strategy, problem) for problem in case.problems], case.repeat)
            ours /= len(case.problems)
            best = min((seconds for seconds in peers if seconds is not None), default=None)
            cells = [milliseconds(ours), *map(milliseconds, peers), ratio(best, ours), milliseconds(kafka_time), ratio(kafka_time, ours)]
            print(row((case.name, *cells)), flush=True)
    subprocess.run([sys.executable, __file__, "--memory"], check=True)


@contextmanager
def nothing() -> Iterator[None]:
    yield None


def milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1000:,.3f}"


def ratio(seconds: float | None, ours: float) -> str:
    return "" if seconds is None else f"{seconds / ours:,.1f}"


if __name__ == "__main__":
    main()
