"""Settings files and command lines that nobody should have written: one line a mistake and exit code 2, or a run; never a traceback."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from jobs import cli
from jobs.options import COMMANDS
from jobs.runtime.locations import on_one_line
from jobs.runtime.run_options import RunNameOptions
from tests.builders.records import JUNK, record_line, spoilt

SOUND = {
    "inputs": ["captures"],
    "warehouse": "w",
    "cluster_id": "eu",
    "strategies": ["range", "sticky"],
    "assign": {"max_generations_per_chunk": 9, "plugin_timeout_s": 0.5, "kafka_versions": [{"version": "2.8.2", "group": "g-*"}]},
    "audit": {"max_look_delay_s": 20},
    "quality": {"max_quarantined_ratio": 0.5, "fail_on": "warning"},
    "report": {"output": "r.html", "worst_groups": 3},
    "maintain": {"retention_days": 100, "vacuum_hours": 200},
}
CANARY = "canary-b1946ac9"


@pytest.fixture(autouse=True, scope="module")
def empty_current_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Without the warehouse that a run in the checkout has left, which ``show`` would answer from."""
    before = Path.cwd()
    os.chdir(tmp_path_factory.mktemp("empty"))
    yield
    os.chdir(before)


def run(*argv: str | Path) -> list[str]:
    """Return the lines that a refused command line writes; empty where a run would have been started, apart from warnings of no use.

    What would be run is checked as far as Spark needs it: names that it takes as they stand, and numbers that fit.
    """
    errors, started = io.StringIO(), []
    with (
        mock.patch.object(cli, "_execute", lambda command, options, settings, *_: started.append((RunNameOptions.of(options), settings))),
        redirect_stderr(errors),
        redirect_stdout(io.StringIO()) as output,
    ):
        code = cli.console_main([str(argument) for argument in argv])
    lines = errors.getvalue().split("\n")
    assert (output.getvalue(), lines.pop()) == ("", "")
    if lines and lines[-1].startswith("{"):
        ending = json.loads(lines.pop())
        assert (ending["event"], ending["exit_code"], lines) == ("end", code, [])
        lines += [f"evenkeel: {on_one_line(ending['error'])}"] if code else []
    if code == 0:
        lines = [line for line in lines if " makes no use of --" not in line]
    assert (code, bool(lines), len(started)) in ((0, False, 1), (2, True, 0)), (code, lines, started)
    assert all(line.startswith("evenkeel: ") and line.isprintable() and len(line) < 2_000 for line in lines), lines
    for options, settings in started:
        assert "${" not in settings.warehouse + (options.run_id or "")
        for name in (settings.warehouse, settings.report.output, settings.cluster_id or "c", options.run_id or "r"):
            assert name.encode() and not set(name) & set("\0\n\x1b")
        assert settings.model_dump_json()
    return lines


# -- settings files


@pytest.fixture(scope="module")
def settings_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("settings") / "settings.yaml"


@given(spoilt(SOUND))
@example({**SOUND, "warehouse": "a\0b"})
@example({**SOUND, "warehouse": "\ud800"})
@example({**SOUND, "report": {"output": "a\nb"}})
@example({**SOUND, "assign": {"plugin_timeout_s": float("inf")}})
@example({**SOUND, "report": {"worst_groups": 2**63}})
@example({**SOUND, "maintain": {"retention_days": 10**12}})
@example({"a\nb": 1})
def test_any_yaml_values_are_a_run_or_one_line_a_mistake(settings_file: Path, content: Any) -> None:
    """Every mistake that the file alone shows names the file."""
    settings_file.write_bytes(yaml.safe_dump(content).encode())
    assert isinstance(run("report", "--config", settings_file), list)


@given(st.one_of(st.binary(), st.text().map(str.encode), JUNK.map(yaml.safe_dump).map(str.encode)))
def test_any_bytes_as_settings_are_a_run_or_one_line_a_mistake(settings_file: Path, content: bytes) -> None:
    settings_file.write_bytes(content)
    assert isinstance(run("report", "--config", settings_file), list)


