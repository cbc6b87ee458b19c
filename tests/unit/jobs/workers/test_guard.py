"""How a worker's process is set up for its work."""

from __future__ import annotations

import gc

from jobs.workers.guard import OBJECTS_PER_COLLECTION, few_collections


def test_a_worker_collects_rarely_and_afterwards_as_before() -> None:
    before = gc.get_threshold()
    with few_collections():
        assert gc.get_threshold() == (OBJECTS_PER_COLLECTION, *before[1:])
    assert gc.get_threshold() == before
