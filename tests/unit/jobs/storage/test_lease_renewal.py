"""Renewal of a lease without Spark: what the store answers must not end the heartbeat."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, NoReturn, cast

import pytest

from jobs.runtime.errors import LeaseLostError
from jobs.runtime.file_lock import Holder
from jobs.storage.lease import EXPIRY, Lease

START = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)


class SilentStore:
    """A session whose every statement fails without a word."""

    def sql(self, statement: str) -> NoReturn:
        raise TimeoutError


def test_store_that_fails_without_a_word_ends_the_lease_only_in_time(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    at = [START]
    lease = Lease(cast(Any, SilentStore()), str(tmp_path), Holder("r", "host-1", 17, START.isoformat()), lambda: at[0])
    lease.check()
    assert caplog.messages == ["the lease could not be renewed: TimeoutError"]
    at[0] += EXPIRY + timedelta(seconds=1)
    with pytest.raises(LeaseLostError, match="the lease could not be renewed for 601 s"):
        lease.check()
