"""What every stage of one run shares."""

from __future__ import annotations

import hashlib
import logging
import platform
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.decoders.captures import Capture, fingerprint
from jobs.runtime.installation import evenkeel_version
from jobs.runtime.jvm import jvm_versions
from jobs.storage.warehouse import Warehouse
from jobs.workers.guard import WorkerLimits
from schemas.config import Settings
from schemas.tables import TOPIC_SNAPSHOTS, TableSpec
from schemas.vocabulary import Source
from schemas.wire.keys import OFFSETS_TOPIC

if TYPE_CHECKING:
    from jobs.brokers.live_input import LiveInput

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class LookFacts:
    """What is known of the looks at each cluster.

    Attributes:
        times_ms: cluster id -> times of all looks, ascending.
        offsets_partition_counts: cluster id -> partition count of ``__consumer_offsets`` in the newest look that has it.
    """

    times_ms: dict[str, tuple[int, ...]]
    offsets_partition_counts: dict[str, int]


@dataclass
class RunContext:
    """One run: where it works, with which settings, at which moment, and what it has counted so far.

    Attributes:
        as_of: the run's clock, aware UTC.
        digests: the files that are inputs, recognised, with the SHA-256 of what each holds.
        cluster_id_flag: ``--cluster-id``, which beats the captures' own; None when not given.
        input_counts: records by where they ended, filled by land.
        consumed: by table, or reader of a table, the run_sequence up to which its rows have been used; starts with the last run's.
        written_before: by table the last run before this one that wrote rows.
        retained_from: first month that the last maintain kept; None before any.
        counterfactuals_from: likewise of counterfactual assignments.
        output_counts: what is to be told of the run besides the rows it wrote.
        live: a cluster that is an input too; None without one.
        positions_before: where reading of live clusters was to go on behind the last run.
        positions_read: where it is to go on behind what this run has read.
        origins_before: partitions of ``__consumer_offsets`` whose first record earlier runs have read, see ``runs.origins``.
        origins_read: those of which this run was the first to.
        landed_until_before: up to where earlier runs have read each log, see ``runs.landed_until``; None where none has noted it.
        read_until: likewise this run.
        files: those that this run has decoded, see ``runs.files``; None where no file may be known any more.
        file_counts: where their records ended.
        captures: the files that this run decodes; set by land.
        as_new_cluster: captures may be of a cluster that has landed under another name.
    """

    spark: SparkSession
    warehouse: Warehouse
    settings: Settings
    run_id: str
    as_of: datetime
    digests: dict[Capture, bytes] = field(default_factory=dict)
    cluster_id_flag: str | None = None
    input_counts: dict[str, int] = field(default_factory=dict)
    consumed: dict[str, int] = field(default_factory=dict)
    written_before: dict[str, int] = field(default_factory=dict)
    retained_from: date | None = None
    counterfactuals_from: date | None = None
    output_counts: dict[str, int] = field(default_factory=dict)
    live: LiveInput | None = None
    positions_before: dict[str, int] = field(default_factory=dict)
    positions_read: dict[str, int] = field(default_factory=dict)
    origins_before: dict[str, int] = field(default_factory=dict)
    origins_read: dict[str, int] = field(default_factory=dict)
    landed_until_before: dict[str, int] | None = None
    read_until: dict[str, int] = field(default_factory=dict)
    files: list[str] | None = field(default_factory=list)
    file_counts: dict[str, int] = field(default_factory=dict)
    captures: tuple[Capture, ...] = ()
    as_new_cluster: bool = False

    @property
    def run_sequence(self) -> int:
        """Return the number of this run."""
        return self.warehouse.run_sequence

    @property
    def run_columns(self) -> dict[str, Column]:
        """Return the columns by which every row tells the run that wrote it."""
        return {"run_sequence": F.lit(self.run_sequence).cast("bigint"), "run_id": F.lit(self.run_id)}

    def rows_of(self, spec: TableSpec, rows: DataFrame) -> DataFrame:
        """Return rows as they leave workers, with times in ms, as rows of a table that this run writes."""
        observed_at = F.timestamp_millis("observed_at_ms")
        added = {"observed_at": observed_at, "observed_month": F.trunc(observed_at, "month"), **self.run_columns}
        return rows.withColumns(added).select(*spec.schema.names)

    @property
    def written(self) -> dict[str, int]:
        """Return by table the last run that wrote rows, this one included."""
        return {**self.written_before, **{name: self.run_sequence for name, rows in self.warehouse.rows_written.items() if rows}}

    @property
    def positions(self) -> dict[str, int]:
        """Return where reading of live clusters goes on, by cluster id, topic id and partition."""
        return {**self.positions_before, **self.positions_read}

    @property
    def origins(self) -> dict[str, int]:
        """Return by cluster id and partition of ``__consumer_offsets`` the run that read its first record."""
        return {**self.origins_read, **self.origins_before}

    @property
    def landed_until(self) -> dict[str, int] | None:
        """Return up to where runs have read each log, this one included; None where none has noted it and this one read none."""
        if self.landed_until_before is None and not self.read_until:
            return None
        before = self.landed_until_before or {}
        return {**before, **{key: max(until, before.get(key, until)) for key, until in self.read_until.items()}}

    @property
    def sources(self) -> set[Source]:
        """Return the kinds of what this run decodes; a live cluster's records and looks are those of its captures."""
        of_live = {Source.CONSUMER_OFFSETS, Source.CLUSTER_METADATA} if self.live is not None else set()
        return {capture.source for capture in self.captures} | of_live

    @property
    def worker_limits(self) -> WorkerLimits:
        """Return what each Python worker may use."""
        return WorkerLimits(**self.settings.workers.model_dump())

    @cached_property
    def look_facts(self) -> LookFacts:
        """Return what several stages ask of the looks; asked once, when landing is over."""
        looks = self.warehouse.read(TOPIC_SNAPSHOTS.name)
        offsets_count = F.max_by(
            F.when(F.col("topic") == OFFSETS_TOPIC, F.col("partition_count")), F.when(F.col("topic") == OFFSETS_TOPIC, F.col("observed_at"))
        )
        times = F.sort_array(F.collect_set(F.unix_millis("observed_at")))
        rows = looks.groupBy("cluster_id").agg(times.alias("times"), offsets_count.alias("offsets_count")).collect()
        return LookFacts(
            {row["cluster_id"]: tuple(row["times"]) for row in rows},
            {row["cluster_id"]: row["offsets_count"] for row in rows if row["offsets_count"] is not None},
        )

    def unread(self, table: str, reader: str | None = None) -> int | None:
        """Return the run_sequence behind which a table's rows have not been used; None when all have.

        Args:
            reader: the name in ``consumed`` of who uses them, where that is not the table's own.
        """
        consumed = self.consumed.get(reader or table, 0)
        return consumed if self.written.get(table, 0) > consumed else None


