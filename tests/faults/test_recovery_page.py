"""The page on recovery: a section for each code word, and ways back that lead back."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs.storage.delta_log import cut_before
from jobs.verify.damage import ADVICE, Code
from jobs.verify.folder import check_folder
from tests.builders.changed_rows import change_rows
from tests.builders.tables import COMPARED, content
from tests.faults import damages

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "recovery.md").read_text(encoding="utf-8")
SECTIONS = {part.partition("\n")[0]: part for part in re.split(r"^##+ ", PAGE, flags=re.MULTILINE)[1:]}
WAYS = ("Run again", "Restore from a copy", "Rebuild from captures", "Compute again", "Undo a foreign write")


def blocks(title: str) -> list[tuple[str, str]]:
    return re.findall(r"^```(bash|sql)\n(.*?)^```", SECTIONS[title], re.MULTILINE | re.DOTALL)


def test_every_code_word_has_a_section_that_leads_to_a_way_back() -> None:
    assert set(SECTIONS) == {*WAYS, *map(str, Code)}
    assert set(ADVICE) == set(Code)
    for code in map(str, Code):
        named = [" ".join(text.split()) for text in re.findall(r"\*([A-Z][^*]+)\*", SECTIONS[code])]
        assert (named or blocks(code)) and set(named) <= set(WAYS), code


def lose_an_audit(table: Path) -> None:
    change_rows(table.parent, table.name, lambda listed: listed.pop())


def damage_a_newer_checkpoint(table: Path) -> None:
    """As after ``maintain``: the log begins with a checkpoint, at version 2; of the one at version 3 the end is lost."""
    for version in (2, 3):
        damages.write_actions(table, version, [action for action in damages.actions_of(table, 1) if "commitInfo" in action])
        damages.DeltaTable(str(table)).create_checkpoint()
    cut_before(table / "_delta_log", 2)
    change_rows(table.parent, "runs", lambda listed: listed[0].update(table_versions=with_version(listed[0], table.name, 3)))
    assert check_folder(table.parent).damages == []
    path = damages.log_file(table, 3, ".checkpoint.parquet")
    path.write_bytes(path.read_bytes()[:-9])


def with_version(run: dict[str, Any], name: str, version: int) -> list[tuple[str, int]]:
    return list({**dict(run["table_versions"]), name: version}.items())


SCENARIOS = [
    pytest.param("Run again", "movements", damages.ahead_of_runs, id="a run that died", marks=pytest.mark.slow),
    pytest.param("Restore from a copy", "movements", damages.torn_commit, id="a copy"),
    pytest.param("Rebuild from captures", "assignments", damages.missing_file, id="captures", marks=pytest.mark.slow),
    pytest.param("Compute again", "generation_audits", lose_an_audit, id="computing again", marks=pytest.mark.slow),
    pytest.param("Undo a foreign write", "movements", damages.foreign_commit, id="a foreign write", marks=pytest.mark.slow),
    pytest.param("damaged_checkpoint", "movements", damage_a_newer_checkpoint, id="a checkpoint"),
    pytest.param("damaged_version_checksum", "movements", damages.damaged_version_checksum, id="a version checksum"),
]


@pytest.mark.parametrize(("title", "table", "inflict"), SCENARIOS)
def test_the_way_back_leads_back(
    title: str,
    table: str,
    inflict: Callable[[Path], object],
    evenkeel,
    spark: SparkSession,
    full_warehouse: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Damage, then what the page says, word for word; afterwards the tables are sound and equal to those before."""
    warehouse = tmp_path / "warehouse"
    for source, name in ((full_warehouse, "warehouse"), (full_warehouse, "copy"), (full_warehouse.parent / "captures", "captures")):
        shutil.copytree(source, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    inflict(warehouse / table)
    assert check_folder(warehouse).damages or inflict is lose_an_audit
    for language, text in blocks(title):
        if language == "sql":
            for statement in text.replace("`warehouse/", f"`{warehouse}/").split(";"):
                spark.sql(statement)
            continue
        for line in text.splitlines():
            if line.startswith("./spark-submit.sh "):
                assert evenkeel(*shlex.split(line)[1:]) == 0, line
            else:
                subprocess.run(["bash", "-euc", line], check=True)
    assert check_folder(warehouse).damages == []
    assert [name for name in COMPARED if content(warehouse, name) != content(full_warehouse, name)] == []
