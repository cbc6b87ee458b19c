"""What ``spark-submit.sh`` does before Spark starts, with every program that it calls replaced by one that prints or pretends.

A checkout is a folder with the script, ``jobs/launcher``, ``setup.cfg`` and ``conf/``. The fake ``python3`` makes a ``.venv`` and
"installs" a Spark whose ``spark-submit`` prints its arguments; everything else it hands to the real interpreter. The fake ``java`` is Ivy.
What needs no process is in ``tests/unit/jobs/test_launcher.py``.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from itertools import pairwise
from pathlib import Path

import pytest

from jobs.collect.options import CollectOptions
from jobs.launcher.command_line import choose_way, parse
from jobs.launcher.environment import codeset
from jobs.launcher.workload import LANDING_COMMANDS, SHORT_COMMANDS
from jobs.options import COMMANDS
from jobs.runtime.installation import evenkeel_version
from jobs.show.options import ExplainOptions, ShowOptions
from jobs.what_if.options import WhatIfOptions
from tests.builders.checkouts import JARS, TRAP, Checkout, locked


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A checkout whose first call has been made; tests that use it change nothing."""
    checkout = Checkout(tmp_path_factory.mktemp("ready"))
    assert checkout.call("--setup").returncode == 0
    return checkout


# ----------------------------------------------------------------------------------------------------------- class archive


def test_spark_s_classes_are_kept_once_and_read_by_each_start(checkout: Checkout) -> None:
    first = checkout.call("--setup", EVENKEEL_CLASS_ARCHIVE="")
    assert first.returncode == 0 and "keeping Spark's classes for later starts" in first.stderr
    folder = checkout.root / ".evenkeel" / "classes"
    (archive,) = folder.glob("*.jsa")
    result = checkout.call("run", EVENKEEL_CLASS_ARCHIVE="", SHOW="1")
    assert checkout.count("training") == 1 and "classes" not in result.stderr
    words = result.stdout.splitlines()
    (java,) = [word for word in words if word.startswith("spark.driver.defaultJavaOptions=")]
    assert f'-XX:SharedArchiveFile="{archive}" ' in java and "-XX:TieredStopAtLevel=1" in java
    jars = checkout.root / ".evenkeel" / "jars" / "spark-4.1"
    assert f"spark.driver.extraClassPath={jars / JARS[0]}:{jars / JARS[1]}" in words
    assert f"env {folder / 'empty'}" in words and not list((folder / "empty").iterdir())


def test_another_jar_makes_another_archive_and_removes_the_first(checkout: Checkout) -> None:
    assert checkout.call("--setup", EVENKEEL_CLASS_ARCHIVE="").returncode == 0
    folder = checkout.root / ".evenkeel" / "classes"
    before = {path.name for path in folder.glob("*.jsa")}
    (checkout.root / ".venv/lib/python3.11/site-packages/pyspark/jars/more.jar").write_text("")
    assert checkout.call("run", EVENKEEL_CLASS_ARCHIVE="").returncode == 0
    after = {path.name for path in folder.glob("*.jsa")}
    assert len(before) == len(after) == 1 and before != after and checkout.count("training") == 2


def test_a_checkout_with_links_to_another_ones_parts_reads_its_archive(checkout: Checkout, tmp_path: Path) -> None:
    """It made one of its own, and removed that of the other checkout: the two made their archives anew in turn."""
    assert checkout.call("--setup", EVENKEEL_CLASS_ARCHIVE="").returncode == 0
    (archive,) = (checkout.root / ".evenkeel" / "classes").glob("*.jsa")
    linked = tmp_path / "linked"
    linked.mkdir()
    for part in checkout.root.iterdir():
        (linked / part.name).symlink_to(part)
    (linked / "spark-submit.sh").unlink()
    shutil.copy2(checkout.root / "spark-submit.sh", linked)
    result = checkout.call("run", EVENKEEL_CLASS_ARCHIVE="", SHOW="1", script=linked / "spark-submit.sh")
    assert result.returncode == 0 and checkout.count("training") == 1
    assert f'-XX:SharedArchiveFile="{archive}" ' in result.stdout


def test_a_start_without_an_archive_is_as_before_and_says_so_once(checkout: Checkout) -> None:
    first = checkout.call("run", EVENKEEL_CLASS_ARCHIVE="", TRAINING_FAILS="1")
    assert first.returncode == 0 and "Spark's classes are not kept, so each start takes some seconds more" in first.stderr
    second = checkout.call("run", EVENKEEL_CLASS_ARCHIVE="", TRAINING_FAILS="1")
    assert second.returncode == 0 and "classes" not in second.stderr + second.stdout and checkout.count("training") == 1


# ------------------------------------------------------------------------------------------------------------ command line

LOCAL = ["--load-spark-defaults", "--properties-file", "ROOT/conf/spark-local.conf"]
CLUSTER = ["--load-spark-defaults", "--properties-file", "ROOT/conf/spark-defaults.conf", "--py-files"]
ZIP, MAIN = "ROOT/.evenkeel/evenkeel.zip", "ROOT/jobs/__main__.py"
SCRATCH = ["--conf", "spark.sql.warehouse.dir=/tmp/spark-warehouse"]
MASTER = [*SCRATCH, "--master", "local[*,4]"]
PACKAGE = "g:delta-spark_4.1_2.13:4.4.0"

