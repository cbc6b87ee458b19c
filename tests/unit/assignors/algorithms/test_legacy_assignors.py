"""What the recorded vectors of the ZooKeeper consumer do not show: which releases there are, and members without streams."""

from __future__ import annotations

import pytest

from assignors import GroupProblem, KafkaVersionError, Member, Topic, assign

TWO_BY_ONE = GroupProblem({"t": Topic(6)}, (Member("a", ("t",), streams={"t": 1}), Member("b", ("t",), streams={"t": 1})))


@pytest.mark.parametrize(
    ("release", "owned"),
    [
        # "[uv,0]" is one character longer than "[t,0]", and its hash overflows to a negative number: it comes first.
        ("0.11.0.3", {"a-0": (("t", 1), ("uv", 0)), "b-0": (("t", 0),)}),
        # "t-0" 112919, "t-1" 112920, "uv-0" 3600388.
        ("1.0.0", {"a-0": (("t", 0), ("uv", 0)), "b-0": (("t", 1),)}),
        (None, {"a-0": (("t", 0), ("uv", 0)), "b-0": (("t", 1),)}),
    ],
)
def test_partitions_hash_by_another_text_since_1_0(release: str | None, owned: dict) -> None:
    members = tuple(Member(member_id, streams={"t": 1, "uv": 1}) for member_id in ("a", "b"))
    assert assign("legacy-roundrobin", GroupProblem({"t": Topic(2), "uv": Topic(1)}, members), kafka_version=release) == owned


@pytest.mark.parametrize(
    ("strategy", "release"),
    [("legacy-range", "2.0.0"), ("legacy-roundrobin", "2.0.0"), ("legacy-roundrobin", "0.8.1.1"), ("legacy-range", "4.3.1")],
)
def test_releases_without_the_assignor_are_refused(strategy: str, release: str) -> None:
    with pytest.raises(KafkaVersionError, match=f"release {release} has no such assignor"):
        assign(strategy, TWO_BY_ONE, kafka_version=release)
    assert assign("legacy-range", TWO_BY_ONE, kafka_version="0.8.1.1") == assign("legacy-range", TWO_BY_ONE)


def test_member_without_streams_has_no_threads() -> None:
    problem = GroupProblem({"t": Topic(2), "gone": Topic(None)}, (Member("a", ("t",)), Member("b", streams={"t": 1, "gone": 1, "new": 1})))
    for strategy in ("legacy-range", "legacy-roundrobin"):
        assert assign(strategy, problem) == {"b-0": (("t", 0), ("t", 1))}
        assert assign(strategy, GroupProblem({"t": Topic(2)})) == {}
