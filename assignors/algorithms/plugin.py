"""Calls of assignors that are not ours. They may raise and return anything, and must not spoil other results."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace

from assignors.model import Assignment, AssignorError, GroupProblem, TopicPartition
from assignors.registry import find_assignor

Bound = Callable[[str, Callable[[], Assignment]], Assignment]
"""The strategy's name and its call -> the result of the call; a ``NoResultError`` if it takes too long."""

LONGEST_TEXT = 1_000
_INT_MIN, _INT_MAX = -(2**31), 2**31 - 1


class OwnAssignorError(AssignorError):
    """An assignor that is not ours raised an unexpected error, or its result is not an assignment."""


def unbounded(strategy: str, call: Callable[[], Assignment]) -> Assignment:
    """Return the result of the call, without a time limit."""
    return call()


def ask_own_assignor(strategy: str, problem: GroupProblem, kafka_version: str | None, step_budget: int | None, bound: Bound) -> Assignment:
    """Return the assignment of an assignor that is not ours.

    Raises:
        AssignorError: it has no result, it is not known, or its time limit ended it.
        OwnAssignorError: any other error, also one that would end a process: ``SystemExit``, ``MemoryError``.
    """

    def ask() -> Assignment:
        theirs = replace(problem, topics=dict(problem.topics))  # other strategies use the same topics
        return as_assignment(problem, find_assignor(strategy)(theirs, kafka_version=kafka_version, step_budget=step_budget))

    try:
        return bound(strategy, ask)
    except AssignorError:
        raise
    except BaseException as error:
        raise OwnAssignorError(f"the assignor raised {type(error).__name__}: {text_of(error)}") from None


def as_assignment(problem: GroupProblem, answer: object) -> Assignment:
    """Return a result as plain tuples, strings and integers, so that it can be compared and stored.

    Lists may take the place of tuples, and any integer type that of ``int``. Wrong but well-formed assignments are kept, and ``violations``
    reports them.

    Raises:
        OwnAssignorError: the result is not an assignment to the members of this group.

    >>> from assignors.model import Member, Topic
    >>> as_assignment(GroupProblem({"t": Topic(1)}, (Member("a", ("t",)),)), {"a": [["t", 0]]})
    {'a': (('t', 0),)}
    """
    if not isinstance(answer, dict):
        raise OwnAssignorError(f"the assignor returned {_kind(answer)}, expected a dict from member id to partitions")
    members = {member.member_id: member.member_id for member in problem.members}
    assignment: Assignment = {}
    for owner, held in answer.items():
        if owner not in members:
            raise OwnAssignorError(f"the assignor gave partitions to {_name(owner)}, which is not a member")
        member_id = members[owner]
        if not isinstance(held, list | tuple):
            raise OwnAssignorError(f"the assignor gave member {member_id} {_kind(held)}, expected a tuple of partitions")
        assignment[member_id] = tuple(_partition(member_id, partition) for partition in held)
    return assignment


def _partition(member_id: str, partition: object) -> TopicPartition:
    if isinstance(partition, list | tuple) and len(partition) == 2 and isinstance(partition[0], str) and hasattr(partition[1], "__index__"):
        topic, number = str.__str__(partition[0]), int(operator.index(partition[1]))  # plain values, also from an enum or NumPy
        if _INT_MIN <= number <= _INT_MAX and storable(topic) == topic:
            return topic, number
    raise OwnAssignorError(f"the assignor gave member {member_id} {_name(partition)}, expected a partition such as ('orders', 3)")


def text_of(error: BaseException) -> str:
    """Return the message of an error, short enough to store; empty if reading the message fails too."""
    try:
        return storable(str(error))[:LONGEST_TEXT]
    except BaseException:  # the class of the error is not ours either
        return ""


def storable(text: str) -> str:
    """Return a string without lone surrogates, which tables cannot store.

    >>> storable("\\ud800 caf\\u00e9")
    '\\\\ud800 café'
    """
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _kind(value: object) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"


def _name(value: object) -> str:
    return storable(repr(value))[:LONGEST_TEXT] if isinstance(value, str | int | tuple | list) else _kind(value)
