"""Our assignors beside Kafka's own classes of every release at which answers change, on random groups.

The recorded vectors hold us to fixed inputs; this holds us to inputs nobody has seen. ``EVENKEEL_SEED`` says which: a fixed seed unless
set, a new one each time in ``.ci/run --all``. Without network the tests are skipped, except where ``CI`` is ``true``: there a missing jar
is a failure.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from random import Random

import pytest

from assignors import Assignment, GroupProblem, KafkaAssignorError, KafkaVersionError, NoResultError, assign
from tests.builders.random_problems import random_problem, random_successor, random_wide_problem, with_dirt, with_topic_ids
from tests.kafka_classes import BROKER_RELEASES, CLIENT_RELEASES, KafkaClasses, kafka_classes
from tests.maven_jars import JarsNotThereError
from tests.needs import skip_loudly

DEFAULT_SEED = 41
DEFAULT_COUNT = 100
"""Groups for each strategy and release; ``EVENKEEL_KAFKA_GROUPS`` asks for more, as the stage ``kafka-classes`` does."""
CLIENT_STRATEGIES = ("range", "roundrobin", "sticky", "cooperative-sticky")
BROKER_STRATEGIES = ("uniform", "server-range")
COOPERATIVE_SINCE = CLIENT_RELEASES.index("2.4.1")
CASES = [
    *((strategy, release) for strategy in CLIENT_STRATEGIES[:3] for release in CLIENT_RELEASES),
    *(("cooperative-sticky", release) for release in CLIENT_RELEASES[COOPERATIVE_SINCE:]),
    *((strategy, release) for strategy in BROKER_STRATEGIES for release in BROKER_RELEASES),
]


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaClasses]:
    if shutil.which("javac") is None:
        skip_loudly("there is no JDK, so nothing was compared with Kafka")
    try:
        with kafka_classes() as classes:
            yield classes
    except JarsNotThereError as error:
        skip_loudly(f"nothing was compared with Kafka: {error}")


def answer(solve: Callable[[], Assignment]) -> Assignment | str:
    """Return the assignment, or the class that Kafka throws."""
    try:
        return solve()
    except KafkaAssignorError as error:
        return error.java_class


def comparable(strategy: str, given: Assignment | str) -> object:
    """Return what has to be equal: the order of the members, and of the partitions too where a member's are a list in Kafka."""
    if isinstance(given, str):
        return given
    return [(member, sorted(partitions) if strategy in BROKER_STRATEGIES else partitions) for member, partitions in given.items()]


def shape(random: Random, strategy: str, release: str) -> dict[str, bool]:
    """Return which topics a group may have so that Kafka's answer is worth comparing."""
    is_sticky, age = "sticky" in strategy, CLIENT_RELEASES.index(release) if release in CLIENT_RELEASES else 0
    return {
        # Before 3.0 the sticky assignors keep partitions as keys of hash maps. Where nine of equal hashes meet, Java orders them by
        # identity, so that no two runs of Kafka need give the same.
        "has_colliding_topics": not is_sticky or age >= CLIENT_RELEASES.index("3.0.2"),
        # Before 2.3 sticky throws where a subscribed topic was deleted.
        "has_deleted_topics": not is_sticky or age >= CLIENT_RELEASES.index("2.3.1") or random.random() < 0.2,
    }


@pytest.mark.parametrize(("strategy", "release"), CASES)
def test_random_groups_get_kafkas_answer(strategy: str, release: str, kafka: KafkaClasses) -> None:
    """Histories of random groups: each generation claims what the one before was given, or lies."""
    seed = int(os.environ.get("EVENKEEL_SEED", DEFAULT_SEED))
    count = int(os.environ.get("EVENKEEL_KAFKA_GROUPS", DEFAULT_COUNT))
    random = Random(f"{seed} {strategy} {release}")
    kinds: Counter[str] = Counter()
    ids: dict[str, str] = {}
    problem: GroupProblem | None = None
    while kinds.total() < count:
        if problem is None:
            problem = random_wide_problem(random, **shape(random, strategy, release)) if random.random() < 0.5 else random_problem(random)
            ids = {}
        asked = with_dirt(random, problem) if random.random() < 0.3 else problem
        if strategy in BROKER_STRATEGIES:
            asked = with_topic_ids(random, asked, ids)
        try:
            ours = answer(partial(assign, strategy, asked, kafka_version=release))
        except NoResultError:
            # Kafka would not return either; the recorded vectors cover these.
            problem = None
            continue
        except KafkaVersionError:
            # Of the broker's assignors the one for different subscriptions is known from 4.0 on.
            assert (strategy, release) == ("uniform", "3.9.1")
            problem = None
            continue
        theirs = answer(partial(kafka.assign, strategy, asked, release))
        assert comparable(strategy, ours) == comparable(strategy, theirs), f"seed {seed}, problem {kinds.total()}: {asked}"
        kinds["error" if isinstance(ours, str) else "assignment"] += 1
        starts_anew = isinstance(ours, str) or random.random() < 0.2
        problem = None if starts_anew else random_successor(random, problem, ours)
    assert kinds["assignment"] > count * 0.6, kinds
