"""What if groups moved to the consumer protocol: the plan for a fleet, printed, and written as a page where that is asked for."""

from __future__ import annotations

import json
from pathlib import Path

from jobs.reading.groups import find_groups, read_groups
from jobs.reading.published import open_published
from jobs.reading.weights import read_weights
from jobs.runtime.errors import UsageError
from jobs.runtime.output_files import check_migration_page, write_output
from jobs.what_if.migration import FleetPlan, in_order, plan_migration
from jobs.what_if.migration_text import fleet_document, plan_lines
from jobs.what_if.options import WhatIfOptions

PAGE_ENDINGS = (".html", ".htm")
_EXCLUDED = (
    *("add_members", "remove_members", "partitions", "subscribe", "static_ids", "rack", "protocol", "scenario", "strategies", "members"),
    *("threads_per_member", "history", "backtest", "since"),
)


def plan_fleet(options: WhatIfOptions, warehouse: str) -> str:
    """Return the plan for the groups that are asked for, as text or as one JSON document; write its page where ``--output`` is given.

    Without names it is about all groups. With a page, the last line of the text is its path.

    Args:
        warehouse: where the tables are.

    Raises:
        UsageError: options exclude each other, a group is not there, no group is classic, or the page would replace another file.
        PlatformError: a page is asked for, and Jinja is not installed.
        NotAWarehouseError: there are no tables, or nothing is published.
        WarehouseDamagedError: a table cannot be read.
        EvenkeelError: the page cannot be written.
    """
    _check(options, warehouse)
    tables = open_published(warehouse)
    every_group = options.all or not options.groups
    groups = read_groups(tables, options.groups, every_group=every_group, cluster_id=options.cluster_id)
    classic = [stored for stored in groups if not stored.is_consumer_protocol]
    if not classic:
        counted = "the group uses" if len(groups) == 1 else f"all {len(groups)} groups use"
        raise UsageError(f"--migrate: {counted} the consumer protocol already, expected a classic group")
    weights = read_weights(tables, classic)
    planned = {stored.key for stored in groups}
    asked_for = find_groups(tables, options.groups, every_group=every_group, cluster_id=options.cluster_id)
    plans = in_order(plan_migration(stored, weights[stored.key]) for stored in classic)
    fleet = FleetPlan(tuple(plans), len(groups) - len(classic), tuple(key for key in asked_for if key not in planned))
    if options.output is not None:
        _write(fleet, tables.run_id, options.output)
    if options.json:
        return json.dumps(fleet_document(fleet), indent=1)
    return "\n".join([*plan_lines(fleet), *([] if options.output is None else [str(options.output)])])


def _check(options: WhatIfOptions, warehouse: str) -> None:
    """Refuse changes, since the plan has one of its own, and a page that would replace another file.

    Raises:
        UsageError: naming the option.
    """
    plain = WhatIfOptions()
    for name in _EXCLUDED:
        if getattr(options, name) != getattr(plain, name):
            raise UsageError(f"--migrate excludes --{name.replace('_', '-')}: it plays the move to the consumer protocol only")
    if options.output is not None:
        if options.output.suffix.lower() not in PAGE_ENDINGS:
            found = f"found {str(options.output)!r}"
            raise UsageError(
                f"--output: expected a name that ends with .html, since a page is written, {found}; the plan is printed as text"
            )
        check_migration_page(options.output, warehouse)


def _write(fleet: FleetPlan, run_id: str, path: Path) -> None:
    """Write the page, and further ones where it has no room for all lines.

    Raises:
        EvenkeelError: a file cannot be written.
    """
    from jobs.what_if.migration_page import render_plan  # imported here: only a page needs Jinja

    for name, html in render_plan(fleet, run_id, path.name).items():
        write_output([html], path.with_name(name), "what-if")
