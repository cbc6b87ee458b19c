"""The examples in the docstrings of the assignors do what they show."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import assignors


def test_every_example_does_what_it_shows() -> None:
    names = [module.name for module in pkgutil.walk_packages(assignors.__path__, "assignors.")]
    results = [doctest.testmod(importlib.import_module(name)) for name in ("assignors", *names)]
    assert sum(result.failed for result in results) == 0
    assert sum(result.attempted for result in results) > 50
