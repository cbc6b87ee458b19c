"""Why generations came about: each trigger where it holds, and where something like it happened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignors import Topic
from assignors.audit.triggers import RETURN_MS, Evidence, Participant, Trigger
from tests.builders.evidence import TOPICS, evidence, participant, play

ELSEWHERE = ("app", "/10.0.0.2")
UNKNOWN = None
AT_ONCE, LATE = 1.0, RETURN_MS / 60_000 + 0.001
WINDOW = RETURN_MS / 60_000


def topics(**known: Topic) -> dict[str, dict[str, Topic]]:
    return {"topics": {**TOPICS, **known}}


def racked(*racks: str) -> Topic:
    """Return ``t`` with one replica a partition."""
    return Topic(len(racks), tuple((rack,) for rack in racks), "id of t")


def last(*generations: Evidence) -> list[str] | None:
    triggers = play(generations)[-1]
    return None if triggers is None else [trigger.value for trigger in triggers]


NONE = ["none_visible"]
MORE = {"topics": {"t": Topic(3, None, "id of t")}}
KIP_848 = {"is_consumer_protocol": True, "strategy": "uniform"}
BOTH = ("a", "b")
S = participant("s-1", instance="s")
IN_R1 = participant("a", rack="r1")
TWICE = Topic(1, (("r1", "r1"),), "id of t")
ORDERS = {1: ("r1", "r2"), 2: ("r2", None, "r1")}
CASES = [
    # the group
    ("an empty first generation", [evidence(0)], ["group_created"]),
    ("a first generation with members", [evidence(1, "a")], ["group_created", "member_joined"]),
    ("a first target of a broker", [evidence(2, "a", is_consumer_protocol=True)], ["group_created", "member_joined"]),
    ("a compacted log begins later", [evidence(2, "a")], None),
    ("it begins with the group empty", [evidence(7)], None),
    ("a target of later", [evidence(3, "a", is_consumer_protocol=True)], None),
    ("a look is no beginning", [evidence(1, is_poll=True)], None),
    ("a conversion is none", [evidence(2, "a", is_consumer_protocol=True, is_conversion=True)], None),
    ("everybody left", [evidence(1, *BOTH), evidence(2)], ["group_emptied", "member_left"]),
    ("somebody is left", [evidence(1, *BOTH), evidence(2, "a")], ["member_left"]),
    ("it was empty before", [evidence(0), evidence(1)], NONE),
    # dynamic members
    ("one joined", [evidence(1, "a"), evidence(2, "a", "b")], ["member_joined"]),
    ("nobody joined", [evidence(1, *BOTH), evidence(2, *BOTH)], NONE),
    ("one left, one joined at the same place", [evidence(1, "a", "b"), evidence(2, "a", "c")], ["member_replaced"]),
    (
        "one left, one joined elsewhere",
        [evidence(1, "a", "b"), evidence(2, "a", participant("c", origin=ELSEWHERE))],
        ["member_joined", "member_left"],
    ),
    (
        "nobody knows where",
        [evidence(1, "a", participant("b", origin=UNKNOWN)), evidence(2, "a", participant("c", origin=UNKNOWN))],
        ["member_joined", "member_left"],
    ),
    ("two left, two joined", [evidence(1, "a", "b"), evidence(2, "c", "d")], ["member_replaced"]),
    ("two left, one joined", [evidence(1, "a", "b"), evidence(2, "c")], ["member_joined", "member_left"]),
    ("one left, two joined", [evidence(1, "a", "b"), evidence(2, "a", "c", "d")], ["member_joined", "member_left"]),
    (
        "one replaced here, one lost there",
        [evidence(1, "a", participant("b", origin=ELSEWHERE)), evidence(2, "c")],
        ["member_left", "member_replaced"],
    ),
    ("back at once", [evidence(1, *BOTH), evidence(2, "a"), evidence(3, "a", "c", minute=AT_ONCE)], ["member_returned"]),
    ("back just in time", [evidence(1, *BOTH), evidence(2, "a"), evidence(3, "a", "c", minute=WINDOW)], ["member_returned"]),
    ("back too late", [evidence(1, *BOTH), evidence(2, "a"), evidence(3, "a", "c", minute=LATE)], ["member_joined"]),
    (
        "back with generations in between",
        [evidence(1, *BOTH), evidence(2, "a"), evidence(3, "a"), evidence(4), evidence(5, "c", "d")],
        ["member_returned"],
    ),
    ("one more than had left", [evidence(1, *BOTH), evidence(2, "a"), evidence(3, "a", "c", "d")], ["member_joined", "member_returned"]),
    ("it is back already", [evidence(1, *BOTH), evidence(2, "a"), evidence(3, "a", "c"), evidence(4, "a", "c", "d")], ["member_joined"]),
    (
        "whoever left last is back first",
        [
            evidence(1, "a", "b", "c"),
            evidence(2, "a", "b"),
            evidence(3, "a", minute=5),
            evidence(3, "a", minute=5),
            evidence(4, "a", "d", minute=6),
            evidence(5, "a", "d", "e", minute=12),
        ],
        ["member_joined"],
    ),
    ("it was replaced", [evidence(1, *BOTH), evidence(2, "a", "c"), evidence(3, "a", "c", "d")], ["member_joined"]),
    (
        "another place",
        [evidence(1, *BOTH), evidence(2, "a"), evidence(3, "a", participant("c", origin=ELSEWHERE))],
        ["member_joined"],
    ),
    (
        "no place known",
        [evidence(1, "a", participant("b", origin=UNKNOWN)), evidence(2, "a"), evidence(3, "a", participant("c", origin=UNKNOWN))],
        ["member_joined"],
    ),
    # static members
    ("bounced", [evidence(1, "a", S), evidence(1, "a", replace(S, member_id="s-2"), is_rewrite=True)], ["static_member_returned"]),
    (
        "bounced, and given other partitions",
        [evidence(1, "a", S), evidence(1, "a", replace(S, member_id="s-2"))],
        ["static_member_returned", "generation_rewritten"],
    ),
    ("bounced, and a rebalance", [evidence(1, "a", S), evidence(2, "a", replace(S, member_id="s-2"))], ["static_member_returned"]),
    ("stayed", [evidence(1, "a", S), evidence(2, "a", S)], NONE),
    ("expired and back", [evidence(1, "a", S), evidence(2, "a"), evidence(3, "a", S, minute=WINDOW)], ["static_member_returned"]),
    (
        "back elsewhere",
        [evidence(1, "a", S), evidence(2, "a"), evidence(3, "a", replace(S, member_id="s-2", origin=ELSEWHERE))],
        ["static_member_returned"],
    ),
    ("expired, back too late", [evidence(1, "a", S), evidence(2, "a"), evidence(3, "a", S, minute=LATE)], ["member_joined"]),
    (
        "another instance at its place",
        [evidence(1, "a", S), evidence(2, "a"), evidence(3, "a", participant("u-1", instance="u"))],
        ["member_returned"],
    ),
    (
        "another instance, and no place known",
        [
            evidence(1, "a", participant("b", origin=UNKNOWN)),
            evidence(2, "a"),
            evidence(3, "a", participant("u-1", instance="u", origin=UNKNOWN)),
        ],
        ["member_joined"],
    ),
    (
        "back, which another one there is not",
        [evidence(1, "a", S), evidence(2, "a"), evidence(3, "a", S), evidence(4, "a", S, "b")],
        ["member_joined"],
    ),
    # subscriptions
    ("changed", [evidence(1, "a"), evidence(2, participant("a", "tu"))], ["subscription_changed"]),
    ("in another order", [evidence(1, participant("a", "tu")), evidence(2, participant("a", "ut"))], NONE),
    ("of a new member", [evidence(1, "a"), evidence(2, "a", participant("b", "tu"))], ["member_joined"]),
    (
        "of a bounced one",
        [evidence(1, S), evidence(2, participant("s-2", "tu", instance="s"))],
        ["static_member_returned", "subscription_changed"],
    ),
    ("guessed from what it holds", [evidence(1, "a"), evidence(2, participant("a", "tu"), has_subscriptions=False)], NONE),
    # topics
    ("created", [evidence(1, "a", **topics(t=Topic(0))), evidence(2, "a")], ["topic_created"]),
    (
        "there, and subscribed only now",
        [evidence(1, "a", **topics(u=Topic(0))), evidence(2, participant("a", "tu"), **topics(u=Topic(1)))],
        ["subscription_changed"],
    ),
    ("deleted", [evidence(1, "a"), evidence(2, "a", **topics(t=Topic(0)))], ["topic_deleted"]),
    (
        "deleted, and a pattern lets it go",
        [evidence(1, "a"), evidence(2, participant("a", ""), **topics(t=Topic(0)))],
        ["subscription_changed", "topic_deleted"],
    ),
    ("given up", [evidence(1, "a"), evidence(2, participant("a", ""))], ["subscription_changed"]),
    ("was not there before either", [evidence(1, "a", **topics(t=Topic(0))), evidence(2, "a", **topics(t=Topic(0)))], NONE),
    ("under another id", [evidence(1, "a"), evidence(2, "a", **topics(t=Topic(9, None, "new")))], ["topic_created", "topic_deleted"]),
    ("an id known only now", [evidence(1, "a", **topics(t=Topic(2))), evidence(2, "a")], NONE),
    ("more partitions", [evidence(1, "a"), evidence(2, "a", **MORE)], ["partitions_added"]),
    ("fewer: a look that does not fit", [evidence(1, "a"), evidence(2, "a", **topics(t=Topic(1, None, "id of t")))], NONE),
    ("of a topic nobody reads", [evidence(1, "a", **topics(u=Topic(1))), evidence(2, "a", **topics(u=Topic(2)))], NONE),
    ("of a topic that was a guess", [evidence(1, "a", topics={}), evidence(2, "a")], NONE),
    ("of a topic that is a guess", [evidence(1, "a"), evidence(2, "a", topics={})], NONE),
    ("of a topic that is given up", [evidence(1, "a"), evidence(2, participant("a", ""), **MORE)], ["subscription_changed"]),
    # strategy
    ("another one", [evidence(1, "a"), evidence(2, "a", strategy="sticky")], ["strategy_changed"]),
    ("the same after an empty generation", [evidence(1, "a"), evidence(2), evidence(3, "b", minute=LATE)], ["member_joined"]),
    (
        "another one after an empty generation",
        [evidence(1, "a"), evidence(2), evidence(3, "b", minute=LATE, strategy="sticky")],
        ["member_joined", "strategy_changed"],
    ),
    # racks
    ("of a member", [evidence(1, IN_R1), evidence(2, replace(IN_R1, rack="r2"))], ["rack_changed"]),
    ("of a new member", [evidence(1, IN_R1), evidence(2, IN_R1, participant("b", rack="r2"))], ["member_joined"]),
    (
        "of a replica",
        [evidence(1, IN_R1, topics={"t": racked("r1", "r2")}), evidence(2, IN_R1, topics={"t": racked("r1", "r1")})],
        ["rack_changed"],
    ),
    (
        "of a replica that no member minds",
        [evidence(1, "a", topics={"t": racked("r1")}), evidence(2, "a", topics={"t": racked("r2")})],
        NONE,
    ),
    (
        "of a replica in a group of the consumer protocol, whose coordinator minds for all members",
        [evidence(1, "a", topics={"t": racked("r1")}, **KIP_848), evidence(2, "a", topics={"t": racked("r2")}, **KIP_848)],
        ["rack_changed"],
    ),
    (
        "of one more replica in a rack there",
        [evidence(1, "a", topics={"t": racked("r1")}, **KIP_848), evidence(2, "a", topics={"t": TWICE}, **KIP_848)],
        ["rack_changed"],
    ),
    (
        "of one more replica in a rack",
        [evidence(1, IN_R1, topics={"t": racked("r1")}), evidence(2, IN_R1, topics={"t": TWICE})],
        NONE,
    ),
    (
        "only of replicas without a rack, and their order",
        [evidence(number, "a", topics={"t": replace(TWICE, partition_racks=(racks,))}, **KIP_848) for number, racks in ORDERS.items()],
        NONE,
    ),
    (
        "only of a new partition",
        [evidence(1, IN_R1, topics={"t": racked("r1")}), evidence(2, IN_R1, topics={"t": racked("r1", "r3")})],
        ["partitions_added"],
    ),
    (
        "of another topic of that name",
        [evidence(1, IN_R1, topics={"t": racked("r1")}), evidence(2, IN_R1, topics={"t": replace(racked("r2"), topic_id="new")})],
        ["topic_created", "topic_deleted"],
    ),
    ("of a replica not known before", [evidence(1, IN_R1), evidence(2, IN_R1, topics={"t": racked("r1", "r2")})], NONE),
    # protocols
    ("a follow-up", [evidence(1, "a"), evidence(2, "a", is_follow_up=True)], ["cooperative_follow_up"]),
    (
        "turned over, the number kept",
        [evidence(2, "a"), evidence(2, "a", is_conversion=True, **KIP_848)],
        ["upgraded_to_consumer"],
    ),
    (
        "turned back, one left",
        [evidence(2, *BOTH, **KIP_848), evidence(2, "a", is_conversion=True)],
        ["member_left", "downgraded_to_classic"],
    ),
    (
        "turned over while empty: no strategy to compare with",
        [evidence(1, "a"), evidence(2), evidence(3, is_consumer_protocol=True), evidence(4, "b", minute=LATE, **KIP_848)],
        ["member_joined"],
    ),
    ("written once more", [evidence(1, "a"), evidence(1, "a")], ["generation_rewritten"]),
    (
        "written once more, changed",
        [evidence(1, "a"), evidence(1, participant("a", "tu"))],
        ["subscription_changed", "generation_rewritten"],
    ),
    (
        "several causes at once",
        [evidence(1, "a", S, "b"), evidence(2, participant("a", "tu"), replace(S, member_id="s-2"), **MORE)],
        ["member_left", "static_member_returned", "subscription_changed", "partitions_added"],
    ),
]


@pytest.mark.parametrize(("generations", "expected"), [pytest.param(*case[1:], id=case[0]) for case in CASES])
def test_each_trigger_is_found_where_it_holds(generations: list[Evidence], expected: list[str] | None) -> None:
    assert last(*generations) == expected


def test_every_trigger_has_a_case_with_it_and_one_without() -> None:
    claimed = {trigger for _, _, expected in CASES for trigger in expected or ()}
    assert claimed == {trigger.value for trigger in Trigger}


# -- whatever happens

CLIENTS = st.sampled_from([("app", "/10.0.0.1"), ("app", "/10.0.0.2"), None])
MEMBERS = st.builds(
    lambda name, instance, origin, topics, rack: participant(
        f"{name}{instance or ''}", topics, instance=instance and f"{instance}{name}", origin=origin, rack=rack
    ),
    st.sampled_from("abc"),
    st.sampled_from([None, None, "i"]),
    CLIENTS,
    st.sampled_from(["t", "tu"]),
    st.sampled_from([None, "r1"]),
)


@st.composite
def histories(draw: st.DrawFn) -> list[Evidence]:
    """Return generations of few members at few places, minutes apart; now and then the clock of a broker lags."""
    minute, generations = 100.0, []
    for number in range(1, draw(st.integers(2, 9)) + 1):
        minute += draw(st.sampled_from([0, 1, 4, 5, 6, 11, -3]))
        listed = draw(st.lists(MEMBERS, max_size=4, unique_by=lambda one: one.owner))
        renamed = [replace(one, member_id=f"{one.member_id}@{number}") if one.owner[0] else one for one in listed]
        strategy = draw(st.sampled_from(["range", "sticky"])) if listed else None
        generations.append(evidence(number, *renamed, minute=minute, strategy=strategy))
    return generations


@given(histories(), st.randoms(use_true_random=False))
def test_names_and_order_of_members_do_not_count(history: list[Evidence], random: Random) -> None:
    """Other names and places for the same members, and the members in another order."""

    def renamed(one: Participant) -> Participant:
        is_static, name = one.owner
        origin = one.origin and tuple(part[::-1] + "!" for part in one.origin)
        return replace(one, owner=(is_static, f"x{name[::-1]}"), member_id=f"x{one.member_id[::-1]}", origin=origin)

    def shuffled(members: Sequence[Participant]) -> tuple[Participant, ...]:
        return tuple(random.sample([renamed(one) for one in members], len(members)))

    assert play([replace(one, participants=shuffled(one.participants)) for one in history]) == play(history)


@given(histories())
def test_an_equal_generation_shows_nothing(history: list[Evidence]) -> None:
    end = history[-1]
    assert play([*history, replace(end, generation=end.generation + 1)])[-1] == (Trigger.NONE_VISIBLE,)
    assert play([*history, end])[-1] == (Trigger.GENERATION_REWRITTEN,)


@given(histories())
def test_every_joining_or_leaving_member_has_one_trigger(history: list[Evidence]) -> None:
    comings = {Trigger.MEMBER_JOINED, Trigger.MEMBER_RETURNED, Trigger.STATIC_MEMBER_RETURNED, Trigger.MEMBER_REPLACED}
    for before, now, triggers in zip(history[:-1], history[1:], play(history)[1:], strict=True):
        owners = [{one.owner for one in side.participants} for side in (before, now)]
        assert bool(owners[0] - owners[1]) == bool({Trigger.MEMBER_LEFT, Trigger.MEMBER_REPLACED}.intersection(triggers))
        if owners[1] - owners[0]:
            assert comings.intersection(triggers)
        elif not any(one.owner[0] for one in now.participants):
            assert not comings.intersection(triggers)
        assert list(triggers) == sorted(triggers, key=list(Trigger).index)
        assert triggers


@given(histories(), st.data())
def test_audit_that_starts_before_the_window_finds_the_same_triggers(history: list[Evidence], data: st.DataObject) -> None:
    """The rule of ``jobs.audit.run.audited_groups``: the last generation with members, or the one before the first within the window."""
    cut = data.draw(st.integers(1, len(history) - 1))
    since = min(one.observed_at_ms for one in history[cut:]) - RETURN_MS
    last_with_members = max((index for index in range(cut) if history[index].participants), default=0)
    recent = min((index for index in range(cut - 1) if history[index + 1].observed_at_ms >= since), default=last_with_members)
    begin = min(last_with_members, recent)
    assert play(history[begin:])[cut - begin :] == play(history)[cut:]
