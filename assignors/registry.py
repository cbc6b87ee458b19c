"""The function of a strategy name.

An assignor is a function ``f(problem, *, kafka_version, step_budget) -> Assignment``. Kafka's own are in ``BUILT_IN``. A package adds its
own by the entry-point group ``evenkeel.assignors``. A setting can also name any function as ``package.module:function``.
"""

from __future__ import annotations

import importlib
from functools import cache
from importlib.metadata import entry_points
from typing import Protocol

from assignors.model import Assignment, GroupProblem, UnknownStrategyError

ENTRY_POINT_GROUP = "evenkeel.assignors"

BUILT_IN = {
    "range": "assignors.algorithms.range:assign_range",
    "roundrobin": "assignors.algorithms.round_robin:assign_round_robin",
    "sticky": "assignors.algorithms.sticky:assign_sticky",
    "cooperative-sticky": "assignors.algorithms.sticky:assign_cooperative_sticky",
    "uniform": "assignors.algorithms.server_side:assign_uniform",
    "server-range": "assignors.algorithms.server_side:assign_server_range",
    "legacy-range": "assignors.algorithms.legacy:assign_legacy_range",
    "legacy-roundrobin": "assignors.algorithms.legacy:assign_legacy_round_robin",
}


class Assignor(Protocol):
    """The signature of every assignor, built in or not."""

    def __call__(self, problem: GroupProblem, *, kafka_version: str | None, step_budget: int | None) -> Assignment: ...


@cache  # entry points are read from disk
def find_assignor(strategy: str) -> Assignor:
    """Return the assignor of a strategy name, an entry point of ``evenkeel.assignors``, or a path ``package.module:function``.

    Raises:
        UnknownStrategyError: no assignor has this name, or it cannot be imported.

    >>> find_assignor("range").__name__
    'assign_range'
    """
    if strategy in BUILT_IN:
        return _load(strategy, BUILT_IN[strategy])
    for entry_point in entry_points(group=ENTRY_POINT_GROUP):
        if entry_point.name == strategy:
            return _load(strategy, entry_point.value)
    if is_path(strategy):
        return _load(strategy, strategy)
    raise UnknownStrategyError(
        f"no assignor is called {strategy!r}; known are {', '.join(BUILT_IN)}, the entry points of the group {ENTRY_POINT_GROUP!r}, "
        "and paths of the form package.module:function"
    )


def is_path(strategy: str) -> bool:
    """Return whether a strategy name is a path ``package.module:function``. ``find_assignor`` imports a path."""
    return ":" in strategy


def _load(strategy: str, path: str) -> Assignor:
    module, _, name = path.partition(":")
    try:
        assignor: object = getattr(importlib.import_module(module), name)
    except Exception as error:  # an import of a wrong path fails, and a module may raise anything during its import
        raise UnknownStrategyError(f"the assignor {strategy!r} cannot be loaded from {path!r}: {error}") from error
    if not callable(assignor):
        raise UnknownStrategyError(f"the assignor {strategy!r} at {path!r} is a {type(assignor).__name__}, not a function")
    return assignor
