"""Changes as options or a YAML file write them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from assignors.model import UnknownStrategyError
from assignors.registry import find_assignor
from jobs.runtime.errors import UsageError
from jobs.runtime.yaml_file import read_yaml
from jobs.what_if.changes import Changes
from jobs.what_if.options import MOST_COUNT, WhatIfOptions
from schemas.config import explain_mistakes


class WrittenChanges(BaseModel):
    """The keys of one scenario, see ``Changes``, which workers import without pydantic."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    add_members: int | tuple[str, ...] = 0
    remove_members: int | str = 0
    partitions: dict[str, int] = Field(default_factory=dict)
    subscribe: tuple[str, ...] | None = Field(default=None, min_length=1)
    static_ids: bool = False
    rack: dict[str, str] = Field(default_factory=dict)
    protocol: str | None = None
    strategies: tuple[str, ...] | None = Field(default=None, min_length=1)

    @field_validator("add_members", "remove_members", "partitions", mode="before")
    @classmethod
    def _no_truth(cls, value: object) -> object:
        """Refuse ``yes`` and ``true`` as a count: they would be taken for 1."""
        if isinstance(value, bool) or (isinstance(value, Mapping) and any(isinstance(one, bool) for one in value.values())):
            raise ValueError("expected a number, not a truth value")
        return value

    def changes(self) -> Changes:
        """Return them checked."""
        return Changes(**dict(self))


CHANGES = tuple(name for name in WrittenChanges.model_fields if name != "strategies")


def read_changes(options: WhatIfOptions) -> dict[str, Changes]:
    """Return the changes by the name of their scenario; those of the options are called ``''``.

    Raises:
        UsageError: the file cannot be read or has mistakes, one line each; or options exclude each other; or there is no such strategy; or
            members of several consumers are too many consumers.
    """
    scenarios = _read_changes(options)
    _check_consumers(scenarios, options)
    _check_strategies(scenarios.values())
    return scenarios


def check_save(options: WhatIfOptions) -> None:
    """Check the options of a run that saves.

    Raises:
        UsageError: they name no group, exclude each other or have mistakes.
    """
    others = [name for name in ("history", "backtest", "since", "migrate", "output", "json") if getattr(options, name)]
    if others:
        raise UsageError(f"--save excludes --{others[0]}: it writes the results of changes")
    if bool(options.groups) == options.all:
        raise UsageError("--all excludes names of groups" if options.all else "what-if: found no group, expected names, patterns or --all")
    read_changes(options)


def _read_changes(options: WhatIfOptions) -> dict[str, Changes]:
    given = given_changes(options)
    if options.members is not None and {"add_members", "remove_members"}.intersection(given):
        raise UsageError("--members excludes --add-members and --remove-members: it tries counts of its own")
    counts = [name for name in ("add_members", "remove_members") if isinstance(getattr(options, name), int) and name in given]
    if options.threads_per_member != 1 and options.scenario is None and options.members is None and not counts:
        raise UsageError("--threads-per-member needs --members, or a number of members that join or leave")
    if options.scenario is None:
        values = {name: getattr(options, name) for name in given}
        values.update({name: dict(values[name]) for name in ("partitions", "rack") if name in values})
        return {"": WrittenChanges(**values, strategies=options.strategies).changes()}
    if given or options.members is not None:
        raise UsageError(f"--scenario excludes --{(given or ['members'])[0].replace('_', '-')}: write the change into the file")
    return _read_file(options.scenario, options.strategies)


def given_changes(options: WhatIfOptions) -> list[str]:
    """Return the names of the changes that the options ask for."""
    return [name for name in CHANGES if getattr(options, name) not in (None, 0, False, ())]


def _read_file(path: Path, strategies: tuple[str, ...] | None) -> dict[str, Changes]:
    content, where = read_yaml(path, "--scenario"), f"--scenario {path}"
    if not isinstance(content, dict) or not content:
        found = "nothing" if not content else type(content).__name__
        raise UsageError(f"{where}: expected names of scenarios, each with its changes, found {found}")
    scenarios: dict[str, Changes] = {}
    mistakes: list[str] = []
    for name, values in content.items():
        if str(name) in scenarios:
            mistakes.append(f"{where}: scenario {str(name)!r}: found the name twice, once as another type, expected each name once")
        try:
            changes = WrittenChanges.model_validate({} if values is None else values).changes()
        except ValidationError as error:
            mistakes.append(explain_mistakes(error, f"{where}: scenario {name!r}", WrittenChanges))
        else:
            mistakes += (f"{where}: scenario {name!r}: {too_large}" for too_large in _too_large(changes))
            is_free = changes.strategies is None and strategies is not None
            scenarios[str(name)] = replace(changes, strategies=strategies) if is_free else changes
    if mistakes:
        raise UsageError("\n".join(mistakes))
    return scenarios


def _too_large(changes: Changes) -> Iterator[str]:
    """Yield which counts are larger than options take; what is too small for a change the scenario says."""
    counts = {"add_members": changes.add_members, **{f"partitions.{topic}": count for topic, count in changes.partitions.items()}}
    for key, count in counts.items():
        if isinstance(count, int) and count > MOST_COUNT:
            yield f"{key}: expected a count up to {MOST_COUNT}, found {count}"


def _check_consumers(scenarios: Mapping[str, Changes], options: WhatIfOptions) -> None:
    """Refuse more consumers than any group has, before any of them is made.

    Raises:
        UsageError: naming the option or the scenario.
    """
    counts = {name: changes.add_members for name, changes in scenarios.items() if isinstance(changes.add_members, int)}
    asked = [(f"scenario {name!r}: add_members" if name else "--add-members", count) for name, count in counts.items()]
    if options.members is not None:
        asked.append(("--members", options.members[1]))
    for what, count in asked:
        if count * options.threads_per_member > MOST_COUNT:
            found = f"{count} members of {options.threads_per_member} consumers"
            raise UsageError(f"{what} with --threads-per-member: found {found}, expected at most {MOST_COUNT} consumers")


def _check_strategies(scenarios: Iterable[Changes]) -> None:
    """Refuse an unknown strategy before any group is read.

    Raises:
        UsageError: a strategy is unknown; the message lists the known ones.
    """
    try:
        for strategy in {name for changes in scenarios for name in changes.strategies or ()}:
            find_assignor(strategy)
    except UnknownStrategyError as error:
        raise UsageError(f"--strategies: {error}") from None
