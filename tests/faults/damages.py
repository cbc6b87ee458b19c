"""Ways to damage one table of a warehouse in a local folder, as disks, copies, people and other programs do."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

from schemas.tables import CONTRACT_PROPERTY

Where = str
"""What ``verify`` is expected to name: a file within the table's folder, or a part of it."""


def log_file(table: Path, version: int, suffix: str = ".json") -> Path:
    return table / "_delta_log" / f"{version:020}{suffix}"


def newest(table: Path) -> int:
    return max(int(entry.stem) for entry in (table / "_delta_log").glob("*.json") if entry.stem.isdigit())


SPARK_SCHEMA = "org.apache.spark.sql.parquet.row.metadata"


def forget_checksums(table: Path) -> None:
    """Do as a copy without hidden files does, and as a writer without Hadoop."""
    for sidecar in [*table.rglob(".*.crc"), *(table / "_delta_log").glob("*.crc")]:
        sidecar.unlink(missing_ok=True)


def flip_bit(path: Path, offset: int, bit: int = 0) -> None:
    content = bytearray(path.read_bytes())
    content[offset] ^= 1 << bit
    path.write_bytes(content)


def invert(path: Path, offset: int) -> None:
    content = bytearray(path.read_bytes())
    content[offset] ^= 0xFF
    path.write_bytes(content)


def actions_of(table: Path, version: int) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log_file(table, version).read_text().splitlines()]


def write_actions(table: Path, version: int, actions: list[dict[str, Any]]) -> None:
    log_file(table, version).write_text("".join(json.dumps(action) + "\n" for action in actions))


def data_files(table: Path) -> list[Path]:
    """Return the files of the table's newest version, as another reader of Delta sees it, the largest first."""
    files = pa.table(DeltaTable(str(table)).get_add_actions(flatten=True)).select(["size_bytes", "path"]).to_pylist()
    return [table / path for _, path in sorted(((file["size_bytes"], file["path"]) for file in files), reverse=True)]


def data_file(table: Path) -> Path:
    """Return the largest file of the table's newest version."""
    return data_files(table)[0]


def change_add(table: Path, path: Path, **changed: object) -> None:
    """Change what the log says of a file."""
    for version in range(newest(table) + 1):
        actions = actions_of(table, version)
        for action in actions:
            if action.get("add", {}).get("path") == str(path.relative_to(table)):
                action["add"].update(changed)
        write_actions(table, version, actions)


def rewrite_rows(
    table: Path, change: Callable[[pa.Table], pa.Table], stats: dict[str, Any] | None = None, path: Path | None = None
) -> Path:
    """Change rows and hide it: size and statistics in the log are made to fit, checksums are removed; return the file.

    Args:
        path: of the file to change; None for the largest.
    """
    path = path or data_file(table)
    forget_checksums(table)
    pq.write_table(change(pq.read_table(path, partitioning=None)), path)
    change_add(table, path, size=path.stat().st_size, stats=stats and json.dumps(stats))
    return path


def without_values(rows: pa.Table, name: str) -> pa.Table:
    """Return rows with nulls in one column."""
    index = rows.schema.get_field_index(name)
    return rows.set_column(index, rows.schema.field(index), pa.nulls(rows.num_rows, rows.schema.field(index).type))


# -- the log


def torn_commit(table: Path) -> Where:
    path = log_file(table, newest(table))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    return f"_delta_log/{path.name}"


def empty_commit(table: Path) -> Where:
    path = log_file(table, newest(table))
    path.write_bytes(b"")
    return f"_delta_log/{path.name}"


def missing_last_commit(table: Path) -> Where:
    path = log_file(table, newest(table))
    path.unlink()
    return f"_delta_log/{path.name}"


def missing_first_commit(table: Path) -> Where:
    path = log_file(table, 0)
    path.unlink()
    return f"_delta_log/{path.name}"


