"""What a page notes of itself: it comes back whatever it says, and it differs for whatever makes another page."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.report import run
from jobs.report.note import Note, made_of, read_note
from jobs.report.page import build_page, design_digest, render
from schemas.config import ReportSettings
from tests.builders.report_rows import AS_OF, large_fleet, sample

VERSIONS = {"findings": 3, "movements": 4}


@given(st.text())
def test_a_note_comes_back_from_its_page(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    page = tmp_path_factory.getbasetemp() / "report.html"
    note = Note("content", {"text": text, "none": None, "number": 1})
    page.write_bytes(render(build_page(sample(), AS_OF), note=note).html.encode(errors="backslashreplace"))
    assert read_note(page) == note


def test_a_page_of_several_files_says_how_many(tmp_path: Path) -> None:
    document = render(build_page(large_fleet(3_000, 0), AS_OF), most_bytes=200_000, note=Note("content", {}))
    assert document.further
    (tmp_path / "report.html").write_text(document.html)
    note = read_note(tmp_path / "report.html")
    assert note is not None and note.file_count == 1 + len(document.further)


@pytest.mark.parametrize(
    "content", [None, "", "<title>", '<meta name="evenkeel-note" content="{">', '<meta name="evenkeel-note" content="[1]">']
)
def test_page_without_a_valid_note_is_not_reused(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "report.html").write_text(content)
    assert read_note(tmp_path / "report.html") is None


def test_another_table_version_setting_or_design_makes_another_page() -> None:
    settings = ReportSettings()
    known = made_of(VERSIONS, settings, design_digest())
    assert known == made_of(dict(reversed(VERSIONS.items())), ReportSettings(), design_digest())
    others = [
        made_of({**VERSIONS, "movements": 5}, settings, design_digest()),
        made_of(VERSIONS, ReportSettings(worst_groups=3), design_digest()),
        made_of(VERSIONS, settings, "another"),
    ]
    assert len({known, *others}) == 4


def test_report_with_a_folder_for_pages_of_groups_is_kept_though_no_group_needs_one(tmp_path: Path) -> None:
    """The folder was never made, so each run with nothing new made the page again."""
    rows = sample()
    page, settings = build_page(rows, AS_OF), ReportSettings(output=str(tmp_path / "report.html"), group_pages=str(tmp_path / "one"))
    detailed = run.write_page(page, settings, note=Note("tables", {"groups": 2}))
    warehouse: Any = SimpleNamespace(read=lambda name: None)
    run._write_details(warehouse, settings, rows.ranked, {}, page, detailed, tmp_path / "one")
    assert run._standing(settings, "tables") == {"groups": 2}
