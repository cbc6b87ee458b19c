"""Settings: one frozen pydantic model, filled from a YAML file and the command line. Unknown keys are refused."""

from __future__ import annotations

import difflib
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from schemas.vocabulary import STRATEGIES, Severity

MOST = 2**31 - 1
"""The largest count that a Spark expression takes."""
MOST_DAYS = 36_500
"""A hundred years. More could lead to a time before the year 1, which does not exist."""

DEFAULT_RETENTION_HOURS = 168
"""Kafka's default of ``offsets.retention.minutes`` since 2.0."""

MOST_SESSION_S = 86_400
"""A day."""

MOST_PREDICTED = 10_000
"""The largest number of generations that a report predicts."""


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class KafkaVersionOverride(_Settings):
    """The Kafka release that the leaders of some groups run. Patterns are shell globs; all given ones must match."""

    version: str
    cluster: str = "*"
    group: str = "*"
    client_id: str = "*"


class AssignSettings(_Settings):
    """How generations are packed for the workers, which rows are kept, and how long an assignor may take.

    Attributes:
        keep_counterfactuals: whether ``assignments`` gets rows of every solution, or only of observed and of different recomputed ones.
    """

    max_generations_per_chunk: int = Field(default=500, ge=1, le=MOST)
    max_chunk_bytes: int = Field(default=8 * 1024 * 1024, ge=1, le=MOST)
    checkpoint_generations: int = Field(default=500, ge=1, le=MOST)
    step_budget: int | None = Field(default=None, ge=1, le=MOST)
    plugin_timeout_s: float = Field(default=60, gt=0, le=1_000_000)
    kafka_versions: tuple[KafkaVersionOverride, ...] = ()
    keep_counterfactuals: bool = False


class AuditSettings(_Settings):
    """What the audit computes.

    Attributes:
        max_look_delay_s: a lag is null if its metadata snapshot is later than the movement by more seconds. None: no limit.
        offsets_retention_hours: how long brokers keep commits that nobody uses (``offsets.retention.minutes``). No capture has it, so it is
            assumed.
        consumer_session_timeout_s: session timeout of members of the consumer protocol (``group.consumer.session.timeout.ms``). No
            capture has it either.
    """

    max_look_delay_s: float | None = Field(default=None, ge=0, le=MOST)
    offsets_retention_hours: int = Field(default=DEFAULT_RETENTION_HOURS, ge=1, le=24 * MOST_DAYS)
    consumer_session_timeout_s: float = Field(default=45, gt=0, le=MOST_SESSION_S)


class WorkerSettings(_Settings):
    """Limits of one Python worker, beyond which its group fails: MiB in addition to those at its start, and seconds without a result.

    ``assign.step_budget`` stops an assignor far earlier than an hour. Work that takes longer will not end.
    """

    memory_mb: int = Field(default=4096, ge=64, le=MOST)
    idle_timeout_s: float = Field(default=3600, gt=0, le=1_000_000)


class QualitySettings(_Settings):
    """When a run is not published."""

    max_quarantined_ratio: float = Field(default=0.05, ge=0, le=1)
    fail_on: Severity | None = None


ExportFormat = Literal["csv", "json", "prometheus"]


class ReportSettings(_Settings):
    """What the report shows and where it is written. Without ``output`` it is written beside the tables.

    Attributes:
        group_pages: folder for one page per group whose details are not on the page of the report; None writes no such pages.
        export: formats for other programs, written into ``export_dir`` or beside the page.
        worst_groups: number of groups whose details are collected. The page shows as many of them as it has room for.
        max_detail_rows: rows of all these details together. With fewer groups, each has more rows.
        record_bytes: mean size of a record as brokers send it, compressed; no source shows it. With it the report says how many bytes come
            from other racks.
        price_per_gb: what 10^9 bytes between racks cost, in any currency.
        backtest_generations: most generations that are predicted, to show how good predictions are; 0 leaves this part out. The driver
            has them in memory.
    """

    output: str | None = None
    group_pages: str | None = None
    export: tuple[ExportFormat, ...] = ()
    export_dir: str | None = None
    worst_groups: int = Field(default=100, ge=0, le=MOST)
    max_detail_rows: int = Field(default=100_000, ge=1, le=MOST)
    backtest_generations: int = Field(default=500, ge=0, le=MOST_PREDICTED)
    record_bytes: int | None = Field(default=None, ge=1, le=MOST)
    price_per_gb: float | None = Field(default=None, ge=0, le=MOST)

    @model_validator(mode="after")
    def _price_needs_a_size(self) -> ReportSettings:
        if self.price_per_gb is not None and self.record_bytes is None:
            raise ValueError("price_per_gb needs record_bytes, the mean size of a record: no source shows it")
        return self


class MaintainSettings(_Settings):
    """How long history is kept, in whole months, and how long files stay that no table version needs any more.

    Files stay for at least 168 hours, Spark's own limit. A run or a reader that takes longer could lose files that it uses.
    """

    retention_days: int = Field(default=730, ge=1, le=MOST_DAYS)
    counterfactual_days: int = Field(default=30, ge=1, le=MOST_DAYS)
    vacuum_hours: int = Field(default=168, ge=168, le=24 * MOST_DAYS)


class Settings(_Settings):
    """All that a run needs except its name and its clock."""

    inputs: tuple[str, ...] = ()
    warehouse: str = "./warehouse"
    cluster_id: str | None = Field(default=None, min_length=1)
    log_time_zone: str | None = None
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
"""The most characters of a value that a message shows."""


def parse_settings(content: Any, origin: str) -> Settings:
    """Return checked settings.

    Args:
        content: content of the YAML file; None for an empty file.
        origin: name of the file, for messages.

    Raises:
        ValueError: one line per mistake, with the key, what was found and what is expected.
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
    if mistake["type"] == "value_error" and isinstance(mistake["input"], dict):
        return f"{key}: {mistake['msg'].removeprefix('Value error, ')}"
    return f"{f'{key}: ' if key else ''}{mistake['msg']}, found {_shown(mistake['input'])}"


def _shown(value: Any) -> str:
    """Return a value as a message shows it. Lists and dictionaries are shown without their values, which may include a password."""
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