ARGV = {
    "no options": (["run"], [*LOCAL, "--jars", "DELTA", *MASTER, MAIN, "run"]),
    "options after the command are the command's": (
        ["land", "--input", "a b", "--master", "x", ""],
        [*LOCAL, "--jars", "DELTA", *MASTER, MAIN, "land", "--input", "a b", "--master", "x", ""],
    ),
    "an option takes one value": (
        ["--queue", "run", "audit"],
        [*LOCAL, "--jars", "DELTA", *MASTER, "--queue", "run", MAIN, "audit"],
    ),
    "flags take none": (
        ["--verbose", "-v", "--supervise", "--load-spark-defaults", "run"],
        [*LOCAL, "--jars", "DELTA", *MASTER, "--verbose", "-v", "--supervise", "--load-spark-defaults", MAIN, "run"],
    ),
    "an equals sign": (["--conf=spark.a=b=c", "run"], [*LOCAL, "--jars", "DELTA", *MASTER, "--conf", "spark.a=b=c", MAIN, "run"]),
    "own local master": (["--master", "local[2]", "run"], [*LOCAL, "--jars", "DELTA", *SCRATCH, "--master", "local[2]", MAIN, "run"]),
    "own local master by --conf": (
        ["-c", "spark.master=local[2]", "run"],
        [*LOCAL, "--jars", "DELTA", *SCRATCH, "-c", "spark.master=local[2]", MAIN, "run"],
    ),
    "own jars are added": (["--jars", "/x.jar", "run"], [*LOCAL, "--jars", "DELTA,/x.jar", *MASTER, MAIN, "run"]),
    "own packages and files are kept": (
        ["--packages", "a:b:1", "--py-files", "/c.zip", "run"],
        [*LOCAL, "--py-files", "/c.zip", "--jars", "DELTA", "--packages", "a:b:1", *MASTER, MAIN, "run"],
    ),
    "a cluster's master": (["--master", "yarn", "run"], [*CLUSTER, ZIP, "--jars", "DELTA", "--master", "yarn", MAIN, "run"]),
    "a cluster's master by --conf": (
        ["--conf=spark.master=yarn", "run"],
        [*CLUSTER, ZIP, "--jars", "DELTA", "--conf", "spark.master=yarn", MAIN, "run"],
    ),
    "own jars and files on a cluster": (
        ["--master=yarn", "--jars=/x.jar", "--py-files=/c.zip", "--packages=a:b:1", "run"],
        [*CLUSTER, ZIP + ",/c.zip", "--jars", "DELTA,/x.jar", "--packages", "a:b:1", "--master", "yarn", MAIN, "run"],
    ),
    "own Delta on a cluster": (
        ["--master=yarn", "--jars=/delta-spark_4.1_2.13-4.4.0.jar", "run"],
        [*CLUSTER, ZIP, "--jars", "/delta-spark_4.1_2.13-4.4.0.jar", "--master", "yarn", MAIN, "run"],
    ),
}


@pytest.mark.parametrize(("call", "argv"), ARGV.values(), ids=ARGV.keys())
def test_the_command_line_becomes_this_argv(ready: Checkout, call: list[str], argv: list[str]):
    assert ready.argv(*call) == argv


def test_a_cluster_without_jars_has_spark_resolve_them(checkout: Checkout):
    argv = checkout.argv("--master", "yarn", "--packages", "a:b:1", "run", SPARK_HOME=str(checkout.spark))
    assert argv == [*CLUSTER, ZIP, "--packages", f"{PACKAGE},a:b:1", "--master", "yarn", MAIN, "run"]


def test_an_installation_with_delta_needs_no_jars(checkout: Checkout):
    (checkout.spark / "jars" / "delta-spark_4.1_2.13-4.4.0.jar").write_text("")
    assert checkout.argv("--master", "yarn", "run", SPARK_HOME=str(checkout.spark)) == [*CLUSTER, ZIP, "--master", "yarn", MAIN, "run"]
    assert checkout.argv("run", SPARK_HOME=str(checkout.spark)) == [*LOCAL, *MASTER, MAIN, "run"]


def test_a_cluster_gets_nothing_installed(checkout: Checkout):
    assert "needs SPARK_HOME" in checkout.refusal("--master", "yarn", "run")
    checkout.argv("--master", "yarn", "run", SPARK_HOME=str(checkout.spark))
    assert not (checkout.root / ".venv").exists()
    assert not (checkout.root / ".evenkeel" / "jars").exists()


@pytest.mark.parametrize("arguments", [["--master"], ["--conf"], ["--verbose", "-c"]])
def test_an_option_without_its_value_is_refused(ready: Checkout, arguments: list[str]):
    assert ready.refusal(*arguments) == f"{arguments[-1]} needs a value; {ready.root}/spark-submit.sh --help shows the usage"


def test_refusal_is_the_last_line_of_a_json_log(ready: Checkout):
    done = ready.call("--mastre", "yarn", "run", "--log-format", "json")
    end = json.loads(done.stderr)
    assert (done.returncode, end["event"], end["command"], end["exit_code"]) == (2, "end", "run", 2)
    assert end["error"] == "--mastre is not an option of Spark; did you mean --master?"


def test_a_call_that_may_not_open_enough_files_is_refused(checkout: Checkout):
    """Before a JVM ends with a trace; what the launcher itself opens are a few."""
    script = checkout.folder / "limited"
    script.write_text(f'#!{shutil.which("bash")}\nulimit -n 64\nexec "{checkout.root}/spark-submit.sh" "$@"\n')
    script.chmod(0o755)
    done = checkout.call("run", script=script)
    message = "evenkeel: at most 64 files may be open (ulimit -Hn), Spark needs 1024; raise the limit in this shell or service\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", message)


