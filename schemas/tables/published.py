"""The table that publishes."""

from __future__ import annotations

from pyspark.sql.types import ArrayType, MapType, StructType

from schemas.tables.columns import BIGINT, BOOLEAN, DATE, SEQUENCE, STRING, TIMESTAMP, TableSpec, column, plain

GATE_RESULTS = ArrayType(
    plain(
        suite=STRING,
        table=STRING,
        expectation=STRING,
        severity=STRING,
        success=BOOLEAN,
        unexpected_count=BIGINT,
    )
)

RUNS = TableSpec(
    "runs",
    "One run; its row is the last commit of the run and publishes the versions that readers use.",
    ("run_id",),
    StructType(
        [
            column("run_id", STRING, "name of the run"),
            SEQUENCE,
            column("command", STRING, "what was run"),
            column("started_at", TIMESTAMP, "UTC"),
            column("finished_at", TIMESTAMP, "UTC"),
            column("status", STRING, "published, failed or refused"),
            column("input_counts", MapType(STRING, BIGINT), "records read and where they ended"),
            column("output_counts", MapType(STRING, BIGINT), "rows written by table; maintain: rows dropped, files before and after"),
            column("table_versions", MapType(STRING, BIGINT), "the version of every table that readers use"),
            column("consumed", MapType(STRING, BIGINT), "by table: run_sequence up to which its rows have been used"),
            column("written", MapType(STRING, BIGINT), "by table: the last run_sequence that wrote rows"),
            column(
                "positions",
                MapType(STRING, BIGINT),
                "where reading of a live `__consumer_offsets` goes on: 'cluster_id topic_id partition' -> next offset; "
                "empty where only captures landed",
            ),
            column(
                "origins",
                MapType(STRING, BIGINT),
                "partitions of `__consumer_offsets` whose first record was read: 'cluster_id partition' -> run_sequence of who read it",
            ),
            column(
                "landed_until",
                MapType(STRING, BIGINT),
                "'cluster partition' of `__consumer_offsets` -> highest offset + 1 that a run has read, whatever became of the record; "
                "null in rows from before version 10",
            ),
            column(
                "files",
                ArrayType(STRING),
                "names by content of the raw logs and looks that the run decoded: a later run does not decode them again; "
                "null where it has to, and in rows from before version 11",
            ),
            column("file_counts", MapType(STRING, BIGINT), "where the records of what the run decoded ended; as input_counts"),
            column("retained_from", DATE, "first month that the last maintain kept; landing skips records before it; null before any"),
            column(
                "counterfactuals_from",
                DATE,
                "first month of which the last maintain kept counterfactual assignments; null before any",
            ),
            column("gates", GATE_RESULTS, "results of the expectations"),
            column("warehouse_id", STRING, "id of the warehouse that the run wrote to; null in rows from before version 9"),
            column("input_fingerprint", STRING, "SHA-256 of what the input files hold"),
            column("settings_fingerprint", STRING, "SHA-256 of the settings"),
            column(
                "software_versions",
                MapType(STRING, STRING),
                "evenkeel, python, spark, pyspark; also java and delta, but for runs over Spark Connect",
            ),
        ]
    ),
)
