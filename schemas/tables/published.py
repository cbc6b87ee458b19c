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
    "One run. Its row is the last commit of the run and publishes the table versions that readers use.",
    ("run_id",),
    StructType(
        [
            column("run_id", STRING, "name of the run"),
            SEQUENCE,
            column("command", STRING, "the command"),
            column("started_at", TIMESTAMP, "start of the run, UTC"),
            column("finished_at", TIMESTAMP, "end of the run, UTC"),
            column("status", STRING, "published, failed or refused"),
            column("input_counts", MapType(STRING, BIGINT), "number of records read, by outcome"),
            column("output_counts", MapType(STRING, BIGINT), "rows written, by table; maintain: rows dropped, files before and after"),
            column("table_versions", MapType(STRING, BIGINT), "by table: the version that readers use"),
            column("consumed", MapType(STRING, BIGINT), "by table: run_sequence up to which its rows have been used"),
            column("written", MapType(STRING, BIGINT), "by table: the last run_sequence that wrote rows"),
            column(
                "positions",
                MapType(STRING, BIGINT),
                "where the next run continues to read a live `__consumer_offsets`: 'cluster_id topic_id partition' -> next offset; "
                "empty if only captures landed",
            ),
            column(
                "origins",
                MapType(STRING, BIGINT),
                "partitions of `__consumer_offsets` whose first record was read: 'cluster_id partition' -> run_sequence of that run",
            ),
            column(
                "landed_until",
                MapType(STRING, BIGINT),
                "'cluster_id partition' of `__consumer_offsets` -> highest offset + 1 that a run has read, even if that did not land; "
                "null in rows from before version 10",
            ),
            column(
                "files",
                ArrayType(STRING),
                "names, from their content, of the raw logs and metadata snapshots that the run decoded. A later run does not decode them "
                "again. Null if it has to, and in rows from before version 11",
            ),
            column(
                "file_counts", MapType(STRING, BIGINT), "number of records in the files that the run decoded, by outcome; as input_counts"
            ),
            column("retained_from", DATE, "first month that the last maintain kept; landing skips older records; null before any maintain"),
            column(
                "counterfactuals_from",
                DATE,
                "first month of which the last maintain kept counterfactual assignments; null before any maintain",
            ),
            column("gates", GATE_RESULTS, "results of the gates"),
            column("warehouse_id", STRING, "id of the warehouse that the run wrote to; null in rows from before version 9"),
            column("input_fingerprint", STRING, "SHA-256 of the content of the input files"),
            column("settings_fingerprint", STRING, "SHA-256 of the settings"),
            column(
                "software_versions",
                MapType(STRING, STRING),
                "versions of evenkeel, python, spark and pyspark; also of java and delta, except for runs over Spark Connect",
            ),
        ]
    ),
)
