"""What can be known of a session without a JVM: its settings, how it is opened, and what is refused."""

from __future__ import annotations

import errno
import logging
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from jobs import preflight as reach
from jobs.launcher.workload import Workload
from jobs.runtime import session
from jobs.runtime.errors import PlatformError
from jobs.runtime.interruption import Interruption
from jobs.runtime.jvm import advice_on_master, jvm_encoding, mend_interrupt
from jobs.runtime.session import check_scratch, compiled_queries

CONF = Path(__file__).parents[4] / "conf"


@pytest.mark.parametrize(("master", "instead"), [("local", "local[1,4]"), ("local[2]", "local[2,4]"), ("local[*]", "local[*,4]")])
def test_master_without_task_retries_gets_a_warning(master: str, instead: str) -> None:
    advice = advice_on_master(master)
    assert advice is not None and advice.startswith(f"master {master} fails if") and f"; {instead} tries again" in advice


@pytest.mark.parametrize("master", ["local[2,4]", "local[*, 4]", "local-cluster[2,1,1024]", "yarn", "spark://host:7077", ""])
def test_master_with_task_retries_gets_no_warning(master: str) -> None:
    assert advice_on_master(master) is None


@pytest.mark.parametrize("is_main", [True, False])
def test_handler_of_pyspark_is_replaced_where_that_is_possible(is_main: bool) -> None:
    """A task of Databricks may be in another thread than the main one, in which Python refuses to set a handler."""

    def of_pyspark(number: int, frame: object) -> None: ...

    of_pyspark.__module__ = "pyspark.core.context"
    before, interruption, session_of_jvm = signal.signal(signal.SIGINT, of_pyspark), Interruption(), cast("SparkSession", None)
    try:
        if is_main:
            mend_interrupt(session_of_jvm, interruption)
        else:
            with ThreadPoolExecutor(1) as pool:
                pool.submit(mend_interrupt, session_of_jvm, interruption).result()
        assert signal.getsignal(signal.SIGINT) == (interruption.handle if is_main else of_pyspark)
    finally:
        signal.signal(signal.SIGINT, before)


class FakeConf(dict[str, str]):
    """The settings of a session."""

    set, unset = dict.__setitem__, dict.__delitem__


@pytest.mark.parametrize(("before", "inside"), [("NO_CODEGEN", "FALLBACK"), ("CODEGEN_ONLY", "CODEGEN_ONLY"), (None, None)])
def test_queries_are_compiled_where_a_local_session_interprets_them(before: str | None, inside: str | None) -> None:
    """Other sessions keep what they have, and need not let it be changed."""
    conf = FakeConf({} if before is None else {session.CODE_GENERATION: before})
    with compiled_queries(SimpleNamespace(conf=conf)):
        assert conf.get(session.CODE_GENERATION) == inside
    assert conf.get(session.CODE_GENERATION) == before


class FakeSession:
    """A session whose JVM has an encoding, and its builder; remembers its settings, and the folder and the variables at its start."""

    version = "4.1.3"
    conf = SimpleNamespace(get=lambda key, default: "delta" if key == "spark.sql.extensions" else default, set=lambda key, value: None)

    def __init__(self, encoding: str = "UTF-8") -> None:
        system = SimpleNamespace(getProperty={"sun.jnu.encoding": encoding}.__getitem__)
        self._jvm = SimpleNamespace(java=SimpleNamespace(lang=SimpleNamespace(System=system)))
        self.builder = self
        self.settings: dict[str, str] = {}
        self.shielded: list[Any] = []

    def appName(self, name: str) -> FakeSession:
        return self

    def config(self, key: str, value: str) -> FakeSession:
        self.settings[key] = value
        return self

    def getActiveSession(self) -> None:
        return None

    def getOrCreate(self) -> FakeSession:
        self.made_in, self.environ = os.getcwd(), dict(os.environ)
        return self


def opened(monkeypatch: pytest.MonkeyPatch, fake: FakeSession, workload: Workload | None = None, **environ: str) -> None:
    """Open a session that is a fake one, for some work, with these variables."""
    names = ("PYSPARK_GATEWAY_PORT", "DATABRICKS_RUNTIME_VERSION", "SPARK_REMOTE", "PYTHONPATH", "LC_ALL", "PYSPARK_SUBMIT_ARGS")
    for name in (*names, "EVENKEEL_PROFILE", "EVENKEEL_NOTICE"):
        monkeypatch.setenv(name, "")  # so that what the session sets is undone, too
        monkeypatch.delenv(name)
    for name in ("PYSPARK_PYTHON", "SPARK_LOCAL_IP", "SPARK_CONF_DIR"):
        monkeypatch.setenv(name, "x")
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(session, "SparkSession", fake)
    monkeypatch.setattr(session, "shield_jvm", lambda interruption: fake.shielded.append(interruption))
    session.open_session(CONF, workload=workload)


