"""What the recorded vectors of the broker's assignors do not show: older releases, refusals, and that a target stays."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignors import GroupProblem, KafkaAssignorError, KafkaVersionError, Member, Topic, assign, violations

IDS = ("AAAAAAAAAAEAAAAAAAAAAg", "4GeQdCG4KapIgM28ULGOlQ", "rT-OyA7w_kAXqWWpNkovuQ")
T0 = Topic(3, topic_id=IDS[0])


@pytest.mark.parametrize(
    ("release", "kept"),
    [
        # Map order is a, b. Until 4.0 the first member has the extra partition, and b loses two of its three.
        ("3.9.1", {"a": (("t0", 1), ("t0", 2)), "b": (("t0", 0),)}),
        ("4.0.0", {"a": (("t0", 1), ("t0", 2)), "b": (("t0", 0),)}),
        ("4.1.0", {"a": (("t0", 2),), "b": (("t0", 0), ("t0", 1))}),
        (None, {"a": (("t0", 2),), "b": (("t0", 0), ("t0", 1))}),
    ],
)
def test_who_has_one_more_keeps_it_since_4_1(release: str | None, kept: dict) -> None:
    members = (Member("a", ("t0",)), Member("b", ("t0",), owned=(("t0", 0), ("t0", 1), ("t0", 2))))
    assert assign("uniform", GroupProblem({"t0": T0}, members), kafka_version=release) == kept


def test_releases_whose_assignors_are_not_known_are_refused() -> None:
    equal = GroupProblem({"t0": T0}, (Member("a", ("t0",)),))
    different = GroupProblem({"t0": T0}, (Member("a", ("t0",)), Member("b")))
    with pytest.raises(KafkaVersionError, match=r"3\.8\.0 of the broker is older than 3\.9"):
        assign("uniform", equal, kafka_version="3.8.0")
    with pytest.raises(KafkaVersionError, match=r"3\.9\.1 of the broker is older than 4\.0"):
        assign("uniform", different, kafka_version="3.9.1")
    assert assign("uniform", different, kafka_version="4.0.0") == {"a": (("t0", 0), ("t0", 1), ("t0", 2)), "b": ()}
    with pytest.raises(KafkaVersionError, match=r"3\.8\.0 of the broker is older than 3\.9"):
        assign("server-range", equal, kafka_version="3.8.0")
    assert assign("server-range", different, kafka_version="3.9.1") == {"a": (("t0", 0), ("t0", 1), ("t0", 2)), "b": ()}


@pytest.mark.parametrize("strategy", ["uniform", "server-range"])
def test_names_without_an_id_are_skipped_and_ids_without_metadata_are_an_error(strategy: str) -> None:
    members = (Member("a", ("t0", "unnamed", "nowhere")),)
    topics = {"t0": T0, "unnamed": Topic(5)}
    assert assign(strategy, GroupProblem(topics, members)) == {"a": (("t0", 0), ("t0", 1), ("t0", 2))}
    with pytest.raises(KafkaAssignorError, match="PartitionAssignorException: members subscribe to topic nowhere, whose id 4GeQ"):
        assign(strategy, GroupProblem({**topics, "nowhere": Topic(None, topic_id=IDS[1])}, members))


@given(st.data())
def test_target_of_equal_subscriptions_is_sound_and_stays(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(["t0", "t1", "t2"]), min_size=1, unique=True))
    topics = {name: Topic(data.draw(st.integers(0, 20)), topic_id=IDS[int(name[1])]) for name in names}
    ids = data.draw(st.lists(st.sampled_from([f"member-{number}" for number in range(20)]), min_size=1, max_size=6, unique=True))
    fresh = GroupProblem(topics, tuple(Member(member_id, tuple(names)) for member_id in ids))
    target = assign("uniform", fresh)
    assert violations(fresh, target, "uniform") == ()
    again = GroupProblem(topics, tuple(replace(member, owned=target[member.member_id]) for member in fresh.members))
    assert assign("uniform", again) == target