def test_help_needs_nothing(checkout: Checkout):
    (checkout.bin / "java").unlink()
    lost = checkout.call("--master", "yarn")
    (checkout.bin / "python3").unlink()
    helped = checkout.call("--help")
    assert (helped.returncode, helped.stderr) == (0, "")
    assert (lost.returncode, lost.stdout, lost.stderr) == (2, "", helped.stdout)


def test_version_needs_no_installation(checkout: Checkout):
    shown = checkout.call("--version")
    assert (shown.returncode, shown.stdout, checkout.count("-m venv")) == (0, f"evenkeel {evenkeel_version()}\n", 0)


def test_help_names_every_command(checkout: Checkout):
    listed = re.findall(r"^  ([\w-]+)  +\S", checkout.call("--help").stdout.partition("Commands")[2].partition("\n\n")[0], re.MULTILINE)
    assert sorted(listed) == sorted(COMMANDS)


def test_launcher_knows_the_kind_of_each_command():
    """It imports nothing of ours, since it runs before there are packages."""
    assert {*LANDING_COMMANDS} == {name for name, command in COMMANDS.items() if command.lands}
    assert {*SHORT_COMMANDS} == {name for name, command in COMMANDS.items() if command.is_short}
    for name, command in COMMANDS.items():
        is_plain = command.options in (CollectOptions, ShowOptions, ExplainOptions, WhatIfOptions)
        assert choose_way(parse([name]), {}) == ("python" if is_plain else "local"), name


def test_the_help_of_a_command_needs_neither_java_nor_jars(checkout: Checkout):
    result = checkout.call("land", "--help", JAVA_HOME="/nowhere")
    assert checkout.count("ivy") == 0
    assert (result.returncode, result.stdout) == (0, "help of ['land', '--help']\n")


@pytest.mark.parametrize("command", ["collect", "what-if"])
def test_plain_python_needs_neither_java_nor_jars(checkout: Checkout, command: str):
    result = checkout.call(command, "--output", "a b", JAVA_HOME="/nowhere")
    assert checkout.count("ivy") == 0
    assert (result.returncode, result.stdout) == (0, f"help of ['{command}', '--output', 'a b']\n")


@pytest.mark.parametrize(
    "options", [["--master", "yarn"], ["--remote", "sc://h"], ["--jars", "x.jar"], ["-v"], ["--py-files=a.zip"], ["--packages", "a:b:1"]]
)
def test_collect_takes_no_options_of_spark(checkout: Checkout, options: list[str]):
    assert checkout.refusal(*options, "collect") == "collect runs without Spark: remove the options before it"


@pytest.mark.parametrize(
    ("options", "extra"),
    [
        (["--remote", "sc://h"], {}),
        (["--remote=sc://h"], {"SPARK_REMOTE": "x"}),
        (["-c", "spark.remote=sc://h"], {}),
        ([], {"SPARK_REMOTE": "sc://h"}),
    ],
    ids=["option", "option before the environment", "setting", "environment"],
)
def test_a_connect_server_needs_neither_java_nor_jars(checkout: Checkout, options: list[str], extra: dict[str, str]):
    (checkout.root / "jobs" / "__main__.py").write_text("import os, sys; print(os.environ['SPARK_REMOTE'], sys.argv[1:])")
    result = checkout.call(*options, "run", "--wait", "5", JAVA_HOME="/nowhere", **extra)
    assert checkout.count("ivy") == 0
    assert (result.returncode, result.stdout) == (0, "sc://h ['run', '--wait', '5']\n")


@pytest.mark.parametrize("options", [["--master", "yarn"], ["--jars", "x.jar"], ["-v"], ["--py-files=a.zip"], ["--conf", "a=b"]])
def test_a_connect_server_takes_no_other_options_of_spark(checkout: Checkout, options: list[str]):
    message = "--remote takes no other options of Spark: jars, packages and settings belong on the command line of the server"
    assert checkout.refusal("--remote", "sc://h", *options, "run") == message


def test_the_driver_keeps_to_the_venv_where_executors_have_their_own_python(ready: Checkout):
    shown = [
        line for line in ready.argv("--master", "yarn", "run", SHOW="yes", PYSPARK_PYTHON="./environment/bin/python") if "env " in line
    ]
    assert shown[1:3] == ["env ./environment/bin/python", "env ROOT/.venv/bin/python"]
    here = [line for line in ready.argv("--master", "yarn", "run", SHOW="yes") if "env " in line]
    assert here[1:3] == ["env ROOT/.venv/bin/python", "env ROOT/.venv/bin/python"]


@pytest.mark.parametrize("option", [["--deploy-mode", "cluster"], ["--conf", "spark.submit.deployMode=cluster"]])
def test_driver_on_the_cluster_gets_no_local_python_path(ready: Checkout, option: list[str]):
    argv = ready.argv("--master", "yarn", *option, "run", SHOW="yes")
    assert [line for line in argv if line.startswith("env ") and ".venv/bin" in line] == []


# -------------------------------------------------------------------------------------------------------- settings by size


def settings_of(argv: list[str]) -> dict[str, str]:
    """Return the settings that spark-submit was given as options, of each the last value."""
    return dict(word.split("=", 1) for option, word in pairwise(argv) if option in ("--conf", "-c"))


