"""One writer at a time where file locks do not reach: object stores, catalogs, shared file systems.

A Delta table of one row, made once, says who holds the warehouse. It is changed only by a conditional UPDATE, which Delta lets one of
two contenders do; an appended row would exclude nobody. The holder renews it while it runs, so that the lease of a dead run ends by
itself; machines have to agree on the time within minutes.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from pyspark.sql import Row, SparkSession

from jobs.errors import LeaseLostError, NotAWarehouseError, WarehouseBusyError, explain
from jobs.location import address, is_path
from jobs.lock import Holder
from jobs.session import hurry
from jobs.sql_text import literal

logger = logging.getLogger(__name__)

LEASE = "_lease"
HEARTBEAT_SECONDS = 60.0
EXPIRY = timedelta(minutes=10)
POLL_SECONDS = 5.0
CREATE_TRIES = 20
CREATE_WAIT_SECONDS = 0.5
_FREE = (
    "CAST(NULL AS STRING) AS nonce, 0L AS token, '' AS run_id, '' AS host, 0 AS pid, '' AS started_at, TIMESTAMP '1970-01-01' AS renewed_at"
)


def lease_table(location: str) -> str:
    """Return the SQL name of a warehouse's lease."""
    return f"delta.`{address(location)}/{LEASE}`" if is_path(location) else f"{location}.evenkeel_lease"


class Lease:
    """The lease of one warehouse, as one run sees it.

    Attributes:
        table: SQL name of the lease's table.
        nonce: tells this run from another of the same name.
    """

    def __init__(self, spark: SparkSession, location: str, holder: Holder, now: Callable[[], datetime]) -> None:
        self.spark = spark
        self.location = location
        self.table = lease_table(location)
        self.nonce = uuid.uuid4().hex
        self._holder = holder
        self._now = now
        self._lost: str | None = None
        self._renewed_at = now()
        self._ended = threading.Event()
        self._heart = threading.Thread(target=self._beat, name="evenkeel-lease", daemon=True)

    def acquire(self, wait_seconds: float) -> None:
        """Take the lease and keep renewing it.

        Raises:
            WarehouseBusyError: somebody else has it and still does after ``wait_seconds``.
            NotAWarehouseError: there is no place for it, such as a schema that does not exist.
        """
        self._create()
        waited = 0.0
        while not self._take():
            if waited >= wait_seconds:
                raise _busy(self.location, self._read(), self._now())
            time.sleep(min(POLL_SECONDS, wait_seconds - waited))
            waited += POLL_SECONDS
        self._heart.start()

    def check(self) -> None:
        """Make sure that the lease is still ours: renew it.

        Raises:
            LeaseLostError: another run has taken it since this one failed to renew it in time.
        """
        if self._lost is None:
            self._renew()
        self._refuse_if_lost()

    @contextmanager
    def committing(self) -> Iterator[None]:
        """Refuse the block when the lease is lost; asks nobody while the heart beats, so that it can stand before every commit.

        A machine that was suspended may be back before its heart beats again, and the lease be another's by then.

        Raises:
            LeaseLostError: see ``check``.
        """
        if self._now() - self._renewed_at > EXPIRY / 2:
            self.check()
        self._refuse_if_lost()
        yield

    def _refuse_if_lost(self) -> None:
        if self._lost is not None:
            raise LeaseLostError(f"warehouse {self.location}: {self._lost}; nothing was published, run again")

    def release(self) -> None:
        """Give the lease back; one that is not ours any more stays as it is."""
        self._ended.set()
        if self._heart.is_alive():
            self._heart.join()
        try:
            self._update("nonce = NULL", f"nonce = {literal(self.nonce)}")
        except Exception as error:  # what the block ended with counts more, and the lease ends by itself
            logger.warning("the lease could not be given back: %s", explain(error))

    def _create(self) -> None:
        for tries_left in reversed(range(CREATE_TRIES)):
            try:
                self.spark.sql(f"CREATE TABLE IF NOT EXISTS {self.table} USING delta AS SELECT {_FREE}")
                self._read()
                return
            except Exception as error:  # another run may be making it at this moment: its folder is there before its first commit
                if not tries_left:
                    raise NotAWarehouseError(
                        f"warehouse {self.location}: cannot be opened: {explain(error)}; if its lease has a log without a commit, which a "
                        f"run leaves that died while making it, remove {self.table}"
                    ) from error
                time.sleep(CREATE_WAIT_SECONDS)

    def _take(self) -> bool:
        holder, now = self._holder, self._now()
        values = {
            "nonce": self.nonce,
            "run_id": holder.run_id,
            "host": holder.host,
            "pid": holder.pid,
            "started_at": holder.started_at,
            "renewed_at": now,
        }
        assignments = ", ".join(f"{name} = {literal(value)}" for name, value in values.items())
        self._update(f"token = token + 1, {assignments}", f"nonce IS NULL OR renewed_at < {literal(now - EXPIRY)}")
        return self._read()["nonce"] == self.nonce

    def _beat(self) -> None:
        hurry(self.spark)
        pause = HEARTBEAT_SECONDS
        while not self._ended.wait(pause):
            began_at = self._now()
            self._renew()
            if self._lost is not None:
                logger.error("%s", self._lost)
                return
            # One that had to wait has written the time at which it began, which may be long ago by now.
            pause = max(0.0, HEARTBEAT_SECONDS - (self._now() - began_at).total_seconds())

    def _renew(self) -> None:
        now = self._now()
        try:
            self._update(f"renewed_at = {literal(now)}", f"nonce = {literal(self.nonce)}")
            row = self._read()
        except Exception as error:  # the store may be away for a moment; what counts is whether the lease has run out
            logger.warning("the lease could not be renewed: %s", str(error).splitlines()[0])
            if now - self._renewed_at > EXPIRY:
                self._lost = f"the lease could not be renewed for {(now - self._renewed_at).total_seconds():.0f} s"
            return
        if row["nonce"] == self.nonce:
            self._renewed_at = now
        else:
            self._lost = f"run {row['run_id']} on {row['host']} has taken the lease"

    def _update(self, assignments: str, condition: str) -> None:
        try:
            self.spark.sql(f"UPDATE {self.table} SET {assignments} WHERE {condition}")
        except Exception as error:  # Delta's conflicts come as whatever Py4J or Connect makes of them
            if "Concurrent" not in str(error):
                raise
            logger.debug("another run changed the lease at the same moment: %s", error)

    def _read(self) -> Row:
        return self.spark.table(self.table).collect()[0]


