"""All Delta tables, by the stage that writes them, and what exports compute from them.

``schemas.tables.columns`` describes how columns are declared and in which order.
"""

from __future__ import annotations

from schemas.contract import CONTRACT_PROPERTY as CONTRACT_PROPERTY
from schemas.contract import CONTRACT_VERSION as CONTRACT_VERSION
from schemas.contract import IDENTITY_PROPERTY as IDENTITY_PROPERTY
from schemas.tables.assigned import (
    ASSIGNMENTS as ASSIGNMENTS,
)
from schemas.tables.assigned import (
    GENERATION_TOPICS as GENERATION_TOPICS,
)
from schemas.tables.assigned import (
    GROUP_STATES as GROUP_STATES,
)
from schemas.tables.assigned import (
    SOLUTIONS as SOLUTIONS,
)
from schemas.tables.audited import FINDINGS as FINDINGS
from schemas.tables.audited import GENERATION_AUDITS as GENERATION_AUDITS
from schemas.tables.audited import MOVEMENTS as MOVEMENTS
from schemas.tables.columns import (
    TableSpec as TableSpec,
)
from schemas.tables.computed import CURRENT_LAG as CURRENT_LAG
from schemas.tables.landed import (
    GROUP_RECORDS as GROUP_RECORDS,
)
from schemas.tables.landed import (
    LAST_COMMITS as LAST_COMMITS,
)
from schemas.tables.landed import (
    OFFSET_SNAPSHOTS as OFFSET_SNAPSHOTS,
)
from schemas.tables.landed import (
    QUARANTINE as QUARANTINE,
)
from schemas.tables.landed import (
    SUBSCRIPTION_SNAPSHOTS as SUBSCRIPTION_SNAPSHOTS,
)
from schemas.tables.landed import (
    TOPIC_SNAPSHOTS as TOPIC_SNAPSHOTS,
)
from schemas.tables.logged import GROUP_EVENTS as GROUP_EVENTS
from schemas.tables.published import GATE_RESULTS as GATE_RESULTS
from schemas.tables.published import RUNS as RUNS
from schemas.tables.rehearsed import SCENARIO_ASSIGNMENTS as SCENARIO_ASSIGNMENTS
from schemas.tables.rehearsed import SCENARIO_AUDITS as SCENARIO_AUDITS
from schemas.tables.rehearsed import SCENARIOS as SCENARIOS

TABLES: dict[str, TableSpec] = {
    spec.name: spec
    for spec in (
        GROUP_RECORDS,
        GROUP_STATES,
        SUBSCRIPTION_SNAPSHOTS,
        GENERATION_TOPICS,
        TOPIC_SNAPSHOTS,
        OFFSET_SNAPSHOTS,
        ASSIGNMENTS,
        SOLUTIONS,
        MOVEMENTS,
        GENERATION_AUDITS,
        FINDINGS,
        QUARANTINE,
        RUNS,
    )
}
"""The tables of every warehouse, in the order in which a run writes them. ``runs`` is last, because its row publishes the run."""

REHEARSED_TABLES: dict[str, TableSpec] = {spec.name: spec for spec in (SCENARIOS, SCENARIO_AUDITS, SCENARIO_ASSIGNMENTS)}
"""The tables that ``what-if --save`` writes."""

OPTIONAL_TABLES: dict[str, TableSpec] = {LAST_COMMITS.name: LAST_COMMITS, GROUP_EVENTS.name: GROUP_EVENTS, **REHEARSED_TABLES}
"""Tables that exist from the first run that writes them. The newest row of ``runs`` names those of a warehouse."""

ALL_TABLES = {**OPTIONAL_TABLES, **TABLES}
"""Every table that a warehouse can have, by name."""

COMPUTED_TABLES: dict[str, TableSpec] = {CURRENT_LAG.name: CURRENT_LAG}
"""What exports have as tables, and no warehouse stores."""
