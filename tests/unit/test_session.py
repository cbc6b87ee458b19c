"""What can be told of a session by its settings alone."""

from __future__ import annotations

import pytest

from jobs.session import advice_on_master


@pytest.mark.parametrize(("master", "instead"), [("local", "local[1,4]"), ("local[2]", "local[2,4]"), ("local[*]", "local[*,4]")])
def test_a_master_that_tries_nothing_again_is_told(master: str, instead: str) -> None:
    advice = advice_on_master(master)
    assert advice is not None and advice.startswith(f"master {master} gives up") and f"; {instead} tries again" in advice


@pytest.mark.parametrize("master", ["local[2,4]", "local[*, 4]", "local-cluster[2,1,1024]", "yarn", "spark://host:7077", ""])
def test_of_other_masters_nothing_is_told(master: str) -> None:
    assert advice_on_master(master) is None
