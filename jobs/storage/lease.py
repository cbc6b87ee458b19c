"""One writer at a time where file locks do not work: object stores, catalogs, shared file systems.

A Delta table with one row names the holder of the warehouse. Runs change it only with a conditional UPDATE, in which only one of two runs
succeeds; an appended row would exclude nobody. On some stores, such as S3 or NFS, two Delta commits can both succeed as the same version.
So a run first creates a fencing file, which only one process can create. The holder renews the lease while it runs, so that the lease of
a dead run ends by itself. The clocks of the machines have to agree within minutes.
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

from jobs.runtime.errors import LeaseLostError, NotAWarehouseError, WarehouseBusyError, explain
from jobs.runtime.file_lock import Holder
from jobs.runtime.jvm import use_own_scheduler_pool
from jobs.runtime.locations import LEASE, address, is_path
from jobs.storage.catalog_tables import make_table
from jobs.storage.lease_claims import FencingFiles
from jobs.storage.sql_literals import literal

logger = logging.getLogger(__name__)

CLAIMS = "_claims"
HEARTBEAT_SECONDS = 60.0
EXPIRY = timedelta(minutes=10)
POLL_SECONDS = 5.0
CREATE_TRIES = 20
CREATE_WAIT_SECONDS = 0.5
TAKING_SECONDS = 60.0
"""How long to wait for another run that is taking a free lease, which takes it seconds."""
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
        nonce: distinguishes this run from another of the same name.
    """

    def __init__(self, spark: SparkSession, location: str, holder: Holder, now: Callable[[], datetime]) -> None:
        self.spark = spark
        self.location = location
        self.table = lease_table(location)
        self.nonce = uuid.uuid4().hex
        self._holder = holder
        self._now = now
        self._claims = FencingFiles(spark, f"{location}/{LEASE}/{CLAIMS}") if is_path(location) else None
        self._lost: str | None = None
        self._renewed_at = now()
        self._ended = threading.Event()
        self._renewing = threading.Lock()
        self._heart = threading.Thread(target=self._heartbeat_loop, name="evenkeel-lease", daemon=True)

    def acquire(self, wait_seconds: float) -> None:
        """Take the lease and keep renewing it.

        Raises:
            WarehouseBusyError: another run still has it after ``wait_seconds``.
            NotAWarehouseError: it cannot be made, for example because the schema does not exist.
        """
        waited = 0.0
        while not (self._ensure_made() and self._take()):
            row = self._lease_row()
            limit = max(wait_seconds, TAKING_SECONDS) if row is None else wait_seconds
            if waited >= limit:
                raise _busy(self.location, row, self._now())
            pause = min(CREATE_WAIT_SECONDS if row is None else POLL_SECONDS, limit - waited)
            time.sleep(pause)
            waited += pause
        self._heart.start()

    def check(self) -> None:
        """Check that this run still has the lease, and renew it.

        Raises:
            LeaseLostError: another run has taken it, since this one failed to renew it in time.
        """
        if self._lost is None:
            self._renew()
        self._refuse_if_lost()

    @contextmanager
    def committing(self) -> Iterator[None]:
        """Refuse the block if the lease is lost; reads nothing while the heartbeat works, so that it is cheap before every commit.

        A suspended machine may resume before its next heartbeat, when another run already has the lease.

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
        """Give the lease back; a lease that another run has by now is not changed."""
        self._ended.set()
        if self._heart.is_alive():
            self._heart.join()
        try:
            self._update("nonce = NULL", f"nonce = {literal(self.nonce)}")
        except Exception as error:  # the result of the block is more important, and the lease ends by itself
            logger.warning("the lease could not be given back and will expire: %s", explain(error))

    def _ensure_made(self) -> bool:
        """Return whether the lease's table exists; makes it if it is missing; False while another run is making it."""
        for tries_left in reversed(range(CREATE_TRIES)):
            if self._row() is not None:
                return True
            if not self._claim(0):
                return False
            try:
                self._make()
                return True
            except Exception as error:  # in a catalog another run may be making it at this moment
                self._give_up()
                if not tries_left:
                    raise NotAWarehouseError(f"warehouse {self.location}: cannot be opened: {explain(error)}") from error
                time.sleep(CREATE_WAIT_SECONDS)
        return False

    def _make(self) -> None:
        if is_path(self.location):  # CREATE TABLE would accept the log without a commit of a dead run as a table
            path = f"{address(self.location)}/{LEASE}"
            self.spark.sql(f"SELECT {_FREE}").write.format("delta").mode("ignore").save(path)
        else:
            make_table(self.spark, self.table, f"CREATE TABLE IF NOT EXISTS {self.table} USING delta AS SELECT {_FREE}")

    def _claim(self, token: int) -> bool:
        return self._claims is None or self._claims.make(token, self._now() - EXPIRY)

    def _give_up(self) -> None:
        if self._claims is not None:
            self._claims.give_up()

    def _take(self) -> bool:
        row, holder, now = self._read(), self._holder, self._now()
        token = row["token"] + 1
        if row["is_held"] or not self._claim(token):
            return False
        values = {
            "token": token,
            "nonce": self.nonce,
            "run_id": holder.run_id,
            "host": holder.host,
            "pid": holder.pid,
            "started_at": holder.started_at,
            "renewed_at": now,
        }
        assignments = ", ".join(f"{name} = {literal(value)}" for name, value in values.items())
        is_taken = False
        try:
            self._update(assignments, f"token = {row['token']} AND NOT ({_is_taken(now)})")
            after = self._read()
            is_taken = (after["nonce"], after["token"]) == (self.nonce, token)
        finally:
            if not is_taken:
                self._give_up()
        if is_taken:
            self._renewed_at = now
        return is_taken

    def _heartbeat_loop(self) -> None:
        use_own_scheduler_pool(self.spark)
        pause = HEARTBEAT_SECONDS
        while not self._ended.wait(pause):
            began_at = self._now()
            self._renew()
            if self._lost is not None:
                logger.error("%s", self._lost)
                return
            # A renewal that had to wait has written the time of its start, which may be long ago.
            pause = max(0.0, HEARTBEAT_SECONDS - (self._now() - began_at).total_seconds())

    def _renew(self) -> None:
        with self._renewing:
            now = self._now()
            has_ended = now - self._renewed_at > EXPIRY
            try:
                if has_ended:  # another run may be taking it now
                    is_ours = self._take()
                else:
                    self._update(f"renewed_at = {literal(now)}", f"nonce = {literal(self.nonce)}")
                    is_ours = self._read()["nonce"] == self.nonce
                if is_ours:
                    self._renewed_at = now
                    return
                row = self._read()
            except Exception as error:  # the store may not answer for a moment; only an expired lease counts
                logger.warning("the lease could not be renewed: %s", explain(error))
                if has_ended:
                    self._lost = f"the lease could not be renewed for {(now - self._renewed_at).total_seconds():.0f} s"
                return
            if row["nonce"] == self.nonce:
                self._lost = "the lease had ended, and another run is taking it"
            else:
                self._lost = f"run {row['run_id']} on {row['host']} has taken the lease"

    def _update(self, assignments: str, condition: str) -> None:
        try:
            self.spark.sql(f"UPDATE {self.table} SET {assignments} WHERE {condition}")
        except Exception as error:  # the class of Delta's conflicts differs between Py4J and Connect
            if "Concurrent" not in str(error):
                raise
            logger.debug("another run changed the lease at the same moment: %s", error)

    def _read(self) -> Row:
        return self.spark.table(self.table).selectExpr("*", f"{_is_taken(self._now())} AS is_held").collect()[0]

    def _row(self) -> Row | None:
        """Return the row; None if it cannot be read, for example because there is no table yet."""
        try:
            return self._read()
        except Exception as error:  # the class differs between classic Spark, Connect and file systems
            logger.debug("no lease at %s: %s", self.location, error)
            return None

    def _lease_row(self) -> Row | None:
        """Return the row of the run that holds the lease, None if no run does."""
        row = self._row()
        return row if row is not None and row["is_held"] else None