def test_a_session_for_some_work_has_the_settings_of_its_size(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And the caller's own settings, of which Spark would set ours last."""
    caplog.set_level("INFO")
    monkeypatch.setattr(logging.getLogger("jobs"), "propagate", True)
    (tmp_path / "capture.parquet").write_bytes(bytes(5 << 20))
    work = Workload((str(tmp_path / "capture.parquet"),), "", str(tmp_path))
    options = "--conf spark.driver.memory=700m --conf spark.master=x pyspark-shell"
    small, large, own = FakeSession(), FakeSession(), FakeSession()
    opened(monkeypatch, small)
    opened(monkeypatch, large, work)
    opened(monkeypatch, own, work, PYSPARK_SUBMIT_ARGS=options)
    shared = session.read_conf_file(CONF / "spark-local.conf")
    assert shared.items() <= small.settings.items()
    key = "spark.sql.codegen.factoryMode"
    assert (small.settings[key], large.settings[key]) == ("NO_CODEGEN", "FALLBACK")
    assert (large.settings["spark.ui.enabled"], own.settings["spark.driver.memory"]) == ("false", "700m")
    notices = dict.fromkeys(message for message in caplog.messages if message.startswith("settings for"))
    assert list(notices)[1:] == ["settings for a large run: inputs of 5.0 MB, no tables yet, heap of 0.7g (conf/spark-local-large.conf)"]


def test_a_wrong_kind_of_run_opens_no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PlatformError, match=r"^EVENKEEL_PROFILE is 'medium'; set it to small or large, or unset it$"):
        opened(monkeypatch, FakeSession(), Workload(), EVENKEEL_PROFILE="medium")


def test_an_open_quote_in_the_options_of_spark_names_their_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PlatformError, match=r"^the variable PYSPARK_SUBMIT_ARGS cannot be read \(No closing quotation\)"):
        opened(monkeypatch, FakeSession(), Workload(), PYSPARK_SUBMIT_ARGS='--conf "spark.x=a pyspark-shell')


