"""Inputs, state and results that the stages of one run share."""

from __future__ import annotations

import hashlib
import logging
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from datetime import date, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from jobs.decoders.captures import Capture, fingerprint
from jobs.options import AssignOptions, Command, LandOptions, MaintainOptions
from jobs.runtime.arguments import LocationOptions
from jobs.runtime.installation import evenkeel_version
from jobs.runtime.interruption import Interruption
from jobs.runtime.jvm import jvm_versions
from jobs.runtime.log_format import clear_progress, show_progress
from jobs.runtime.run_options import WarehouseOptions
from jobs.storage.warehouse import Warehouse
from jobs.workers.guard import WorkerLimits
from schemas.config import Settings
from schemas.tables import TOPIC_SNAPSHOTS, TableSpec
from schemas.vocabulary import Source
from schemas.wire.keys import OFFSETS_TOPIC

if TYPE_CHECKING:
    from jobs.brokers.live_input import LiveInput

logger = logging.getLogger(__name__)


class MetadataIndex:
    """Times of the metadata snapshots of each cluster; read once, after landing."""

    def __init__(self, warehouse: Warehouse) -> None:
        """Read nothing yet."""
        self._warehouse = warehouse

    @cached_property
    def _rows(self) -> list[Row]:
        snapshots, is_offsets_topic = self._warehouse.read(TOPIC_SNAPSHOTS.name), F.col("topic") == OFFSETS_TOPIC
        times = F.sort_array(F.collect_set(F.unix_millis("observed_at"))).alias("times")
        offsets_count = F.max_by(F.when(is_offsets_topic, F.col("partition_count")), F.when(is_offsets_topic, F.col("observed_at")))
        most_partitions = F.max("partition_count").alias("most_partitions")
        return snapshots.groupBy("cluster_id").agg(times, offsets_count.alias("offsets_count"), most_partitions).collect()

    @cached_property
    def times_ms(self) -> dict[str, tuple[int, ...]]:
        """Return by cluster id the times of all metadata snapshots in ms, ascending."""
        return {row["cluster_id"]: tuple(row["times"]) for row in self._rows}

    @cached_property
    def offsets_partition_counts(self) -> dict[str, int]:
        """Return by cluster id the partition count of ``__consumer_offsets`` in the newest metadata snapshot that has it."""
        return {row["cluster_id"]: row["offsets_count"] for row in self._rows if row["offsets_count"] is not None}

    @cached_property
    def most_partitions(self) -> int:
        """Return the largest number of partitions in one metadata snapshot of a topic, of all clusters; 0 without any."""
        return max((row["most_partitions"] or 0 for row in self._rows), default=0)


@dataclass(frozen=True)
class RunState:
    """The state that a published run leaves for the next one, in the columns of ``runs`` with these names.

    Attributes:
        consumed: by table, or reader of a table, the run_sequence up to which its rows have been used.
        written: by table the last run that wrote rows.
        positions: the next offset to read of live clusters, by cluster id, topic id and partition.
        origins: by cluster id and partition of ``__consumer_offsets`` the run that read its first record.
        landed_until: up to where runs have read each log; None if no run has stored it.
        retained_from: first month that the last maintain kept; None before any.
        counterfactuals_from: the same for counterfactual assignments.
    """

    consumed: Mapping[str, int] = field(default_factory=dict)
    written: Mapping[str, int] = field(default_factory=dict)
    positions: Mapping[str, int] = field(default_factory=dict)
    origins: Mapping[str, int] = field(default_factory=dict)
    landed_until: Mapping[str, int] | None = field(default_factory=dict)
    retained_from: date | None = None
    counterfactuals_from: date | None = None

    @classmethod
    def noted(cls, row: Row | None) -> RunState:
        """Return the state in a row of ``runs``; for None that of an empty warehouse. Older releases have left some columns null."""
        if row is None:
            return cls()
        noted: dict[str, Any] = {column.name: row[column.name] for column in fields(cls)}
        return cls(**{**noted, "positions": noted["positions"] or {}, "origins": noted["origins"] or {}})

    def using(self, consumed: Mapping[str, int]) -> RunState:
        """Return the state after more rows have been used."""
        return replace(self, consumed={**self.consumed, **consumed})


@dataclass(frozen=True)
class StageResult:
    """The result of a stage, besides the rows that it wrote.

    Attributes:
        state: for the next stage, or the next run.
        input_counts: records by outcome.
        output_counts: further counts for the row of the run.
        files: those that the stage has decoded, see ``runs.files``; None if all files have to be forgotten.
        file_counts: the records of these files by outcome.
    """

    state: RunState
    input_counts: Mapping[str, int] = field(default_factory=dict)
    output_counts: Mapping[str, int] = field(default_factory=dict)
    files: tuple[str, ...] | None = ()
    file_counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class RunInputs:
    """The inputs of one run, which do not change while it is in progress.

    Attributes:
        as_of: the run's clock, aware UTC.
        metadata_index: times of the landed metadata snapshots.
        digests: the input files with their detected sources, each with the SHA-256 of its content.
        cluster_id_flag: ``--cluster-id``, which overrides the captures' own; None when not given.
        live: a cluster that is an input too; None without one.
        as_new_cluster: captures may be of a cluster that has landed under another name.
        before: the state after the last published run.
    """

    warehouse: Warehouse
    settings: Settings
    run_id: str
    as_of: datetime
    metadata_index: MetadataIndex
    digests: Mapping[Capture, bytes] = field(default_factory=dict)
    cluster_id_flag: str | None = None
    live: LiveInput | None = None
    as_new_cluster: bool = False
    before: RunState = RunState()

    @cached_property
    def worker_limits(self) -> WorkerLimits:
        """Return the limits of each Python worker."""
        return WorkerLimits(**self.settings.workers.model_dump())

    @property
    def spark(self) -> SparkSession:
        """Return the session of the warehouse."""
        return self.warehouse.spark

    @property
    def run_sequence(self) -> int:
        """Return the number of this run."""
        return self.warehouse.run_sequence

    @property
    def run_columns(self) -> dict[str, Column]:
        """Return the columns that name the run in every row that it writes."""
        return {"run_sequence": F.lit(self.run_sequence).cast("bigint"), "run_id": F.lit(self.run_id)}

    def rows_of(self, spec: TableSpec, rows: DataFrame) -> DataFrame:
        """Return rows of workers, with times in ms, as rows of a table that this run writes."""
        observed_at = F.timestamp_millis("observed_at_ms")
        added = {"observed_at": observed_at, "observed_month": F.trunc(observed_at, "month"), **self.run_columns}
        return rows.withColumns(added).select(*spec.schema.names)


