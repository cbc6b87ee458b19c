"""The subscriptions of a problem: which member may have which partitions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import wraps
from itertools import chain
from typing import TypeVar

from assignors.generation.holdings import Holdings, Layout
from assignors.model import GroupProblem, MalformedProblemError, Member, TopicPartition

Answer = TypeVar("Answer")


def once(question: Callable[[GroupProblem], Answer]) -> Callable[[GroupProblem], Answer]:
    """Keep the result of a function with the problem, which never changes: one audit calls the same function a dozen times."""

    @wraps(question)
    def answer(problem: GroupProblem) -> Answer:
        if question.__name__ not in problem.answers:
            problem.answers[question.__name__] = question(problem)
        known: Answer = problem.answers[question.__name__]
        return known

    return answer


Claim = tuple[tuple[TopicPartition, ...], int | None, bytes | None]
"""The claim of a member: its ``owned``, ``owned_generation`` and ``user_data``."""

NO_CLAIM: Claim = ((), None, None)


def with_claims(problem: GroupProblem, claims: Iterable[Claim]) -> GroupProblem:
    """Return the problem with other claims, one for each member.

    >>> from assignors.model import Topic
    >>> problem = GroupProblem({"t": Topic(1)}, (Member("a", ("t",), rack="r"),))
    >>> with_claims(problem, [((("t", 0),), 3, None)]).members[0].owned_generation
    3
    """
    return with_members(problem, tuple([with_claim(member, claim) for member, claim in zip(problem.members, claims, strict=True)]))


def with_claim(member: Member, claim: Claim) -> Member:
    """Return the member with another claim."""
    # ``dataclasses.replace`` would take three times as long, for each member, strategy and generation.
    owned, generation, user_data = claim
    return Member(member.member_id, member.topics, member.group_instance_id, member.rack, owned, generation, user_data, member.streams)


def with_members(problem: GroupProblem, members: tuple[Member, ...]) -> GroupProblem:
    """Return the problem with members that differ in claims alone. Cached facts stay, because none of them depends on claims."""
    claiming = GroupProblem(problem.topics, members)
    claiming.answers.update(problem.answers)
    return claiming


Subscriptions = dict[str, frozenset[str]]
"""Owner -> the topics it subscribes to, existing or not. Owners with equal topic lists share one set."""


@once
def subscriptions_of(problem: GroupProblem) -> Subscriptions:
    """Return for each member id the topics it subscribes to, existing or not."""
    known: dict[tuple[str, ...], frozenset[str]] = {}
    return {member.member_id: _intern(known, member.topics) for member in problem.members}


def thread_subscriptions_of(problem: GroupProblem) -> Subscriptions:
    """Return for each consumer thread, ``<member_id>-<n>``, its topics; empty unless members have ``streams``.

    Thread n of a member has the topics for which the member registered more than n streams.

    >>> thread_subscriptions_of(GroupProblem(members=(Member("c", streams={"t": 2, "u": 1}),)))["c-1"]
    frozenset({'t'})
    """
    known: dict[tuple[str, ...], frozenset[str]] = {}
    return {
        thread_id(member, number): _intern(known, (topic for topic, streams in member.streams.items() if streams > number))
        for member in problem.members
        if member.streams
        for number in range(max(member.streams.values()))
    }


def thread_id(member: Member, number: int) -> str:
    """Return the id of a thread of a ZooKeeper consumer: the owner in results of the legacy assignors."""
    return f"{member.member_id}-{number}"


def distinct_subscriptions(members: Collection[Member]) -> dict[tuple[str, ...], None]:
    """Return the members' distinct topic lists, in the order of their first occurrence.

    In most groups all members have one list. To hash it for every member would take longer than a round robin over a million partitions.

    Raises:
        MalformedProblemError: a member's topics are a string, which would be read letter by letter, or a list or a set.

    >>> list(distinct_subscriptions([Member("a", ("t", "u")), Member("b", ("u",)), Member("c", ("t", "u"))]))
    [('t', 'u'), ('u',)]
    """
    try:
        distinct = dict.fromkeys({id(member.topics): member.topics for member in members}.values())
    except TypeError:
        member = next(member for member in members if not isinstance(member.topics, tuple))
        found = type(member.topics).__name__
        raise MalformedProblemError(f"member {member.member_id} subscribes to a {found}, expected a tuple of topic names") from None
    for topics in distinct:
        if isinstance(topics, str):
            member = next(member for member in members if member.topics is topics)
            raise MalformedProblemError(
                f"member {member.member_id} subscribes to the string {topics!r}, expected a tuple of topic names, such as {(topics,)!r}"
            )
    return distinct


@once
def existing_partition_counts(problem: GroupProblem) -> dict[str, int]:
    """Return the partition count of each topic that has partitions and a subscriber.

    Order: as the members first name the topics.
    """
    counts = {}
    for name in dict.fromkeys(chain.from_iterable(distinct_subscriptions(problem.members))):
        topic = problem.topics.get(name)
        if topic is not None and topic.partition_count:
            counts[name] = topic.partition_count
    return counts


@once
def subscribers_of(problem: GroupProblem) -> dict[frozenset[str], list[str]]:
    """Return the members by the existing topics that they subscribe to, see ``owners_by_topics``."""
    return owners_by_topics(subscriptions_of(problem), existing_partition_counts(problem))


@once
def subscribed_topics(problem: GroupProblem) -> frozenset[str]:
    """Return the topics, existing or not, to which a member subscribes."""
    return frozenset().union(*set(subscriptions_of(problem).values()))


@once
def layout_of(problem: GroupProblem) -> Layout:
    """Return numbers for the partitions that exist, subscribed or not."""
    return Layout.of(problem.topics)


def owners_by_topics(subscriptions: Subscriptions, topics: Mapping[str, object]) -> dict[frozenset[str], list[str]]:
    """Return the owners by the given topics that they subscribe to. Owners that subscribe to none of these are left out.

    One entry means equal subscriptions. Most groups have few distinct subscriptions, so a loop over topics and these entries is far
    shorter than one over topics and members.
    """
    by_subscription: dict[frozenset[str], list[str]] = {}
    for owner, subscribed in subscriptions.items():
        by_subscription.setdefault(subscribed, []).append(owner)
    by_topics: dict[frozenset[str], list[str]] = {}
    for subscribed, owners in by_subscription.items():
        by_topics.setdefault(frozenset(filter(topics.__contains__, subscribed)), []).extend(owners)
    by_topics.pop(frozenset(), None)
    return by_topics


def foreign_entries(held: Holdings, subscriptions: Subscriptions) -> Iterator[tuple[str, str]]:
    """Yield (owner, topic) if an owner was given partitions of a topic to which it does not subscribe."""
    topics, distinct = frozenset(held.topics), set(subscriptions.values())
    covering = {subscribed for subscribed in distinct if subscribed >= topics}
    if len(covering) == len(distinct) and subscriptions.keys() >= set(held.owners):
        return  # the usual case
    if all(subscriptions.get(owner) in covering for owner in held.owners):
        return
    for owner, topic, _ in held.entries():
        if topic not in subscriptions.get(owner, ()):
            yield owner, topic


def _intern(known: dict[tuple[str, ...], frozenset[str]], topics: Iterable[str]) -> frozenset[str]:
    topics = tuple(topics)
    if topics not in known:
        known[topics] = frozenset(topics)
    return known[topics]
