"""Rules on assignors, protocols and claims: each where it holds, and where something near it happens."""

from __future__ import annotations

from dataclasses import replace

import pytest

from assignors import Member
from assignors.algorithms.sticky.user_data import write_sticky_user_data
from schemas.vocabulary import Rule
from tests.builders.histories import held, member
from tests.builders.snapshots_of import Stored, last, stored

COOPERATIVE = "cooperative-sticky"
FIRST = stored(1, {"a": "t0", "b": "t1"}, strategy=COOPERATIVE)
KEEPS = member("b", owned="t1", at=1)


def second(*members, strategy: str = COOPERATIVE, **changes: object) -> Stored:
    return stored(2, {"a": "t0", "b": "t1"}, *members, strategy=strategy, **changes)


def test_eager_member_in_a_cooperative_group_is_a_warning() -> None:
    finding = last(Rule.PROTOCOLS_MIXED, FIRST, second(member("a", at=1), KEEPS))
    assert (finding.severity, finding.message) == (
        "warning", "The group's assignor is cooperative-sticky, yet 1 of 2 members gives up all partitions before a rebalance: a",
    )  # fmt: skip
    assert finding.evidence == {"eager_member_count": "1", "cooperative_member_count": "1", "members": "a"}


def test_cooperative_group_whose_members_are_all_eager_is_found() -> None:
    finding = last(Rule.PROTOCOLS_MIXED, FIRST, second(member("a", at=1), member("b", at=1)))
    assert (finding.evidence["eager_member_count"], finding.evidence["cooperative_member_count"]) == ("2", "0")


def test_kafka_streams_has_no_list_of_assignors_to_mend() -> None:
    """One of its members may be eager by ``upgrade.from``, or have lost all of its tasks."""
    streams = {"strategy": "stream", "is_consumer_protocol": False, "offered": {"a": ("stream",), "b": ("stream",)}}
    first, now = (stored(number, {"a": "t0", "b": "t1"}, *(member("a", at=1), KEEPS), **streams) for number in (1, 2))
    assert last(Rule.PROTOCOLS_MIXED, first, now) is None


SENT = {
    "java": lambda generation: generation.to_bytes(4, "big", signed=True),
    "librdkafka": lambda generation: write_sticky_user_data((), generation),
}
"""How cooperative clients send the generation of the last assignment that they received."""


@pytest.mark.parametrize("client", SENT)
@pytest.mark.parametrize(("received", "is_found"), [(1, True), (0, False)])
def test_member_that_has_not_received_its_partitions_gave_none_up(client: str, received: int, is_found: bool) -> None:
    """It names the generation, since it joined it, and joins the next one before it has its assignment."""
    eager = replace(member("a", at=1), user_data=SENT[client](received))
    assert (last(Rule.PROTOCOLS_MIXED, FIRST, second(eager, KEEPS)) is not None) is is_found
    both, one = stored(1, {"a": "t0 t1"}, strategy=COOPERATIVE), replace(member("a", owned="t0", at=1), user_data=SENT[client](received))
    assert (last(Rule.CLAIMS_LOST, both, stored(2, {"a": "t0 t1"}, one, strategy=COOPERATIVE)) is not None) is is_found


def test_member_without_bytes_has_not_received_its_first_partitions() -> None:
    """librdkafka writes none until it has an assignment. If the group rebalances again before, it names the generation that it joined."""
    assert last(Rule.PROTOCOLS_MIXED, FIRST, second(replace(member("a", at=1), user_data=b""), KEEPS)) is None
    assert last(Rule.PROTOCOLS_MIXED, FIRST, second(replace(member("a", at=1), user_data=None), KEEPS)) is not None


@pytest.mark.parametrize(
    ("first", "near"),
    [
        pytest.param(FIRST, second(member("a", owned="t0", at=1), KEEPS), id="everybody keeps its own"),
        pytest.param(FIRST, second(member("a", at=None), KEEPS), id="it does not say since when it has nothing"),
        pytest.param(FIRST, second(member("a", at=0), KEEPS), id="it never learned what it was given"),
        pytest.param(FIRST, second(member("a", "u", at=1), KEEPS), id="it reads something else now"),
        pytest.param(FIRST, second(member("a", at=1), KEEPS, strategy="range"), id="an eager assignor"),
        pytest.param(stored(1, {"a": "t0", "b": "t1"}), second(member("a", at=1), KEEPS), id="it was eager before"),
        pytest.param(
            stored(1, {"a": "", "b": "t0 t1"}, strategy=COOPERATIVE), second(member("a", at=1), KEEPS), id="it had nothing"
        ),
        pytest.param(FIRST, stored(2, {"c": "t0", "b": "t1"}, member("c", at=1), KEEPS, strategy=COOPERATIVE), id="it is another one"),
    ],
)  # fmt: skip
def test_no_finding_for_cooperative_members(first: Stored, near: Stored) -> None:
    assert last(Rule.PROTOCOLS_MIXED, first, near) is None