def test_a_large_input_gets_settings_of_its_own_which_the_callers_beat(ready: Checkout, tmp_path: Path):
    with (tmp_path / "capture.parquet").open("wb") as file:
        file.truncate(100 << 20)
    (tmp_path / "own.conf").write_text("spark.driver.memory 3g\n")
    call = ["land", "--input", str(tmp_path / "capture.parquet")]
    by_size = settings_of(ready.argv(*call))
    assert (by_size["spark.sql.codegen.factoryMode"], by_size["spark.sql.shuffle.partitions"]) == ("FALLBACK", "25")
    assert settings_of(ready.argv(*call, EVENKEEL_PROFILE="small")).keys() <= {"spark.sql.warehouse.dir", "spark.driver.memory"}
    argv = ready.argv("--properties-file", str(tmp_path / "own.conf"), "--conf", "spark.sql.shuffle.partitions=9", *call)
    own = settings_of(argv)
    assert (own["spark.sql.shuffle.partitions"], own["spark.driver.memory"]) == ("9", "3g")
    assert argv[argv.index("--properties-file", 3) + 1] == str(tmp_path / "own.conf")
    assert own["spark.sql.codegen.factoryMode"] == "FALLBACK"
    said = ready.call("--driver-memory", "4g", *call).stderr.splitlines()[0]
    assert said == "evenkeel: settings for a large run: inputs of 100 MB, no tables yet, heap of 4g (conf/spark-local-large.conf)"


def test_a_wrong_kind_of_run_is_refused_before_anything_is_made(checkout: Checkout):
    assert checkout.refusal(EVENKEEL_PROFILE="medium") == "EVENKEEL_PROFILE is 'medium'; set it to small or large, or unset it"
    assert not (checkout.root / ".venv").exists()


def test_a_cluster_gets_no_settings_by_size(ready: Checkout):
    arguments = ("--master", "yarn", "run", "--bootstrap-servers", "h:1")
    assert settings_of(ready.argv(*arguments, EVENKEEL_PROFILE="large")) == {}
    assert "settings" not in ready.call(*arguments).stderr


# --------------------------------------------------------------------------------------------------------------- the start


def test_exit_code_and_output_are_the_jobs(ready: Checkout):
    result = ready.call("run", EXIT="3")
    assert result.returncode == 3
    assert result.stderr.splitlines()[1:] == ["a real error"]


def test_the_environment_names_the_checkouts_spark_and_python(ready: Checkout):
    shown = [line for line in ready.argv("run", SHOW="yes", PYTHONPATH="/mine") if line.startswith("env ")]
    assert shown == [
        "env ROOT/.venv/lib/python3.11/site-packages/pyspark",
        "env ROOT/.venv/bin/python",
        "env ROOT/.venv/bin/python",
        "env ROOT/conf",
        "env ROOT:/mine",
    ]


def test_launcher_starts_through_symbolic_links(ready: Checkout, tmp_path: Path):
    (tmp_path / "absolute").symlink_to(ready.root / "spark-submit.sh")
    (tmp_path / "relative").symlink_to("absolute")
    assert ready.call("run", script=tmp_path / "relative").stdout.splitlines()[-2:] == [str(ready.root / "jobs/__main__.py"), "run"]


def test_a_later_call_starts_one_python_and_no_java(ready: Checkout):
    before = ready.log.read_text()
    ready.call("run", PATH=str(ready.bin), JAVA_HOME=str(java_home(ready.folder / "jdk", "21.0.4")))
    (started,) = ready.log.read_text().removeprefix(before).splitlines()
    assert started.startswith("-I -S -X utf8 -c ") and started.endswith(f" {ready.root}/jobs {ready.root}/.venv/bin/python  run")


SIGNALS = """#!{bash}
grep SigIgn /proc/self/status
echo "${{LC_CTYPE-unset}}"
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux which signals are ignored")
@pytest.mark.parametrize(("given", "seen"), [({}, "unset"), ({"LC_CTYPE": "C"}, "C")])
def test_spark_gets_the_signals_and_the_locale_of_the_caller(checkout: Checkout, given: dict[str, str], seen: str):
    """Python ignores SIGPIPE and SIGXFSZ for itself, and sets LC_CTYPE where the locale is C: both would be Spark's too."""
    checkout.write(checkout.spark / "bin" / "spark-submit", SIGNALS)
    checkout.call("--setup")
    ignored, locale = checkout.call("run", **given).stdout.splitlines()
    assert not int(ignored.split()[1], 16) & (1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1)
    assert locale == seen


LOCALES = {
    "nothing": ({}, True),
    "POSIX": ({"LC_ALL": "POSIX"}, True),
    "the category alone": ({"LANG": "C.UTF-8", "LC_CTYPE": "C"}, True),
    "not installed": ({"LC_ALL": "xx_YY.UTF-8"}, True),
    "one category not installed": ({"LANG": "C.UTF-8", "LC_TIME": "xx_YY.UTF-8"}, True),
    "UTF-8": ({"LANG": "C.UTF-8"}, False),
    "UTF-8 by the category": ({"LC_CTYPE": "C.UTF-8"}, False),
}


@pytest.mark.parametrize(("given", "is_set"), LOCALES.values(), ids=LOCALES.keys())
@pytest.mark.skipif(not codeset("C.UTF-8"), reason="needs the locale C.UTF-8")
def test_spark_has_a_locale_of_utf8(checkout: Checkout, given: dict[str, str], is_set: bool):
    checkout.write(checkout.spark / "bin" / "spark-submit", "#!{bash}\necho ${{LC_ALL-unset}}")
    assert checkout.call("run", SPARK_HOME=str(checkout.spark), **given).stdout == ("C.UTF-8\n" if is_set else "unset\n")


@pytest.mark.parametrize("given", [{}, {"LC_ALL": "POSIX"}, {"LC_ALL": "C.UTF-8"}], ids=["nothing", "POSIX", "UTF-8"])
def test_arguments_are_utf8_in_any_locale(ready: Checkout, given: dict[str, str]):
    assert ready.argv("land", "--cluster-id", "東京", **given)[-4:] == ["--encoded-arguments", "land", "--cluster-id", "%E6%9D%B1%E4%BA%AC"]
    assert ready.refusal("land", "--cluster-id", os.fsdecode(b"Z\xfcrich"), **given).startswith("the argument b'Z\\xfcrich' is not UTF-8;")


