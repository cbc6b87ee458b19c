"""The launcher as data: how a call is read, what it becomes, and what is said when it cannot go on. Starts no process."""

from __future__ import annotations

import errno
import hashlib
import locale
import os
import re
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from jobs import launcher
from jobs.launcher.archive import ZIP_SOURCES, update_zip, write_zip, zip_path
from jobs.launcher.checkout import (
    Jar,
    Spark,
    explain_failure,
    is_fitting_java,
    ivy_module,
    ivy_settings,
    java_version,
    read_jars,
    read_lock,
    requirements,
    select_packages,
)
from jobs.launcher.checks import (
    check_deploy_mode,
    check_for_java,
    check_master,
    check_open_files,
    check_python,
    check_values,
    check_words,
    current_folder,
    find_program,
    find_spark,
)
from jobs.launcher.class_archive import ClassArchive, archive_name, training_command
from jobs.launcher.command_line import ENCODED, CommandLine, choose_way, decode_arguments, encode_arguments, parse
from jobs.launcher.environment import choose_locale, clean_environment, codeset, resolve_paths, with_own_file
from jobs.launcher.making import DEFAULT_EXTRAS, Setup, check_jar
from jobs.launcher.messages import Refusal
from jobs.launcher.profile import Machine, OwnSettings, Profile, choose_profile, find_machine, own_settings, read_settings
from jobs.launcher.programs import run_program, wait_for_end
from jobs.launcher.start import Start, cluster_start, local_start, python_start, stderr_path
from jobs.launcher.workload import MB, Size, Workload, find_workload, measure_inputs, measure_warehouse
from jobs.runtime.installation import zip_packages

ROOT = Path(__file__).parents[3]
SPARK = Spark("/spark", "4.1", has_delta=False)
DELTA = (Jar("aa", "io.delta:delta-spark_4.1_2.13:4.4.0"), Jar("bb", "io.delta:delta-storage:4.4.0"))
LOCAL = ("/spark/bin/spark-submit", "--load-spark-defaults", "--properties-file", "/root/conf/spark-local.conf")
CLUSTER = ("/spark/bin/spark-submit", "--load-spark-defaults", "--properties-file", "/root/conf/spark-defaults.conf")
ZIP = ("--py-files", "/root/.evenkeel/evenkeel.zip")
SCRATCH = ("--conf", "spark.sql.warehouse.dir=/tmp/spark-warehouse")
MAIN = "/root/jobs/__main__.py"


# ------------------------------------------------------------------------------------------------------------ command line


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("", CommandLine()),
        ("run --master x -h", CommandLine(command=("run", "--master", "x", "-h"))),
        ("--queue a run", CommandLine(("--queue", "a"), ("run",))),
        ("--jars a help run", CommandLine(command=("run", "--help"), jars="a")),
        ("help", CommandLine(asks_usage=True)),
        ("--version", CommandLine(asks_version=True)),
        ("--verbose run", CommandLine(("--verbose",), ("run",))),
        ("--conf=a.b=c=d run", CommandLine(("--conf", "a.b=c=d"), ("run",))),
        ("--master=yarn run", CommandLine(("--master", "yarn"), ("run",), master="yarn")),
        ("-c spark.master=yarn run", CommandLine(("-c", "spark.master=yarn"), ("run",), master="yarn")),
        ("--master a --master b run", CommandLine(("--master", "a", "--master", "b"), ("run",), master="b")),
        ("--deploy-mode cluster run", CommandLine(("--deploy-mode", "cluster"), ("run",), deploy_mode="cluster")),
        ("--conf spark.submit.deployMode=cluster", CommandLine(("--conf", "spark.submit.deployMode=cluster"), deploy_mode="cluster")),
        ("--conf spark.jars=a -c spark.jars.packages=b run", CommandLine(command=("run",), jars="a", packages="b")),
        ("--remote sc://h run", CommandLine(command=("run",), remote="sc://h")),
        ("--conf=spark.remote=sc://h run", CommandLine(command=("run",), remote="sc://h")),
        ("--jars a --packages b --py-files c run", CommandLine(command=("run",), jars="a", packages="b", py_files="c")),
        ("-v --setup test connect", CommandLine(("-v",), setup_extras=("test", "connect"))),
        ("--setup", CommandLine(setup_extras=())),
        ("-v --help run", CommandLine(asks_usage=True)),
    ],
)
def test_arguments_are_split(words: str, line: CommandLine):
    assert parse(words.split()) == line