def bomb(depth: int, template: str) -> bytes:
    """Return a YAML text that names the line before nine times in each line."""
    lines = ["a0: &a0 {x: 1}"]
    lines += [f"a{level}: &a{level} " + template.format(", ".join([f"*a{level - 1}"] * 9)) for level in range(1, depth)]
    return "\n".join(lines).encode()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"warehouse: !!python/object/apply:os.system ['touch MARK']", "python/object/apply:os.system", id="code to call"),
        pytest.param(b"warehouse: !!python/name:os.system", "python/name:os.system", id="code to name"),
        pytest.param(b"!!python/object/new:os.system ['touch MARK']", "python/object/new:os.system", id="an object to make"),
        pytest.param(b"warehouse: !unknown x", "'!unknown'", id="an unknown tag"),
        pytest.param(bomb(12, "[{}]"), "found the alias *a0", id="a bomb of lists"),
        pytest.param(bomb(12, "{{<<: [{}]}}"), "found the alias *a0", id="a bomb of merged keys"),
        pytest.param(b"inputs: &a [*a]", "found the alias *a", id="a list in itself"),
        pytest.param(b"[" * 100_000, "line 1: expected at most 20 levels", id="brackets without end"),
        pytest.param(b"{a: " * 100_000, "line 1: expected at most 20 levels", id="braces without end"),
        pytest.param(b"inputs:\n" + b"- some/path\n" * 800_000, "expected at most 1048576 bytes", id="10 MB"),
        pytest.param(bomb(1_000, "[{}]"), "found the alias *a0", id="a thousand levels of aliases"),
        pytest.param(b"warehouse: 2026-13-45", "month must be in 1..12", id="a thirteenth month"),
        pytest.param(b"warehouse: !!bool maybe", "maybe", id="a third truth"),
        pytest.param(b"warehouse: !!timestamp x", "not YAML", id="no moment"),
        pytest.param(b"warehouse: !!int ''", "not YAML", id="no number"),
        pytest.param(b"report: {worst_groups: " + b"9" * 5_000 + b"}", "not YAML", id="a number of 5,000 digits"),
        pytest.param(b"warehouse: !!binary x", "failed to decode base64", id="no base64"),
        pytest.param(b"\xff\xfe", "'utf-8' codec", id="another encoding"),
        pytest.param(b"warehouse: a\0b", "#x0000", id="a null byte"),
        pytest.param(b"? {a: b}\n: c", "unhashable key", id="a key of keys"),
        pytest.param(b"- a", "expected keys and values, found list", id="a list"),
        pytest.param(b"inputs: [" + b"[], " * 1_000 + b"]", "inputs.0: Input should be a valid string, found a list", id="many lists"),
        pytest.param(b"report: {output: '" + b"x" * 100_000 + b"', worst_groups: -1}", "worst_groups", id="a long name"),
        pytest.param(
            b"warehouse: {" + b"x" * 1_000 + b": 1}", "warehouse: Input should be a valid string, found the keys x", id="a long key"
        ),
    ],
)
def test_yaml_with_code_is_refused_and_runs_nothing(content: bytes, message: str, settings_file: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    settings_file.write_bytes(content.replace(b"MARK", str(mark).encode()))
    first, *_ = run("report", "--config", settings_file)
    assert str(settings_file) in first and message in first
    assert not mark.exists()


def test_settings_path_that_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    for name, message in (
        ("pipe", "expected a file"),
        ("folder", "expected a file"),
        ("loop", "Too many levels of symbolic links"),
        ("nothing", "No such file or directory"),
        ("x" * 300, "File name too long"),
        ("/dev/zero", "expected a file"),
    ):
        (line,) = run("report", "--config", tmp_path / name)
        assert message in line and str(tmp_path / name) in line


def test_an_empty_file_is_all_defaults(settings_file: Path) -> None:
    settings_file.write_bytes(b"")
    assert run("report", "--config", settings_file) == []


@pytest.mark.parametrize(
    "content",
    [
        f"sasl.jaas.config: org.apache.kafka.Login required password='{CANARY}';",
        f"kafka: {{sasl.password: {CANARY}}}",
        f"quality: {{password: {CANARY}}}",
        f"quality: [password, {CANARY}]",
        f"assign: {{kafka_versions: [{{group: g, password: {CANARY}}}]}}",
        f"warehouse: {{password: {CANARY}}}",
        f"password: '{CANARY}\nwarehouse: w",
        f"password: {CANARY}\nwarehouse: [",
        f"password: {CANARY}: {CANARY}",
        f"a: &a {CANARY}\nb: *a",
        f"warehouse: s3a://key:{CANARY}@bucket/w",
        f"warehouse: s3a://{CANARY}@bucket/w",
        f"warehouse: https://host/w?password={CANARY}*\npassword: x",
    ],
)
def test_a_password_in_a_refused_file_is_not_repeated(content: str, settings_file: Path) -> None:
    settings_file.write_text(content, encoding="utf-8")
    lines = run("report", "--config", settings_file)
    assert lines and not any(CANARY in line for line in lines)


# -- command lines

NOT_UTF8 = os.fsdecode(b"\xff")
NAMES = [
    "",
    " ",
    "w",
    "a b",
    "'",
    '"',
    "`",
    "*",
    "[1]",
    "{a,b}",
    "?",
    "\\",
    "${env:HOME}",
    "a\nb",
    "\x1b[31m",
    NOT_UTF8,
    "x" * 300,
    "😀",
    "é",
]
LOCATIONS = [*NAMES, "file:", "s3a://k:s@b/w", "hdfs://h/w", "a.b", "a.b.c", "..", "/dev/null", "/dev/null/x", "~", "://"]
TIMES = ["2026-11-21T02:21:13Z", "2026-11-21", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "2026-13-01", "", "now", "1e400"]
SECONDS = ["0", "inf", "nan", "-1", "1e400", "", "1_0", "٣", "0x10"]
OPTIONS = {
    "--warehouse": LOCATIONS,
    "--config": LOCATIONS,
    "--cluster-id": NAMES,
    "--strategies": [*NAMES, "range", "range,range", ",,,", "os:system", "no.such:thing", ":", "a:", "range:x"],
    "--run-id": NAMES,
    "--as-of": [*TIMES, *NAMES],
    "--wait": [*SECONDS, *NAMES],
    "--log-format": ["json", "text", "xml"],
    "--output": LOCATIONS,
    "--input": LOCATIONS,
    "--since": TIMES,
    "--fail-on": ["info", "fatal", ""],
    "--recompute": [],
}


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    """Return a command and options, most of them its own, with values that are sound, odd, or gone."""
    line = [draw(st.sampled_from([*COMMANDS, "fly", ""]))]
    for option in draw(st.lists(st.sampled_from(sorted(OPTIONS)), max_size=4)):
        line.append(option)
        if OPTIONS[option] and draw(st.integers(0, 9)):
            line.append(draw(st.one_of(st.sampled_from(OPTIONS[option]), st.text(max_size=8))))
    return [part for part in line if part not in ("-h", "--help")]


@given(command_lines())
def test_any_command_line_is_a_run_or_one_line_a_mistake(line: list[str]) -> None:
    assert isinstance(run(*line), list)


@pytest.mark.parametrize("option", sorted(OPTIONS))
def test_any_odd_option_value_is_a_run_or_one_line_a_mistake(option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "here"  # beside it there are no warehouses of other tests, which ``..`` would find
    here.mkdir()
    monkeypatch.chdir(here)
    for command in COMMANDS:
        for value in OPTIONS[option]:
            assert isinstance(run(command, option, value), list)


@pytest.mark.parametrize("value", ["", "a\nb", "\x1b[31m", NOT_UTF8, "${env:HOME}", "x" * 251])
def test_malformed_run_id_is_refused(value: str) -> None:
    (line,) = run("report", "--run-id", value)
    assert "argument --run-id: expected 1 to 250 characters" in line


@pytest.mark.parametrize("value", ["manual__2026-11-21T02:21:13+00:00", "'; DROP TABLE runs; --", "a b", "$HOME", "{}", "é😀", "x" * 250])
def test_unusual_run_ids_are_accepted(value: str) -> None:
    assert run("report", "--run-id", value) == []


@pytest.mark.parametrize(
    "value", ["", " ", "file:", "file://", "a`b", "${env:HOME}/w", "w[1]", "w*", "a\\b", "a\nb", NOT_UTF8, "${x}.b", "s3://k:s@b"]
)
def test_warehouse_name_that_spark_would_change_is_refused(value: str) -> None:
    """Of ``${env:HOME}`` Spark would make another folder, and write there."""
    (line,) = run("report", "--warehouse", value)
    assert line.startswith("evenkeel: warehouse ") and ("name" in line or "password" in line)


@pytest.mark.parametrize(
    "value", ["w", "a b", "it's", "p%20q", "h#f", "a:b", "file:w", "s3a://bucket/w@1", "main.evenkeel", "`my-cat`.db", "é😀"]
)
def test_unusual_warehouse_names_are_accepted(value: str) -> None:
    assert run("report", "--warehouse", value) == []


@pytest.mark.parametrize(
    "name", ["a[1].jsonl", "{a,b}.jsonl", "*.jsonl", "a?.jsonl", "a\\b.jsonl", "02:21:13.jsonl", "a\nb.jsonl", os.fsdecode(b"\xff.jsonl")]
)
def test_a_capture_that_spark_would_not_find_is_refused_by_its_name(name: str, tmp_path: Path) -> None:
    """Also where only its folder was named: passed over in silence, its records would be missing."""
    (tmp_path / name).write_text(record_line())
    for named in (tmp_path / name, tmp_path):
        (line,) = run("land", "--input", named)
        assert line.startswith(f"evenkeel: input {tmp_path}/") and "name" in line


@pytest.mark.parametrize("location", ["/", ".", "..", "nowhere/..", "folder", "/dev/null"])
def test_a_report_goes_where_a_file_can_be(location: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Told before anything runs: the report is what a run ends with."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (line,) = run("run", "--output", location)
    assert line.startswith("evenkeel: report.output: expected the name of a file, found /")
    (tmp_path / "folder" / "old.html").touch()
    assert run("run", "--output", "folder/old.html") == run("run", "--output", "folder/new/report.html") == []


@pytest.mark.parametrize(("option", "setting"), [("--group-pages", "group_pages"), ("--export-dir", "export_dir")])
def test_pages_and_exports_go_where_a_folder_can_be(option: str, setting: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (line,) = run("report", option, tmp_path / "file")
    assert line == f"evenkeel: report.{setting}: expected the name of a folder, found the file {tmp_path}/file"
    assert run("report", option, tmp_path) == run("report", option, tmp_path / "new") == []


@pytest.mark.parametrize("name", ["_a.jsonl", ".a.jsonl", "a.jsonl._COPYING_"])
def test_a_capture_that_spark_would_pass_over_is_refused_by_its_name(name: str, tmp_path: Path) -> None:
    """In a folder such files are passed over; one that was named is wanted."""
    (tmp_path / name).write_text(record_line())
    (line,) = run("land", "--input", tmp_path / name)
    assert line.startswith(f"evenkeel: input {tmp_path}/{name}: ") and line.endswith("rename it")


@pytest.mark.parametrize("name", ["a b.jsonl", "it's.jsonl", "p%20c.jsonl", "h#f.jsonl", "é😀.jsonl", "-.jsonl", "$x.jsonl"])
def test_unusual_capture_names_are_accepted(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(record_line())
    assert run("land", "--input", tmp_path / name) == []


def test_a_password_in_an_input_is_not_repeated() -> None:
    (line,) = run("land", "--input", f"s3a://key:{CANARY}@bucket/captures")
    assert CANARY not in line


def test_a_terminal_that_cannot_show_a_name_shows_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written, "latin-1"))
    monkeypatch.setattr(cli, "_execute", lambda *_: "group \U0001f600 in Z\u00fcrich")
    assert cli.console_main(["report"]) == 0
    sys.stdout.flush()
    assert written.getvalue() == b"group \\U0001f600 in Z\xfcrich\n"


COMMIT = "w/movements/_delta_log/00000000000000000000.json"


@pytest.mark.parametrize(
    ("command", "options", "message"),
    [
        ("run", ["--input", "captures/capture.jsonl", "--output", "captures/capture.jsonl"], "captures/capture.jsonl is an input;"),
        ("run", ["--input", "captures", "--output", "link.jsonl"], "captures/capture.jsonl is an input;"),
        ("run", ["--config", "export.yaml"], None),
        ("run", ["--config", "export.yaml", "--output", "export.yaml"], "export.yaml is an input;"),
        ("report", ["--output", COMMIT], "lies in the Delta table"),
        ("report", ["--output", "r.html", "--export", "csv", "--export-dir", "."], None),
        ("report", ["--group-pages", "w/movements"], "lies in the Delta table"),
        ("report", ["--output", "notes.html"], None),
    ],
)
def test_a_report_replaces_only_reports(
    command: str, options: list[str], message: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused before Spark starts; ``--overwrite`` lets it replace what no report wrote, and neither inputs nor tables."""
    monkeypatch.chdir(tmp_path)
    files = {"captures/capture.jsonl": record_line(), "notes.html": "mine", "findings.csv": "mine", "w/findings.csv": "mine"}
    files |= {COMMIT: "{}", "export.yaml": "{inputs: [captures], report: {export: [csv]}}"}
    for name, content in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(content)
    Path("link.jsonl").symlink_to("captures/capture.jsonl")
    (line,) = run(command, "--warehouse", "w", *options)
    assert line.startswith("evenkeel: report.") and (message or "is a file that no report wrote") in line
    overwriting = run(command, "--warehouse", "w", *options, "--overwrite")
    assert overwriting == ([line] if message else [])
    assert {name: Path(name).read_text() for name in files} == files


@pytest.mark.parametrize(("option", "setting"), [("--output", "output"), ("--group-pages", "group_pages"), ("--export-dir", "export_dir")])
def test_a_report_goes_to_a_path_of_this_machine(option: str, setting: str) -> None:
    """Before, it went into a folder called ``s3a:``."""
    (line,) = run("report", option, f"s3a://key:{CANARY}@bucket/report.html")
    assert line.startswith(f"evenkeel: report.{setting}: expected a path on this machine, found s3a://***@bucket/report.html; ")
