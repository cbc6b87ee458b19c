"""The folder of a collection: captures that ``land`` takes, and the positions up to which they were read.

A file gets its name when it is complete and on the disk. Until then its name begins with a dot, and landing passes over it. The positions
are replaced after the file has its name. If collect dies in between, the next one reads some records again: landing counts these as
duplicates, and no record is lost.
"""

from __future__ import annotations

import errno
import gzip
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from pydantic import ValidationError

from jobs.collect.parquet_file import RecordFile
from jobs.runtime.atomic_file import remove_unfinished, write_file
from jobs.runtime.errors import CaptureFolderError, WarehouseBusyError
from jobs.runtime.file_lock import exclusive, read_holder, this_process
from jobs.runtime.locations import masked, table_around
from schemas.positions import POLLED, POSITIONS, PolledGroups, Positions

LOCK = ".evenkeel.collect.lock"
FILE_ROWS, FILE_BYTES = 1_000_000, 512 << 20
"""A file ends at one of these at the latest; bytes are counted in memory."""

Progress = TypeVar("Progress")


class CaptureFolder:
    """A folder that this process alone writes to.

    Attributes:
        path: the folder.
        files: names of the files published so far, without metadata snapshots.
        record_count: how many records of ``__consumer_offsets`` are in them.
    """

    def __init__(self, path: Path, now: Callable[[], datetime]) -> None:
        """Use a folder that exists; ``open_folder`` makes and locks it."""
        self.path = path
        self.files: list[str] = []
        self.record_count = 0
        self._now = now
        self._open: RecordFile | None = None

    @property
    def open_row_count(self) -> int:
        """Return how many records are not in a published file yet."""
        return 0 if self._open is None else self._open.row_count

    @property
    def is_full(self) -> bool:
        """Return whether the open file has to be published before it grows further."""
        return self._open is not None and (self._open.row_count >= FILE_ROWS or self._open.byte_count >= FILE_BYTES)

    def positions(self) -> Positions | None:
        """Return up to where the folder has records; None when nothing was collected into it yet.

        Raises:
            CaptureFolderError: the file of positions is unreadable.
        """
        return self._progress(POSITIONS, Positions.model_validate_json)

    def polled(self) -> PolledGroups | None:
        """Return the state of the groups after the polls in the folder; None when there are no polls.

        Raises:
            CaptureFolderError: the file with this state is unreadable.
        """
        return self._progress(POLLED, lambda content: PolledGroups.model_validate_json(gzip.decompress(content)))

    def _progress(self, name: str, parse: Callable[[bytes], Progress]) -> Progress | None:
        path = self.path / name
        try:
            return parse(path.read_bytes())
        except FileNotFoundError:
            return None
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            what = f"is not a whole gzip file ({error})"
        except OSError as error:
            raise _failed(self.path, error) from None
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            what = f"{f'{where}: ' if where else ''}{first['msg']}"
        raise CaptureFolderError(
            f"{masked(str(path))}: {what}; expected what collect wrote there; restore the file, or name another folder: without the file "
            "collect begins again, and reads twice what this folder has"
        )

    def add(self, records: pa.RecordBatch) -> None:
        """Add records to the open file.

        Raises:
            CaptureFolderError: the disk is full, or gone.
        """
        with self._discard_on_error():
            if self._open is None:
                self._open = RecordFile(self.path, records.schema)
            self._open.add(records)

    def publish(self, positions: Positions) -> None:
        """Give the open file its name, if it has records, and then store the positions after them.

        Raises:
            CaptureFolderError: the disk is full, or gone; the stored positions are then those of the files that have their names.
        """
        with self._discard_on_error():
            if self._open is not None:
                path = self._new("consumer_offsets", ".parquet")
                self._open.publish(path)
                self.files.append(path.name)
                self.record_count += self._open.row_count
                self._open = None
            write_file(self.path / POSITIONS, [positions.model_dump_json(indent=1).encode()])

    def publish_groups(self, lines: list[bytes], polled: PolledGroups) -> None:
        """Write the changes that polls found, if any, and then store the state of the groups.

        Raises:
            CaptureFolderError: the disk is full, or gone; the stored state is then that of the files that have their names.
        """
        with self._discard_on_error():
            if lines:
                path = self._new("group_snapshots", ".jsonl.gz")
                write_file(path, [gzip.compress(b"".join(line + b"\n" for line in lines), mtime=0)])
                self.files.append(path.name)
            write_file(self.path / POLLED, [gzip.compress(polled.model_dump_json().encode(), mtime=0)])

    def publish_look(self, look: dict[str, Any]) -> None:
        """Write one metadata snapshot.

        Raises:
            CaptureFolderError: the disk is full, or gone.
        """
        content = gzip.compress(json.dumps(look).encode() + b"\n", mtime=0)
        with self._discard_on_error():
            write_file(self._new("cluster_metadata", ".jsonl.gz"), [content])

    def discard(self) -> None:
        """Remove files without a name, also those that a killed process left."""
        if self._open is not None:
            self._open.abandon()
            self._open = None
        remove_unfinished(self.path)

    def _new(self, kind: str, suffix: str) -> Path:
        """Return a path named after the time, which does not exist yet."""
        stem = f"{kind}-{self._now():%Y%m%dT%H%M%S.%fZ}"
        paths = (self.path / f"{stem}{again}{suffix}" for again in ("", *(f"-{number}" for number in range(2, 1000))))
        return next(path for path in paths if not path.exists())  # a clock may be set back

    @contextmanager
    def _discard_on_error(self) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            with suppress(OSError):
                self.discard()  # half a file is of no use
            raise _failed(self.path, error) from None


