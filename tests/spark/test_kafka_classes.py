"""Our assignors beside Kafka's own classes, in the JVM that Spark runs, on random groups.

The recorded vectors hold us to fixed inputs; this holds us to inputs nobody has seen. ``EVENKEEL_SEED`` says which: a fixed seed unless
set, a new one each time in ``.ci/run --all``. Kafka's jar comes through Spark's own resolver of
Maven coordinates. Without network the tests are skipped, except where ``CI`` is ``true``: there a missing jar is a failure.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from collections import Counter
from random import Random

import pytest
from pyspark.sql import SparkSession

from assignors import Assignment, GroupProblem, KafkaAssignorError, NoResultError, assign
from tests.kafka_classes import CLASS_NAMES, KafkaClasses
from tests.needs import skip_loudly
from tests.random_problems import random_problem, random_successor

KAFKA_CLIENTS = "org.apache.kafka:kafka-clients:4.3.1"
LONGEST_ANSWER_S = 60
DEFAULT_SEED = 41


@pytest.fixture(scope="session")
def kafka_clients_jars(spark: SparkSession) -> list[str]:
    """Paths of Kafka's client jar; slf4j, all it needs besides, is Spark's."""
    from py4j.protocol import Py4JJavaError

    jvm = spark.sparkContext._jvm
    try:
        found = jvm.org.apache.spark.util.DependencyUtils.resolveMavenDependencies(
            jvm.java.net.URI(f"ivy://{KAFKA_CLIENTS}?transitive=false")
        )
    except Py4JJavaError as error:
        skip_loudly(f"{KAFKA_CLIENTS} cannot be had, so nothing was compared with Kafka: {error.java_exception.getMessage()}")
    return found.mkString(",").split(",")


@pytest.fixture(scope="session")
def kafka(spark: SparkSession, kafka_clients_jars: list[str]) -> KafkaClasses:
    """Kafka's classes; what they log about hostile groups would bury everything else."""
    jvm = spark.sparkContext._jvm
    log4j = jvm.org.apache.logging.log4j
    log4j.core.config.Configurator.setLevel("org.apache.kafka", log4j.Level.OFF)
    return KafkaClasses(spark.sparkContext._gateway, kafka_clients_jars)


def kafkas_answer(kafka: KafkaClasses, strategy: str, problem: GroupProblem) -> Assignment | str:
    """Return Kafka's assignment or the class it throws."""
    # Should Kafka never answer where we did, the run ends with a traceback instead of waiting for ever.
    faulthandler.dump_traceback_later(LONGEST_ANSWER_S, exit=True, file=sys.__stderr__)
    try:
        return kafka.assign(strategy, problem)
    except KafkaAssignorError as error:
        return error.java_class
    finally:
        faulthandler.cancel_dump_traceback_later()


def our_answer(strategy: str, problem: GroupProblem) -> Assignment | str:
    try:
        return assign(strategy, problem)
    except KafkaAssignorError as error:
        return error.java_class


@pytest.mark.parametrize("count", [400, pytest.param(2000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("strategy", CLASS_NAMES)
def test_random_groups_get_kafkas_answer(strategy: str, count: int, kafka: KafkaClasses, capsys: pytest.CaptureFixture[str]) -> None:
    """Histories of random groups: each generation claims what the one before was given, or lies."""
    seed = int(os.environ.get("EVENKEEL_SEED", DEFAULT_SEED))
    with capsys.disabled():
        print(f"\n{strategy}: EVENKEEL_SEED={seed}", end=" ", flush=True)
    random = Random(seed)
    problem = random_problem(random)
    kinds: Counter[str] = Counter()
    while kinds.total() < count:
        try:
            ours = our_answer(strategy, problem)
        except NoResultError:
            # Kafka would not return either; the recorded vectors cover these.
            kinds["endless"] += 1
            problem = random_problem(random)
            continue
        theirs = kafkas_answer(kafka, strategy, problem)
        assert ours == theirs, f"seed {seed}, problem {kinds.total()}: {problem}"
        kinds["error" if isinstance(ours, str) else "assignment"] += 1
        starts_anew = isinstance(ours, str) or random.random() < 0.2
        problem = random_problem(random) if starts_anew else random_successor(random, problem, ours)
    with capsys.disabled():
        print(dict(kinds), end=" ")
    assert kinds["assignment"] > count * 0.9
