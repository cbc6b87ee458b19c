"""A call from a folder that is full of traps, in a locale that is not UTF-8."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.builders.checkouts import TRAP
from tests.builders.group_snapshots import envelope
from tests.builders.tables import rows
from tests.faults.drivers import INSTALLATION, linked_checkout

TRAPS = (
    *("jobs", "schemas", "assignors", "pyspark", "numpy", "json", "runpy", "pkgutil", "collections"),
    *("site", "sitecustomize", "usercustomize", "encodings"),
)
"""Packages that Python would import from the current folder if that were on its path."""


def set_traps(folder: Path, marker: Path) -> None:
    """Make a package of each name; its import writes the name into the marker."""
    for name in TRAPS:
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(TRAP.format(marker=str(marker), name=name), encoding="utf-8")


def test_landing_imports_nothing_from_a_hostile_folder_under_posix_locale(tmp_path: Path) -> None:
    """Python's variable with the empty entries is a trap too: each of them means the current folder."""
    folder, marker = tmp_path / "josé", tmp_path / "marker"
    folder.mkdir()
    set_traps(folder, marker)
    (folder / "é.jsonl").write_text(json.dumps(envelope()) + "\n", encoding="utf-8")
    before = sorted(path.name for path in folder.iterdir())
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(tmp_path), "LC_ALL": "POSIX", "PYTHONPATH": ":.:", **INSTALLATION}
    done = subprocess.run(
        [linked_checkout(tmp_path), "land", "--input", "é.jsonl", "--warehouse", "./whé", "--cluster-id", "東京"],
        cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert all(line.startswith("evenkeel: ") for line in (done.stdout + done.stderr).splitlines()), done.stderr
    assert not marker.exists(), f"imported from the current folder: {marker.read_text(encoding='utf-8').split()}"
    assert sorted(path.name for path in folder.iterdir()) == sorted([*before, "whé"])
    assert {row["cluster_id"] for row in rows(folder / "whé", "subscription_snapshots")} == {"東京"}
