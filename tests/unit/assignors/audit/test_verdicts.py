"""What an imbalance is owed to, by hand: loads of two or three members, and the strategies that would share them out otherwise."""

from __future__ import annotations

import pytest

from assignors import GroupProblem, Member, Topic
from assignors.audit.verdicts import Alternative, Cause, Verdict, judge
from assignors.generation.balance import Balance, measure_balance


def loads(*counts: int) -> Balance:
    """Return the balance of an assignment with these loads."""
    names = "abcdef"[: len(counts)]
    problem = GroupProblem({name: Topic(count) for name, count in zip(names, counts, strict=True)}, tuple(Member(n, (n,)) for n in names))
    held = {name: tuple((name, number) for number in range(count)) for name, count in zip(names, counts, strict=True)}
    return measure_balance(problem, held)


def strategy(name: str, *counts: int, violations: tuple[str, ...] | None = ()) -> Alternative:
    return Alternative(name, loads(*counts) if counts else None, violations)


@pytest.mark.parametrize(
    ("observed", "conformance", "alternatives", "expected"),
    [
        pytest.param((2, 2), "exact", [strategy("range", 2, 2), strategy("sticky", 2, 2)], (Cause.INHERENT, None), id="even"),
        pytest.param((4, 0), "exact", [strategy("range", 4, 0), strategy("sticky", 4, 0)], (Cause.INHERENT, None), id="nobody better"),
        pytest.param((4, 0), "exact", [strategy("range", 4, 0), strategy("sticky", 2, 2)], (Cause.BETTER_ELSEWHERE, "sticky"), id="better"),
        pytest.param((4, 0), "differs", [strategy("range", 2, 2)], (Cause.UNEXPECTED, None), id="not its assignor's"),
        pytest.param(
            (3, 1), "differs", [strategy("range", 4, 0), strategy("sticky", 2, 2)], (Cause.UNEXPECTED, "sticky"), id="nor is that best"
        ),
        pytest.param(
            (4, 0),
            "equal_balance",
            [strategy("range", 2, 2), strategy("sticky", 2, 2)],
            (Cause.INHERENT, None),
            id="its own history is as good as any",
        ),
        pytest.param((4, 0), None, [strategy("sticky", 2, 2)], (Cause.BETTER_ELSEWHERE, "sticky"), id="observed stands for its own"),
        pytest.param(
            (4, 0),
            "exact",
            [strategy("range", violations=None), strategy("sticky", 3, 1)],
            (Cause.BETTER_ELSEWHERE, "sticky"),
            id="observed stands for its own that gave nothing",
        ),
        pytest.param(
            (4, 0),
            "exact",
            [strategy("own", 1, 1, violations=("unassigned t-1",)), strategy("sticky", 4, 0)],
            (Cause.INHERENT, None),
            id="not all given out",
        ),
        pytest.param(
            (4, 0), "exact", [strategy("own", 2, 2, violations=("unbalanced t",))], (Cause.BETTER_ELSEWHERE, "own"), id="whole enough"
        ),
        pytest.param(
            (6, 0, 0),
            "exact",
            [strategy("a", 4, 2, 0), strategy("c", 4, 1, 1), strategy("b", 4, 1, 1)],
            (Cause.BETTER_ELSEWHERE, "c"),
            id="equal largest loads: the smallest gini, then the first",
        ),
    ],
)
def test_verdict_names_cause_and_better_strategy(
    observed: tuple[int, ...], conformance: str | None, alternatives: list[Alternative], expected: tuple[Cause, str | None]
) -> None:
    verdict = judge(loads(*observed), "range", conformance, alternatives, is_consumer_protocol=False, least_spread=0)
    assert verdict is not None
    assert (verdict.cause, verdict.better_strategy) == expected
    assert (verdict.better_gain is None) == (verdict.better_strategy is None)


EVERYBODY = [strategy(name, 2, 2) for name in ("sticky", "uniform")]


@pytest.mark.parametrize(
    ("own", "is_consumer_protocol", "alternatives", "better"),
    [
        pytest.param("range", False, EVERYBODY, "sticky", id="clients choose among clients' assignors"),
        pytest.param("range", False, EVERYBODY[1:], None, id="clients cannot run brokers'"),
        pytest.param("server-range", True, EVERYBODY, "uniform", id="brokers choose among brokers' assignors"),
        pytest.param("server-range", True, EVERYBODY[:1], None, id="brokers cannot run clients'"),
        pytest.param("BrokersOwn", True, EVERYBODY, "uniform", id="an assignor that is not Kafka's"),
        pytest.param("BrokersOwn", True, EVERYBODY[:1], None, id="the protocol counts, not the name"),
        pytest.param("server-range", True, [strategy("own:f", 2, 2)], "own:f", id="one of one's own may be for either"),
    ],
)
def test_better_strategy_is_one_that_the_group_can_use(
    own: str, is_consumer_protocol: bool, alternatives: list[Alternative], better: str | None
) -> None:
    compared = [*alternatives, strategy(own, 3, 1)]
    verdict = judge(loads(3, 1), own, "exact", compared, is_consumer_protocol=is_consumer_protocol, least_spread=0)
    assert verdict == (Verdict(Cause.BETTER_ELSEWHERE, better, 0.5) if better else None)
    unlike = judge(loads(3, 1), own, "differs", compared, is_consumer_protocol=is_consumer_protocol, least_spread=0)
    assert unlike is not None and (unlike.cause, unlike.better_strategy) == (Cause.UNEXPECTED, better)


@pytest.mark.parametrize(
    ("counts", "least_spread", "expected"),
    [
        pytest.param((3, 1), 2, Verdict(Cause.INHERENT), id="as even as subscriptions allow"),
        pytest.param((3, 1), 1, None, id="others may be more even"),
        pytest.param((3, 1), None, None, id="how even it could be is not known"),
        pytest.param((2, 2), 0, Verdict(Cause.INHERENT), id="even"),
    ],
)
def test_without_another_strategy_the_least_spread_decides_the_verdict(
    counts: tuple[int, int], least_spread: int | None, expected: Verdict | None
) -> None:
    own = [strategy("uniform", *counts)]
    assert judge(loads(*counts), "uniform", "exact", own, is_consumer_protocol=True, least_spread=least_spread) == expected


def test_kafka_streams_is_not_judged() -> None:
    """It deals out tasks, which none of the strategies does; not even an even one has a verdict."""
    for counts in ((4, 0), (2, 2)):
        compared = [strategy("sticky", 2, 2), strategy("own:f", 2, 2)]
        assert judge(loads(*counts), "stream", "not_comparable", compared, is_consumer_protocol=False, least_spread=0) is None


def test_gain_is_the_difference_of_the_imbalance_ratios() -> None:
    alternatives = [strategy("range", 5, 1), strategy("sticky", 3, 3)]
    verdict = judge(loads(6, 0), "range", "exact", alternatives, is_consumer_protocol=False, least_spread=0)
    assert verdict == Verdict(Cause.BETTER_ELSEWHERE, "sticky", pytest.approx(5 / 3 - 1))


@pytest.mark.parametrize("observed", [loads(), loads(0, 0)], ids=["no members", "no partitions"])
def test_verdict_is_null_without_members_or_partitions(observed: Balance) -> None:
    assert judge(observed, "range", "exact", [strategy("sticky", 1)], is_consumer_protocol=False, least_spread=0) is None
