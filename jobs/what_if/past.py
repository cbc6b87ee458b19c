"""Answers about what has happened: what it would have cost under other assignors, and how well it is predicted."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from typing import Any

from jobs.backtest.judging import judge_predictions
from jobs.reading.costs import read_costs
from jobs.reading.generations import read_generations
from jobs.reading.groups import find_groups, in_batches
from jobs.reading.published import PublishedTables
from jobs.reading.stored import GroupKey
from jobs.runtime.errors import UsageError
from jobs.what_if.backtest_text import backtest_document, backtest_lines
from jobs.what_if.history import History, look_back
from jobs.what_if.history_text import history_document, history_lines
from jobs.what_if.options import WhatIfOptions
from jobs.what_if.written_changes import given_changes

logger = logging.getLogger(__name__)

GENERATIONS_AT_ONCE = 5_000
"""Generations whose audits are in memory at the same time, if they are not of one group."""


def check_past(options: WhatIfOptions) -> None:
    """Do nothing where options of the past go together.

    Raises:
        UsageError: one excludes another.
    """
    asked = "--history" if options.history else "--backtest"
    if options.history and options.backtest:
        raise UsageError("--history excludes --backtest: ask for one after the other")
    given = given_changes(options)
    given += [name for name in ("members", "scenario", "strategies") if getattr(options, name) is not None]
    if options.threads_per_member != 1:
        given.append("threads_per_member")
    if given:
        raise UsageError(f"{asked} excludes --{given[0].replace('_', '-')}: it is about what has happened, and plays no change")


def answer_past(options: WhatIfOptions, tables: PublishedTables) -> str:
    """Return the history or the backtest of groups, of all where none is named, as text or as one JSON document.

    Raises:
        UsageError: a group is not there, or has no generation in the span.
        WarehouseDamagedError: a table cannot be read.
    """
    groups = find_groups(tables, options.groups, every_group=options.all or not options.groups, cluster_id=options.cluster_id)
    if options.history:
        return _history(options, tables, groups)
    return _backtest(options, tables, groups)


def _history(options: WhatIfOptions, tables: PublishedTables, groups: Mapping[GroupKey, int]) -> str:
    histories: dict[GroupKey, History] = {}
    for batch in _batches(groups):
        histories.update((key, look_back(costs)) for key, costs in read_costs(tables, batch, options.since).items())
    if not histories:
        raise _nothing_since(options)
    if options.json:
        return _json(history_document(histories, options.since))
    return "\n".join(history_lines(histories, options.since))


def _backtest(options: WhatIfOptions, tables: PublishedTables, groups: Mapping[GroupKey, int]) -> str:
    generations = (one for batch in _batches(groups) for one in read_generations(tables, batch, options.since))
    judged = judge_predictions(generations, lambda one: options.since is None or one.observed_at >= options.since)
    if not judged.backtest.shares and not judged.backtest.omissions:
        raise _nothing_since(options)
    return _json(backtest_document(judged)) if options.json else "\n".join(backtest_lines(judged))


def _batches(groups: Mapping[GroupKey, int]) -> Iterator[list[GroupKey]]:
    """Yield the groups in batches, and log how far it is where there are several."""
    done = 0
    for batch in in_batches(groups, GENERATIONS_AT_ONCE):
        yield batch
        done += len(batch)
        if len(batch) < len(groups):
            logger.info("%d of %d groups are done", done, len(groups))


def _nothing_since(options: WhatIfOptions) -> UsageError:
    since = f" since {options.since:%Y-%m-%d %H:%M:%S} UTC" if options.since is not None else ""
    return UsageError(f"these groups have no generation{since}: expected one at least; name an earlier time with --since, or other groups")


def _json(document: Any) -> str:
    return json.dumps(document, indent=1)