@contextmanager
def open_folder(path: Path, now: Callable[[], datetime]) -> Iterator[CaptureFolder]:
    """Make the folder if it does not exist, and lock it against other collections during the block; a new one that stays empty is removed.

    Raises:
        CaptureFolderError: it cannot be written, is in a table, or another collection writes to it.
    """
    table = table_around(path.resolve())
    if table is not None:
        raise CaptureFolderError(
            f"--output {masked(str(path))}: found the Delta table {masked(str(table))}, expected a folder for captures; name another folder"
        )
    folder = CaptureFolder(path.absolute(), now)
    new = [parent for parent in (folder.path, *folder.path.parents) if not parent.exists()]
    try:
        with _locked(folder, path, now):
            yield folder
    finally:
        if new:
            _remove_empty(folder.path, new)


def _remove_empty(folder: Path, new: Sequence[Path]) -> None:
    """Remove folders that a collection has made and that have nothing but its lock, the innermost first."""
    with suppress(OSError):
        if [entry.name for entry in folder.iterdir()] == [LOCK]:
            (folder / LOCK).unlink()
            for path in new:
                path.rmdir()


@contextmanager
def _locked(folder: CaptureFolder, path: Path, now: Callable[[], datetime]) -> Iterator[None]:
    """Make the folder, which messages call ``path``, and lock it during the block.

    Raises:
        CaptureFolderError: it cannot be written, or another collection writes to it.
    """
    with ExitStack() as stack:
        try:
            folder.path.mkdir(parents=True, exist_ok=True)
            (folder.path / LOCK).touch()
            stack.enter_context(exclusive(folder.path, LOCK, this_process("collect", now()), 0.0, now))
            folder.discard()
        except WarehouseBusyError:
            holder = read_holder(folder.path / LOCK)
            who = "another process" if holder is None else holder.described(now())
            raise CaptureFolderError(
                f"--output {masked(str(path))}: {who} collects into this folder; wait for its end, or name another folder"
            ) from None
        except OSError as error:
            raise _failed(folder.path, error) from None
        try:
            yield
        finally:
            folder.discard()


def _failed(folder: Path, error: Exception) -> CaptureFolderError:
    number = getattr(error, "errno", None)
    if number in (errno.ENOSPC, errno.EDQUOT):
        remedy = "free some space and call again: saved files stay, and reading continues after them"
        return CaptureFolderError(f"--output {masked(str(folder))}: no space left on the disk; {remedy}")
    return CaptureFolderError(
        f"--output {masked(str(folder))}: cannot be written ({getattr(error, 'strerror', None) or error}); name another folder"
    )