# What Spark does to start its workers: in its own current folder, by -m, with the folders of PYTHONPATH.
WORKER_START = """#!{bash}
"$PYTHON_OF_WORKERS" -m pyspark.daemon
"""
TRAPS = (
    "jobs",
    "json",
    "pyspark",
    "runpy",
    "pkgutil",
    "collections",
    "site",
    "sitecustomize",
    "usercustomize",
    "encodings",
    "ensurepip",
    "re",
)


def set_traps(checkout: Checkout) -> Path:
    """Make packages of the caller's current folder whose import leaves a marker; return where it would be."""
    marker = checkout.folder / "marker"
    for name in TRAPS:
        (checkout.folder / name).mkdir()
        (checkout.folder / name / "__init__.py").write_text(TRAP.format(marker=str(marker), name=name))
    return marker


def interpreter(version: str) -> str | None:
    """Return the path of a Python of this version; None where there is none. What is on PATH may be a script that chooses one."""
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        return sys.executable
    named = shutil.which(f"python{version}")
    asked = named and subprocess.run([named, "-c", "import sys; print(sys.executable)"], capture_output=True, text=True)
    return asked.stdout.strip() if asked and asked.returncode == 0 else None


@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13", "3.14"])
def test_no_python_process_imports_from_the_current_folder(checkout: Checkout, version: str):
    python = interpreter(version)
    if python is None:
        pytest.skip(f"there is no Python {version}")
    (checkout.folder / "library" / "pyspark").mkdir(parents=True)
    (checkout.folder / "library" / "pyspark" / "__init__.py").touch()
    (checkout.folder / "library" / "pyspark" / "daemon.py").write_text("import json, re, site, sys; print('worker', *map(repr, sys.path))")
    checkout.write(checkout.spark / "bin" / "spark-submit", WORKER_START)
    marker = set_traps(checkout)
    for arguments in (["run"], ["run", "--help"], ["collect"], ["--remote", "sc://h", "run"], ["--master", "yarn", "run"]):
        result = checkout.call(*arguments, PYTHONPATH="::library:.:", PYTHON_OF_WORKERS=python, SPARK_HOME=str(checkout.spark))
        assert result.returncode == 0, result.stderr
        assert "--help" in arguments or arguments[0] in ("collect", "--remote") or f"'{checkout.root}'" in result.stdout
        assert repr(str(checkout.folder)) not in result.stdout
    assert not marker.exists(), marker.read_text()


def test_no_program_of_the_setup_imports_from_the_current_folder(checkout: Checkout):
    marker = set_traps(checkout)
    assert checkout.call("--setup", PYTHONPATH=":").returncode == 0
    calls = checkout.log.read_text().splitlines()
    assert [call for call in calls if not call.startswith("-I ") and call not in ("--version", "ivy")] == []
    assert not marker.exists(), marker.read_text()


@pytest.mark.parametrize("master", ["local[2,4]", "yarn"])
def test_spark_runs_in_the_checkout_with_the_callers_paths(checkout: Checkout, master: str):
    checkout.write(checkout.spark / "bin" / "spark-submit", "#!{bash}\npwd -P; echo $EVENKEEL_FOLDER; printf '%s\\n' \"$@\"")
    lines = checkout.argv("--master", master, "--jars", "a.jar", "--files=b", "run", SPARK_HOME="spark")
    assert lines[:2] == ["ROOT", str(checkout.folder)]
    assert lines[lines.index("--jars") + 1].endswith(f"{checkout.folder}/a.jar")
    assert lines[lines.index("--files") + 1] == f"{checkout.folder}/b"


INTERRUPTIBLE = """#!{bash}
trap 'kill $! 2>/dev/null; sleep 0.5; echo "evenkeel: the last message" >&2; echo "at java.lang.Thread" >&2; exit 130' INT
{driver}
echo started
sleep 60 >/dev/null 2>&1 8>&- &
wait
"""


def interruptible(checkout: Checkout, *arguments: str) -> subprocess.Popen[str]:
    """Start a call as a terminal does: in a process group of its own, which Ctrl-C reaches."""
    return subprocess.Popen(
        [checkout.root / "spark-submit.sh", *arguments], env=checkout.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("driver", "said"),
    [('kill -USR1 "$EVENKEEL_WATCHER"; sleep 1', []), (":", ["evenkeel: interrupted; the tables are as before"])],
    ids=["with a driver", "before the driver"],
)
def test_ctrl_c_loses_no_message_and_shows_no_stack_trace(checkout: Checkout, driver: str, said: list[str]):
    """The launcher says what is true of the tables until the driver can do so."""
    checkout.write(checkout.spark / "bin" / "spark-submit", INTERRUPTIBLE.replace("{driver}", driver))
    checkout.call("--setup")
    call = interruptible(checkout, "run")
    assert call.stdout.readline() == "started\n"
    os.killpg(call.pid, signal.SIGINT)
    assert call.communicate(timeout=300)[1].splitlines()[1:] == [*said, "evenkeel: the last message"]
    assert call.returncode == 130


# ------------------------------------------------------------------------------------------------------------------- setup


