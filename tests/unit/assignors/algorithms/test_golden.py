"""Every recorded answer of Kafka's own classes, asked of our assignors.

What the files hold and how Kafka was asked is described in ``tests/golden/README.md``.
"""

from __future__ import annotations

import json

import pytest

from assignors import KafkaAssignorError, NoResultError, assign
from assignors.java.ordering import string_hash
from tests.builders.golden_vectors import GOLDEN, STRATEGIES, problem_of, read_vectors

NEWEST = "4.3.1"


# Where Kafka's own result is a set, the list order of the file means nothing.
UNORDERED_FAMILIES = {"server_range", "server_uniform", "legacy"}

# family: (vectors in the file, of these answered with an assignment, an error, never)
FAMILIES = {
    "range": (1220, 1220, 0, 0),
    "range_rack": (1220, 1220, 0, 0),
    "roundrobin": (1220, 1220, 0, 0),
    "sticky_constrained": (1220, 1220, 0, 0),
    "sticky_constrained_rack": (1220, 1220, 0, 0),
    "sticky_general": (1220, 1220, 0, 0),
    "sticky_general_rack": (1220, 1220, 0, 0),
    "cooperative_sticky": (1220, 1220, 0, 0),
    "cooperative_sticky_rack": (1220, 1220, 0, 0),
    "static_members": (1200, 1200, 0, 0),
    "chains": (1313, 1313, 0, 0),
    "hostile": (2472, 2367, 105, 0),
    "no_result": (34, 0, 0, 34),
    "old_versions": (2137, 2120, 17, 0),
    "legacy": (1622, 1493, 129, 0),
    "server_range": (1220, 1192, 28, 0),
    "server_uniform": (1220, 1068, 152, 0),
}


def answer_to(vector: dict) -> dict:
    """Return our answer in the form of a vector's ``expected``."""
    family, name = vector["family"], vector["assignor"]
    strategy = STRATEGIES.get(family, {}).get(name, name)
    # The newest release is what a caller gets without naming one; old_versions names it nevertheless.
    version = None if vector["kafka_version"] == NEWEST and family != "old_versions" else vector["kafka_version"]
    try:
        assignment = assign(strategy, problem_of(vector), kafka_version=version)
    except KafkaAssignorError as error:
        return {"kind": "error", "error": error.java_class}
    except NoResultError as error:
        # A budget that ran out would not show that Kafka never returns.
        return {"kind": "no_result" if error.is_cycle else "over_budget"}
    return {"kind": "assignment", "assignment": {owner: list(map(list, partitions)) for owner, partitions in assignment.items()}}


def comparable(answer: dict, family: str) -> dict:
    if answer["kind"] == "no_result":
        return {"kind": "no_result"}
    if answer["kind"] == "assignment" and family in UNORDERED_FAMILIES:
        return {"kind": "assignment", "assignment": {owner: sorted(held) for owner, held in answer["assignment"].items()}}
    return answer


@pytest.mark.parametrize("family", FAMILIES)
def test_assignors_give_the_recorded_answers_of_kafka(family: str, capsys: pytest.CaptureFixture[str]) -> None:
    kinds = {"assignment": 0, "error": 0, "no_result": 0}
    mismatches = []
    for vector in read_vectors(family):
        kinds[vector["expected"]["kind"]] += 1
        ours = answer_to(vector)
        if comparable(ours, family) != comparable(vector["expected"], family):
            mismatches.append(f"{vector['id']} {vector['assignor']} {vector['kafka_version']}: {ours} instead of {vector['expected']}")
    with capsys.disabled():
        print(f"\n{family}: {sum(kinds.values())} vectors, {len(mismatches)} mismatches", end=" ")
    assert (sum(kinds.values()), *kinds.values()) == FAMILIES[family]
    assert mismatches[:3] == []


@pytest.mark.parametrize("family", [family for family in FAMILIES if family not in {"no_result", "legacy"}])
def test_members_come_in_the_order_of_kafkas_map(family: str) -> None:
    unlike = [
        vector
        for vector in read_vectors(family)
        if vector["expected"]["kind"] == "assignment" and list(answer_to(vector)["assignment"]) != list(vector["expected"]["assignment"])
    ]
    assert [vector["id"] for vector in unlike] == []


def test_string_hashes_are_javas() -> None:
    lines = (GOLDEN / "partitioning.jsonl").read_text(encoding="ascii").splitlines()
    vectors = list(map(json.loads, lines))
    assert len(vectors) == 1551
    assert [string_hash(vector["group_id"]) for vector in vectors] == [vector["hash_code"] for vector in vectors]