ONLY, BOTH, EAGER = (COOPERATIVE,), (COOPERATIVE, "range"), ("range", "sticky")


def test_members_with_eager_assignors_in_their_list_are_named() -> None:
    mixed = stored(1, {"a": "t0", "b": "t1"}, strategy=COOPERATIVE, offered={"a": ONLY, "b": BOTH})
    assert last(Rule.PROTOCOLS_MIXED, mixed).evidence["members"] == "b"
    alike = stored(1, {"a": "t0", "b": "t1"}, strategy=COOPERATIVE, offered={"a": BOTH, "b": BOTH})
    assert last(Rule.PROTOCOLS_MIXED, alike) is None


def test_assignor_that_not_all_members_offer_is_an_info() -> None:
    offered = {"a": EAGER, "b": ("range", COOPERATIVE), "c": EAGER}
    finding = last(Rule.ASSIGNOR_NOT_SHARED, stored(1, {"a": "t0", "b": "t1", "c": ""}, offered=offered))
    assert (finding.severity, finding.message) == (
        "info",
        "The group cannot use assignors that not all members offer: cooperative-sticky by 1 of 3 members, sticky by 2 of 3 members",
    )


@pytest.mark.parametrize(
    "near",
    [
        pytest.param(stored(1, {"a": "t0", "b": "t1"}, offered={"a": BOTH, "b": BOTH[::-1]}), id="the same in another order"),
        pytest.param(stored(1, {"a": "t0", "b": "t1"}, offered={"a": BOTH}), id="one offers nothing"),
        pytest.param(stored(1, {"a": "t0", "b": "t1"}, strategy="uniform", offered={"a": ONLY, "b": BOTH}), id="brokers choose"),
        pytest.param(stored(1, {}), id="nobody is there"),
    ],
)
def test_no_finding_for_assignors_that_all_members_offer(near: Stored) -> None:
    assert last(Rule.ASSIGNOR_NOT_SHARED, near) is None


def test_assignor_without_a_server_side_counterpart_is_an_info() -> None:
    finding = last(Rule.UPGRADE_BLOCKED, stored(1, {"a": "t0 t1"}, strategy="RoundRobinAssigner", is_consumer_protocol=False))
    assert (finding.severity, finding.evidence) == ("info", {"strategy": "RoundRobinAssigner"})
    finding = last(Rule.UPGRADE_BLOCKED, stored(1, {"a": "t0 t1"}, strategy="stream", is_consumer_protocol=False))
    assert finding.message.startswith("The group's assignor stream assigns the tasks of Kafka Streams: ")


@pytest.mark.parametrize(
    "near",
    [
        pytest.param(stored(1, {"a": "t0 t1"}), id="one of Kafka's"),
        pytest.param(stored(1, {"a": "t0 t1"}, strategy="own", is_consumer_protocol=True), id="it has moved already"),
        pytest.param(stored(1, {}), id="nobody is there"),
    ],
)
def test_no_finding_for_groups_that_can_be_upgraded(near: Stored) -> None:
    assert last(Rule.UPGRADE_BLOCKED, near) is None


def third(*members, strategy: str = COOPERATIVE, number: int = 3, **changes: object) -> tuple[Stored, ...]:
    before = second(member("a", owned="t0", at=1), KEEPS, strategy=strategy, **changes)
    return FIRST, before, stored(number, {"a": "t0", "b": "t1"}, *members, strategy=strategy, **changes)


def with_user_data(name: str, claims: str, generation: int):
    return replace(member(name), user_data=write_sticky_user_data(held(claims), generation))


def test_claims_of_an_older_generation_are_an_info() -> None:
    finding = last(Rule.STALE_CLAIMS, *third(member("a", owned="t0", at=1), member("b", owned="t1", at=2)))
    assert (finding.severity, finding.message) == ("info", "1 of 2 members claims partitions of generations before 2; the oldest is 1")
    assert finding.evidence["members"] == "a"
    assert last(Rule.STALE_CLAIMS, *third(with_user_data("a", "t0", 1), strategy="sticky")).evidence["oldest_generation"] == "1"


