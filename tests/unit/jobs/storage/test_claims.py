"""Claims to a lease as files of a folder: of all who try one has it, and who died lets go."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from pyspark.errors import PySparkAttributeError, PySparkException

from jobs.storage import lease_claims as claims_module
from jobs.storage.lease_claims import FencingFiles

LONG_AGO = datetime(2000, 1, 1, tzinfo=timezone.utc)
AT = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)


def claims_in(folder: Path) -> FencingFiles:
    return FencingFiles(None, str(folder))  # a folder of this machine needs no Spark


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("ended", [LONG_AGO, AT + timedelta(seconds=1)], ids=["the first", "after one that does not count"])
def test_one_of_many_simultaneous_claims_succeeds(tmp_path: Path, ended: datetime) -> None:
    for _ in range(50):
        folder = tmp_path / "claims"
        folder.mkdir()
        if ended != LONG_AGO:
            (folder / "7.0").touch()
            os.utime(folder / "7.0", (AT.timestamp(), AT.timestamp()))
        ready = threading.Barrier(8)

        def contend(_: int, folder: Path = folder, ready: threading.Barrier = ready) -> bool:
            ready.wait()
            return claims_in(folder).make(7, ended)

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(contend, range(8))) == 1
        folder.rename(tmp_path / f"done-{len(os.listdir(tmp_path))}")


def test_first_claim_makes_the_folders_above_it(tmp_path: Path) -> None:
    assert claims_in(tmp_path / "_lease" / "_claims").make(0, LONG_AGO)
    assert names(tmp_path / "_lease" / "_claims") == ["0.0"]


def test_a_claim_counts_until_it_has_ended(tmp_path: Path) -> None:
    assert claims_in(tmp_path).make(3, LONG_AGO)
    os.utime(tmp_path / "3.0", (AT.timestamp(), AT.timestamp()))
    assert not claims_in(tmp_path).make(3, AT)
    assert claims_in(tmp_path).make(3, AT + timedelta(seconds=1))
    assert names(tmp_path) == ["3.0", "3.1"]
    os.utime(tmp_path / "3.1", (AT.timestamp(), AT.timestamp()))
    assert not claims_in(tmp_path).make(3, AT)
    for attempt in range(2, 12):  # the newest by number, not by name
        assert claims_in(tmp_path).make(3, AT + timedelta(seconds=1))
        os.utime(tmp_path / f"3.{attempt}", (AT.timestamp(), AT.timestamp()))


def test_claim_to_a_later_token_removes_earlier_fencing_files(tmp_path: Path) -> None:
    (tmp_path / "of somebody else").touch()
    for token in (0, 1, 9, 10):
        assert claims_in(tmp_path).make(token, LONG_AGO)
    assert names(tmp_path) == ["10.0", "of somebody else"]
    assert claims_in(tmp_path).make(4, LONG_AGO)  # one that has read long ago takes nothing from those who have read since
    assert names(tmp_path) == ["10.0", "4.0", "of somebody else"]


def test_claim_that_is_given_up_can_be_taken_at_once(tmp_path: Path) -> None:
    first, second = claims_in(tmp_path / "new"), claims_in(tmp_path / "new")
    first.give_up()
    assert first.make(1, LONG_AGO)
    assert not second.make(1, LONG_AGO)
    second.give_up()  # has none
    assert not second.make(1, LONG_AGO)
    first.give_up()
    assert second.make(1, LONG_AGO)


@pytest.mark.parametrize(
    ("error", "expected"),
    [(PySparkAttributeError("there is no JVM over Spark Connect"), 0), (PySparkException("501: A header is not implemented"), 1)],
)
def test_without_fencing_files_the_log_alone_decides(
    error: Exception, expected: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The message says who can mend it: over Spark Connect nobody can."""

    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(claims_module, "stored_names", refuse)
    claims = FencingFiles(None, "s3a://bucket/w/_lease/_claims")
    assert claims.make(1, LONG_AGO)
    claims.give_up()
    assert len(caplog.messages) == expected
    assert all("501" in message for message in caplog.messages)


def test_a_folder_that_cannot_be_read_grants_every_claim(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert claims_in(tmp_path / "file").make(1, LONG_AGO)
