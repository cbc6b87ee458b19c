"""Random groups for Hypothesis: static and dynamic members, missing topics, stale claims, valid and invalid assignments."""

from __future__ import annotations

from hypothesis import strategies as st

from assignors import Assignment, GroupProblem, Member, Topic, TopicPartition

TOPICS = ("t0", "t1", "t2", "t3")
MEMBER_IDS = ("a", "b", "c", "d")
INSTANCE_IDS = ("x", "y")
RACKS = ("r1", "r2")
MAX_PARTITIONS = 3

any_partition: st.SearchStrategy[TopicPartition] = st.tuples(st.sampled_from(TOPICS), st.integers(0, MAX_PARTITIONS))


@st.composite
def topic_maps(draw: st.DrawFn) -> dict[str, Topic]:
    """Some of the topics: with partitions, without, or with an id and no metadata. Each topic has one of two ids."""
    names = draw(st.lists(st.sampled_from(TOPICS), unique=True))
    return {
        name: Topic(
            draw(st.one_of(st.integers(0, MAX_PARTITIONS), st.integers(1, MAX_PARTITIONS), st.none())),
            topic_id=draw(st.sampled_from([None, "AAAAAAAAAAEAAAAAAAAAAg", "AAAAAAAAAAEAAAAAAAAAAw"])),
        )
        for name in names
    }


@st.composite
def member_lists(draw: st.DrawFn) -> tuple[Member, ...]:
    """Members with distinct ids and instance ids; half of the groups have equal subscriptions."""
    ids = draw(st.permutations(MEMBER_IDS))[: draw(st.integers(0, len(MEMBER_IDS)))]
    instances = draw(st.permutations([*INSTANCE_IDS, None, None]))
    subscriptions = st.lists(st.sampled_from(TOPICS), max_size=4).map(tuple)
    common = draw(st.one_of(st.none(), subscriptions))
    return tuple(
        Member(
            member_id,
            topics=draw(subscriptions) if common is None else common,
            group_instance_id=instance,
            rack=draw(st.sampled_from([None, "", *RACKS])),
            owned=tuple(draw(st.lists(any_partition, max_size=3))),
            owned_generation=draw(st.one_of(st.none(), st.integers(0, 5))),
        )
        for member_id, instance in zip(ids, instances, strict=False)
    )


def problems() -> st.SearchStrategy[GroupProblem]:
    """Any group, even without members or topics."""
    return st.builds(GroupProblem, topic_maps(), member_lists())


@st.composite
def broken_assignments(draw: st.DrawFn, problem: GroupProblem) -> Assignment:
    """Any assignment: unknown members, and partitions that do not exist, are not subscribed, or are given twice."""
    owners = draw(st.permutations([*(member.member_id for member in problem.members), *draw(st.sampled_from([[], ["stranger"]]))]))
    return {owner: tuple(draw(st.lists(any_partition, max_size=4))) for owner in owners}


@st.composite
def sound_assignments(draw: st.DrawFn, problem: GroupProblem, *, is_complete: bool = True) -> Assignment:
    """Each existing partition goes to one of its subscribers; if not complete, some go to nobody."""
    given: dict[str, list[TopicPartition]] = {member.member_id: [] for member in problem.members}
    for name, topic in problem.topics.items():
        subscribers: list[str | None] = [member.member_id for member in problem.members if name in member.topics]
        if not subscribers:
            continue
        for partition in range(topic.partition_count or 0):
            owner = draw(st.sampled_from(subscribers if is_complete else [*subscribers, None]))
            if owner is not None:
                given[owner].append((name, partition))
    return {member_id: tuple(held) for member_id, held in given.items()}