@pytest.mark.parametrize(
    "near",
    [
        pytest.param(third(member("a", owned="t0", at=2), member("b", owned="t1", at=2)), id="of the last one"),
        pytest.param(third(member("a", at=1)), id="nothing is claimed"),
        pytest.param(third(member("a", owned="t0", at=-1)), id="no generation is named"),
        pytest.param(third(with_user_data("a", "t0", 2), strategy="sticky"), id="of the last one, in user data"),
        pytest.param(third(member("a", owned="t0", at=1), strategy="uniform"), id="members of the new protocol lag by design"),
        pytest.param(third(member("a", owned="t0", at=1), number=2, is_rewrite=True), id="a rewrite repeats the claims"),
        pytest.param((stored(3, {"a": "t0"}, member("a", owned="t0", at=1), has_predecessor=False),), id="nothing is known before"),
        pytest.param((FIRST, second(), stored(3, {"c": "t0"}, member("c", owned="t0", at=1), strategy=COOPERATIVE)), id="it is new here"),
    ],
)
def test_no_finding_for_claims_of_the_last_generation(near: tuple[Stored, ...]) -> None:
    assert last(Rule.STALE_CLAIMS, *near) is None


KEEPS_ON = member("b", owned="t1", at=2)


def test_member_that_stayed_and_names_no_generation_has_lost_its_partitions() -> None:
    """It named the first generation, so it was in the group. Since then it has reset its generation."""
    finding = last(Rule.CLAIMS_LOST, *third(member("a", at=-1), KEEPS_ON))
    assert (finding.severity, finding.message) == ("warning", "1 of 2 members does not claim 1 partition of generation 2: t-0")
    assert finding.evidence == {
        "member_count": "1", "partition_count": "1", "partitions": "t-0", "members": "a", "previous_generation": "2",
    }  # fmt: skip
    first_given = stored(2, {"a": "t0", "b": "t1"}, member("a", at=1), KEEPS, strategy=COOPERATIVE)
    assert last(Rule.CLAIMS_LOST, FIRST, first_given, stored(3, {"a": "t0"}, member("a"), strategy=COOPERATIVE)).evidence["members"] == "a"


def test_member_that_claims_a_part_of_what_it_had_is_found() -> None:
    """It names the generation that gave it both. Old subscriptions have no generation: what it claimed then and has since kept counts."""
    both, one = {"a": "t0 t1"}, {"a": "t0 t1", "b": ""}
    first = stored(1, both, strategy=COOPERATIVE)
    assert (
        last(Rule.CLAIMS_LOST, first, stored(2, one, member("a", owned="t0", at=1), strategy=COOPERATIVE)).evidence["partitions"] == "t-1"
    )
    history = (
        stored(1, both, member("a", owned="t0 t1"), strategy=COOPERATIVE),
        stored(2, one, member("a", owned="t0"), strategy=COOPERATIVE),
    )
    assert last(Rule.CLAIMS_LOST, *history).evidence["partitions"] == "t-1"


@pytest.mark.parametrize(
    "near",
    [
        pytest.param(third(member("a", owned="t0", at=2), KEEPS_ON), id="everybody has what it had"),
        pytest.param(third(member("a", at=2), KEEPS_ON), id="it is eager"),
        pytest.param(third(member("a", at=1), KEEPS_ON), id="it never learned what it was given"),
        pytest.param(third(member("a", owned="t0", at=1), KEEPS_ON), id="claims of an older generation"),
        pytest.param(
            (
                stored(1, {"a": "t0 t1"}, strategy=COOPERATIVE),
                stored(2, {"a": "t0 t1"}, member("a", owned="t0 t1", at=1), strategy=COOPERATIVE),
                stored(3, {"a": "t0 t1"}, member("a", owned="t0", at=1), strategy=COOPERATIVE),
            ),
            id="a part of what it had in an older generation",
        ),
        pytest.param((FIRST, second(member("a", at=-1), KEEPS)), id="it was new before, and may have received nothing"),
        pytest.param((FIRST, second(member("a"), member("b"))), id="old subscriptions, and new members before"),
        pytest.param(third(member("a", "u", at=-1), KEEPS_ON), id="it reads something else now"),
        pytest.param(third(member("a", at=-1), KEEPS_ON, topics={"t": 0}), id="the topic is gone"),
        pytest.param(third(member("a", at=-1), KEEPS_ON, number=4), id="a generation is missing"),
        pytest.param(third(member("a", at=-1), KEEPS_ON, number=2, is_rewrite=True), id="a rewrite"),
        pytest.param(third(member("a", at=-1), KEEPS_ON, strategy="sticky"), id="an eager assignor"),
        pytest.param(third(member("a", at=-1), KEEPS_ON, strategy="stream", is_consumer_protocol=False), id="Kafka Streams"),
        pytest.param(
            (*third()[:2], stored(3, {"c": "t0", "b": "t1"}, member("c", at=-1), KEEPS_ON, strategy=COOPERATIVE)), id="it is new here"
        ),
    ],
)
def test_no_finding_for_members_that_have_what_they_had(near: tuple[Stored, ...]) -> None:
    assert last(Rule.CLAIMS_LOST, *near) is None