def test_the_first_call_installs_once(checkout: Checkout):
    first = checkout.call("run")
    assert first.returncode == 0
    assert first.stderr.count(" is ready (") == 1 and first.stderr.count(" are ready (") == 1
    assert checkout.call("run").stderr.splitlines()[1:] == ["a real error"]
    assert (checkout.count("-m venv"), checkout.count("-m pip"), checkout.count("ivy")) == (1, 1, 1)
    assert sorted(path.name for path in (checkout.root / ".evenkeel" / "jars" / "spark-4.1").iterdir()) == sorted(JARS)


def test_setup_installs_the_packages_of_setup_cfg(ready: Checkout):
    wanted = (ready.root / ".venv" / "requirements.txt").read_text().splitlines()
    assert {*map(locked, ("pydantic==2.7.0", "pyspark==4.1.3", "great-expectations==1.24.1", "jinja2==3.1.6"))} <= set(wanted)
    assert len(wanted) == len(set(wanted))
    assert not any(line.startswith(("pytest", "evenkeel")) for line in wanted)


def test_setup_takes_extras(checkout: Checkout):
    assert checkout.call("--setup", "test").returncode == 0
    assert "pytest" in (checkout.root / ".venv" / "requirements.txt").read_text()
    assert "setup.cfg has no extra nonsense" in checkout.refusal("--setup", "nonsense")


def test_an_extra_that_is_not_there_is_refused_before_anything_is_made(checkout: Checkout):
    assert "setup.cfg has no extra nonsense" in checkout.refusal("--setup", "nonsense")
    assert not (checkout.root / ".venv").exists()


def test_build_packages_are_installed_first(checkout: Checkout):
    checkout.write_lock(build=("setuptools==80.9.0",))
    assert checkout.call("--setup").returncode == 0
    first, second = (line for line in checkout.log.read_text().splitlines() if line.startswith("-I -m pip"))
    assert first.endswith(f"--no-deps --require-hashes --requirement {checkout.root}/.venv/build-requirements.txt")
    assert second.endswith(f"--no-deps --require-hashes --no-build-isolation --requirement {checkout.root}/.venv/requirements.txt")
    assert (checkout.root / ".venv" / "build-requirements.txt").read_text() == locked("setuptools==80.9.0") + "\n"


@pytest.mark.parametrize("name", ["setup.cfg", "conf/requirements.lock"])
def test_changed_requirements_are_installed_into_the_same_venv(checkout: Checkout, name: str):
    checkout.call("--setup")
    with (checkout.root / name).open("a") as file:
        file.write("# more\n")
    checkout.call("--setup")
    assert (checkout.count("-m venv"), checkout.count("-m pip")) == (1, 2)


def test_new_requirements_that_cannot_be_had_leave_the_venv_as_it_was(checkout: Checkout):
    checkout.call("--setup")
    before = (checkout.root / "setup.cfg").read_text()
    (checkout.root / "setup.cfg").write_text(before + "more =\n    thing\n")
    (checkout.root / ".venv" / "bin" / "python").write_text((checkout.bin / "python3").read_text().replace("true && cd", "exit 1 && cd"))
    assert checkout.refusal().startswith("installing the packages of setup.cfg failed")
    (checkout.root / "setup.cfg").write_text(before)
    assert checkout.call("run").returncode == 0
    assert (checkout.count("-m venv"), checkout.count("-m pip")) == (1, 2)


def test_another_interpreter_makes_another_venv(checkout: Checkout):
    checkout.call("--setup")
    stamp = checkout.root / ".venv" / "complete"
    stamp.write_text(stamp.read_text().replace(str(checkout.root), "/old"))
    checkout.call("--setup")
    assert checkout.count("-m venv") == 2


def test_an_interrupted_setup_is_redone(checkout: Checkout):
    checkout.write_python(pip_seconds=30)
    call = subprocess.Popen(
        [checkout.root / "spark-submit.sh", "--setup"], env=checkout.environment(), stderr=subprocess.DEVNULL, start_new_session=True
    )
    wait_for(lambda: checkout.count("-m pip"))
    os.killpg(call.pid, signal.SIGKILL)
    call.wait()
    checkout.write_python()
    assert checkout.call("run").returncode == 0
    assert (checkout.count("-m venv"), checkout.count("-m pip")) == (2, 2)


def test_a_killed_setup_of_an_extra_is_redone(checkout: Checkout):
    checkout.call("--setup")
    (checkout.root / ".venv" / "bin" / "python").write_text(
        (checkout.bin / "python3").read_text().replace("sleep 0", "kill -9 $PPID && exit")
    )
    assert checkout.call("--setup", "test").returncode == -signal.SIGKILL
    assert checkout.call("run").returncode == 0
    assert checkout.count("-m venv") == 2


def test_ctrl_c_ends_a_setup(checkout: Checkout):
    checkout.write_python(pip_seconds=60)
    call = interruptible(checkout, "--setup")
    wait_for(lambda: checkout.count("-m pip"))
    os.killpg(call.pid, signal.SIGINT)
    assert call.communicate(timeout=300)[1].splitlines()[-1] == "evenkeel: interrupted; the tables are as before"
    assert call.returncode == 130


def test_a_pip_that_outlives_its_launcher_keeps_the_lock(checkout: Checkout):
    checkout.write_python(pip_seconds=3)
    call = subprocess.Popen([checkout.root / "spark-submit.sh", "--setup"], env=checkout.environment(), stderr=subprocess.DEVNULL)
    wait_for(lambda: checkout.count("-m pip"))
    call.kill()
    call.wait()
    checkout.write_python()
    after = checkout.call("run")
    assert (after.returncode, "another call is setting up" in after.stderr) == (0, True)


