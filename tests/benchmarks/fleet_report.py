"""What the command ``report`` costs on a fleet too large to be landed for it: a warehouse with each group many times over.

    python tests/benchmarks/fleet_report.py WAREHOUSE [--copies 20 100] [--folder FOLDER]

The warehouse is one that ``run`` has left. Its tables are copied into another one, in which every row is there so many times, each time
under another name of its group. Then a bare process and the command ``report`` are measured on it in turn. Printed are CPU seconds of the
process tree, their ratio, the largest memory of the driver, the groups that the report's files list, and the size of these files.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parents[2]))

from jobs.runtime.output_files import further_page
from jobs.storage.delta_log import files_of
from schemas.tables import TABLES
from tests.benchmarks.fleet_results import MEBIBYTE, table
from tests.benchmarks.measuring import LAUNCHER, adopt_orphans, bare_command, measure, user_environment
from tests.benchmarks.processes import MemorySampler

READ_BY_REPORT = (
    *("generation_audits", "findings", "assignments", "movements", "offset_snapshots", "subscription_snapshots", "group_records"),
)
PACKED_LINES = re.compile(r'"lines": (\[\n.*?\n\])\}', re.DOTALL)


def multiply_groups(warehouse: Path, target: Path, copies: int) -> None:
    """Copy a warehouse, and give it every group so many times, under names of their own; the tables that the report reads have them.

    Versions stay as they are: rows are added to the newest commit of each table, which must be of whole files.
    """
    shutil.copytree(warehouse, target, ignore=shutil.ignore_patterns("*.html", ".evenkeel*"))
    for name in READ_BY_REPORT:
        log = target / name / "_delta_log"
        newest = max(log.glob("*.json"))
        files = files_of(log, int(newest.stem))
        if files is None:
            sys.exit(f"{log}: expected a table of whole files, as a first run leaves one")
        added = [_copy(file, target / name, f".{number}") for file in sorted(files) for number in range(1, copies)]
        lines = [newest.read_text(encoding="utf-8").rstrip("\n"), *(json.dumps({"add": about}) for about in added)]
        newest.write_text("\n".join(lines) + "\n", encoding="utf-8")
        for checksum in log.glob(f"*{newest.stem}*.crc"):  # of the commit as it was, Delta's and Hadoop's
            checksum.unlink()


def _copy(file: Path, folder: Path, suffix: str) -> dict[str, Any]:
    """Write a data file anew beside itself, with a suffix to the names of its groups; return what a commit says of it."""
    rows = pq.ParquetFile(file).read()
    names = pc.binary_join_element_wise(rows["group_id"], pa.scalar(suffix), "")
    rows = rows.set_column(rows.schema.get_field_index("group_id"), rows.schema.field("group_id"), names)
    path = file.with_name(f"part-{uuid.uuid4()}.parquet")
    pq.write_table(rows, path, coerce_timestamps="us", allow_truncated_timestamps=True)
    months = dict(part.name.split("=") for part in file.relative_to(folder).parents if "=" in part.name)
    relative = str(path.relative_to(folder))
    about = {"size": path.stat().st_size, "modificationTime": 0, "dataChange": True, "stats": json.dumps({"numRecords": rows.num_rows})}
    return {"path": relative, "partitionValues": months, **about}


def listed_groups(page: Path) -> tuple[list[str], list[int]]:
    """Return the groups that have a line in a report, and the bytes of each of its files."""
    groups, sizes, number = [], [], 1
    while (file := further_page(page, number) if number > 1 else page).exists():
        html = file.read_text(encoding="utf-8")
        found = PACKED_LINES.search(html)
        groups += [line[0] for line in json.loads(found[1])] if found else []
        sizes.append(file.stat().st_size)
        number += 1
    return groups, sizes


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("warehouse", type=Path, help="that run has left")
    parser.add_argument("--copies", type=int, nargs="+", default=[20, 100], help="how often each group is there (default 20 and 100 times)")
    parser.add_argument("--folder", type=Path, help="where the copies are made (default the system's for temporary files)")
    options = parser.parse_args()
    if missing := [name for name in READ_BY_REPORT if name not in TABLES or not (options.warehouse / name).is_dir()]:
        parser.error(f"{options.warehouse}: expected a warehouse, found no {missing[0]}")
    adopt_orphans()
    rows = [["report over", "listed", "bare CPU s", "CPU s", "x bare", "driver MiB", "MB of its files"]]
    for copies in options.copies:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            warehouse, page = Path(folder, "warehouse"), Path(folder, "report.html")
            multiply_groups(options.warehouse, warehouse, copies)
            bare_s = measure(*bare_command(Path(folder, "bare-table"), Path(folder, "bare.py"))).cpu_s
            with MemorySampler() as memory:
                usage = measure([LAUNCHER, "report", "--warehouse", str(warehouse), "--output", str(page)], user_environment())
            groups, sizes = listed_groups(page)
        figures = [f"{bare_s:.1f}", f"{usage.cpu_s:.1f}", f"{usage.cpu_s / bare_s:.2f}", f"{memory.driver_bytes / MEBIBYTE:.0f}"]
        counted = re.search(r"^  groups +([\d,]+) with", usage.output, re.MULTILINE)
        assert counted is not None
        rows.append([f"{counted[1]} groups", f"{len(set(groups)):,}", *figures, " + ".join(f"{size / 1e6:.1f}" for size in sizes)])
    print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
