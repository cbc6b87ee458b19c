"""What happened from one generation to the next, as far as it may recur."""

from __future__ import annotations

import pytest

from assignors.audit.passages import happening
from assignors.replay.recurrence import Happening
from assignors.replay.replay import Replay
from assignors.replay.topic_metadata import ClusterLooks, TopicRun
from tests.builders.histories import looks, member, play, snapshot


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        pytest.param(snapshot(2, {"a": "t0", "b": "t1"}), Happening(7, is_unexplained=True), id="the same members, and nothing shows why"),
        pytest.param(snapshot(2, {"a": "", "b": ""}, member("a", "tu"), member("b")), Happening(7), id="another subscription"),
        pytest.param(snapshot(4, {"a": "t0", "b": "t1"}), Happening(7), id="generations between them are not known"),
        pytest.param(snapshot(2, {"a": "t0 t1"}), Happening(7, [(("s",), 1)]), id="a static member left"),
        pytest.param(
            snapshot(2, {"a": "t0", "x": "t1"}, member("x", instance="s")),
            Happening(7, [(("s",), 1)], [("s",)]),
            id="another process at its seat",
        ),
        pytest.param(
            snapshot(2, {"a": "t0", "b": "t1", "c": ""}, member("b", instance="s"), member("c", instance="u")),
            Happening(7, [], [("u",)]),
            id="a static member came",
        ),
    ],
)  # fmt: skip
def test_happening_lists_members_that_left_and_came(now, expected: Happening) -> None:
    """The seat of a static member is its instance; of others nothing is known here, since the hosts are not given."""
    is_static = any(one.group_instance_id for one in now.members) or len(now.members) == 1
    before = snapshot(1, {"a": "t0", "b": "t1"}, member("b", instance="s" if is_static else None))
    first, second = play(Replay(()), looks(t=2), before, now)
    found = happening(first, second, 7)
    assert (found.at_ms, list(found.left), list(found.came), found.is_unexplained) == (
        expected.at_ms,
        list(expected.left),
        list(expected.came),
        expected.is_unexplained,
    )


@pytest.mark.parametrize(("strategy", "is_unexplained"), [("uniform", False), ("range", True)])
def test_racks_of_replicas_explain_an_epoch_of_the_consumer_protocol(strategy: str, is_unexplained: bool) -> None:
    """Its coordinator begins one for members without racks too. A leader of such members does not look at racks."""
    runs = [TopicRun(number, number, 1, "id", ((rack,),)) for number, rack in enumerate(("r1", "r2"))]
    history = [snapshot(number, {"a": "t0"}, strategy=strategy, joined_at_ms=100 * number) for number in (1, 2)]
    first, second = play(Replay(()), ClusterLooks([50, 150], {"t": runs}), *history)
    assert happening(first, second, 7).is_unexplained is is_unexplained
