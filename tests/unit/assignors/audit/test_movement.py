"""Movements and revocations: the truth table row by row, and an oracle that looks at one partition at a time."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignors import Assignment, GroupProblem, Member, Topic
from assignors.audit.comparison import Comparison
from assignors.audit.movements import Difference, LastOwner, Movement, count_kinds, diff_generations
from assignors.audit.revocations import actual_revocations, revocations
from assignors.generation.generation import Generation, Owner, is_follow_up, owner_of
from tests.builders.groups import any_partition, broken_assignments, problems

T0, T1 = ("t", 0), ("t", 1)
TOPICS = {"t": Topic(2)}


def generation(number: int, given: Assignment, *members: Member, topics: dict[str, Topic] = TOPICS, strategy: str = "range") -> Generation:
    """Return a generation; members that are not listed subscribe to ``t``, in the order of what is given."""
    listed = {member.member_id for member in members}
    others = tuple(Member(member_id, ("t",)) for member_id in given if member_id not in listed)
    return Generation(number, strategy, GroupProblem(topics, (*members, *others)), given)


def rows(difference: Difference) -> list[tuple]:
    return [
        (row.topic, row.partition, row.previous_member_id, row.member_id, row.kind, row.cause, row.previous_generation)
        for row in difference.movements
    ]


@pytest.mark.parametrize(
    ("before", "after", "row"),
    [
        pytest.param({"a": (T0,)}, {"a": (T0,)}, None, id="retained"),
        pytest.param({"a": (T0,), "b": ()}, {"a": (), "b": (T0,)}, ("t", 0, "a", "b", "revoked", None, 4), id="revoked"),
        pytest.param({"a": (T0,)}, {"b": (T0,)}, ("t", 0, "a", "b", "reassigned", None, 4), id="reassigned"),
        pytest.param({"a": ()}, {"a": (T0,)}, ("t", 0, None, "a", "gained", None, 4), id="gained"),
        pytest.param({"a": (T0,)}, {"a": ()}, ("t", 0, "a", None, "lost", "left_out", 4), id="lost"),
        pytest.param({"a": (T0,)}, {"b": ()}, ("t", 0, "a", None, "orphaned", "left_out", 4), id="orphaned"),
    ],
)
def test_each_row_of_the_truth_table_has_its_movement_kind(before: Assignment, after: Assignment, row: tuple | None) -> None:
    difference = diff_generations(Comparison(generation(4, before), generation(5, after)))
    assert rows(difference) == ([] if row is None else [row])
    kinds = ("retained", "revoked", "reassigned", "gained", "lost", "orphaned")
    counts = {kind: getattr(difference, f"{kind}_count") for kind in kinds}
    kind = "retained" if row is None else row[4]
    assert counts == {**dict.fromkeys(kinds, 0), kind: 1}
    assert difference.movement_count == (kind in ("revoked", "reassigned"))


@pytest.mark.parametrize(
    ("owned", "strategy", "topics", "subscribed", "deleted", "cause"),
    [
        pytest.param((T0,), "cooperative-sticky", {}, ("t",), (), "topic_deleted", id="the topic is gone"),
        pytest.param((T0,), "cooperative-sticky", {"t": Topic(0)}, ("t",), (), "topic_deleted", id="the partition is gone"),
        pytest.param((T0,), "cooperative-sticky", {}, (), ("t",), "topic_deleted", id="gone and no longer subscribed"),
        pytest.param((T0,), "cooperative-sticky", TOPICS, (), (), "unsubscribed", id="nobody subscribes"),
        pytest.param((T0,), "cooperative-sticky", TOPICS, ("t",), (), "withheld", id="claimed, and cooperative"),
        pytest.param((T0,), "stream", TOPICS, ("t",), (), "withheld", id="claimed, and Kafka Streams"),
        pytest.param((), "stream", TOPICS, ("t",), (), "left_out", id="Kafka Streams, but eager"),
        pytest.param((T0,), "range", TOPICS, ("t",), (), "left_out", id="claimed, but eager"),
        pytest.param((), "cooperative-sticky", TOPICS, ("t",), (), "left_out", id="not claimed"),
    ],
)
def test_lost_partition_has_the_first_cause_that_holds(
    owned: tuple, strategy: str, topics: dict, subscribed: tuple, deleted: tuple, cause: str
) -> None:
    before = generation(1, {"a": (T0,)})
    now = generation(2, {"a": ()}, Member("a", subscribed, owned=owned), topics=topics, strategy=strategy)
    difference = diff_generations(Comparison(before, now), deleted_topics=deleted)
    assert rows(difference) == [("t", 0, "a", None, "lost", cause, 1)]
    assert difference.withheld_count == (cause == "withheld")
    assert difference.is_settled == (cause != "withheld")


def cooperative(number: int, given: Assignment, *members: Member) -> Generation:
    return generation(number, given, *members, strategy="cooperative-sticky")


CLAIMS_BOTH = Member("a", ("t",), owned=(T0, T1), owned_generation=1)


@pytest.mark.parametrize(
    ("taker", "row", "counts"),
    [
        ("b", ("t", 1, "a", "b", "gained", "handed_over", 1), (1, 0, 1)),
        ("a", ("t", 1, "a", "a", "gained", "returned", 1), (0, 1, 0)),
    ],
)
def test_hand_over_is_seen_across_generations(taker: str, row: tuple, counts: tuple[int, int, int]) -> None:
    first = cooperative(1, {"a": (T0, T1)})
    second = cooperative(2, {"a": (T0,), "b": ()}, CLAIMS_BOTH)
    third = cooperative(3, {"a": (T0,), "b": ()}, CLAIMS_BOTH)
    fourth = cooperative(4, {"a": (T0, *[T1] * (taker == "a")), "b": (T1,) * (taker == "b")}, Member("a", ("t",), owned=(T0,)))
    withheld = diff_generations(Comparison(first, second))
    still_withheld = diff_generations(Comparison(second, third), withheld.withheld)
    assert rows(still_withheld) == []
    assert still_withheld.withheld == withheld.withheld == {T1: LastOwner((False, "a"), "a", 1)}
    settled = diff_generations(Comparison(third, fourth), still_withheld.withheld)
    assert rows(settled) == [row]
    assert (settled.handed_over_count, settled.returned_count, settled.movement_count) == counts
    assert settled.gained_count == 1
    assert settled.withheld == {}


def test_partition_returned_to_one_of_two_owners_names_its_last_owner() -> None:
    """t-1 was kept back from b. It is given to a and b now; a is first in the record."""
    now = cooperative(3, {"a": (T0, T1), "b": (T1,)})
    returned = diff_generations(Comparison(cooperative(2, {"a": (T0,), "b": ()}), now), {T1: LastOwner((False, "b"), "b", 1)})
    assert rows(returned) == [("t", 1, "b", "b", "gained", "returned", 1)]


def test_claim_gives_the_last_owner_when_no_generation_before_is_known() -> None:
    seed = diff_generations(Comparison(None, cooperative(7, {"a": (T0,), "b": ()}, replace(CLAIMS_BOTH, owned_generation=6))))
    assert rows(seed) == [("t", 0, None, "a", "gained", None, None)]
    assert seed.withheld == {T1: LastOwner((False, "a"), "a", 6)}
    assert (seed.retained_count, seed.eager_revocation_count, seed.cooperative_revocation_count) == (0, 0, 0)


def test_recreated_topic_has_no_previous_owner() -> None:
    first, second = ({"t": Topic(2, topic_id=topic_id)} for topic_id in ("AAAAAAAAAAEAAAAAAAAAAg", "AAAAAAAAAAEAAAAAAAAAAw"))
    before, now = generation(1, {"a": (T0, T1)}, topics=first), generation(2, {"a": (T0,)}, topics=second)
    difference = diff_generations(Comparison(before, now), {T0: LastOwner((False, "b"), "b", 0)})
    assert rows(difference) == [("t", 0, None, "a", "gained", "topic_recreated", 1)]
    # Its consumer does not look at topic ids: it keeps t-0 and gives up t-1.
    assert (difference.eager_revocation_count, difference.cooperative_revocation_count) == (2, 1)
    assert [Comparison(before, now).last_owners_of(partition) for partition in (T0, T1)] == [(), ()]
    unknown_now = generation(2, {"a": (T0, T1)})
    assert diff_generations(Comparison(before, unknown_now)).retained_count == 2


def test_static_member_keeps_its_partitions_under_a_new_member_id() -> None:
    before = generation(1, {"a-1": (T0,), "b": (T1,)}, Member("a-1", ("t",), group_instance_id="a"))
    now = generation(2, {"a-2": (T0,), "a": (T1,)}, Member("a-2", ("t",), group_instance_id="a"))
    difference = diff_generations(Comparison(before, now))
    # Dynamic member "a" is not static member "a".
    assert rows(difference) == [("t", 1, "b", "a", "reassigned", None, 1)]
    assert difference.retained_count == 1


def test_several_owners_are_a_set_and_the_first_in_record_order_is_named() -> None:
    meets = diff_generations(Comparison(generation(1, {"a": (T0,), "b": (T0,)}), generation(2, {"a": (), "b": (T0,), "c": (T0,)})))
    assert (rows(meets), meets.retained_count) == ([], 1)
    # Record order is b, a on both sides, whatever order the assignment has.
    members = (Member("b", ("t",)), Member("a", ("t",)), Member("c", ("t",)))
    before = generation(1, {"a": (T0,), "b": (T0,), "c": ()}, *members)
    parts = diff_generations(Comparison(before, generation(2, {"c": (T0,), "a": ()}, *members[1:])))
    assert rows(parts) == [("t", 0, "b", "c", "reassigned", None, 1)]


def test_owner_that_was_no_member_before_retains_its_partitions() -> None:
    stranger = Generation(1, "range", GroupProblem(TOPICS, (Member("b", ("t",)),)), {"a": (T0,), "b": (T1,)})
    difference = diff_generations(Comparison(stranger, generation(2, {"a": (T0,), "b": (T1,)})))
    assert (rows(difference), difference.retained_count) == ([], 2)


def test_rows_come_in_the_order_of_java() -> None:
    topics = {"\U0001f600": Topic(11), "\ufffd": Topic(1)}
    given = {"a": (("\ufffd", 0), ("\U0001f600", 10), ("\U0001f600", 9))}
    difference = diff_generations(Comparison(None, generation(1, given, Member("a", tuple(topics)), topics=topics)))
    assert [(row.topic, row.partition) for row in difference.movements] == [("\U0001f600", 9), ("\U0001f600", 10), ("\ufffd", 0)]


@pytest.mark.parametrize(
    ("owned", "new_id", "actual"),
    [
        pytest.param((), "a", (2, True), id="claims nothing: gave up all"),
        pytest.param((T0, T1), "a", (1, False), id="claims all: gave up what it is not given again"),
        pytest.param((), "a-2", (1, None), id="came back as another: its claims show nothing"),
    ],
)
def test_claims_show_actual_revocations(owned: tuple, new_id: str, actual: tuple[int, bool | None]) -> None:
    before = generation(1, {"a": (T0, T1), "left": (("t", 2),)}, Member("a", ("t",), group_instance_id="i"))
    now = generation(2, {new_id: (T0,), "b": (T1,)}, Member(new_id, ("t",), group_instance_id="i", owned=owned))
    assert revocations(Comparison(before, now)) == (2, 1)
    assert actual_revocations(Comparison(before, now)) == actual
    assert actual_revocations(Comparison(before, replace(now, strategy="sticky"))) == (None, None)


def test_partition_with_a_second_owner_is_revoked_once_under_eager() -> None:
    """a held t0 and t1, and b nothing. Now both have t0, so that a gave up nothing; under the eager protocol it would give up two."""
    before, now = generation(1, {"a": (T0, T1), "b": ()}), generation(2, {"a": (T0, T1), "b": (T0,)})
    assert revocations(Comparison(before, now)) == (2, 0)
    assert actual_revocations(Comparison(before, now)) == (2, True)


def test_one_member_that_kept_its_claims_makes_a_rebalance_not_eager() -> None:
    before = generation(1, {"a": (T0,), "b": (T1,)})
    now = generation(2, {"a": (T0,), "b": (T1,)}, Member("a", ("t",)), Member("b", ("t",), owned=(T1,)))
    assert actual_revocations(Comparison(before, now)) == (1, False)


@pytest.mark.parametrize(("given", "actual"), [((T0,), (1, False)), ((T0, T1), (0, False)), ((), (2, False))])
def test_a_broker_takes_only_what_the_target_lacks(given: tuple, actual: tuple[int, bool]) -> None:
    before, now = (generation(number, {"a": held}, strategy="uniform") for number, held in enumerate(((T0, T1), given), start=1))
    assert actual_revocations(Comparison(before, now)) == actual


def test_without_earlier_owners_rebalance_is_neither_eager_nor_cooperative() -> None:
    before, now = (generation(number, {"a": held}, strategy="uniform") for number, held in enumerate(((), (T0,)), start=1))
    assert actual_revocations(Comparison(before, now)) == (0, None)


GAVE_UP = cooperative(2, {"a": (T0,), "b": ()}, CLAIMS_BOTH, Member("b", ("t",), group_instance_id="i"))


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        pytest.param(cooperative(3, {"b": (T1,), "a": (T0,)}, *reversed(GAVE_UP.problem.members)), True, id="nothing else changed"),
        pytest.param(cooperative(3, {"b": (T1,), "a": (T0,), "c": ()}, *GAVE_UP.problem.members), False, id="a member joined"),
        pytest.param(cooperative(3, {"b": (T1,), "a": (T0,)}, CLAIMS_BOTH, Member("b", ("t",))), False, id="another instance id"),
        pytest.param(
            cooperative(3, {}, replace(CLAIMS_BOTH, topics=("t", "u")), GAVE_UP.problem.members[1]), False, id="another subscription"
        ),
        pytest.param(
            generation(3, {}, *GAVE_UP.problem.members, topics={"t": Topic(3)}, strategy="cooperative-sticky"), False, id="a topic grew"
        ),
        pytest.param(replace(GAVE_UP, strategy="sticky"), False, id="another strategy"),
    ],
)
def test_follow_up_completes_a_hand_over_and_nothing_else(now: Generation, expected: bool) -> None:
    assert is_follow_up(GAVE_UP, now) is expected
    streams = replace(now, strategy="stream" if now.strategy == GAVE_UP.strategy else now.strategy)
    assert is_follow_up(replace(GAVE_UP, strategy="stream"), streams) is expected


def test_nothing_follows_up_a_generation_in_which_nobody_gave_up_a_claim() -> None:
    settled = cooperative(2, {"a": (T0, T1), "b": ()}, CLAIMS_BOTH)
    assert not is_follow_up(settled, replace(settled, generation=3))
    eager = replace(GAVE_UP, strategy="sticky")
    assert not is_follow_up(eager, replace(eager, generation=3))


def test_follow_up_costs_no_eager_revocations() -> None:
    now = cooperative(3, {"a": (), "b": (T0, T1)}, *GAVE_UP.problem.members)
    difference = diff_generations(Comparison(GAVE_UP, now), is_follow_up=True)
    assert (difference.eager_revocation_count, difference.cooperative_revocation_count) == (0, 1)


def owners_by_definition(generation: Generation, wanted: tuple[str, int]) -> dict[Owner, str]:
    members = generation.problem.members
    known = [member.member_id for member in members]
    owners = {owner_of(member): member.member_id for member in members if wanted in generation.assignment.get(member.member_id, ())}
    owners.update({(False, other): other for other, held in generation.assignment.items() if other not in known and wanted in held})
    return owners


def difference_by_definition(previous: Generation, current: Generation, withheld: dict) -> tuple[list[Movement], int, dict]:
    """Return the rows, the retained count and what is withheld: one partition at a time, each question asked anew."""
    found, retained, withheld_now = [], 0, {}
    topics, members = current.problem.topics, current.problem.members
    everything = {topic_partition for side in (previous, current) for held in side.assignment.values() for topic_partition in held}
    everything |= {topic_partition for member in members for topic_partition in member.owned} | withheld.keys()
    for topic, partition in sorted(everything):
        topic_partition = (topic, partition)
        old_id, new_id = (side.problem.topics.get(topic, Topic(0)).topic_id for side in (previous, current))
        is_recreated = bool(old_id and new_id and old_id != new_id)
        before = {} if is_recreated else owners_by_definition(previous, topic_partition)
        after = owners_by_definition(current, topic_partition)
        last = None if is_recreated else withheld.get(topic_partition)
        exists = topic in topics and partition < (topics[topic].partition_count or 0)
        is_subscribed = any(topic in member.topics for member in members)
        claimants = [member for member in members if topic_partition in member.owned]
        is_withheld = exists and is_subscribed and not after and bool(claimants) and current.strategy in ("cooperative-sticky", "stream")
        old, new = (next(iter(owners.items()), (None, None)) for owners in (before, after))
        if is_withheld:
            by_claim = LastOwner(owner_of(claimants[0]), claimants[0].member_id, claimants[0].owned_generation)
            withheld_now[topic_partition] = LastOwner(*old, previous.generation) if before else last or by_claim
        if before.keys() & after.keys():
            retained += 1
        elif before:
            stayed = old[0] in [owner_of(member) for member in members]
            if after:
                found.append(Movement(*topic_partition, old[1], new[1], "revoked" if stayed else "reassigned", None, previous.generation))
            else:
                gone = is_subscribed and not exists
                cause = "topic_deleted" if gone else "withheld" if is_withheld else "left_out" if is_subscribed else "unsubscribed"
                found.append(Movement(*topic_partition, old[1], None, "lost" if stayed else "orphaned", cause, previous.generation))
        elif after and last and last.owner in after:
            found.append(Movement(*topic_partition, last.member_id, after[last.owner], "gained", "returned", last.generation))
        elif after and last:
            found.append(Movement(*topic_partition, last.member_id, new[1], "gained", "handed_over", last.generation))
        elif after:
            found.append(
                Movement(*topic_partition, None, new[1], "gained", "topic_recreated" if is_recreated else None, previous.generation)
            )
    return found, retained, withheld_now


@st.composite
def generations(draw: st.DrawFn, number: int) -> Generation:
    problem = draw(problems())
    return Generation(number, draw(st.sampled_from(["range", "cooperative-sticky", "stream"])), problem, draw(broken_assignments(problem)))


last_owner_maps = st.dictionaries(
    any_partition, st.builds(lambda name: LastOwner((False, name), name, 3), st.sampled_from("abcz")), max_size=3
)


@given(generations(4), generations(5), last_owner_maps)
def test_difference_is_that_of_the_definition(previous: Generation, current: Generation, carried: dict[tuple[str, int], LastOwner]) -> None:
    owned_before = {partition for held in previous.assignment.values() for partition in held}
    withheld = {partition: last for partition, last in carried.items() if partition not in owned_before}
    difference = diff_generations(Comparison(previous, current), withheld)
    expected_rows, expected_retained, expected_withheld = difference_by_definition(previous, current, withheld)
    assert list(difference.movements) == expected_rows
    assert difference.retained_count == expected_retained
    assert difference.withheld == expected_withheld
    kinds = Counter((row.kind, row.cause) for row in expected_rows)
    assert difference.withheld_count == kinds["lost", "withheld"]
    assert difference.handed_over_count == kinds["gained", "handed_over"]
    assert difference.returned_count == kinds["gained", "returned"]
    owned_now = {partition for held in current.assignment.values() for partition in held}
    assert expected_retained + difference.revoked_count + difference.reassigned_count + difference.gained_count == len(owned_now)


@given(generations(4), generations(5))
def test_counts_are_those_of_the_rows(previous: Generation, current: Generation) -> None:
    comparison = Comparison(previous, current)
    counts, difference = count_kinds(comparison), diff_generations(comparison)
    assert {field.name: getattr(difference, field.name) for field in fields(counts)} == asdict(counts)
    assert counts.movement_count == difference.movement_count


@given(generations(4), generations(5), st.data())
def test_comparison_with_another_result_for_the_same_members_is_as_if_alone(
    previous: Generation, first: Generation, data: st.DataObject
) -> None:
    other = replace(first, assignment=data.draw(broken_assignments(first.problem)))
    alone, after = Comparison(previous, other), Comparison(previous, other, Comparison(previous, first))
    assert diff_generations(after) == diff_generations(alone)
    assert after.irregular == alone.irregular
    assert (after.before == alone.before).all()
    assert (after.now == alone.now).all()


@given(generations(4), generations(5))
def test_revocations_are_those_of_the_definition(previous: Generation, current: Generation) -> None:
    stayed = {owner_of(member) for member in previous.problem.members} & {owner_of(member) for member in current.problem.members}
    held = {owner_of(m): set(previous.assignment[m.member_id]) for m in previous.problem.members}
    given_now = {owner_of(m): set(current.assignment[m.member_id]) for m in current.problem.members}
    eager = sum(len(held[owner]) for owner in stayed)
    kept = sum(len(held[owner] & given_now[owner]) for owner in stayed)
    assert revocations(Comparison(previous, current)) == (eager, eager - kept)


@given(generations(4))
def test_difference_with_itself_is_all_retained(same: Generation) -> None:
    difference = diff_generations(Comparison(same, same))
    assert difference.movements == ()
    assert difference.retained_count == len({partition for held in same.assignment.values() for partition in held})
    assert difference.cooperative_revocation_count == 0
