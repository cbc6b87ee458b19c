"""The command line: what it accepts, which setting wins, and how it refuses."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from jobs import cli
from jobs import settings as settings_module
from jobs.options import COMMANDS, Command
from jobs.parser import parse
from jobs.runtime import extras
from jobs.runtime.arguments import moment
from jobs.runtime.errors import EvenkeelError, GateFailedError, InputError, PlatformError, UsageError, WarehouseBusyError
from jobs.runtime.installation import zip_packages
from jobs.runtime.interruption import TableState
from jobs.runtime.log_format import coloured
from jobs.runtime.run_options import WarehouseOptions
from jobs.settings import conf_folder, load_settings
from schemas.config import Settings
from schemas.vocabulary import STRATEGIES, Severity, Source
from tests.builders import records

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def own_logging() -> Iterator[None]:
    """``main`` sets up the package's logger; other tests read theirs through pytest's."""
    package = logging.getLogger("jobs")
    before = package.handlers, package.propagate, package.level
    yield
    package.handlers, package.propagate, package.level = before


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[tuple]:
    """What would have been run: (command, options, settings, captures)."""
    calls: list[tuple] = []

    def record(command: Command, options: WarehouseOptions, settings: Settings, folder: Path, captures: tuple, *_: Any) -> None:
        calls.append((command, options, settings, captures))

    monkeypatch.setattr(cli, "_execute", record)
    return calls


@pytest.fixture
def settings_file(tmp_path: Path) -> Path:
    path = tmp_path / "conf" / "mine.yaml"
    path.parent.mkdir()
    path.write_text(
        "inputs: [captures, /abs/olute, s3a://bucket/key]\nwarehouse: from-file\ncluster_id: file-cluster\nstrategies: [sticky]\n"
        "quality: {fail_on: info}\nreport: {output: from-file.html}\n"
    )
    return path


def load(*argv: str) -> Settings:
    return load_settings(parse(argv)[1], ROOT / "conf")


def test_the_command_line_needs_no_spark() -> None:
    """Wrong usage is reported, and settings are read, before Spark is imported."""
    script = (
        "import sys, jobs.decoders.captures, jobs.cli as cli; from pathlib import Path;"
        "from jobs.parser import parse; from jobs.settings import load_settings;"
        "load_settings(parse(['run'])[1], Path('conf')); print('pyspark' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert (done.stdout, done.stderr) == ("False\n", "")


# -- which setting wins


def test_without_options_the_demo_is_run_into_the_current_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    settings = load("run")
    assert settings.inputs == (str(ROOT / "conf" / "demo"),)
    assert (settings.warehouse, settings.strategies) == ("./warehouse", STRATEGIES)
    assert settings.report.output == str(tmp_path / "warehouse" / "report.html")


def test_a_file_beats_the_defaults(settings_file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    settings = load("run", "--config", str(settings_file))
    assert settings.inputs == (str(settings_file.parent / "captures"), "/abs/olute", "s3a://bucket/key")
    assert (settings.warehouse, settings.cluster_id, settings.strategies) == ("from-file", "file-cluster", ("sticky",))
    assert settings.quality.fail_on is Severity.INFO
    assert settings.report.output == str(tmp_path / "from-file.html")


def test_a_flag_beats_the_file(settings_file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    flags = ["--input", "a", "b", "--warehouse", "w", "--cluster-id", "c", "--strategies", "range, roundrobin,"]
    settings = load("run", "--config", str(settings_file), *flags, "--fail-on", "critical", "--output", "o.html")
    assert settings.inputs == ("a", "b"), "on the command line a relative path starts at the current folder"
    assert (settings.warehouse, settings.cluster_id, settings.strategies) == ("w", "c", ("range", "roundrobin"))
    assert settings.quality.fail_on is Severity.CRITICAL
    assert settings.report.output == str(tmp_path / "o.html")
    assert settings.report.worst_groups == 100, "what nobody names keeps its default"


def test_the_reports_further_files_are_asked_for_by_flag_or_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    plain = load("report").report
    assert (plain.group_pages, plain.export, plain.export_dir) == (None, (), None)
    report = load("report", "--group-pages", "d", "--export", "csv, json,prometheus", "--export-dir", "e").report
    assert (report.group_pages, report.export_dir) == (str(tmp_path / "d"), str(tmp_path / "e"))
    assert report.export == ("csv", "json", "prometheus")
    (tmp_path / "s.yaml").write_text("report: {export: [prometheus], group_pages: pages}")
    report = load("run", "--config", "s.yaml").report
    assert (report.export, report.group_pages) == (("prometheus",), str(tmp_path / "pages"))


def test_former_key_of_a_setting_works_and_names_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "s.yaml"
    path.write_text("report: {details: pages}")
    assert load("run", "--config", str(path)).report.group_pages == str(tmp_path / "pages")
    assert [record.getMessage() for record in caplog.records] == [
        f"{path}: report.details is now called group_pages; the old name works until release 1.0"
    ]
    path.write_text("report: {details: pages, group_pages: others}")
    with pytest.raises(UsageError, match=r"unknown key 'report\.details'"):
        load("run", "--config", str(path))


def test_unknown_export_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"--export: found 'xlsx', expected some of csv, json, prometheus;"):
        load("report", "--export", "csv,xlsx")


@pytest.mark.parametrize(
    ("warehouse", "expected"),
    [
        ("w", "w/report.html"),
        ("/abs/w", "/abs/w/report.html"),
        ("file:///abs/w", "/abs/w/report.html"),
        ("s3a://bucket/w", "report.html"),
        ("main.evenkeel", "report.html"),
    ],
)
def test_the_report_goes_beside_the_tables_where_that_is_a_folder(
    warehouse: str, expected: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert load("report", "--warehouse", warehouse).report.output == str(tmp_path / expected)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(None, "cannot be read (No such file or directory)", id="no file"),
        pytest.param(b"a: [", "not YAML (while parsing", id="no YAML"),
        pytest.param(b"\xff\xfe", "not YAML ('utf-8' codec", id="no text"),
        pytest.param(b"report: {}\nquality: {}\nreport: {}\n", "line 3: found the key 'report' twice, expected it once", id="a key twice"),
        pytest.param(
            b"report:\n  export: []\n  'export': [a]", "line 3: found the key 'export' twice, expected it once", id="a nested key twice"
        ),
        pytest.param(b"inputs: [a, '']", "inputs: expected names, found an empty one", id="an empty input"),
        pytest.param(b"warehous: w", "unknown key 'warehous': did you mean 'warehouse'?", id="a typo"),
    ],
)
def test_mistake_in_a_settings_file_is_named_with_its_path(content: bytes | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError) as refused:
        load("run", "--config", str(path))
    assert message in str(refused.value) and str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_flag_with_a_mistake_says_so() -> None:
    with pytest.raises(UsageError, match=r"command line: strategies: .*named more than once: range"):
        load("run", "--strategies", "range,range")


# -- arguments


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "the following arguments are required: COMMAND; evenkeel --help lists the options"),
        (["xyz"], "there is no command 'xyz'; evenkeel --help lists the options"),
        (["rnu"], "there is no command 'rnu'; did you mean run? evenkeel --help lists the options"),
        (["run", "--warehous", "w"], "run has no option --warehous; did you mean --warehouse? evenkeel run --help lists the options"),
        (["collect", "--bootstrap-srevers=b:1"], "collect has no option --bootstrap-srevers; did you mean --bootstrap-servers? "),
        (["run", "--xyz"], "run has no option --xyz; evenkeel run --help lists the options"),
        (["run", "--driver-memory", "8g"], "--driver-memory is an option of Spark, which comes before the command: ./spark-submit.sh "),
        (["--master", "yarn", "run"], "--master is an option of Spark, which only ./spark-submit.sh takes"),
        (["report", "--export", "csv,cvs"], "--export: found 'cvs', expected some of csv, json, prometheus; did you mean csv? "),
        (["report", "--input", "x"], "report has no option --input, unlike run, land; "),
        (["explain", "g", "--json"], "explain has no option --json; did you mean --format json? evenkeel explain --help"),
        (["land", "--fail-on", "info"], "land has no option --fail-on, unlike run, audit; "),
        (["verify", "--run-id", "r"], "verify has no option --run-id, unlike run, land, "),
        (["audit", "--recompute"], "audit has no option --recompute, unlike assign; evenkeel audit --help lists"),
        (["run", "--format", "described"], "found 'described', expected one of consumer-offsets, "),
        (["run", "--fail-on", "fatal"], "found 'fatal', expected one of info, warning, critical"),
        (["run", "--as-of", "yesterday"], "expected ISO 8601 such as 2026-11-21T02:21:13Z, found 'yesterday'"),
        (["run", "--wait", "nan"], "expected a number of seconds from 0, found 'nan'"),
        (["run", "--wait", "-1"], "expected a number of seconds from 0, found '-1'"),
        (["run", "--wait", "long"], "expected a number of seconds from 0, found 'long'"),
        (["assign", "--since", "2026-01-01"], "--since needs --recompute or --expand"),
        (["assign", "--output", "x.parquet"], "--output needs --expand"),
        (["assign", "--expand", "g", "--strategies", "range"], "--expand excludes --strategies: it prints what was computed"),
        (["assign", "--expand", "g", "--run-id", "r"], "--expand excludes --run-id: it prints what was computed"),
        (["assign", "--expand", "g", "--wait", "5"], "--expand excludes --wait: it prints what was computed"),
        (["land", "--bootstrap-servers", "b:1", "--format", "dump-log"], "--format needs --input: a live cluster is no file"),
        (["land", "--bootstrap-servers", "b:1", "--offsets-partition", "0"], "--offsets-partition needs --input: a live"),
        (["collect", "--bootstrap-servers", "b:1", "--output", "d", "--poll-interval", "5"], "--poll-interval needs --follow"),
        (["collect", "--bootstrap-servers", "b:1", "--output", "d", "--metadata-interval", "5"], "--metadata-interval needs --follow"),
        (["report", "--quiet", "--verbose"], "--quiet and --verbose exclude each other"),
        (["assign", "--recompute", "--expand", "g"], "--recompute and --expand cannot be used together"),
        (["assign", "--expand", "g", "--output", __file__], "exists already; name a new file"),
        (["run", "--strategies", "rnage"], "strategies: no assignor is called 'rnage'; known are range,"),
        (["run", "--input", ""], "argument --input: expected a name, found none"),
        (["run", "--config", ""], "argument --config: expected a name, found none"),
        (["run", "--input", "/nowhere"], "input /nowhere: no such file or folder"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(argv: list[str], message: str, executed: list, capsys: pytest.CaptureFixture) -> None:
    assert cli.console_main(argv) == 2
    written = capsys.readouterr()
    assert message in written.err
    assert (written.err.startswith("evenkeel: "), written.err.count("\n"), written.out) == (True, 1, "")
    assert executed == []


UNUSED = {
    "land": "--strategies range",
    "assign": "--as-of 2026-01-01",
    "audit": "--as-of 2026-01-01 --cluster-id c --strategies range",
    "report": "--cluster-id c --run-id r --strategies range --wait 5",
    "maintain": "--cluster-id c --strategies range",
    "what-if": "--as-of 2026-01-01",
}
"""Command -> options of other stages that it takes without a use for them, so that one list of options can be given to every stage."""


@pytest.mark.parametrize("command", UNUSED)
def test_option_without_a_use_is_taken_with_a_warning_and_is_not_in_the_help(command: str, capsys: pytest.CaptureFixture) -> None:
    words = UNUSED[command].split()
    names = [word for word in words if word.startswith("--")]
    warnings = parse([command, *(["g"] if command == "what-if" else []), *words]).warnings
    assert warnings == tuple(f"{command} makes no use of {name}; it takes this option until release 1.0" for name in names)
    with pytest.raises(SystemExit):
        parse([command, "--help"])
    shown = re.findall(r"^  (--[a-z-]+)", capsys.readouterr().out, re.MULTILINE)
    assert "--config" in shown and not {*names} & {*shown}


def test_stages_with_a_use_for_an_option_are_named(capsys: pytest.CaptureFixture) -> None:
    """Report, audit, land and maintain only take it."""
    assert cli.console_main(["verify", "--strategies", "range"]) == 2
    assert "verify has no option --strategies, unlike run, assign, what-if; " in capsys.readouterr().err


@pytest.mark.parametrize(("argv", "needed"), [(["assign", "--cluster-id", "c"], "--expand"), (["report", "--export-dir", "d"], "--export")])
def test_option_without_the_one_that_needs_it_is_a_warning(
    argv: list[str], needed: str, executed: list, capsys: pytest.CaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.console_main(argv) == 0
    assert f"{argv[0]} makes no use of {argv[1]} without {needed}\n" in capsys.readouterr().err
    assert [command.name for command, *_ in executed] == argv[:1]


def test_value_of_an_option_without_a_use_is_checked(capsys: pytest.CaptureFixture) -> None:
    assert cli.console_main(["report", "--wait", "long"]) == 2
    assert "expected a number of seconds from 0, found 'long'" in capsys.readouterr().err


def test_messages_have_the_name_of_the_program_that_was_typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setenv("EVENKEEL_PROGRAM", "../spark-submit.sh")
    assert cli.console_main(["rnu"]) == 2
    assert "../spark-submit.sh --help lists the options" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.console_main(["help", "verify"])
    printed = capsys.readouterr().out
    assert printed.startswith("usage: ../spark-submit.sh verify ")
    assert "\nexamples:\n  ../spark-submit.sh verify --warehouse " in printed


@pytest.mark.parametrize("example", [example for command in COMMANDS.values() for example in command.examples])
def test_examples_of_the_help_are_command_lines(example: str) -> None:
    assert parse(shlex.split(example)).command.name == example.split()[0]


def test_every_command_has_an_example() -> None:
    assert [name for name, command in COMMANDS.items() if not command.examples] == []


@pytest.mark.parametrize(
    ("words", "name", "expected"),
    [
        ("run --input a b --wait 1 --input c", "input", ("a", "b", "c")),
        ("run --strategies range --strategies sticky,uniform", "strategies", ("range", "sticky", "uniform")),
        ("report --export csv --export json", "export", ("csv", "json")),
        ("assign --expand a --expand b", "expand", ("a", "b")),
        ("what-if g --partitions t=3 --partitions u=4,v=5", "partitions", (("t", 3), ("u", 4), ("v", 5))),
        ("what-if g --rack a*=x --rack b*=y", "rack", (("a*", "x"), ("b*", "y"))),
        ("what-if g --subscribe t --subscribe u", "subscribe", ("t", "u")),
        ("what-if g --strategies range --strategies sticky", "strategies", ("range", "sticky")),
    ],
)
def test_second_use_of_an_option_adds_to_the_first(words: str, name: str, expected: tuple) -> None:
    """By default the first one would be dropped without a word."""
    assert getattr(parse(words.split()).options, name) == expected


def test_kafkas_own_spelling_of_the_servers_is_taken() -> None:
    assert parse(["run", "--bootstrap-server", "b:1"]).options == parse(["run", "--bootstrap-servers", "b:1"]).options


@pytest.mark.parametrize(
    ("argv", "missing", "named"),
    [
        ("run", ["great_expectations", "jinja2"], "packages great-expectations and jinja2, Evenkeel's extras quality and report; "
         "install them:"),
        ("report", ["jinja2"], "package jinja2, Evenkeel's extra report; install it:"),
        ("verify", ["pyspark"], "package pyspark, Evenkeel's extra spark; install it:"),
        ("what-if --all", ["deltalake"], "package deltalake, Evenkeel's extra reading; install it:"),
        ("what-if --all --save", ["great_expectations"], "package great-expectations, Evenkeel's extra quality; install it:"),
        ("land --bootstrap-servers b:1", ["confluent_kafka"], "package confluent-kafka, Evenkeel's extra kafka; install it:"),
    ],
)  # fmt: skip
def test_missing_extras_are_named_before_anything_starts(
    argv: str, missing: list[str], named: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, executed: list
) -> None:
    find = extras.find_spec
    monkeypatch.setattr(extras, "find_spec", lambda module: None if module in missing else find(module))
    assert cli.console_main(argv.split()) == 2
    command, install = argv.split()[0], f"{sys.executable} -m pip install"
    packages = " ".join(name.replace("_", "-") for name in missing)
    assert capsys.readouterr().err == f"evenkeel: {command} needs the {named} {install} {packages}\n"
    assert executed == []


def test_quiet_and_verbose_choose_the_lines_of_the_log(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    def fail(*_: Any) -> None:
        logging.getLogger("jobs").info("a line")
        try:
            raise ValueError("the cause")
        except ValueError as error:
            raise EvenkeelError("went wrong") from error

    monkeypatch.setattr(cli, "_execute", fail)
    printed = {}
    for option in ("", "--quiet", "-v"):
        assert cli.console_main(["report", *option.split()]) == 1
        printed[option] = capsys.readouterr().err
    assert printed[""] == "evenkeel: a line\nevenkeel: went wrong\n"
    assert printed["--quiet"] == "evenkeel: went wrong\n"
    assert "ValueError: the cause" in printed["-v"]


@pytest.mark.parametrize(
    ("is_terminal", "variables", "is_coloured"), [(True, {}, True), (True, {"NO_COLOR": "1"}, False), (False, {}, False)]
)
def test_colour_is_for_terminals(is_terminal: bool, variables: dict, is_coloured: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    stream = io.StringIO()
    stream.isatty = lambda: is_terminal  # type: ignore[method-assign]  # a terminal
    assert coloured("text", stream) == ("\x1b[33mtext\x1b[0m" if is_coloured else "text")


@pytest.mark.parametrize("command", sorted({*COMMANDS} - {"collect", "explain"}))
def test_omitted_options_have_the_defaults_of_the_options_class(command: str) -> None:
    assert parse([command])[1] == COMMANDS[command].options()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-21T02:21:13Z", datetime(2026, 11, 21, 2, 21, 13, tzinfo=timezone.utc)),
        ("2026-11-21T02:21:13", datetime(2026, 11, 21, 2, 21, 13, tzinfo=timezone.utc)),
        ("2026-11-21", datetime(2026, 11, 21, tzinfo=timezone.utc)),
        ("2026-11-21T02:21:13+02:00", datetime(2026, 11, 21, 0, 21, 13, tzinfo=timezone.utc)),
    ],
)
def test_moments_are_utc(text: str, expected: datetime) -> None:
    assert moment(text) == expected
    assert moment(text).utcoffset() == timedelta(0)


def test_parsed_options_settings_and_captures_reach_the_run(executed: list, tmp_path: Path) -> None:
    (tmp_path / "records").write_text(records.record_line())
    argv = ["land", "--input", str(tmp_path), "--format", "consumer-offsets", "--run-id", "r", "--wait", "2.5", "--as-of", "2026-01-01"]
    cli.main(argv)
    ((command, options, settings, captures),) = executed
    assert (command.name, options.run_id, options.wait, options.as_of.year) == ("land", "r", 2.5, 2026)
    assert settings.inputs == (str(tmp_path),)
    assert [(capture.source, Path(capture.path).name) for capture in captures] == [(Source.CONSUMER_OFFSETS, "records")]


DESCRIBED = "\nConsumer group 'g' has no active members.\n"


def test_texts_without_a_time_are_passed_over_beside_better_captures(executed: list, tmp_path: Path, capsys) -> None:
    (tmp_path / "records").write_text(records.record_line())
    (tmp_path / "printed.txt").write_text(DESCRIBED)
    cli.main(["land", "--input", str(tmp_path)])
    cli.main(["land", "--input", str(tmp_path), "--as-of", "2026-01-01"])
    assert [[Path(capture.path).name for capture in captures] for *_, captures in executed] == [["records"], ["printed.txt", "records"]]
    assert "skipped 1 texts such as" in capsys.readouterr().err


@pytest.mark.parametrize("inputs", [("printed.txt",), ("records", "printed.txt"), ("folder",)])
def test_texts_without_a_time_are_refused_where_they_are_what_was_asked_for(inputs: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "records").write_text(records.record_line())
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "printed.txt", tmp_path / "folder" / "printed.txt"):
        path.write_text(DESCRIBED)
    with pytest.raises(UsageError, match=r"printed.txt: the text has no time of its own; give its time with --as-of"):
        cli.main(["land", "--input", *(str(tmp_path / name) for name in inputs)])


def test_settings_file_may_have_keys_of_other_commands(executed: list, tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_text("{inputs: [.], cluster_id: c, strategies: [range], report: {export_dir: d, output: r.html}, quality: {fail_on: info}}")
    for command in ("assign", "audit", "report", "maintain", "verify"):
        cli.main([command, "--config", str(path)])
    assert [command.name for command, *_ in executed] == ["assign", "audit", "report", "maintain", "verify"]


@pytest.mark.parametrize("command", sorted({*COMMANDS} - {"run", "land", "collect", "show", "explain", "sql", "what-if"}))
def test_commands_after_landing_ignore_configured_inputs(command: str, executed: list, tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text("inputs: [nowhere]")
    cli.main([command, "--config", str(tmp_path / "f.yaml")])
    assert executed[0][-1] == ()


# -- ends


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (EvenkeelError("went wrong"), 1),
        (InputError("no such file"), 2),
        (WarehouseBusyError("held by another run"), 3),
        (GateFailedError("too many"), 4),
    ],
)
def test_errors_are_exit_codes(error: EvenkeelError, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(cli, "_execute", fail)
    assert cli.console_main(["report"]) == code
    assert capsys.readouterr().err == f"evenkeel: {error}\n"


def test_an_interrupt_ends_without_traceback(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_execute", interrupt)
    assert cli.console_main(["report"]) == 130
    assert capsys.readouterr().err == "evenkeel: interrupted; the tables are as before\n"


def test_an_interrupt_says_what_is_true_of_the_tables(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    def interrupt(*arguments: Any) -> None:
        arguments[-1].tables = TableState.UNPUBLISHED
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_execute", interrupt)
    assert cli.console_main(["report"]) == 130
    assert capsys.readouterr().err == "evenkeel: interrupted; the next run takes the tables back\n"


def test_a_summary_goes_to_stdout(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setattr(cli, "_execute", lambda *_: "ten groups")
    assert cli.console_main(["report"]) == 0
    assert capsys.readouterr().out == "ten groups\n"


ANSWERS = "import sys, jobs.cli as cli; cli._show = lambda options: 'one\\ntwo'; sys.exit(cli.console_main(['show']))"
REFUSED = "import sys, jobs.cli as cli; sys.exit(cli.console_main(['show', '--warehouse', '/nonexistent']))"
FAILS_ON_FINDINGS = """
import sys, jobs.cli as cli
from types import SimpleNamespace
from jobs import pipeline
from schemas.vocabulary import Severity
settings = SimpleNamespace(quality=SimpleNamespace(fail_on=Severity.WARNING))
pipeline.gates.count_serious = lambda *_: 3
cli._run = lambda *_: pipeline._check_fail_on(None, SimpleNamespace(settings=settings), 1, "summary")
sys.exit(cli.console_main(["run"]))
"""
WARNS = """
import sys, logging, jobs.cli as cli
cli._show = lambda options: logging.getLogger("jobs.show").warning("odd")
sys.exit(cli.console_main(["show"]))
"""


@pytest.mark.parametrize(
    ("script", "stream", "code"),
    [(ANSWERS, "stdout", 0), (FAILS_ON_FINDINGS, "stdout", 4), (REFUSED, "stderr", 2), (WARNS, "stderr", 0)],
)
def test_exit_code_is_kept_where_the_reader_has_gone(script: str, stream: str, code: int) -> None:
    readable, writable = os.pipe()
    os.close(readable)
    streams: dict[str, int] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: writable}
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, text=True, timeout=300, check=False, **streams)
    os.close(writable)
    assert (done.returncode, "Traceback" in (done.stderr or "")) == (code, False), done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
def test_answer_onto_a_full_disk_is_one_line() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-c", ANSWERS], cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.stderr == "evenkeel: the answer cannot be written to stdout (No space left on device)\n"
    assert done.returncode == 1


def test_log_lines_are_plain_or_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setattr(cli, "_execute", lambda *_: logging.getLogger("jobs.land.run").warning("%d records", 3))
    cli.main(["report"])
    assert capsys.readouterr().err == "evenkeel: 3 records\n"
    cli.main(["report", "--log-format", "json"])
    line, end = map(json.loads, capsys.readouterr().err.splitlines())
    assert datetime.fromisoformat(line.pop("at")).utcoffset() == timedelta(0)
    assert line == {"level": "warning", "logger": "jobs.land.run", "message": "3 records"}
    assert end["seconds"] >= 0
    assert {name: end[name] for name in ("level", "event", "command", "exit_code")} == {
        "level": "info", "event": "end", "command": "report", "exit_code": 0,
    }  # fmt: skip


def test_the_last_line_of_a_json_log_says_what_the_run_came_to(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    def publish(*arguments: object) -> str:
        arguments[-2].update(run_id="r1", report="/tmp/report.html")
        return "ten groups\n/tmp/report.html"

    monkeypatch.setattr(cli, "_execute", publish)
    assert cli.console_main(["report", "--log-format", "json"]) == 0
    printed = capsys.readouterr()
    end = json.loads(printed.err)
    assert (end["run_id"], end["report"]) == ("r1", "/tmp/report.html")
    assert printed.out == "ten groups\n/tmp/report.html\n"


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (WarehouseBusyError("held\nby another"), 3, "held\nby another"),
        (KeyboardInterrupt(), 130, "interrupted; the tables are as before"),
    ],
)
def test_a_json_log_ends_with_the_reason_of_a_failure(
    error: BaseException, code: int, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(cli, "_execute", fail)
    assert cli.console_main(["report", "--log-format", "json"]) == code
    end = json.loads(capsys.readouterr().err)  # one line, and nothing else
    assert (end["level"], end["event"], end["exit_code"], end["error"]) == ("error", "end", code, message)
    assert cli.console_main(["report", "--log-format", "xml"]) == 2
    assert capsys.readouterr().err.startswith("evenkeel: argument --log-format: ")


@pytest.mark.parametrize(
    ("words", "command", "error"),
    [
        ("report --log-format json --wrong", "report", "report has no option --wrong; "),
        ("report --as-of never --log-format=json", "report", "argument --as-of: expected ISO 8601 "),
        ("rnu --log-format json", "", "there is no command 'rnu'; did you mean run? "),
        ("show --log-format json --quiet --verbose", "show", "--quiet and --verbose exclude each other"),
    ],
)
def test_wrong_usage_is_one_json_line_in_a_json_log(words: str, command: str, error: str, capsys: pytest.CaptureFixture) -> None:
    assert cli.console_main(words.split()) == 2
    end = json.loads(capsys.readouterr().err)
    assert (end["level"], end["event"], end["command"], end["exit_code"]) == ("error", "end", command, 2)
    assert end["error"].startswith(error)


def test_help_has_no_line_of_a_log(capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit):
        cli.console_main(["report", "--log-format", "json", "--help"])
    assert capsys.readouterr().err == ""


# -- where things are


def test_missing_conf_folder_is_an_error_that_names_the_searched_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(settings_module, "__file__", str(tmp_path / "jobs" / "settings.py"))
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(tmp_path / "far" / "away" / "main.py"), raising=False)
    with pytest.raises(PlatformError) as refused:
        conf_folder()
    assert all(str(tmp_path / folder) in str(refused.value) for folder in ("jobs", "far"))


def test_conf_is_found_in_the_checkout_of_the_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As with ``spark-submit --py-files evenkeel.zip jobs/__main__.py``: the modules are in an archive, the script is not."""
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "local.yaml").touch()
    monkeypatch.setattr(settings_module, "__file__", "/archive.zip/jobs/settings.py")
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(tmp_path / "jobs" / "__main__.py"), raising=False)
    assert conf_folder() == tmp_path / "conf"