def outwait(spark: SparkSession, location: str, wait_seconds: float, now: Callable[[], datetime]) -> None:
    """Return when no run holds the lease of a warehouse; changes nothing.

    Raises:
        WarehouseBusyError: a run still does after ``wait_seconds``.
    """
    waited = 0.0
    while True:
        try:
            is_held = f"nonce IS NOT NULL AND renewed_at >= {literal(now() - EXPIRY)}"
            rows = spark.table(lease_table(location)).where(is_held).collect()
        except Exception as error:  # the class differs between classic Spark, Connect and file systems
            logger.debug("no lease at %s: %s", location, error)
            return
        if not rows:
            return
        if waited >= wait_seconds:
            raise _busy(location, rows[0], now())
        time.sleep(min(POLL_SECONDS, wait_seconds - waited))
        waited += POLL_SECONDS


def _busy(location: str, row: Row, now: datetime) -> WarehouseBusyError:
    holder = Holder(row["run_id"], row["host"], row["pid"], row["started_at"] or now.isoformat())
    return WarehouseBusyError(
        f"warehouse {location} is held by {holder.told(now)}; wait for it with --wait SECONDS. The lease of a run that died ends "
        f"{EXPIRY.seconds // 60} minutes after its last sign of life"
    )


@contextmanager
def leased(spark: SparkSession, location: str, holder: Holder, wait_seconds: float, now: Callable[[], datetime]) -> Iterator[Lease]:
    """Hold the lease of a warehouse for the length of the block; see ``Lease.acquire`` for what it raises."""
    lease = Lease(spark, location, holder, now)
    lease.acquire(wait_seconds)
    try:
        yield lease
    finally:
        lease.release()
