"""An assignor that records its problems, so that tests see the claims that a strategy gets."""

from __future__ import annotations

from assignors import Assignment, GroupProblem, assign

RECORDING = "tests.builders.recording:assign_recording"
"""The strategy: a path to the function below."""

asked: list[GroupProblem] = []
failures: list[Exception] = []


def assign_recording(problem: GroupProblem, *, kafka_version: str | None, step_budget: int | None) -> Assignment:
    """Return the result of range with each list reversed; first raise the next of ``failures``, if there is one."""
    asked.append(problem)
    if failures:
        raise failures.pop()
    return {member_id: held[::-1] for member_id, held in assign("range", problem).items()}


def claims() -> dict[str, tuple]:
    """Return the claims in the last problem: member id -> (partitions, generation), without members that have no claims."""
    claiming = [member for member in asked[-1].members if member.owned_generation is not None]
    return {member.member_id: (member.owned, member.owned_generation) for member in claiming}