def flipped_commit(table: Path) -> Where:
    path = log_file(table, newest(table))
    flip_bit(path, path.read_bytes().index(b'"timestamp":1') + len('"timestamp":1'))
    return f"_delta_log/{path.name}"


def commit_cut_between_lines(table: Path) -> Where:
    version = newest(table)
    actions = actions_of(table, version)
    write_actions(table, version, actions[:-1])
    log_file(table, version).with_name(f".{version:020}.json.crc").unlink()
    return f"_delta_log/{version:020}.json"


def foreign_commit(table: Path) -> Where:
    rows = DeltaTable(str(table)).to_pyarrow_table()
    write_deltalake(str(table), rows.slice(0, 1), mode="append")
    return f"_delta_log/{newest(table):020}.json"


def foreign_commit_without_info(table: Path) -> Where:
    version = newest(table) + 1
    write_actions(table, version, [{"txn": {"appId": "x", "version": 1, "lastUpdated": 0}}])
    return f"_delta_log/{version:020}.json"


def commit_of_another_run(table: Path) -> Where:
    """Do as an exchange for another warehouse's table of the same version does."""
    forget_checksums(table)
    path = log_file(table, newest(table))
    path.write_text(re.sub(r"evenkeel run \S+ \w+", "evenkeel run full 0123456789abcdef", path.read_text()))
    return f"_delta_log/{path.name}"


def commit_is_a_directory(table: Path) -> Where:
    path = log_file(table, newest(table))
    path.unlink()
    path.mkdir()
    return f"_delta_log/{path.name}"


def dangling_commit(table: Path) -> Where:
    path = log_file(table, newest(table))
    path.unlink()
    path.symlink_to("nowhere")
    return f"_delta_log/{path.name}"


def sidecar_is_a_directory(table: Path) -> Where:
    path = log_file(table, newest(table))
    sidecar = path.with_name(f".{path.name}.crc")
    sidecar.unlink()
    sidecar.mkdir()
    return f"_delta_log/{path.name}"


def commit_far_away(table: Path) -> Where:
    version = newest(table)
    shutil.copy(log_file(table, version), log_file(table, 10**20 - 1))
    return f"_delta_log/{version + 1:020}.json"


def mistyped_action(table: Path) -> Where:
    forget_checksums(table)
    actions = actions_of(table, 0)
    next(action["metaData"] for action in actions if "metaData" in action)["configuration"] = None
    write_actions(table, 0, actions)
    return f"_delta_log/{0:020}.json"


def commit_that_makes_no_table(table: Path) -> Where:
    forget_checksums(table)
    write_actions(table, 0, [action for action in actions_of(table, 0) if "commitInfo" in action])
    return f"_delta_log/{0:020}.json"


def file_of_another_partition(table: Path) -> Where:
    forget_checksums(table)
    version = newest(table)
    actions = actions_of(table, version)
    next(action["add"] for action in actions if "add" in action)["partitionValues"] = {"observed_month": "1970-01-01"}
    write_actions(table, version, actions)
    return f"_delta_log/{version:020}.json"


def make_checkpoint(table: Path) -> Path:
    DeltaTable(str(table)).create_checkpoint()
    (path,) = (table / "_delta_log").glob("*.checkpoint.parquet")
    return path


def missing_first_commit_before_a_checkpoint(table: Path) -> Where:
    make_checkpoint(table)
    return missing_first_commit(table)


def damaged_checkpoint(table: Path) -> Where:
    path = make_checkpoint(table)
    path.write_bytes(path.read_bytes()[:-9])
    return f"_delta_log/{path.name}"