@contextmanager
def stage_timer(name: str) -> Iterator[None]:
    """Say which stage begins, and how long it took when it ends."""
    started = time.monotonic()
    if sys.stderr.isatty():
        print(f"evenkeel: {name} ...", end="\r", file=sys.stderr, flush=True)
    yield
    took = time.monotonic() - started
    logger.info("%-8s %6.1f s", name, took, extra={"facts": {"phase": name, "seconds": round(took, 3)}})


@dataclass(frozen=True)
class Request:
    """What the command line asked for.

    Attributes:
        command: run, land, assign, audit, report, maintain or verify.
        as_of: the run's clock, aware UTC.
        now: gives the time of day; the only clock besides ``as_of``, for the run's own start and end.
        recompute, since: of the command assign.
        live: a cluster that is an input too; None without one.
        facts: what the run came to, filled in as it becomes known: for programs that read the log.
        expand: of the command assign, groups whose results are to be shown; empty where something is to be computed.
        expand_to: file for these; None for stdout.
        all_groups: of the command verify, whether every group is looked into.
        as_new_cluster: of the commands that land, whether a cluster may come under another name than before.
        drop_cluster, dry_run: of the command maintain, the cluster that is to go, None for none; and whether only to say what would go.
    """

    command: str
    settings: Settings
    conf_folder: Path
    run_id: str
    as_of: datetime
    now: Callable[[], datetime]
    captures: tuple[Capture, ...] = ()
    cluster_id_flag: str | None = None
    wait_seconds: float = 0.0
    recompute: bool = False
    since: datetime | None = None
    live: LiveInput | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    expand: tuple[str, ...] = ()
    expand_to: Path | None = None
    all_groups: bool = False
    as_new_cluster: bool = False
    drop_cluster: str | None = None
    dry_run: bool = False


def software_versions(spark: SparkSession) -> dict[str, str]:
    """Return what this run ran on, see ``runs.software_versions``."""
    versions = {"evenkeel": evenkeel_version(), "python": platform.python_version(), "spark": spark.version, "pyspark": pyspark.__version__}
    return versions | jvm_versions(spark)


def input_fingerprint(request: Request, digests: Iterable[bytes]) -> str:
    """Return what tells inputs apart: of a live one its servers, since its log is another one at each retry.

    Args:
        digests: of the captures.
    """
    captured = fingerprint(digests)
    return captured if request.live is None else hashlib.sha256(f"{captured} {request.live.servers}".encode()).hexdigest()


def settings_fingerprint(request: Request) -> str:
    """Return what tells settings apart, but for places: inputs are told apart by what they hold, and a report changes no table."""
    is_timed = not any(capture.source is Source.DESCRIBE for capture in request.captures)
    partitions = {capture.offsets_partition for capture in request.captures if capture.offsets_partition is not None}
    dropped = () if request.drop_cluster is None else (f"without {request.drop_cluster}",)
    told = (request.cluster_id_flag, request.recompute, request.since, *(() if is_timed else (request.as_of,)), *partitions, *dropped)
    asked = (request.command, request.settings.model_dump_json(exclude={"inputs", "warehouse", "report"}), *map(str, told))
    return hashlib.sha256("\n".join(asked).encode()).hexdigest()