def test_an_empty_argument_is_the_command():
    assert parse(["-v", "", "-h"]) == CommandLine(("-v",), ("", "-h"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--mastre yarn run", "--mastre is not an option of Spark; did you mean --master?"),
        ("--mastre", "--mastre is not an option of Spark; did you mean --master?"),
        (
            "--warehouse w run",
            "--warehouse is not an option of Spark; options of a command come after it: ./spark-submit.sh COMMAND --warehouse",
        ),
    ],
)  # fmt: skip
def test_option_that_is_not_of_spark_is_refused_before_the_command(words: str, message: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("EVENKEEL_PROGRAM", "./spark-submit.sh")
    with pytest.raises(Refusal, match=f"^{re.escape(message)}$"):
        parse(words.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--driver-memory 8x", "--driver-memory needs an amount of memory such as 1500m or 8g, found '8x'"),
        ("-v --conf spark.executor.memory=1.5g", "spark.executor.memory needs an amount of memory such as 1500m or 8g, found '1.5g'"),
        ("--conf bogus", "--conf needs a setting of Spark and its value, KEY=VALUE, found 'bogus'"),
        ("--properties-file /nope", "--properties-file /nope cannot be read; name a file of settings"),
        ("--properties-file /", "--properties-file / cannot be read; name a file of settings"),
    ],
)
def test_value_that_spark_would_refuse_is_one_line(words: str, message: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(Refusal, match=f"^{re.escape(message)}$"):
        check_values(words.split())


def test_values_that_spark_takes_are_not_refused():
    words = f"--supervise --driver-memory 8G --executor-memory 512 -c spark.a=b=c --conf spark.d= --properties-file {__file__}"
    check_values(words.split())


@pytest.mark.parametrize("master", ["", "local", "local[2]", "local[*, 4]", "local-cluster[2,1,1024]"])
def test_local_master_needs_no_other_machine(master: str):
    check_master(master, {})


@pytest.mark.parametrize(
    ("mode", "master", "message"),
    [
        ("cluster", "", "--deploy-mode cluster: without --master Spark runs a Python driver on this machine only; leave it out, or give "),
        ("cluster", "local[2]", "--deploy-mode cluster: of --master local[2] Spark runs a Python driver on this machine only; "),
        (
            "cluster",
            "spark://h:7077",
            "--deploy-mode cluster: of --master spark://h:7077 Spark runs a Python driver on this ",
        ),
        ("clutser", "yarn", "--deploy-mode clutser: expected client or cluster"),
    ],
)
def test_deploy_mode_that_spark_would_refuse_is_one_line(mode: str, master: str, message: str):
    with pytest.raises(Refusal, match=f"^{re.escape(message)}"):
        check_deploy_mode(mode, master)


@pytest.mark.parametrize(("mode", "master"), [("", ""), ("client", "spark://h"), ("cluster", "yarn"), ("cluster", "k8s://h")])
def test_deploy_mode_that_spark_knows_is_taken(mode: str, master: str):
    check_deploy_mode(mode, master)


def test_own_file_of_settings_says_what_options_leave_open(tmp_path: Path):
    """Without it Spark read the file, and the launcher's own master and lists beat it without a word."""
    own = tmp_path / "own.conf"
    own.write_text(
        "spark.master yarn\nspark.submit.deployMode=cluster\nspark.jars a.jar,/b.jar\nspark.jars.packages g:a:1\n"
        "spark.files /f,g\nspark.app.name n\n"
    )
    options = ("--properties-file", str(own))
    line = with_own_file(resolve_paths(parse([*options, "run"]), "/here"))
    assert (line.master, line.deploy_mode, line.jars, line.packages) == ("yarn", "cluster", "/here/a.jar,/b.jar", "g:a:1")
    assert line.spark_options == ("--conf", "spark.files=/f,/here/g", *options)
    beaten = with_own_file(resolve_paths(parse(["--master", "local", "--jars", "c.jar", *options, "run"]), "/here"))
    assert (beaten.master, beaten.jars) == ("local", "/here/c.jar")
    assert with_own_file(parse(["run"])) == parse(["run"])


@pytest.mark.parametrize("master", ["yarm", "local[x]", "local[2", "spark:/h", "spark://", "mesos://h:5050", "http://h:80"])
def test_wrong_master_is_refused_in_one_line(master: str):
    with pytest.raises(Refusal, match=f"^--master {re.escape(master)}: expected local.*; without --master Spark runs on this machine$"):
        check_master(master, {})


def test_master_that_nobody_serves_is_refused_in_one_line():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        check_master(f"spark://127.0.0.1:{port}", {})
        check_master(f"spark://127.0.0.1:1,127.0.0.1:{port}", {})
    with pytest.raises(Refusal, match=r"no answer \(Connection refused\); correct the address, or start that cluster$"):
        check_master(f"spark://127.0.0.1:{port}", {})


def test_yarn_needs_the_settings_of_its_cluster(tmp_path: Path):
    check_master("yarn", {"YARN_CONF_DIR": "/etc/hadoop"})
    with pytest.raises(
        Refusal, match=r"^--master yarn needs the cluster's settings: set HADOOP_CONF_DIR or YARN_CONF_DIR to their folder$"
    ):
        check_master("yarn", {"SPARK_HOME": str(tmp_path)})
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-env.sh").touch()
    check_master("yarn", {"SPARK_HOME": str(tmp_path)})


def test_option_at_the_end_needs_its_value():
    with pytest.raises(Refusal, match=r"^--name needs a value; evenkeel --help shows the usage$"):
        parse(["--name"])


@pytest.mark.parametrize(
    ("words", "resolved"),
    [
        ("--jars a.jar,/b.jar,hdfs://h/c.jar,local:/d.jar run", CommandLine((), ("run",), jars="/here/a.jar,/b.jar,hdfs://h/c.jar,local:/d.jar")),
        ("--py-files a.py,b.zip run x", CommandLine((), ("run", "x"), py_files="/here/a.py,/here/b.zip")),
        ("--files a#b,c --keytab k run", CommandLine(("--files", "/here/a#b,/here/c", "--keytab", "/here/k"), ("run",))),
        ("--verbose --properties-file p run", CommandLine(("--verbose", "--properties-file", "/here/p"), ("run",))),
        ("--driver-class-path .:a:/b run", CommandLine(("--driver-class-path", "/here/.:/here/a:/b"), ("run",))),
        ("--conf spark.archives=a,b=c run", CommandLine(("--conf", "spark.archives=/here/a,/here/b=c"), ("run",))),
        ("-c spark.app.name=a --name --files run", CommandLine(("-c", "spark.app.name=a", "--name", "--files"), ("run",))),
        ("--archives ../e.tar.gz#e run --files f", CommandLine(("--archives", "/here/../e.tar.gz#e"), ("run", "--files", "f"))),
    ],
)  # fmt: skip
def test_paths_in_options_of_spark_start_at_the_current_folder(words: str, resolved: CommandLine):
    assert resolve_paths(parse(words.split()), "/here") == resolved._replace(folder="/here")


@pytest.mark.parametrize(
    "words",
    [
        ["land", "--cluster-id", "東京"],
        ["land", "what?"],
        ["%41", "é"],
        ["a b", "é\n"],
        ["--encoded-arguments", "é"],
        ["é\udcff"],
        ["", "ß"],
    ],
)
def test_arguments_that_a_jvm_may_change_travel_in_ascii(words: list[str]):
    encoded = encode_arguments(words)
    assert encoded[0] == ENCODED
    assert all(word.isascii() and word.isprintable() and "?" not in word for word in encoded)
    assert decode_arguments(encoded) == words


@pytest.mark.parametrize("words", [[], ["run"], ["land", "--input", "a b", "100%", ""]])
def test_plain_arguments_travel_as_they_are(words: list[str]):
    assert encode_arguments(words) == tuple(words)
    assert decode_arguments(words) == words


def test_an_argument_that_is_not_utf8_is_refused():
    check_words(["land", "Zürich", "東京", "\x7f\xa0"])
    with pytest.raises(
        Refusal, match=r"^the argument b'Z\\xfcrich' is not UTF-8; write it in UTF-8; if it is a file name, rename the file$"
    ):
        check_words(["land", os.fsdecode(b"Z\xfcrich")])


# ------------------------------------------------------------------------------------------------------------- environment


@pytest.mark.parametrize(
    ("installed", "chosen"),
    [
        ({"": "UTF-8", "C.UTF-8": "UTF-8"}, ""),
        ({"": "utf-8"}, ""),
        ({"": "ANSI_X3.4-1968", "C.UTF-8": "UTF-8", "en_US.UTF-8": "UTF-8"}, "C.UTF-8"),
        ({"": "ISO-8859-1", "en_US.UTF-8": "UTF-8"}, "en_US.UTF-8"),
        ({"en_US.UTF-8": "UTF-8"}, "en_US.UTF-8"),
        ({"": "ISO-8859-15"}, None),
    ],
)
def test_a_locale_of_utf8_is_chosen_where_the_callers_is_another(installed: dict[str, str], chosen: str | None):
    assert choose_locale(lambda name: installed.get(name, "")) == chosen


def test_asking_for_the_encoding_of_a_locale_changes_none():
    before = locale.setlocale(locale.LC_ALL, None)
    assert codeset("C") in ("ANSI_X3.4-1968", "US-ASCII", "ASCII")
    assert codeset("no_SUCH.UTF-8") == ""
    assert locale.setlocale(locale.LC_ALL, None) == before


@pytest.mark.parametrize(
    ("given", "clean"),
    [
        ({"PYTHONPATH": "", "PATH": ".:"}, {}),
        ({"PYTHONPATH": ":/a::./:.:b/..:b"}, {"PYTHONPATH": "/a:/here/b"}),
        ({"PATH": ".:/bin:", "LD_LIBRARY_PATH": ":/lib"}, {"PATH": "/bin", "LD_LIBRARY_PATH": "/lib"}),
        ({"SPARK_DIST_CLASSPATH": "/h/*:"}, {"SPARK_DIST_CLASSPATH": "/h/*"}),
        ({"SPARK_HOME": "spark", "TMPDIR": "", "JAVA_HOME": "/j"}, {"SPARK_HOME": "/here/spark", "TMPDIR": "", "JAVA_HOME": "/j"}),
        ({"SPARK_LOCAL_DIRS": "a,/b"}, {"SPARK_LOCAL_DIRS": "/here/a,/b"}),
        ({"PYTHONHOME": "x", "PYTHONSTARTUP": "x", "PYTHONINSPECT": "1", "PYTHONOPTIMIZE": "2"}, {"PYTHONOPTIMIZE": "2"}),
        ({"PYSPARK_PYTHON": "./environment/bin/python", "LC_ALL": "C"}, {"PYSPARK_PYTHON": "./environment/bin/python", "LC_ALL": "C"}),
    ],
)
def test_no_variable_depends_on_the_current_folder(given: dict[str, str], clean: dict[str, str]):
    assert clean_environment(given, "/here", "") == clean


def test_the_chosen_locale_beats_the_callers():
    given = {"LC_ALL": "POSIX", "LANG": "de_DE"}
    assert clean_environment(given, "/here", "C.UTF-8") == {"LC_ALL": "C.UTF-8", "LANG": "de_DE"}
    assert clean_environment(given, "/here", None) == given


def test_argument_that_java_would_change_is_refused():
    plain, accented, bytes_ = (Start(("submit", word), {}) for word in ("a", "a,é", os.fsdecode(b"\xe9")))
    check_for_java(plain, None)
    check_for_java(accented, "")
    with pytest.raises(
        Refusal, match=r"^Java cannot read b'\\xc3\\xa9': no UTF-8 locale is installed \(C\.UTF-8, en_US\.UTF-8\); install one"
    ):
        check_for_java(accented, None)
    with pytest.raises(Refusal, match=r"^Java cannot read b'\\xe9': it is not UTF-8; rename it$"):
        check_for_java(bytes_, "C.UTF-8")


def test_a_current_folder_that_was_removed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(Refusal, match=r"^the current folder was removed; change to another one, then call again$"):
        current_folder()


# --------------------------------------------------------------------------------------------------------------------- way


@pytest.mark.parametrize(
    ("words", "environ", "way"),
    [
        ("", {}, "usage"),
        ("--master yarn", {}, "usage"),
        ("--help", {}, "usage"),
        ("--version", {}, "version"),
        ("--master yarn --version", {}, "version"),
        ("rnu", {}, "python"),
        ("--setup", {}, "setup"),
        ("run", {}, "local"),
        ("--master local[2] run", {"SPARK_REMOTE": "sc://h"}, "local"),
        ("run", {"SPARK_REMOTE": "sc://h"}, "remote"),
        ("--remote sc://h run", {}, "remote"),
        ("--master yarn run", {"SPARK_REMOTE": "sc://h"}, "cluster"),
        ("--master yarn run --help", {}, "cluster"),
        ("run --help", {}, "python"),
        ("run -h", {"SPARK_REMOTE": "sc://h"}, "python"),
        ("collect", {"SPARK_REMOTE": "sc://h"}, "python"),
        ("what-if payments", {}, "python"),
        ("what-if --all --save", {}, "local"),
        ("--master yarn what-if --all --save", {}, "cluster"),
    ],
)
def test_call_is_started_in_one_way(words: str, environ: dict[str, str], way: str):
    assert choose_way(parse(words.split()), environ) == way


@pytest.mark.parametrize("command", ["collect", "show", "explain", "what-if"])
@pytest.mark.parametrize("options", ["-v", "--jars a", "--remote sc://h", "--master yarn"])
def test_commands_without_spark_refuse_its_options(options: str, command: str):
    words = f"{options} {command}"
    with pytest.raises(Refusal, match=rf"^{command} runs without Spark"):
        choose_way(parse(words.split()), {})


@pytest.mark.parametrize("words", ["-v", "--jars a", "--packages a", "--py-files a", "--master yarn"])
def test_a_connect_server_refuses_options_of_spark(words: str):
    with pytest.raises(Refusal, match=r"^--remote takes no other options of Spark"):
        choose_way(parse([*words.split(), "--remote", "sc://h", "run"]), {})


# --------------------------------------------------------------------------------------------------------- settings by size

CONF = str(ROOT / "conf")
LARGE_MACHINE = Machine(64 << 30, 8)
NOTHING = OwnSettings({}, replaces_file=False)


def write(path: Path, size: int) -> Path:
    """Make a file of this size, which takes no room on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size)
    return path


def write_table(warehouse: Path, name: str, *sizes: int) -> None:
    """Make the log of a table with a version of each size, and one file that the last version has no more."""
    log = warehouse / name / "_delta_log"
    log.mkdir(parents=True)
    for version, size in enumerate(sizes):
        (log / f"{version:020}.crc").write_text(f'{{"txnId":"x","tableSizeBytes":{size},"numFiles":1}}')
        (log / f".{version:020}.crc.crc").write_text("x")
        (log / f"{version:020}.json").write_text("{}")
    write(warehouse / name / "month=1" / "old.parquet", 100 * MB)


def choose(
    workload: Workload, forced: str = "", machine: Machine = LARGE_MACHINE, own: OwnSettings = NOTHING
) -> tuple[str, Mapping[str, str], str]:
    """Return the kind of a run, the settings that Spark is given, and the reason."""
    settings, notice, *_ = choose_profile(workload, CONF, forced, machine, own)
    kind, _, reason = notice.removeprefix("settings for a ").partition(" run")
    return kind, settings, reason


@pytest.mark.parametrize(
    ("words", "workload"),
    [
        ("run", Workload(("/root/conf/demo",), "", "/here/./warehouse")),
        ("land --input a /b", Workload(("/here/a", "/b"), "", "/here/./warehouse")),
        ("run --input=a --warehouse=file:/w --wait 5", Workload(("/here/a",), "", "/w")),
        ("run --bootstrap-servers h:1 --warehouse w", Workload((), "a live cluster", "/here/w")),
        ("land --bootstrap-servers=h:1 --input a", Workload(("/here/a",), "a live cluster", "/here/./warehouse")),
        ("run --config my/own.yaml", Workload(("/here/my/in", "/in 2"), "", "/here/tables")),
        ("run --config my/own.yaml --warehouse s3a://b/w", Workload(("/here/my/in", "/in 2"), "", None)),
        ("run --config absent.yaml", Workload((), "inputs of unknown size", "/here/./warehouse")),
        ("run --config odd.yaml", Workload((), "inputs of unknown size", None)),
        ("audit --config my/own.yaml", Workload((), "", "/here/tables")),
        ("verify --warehouse main.audit", Workload((), "", None)),
        ("what-if --save --config my/own.yaml pay other", Workload((), "", "/here/tables")),
        ("what-if --save --warehouse w pay other --members 2..3", Workload((), "", "/here/w")),
        ("sql --warehouse w --warehouse v SELECT", Workload((), "", "/here/v", is_short=True)),
        ("report --warehouse w", Workload((), "", "/here/w", is_short=True)),
        ("no-such-command --warehouse", Workload((), "", "/here/./warehouse")),
    ],
)
def test_workload_is_what_the_command_reads(words: str, workload: Workload, monkeypatch: pytest.MonkeyPatch):
    files = {
        "/root/conf/local.yaml": (ROOT / "conf" / "local.yaml").read_text(encoding="utf-8"),
        "/here/my/own.yaml": "report:\n  warehouse: no\nwarehouse: 'tables'\ninputs:\n# both\n- in\n- \"/in 2\"  # spaces\n\nassign: {}\n",
        "/here/odd.yaml": "inputs: &names\n  - a\nwarehouse: >-\n  w\n",
    }
    monkeypatch.setattr("jobs.launcher.workload.content", lambda path: files.get(path, ""))
    line = resolve_paths(parse(words.split()), "/here")
    assert find_workload(line, "/root/conf") == workload


def test_inputs_are_measured_by_their_files(tmp_path: Path):
    write(tmp_path / "in" / "a.parquet", 3 * MB)
    write(tmp_path / "in" / "deep" / "down" / "b.jsonl.gz", 2 * MB)
    write(tmp_path / "in" / "c.jsonl", 10 * MB)
    for hidden in ("in/.d", "in/_e/f", "in/table/part", "in/table/_delta_log/g"):
        write(tmp_path / hidden, 50 * MB)
    (tmp_path / "in" / "again").symlink_to(tmp_path / "in")
    (tmp_path / "in" / "lost").symlink_to("nothing")
    os.mkfifo(tmp_path / "in" / "pipe")
    single = write(tmp_path / "single", MB)
    paths = [str(tmp_path / "in"), str(single), str(tmp_path / "absent"), "a\0b"]
    assert measure_inputs(paths) == Size(16 * MB, 7 * MB, is_all=True)


def test_inputs_are_not_measured_to_their_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for number in range(5):
        write(tmp_path / f"{number}.parquet", 100 * MB)
    assert measure_inputs([str(tmp_path)]) == Size(300 * MB, 256 * MB, is_all=False)
    monkeypatch.setattr("jobs.launcher.workload.MOST_ENTRIES", 2)
    assert measure_inputs([str(tmp_path)]) == Size(100 * MB, 256 * MB, is_all=False)  # the folder is an entry as well


def test_a_warehouse_is_measured_by_its_newest_version(tmp_path: Path):
    assert measure_warehouse(str(tmp_path / "absent")) is None
    write(tmp_path / "report.html", 50 * MB)
    (tmp_path / "_staging" / "_delta_log").mkdir(parents=True)
    assert measure_warehouse(str(tmp_path)) is None
    write_table(tmp_path, "group_records", 7, *[900] * 9, 1000)
    write_table(tmp_path, "findings", 0)
    write_table(tmp_path, "runs")
    assert measure_warehouse(str(tmp_path)) == 1000


@pytest.mark.parametrize(
    ("input_bytes", "table_bytes", "chosen", "partitions", "reason"),
    [
        (0, None, "small", None, "inputs of 0 KB, no tables yet"),
        (1, None, "small", None, "inputs of 1 KB, no tables yet"),
        (MB // 20, None, "small", None, "inputs of 51 KB, no tables yet"),
        (4 * MB, 32 * MB, "small", None, "inputs of 4.0 MB, tables of 32 MB"),
        (4 * MB + 1, None, "large", "8", "inputs of 4.0 MB, no tables yet"),
        (31 * MB, 52 * MB, "large", "11", "inputs of 31 MB, tables of 52 MB"),
        (None, 60 * MB, "large", "15", "tables of 60 MB"),
        (None, MB, "small", None, "tables of 1.0 MB"),
        (None, None, "small", None, "no tables yet"),
        (900 * MB, None, "large", None, "inputs of 900 MB, no tables yet"),
    ],
)
def test_a_run_is_large_by_what_it_reads(
    tmp_path: Path, input_bytes: int | None, table_bytes: int | None, chosen: str, partitions: str | None, reason: str
):
    """None for the partitions where they are as many as the file of settings has."""
    inputs = () if input_bytes is None else (str(write(tmp_path / "in.parquet", input_bytes)),)
    if table_bytes is not None:
        write_table(tmp_path / "w", "group_records", table_bytes)
    kind, settings, found = choose(Workload(inputs, "", str(tmp_path / "w")))
    heap = {"small": "heap of 2g (conf/spark-local.conf)", "large": "heap of 12g (conf/spark-local-large.conf)"}[chosen]
    assert (kind, found) == (chosen, f": {reason}, {heap}")
    large = read_settings((ROOT / "conf" / "spark-local-large.conf").read_text())
    assert settings == ({} if chosen == "small" else {**large, **({"spark.sql.shuffle.partitions": partitions} if partitions else {})})


def test_a_run_that_adds_little_to_large_tables_uses_the_first_compiler_alone(tmp_path: Path):
    write_table(tmp_path, "group_records", 32 * MB + 1)
    little, more = (Workload((str(write(tmp_path / f"{size}.parquet", size)),), "", str(tmp_path)) for size in (4 * MB, 4 * MB + 1))
    words, settings, reason = choose(little)
    assert (words, reason.partition(":")[0]) == ("large", " with the first compiler alone")
    options = settings.pop("spark.driver.defaultJavaOptions").split()
    start = ["-XX:InitialRAMPercentage=6", "-XX:MetaspaceSize=256m"]
    assert sorted(options) == ["-XX:+UseParallelGC", *start, "-XX:ReservedCodeCacheSize=256m", "-XX:TieredStopAtLevel=1"]
    usual = choose(more)[1]
    assert usual.pop("spark.driver.defaultJavaOptions").count("Tier4") == 4
    assert settings == usual
    for both_compilers in (choose(little, "large"), choose(Workload((), "", str(tmp_path))), choose(little._replace(warehouse=None))):
        assert "Tier4" in both_compilers[1]["spark.driver.defaultJavaOptions"]


@pytest.mark.parametrize(("size", "kind"), [(40 * MB, "small"), (41 * MB, "large")])
def test_text_counts_a_tenth_and_is_named_as_it_is(tmp_path: Path, size: int, kind: str):
    chosen, _, reason = choose(Workload((str(write(tmp_path / "in.jsonl", size)),), "", str(tmp_path)))
    assert (chosen, reason.partition(",")[0]) == (kind, f": inputs of {size // MB} MB")


def test_workload_of_unknown_size_is_large_unless_its_tables_are_small(tmp_path: Path):
    live = Workload((), "a live cluster", str(tmp_path))
    assert choose(live)[::2] == ("large", ": a live cluster, no tables yet, heap of 12g (conf/spark-local-large.conf)")
    assert choose(live)[1]["spark.sql.shuffle.partitions"] == "64"
    elsewhere = Workload((str(write(tmp_path / "in.parquet", 1)),), "", None)
    assert choose(elsewhere)[::2] == ("large", ": inputs of 1 KB, tables elsewhere, heap of 12g (conf/spark-local-large.conf)")
    write_table(tmp_path, "group_records", MB)
    assert choose(live)[::2] == ("small", ": a live cluster, tables of 1.0 MB, heap of 2g (conf/spark-local.conf)")
    write_table(tmp_path, "movements", 160 * MB)
    assert choose(live)[0] == "large"
    assert choose(live)[1]["spark.sql.shuffle.partitions"] == "10"


def test_inputs_of_more_files_than_are_counted_are_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("jobs.launcher.workload.MOST_ENTRIES", 2)
    for number in range(3):
        write(tmp_path / f"{number}.parquet", MB)
    kind, settings, reason = choose(Workload((str(tmp_path),), "", str(tmp_path / "w")))
    assert (kind, settings["spark.sql.shuffle.partitions"]) == ("large", "64")
    assert reason.startswith(": inputs of 1.0 MB and more, ")


def test_the_caller_may_name_the_kind_of_a_run(tmp_path: Path):
    captures = Workload((str(write(tmp_path / "in.parquet", 40 * MB)),), "", str(tmp_path))
    reason = ", as EVENKEEL_PROFILE says: inputs of 40 MB, no tables yet, heap of"
    assert choose(captures, "small") == ("small", {}, f"{reason} 2g (conf/spark-local.conf)")
    kind, settings, found = choose(captures, "large")
    assert (kind, settings["spark.sql.shuffle.partitions"], found) == ("large", "10", f"{reason} 12g (conf/spark-local-large.conf)")
    with pytest.raises(Refusal, match=r"^EVENKEEL_PROFILE is 'medium'; set it to small or large, or unset it$"):
        choose(captures, "medium")


@pytest.mark.parametrize(
    ("memory", "kind", "heap", "words"),
    [
        (4 << 30, "small", "1365m", "1.3g, a third of the memory"),
        (4 << 30, "large", "1365m", "1.3g, a third of the memory"),
        (6 << 30, "small", None, "2g"),
        (24 << 30, "large", "8192m", "8.0g, a third of the memory"),
        (36 << 30, "large", "12g", "12g"),
        (1 << 30, "small", "512m", "0.5g"),
    ],
)
def test_the_heap_is_a_third_of_the_memory_at_most(memory: int, kind: str, heap: str | None, words: str):
    _, settings, reason = choose(Workload((), "", "/absent"), kind, Machine(memory, 8))
    assert settings.get("spark.driver.memory") == heap
    assert f", heap of {words} (conf/" in reason


@pytest.mark.parametrize(("cores", "collector"), [(1, "-XX:+UseSerialGC"), (2, "-XX:+UseParallelGC")])
def test_a_single_core_gets_the_serial_collector(cores: int, collector: str):
    options = choose(Workload(), "large", Machine(64 << 30, cores))[1]["spark.driver.defaultJavaOptions"].split()
    assert collector in options
    assert sum(option.endswith("GC") for option in options) == 1


def test_a_report_is_short_however_large_the_tables(tmp_path: Path):
    write_table(tmp_path / "w", "assignments", 400 * MB)
    for folder in (str(tmp_path / "w"), None):
        assert choose(Workload(warehouse=folder))[0] == "large"
        assert choose(Workload(warehouse=folder, is_short=True))[0] == "small"


def test_the_callers_settings_beat_a_profile(tmp_path: Path):
    (tmp_path / "spark-defaults.conf").write_text("spark.driver.memory=3g\nspark.sql.shuffle.partitions : 5\nspark.master yarn\n")
    (tmp_path / "own.conf").write_text("spark.sql.shuffle.partitions\t6\n")
    environ = {"SPARK_CONF_DIR": str(tmp_path)}
    folder = own_settings((), environ)
    file = own_settings(("--verbose", "--properties-file", str(tmp_path / "own.conf")), environ)
    options = ("--properties-file", str(tmp_path / "own.conf"), "--driver-memory", "4g", "-c", "spark.sql.shuffle.partitions=7")
    single = own_settings(options, environ)
    values = []
    for own in (folder, file, single):
        _, settings, reason = choose(Workload(), "large", own=own)
        assert "spark.master" not in settings
        assert f"heap of {settings['spark.driver.memory']} (" in reason
        values.append((settings["spark.driver.memory"], settings["spark.sql.shuffle.partitions"]))
    assert values == [("3g", "5"), ("3g", "6"), ("4g", "7")]


def test_properties_file_of_the_caller_is_completed_with_our_settings(tmp_path: Path):
    """Spark reads it instead of ours."""
    (tmp_path / "own.conf").write_text("spark.ui.enabled true\n")
    own = own_settings(("--properties-file", str(tmp_path / "own.conf")), {})
    ours = read_settings((ROOT / "conf" / "spark-local.conf").read_text())
    assert choose(Workload((), "", "/absent"), own=own)[1] == {**ours, "spark.ui.enabled": "true"}


def test_defaults_of_every_run_give_way_to_the_settings_of_a_kind_and_of_the_caller(tmp_path: Path):
    """With an archive Spark has no conf folder from which it could read them."""
    defaults = read_settings((ROOT / "conf" / "spark-defaults.conf").read_text())
    small = read_settings((ROOT / "conf" / "spark-local.conf").read_text())
    both = {"spark.databricks.delta.snapshotPartitions"}
    assert both <= defaults.keys() & small.keys()
    own = OwnSettings({"spark.sql.extensions": "mine"}, replaces_file=False)
    profile = choose_profile(Workload((), "", "/absent"), CONF, "", LARGE_MACHINE, own)
    assert profile.defaults.keys() == defaults.keys() - (defaults.keys() & small.keys()) - {"spark.sql.extensions"}
    assert "-XX:TieredStopAtLevel=1" in profile.java_options


def test_an_archive_is_of_one_java_and_its_jars(tmp_path: Path):
    (tmp_path / "jars").mkdir()
    for name in ("jars/spark.jar", "delta.jar", "java"):
        (tmp_path / name).write_text("x")
    spark, delta = Spark(str(tmp_path), "4.1", has_delta=False), (str(tmp_path / "delta.jar"),)
    found = [archive_name(str(tmp_path / "java"), spark, delta)]
    for name in ("jars/spark.jar", "delta.jar", "java", "jars/new.jar"):
        (tmp_path / name).write_text("changed")
        found.append(archive_name(str(tmp_path / "java"), spark, delta))
    assert len(set(found)) == 5 and found[-1] == archive_name(str(tmp_path / "java"), spark, delta)


def test_the_making_of_an_archive_leaves_no_folder_of_spark_with_the_caller():
    command = training_command("/c/1.jsa.part", "", "/root", SPARK, ("/a.jar",), "/root/conf/spark-local.conf")
    assert "spark.sql.warehouse.dir=/c/1.jsa.part.tables/spark-warehouse" in command and command[-1] == "/c/1.jsa.part.tables"


def test_a_heap_may_have_any_unit_of_spark(tmp_path: Path):
    for path in Path(CONF).glob("*.conf"):
        (tmp_path / path.name).write_text(path.read_text().replace("  2g\n", "  1500m\n"))
    profile = choose_profile(Workload((), "", "/absent"), str(tmp_path), "", LARGE_MACHINE, NOTHING)
    assert ", heap of 1.5g (conf/" in profile.notice
    small = choose_profile(Workload((), "", "/absent"), str(tmp_path), "", Machine(3 << 30, 2), NOTHING)
    assert small.settings["spark.driver.memory"] == "1024m"
    (tmp_path / "spark-local.conf").write_text((tmp_path / "spark-local.conf").read_text().replace("1500m", "much"))
    with pytest.raises(Refusal, match=r"^spark\.driver\.memory needs an amount of memory such as 1500m or 8g, found 'much'$"):
        choose_profile(Workload((), "", "/absent"), str(tmp_path), "", LARGE_MACHINE, NOTHING)


def test_a_missing_file_of_settings_is_refused(tmp_path: Path):
    with pytest.raises(Refusal, match=rf"^no settings in {tmp_path}/spark-local\.conf; restore it from the repository$"):
        choose_profile(Workload(), str(tmp_path), "", LARGE_MACHINE, NOTHING)


def machine(root: Path, memory_kb: int, groups: str, limits: dict[str, str]) -> int:
    """Return the memory that is found where /proc and /sys are as given."""
    files = {"proc/meminfo": f"MemTotal:       {memory_kb} kB\nMemFree: 1 kB\n", "proc/self/cgroup": groups}
    for name, text in {**files, **{f"sys/fs/cgroup/{name}": f"{text}\n" for name, text in limits.items()}}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return find_machine(str(root)).memory


V1 = "5:cpu,cpuacct:/\n4:memory:/docker/ab\n1:name=systemd:/\n"


@pytest.mark.parametrize(
    ("groups", "limits", "memory"),
    [
        ("", {}, 8000 * 1024),
        ("0::/\n", {"memory.max": "max"}, 8000 * 1024),
        ("0::/\n", {"memory.max": "5000"}, 5000),
        ("0::/a/b\n", {"memory.max": "9000000", "a/memory.max": "6000", "a/b/memory.max": "max"}, 6000),
        ("0::/a/b\n", {"a/b/memory.max": "7000"}, 7000),
        (V1, {"memory/docker/ab/memory.limit_in_bytes": "4000", "memory/memory.limit_in_bytes": "9223372036854771712"}, 4000),
        (V1, {"memory/memory.limit_in_bytes": "3000"}, 3000),
        (V1, {"memory/docker/ab/memory.limit_in_bytes": "9223372036854771712", "memory.max": "1"}, 8000 * 1024),
        (V1 + "0::/\n", {"memory/docker/memory.limit_in_bytes": "2000"}, 2000),
    ],
)
def test_memory_is_the_least_of_all_limits(tmp_path: Path, groups: str, limits: dict[str, str], memory: int):
    assert machine(tmp_path, 8000, groups, limits) == memory


def test_memory_without_proc_is_what_the_system_says(tmp_path: Path):
    assert find_machine(str(tmp_path)).memory == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


# ------------------------------------------------------------------------------------------------------------------- start


def local(
    words: str, environ: dict[str, str] | None = None, jar_files: Sequence[str] = ("/a.jar", "/b.jar"), profile: Profile | None = None
) -> Start:
    return local_start(parse(words.split()), "/root", SPARK, "/python", jar_files, environ or {}, profile)


@pytest.mark.parametrize(
    ("words", "own"),
    [
        ("run", ("--jars", "/a.jar,/b.jar", *SCRATCH, "--master", "local[*,4]")),
        ("--master local[2] run", ("--jars", "/a.jar,/b.jar", *SCRATCH, "--master", "local[2]")),
        ("--jars c.jar run", ("--jars", "/a.jar,/b.jar,c.jar", *SCRATCH, "--master", "local[*,4]")),
        (
            "--py-files c --packages d run",
            ("--py-files", "c", "--jars", "/a.jar,/b.jar", "--packages", "d", *SCRATCH, "--master", "local[*,4]"),
        ),
    ],
)
def test_local_call_becomes_this_argv(words: str, own: tuple[str, ...]):
    assert local(words).argv == (*LOCAL, *own, MAIN, "run")


def test_local_argv_without_jars_names_none():
    assert local("run", jar_files=()).argv == (*LOCAL, *SCRATCH, "--master", "local[*,4]", MAIN, "run")


def test_local_call_gets_this_environment():
    given = {"HOME": "/home", "PYTHONPATH": "/mine", "PYSPARK_PYTHON": "/theirs", "SPARK_CONF_DIR": "/theirs", "TMPDIR": "/scratch"}
    start = local("run", given)
    assert start.environ == {
        "HOME": "/home",
        "TMPDIR": "/scratch",
        "SPARK_HOME": "/spark",
        "PYSPARK_PYTHON": "/python",
        "PYSPARK_DRIVER_PYTHON": "/python",
        "SPARK_CONF_DIR": "/root/conf",
        "PYTHONPATH": "/root:/mine",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "EVENKEEL_FOLDER": "",
    }
    assert "spark.sql.warehouse.dir=/scratch/spark-warehouse" in start.argv
    assert start.filters_stderr
    assert local("run", {"SPARK_LOCAL_IP": "10.0.0.1"}).environ["SPARK_LOCAL_IP"] == "10.0.0.1"


def test_start_with_an_archive_has_its_options_before_the_callers():
    profile = Profile({"spark.driver.memory": "8g"}, "large", "-XX:+UseSerialGC", {"spark.sql.extensions": "x"})
    words = "--conf spark.driver.extraClassPath=/mine.jar run".split()
    start = local_start(parse(words), "/root", SPARK, "/python", ("/a.jar",), {}, profile, ClassArchive("/c/1.jsa", "/c/empty"))
    settings = [value for name, value in pairwise(start.argv) if name == "--conf"]
    assert settings == [
        "spark.sql.extensions=x",
        "spark.sql.warehouse.dir=/tmp/spark-warehouse",
        "spark.driver.memory=8g",
        'spark.driver.defaultJavaOptions=-XX:+UseSerialGC -XX:SharedArchiveFile="/c/1.jsa" -Xlog:cds*=off '
        '-Dlog4j2.configurationFile="/root/conf/log4j2.properties"',
        "spark.driver.extraClassPath=/a.jar",
        "spark.driver.extraClassPath=/mine.jar",
    ]
    assert start.environ["SPARK_CONF_DIR"] == "/c/empty"


def test_settings_of_a_profile_come_before_the_callers():
    """The last of two values of a setting counts."""
    profile = Profile({"spark.driver.memory": "8g"}, "large")
    start = local("--conf spark.driver.memory=4g run", profile=profile)
    assert start.argv[6:] == (
        *SCRATCH,
        "--conf",
        "spark.driver.memory=8g",
        "--master",
        "local[*,4]",
        "--conf",
        "spark.driver.memory=4g",
        MAIN,
        "run",
    )
    assert (start.notice, "EVENKEEL_NOTICE" in start.environ) == ("large", False)


@pytest.mark.parametrize("words", ["run --log-format json", "run --log-format=json --wait 5"])
def test_a_log_in_json_gets_the_line_on_settings_from_the_driver(words: str):
    start = local(words, profile=Profile({}, "small"))
    assert (start.notice, start.environ["EVENKEEL_NOTICE"]) == ("", "small")


def cluster(words: str, spark: Spark = SPARK, python: str = "", jar_files: Sequence[str] | None = ("/a.jar",), **environ: str) -> Start:
    return cluster_start(parse(["--master", "yarn", *words.split()]), "/root", spark, python, jar_files, DELTA, environ)


@pytest.mark.parametrize(
    ("words", "spark", "jar_files", "own"),
    [
        ("run", SPARK, ("/a.jar",), (*ZIP, "--jars", "/a.jar")),
        ("run", SPARK, None, (*ZIP, "--packages", DELTA[0].coordinate)),
        ("run", SPARK._replace(has_delta=True), ("/a.jar",), ZIP),
        ("--packages c run", SPARK, None, (*ZIP, "--packages", f"{DELTA[0].coordinate},c")),
        ("--jars delta-spark_x.jar run", SPARK, ("/a.jar",), (*ZIP, "--jars", "delta-spark_x.jar")),
        ("--packages a:delta-spark_x:1 run", SPARK, ("/a.jar",), (*ZIP, "--packages", "a:delta-spark_x:1")),
        ("--py-files c run", SPARK, ("/a.jar",), ("--py-files", f"{ZIP[1]},c", "--jars", "/a.jar")),
    ],
)
def test_cluster_call_becomes_this_argv(words: str, spark: Spark, jar_files: Sequence[str] | None, own: tuple[str, ...]):
    start = cluster(words, spark, jar_files=jar_files)
    assert start.argv == (*CLUSTER, *own, "--master", "yarn", MAIN, "run")
    assert not start.filters_stderr


def test_own_file_of_settings_is_completed_on_a_cluster(tmp_path: Path):
    """Spark reads it instead of conf/spark-defaults.conf, and without those settings it knows no Delta."""
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text("spark.a 1\nspark.b 2\nspark.c 3\n")
    (tmp_path / "own.conf").write_text("spark.b mine\n")
    line = parse(["--master", "yarn", "--properties-file", str(tmp_path / "own.conf"), "--conf", "spark.c=mine", "run"])
    argv = cluster_start(line, str(tmp_path), SPARK, "", (), DELTA, {}).argv
    given = [argv[number + 1] for number, word in enumerate(argv) if word in ("--conf", "--properties-file")]
    assert given == [str(tmp_path / "conf/spark-defaults.conf"), "spark.a=1", str(tmp_path / "own.conf"), "spark.c=mine"]


def test_cluster_call_gets_this_environment():
    assert cluster("run", PATH="/bin").environ == {"PATH": "/bin", "SPARK_HOME": "/spark", "EVENKEEL_FOLDER": ""}
    pythons = ("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON")
    here = cluster("run", python="/venv", PYSPARK_PYTHON="./theirs").environ
    assert [here[name] for name in pythons] == ["/venv", "./theirs"]
    there = cluster("--deploy-mode cluster run", python="/venv").environ
    assert [name for name in pythons if name in there] == []


@pytest.mark.parametrize("master", ["local[2,4]", "yarn"])
def test_spark_runs_in_the_checkout_and_the_driver_gets_the_callers_folder(master: str):
    line = resolve_paths(parse(["--master", master, "land", "--cluster-id", "東京"]), "/tmp/josé")
    starts = {
        "local[2,4]": local_start(line, "/root", SPARK, "/python", (), {}, None),
        "yarn": cluster_start(line, "/root", SPARK, "", (), DELTA, {}),
    }
    start = starts[master]
    assert (start.folder, start.environ["EVENKEEL_FOLDER"]) == ("/root", "/tmp/jos%C3%A9")
    assert start.argv[-4:] == (ENCODED, "land", "--cluster-id", "%E6%9D%B1%E4%BA%AC")


def test_start_of_a_python_command_needs_no_spark():
    line = parse(["run", "--wait", "5"])
    assert python_start(line, "/root", "/python", {}) == (
        ("/python", "/root/jobs/__main__.py", "run", "--wait", "5"),
        {"PYTHONPATH": "/root"},
        False,
        "",
        "",
    )
    client = python_start(line, "/root", "/python", {"SPARK_REMOTE": "x", "PYTHONPATH": "/mine"}, "sc://h")
    assert client.environ == {"SPARK_REMOTE": "sc://h", "PYTHONPATH": "/root:/mine"}


def test_driver_opens_a_terminal_itself_and_a_file_through_the_filter(tmp_path: Path):
    (tmp_path / "7" / "fd").mkdir(parents=True)
    (tmp_path / "7" / "fd" / "8").touch()
    assert stderr_path(7, True, str(tmp_path)) == f"{tmp_path}/7/fd/8"
    assert stderr_path(7, False, str(tmp_path)) == f"{tmp_path}/7/fd/2"
    assert stderr_path(8, False, str(tmp_path)) is None


# -------------------------------------------------------------------------------------------------------------- installation


@pytest.mark.parametrize("version", [(2, 7), (3, 9), (3, 15), (4, 0)])
def test_unsupported_python_versions_are_refused(version: tuple[int, int]):
    with pytest.raises(Refusal, match=rf"^this is Python {version[0]}\.{version[1]}; Evenkeel runs on Python 3\.10 to 3\.14: install one"):
        check_python(version)


@pytest.mark.parametrize("version", [(3, 10), (3, 14)])
def test_fitting_pythons_are_not_refused(version: tuple[int, int]):
    check_python(version)


@pytest.mark.parametrize(
    ("text", "version", "fits"),
    [
        ('IMPLEMENTOR="Any"\nJAVA_VERSION="17.0.9"\nJAVA_VERSION_DATE="2023-10-17"\n', "17.0.9", True),
        ('Picked up JAVA_TOOL_OPTIONS: -Da=b\nopenjdk version "21-ea" 2023-09-19\n', "21-ea", True),
        ('java version "1.8.0_392"\n', "1.8.0_392", False),
        ('openjdk version "171.0"\n', "171.0", False),
        ("Unable to locate a Java Runtime.\n", "", False),
    ],
)
def test_java_version_is_read_and_judged(text: str, version: str, fits: bool):
    assert java_version(text) == version
    assert is_fitting_java(version) == fits


@pytest.mark.parametrize("release", ["4.1.3", "4.1.0-amzn-0"])
def test_spark_of_a_folder_is_found_with_its_version(tmp_path: Path, release: str):
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / f"spark-core_2.13-{release}.jar").touch()
    assert find_spark(str(tmp_path)) == Spark(str(tmp_path), "4.1", has_delta=False)
    (tmp_path / "jars" / "delta-spark_4.1_2.13-4.4.0.jar").touch()
    assert find_spark(str(tmp_path)).has_delta


@pytest.mark.parametrize(("limit", "fits"), [(64, False), (1023, False), (1024, True), (-1, True)])
def test_spark_needs_open_files(limit: int, fits: bool):
    if fits:
        check_open_files(limit)
        return
    with pytest.raises(Refusal, match=rf"^at most {limit} files may be open \(ulimit -Hn\), Spark needs 1024; raise the limit"):
        check_open_files(limit)


def test_programs_are_found_as_a_shell_finds_them(tmp_path: Path):
    for name, mode in (("a", 0o644), ("b", 0o755)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "java").touch(mode)
    path = {"PATH": f"{tmp_path}/a:{tmp_path}/b"}
    assert find_program("java", path) == f"{tmp_path}/b/java"
    assert find_program("javac", path) is None
    assert find_program(f"{tmp_path}/a/java", path) is None
    assert find_program(f"{tmp_path}/b/java", {"PATH": ""}) == f"{tmp_path}/b/java"


def test_jars_are_selected_by_spark_version():
    text = "# comment\n4.0 aa g:delta-spark_4.0_2.13:4.4.0\n4.1 bb g:delta-spark_4.1_2.13:4.4.0\n* cc g:delta-storage:4.4.0\n"
    assert [jar.file_name for jar in read_jars(text, "4.1")] == ["delta-spark_4.1_2.13-4.4.0.jar", "delta-storage-4.4.0.jar"]


def test_ivy_is_asked_for_the_jars_alone():
    assert ivy_module(DELTA[1:]).count('<dependency org="io.delta" name="delta-storage" rev="4.4.0" transitive="false"/>') == 1
    assert " root=" not in ivy_settings("")
    assert ' root="https://mirror.example/?a&amp;b"' in ivy_settings("https://mirror.example/?a&b")


def test_jar_with_a_wrong_sum_is_refused(tmp_path: Path):
    path = tmp_path / "a-1.jar"
    path.write_bytes(b"jar")
    check_jar(str(path), Jar(hashlib.sha256(b"jar").hexdigest(), "g:a:1"))
    with pytest.raises(Refusal, match=r"^checking Delta's jars failed: a-1\.jar has SHA-256 [0-9a-f]{64}, expected 00; use a mirror"):
        check_jar(str(path), Jar("00", "g:a:1"))
    with pytest.raises(Refusal, match=r"^checking Delta's jars failed: the repository has no b-1\.jar; use a mirror"):
        check_jar(str(tmp_path / "b-1.jar"), Jar("00", "g:b:1"))


# ---------------------------------------------------------------------------------------------------------------- packages

LOCK = """# head
# [not a section] for people
# [core]
a==1 --hash=sha256:aa

# [spark]
b==2 ; python_version < '3.11' --hash=sha256:bb
a==1 --hash=sha256:aa
# [test]
"""


def test_lock_is_read_by_section():
    assert read_lock(LOCK) == {
        "core": ("a==1 --hash=sha256:aa",),
        "spark": ("b==2 ; python_version < '3.11' --hash=sha256:bb", "a==1 --hash=sha256:aa"),
        "test": (),
    }


def test_each_line_is_installed_once():
    assert select_packages(read_lock(LOCK), ("core", "spark", "test")) == (
        "a==1 --hash=sha256:aa",
        "b==2 ; python_version < '3.11' --hash=sha256:bb",
    )


def test_missing_section_of_the_lock_is_refused():
    with pytest.raises(Refusal, match=r"^conf/requirements\.lock has no section \[kafka\], only core, spark, test; restore it"):
        select_packages(read_lock(LOCK), ("core", "kafka"))
    with pytest.raises(Refusal, match=r"has no section \[core\], only none; restore it"):
        select_packages({}, ("core",))


def test_lock_of_the_checkout_has_what_is_installed_by_default():
    lock = read_lock((ROOT / "conf" / "requirements.lock").read_text("utf-8"))
    names = {line.split("==")[0] for line in select_packages(lock, ("core", *DEFAULT_EXTRAS))}
    assert {"pydantic", "pyspark", "great-expectations", "jinja2", "confluent-kafka", "deltalake"} <= names
    assert {"setuptools", "wheel"} <= {line.split("==")[0] for line in lock["build"]}


def test_requirements_of_setup_cfg_are_read_with_extras():
    core = "[options]\ninstall_requires =\n    a>=1,<2 ; python_version < '3.11'\n    b\n"
    text = f"{core}[options.extras_require]\nx =\n    c[d]==3\ny =\n    e\n"
    assert requirements(text, ("x",)) == ("a>=1,<2 ; python_version < '3.11'", "b", "c[d]==3")
    with pytest.raises(Refusal, match=r"^setup\.cfg has no extra p, q, only x, y; name one of these$"):
        requirements(text, ("q", "x", "p"))


MISMATCH = """ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have updated the package versions, ...
    scipy==1.15.3 from https://mirror.example/scipy-1.15.3-cp311-cp311-manylinux_x86_64.whl (from -r requirements.txt (line 9)):
        Expected sha256 0123
             Got        4567
"""


@pytest.mark.parametrize(
    ("output", "explanation"),
    [
        ("", "it printed nothing; REMEDY"),
        ("first\n  last \n\n", "last; REMEDY"),
        ("ERROR: one\nERROR: two\nlast", "ERROR: one; REMEDY"),
        ("a\njava.lang.Exception: b\nlast", "java.lang.Exception: b; REMEDY"),
        ("ERROR: x\nNewConnectionError('Failed')", "the network cannot be reached; REMEDY"),
        ("Host repo.example not found. url=...", "the network cannot be reached; REMEDY"),
        ("OSError: [Errno 28] No space left on device", "no space left on the disk; free some (about 2 GB)"),
        ("OSError: Disk quota exceeded", "no space left on the disk; free some (about 2 GB)"),
        (
            MISMATCH,
            "scipy==1.15.3 has SHA-256 4567, which is not in conf/requirements.lock; use an index that serves the files of PyPI "
            "(PIP_INDEX_URL, PIP_FIND_LINKS)",
        ),
    ],
)
def test_failed_program_is_explained(output: str, explanation: str):
    assert explain_failure(output, "REMEDY") == explanation
    assert "\n" not in explanation


def test_full_disk_is_explained_without_an_error_message():
    assert explain_failure("", "REMEDY", is_disk_full=True) == "no space left on the disk; free some (about 2 GB)"


def test_a_long_setup_says_that_it_still_works(capsys: pytest.CaptureFixture[str]):
    def wait_twice():
        answers = iter([None, None, 3])

        def wait(seconds: float) -> int:
            code = next(answers)
            if code is None:
                raise subprocess.TimeoutExpired("pip", seconds)
            return code

        return wait

    assert wait_for_end(wait_twice(), "installing") == 3
    assert capsys.readouterr().err == "evenkeel: still installing (0 s)\n" * 2


def test_a_program_that_hangs_is_ended_at_its_limit(tmp_path: Path):
    log, started = tmp_path / "setup.log", time.monotonic()
    with pytest.raises(Refusal, match=r"^keeping classes took more than 0 s and was ended \(its output: .*setup\.log\)$"):
        run_program("keeping classes", "wait", ("bash", "-c", "echo $$; exec sleep 300"), str(log), {**os.environ}, limit_seconds=0.2)
    assert time.monotonic() - started < 5
    assert not os.path.exists(f"/proc/{log.read_text().strip()}")


class Pip(Setup):
    """A setup whose pip notes what it is called with, and fails if asked to."""

    calls: list[tuple[str, ...]]
    error: Exception | None = None

    def _attempt(self, what: str, remedy: str, command: Sequence[str], folder: str | None = None) -> None:
        assert not Path(self.venv, "complete").exists(), "a killed pip leaves a finished .venv"
        self.calls.append(tuple(command))
        if self.error is not None:
            raise self.error


@pytest.fixture
def setup(tmp_path: Path) -> Pip:
    """A finished .venv in a checkout."""
    for folder in (".venv/bin", "conf"):
        (tmp_path / folder).mkdir(parents=True)
    sections = ("core", *DEFAULT_EXTRAS, "test")
    (tmp_path / "conf" / "requirements.lock").write_text("".join(f"# [{name}]\n{name}==1 --hash=sha256:00\n" for name in sections))
    (tmp_path / "setup.cfg").write_text("[options]\n")
    (tmp_path / ".venv" / "bin" / "python").symlink_to("/bin/sh")
    setup = Pip(str(tmp_path), "/python", {})
    setup.calls = []
    setup.add_extras(())
    assert setup.has_venv()
    setup.calls.clear()
    return setup


@pytest.mark.parametrize("name", ["setup.cfg", "conf/requirements.lock"])
def test_venv_depends_on_what_it_is_made_from(setup: Pip, name: str):
    with Path(setup.root, name).open("a") as file:
        file.write("\n# more")
    assert not setup.has_venv()
    setup.prepare_venv()
    assert len(setup.calls) == 1
    assert setup.has_venv()


def test_venv_depends_on_its_interpreter(setup: Pip):
    python = Path(setup.venv_python)
    python.unlink()
    python.symlink_to("/bin/cat")
    assert not setup.has_venv()


def test_extras_are_added_to_what_is_there(setup: Pip):
    setup.add_extras(("test",))
    assert [line.split("==")[0] for line in Path(setup.venv, "requirements.txt").read_text().splitlines()] == [
        "core",
        *DEFAULT_EXTRAS,
        "test",
    ]
    assert setup.has_venv()


@pytest.mark.parametrize("error", [Refusal("offline"), OSError(errno.ENOSPC, "full")])
def test_pip_that_fails_leaves_the_venv_as_it_was(setup: Pip, error: Exception):
    setup.error = error
    with pytest.raises(type(error)):
        setup.add_extras(("test",))
    assert setup.has_venv()


def test_modules_of_spark_are_compiled_where_they_are_imported_from(setup: Pip, monkeypatch: pytest.MonkeyPatch):
    archive = Path(setup.venv, "lib", "python3.11", "site-packages", "pyspark", "python", "lib", "pyspark.zip")
    archive.parent.mkdir(parents=True)
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("pyspark/__init__.py", "def broken(): raise ValueError\n")
    setup._take_lock()
    setup.venv_python = sys.executable
    monkeypatch.setattr(Pip, "_attempt", Setup._attempt)
    setup._compile_archives()
    assert sorted(zipfile.ZipFile(archive).namelist()) == ["pyspark/", "pyspark/__init__.py", "pyspark/__init__.pyc"]
    assert os.listdir(archive.parent) == ["pyspark.zip"]
    words = "import pyspark; print(pyspark.__file__, pyspark.broken.__code__.co_filename)"
    found = subprocess.run([sys.executable, "-c", words], env={"PYTHONPATH": str(archive)}, capture_output=True, text=True, check=True)
    assert found.stdout.split() == [f"{archive}/pyspark/__init__.pyc", f"{archive}/pyspark/__init__.py"]


def test_modules_that_are_compiled_stay_as_they_are(setup: Pip):
    archive = Path(setup.venv, "lib", "python3.11", "site-packages", "pyspark", "python", "lib", "pyspark.zip")
    archive.parent.mkdir(parents=True)
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("pyspark/__init__.pyc", b"")
    setup.add_extras(())
    assert [call for call in setup.calls if "compileall" in call] == []


def test_classes_that_cannot_be_kept_are_no_refusal(setup: Pip, capsys: pytest.CaptureFixture[str]):
    """Whatever fails, here that their folder cannot be made."""
    jar = Path(setup.root, "spark", "jars", "spark.jar")
    jar.parent.mkdir(parents=True)
    jar.touch()
    Path(setup.root, ".evenkeel", "classes").touch()
    spark = Spark(str(jar.parent.parent), "4.1", has_delta=False)
    assert setup.prepare_classes(spark, setup.venv_python, sys.executable, (str(jar),)) is None
    assert "Spark's classes are not kept, so each start takes some seconds more: " in capsys.readouterr().err


# -------------------------------------------------------------------------------------------------------------- zip and end


def test_every_zip_of_the_same_sources_has_the_same_bytes(tmp_path: Path):
    write_zip(str(tmp_path / "a.zip"), {name: str(ROOT / source) for name, source in ZIP_SOURCES.items()})
    assert zip_packages(tmp_path).read_bytes() == (tmp_path / "a.zip").read_bytes()
    names = zipfile.ZipFile(tmp_path / "a.zip").namelist()
    assert names == sorted(set(names))
    assert {"jobs/__main__.py", "jobs/conf/local.yaml", "schemas/tables/__init__.py", "assignors/__init__.py", "setup.cfg"} <= set(names)
    assert not any("__pycache__" in name for name in names)


def test_zip_is_made_anew_when_the_last_file_of_a_folder_goes(tmp_path: Path):
    module = tmp_path / "jobs" / "land" / "a.py"
    for folder in ("jobs/land", "schemas", "assignors", "conf"):
        (tmp_path / folder).mkdir(parents=True)
    module.touch()
    for path in (module, *tmp_path.glob("**/")):
        os.utime(path, (1, 1))
    update_zip(str(tmp_path))
    made = Path(zip_path(str(tmp_path)))
    os.utime(made, (1000, 1000))
    update_zip(str(tmp_path))
    assert made.stat().st_mtime == 1000
    module.unlink()
    update_zip(str(tmp_path))
    assert zipfile.ZipFile(made).namelist() == []


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), f"no space left on the disk of {ROOT}; free some (about 2 GB), then call again"),
        (OSError(errno.EACCES, "Permission denied", "/a b"), "cannot continue: /a b: Permission denied"),
        (Refusal("no Java"), "no Java"),
    ],
)
def test_whatever_fails_before_the_start_is_one_line(
    error: Exception, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(launcher, "prepare", fail)
    monkeypatch.setattr(launcher.signal, "signal", lambda *_: None)  # the tests keep their own handlers
    assert launcher.main(["/python", "", "run"]) == 2
    assert capsys.readouterr() == ("", f"evenkeel: {message}\n")


@pytest.mark.parametrize(("words", "code"), [(["help"], 0), (["--mastre", "x", "run"], 2)])
def test_exit_code_is_kept_where_the_reader_has_gone(words: list[str], code: int):
    readable, writable = os.pipe()
    os.close(readable)
    script = f"import sys; sys.path.append({str(ROOT / 'jobs')!r}); import launcher; sys.exit(launcher.main(sys.argv[1:]))"
    command = [sys.executable, "-I", "-S", "-c", script, sys.executable, "", *words]
    done = subprocess.run(command, stdout=writable, stderr=writable, timeout=300)
    os.close(writable)
    assert done.returncode == code