def test_the_launchers_line_on_settings_is_logged(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    monkeypatch.setattr(logging.getLogger("jobs"), "propagate", True)
    opened(monkeypatch, FakeSession(), Workload(), PYSPARK_GATEWAY_PORT="1", EVENKEEL_NOTICE="settings for a small run")
    assert set(caplog.messages) == {"settings for a small run"}  # a handler of others may repeat it
    assert "EVENKEEL_NOTICE" not in os.environ


def test_a_jvm_of_our_own_starts_where_no_caller_puts_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its workers import from the folder in which it was started."""
    monkeypatch.chdir(tmp_path)
    fake = FakeSession()
    opened(monkeypatch, fake, PYTHONPATH=":lib:.", LC_ALL="POSIX")
    assert fake.made_in == str(CONF)
    assert fake.environ["PYTHONPATH"] == f"{CONF.parent}:{tmp_path}/lib"
    assert os.getcwd() == str(tmp_path)


def test_a_jvm_of_our_own_has_a_locale_of_utf8(monkeypatch: pytest.MonkeyPatch) -> None:
    for chosen, found in (("C.UTF-8", "C.UTF-8"), ("", "POSIX"), (None, "POSIX")):
        monkeypatch.setattr(session, "choose_locale", lambda chosen=chosen: chosen)
        fake = FakeSession()
        opened(monkeypatch, fake, LC_ALL="POSIX")
        assert fake.environ["LC_ALL"] == found


def test_a_platforms_session_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    fake = FakeSession()
    opened(monkeypatch, fake, PYSPARK_GATEWAY_PORT="1", PYTHONPATH=":lib", LC_ALL="POSIX")
    assert (fake.made_in, fake.environ["PYTHONPATH"], fake.environ["LC_ALL"]) == (str(tmp_path), ":lib", "POSIX")


def test_settings_of_a_cluster_that_would_change_tables_are_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    fake, odd, kept = FakeSession(), "spark.sql.files.ignoreCorruptFiles", "spark.sql.files.ignoreMissingFiles"
    compacts, layout = "spark.databricks.delta.autoCompact.enabled", "spark.sql.execution.arrow.useLargeVarTypes"
    given = {"spark.sql.extensions": "delta", "spark.sql.timestampType": "TIMESTAMP_NTZ", odd: "TRUE", kept: "False"}
    given |= {compacts: "auto", layout: "true"}
    changed: dict[str, str] = {}
    fake.conf = SimpleNamespace(get=lambda key, default: given.get(key, default), set=changed.__setitem__)
    opened(monkeypatch, fake, PYSPARK_GATEWAY_PORT="1")
    assert (changed["spark.sql.timestampType"], changed[odd], kept in changed) == ("TIMESTAMP_LTZ", "false", False)
    assert (changed[compacts], changed[layout]) == ("false", "false")


def test_a_jvm_that_started_this_process_leaves_interrupts_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of our own ignores them by itself, and a session of others is not ours to change."""
    launched, own = FakeSession(), FakeSession()
    opened(monkeypatch, launched, PYSPARK_GATEWAY_PORT="1")
    opened(monkeypatch, own)
    assert (len(launched.shielded), len(own.shielded)) == (1, 0)


@pytest.mark.parametrize("lost", ["??", "Z\ufffdrich"])
def test_argument_with_possibly_lost_characters_is_refused(monkeypatch: pytest.MonkeyPatch, lost: str) -> None:
    monkeypatch.setattr(sys, "argv", ["job", "land", "--cluster-id", lost])
    with pytest.raises(PlatformError, match=r"^found a question mark in the argument .*: Java's encoding is ANSI_X3\.4-1968; start with"):
        opened(monkeypatch, FakeSession("ANSI_X3.4-1968"), PYSPARK_GATEWAY_PORT="1")
    opened(monkeypatch, FakeSession("UTF-8"), PYSPARK_GATEWAY_PORT="1")
    opened(monkeypatch, FakeSession("ANSI_X3.4-1968"))  # these arguments never met a JVM
    monkeypatch.setattr(sys, "argv", ["job", "land", "--cluster-id", "plain"])
    opened(monkeypatch, FakeSession("ANSI_X3.4-1968"), PYSPARK_GATEWAY_PORT="1")


@pytest.mark.parametrize(
    ("paths", "encodings", "refused"),
    [
        (["/data/whé"], ["UTF-8", "ANSI_X3.4-1968"], "/data/whé"),
        (["wh", "file:/data/é.jsonl"], ["ISO-8859-1"], "file:/data/é.jsonl"),
        (["/data/whé"], ["UTF-8", "utf8"], None),
        (["/data/whé"], [], None),
        (["/data/wh", "s3a://bucket/é", "main.é", "/Volumes/main/é"], ["ANSI_X3.4-1968"], None),
    ],
)
def test_a_path_that_java_would_write_otherwise_is_refused(
    monkeypatch: pytest.MonkeyPatch, paths: list[str], encodings: list[str], refused: str | None
) -> None:
    monkeypatch.setattr(reach, "jvm_encodings", lambda spark: encodings)
    spark: Any = FakeSession()
    if refused is None:
        reach.check_names(spark, paths)
        return
    with pytest.raises(PlatformError) as error:
        reach.check_names(spark, paths)
    assert str(error.value).startswith(f"{refused.removeprefix('file:')}: Java would use another file name, because its encoding is ")


def test_a_relative_path_has_the_name_of_its_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "josé").mkdir()
    monkeypatch.chdir(tmp_path / "josé")
    monkeypatch.setattr(reach, "jvm_encodings", lambda spark: ["ANSI_X3.4-1968"])
    spark: Any = FakeSession()
    with pytest.raises(PlatformError, match=r"/josé/wh: Java would use"):
        reach.check_names(spark, ["wh"])


def test_the_encoding_of_another_machines_jvm_is_not_known() -> None:
    class Client:
        @property
        def _jvm(self) -> None:
            raise PySparkRuntimeError("no JVM")

    client: Any = Client()
    assert jvm_encoding(client) is None


def test_a_scratch_folder_with_space_is_left_empty(tmp_path: Path) -> None:
    check_scratch({"SPARK_LOCAL_DIRS": f"{tmp_path / 'new'},{tmp_path}"})
    assert [path.name for path in tmp_path.rglob("*")] == ["new"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
def test_a_scratch_folder_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """As when it is full: Spark would end with a hundred lines."""
    named: list[str] = []

    def refuse(dir: str) -> None:
        named.append(dir)
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(session.tempfile, "TemporaryFile", refuse)
    with pytest.raises(PlatformError) as refused:
        check_scratch({"SPARK_LOCAL_DIRS": str(tmp_path)})
    message = f"Spark's scratch folder {tmp_path} cannot be written ({os.strerror(code)}); free some space, or name another folder"
    assert str(refused.value).startswith(message)
    with pytest.raises(PlatformError):
        check_scratch({})
    assert named == [str(tmp_path), "/tmp"]


def test_a_session_is_not_begun_without_scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "file" / "folder"))
    (tmp_path / "file").touch()
    monkeypatch.setattr(session.SparkSession, "getActiveSession", lambda: None)
    with pytest.raises(PlatformError, match=r"scratch folder .*folder cannot be written"):
        session.open_session(tmp_path)
