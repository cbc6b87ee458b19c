"""Buckets of groups go to tasks so that no task has much more work than another one."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from jobs.workers.partitions import BUCKETS, balanced_tasks

WORK = st.dictionaries(st.integers(0, BUCKETS - 1), st.integers(0, 1_000), max_size=7)


def totals(work: dict[int, int], tasks: list[int], task_count: int) -> list[int]:
    """Return the work of each task."""
    return [sum(amount for number, amount in work.items() if tasks[number] == task) for task in range(task_count)]


@given(WORK, st.integers(1, 3))
def test_the_last_task_ends_at_most_a_third_later_than_in_the_best_division(work: dict[int, int], task_count: int) -> None:
    best = min(
        max(sum(amount for amount, task in zip(work.values(), tasks, strict=True) if task == one) for one in range(task_count))
        for tasks in product(range(task_count), repeat=len(work))
    )
    found = totals(work, balanced_tasks(work, task_count), task_count)
    assert 3 * max(found) <= 4 * best
    assert found == sorted(found, reverse=True), "the task with the most work starts first"


def test_buckets_without_known_work_go_to_all_tasks() -> None:
    tasks = balanced_tasks({5: 100}, 3)
    assert len(tasks) == BUCKETS
    assert all(abs(tasks.count(task) - BUCKETS / 3) < 3 for task in range(3))
    assert tasks[5] == 0