@dataclass(frozen=True)
class RunContext(RunInputs):
    """One run between two stages: its inputs, and the results of its stages so far.

    Attributes:
        state: for the next stage.
        captures: the files that land decodes; chosen by land.
        input_counts, output_counts, files, file_counts: see ``StageResult``, of all stages so far.
    """

    state: RunState = RunState()
    captures: tuple[Capture, ...] = ()
    input_counts: Mapping[str, int] = field(default_factory=dict)
    output_counts: Mapping[str, int] = field(default_factory=dict)
    files: tuple[str, ...] | None = ()
    file_counts: Mapping[str, int] = field(default_factory=dict)

    def after(self, result: StageResult) -> RunContext:
        """Return the run after a stage."""
        return replace(
            self,
            state=result.state,
            input_counts={**self.input_counts, **result.input_counts},
            output_counts={**self.output_counts, **result.output_counts},
            files=None if self.files is None or result.files is None else self.files + result.files,
            file_counts={**self.file_counts, **result.file_counts},
        )

    @property
    def written(self) -> dict[str, int]:
        """Return by table the last run that wrote rows, this one included."""
        now = {name: self.run_sequence for name, rows in self.warehouse.rows_written.items() if rows}
        return {**self.before.written, **now}

    @property
    def sources(self) -> set[Source]:
        """Return the sources that this run decodes; a live cluster has those of its records and its metadata snapshots."""
        of_live = {Source.CONSUMER_OFFSETS, Source.CLUSTER_METADATA} if self.live is not None else set()
        return {capture.source for capture in self.captures} | of_live

    def unread(self, table: str, reader: str | None = None) -> int | None:
        """Return the run_sequence up to which a table's rows have been used; None if all have been.

        Args:
            reader: the name of their user in ``consumed``, if it is not the table's own.
        """
        consumed = self.state.consumed.get(reader or table, 0)
        return consumed if self.written.get(table, 0) > consumed else None


@contextmanager
def stage_timer(name: str) -> Iterator[None]:
    """Show the stage that begins, and log its time when it ends."""
    started = time.monotonic()
    show_progress(name)
    yield
    took = time.monotonic() - started
    clear_progress()
    logger.info("%-8s %6.1f s", name, took, extra={"facts": {"phase": name, "seconds": round(took, 3)}})


@dataclass(frozen=True)
class Request:
    """The request of the command line.

    Attributes:
        run_id: the name of the run, also if the options have none.
        as_of: the run's clock, aware UTC, also if the options have none.
        now: returns the present time; used only for the run's own start and end.
        live: a cluster that is an input too; None without one.
        facts: results of the run, filled in as they become known, for programs that read the log.
        interruption: what is true of the tables if the command is interrupted now.
    """

    command: Command
    options: LocationOptions
    settings: Settings
    conf_folder: Path
    run_id: str
    as_of: datetime
    now: Callable[[], datetime]
    captures: tuple[Capture, ...] = ()
    live: LiveInput | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    interruption: Interruption = field(default_factory=Interruption)


def software_versions(spark: SparkSession) -> dict[str, str]:
    """Return the versions of the software, see ``runs.software_versions``."""
    versions = {"evenkeel": evenkeel_version(), "python": platform.python_version(), "spark": spark.version, "pyspark": pyspark.__version__}
    return versions | jvm_versions(spark)


def input_fingerprint(request: Request, digests: Iterable[bytes]) -> str:
    """Return a hash of the inputs: of a live one its servers, since its log changes with each retry.

    Args:
        digests: of the captures.
    """
    captured = fingerprint(digests)
    return captured if request.live is None else hashlib.sha256(f"{captured} {request.live.servers}".encode()).hexdigest()


def settings_fingerprint(request: Request) -> str:
    """Return a hash of the settings without locations: inputs have a hash of their own, and a report changes no table."""
    is_timed = not any(capture.source is Source.DESCRIBE for capture in request.captures)
    partitions = {capture.offsets_partition for capture in request.captures if capture.offsets_partition is not None}
    cluster_id, assigned = LandOptions.of(request.options).cluster_id, AssignOptions.of(request.options)
    dropped = MaintainOptions.of(request.options).drop_cluster
    inputs = (cluster_id, assigned.recompute, assigned.since, *(() if is_timed else (request.as_of,)), *partitions)
    asked = [request.command.name, request.settings.model_dump_json(exclude={"inputs", "warehouse", "report"}), *map(str, inputs)]
    asked += [identity] if (identity := WarehouseOptions.of(request.options).identity()) else []
    asked += [] if dropped is None else [f"without {dropped}"]
    return hashlib.sha256("\n".join(asked).encode()).hexdigest()
