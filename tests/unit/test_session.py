"""What can be told of a session by its settings alone."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from jobs import session
from jobs.errors import PlatformError
from jobs.session import advice_on_master, check_scratch


@pytest.mark.parametrize(("master", "instead"), [("local", "local[1,4]"), ("local[2]", "local[2,4]"), ("local[*]", "local[*,4]")])
def test_a_master_that_tries_nothing_again_is_told(master: str, instead: str) -> None:
    advice = advice_on_master(master)
    assert advice is not None and advice.startswith(f"master {master} gives up") and f"; {instead} tries again" in advice


@pytest.mark.parametrize("master", ["local[2,4]", "local[*, 4]", "local-cluster[2,1,1024]", "yarn", "spark://host:7077", ""])
def test_of_other_masters_nothing_is_told(master: str) -> None:
    assert advice_on_master(master) is None


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
    told = f"Spark's scratch folder {tmp_path} cannot be written ({os.strerror(code)}); free some space, or name another one"
    assert str(refused.value).startswith(told)
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
