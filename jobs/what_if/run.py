"""What if: changes to stored groups, played before they are made. Reads the last published run, locks nothing, writes no table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from jobs.reading.groups import read_named_groups
from jobs.reading.published import open_published
from jobs.reading.stored import PartitionWeights, StoredGeneration
from jobs.reading.weights import read_weights
from jobs.runtime.errors import NotAWarehouseError, UsageError
from jobs.runtime.locations import local_folder, masked, on_one_line
from jobs.what_if.changes import Changes
from jobs.what_if.deploy import Deploy, play_deploy
from jobs.what_if.document import Document, group_document
from jobs.what_if.migrate import plan_fleet
from jobs.what_if.options import WhatIfOptions
from jobs.what_if.past import answer_past, check_past
from jobs.what_if.rehearsal import Curve, Rehearsal, Subject, draw_curve, rehearse, require_outcome
from jobs.what_if.text import curve_lines, group_lines
from jobs.what_if.written_changes import read_changes


def run(options: WhatIfOptions, warehouse: str) -> str:
    """Return what changes to groups would lead to, a plan, or an answer about their past, as text or as one JSON document.

    A group that cannot be played is a line of the answer where others can.

    Args:
        warehouse: where the tables are.

    Raises:
        UsageError: options or file have mistakes, a group is not there, or no group can be played.
        NotAWarehouseError: there are no tables, or nothing is published.
        WarehouseDamagedError: a table cannot be read.
    """
    if options.wait or options.run_id is not None:
        raise UsageError("--wait and --run-id need --save: without it nothing is written")
    if local_folder(warehouse) is None:
        where = f"warehouse {masked(warehouse)}: found no local folder"
        raise NotAWarehouseError(f"{where}, expected one; or write the results to tables there with --save")
    if options.groups and options.all:
        raise UsageError("--all excludes names of groups")
    if options.migrate:
        return plan_fleet(options, warehouse)
    if options.output is not None:
        raise UsageError("--output goes with --migrate")
    if options.history or options.backtest:
        check_past(options)
        return answer_past(options, open_published(warehouse))
    if options.since is not None:
        raise UsageError("--since goes with --history or --backtest")
    if not options.groups and not options.all:
        raise UsageError("what-if: found no group, expected names, patterns or --all")
    scenarios = read_changes(options)
    tables = open_published(warehouse)
    groups, refusals = read_named_groups(tables, options.groups, every_group=options.all, cluster_id=options.cluster_id)
    weights = read_weights(tables, groups, {topic for changes in scenarios.values() for topic in changes.subscribe or ()})
    answers: list[_Answer] = []
    for stored in groups:
        try:
            answers.append(_answer(options, scenarios, stored, weights[stored.key]))
        except UsageError as error:
            refusals.append(error)
    if not answers:
        raise refusals[0]
    if options.json:
        return json.dumps([answer.document() for answer in answers], indent=1)
    blocks = ["\n".join(answer.lines()) for answer in answers]
    return "\n\n".join([*blocks, *(on_one_line(f"not played: {refusal}") for refusal in refusals)])


@dataclass(frozen=True)
class _Answer:
    """What is said of one group: about scenarios, or about member counts."""

    subject: Subject
    rehearsals: Sequence[Rehearsal] = ()
    deploy: Deploy | None = None
    curve: Curve | None = None

    def lines(self) -> Iterator[str]:
        """Return it for a terminal."""
        return group_lines(self.subject, self.rehearsals, self.deploy) if self.curve is None else curve_lines(self.subject, self.curve)

    def document(self) -> Document:
        """Return it for other programs."""
        return group_document(self.subject, self.rehearsals, self.deploy, self.curve)


def _answer(options: WhatIfOptions, scenarios: Mapping[str, Changes], stored: StoredGeneration, weights: PartitionWeights) -> _Answer:
    """Return what is said of one group.

    Raises:
        UsageError: no strategy can play any of the scenarios.
    """
    subject = Subject.of(stored, weights, options.threads_per_member)
    if options.members is not None:
        curve = draw_curve(subject, scenarios[""], options.members)
        require_outcome([count.rehearsal for count in curve.counts], stored.key.group_id)
        return _Answer(subject, curve=curve)
    rehearsals = [rehearse(subject, name, changes) for name, changes in scenarios.items()]
    require_outcome(rehearsals, stored.key.group_id)
    deploy = play_deploy(subject) if any(changes.static_ids for changes in scenarios.values()) else None
    return _Answer(subject, rehearsals, deploy)
