"""Settings: one frozen pydantic model; a YAML file and the command line fill it, unknown keys are refused."""

from __future__ import annotations

import difflib
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from schemas.vocabulary import STRATEGIES, Severity

MOST = 2**31 - 1
"""The largest count that a Spark expression takes."""
MOST_DAYS = 36_500
"""A hundred years: a moment before the year 1 is none."""


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class KafkaVersionOverride(_Settings):
    """Names the release that the leaders of some groups run; patterns are shell globs, all given ones must match."""

    version: str
    cluster: str = "*"
    group: str = "*"
    client_id: str = "*"


class AssignSettings(_Settings):
    """How generations are packed for the workers, what is kept of them, and how long an assignor may take.

    Attributes:
        keep_counterfactuals: whether ``assignments`` gets rows of every solution, not only of what happened.
    """

    max_generations_per_chunk: int = Field(default=500, ge=1, le=MOST)
    max_chunk_bytes: int = Field(default=8 * 1024 * 1024, ge=1, le=MOST)
    checkpoint_generations: int = Field(default=500, ge=1, le=MOST)
    step_budget: int | None = Field(default=None, ge=1, le=MOST)
    plugin_timeout_s: float = Field(default=60, gt=0, le=1_000_000)
    kafka_versions: tuple[KafkaVersionOverride, ...] = ()
    keep_counterfactuals: bool = False


class AuditSettings(_Settings):
    """What the audit tells.

    Attributes:
        max_look_delay_s: a lag is not told by a look that is later than its moment by more seconds; None: by the next look, however late.
    """

    max_look_delay_s: float | None = Field(default=None, ge=0, le=MOST)


class WorkerSettings(_Settings):
    """What one Python worker may use: MiB beyond what it has when it begins, and seconds without a result, before its group fails.

    An assignor's own bound (``assign.step_budget``) ends far earlier than an hour; what takes longer does not come back.
    """

    memory_mb: int = Field(default=4096, ge=64, le=MOST)
    idle_timeout_s: float = Field(default=3600, gt=0, le=1_000_000)


class QualitySettings(_Settings):
    """When a run is not good enough to publish."""

    max_quarantined_ratio: float = Field(default=0.05, ge=0, le=1)
    fail_on: Severity | None = None


ExportFormat = Literal["csv", "json", "prometheus"]


class ReportSettings(_Settings):
    """What the report shows and where it goes; no ``output`` means beside the tables.

    Attributes:
        group_pages: folder for a page of each group whose details are not on the report's own; None writes none.
        export: what is written for other programs, into ``export_dir``, or beside the page.
        worst_groups: groups whose details are collected for the page, which shows as many of them as it has room for.
        max_detail_rows: rows of all these details together; the fewer groups there are, the more of each is shown.
    """

    output: str | None = None
    group_pages: str | None = None
    export: tuple[ExportFormat, ...] = ()
    export_dir: str | None = None
    worst_groups: int = Field(default=100, ge=0, le=MOST)
    max_detail_rows: int = Field(default=100_000, ge=1, le=MOST)


class MaintainSettings(_Settings):
    """How long history is kept, in whole months, and files that no table version names any more.

    Spark's own 168 hours are the least for files: a run that takes longer, or a reader that is slower, would lose files it is using.
    """

    retention_days: int = Field(default=730, ge=1, le=MOST_DAYS)
    counterfactual_days: int = Field(default=30, ge=1, le=MOST_DAYS)
    vacuum_hours: int = Field(default=168, ge=168, le=24 * MOST_DAYS)


class Settings(_Settings):
    """Everything a run needs to know besides its name and its clock."""

    inputs: tuple[str, ...] = ()
    warehouse: str = "./warehouse"
    cluster_id: str | None = Field(default=None, min_length=1)
    strategies: tuple[str, ...] = STRATEGIES
    assign: AssignSettings = AssignSettings()
    audit: AuditSettings = AuditSettings()
    workers: WorkerSettings = WorkerSettings()
    quality: QualitySettings = QualitySettings()
    report: ReportSettings = ReportSettings()
    maintain: MaintainSettings = MaintainSettings()

    @field_validator("strategies")
    @classmethod
    def _no_strategy_twice(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"named more than once: {', '.join(repeated)}")
        return names


LONGEST_VALUE = 200
"""Characters that messages show of a value."""


def parse_settings(content: Any, origin: str) -> Settings:
    """Return checked settings.

    Args:
        content: what the YAML file held; None for an empty file.
        origin: name of the file, for messages.

    Raises:
        ValueError: with one line per mistake: the key, what was found, what is expected.
    """
    if content is not None and not isinstance(content, dict):
        raise ValueError(f"{origin}: expected keys and values, found {type(content).__name__}")
    try:
        return Settings.model_validate(content or {})
    except ValidationError as error:
        raise ValueError(explain_mistakes(error, origin, Settings)) from None


def explain_mistakes(error: ValidationError, origin: str, model: type[BaseModel]) -> str:
    """Return one line per mistake: where, the key, what was found, what is expected, and the nearest key that there is.

    Args:
        origin: name of the file, for messages.
        model: what was validated.
    """
    return "\n".join(f"{origin}: {_explain(mistake, model)}" for mistake in error.errors())


def _explain(mistake: Any, model: type[BaseModel]) -> str:
    key = ".".join(str(part) for part in mistake["loc"])
    if mistake["type"] == "extra_forbidden":
        return f"unknown key {key!r}{_near_miss(mistake['loc'], model)}"
    return f"{f'{key}: ' if key else ''}{mistake['msg']}, found {_shown(mistake['input'])}"


def _shown(value: Any) -> str:
    """Return what messages show of a value: of several together only what they are, since a password may be among them."""
    if isinstance(value, dict):
        return f"the keys {', '.join(map(str, value)) or '(none)'}"[:LONGEST_VALUE]
    return "a list" if isinstance(value, (list, tuple)) else repr(value)[:LONGEST_VALUE]


def _near_miss(location: tuple[Any, ...], outermost: type[BaseModel]) -> str:
    model: Any = outermost
    for part in location[:-1]:
        found = model.model_fields.get(part) if isinstance(part, str) else None
        model = found.annotation if found is not None and hasattr(found.annotation, "model_fields") else KafkaVersionOverride
    names = list(model.model_fields)
    close = difflib.get_close_matches(str(location[-1]), names, n=1)
    return f": did you mean '{close[0]}'?" if close else f": known keys are {', '.join(names)}"