def _is_taken(now: datetime) -> str:
    return f"nonce IS NOT NULL AND renewed_at >= {literal(now - EXPIRY)}"


def wait_until_free(spark: SparkSession, location: str, wait_seconds: float, now: Callable[[], datetime]) -> None:
    """Wait until no run holds the lease of a warehouse; changes nothing.

    Raises:
        WarehouseBusyError: a run still holds it after ``wait_seconds``.
    """
    waited = 0.0
    while True:
        try:
            rows = spark.table(lease_table(location)).where(_is_taken(now())).collect()
        except Exception as error:  # the class differs between classic Spark, Connect and file systems
            logger.debug("no lease at %s: %s", location, error)
            return
        if not rows:
            return
        if waited >= wait_seconds:
            raise _busy(location, rows[0], now())
        time.sleep(min(POLL_SECONDS, wait_seconds - waited))
        waited += POLL_SECONDS


def _busy(location: str, row: Row | None, now: datetime) -> WarehouseBusyError:
    minutes = EXPIRY.seconds // 60
    if row is None:
        return WarehouseBusyError(
            f"warehouse {location}: another run has tried to take it for {TAKING_SECONDS:.0f} s, and may have died; wait for it with "
            f"--wait SECONDS. The fencing file of a dead run expires after {minutes} minutes"
        )
    holder = Holder(row["run_id"], row["host"], row["pid"], row["started_at"] or now.isoformat())
    return WarehouseBusyError(
        f"warehouse {location} is held by {holder.described(now)}; wait for it with --wait SECONDS. The lease of a dead run ends "
        f"{minutes} minutes after its last renewal"
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
