"""The files of a report: how each kind is recognised, and what they must not replace."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.pages.row_text import to_csv, to_json
from jobs.report.exports import exported_columns
from jobs.report.page import build_page, render, render_group
from jobs.report.prometheus import to_prometheus
from jobs.runtime.errors import UsageError
from jobs.runtime.output_files import (
    EXPORTED_KEYS,
    PAGE,
    PROMETHEUS_FILE,
    check_outputs,
    export_names,
    is_report_file,
    without_report_files,
)
from schemas.config import Settings
from schemas.tables import COMPUTED_TABLES, TABLES
from tests.builders.report_rows import AS_OF, SUMMARY, sample

FORMATS = ("csv", "json", "prometheus")
EXPORTED = {table: (TABLES | COMPUTED_TABLES)[table] for table in EXPORTED_KEYS}
KINDS = (PAGE, *export_names(FORMATS))
HOSTILE = "a\n<title>Evenkeel: \r\n# HELP evenkeel_report_timestamp_seconds "


def texts(kind: str) -> Iterator[str]:
    """Yield whole files of a kind, with rows and without."""
    if kind == PAGE:
        page = build_page(sample(), AS_OF, SUMMARY)
        yield render(page).html
        yield from render(page, most_bytes=0).further
        yield from (render_group(page, view, "../report.html") for view in page.worst)
    elif kind == PROMETHEUS_FILE:
        yield "".join(to_prometheus(sample(), AS_OF))
    else:
        table, _, ending = kind.partition(".")
        columns = exported_columns(EXPORTED[table])
        rows = [{**dict.fromkeys(columns), "group_id": HOSTILE, "position": number} for number in range(3)]
        write = {"csv": to_csv, "json": to_json}[ending]
        yield from ("".join(write(columns, rows[:count])) for count in (0, 1, 3))


def test_the_keys_are_those_of_the_tables() -> None:
    for table, key in EXPORTED_KEYS.items():
        assert (EXPORTED[table].key, tuple(exported_columns(EXPORTED[table]))[: len(key)]) == (key, key)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_report_file_is_recognised(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    for text in texts(kind):
        path.write_bytes(text.encode())
        expected = {one for one in KINDS if one.endswith(".json")} if text == "[]\n" else {kind}
        assert {one for one in KINDS if is_report_file(path, (one,))} == expected


def test_export_of_an_earlier_release_with_fewer_columns_is_recognised(tmp_path: Path) -> None:
    """Files of an earlier release must not stop the schedule after an upgrade."""
    for table in EXPORTED_KEYS:
        columns = exported_columns(EXPORTED[table])[:-2]
        for ending, write in (("csv", to_csv), ("json", to_json)):
            (tmp_path / "file").write_bytes("".join(write(columns, [dict.fromkeys(columns)])).encode())
            assert is_report_file(tmp_path / "file", (f"{table}.{ending}",))


KEY = ",".join(EXPORTED_KEYS["findings"])
FOREIGN = {
    "a capture": b'{"group_id": "a", "group_type": "classic"}\n',
    "a commit of Delta": b'{"commitInfo":{"timestamp":1}}\n',
    "a page of another program": b'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>Notes</title>\n',
    "a page that speaks of Evenkeel": b'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>On Evenkeel: ',
    "a page with the title only": b"<!doctype html>\n<title>Evenkeel: notes</title>\n",
    "columns of another table": f"{KEY.replace('rule_id', 'topic')},severity\r\n".encode(),
    "a part of the key": f"{KEY.rpartition(',')[0]}\r\n".encode(),
    "another program's ends of lines": f"{KEY},severity\n".encode(),
    "a heading that goes on": f"{KEY},severity,Remarks of mine\r\n".encode(),
    "objects with other members": b'[\n{"group_id": "a"}\n]\n',
    "an array in another form": json.dumps([dict.fromkeys(EXPORTED_KEYS["findings"], 1)], indent=1).encode(),
    "no JSON": b"[\n{x}\n]\n",
    "nested too deep": b"[\n{" + b"[" * 100_000,
    "metrics of another program": b"# HELP node_load1 1m load average.\n# TYPE node_load1 gauge\nnode_load1 0.21\n",
    "random bytes": bytes(range(256)) * 40,
}


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN)
def test_foreign_file_is_not_recognised_as_a_report_file(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(content)
    assert not is_report_file(tmp_path / "file", KINDS)


def test_report_files_are_no_captures_and_logged_in_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "jobs")
    for number, kind in enumerate(KINDS):
        (tmp_path / str(number)).write_bytes(next(texts(kind)).encode())
    (tmp_path / "capture").write_bytes(FOREIGN["a capture"])
    assert [path.name for path in without_report_files(sorted(tmp_path.iterdir()))] == ["capture"]
    assert [record.getMessage() for record in caplog.records] == [f"skipped 8 files that a report wrote, such as {tmp_path}/0"]


# -- what must not be replaced


def check(tmp_path: Path, *inputs: str, overwrite: bool = False, **report: object) -> str | None:
    """Return why these outputs are refused, without the folder of the test; None where they are not."""
    named = {key: str(tmp_path / value) if isinstance(value, str) else value for key, value in report.items()}
    settings = Settings.model_validate({"warehouse": str(tmp_path / "w"), "report": {"output": str(tmp_path / "report.html"), **named}})
    try:
        check_outputs(settings, [tmp_path / name for name in inputs], overwrite=overwrite)
    except UsageError as error:
        return str(error).replace(f"{tmp_path}/", "")
    return None


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    (tmp_path / "notes.html").write_text("mine")
    return tmp_path / "notes.html"


def test_a_file_that_no_report_wrote_is_replaced_only_where_that_is_asked_for(notes: Path, tmp_path: Path) -> None:
    assert check(tmp_path, output="notes.html") == (
        "report.output: notes.html is a file that no report wrote (it does not begin like the pages of a report); "
        "name another file, or replace it with --overwrite"
    )
    assert check(tmp_path, output="notes.html", overwrite=True) is None
    notes.write_text("")
    assert check(tmp_path, output="notes.html") is None
    notes.write_text(next(texts(PAGE)))
    assert check(tmp_path, output="notes.html") is None


@pytest.mark.parametrize("name", export_names(FORMATS))
def test_exports_replace_exports_of_their_own_kind(name: str, tmp_path: Path) -> None:
    (tmp_path / "e").mkdir()
    for kind in (kind for kind in KINDS if kind != name):
        (tmp_path / "e" / name).write_text(list(texts(kind))[-1])
        message = check(tmp_path, export=FORMATS, export_dir="e")
        assert message is not None and message.startswith(
            f"report.export_dir: e/{name} is a file that no report wrote (it does not begin like {name} of a report)"
        )
    (tmp_path / "e" / name).write_bytes(next(texts(name)).encode())
    assert check(tmp_path, export=FORMATS, export_dir="e") is None
    (tmp_path / "e" / name).unlink()
    (tmp_path / "e" / name).mkdir()
    assert check(tmp_path, export=FORMATS, export_dir="e", overwrite=True) == (
        f"report.export_dir: e/{name} is a folder or a device; expected the name of a file"
    )


def test_exports_beside_the_page_are_checked_too(tmp_path: Path) -> None:
    (tmp_path / "findings.csv").write_text("mine")
    message = check(tmp_path, export=("csv",))
    assert message is not None and message.startswith("report.export_dir: findings.csv is a file that no report wrote")


def test_further_files_of_lines_replace_such_files(tmp_path: Path) -> None:
    """Those that are there, and the one that may come."""
    pages = [tmp_path / f"weekly-groups-{number}.html" for number in (2, 3)]
    pages[0].write_text("mine")
    message = check(tmp_path, output="weekly.html")
    assert message is not None and message.startswith("report.output: weekly-groups-2.html is a file that no report wrote")
    assert check(tmp_path, output="weekly.html", overwrite=True) is None
    assert check(tmp_path, "weekly-groups-2.html", output="weekly.html", overwrite=True) == (
        "report.output: weekly-groups-2.html is an input; name another file"
    )
    pages[0].write_text(list(texts(PAGE))[1])
    assert check(tmp_path, output="weekly.html") is None
    pages[1].write_text("mine")
    message = check(tmp_path, output="weekly.html")
    assert message is not None and message.startswith("report.output: weekly-groups-3.html is a file that no report wrote")


def test_pages_of_groups_replace_pages_of_groups(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    page = tmp_path / "d" / "group-0123456789abcdef.html"
    page.write_text(list(texts(PAGE))[-1])
    (tmp_path / "d" / "group-notes.html").write_text("no name that a page can get")
    assert check(tmp_path, group_pages="d") is None
    page.write_text("mine")
    message = check(tmp_path, group_pages="d")
    assert message is not None and message.startswith(f"report.group_pages: d/{page.name} is a file that no report wrote")


def test_output_that_is_an_input_by_any_path_is_refused(notes: Path, tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "soft").symlink_to("notes.html")
    (tmp_path / "hard").hardlink_to(notes)
    (tmp_path / "folder").symlink_to(".")
    for name in ("notes.html", "soft", "hard", "folder/notes.html", "c/../notes.html"):
        assert str(check(tmp_path, "notes.html", output=name, overwrite=True)).endswith(" is an input; name another file"), name
        assert str(check(tmp_path, name, output="notes.html", overwrite=True)).endswith(" is an input; name another file"), name
    for folder in (".", "folder", "c/.."):
        assert check(tmp_path, folder, output="notes.html", overwrite=True) == (
            f"report.output: notes.html is a file of the input {tmp_path}; name another file"
        )
        assert check(tmp_path, folder, output="c/new.html") is None, "a report beside captures, which landing leaves out"
    assert check(tmp_path, "nowhere", "no\0where", output="notes.html", overwrite=True) is None


@pytest.mark.parametrize(
    ("output", "where"),
    [
        ("w/movements/_delta_log/00000000000000000000.json", "the Delta table w/movements"),
        ("w/movements/report.html", "the Delta table w/movements"),
        ("w/movements/observed_month=2026-11/report.html", "the Delta table w/movements"),
        ("other/lake/table/deep/report.html", "the Delta table other/lake/table"),
        ("link/report.html", "the Delta table w/movements"),
        ("link.html", "the Delta table w/movements"),
        ("new/_delta_log/report.html", "the Delta table new"),
        ("w/_staging/report.html", "_staging of the warehouse w"),
        ("w/_lease", "_lease of the warehouse w"),
        ("w/quarantine/report.html", "quarantine of the warehouse w"),
        ("copy/findings", "findings of the warehouse copy"),
    ],
)
def test_output_inside_a_delta_table_is_refused(output: str, where: str, tmp_path: Path) -> None:
    """Of this run's warehouse or another; one that exists or is still to come; whether it is asked to overwrite or not."""
    for table in ("w/movements", "other/lake/table", "copy/runs"):
        (tmp_path / table / "_delta_log").mkdir(parents=True)
    (tmp_path / "w/movements/_delta_log/00000000000000000000.json").write_text("")
    (tmp_path / "link").symlink_to("w/movements")
    (tmp_path / "link.html").symlink_to("w/movements/_delta_log/00000000000000000000.json")
    for overwrite in (False, True):
        message = check(tmp_path, output=output, overwrite=overwrite)
        assert message is not None and message.endswith(f" lies in {where}; name a file outside of it")
    folder = output.rpartition("/")[0]
    if folder not in ("w", "copy", ""):
        for message in (check(tmp_path, group_pages=folder), check(tmp_path, export=FORMATS, export_dir=folder)):
            assert message is not None and message.endswith(f" lies in {where}; name a file outside of it")


def test_a_report_lies_beside_the_tables(tmp_path: Path) -> None:
    (tmp_path / "w" / "runs" / "_delta_log").mkdir(parents=True)
    assert check(tmp_path, output="w/report.html", group_pages="w/pages", export=FORMATS, export_dir="w") is None


def test_output_with_the_name_of_a_lock_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".evenkeel.lock").touch()
    message = check(tmp_path, output=".evenkeel.lock", overwrite=True)
    assert message == "report.output: .evenkeel.lock has the name of a lock of Evenkeel (.evenkeel*); name another file"


def test_two_outputs_at_one_path_are_refused(tmp_path: Path) -> None:
    (tmp_path / "l").symlink_to(".")
    assert check(tmp_path, output="l/findings.csv", export=("csv",), export_dir=".") == (
        "report.export_dir: findings.csv is also the path of report.output; choose another path for one of them"
    )


def test_unreadable_file_is_not_replaced(notes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    message = check(tmp_path, output="notes.html")
    assert message is not None and "a file that no report wrote (it cannot be read (Permission denied));" in message