def flipped_checkpoint(table: Path) -> Where:
    """Invert a byte of the stored columns, which no checksum covers: deltalake writes none."""
    path = make_checkpoint(table)
    columns = pq.ParquetFile(path).metadata.row_group(0)
    (schema,) = [chunk for chunk in map(columns.column, range(columns.num_columns)) if chunk.path_in_schema == "metaData.schemaString"]
    invert(path, (schema.dictionary_page_offset or schema.data_page_offset) + schema.total_compressed_size // 2)
    return f"_delta_log/{path.name}"


def change_checkpoint(table: Path, change: Callable[[dict[str, Any]], None]) -> Where:
    """Change the actions of a checkpoint that fits the commits."""
    path = make_checkpoint(table)
    stored = pq.read_table(path)
    actions = stored.to_pylist()
    for action in actions:
        change(action)
    pq.write_table(pa.Table.from_pylist(actions, stored.schema), path)
    return f"_delta_log/{path.name}"


def checkpoint_of_another_state(table: Path) -> Where:
    path = make_checkpoint(table)
    stored = pq.read_table(path)
    is_kept = [row["add"] is None or row["add"].get("path") is None for row in stored.select(["add"]).to_pylist()]
    pq.write_table(stored.filter(pa.array(is_kept)), path)
    return f"_delta_log/{path.name}"


def checkpoint_without_statistics(table: Path) -> Where:
    return change_checkpoint(table, lambda action: action["add"] and action["add"].update(stats=None))


def checkpoint_of_other_partitions(table: Path) -> Where:
    changed = [("observed_month", "1970-01-01")]
    return change_checkpoint(table, lambda action: action["add"] and action["add"].update(partitionValues=changed))


def checkpoint_of_other_metadata(table: Path) -> Where:
    return change_checkpoint(table, lambda action: action["metaData"] and action["metaData"].update(configuration=[("a", "b")]))


def checkpoint_of_another_table(table: Path) -> Where:
    return change_checkpoint(table, lambda action: action["metaData"] and action["metaData"].update(id="another"))


def checkpoint_of_another_protocol(table: Path) -> Where:
    return change_checkpoint(table, lambda action: action["protocol"] and action["protocol"].update(minWriterVersion=99))


def checkpoint_with_another_schema_in_its_footer(table: Path) -> Where:
    path = make_checkpoint(table)
    stored = pq.read_table(path)
    pq.write_table(stored.replace_schema_metadata({SPARK_SCHEMA: '{"type":"struct","fields":[]}'}), path)
    return f"_delta_log/{path.name}"


def dangling_checkpoint_pointer(table: Path) -> Where:
    (table / "_delta_log" / "_last_checkpoint").write_text('{"version":7,"size":3}')
    return "_delta_log/_last_checkpoint"


def damaged_version_checksum(table: Path) -> Where:
    path = log_file(table, newest(table), ".crc")
    path.write_bytes(path.read_bytes()[:100])
    return f"_delta_log/{path.name}"


def version_checksum_of_other_metadata(table: Path) -> Where:
    path = log_file(table, newest(table), ".crc")
    noted = json.loads(path.read_text())
    noted["metadata"]["configuration"] = {}
    path.write_text(json.dumps(noted))
    path.with_name(f".{path.name}.crc").unlink()
    return f"_delta_log/{log_file(table, newest(table)).name}"


# -- files


def missing_file(table: Path) -> Where:
    path = data_file(table)
    path.unlink()
    return str(path.relative_to(table))


def truncated_file(table: Path) -> Where:
    path = data_file(table)
    path.write_bytes(path.read_bytes()[:-1])
    return str(path.relative_to(table))


def lengthened_file(table: Path) -> Where:
    path = data_file(table)
    path.write_bytes(path.read_bytes() + b"\0")
    return str(path.relative_to(table))


def flipped_file(table: Path) -> Where:
    path = data_file(table)
    flip_bit(path, path.stat().st_size // 2)
    return str(path.relative_to(table))


def flipped_page_without_checksums(table: Path) -> Where:
    path = data_file(table)
    forget_checksums(table)
    page = pq.ParquetFile(path).metadata.row_group(0).column(0)
    flip_bit(path, (page.dictionary_page_offset or page.data_page_offset) + page.total_compressed_size - 1)
    return str(path.relative_to(table))


def unreadable_footer_without_checksums(table: Path) -> Where:
    path = data_file(table)
    forget_checksums(table)
    flip_bit(path, path.stat().st_size - 1)
    return str(path.relative_to(table))


def changed_schema_in_a_footer_without_checksums(table: Path) -> Where:
    """Change a letter of the schema that Spark reads; Parquet's own stays as it is."""
    path = data_file(table)
    forget_checksums(table)
    before = b'{"type":"struct","fields":[{"name":"'
    flip_bit(path, path.read_bytes().rindex(before) + len(before))
    return str(path.relative_to(table))


def file_with_fewer_rows(table: Path) -> Where:
    count = pq.ParquetFile(data_file(table)).metadata.num_rows
    return str(rewrite_rows(table, lambda rows: rows.slice(1), {"numRecords": count}).relative_to(table))


def file_with_nulls_in_its_key(table: Path) -> Where:
    return str(rewrite_rows(table, lambda rows: rows, {"nullCount": {"run_sequence": 1}}).relative_to(table))


def values_below_the_statistics(table: Path) -> Where:
    return str(rewrite_rows(table, lambda rows: rows, {"minValues": {"run_sequence": 2}}).relative_to(table))


def values_above_the_statistics(table: Path) -> Where:
    return str(rewrite_rows(table, lambda rows: rows, {"maxValues": {"run_sequence": 0}}).relative_to(table))


def file_of_other_columns(table: Path) -> Where:
    return str(rewrite_rows(table, lambda rows: rows.drop_columns(["run_sequence"])).relative_to(table))


# -- the table as a whole


def missing_table(table: Path) -> Where:
    shutil.rmtree(table)
    return ""


def folder_without_commits(table: Path) -> Where:
    shutil.rmtree(table / "_delta_log")
    (table / "_delta_log").mkdir()
    return ""


def _change_metadata(table: Path, change: Callable[[dict[str, Any]], None]) -> None:
    forget_checksums(table)
    actions = actions_of(table, 0)
    change(next(action["metaData"] for action in actions if "metaData" in action))
    write_actions(table, 0, actions)


def wrong_schema(table: Path) -> Where:
    def rename(metadata: dict[str, Any]) -> None:
        metadata["schemaString"] = metadata["schemaString"].replace('"run_sequence"', '"run_number"')

    _change_metadata(table, rename)
    return ""


def wrong_properties(table: Path) -> Where:
    _change_metadata(table, lambda metadata: metadata.update(configuration={}))
    return "delta.dataSkippingStatsColumns"


def newer_contract(table: Path) -> Where:
    _change_metadata(table, lambda metadata: metadata["configuration"].update({CONTRACT_PROPERTY: "99"}))
    return CONTRACT_PROPERTY


def older_contract(table: Path) -> None:
    """Do as a release from before there were contract versions, which had not the last column of any table."""

    def forget(metadata: dict[str, Any]) -> None:
        metadata["configuration"].pop(CONTRACT_PROPERTY)
        schema = json.loads(metadata["schemaString"])
        schema["fields"].pop()
        metadata["schemaString"] = json.dumps(schema)

    _change_metadata(table, forget)


def empty(table: Path) -> None:
    """Leave of a table what its creation left."""
    for path in (table / "_delta_log").iterdir():
        if path.name.lstrip(".")[:20].isdigit() and int(path.name.lstrip(".")[:20]) > 0:
            path.unlink()


def behind_runs(table: Path) -> Where:
    version = newest(table)
    for path in (table / "_delta_log").glob(f"*{version:020}.*"):
        path.unlink()
    return ""


def ahead_of_runs(table: Path) -> Where:
    version = newest(table)
    info = next(action for action in actions_of(table, version) if "commitInfo" in action)
    write_actions(table, version + 1, [info])
    return ""