def test_conf_is_found_in_the_zip_that_is_all_there_is(tmp_path: Path) -> None:
    """As in a container of a cluster, where the program's own file lies alone; what was unpacked goes with the process."""
    program = zip_packages(tmp_path)
    (tmp_path / "__main__.py").write_text(
        "from jobs.cli import conf_folder; folder = conf_folder(); print(folder, len((folder / 'local.yaml').read_bytes()))"
    )
    environment = {**os.environ, "PYTHONPATH": str(program), "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, tmp_path / "__main__.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    folder, size = done.stdout.split()
    assert Path(folder).is_relative_to(tmp_path), done.stderr
    assert not Path(folder).exists()
    assert int(size) == (ROOT / "conf" / "local.yaml").stat().st_size


def test_parts_of_two_installations_do_not_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, executed: list) -> None:
    monkeypatch.setattr(cli.schemas, "__file__", "/elsewhere/schemas/__init__.py")
    assert cli.console_main(["report"]) == 2
    assert "packages of different installations: jobs from " in (error := capsys.readouterr().err)
    assert "schemas from /elsewhere" in error
    assert executed == []


def test_maintenance_drops_nothing_by_a_clock_that_is_ahead(executed: list[tuple]) -> None:
    with pytest.raises(UsageError, match="in the future"):
        cli.main(["maintain", "--as-of", "2199-01-01"])
    cli.main(["maintain", "--as-of", "2026-11-21"])
    assert [command.name for command, *_ in executed] == ["maintain"]


