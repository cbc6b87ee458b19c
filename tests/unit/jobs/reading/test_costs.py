"""What generations cost, as the audits have it."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.reading.costs import Cost, GenerationCosts, read_costs
from jobs.reading.published import open_published
from jobs.reading.stored import GroupKey
from tests.builders.published_warehouse import Row, at, generation, member, write_warehouse

ONE = [member("a-1", ["t"], {"t": [0, 1]})]
G = GroupKey("c", "g")


def cost(movements: int | None, eager: int | None, cooperative: int | None, actual: int | None = None) -> Row:
    """Return the columns of an audit."""
    names = ("movement_count", "eager_revocation_count", "cooperative_revocation_count", "actual_revocation_count")
    return dict(zip(names, (movements, eager, cooperative, actual), strict=True))


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a warehouse with two generations of a group, and others that nobody asks for."""
    first = {**cost(None, None, None), "generation_gap": None}
    second = {**cost(3, 5, 2, 4), "generation_gap": 2, "previous_generation": 27, "is_follow_up": True}
    parts = [
        generation("g", 30, ONE, {"t": 2}, is_settled=False, audited=second, under={"sticky": cost(1, 6, 1), "uniform": first}),
        generation("g", 7, [], {}, strategy="", audited={**first, "is_settled": None, "generation_gap": -1}),
        generation("g", 7, ONE, {"t": 2}, cluster_id="d", audited=second),
        generation("h", 7, ONE, {"t": 2}, audited=second),
    ]
    return write_warehouse(tmp_path_factory.mktemp("costs"), *parts)


def test_generations_have_their_costs_in_order(warehouse: Path):
    found = read_costs(open_published(str(warehouse)), [G])
    assert list(found) == [G]
    before, after = found[G]
    assert before == GenerationCosts(7, 7, None, "", 0, 0, is_follow_up=False, is_settled=True, observed=None, by_strategy={})
    under = {"sticky": Cost(1, 6, 1, None), "uniform": None}
    assert after == GenerationCosts(
        30, 30, 27, "range", 1, 2, is_follow_up=True, is_settled=False, observed=Cost(3, 5, 2, 4), by_strategy=under
    )


@pytest.mark.parametrize(("seconds", "positions"), [(7, [7, 30]), (8, [30]), (30, [30])])
def test_span_begins_with_its_first_moment(warehouse: Path, seconds: float, positions: list[int]):
    found = read_costs(open_published(str(warehouse)), [G], at(seconds))
    assert [one.position for one in found[G]] == positions


def test_group_without_a_generation_in_the_span_is_not_there(warehouse: Path):
    found = read_costs(open_published(str(warehouse)), [G, GroupKey("c", "h")], at(8))
    assert list(found) == [G]