def test_concurrent_first_calls_set_up_once(checkout: Checkout):
    checkout.write_python(pip_seconds=1)
    calls = [
        subprocess.Popen(
            [checkout.root / "spark-submit.sh", "run"], env=checkout.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        for _ in range(3)
    ]
    messages = [call.communicate(timeout=300)[1] for call in calls]
    assert [call.returncode for call in calls] == [0, 0, 0]
    assert sum(b"another call is setting up" in message for message in messages) == 2
    assert (checkout.count("-m pip"), checkout.count("ivy")) == (1, 1)


def test_a_lost_jar_is_fetched_again(checkout: Checkout):
    checkout.call("--setup")
    (checkout.root / ".evenkeel" / "jars" / "spark-4.1" / JARS[1]).unlink()
    assert checkout.call("run").returncode == 0
    assert checkout.count("ivy") == 2


def test_the_zip_follows_the_sources(checkout: Checkout):
    def build() -> tuple[int, bytes]:
        checkout.argv("--master", "yarn", "run", SPARK_HOME=str(checkout.spark))
        return archive.stat().st_mtime_ns, archive.read_bytes()

    archive = checkout.root / ".evenkeel" / "evenkeel.zip"
    module = checkout.root / "schemas" / "a.py"
    module.write_text("1")
    (checkout.root / "conf" / "x.yaml").write_text("")
    first = build()
    assert build() == first
    module.unlink()
    without = build()
    module.write_text("1")
    again = build()
    assert without[1] != first[1]
    assert again[1] == first[1]
    assert zipfile.ZipFile(archive).read("setup.cfg") == (checkout.root / "setup.cfg").read_bytes()
    assert b"jobs/conf/x.yaml" in first[1] and b"schemas/a.py" in first[1] and b"jobs/__main__.py" in first[1]


# ---------------------------------------------------------------------------------------------------------------- failures


def java_home(folder: Path, version: str) -> Path:
    """Return a JDK that only has its version, in the file that spares starting it."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    (folder / "bin" / "java").chmod(0o755)
    (folder / "release").write_text(f'IMPLEMENTOR="Any"\nJAVA_VERSION="{version}"\nJAVA_VERSION_DATE="2024-01-01"\n')
    return folder


def wait_for(condition) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, "waited 120 s in vain"
        time.sleep(0.02)


def test_missing_java_is_refused(checkout: Checkout):
    (checkout.bin / "java").unlink()
    assert checkout.refusal().startswith("no Java found: JAVA_HOME is not set and there is no java on PATH; install Java 17 or 21")
    assert not (checkout.root / ".venv").exists()


def test_java_home_without_java_is_refused(checkout: Checkout):
    assert checkout.refusal(JAVA_HOME="/nowhere").startswith("no Java at JAVA_HOME=/nowhere (no bin/java there)")


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2", "18", "22.0.1", "171.0"])
def test_unsupported_java_version_is_refused(checkout: Checkout, version: str):
    home = java_home(checkout.folder / "jdk", version)
    assert checkout.refusal(JAVA_HOME=str(home)).startswith(f"Java {version} at {home}/bin/java does not fit; Spark 4 needs Java 17 or 21")


@pytest.mark.parametrize("version", ["17", "17.0.15", "21.0.4", "21-ea"])
def test_supported_java_version_is_accepted(ready: Checkout, tmp_path: Path, version: str):
    assert ready.call("run", JAVA_HOME=str(java_home(tmp_path / "jdk", version))).returncode == 0


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("echo 'java version \"1.8.0_392\"' >&2", "Java 1.8.0_392 at {java} does not fit"),
        ("echo 'Unable to locate a Java Runtime.' >&2; exit 1", "{java} does not run (Unable to locate a Java Runtime.)"),
    ],
)
def test_java_without_a_release_file_is_asked(checkout: Checkout, output: str, message: str):
    (checkout.bin / "java").write_text(f"#!/bin/sh\n{output}\n")
    assert checkout.refusal().startswith(message.format(java=checkout.bin / "java"))


def test_missing_python_is_refused(checkout: Checkout):
    (checkout.bin / "python3").unlink()
    assert checkout.refusal().startswith("no suitable Python on PATH (there is no python3); Evenkeel runs on Python 3.10 to 3.14")


@pytest.mark.parametrize("version", ["3.9.2", "3.15.0"])
def test_unsupported_python_on_path_is_refused(checkout: Checkout, version: str):
    checkout.write_python(version=version, fits="exit 1")
    assert checkout.refusal().startswith(f"no suitable Python on PATH ({checkout.bin}/python3 is Python {version})")
    assert not (checkout.root / ".evenkeel").exists()
    checkout.write_python()
    assert checkout.call("run").returncode == 0


def test_venv_is_made_again_when_a_system_upgrade_changes_its_python(checkout: Checkout):
    """The link of .venv then leads to another interpreter, which may be one that does not fit."""
    checkout.call("--setup")
    python = checkout.root / ".venv" / "bin" / "python"
    python.unlink()
    checkout.write(python, "#!{bash}\nexit 9\n")
    stamp = checkout.root / ".venv" / "complete"
    stamp.write_text(stamp.read_text().replace(f"{python}\n", "/usr/bin/python3.1\n", 1))
    assert checkout.call("run").returncode == 0
    assert checkout.count("-m venv") == 2


def test_script_without_its_checkout_is_refused(checkout: Checkout):
    shutil.rmtree(checkout.root / "jobs" / "launcher")
    assert checkout.refusal().startswith(f"no jobs/launcher in {checkout.root}; start the spark-submit.sh of a whole checkout")


def test_missing_lock_file_is_refused(checkout: Checkout):
    lock = checkout.root / "conf" / "requirements.lock"
    lock.unlink()
    assert checkout.refusal() == f"conf/requirements.lock is missing in {checkout.root}; restore it from the repository"
    assert not (checkout.root / ".venv").exists()
    lock.write_text("# [core]\n")
    assert checkout.refusal().startswith("conf/requirements.lock has no section [spark], only core; restore it")
    checkout.write_lock()
    assert checkout.call("run").returncode == 0


def test_a_newer_python_beside_an_old_one_is_found(checkout: Checkout):
    checkout.write_python(version="3.9.2", fits="exit 1")
    checkout.write_python(name="python3.12", version="3.12.1")
    assert "making .venv with Python 3.12.1" in checkout.call("run").stderr


def test_missing_venv_module_is_refused(checkout: Checkout):
    checkout.write_python(ensurepip="exit 1")
    assert "has no venv or ensurepip module; install it (Debian, Ubuntu: apt install python3-venv)" in checkout.refusal()


HASH_MISMATCH = """Collecting numpy==1.26.4 (from -r requirements.txt (line 2))
ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have updated the package versions, ...
    numpy==1.26.4 from https://mirror.example/numpy-1.26.4-cp311-cp311-manylinux_x86_64.whl (from -r requirements.txt (line 2)):
        Expected sha256 0123
        Expected     or 4567
             Got        c0ffee
"""
FAILURES = {
    "WARNING: Retrying after NewConnectionError('Failed to establish')": "the network cannot be reached; connect this machine",
    "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device": "no space left on the disk; free some",
    HASH_MISMATCH: "numpy==1.26.4 has SHA-256 c0ffee, which is not in conf/requirements.lock; use an index that serves the files of PyPI",
    "ERROR: No matching distribution found for pyspark==4.1.3": "ERROR: No matching distribution found for pyspark==4.1.3; connect this",
}


@pytest.mark.parametrize(("output", "message"), FAILURES.items())
def test_failed_pip_install_names_cause_and_log(checkout: Checkout, output: str, message: str):
    log = checkout.root / ".evenkeel" / "setup.log"
    checkout.write_python(pip=f'{{ echo "{output}"; exit 1; }}')
    line = checkout.refusal()
    assert line.startswith(f"installing the packages of setup.cfg failed: {message}")
    assert line.endswith(f"then call again (its output: {log})")
    checkout.write_python()
    assert checkout.call("run").returncode == 0


@pytest.mark.parametrize(
    ("ivy", "cause"),
    [("echo 'Host repo.example not found. url=...' && exit 1", "the network cannot be reached"), ("exit 1", "it printed nothing")],
)
def test_failed_fetch_of_jars_names_the_cause(checkout: Checkout, ivy: str, cause: str):
    checkout.write_java(ivy=ivy)
    assert checkout.refusal().startswith(f"fetching Delta's jars failed: {cause}; connect this machine or name a mirror")
    checkout.write_java()
    assert checkout.call("run").returncode == 0


def test_a_damaged_jar_is_not_kept(checkout: Checkout):
    checkout.write_java(ivy=f"for jar in {' '.join(JARS)}; do printf page >jars/$jar; done")
    assert checkout.refusal().startswith(f"checking Delta's jars failed: {JARS[0]} has SHA-256 ")
    checkout.write_java()
    assert checkout.call("run").returncode == 0


def test_checkout_that_cannot_be_written_is_refused(checkout: Checkout):
    (checkout.root / ".evenkeel").write_text("in the way, for root too")
    assert checkout.refusal().startswith(f"cannot write into {checkout.root}, the folder of .venv")
    assert checkout.refusal("--master", "yarn", "run", SPARK_HOME=str(checkout.spark)).startswith(f"cannot write into {checkout.root}")


def test_spark_home_without_spark_is_refused(checkout: Checkout):
    assert checkout.refusal(SPARK_HOME="/nowhere").startswith("no Spark in SPARK_HOME=/nowhere (no jars/spark-core_*.jar there)")


@pytest.mark.parametrize("version", ["3.5.6", "4.2.0", "40.1.0"])
@pytest.mark.parametrize("arguments", [["run"], ["--master", "yarn", "run"]])
def test_spark_home_of_an_unsupported_version_is_refused(checkout: Checkout, version: str, arguments: list[str]):
    home = checkout.make_spark(checkout.folder / "other", version)
    assert checkout.refusal(*arguments, SPARK_HOME=str(home)).startswith(
        f"SPARK_HOME={home} is Spark {version}; Evenkeel runs on Spark 4.0 and 4.1"
    )


def test_spark_home_makes_no_venv(checkout: Checkout):
    assert checkout.argv("run", SPARK_HOME=str(checkout.spark))[3:] == ["--jars", "DELTA", *MASTER, MAIN, "run"]
    assert not (checkout.root / ".venv").exists()


def test_the_python_beside_spark_home_lacks_packages(checkout: Checkout):
    setup = (checkout.root / "setup.cfg").read_text().replace("pyyaml>=6", "no-such-distribution[x]>=6")
    (checkout.root / "setup.cfg").write_text(setup)
    line = checkout.refusal(SPARK_HOME=str(checkout.spark))
    assert line.startswith(
        f"{checkout.bin}/python3 (PYSPARK_PYTHON, else python3) does not fit SPARK_HOME={checkout.spark}: packages are missing"
    )
    assert line.endswith('-m pip install "no-such-distribution[x]>=6"')


def test_pyspark_python_is_absent(checkout: Checkout):
    assert checkout.refusal(SPARK_HOME=str(checkout.spark), PYSPARK_PYTHON="/nowhere").startswith(
        "no Python at /nowhere; set PYSPARK_PYTHON"
    )