@pytest.fixture
def unhandled() -> Iterator[list[int]]:
    """The signals that reached whoever calls the command line, which would have ended a process without handlers."""
    reached: list[int] = []
    before = {number: signal.signal(number, lambda number, frame: reached.append(number)) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield reached
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_end_interrupts_a_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], unhandled: list[int], number: int
) -> None:
    cleaned: list[str] = []

    def command(argv: Any, interruption: Any) -> None:
        try:
            os.kill(os.getpid(), number)
            cleaned.append("never")
        finally:
            cleaned.append("cleaned")

    monkeypatch.setattr(cli, "main", command)
    assert cli.console_main([]) == 130
    assert (cleaned, unhandled, capsys.readouterr().err) == (["cleaned"], [], "evenkeel: interrupted; the tables are as before\n")
    os.kill(os.getpid(), number)
    assert unhandled == [number]  # afterwards it is the caller's again


def test_a_signal_to_end_does_what_an_interrupt_does_at_that_moment(monkeypatch: pytest.MonkeyPatch, unhandled: list[int]) -> None:
    """Such as waiting for the end of the last commit."""
    asked: list[int] = []

    def command(argv: Any, interruption: Any) -> None:
        before = signal.signal(signal.SIGINT, lambda number, frame: asked.append(number))
        os.kill(os.getpid(), signal.SIGTERM)
        signal.signal(signal.SIGINT, before)

    monkeypatch.setattr(cli, "main", command)
    assert cli.console_main([]) == 0
    assert (asked, unhandled) == ([signal.SIGTERM], [])


def test_command_under_nohup_ignores_hangup(monkeypatch: pytest.MonkeyPatch, unhandled: list[int]) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    monkeypatch.setattr(cli, "main", lambda argv, interruption: os.kill(os.getpid(), signal.SIGHUP))
    assert cli.console_main([]) == 0