def moved(*members, given: str = "t0 t1", strategy: str = COOPERATIVE, **changes: object) -> tuple[Stored, ...]:
    """Return a history in which ``b`` gets the partition of ``a``."""
    now = stored(2, {"a": "", "b": given}, *members, strategy=strategy, **changes)  # type: ignore[arg-type]
    return stored(1, {"a": "t0", "b": "t1"}, strategy=strategy, **changes), now  # type: ignore[arg-type]


A_CLAIMS = member("a", owned="t0", at=1)


def said(name: str, claims: str, generation: int) -> Member:
    """Return a member with an old subscription: Java writes the generation into the user data."""
    return replace(member(name, owned=claims), user_data=SENT["java"](generation))


def test_partition_that_its_owner_claims_and_another_gets_is_a_warning() -> None:
    finding = last(Rule.MOVED_WITHOUT_WITHHOLDING, *moved(A_CLAIMS, KEEPS))
    assert (finding.severity, finding.message) == (
        "warning", "The assignment gives 1 partition of 1 member to others at once, without withholding: t-0",
    )  # fmt: skip
    assert (finding.evidence["partitions"], finding.evidence["members"]) == ("t-0", "a")
    old = moved(member("a", owned="t0"), member("b", owned="t1"))
    assert last(Rule.MOVED_WITHOUT_WITHHOLDING, *old).evidence["partitions"] == "t-0", "subscriptions without a generation count too"
    of_one = moved(said("a", "t0", 1), said("b", "t1", 1))
    assert last(Rule.MOVED_WITHOUT_WITHHOLDING, *of_one).evidence["partitions"] == "t-0", "so do those with one in their user data"


@pytest.mark.parametrize(
    "near",
    [
        pytest.param(moved(A_CLAIMS, KEEPS, given="t1"), id="it is withheld"),
        pytest.param(moved(member("a", at=1), KEEPS), id="it gave the partition up"),
        pytest.param(moved(member("a", "u", owned="t0", at=1), KEEPS, topics={"t": 2, "u": 1}), id="it reads something else now"),
        pytest.param(moved(member("a", owned="t0", at=0), KEEPS), id="its claim is older than that of the other"),
        pytest.param(moved(A_CLAIMS, member("b", owned="t0 t1", at=1)), id="both claim it"),
        pytest.param(moved(A_CLAIMS, member("b", owned="t0", at=0)), id="the other claims it too, from an older generation"),
        pytest.param(moved(said("a", "t0", 0), said("b", "t1", 1)), id="its claim is older, by its user data"),
        pytest.param(moved(replace(A_CLAIMS, user_data=said("a", "t0", 0).user_data), KEEPS), id="older leaders see an older claim"),
        pytest.param(moved(A_CLAIMS, KEEPS, strategy="sticky"), id="an eager assignor"),
        pytest.param(moved(A_CLAIMS, KEEPS, strategy="stream", is_consumer_protocol=False), id="Kafka Streams"),
        pytest.param(moved(A_CLAIMS, KEEPS, is_rewrite=True), id="no assignor ran"),
        pytest.param((FIRST, stored(2, {"c": "", "b": "t0 t1"}, KEEPS, strategy=COOPERATIVE)), id="the owner has left"),
        pytest.param((moved(A_CLAIMS, KEEPS)[1],), id="nothing is known before"),
        pytest.param(third(A_CLAIMS, KEEPS_ON), id="nothing moved"),
    ],
)
def test_no_finding_for_movements_that_no_owner_objects_to(near: tuple[Stored, ...]) -> None:
    assert last(Rule.MOVED_WITHOUT_WITHHOLDING, *near) is None
