"""The file of records that a collection writes: Parquet. A thread encodes each row group while the next records are read."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from jobs.runtime.atomic_file import UnfinishedFile

ROW_GROUP_BYTES = 64 << 20
"""Size of the records in memory; as much again may wait for the thread."""


class RecordFile:
    """A file that is being written.

    Attributes:
        row_count: records in it.
        byte_count: their bytes in memory.
    """

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        """Begin a file of records with these columns in a folder; it is on the disk only after the first row group is full."""
        self._folder = folder
        self.row_count = self.byte_count = 0
        self._schema = schema
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self._file: UnfinishedFile | None = None
        self._writer: pq.ParquetWriter | None = None
        self._thread = ThreadPoolExecutor(1)
        self._written: Future[None] | None = None

    def add(self, records: pa.RecordBatch) -> None:
        """Add records.

        Raises:
            OSError, pa.ArrowException: earlier records could not be written.
        """
        self._waiting.append(records)
        self.row_count += records.num_rows
        self.byte_count += records.nbytes
        self._waiting_bytes += records.nbytes
        if self._waiting_bytes >= ROW_GROUP_BYTES:
            self._write_waiting()

    def publish(self, path: Path) -> None:
        """Write the whole file to the disk and give it its name.

        Raises:
            OSError, pa.ArrowException: it cannot be written.
        """
        if self._waiting:
            self._write_waiting()
        self._finish()
        assert self._writer is not None and self._file is not None, "a file without records"
        self._writer.close()
        self._thread.shutdown()
        self._file.publish(path)

    def abandon(self) -> None:
        """Remove the file, if a part of it exists."""
        with suppress(OSError, pa.ArrowException):
            self._finish()
        self._thread.shutdown()
        if self._writer is not None:
            with suppress(OSError, pa.ArrowException):
                self._writer.close()
        if self._file is not None:
            self._file.discard()

    def _write_waiting(self) -> None:
        self._finish()
        self._written = self._thread.submit(self._write, pa.Table.from_batches(self._waiting, self._schema))
        self._waiting, self._waiting_bytes = [], 0

    def _finish(self) -> None:
        """Wait until the thread has written its row group."""
        written, self._written = self._written, None
        if written is not None:
            written.result()

    def _write(self, records: pa.Table) -> None:
        if self._file is None:
            self._file = UnfinishedFile(self._folder)
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._file.file, self._schema, compression="zstd")
        self._writer.write_table(records, row_group_size=records.num_rows)
