"""The generations of the recorded capture, each predicted from the one before it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest

from assignors.audit.triggers import Past, find_triggers
from assignors.replay.conformance import Conformance
from assignors.replay.replay import NEWEST_KAFKA
from assignors.scenario.backtest import LeftOut, Omission, Prediction, Reason, predict
from tests.builders.recorded_groups import RecordedStep, Recording, read_recording

CLIENTS = ("range", "roundrobin", "sticky", "cooperative-sticky")
SERVER_SIDE = ("uniform", "server-range")
LEADERS = {"java", "librdkafka", "kafka-python", "franz-go", "sarama"}

Results = list[tuple[str, Prediction | LeftOut]]
"""Group, and what came of one of its generations."""


def results(recording: Recording) -> Iterator[tuple[str, Prediction | LeftOut]]:
    """Yield what comes of each generation but the first of each incarnation."""
    for group_id, steps in recording.steps.items():
        past: Past | None = None
        earlier: RecordedStep | None = None
        _, past = find_triggers(None, steps[0].evidence())
        for before, after in pairwise(steps):
            is_new = before.step.snapshot.incarnation != after.step.snapshot.incarnation
            triggers, past = find_triggers(None if is_new else past, after.evidence())
            if is_new:
                earlier = None
                continue
            known = {
                "earlier": None if earlier is None else earlier.generation(),
                "leader_client": after.leader_client,
                "kafka_version": before.step.solutions[1].kafka_version or NEWEST_KAFKA,
            }
            yield group_id, predict(before.generation(), after.generation(), triggers, **known)
            earlier = before


@pytest.fixture(scope="module")
def recording() -> Recording:
    return read_recording()


@pytest.fixture(scope="module")
def recorded(recording: Recording) -> Results:
    return list(results(recording))


@pytest.fixture(scope="module")
def recomputed(recording: Recording) -> dict[tuple[str, int], Conformance | None]:
    """Group and generation -> how close what its assignor gives for the record is to what the leader gave."""
    steps = ((group_id, one.step) for group_id, of_group in recording.steps.items() for one in of_group)
    return {(group_id, step.snapshot.generation): step.solutions[1].conformance for group_id, step in steps}


def predictions(recorded: Results) -> list[tuple[str, Prediction]]:
    return [(group_id, result) for group_id, result in recorded if isinstance(result, Prediction)]


def test_generations_that_java_led_are_predicted_exactly(recorded: Results) -> None:
    of_java = [(group_id, one) for group_id, one in predictions(recorded) if one.leader_client == "java"]
    assert {one.strategy for _, one in of_java} == set(CLIENTS)
    differing = {(group_id, one.generation): one.explanations for group_id, one in of_java if one.conformance is not Conformance.EXACT}
    # The rack of a member that joins is not known before.
    (explanation,) = differing.pop(("mart-rack", 2))
    assert (explanation.reason, [name[:5] for name in explanation.names]) == (Reason.MEMBER_RACKS, ["birch"])
    assert (differing, len(of_java)) == ({}, 90)


def test_targets_of_brokers_are_predicted_exactly(recorded: Results) -> None:
    of_brokers = [one for _, one in predictions(recorded) if one.strategy in SERVER_SIDE]
    assert (len(of_brokers), {one.conformance for one in of_brokers}) == (24, {Conformance.EXACT})


def test_assignors_without_claims_are_predicted_whatever_the_client(recorded: Results) -> None:
    without_claims = [one for group_id, one in predictions(recorded) if one.strategy in ("range", "roundrobin") and group_id != "mart-rack"]
    assert {one.leader_client for one in without_claims} == LEADERS
    assert {one.conformance for one in without_claims} == {Conformance.EXACT}


def test_each_difference_is_explained_by_its_record(recorded: Results, recomputed: dict[tuple[str, int], Conformance | None]) -> None:
    """The replay computes each generation from its record alone. It says whether the leader gave out what Kafka's assignor does."""
    for group_id, one in predictions(recorded):
        reasons = {explanation.reason for explanation in one.explanations}
        assert bool(reasons) == (one.conformance is not Conformance.EXACT)
        assert Reason.UNEXPLAINED not in reasons
        if reasons:
            is_kafkas = recomputed[group_id, one.generation] is Conformance.EXACT
            assert (group_id, one.generation, is_kafkas) == (group_id, one.generation, Reason.OTHER_CLIENT not in reasons)


def test_generations_are_left_out_for_every_reason_but_an_unknown_past(recorded: Results) -> None:
    left_out = [(group_id, result.omission) for group_id, result in recorded if isinstance(result, LeftOut)]
    assert {omission for _, omission in left_out} == set(Omission) - {Omission.UNKNOWN_BEFORE}
    restarted = {group_id for group_id, omission in left_out if omission is Omission.MEMBER_RESTARTED}
    assert restarted == {"alerts-statcoop", "sync-static", "index-nextstatic"}
