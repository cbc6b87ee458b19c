"""The examples in docstrings do what they show."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from types import ModuleType

import pytest

import assignors
import jobs
import schemas


@pytest.mark.parametrize(("package", "fewest"), [(assignors, 50), (jobs, 75), (schemas, 1)])
def test_every_example_does_what_it_shows(package: ModuleType, fewest: int) -> None:
    names = [module.name for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    modules = [importlib.import_module(name) for name in names if not name.endswith("__main__")]  # which would run a command
    results = [doctest.testmod(module) for module in (package, *modules)]
    assert sum(result.failed for result in results) == 0
    assert sum(result.attempted for result in results) >= fewest
