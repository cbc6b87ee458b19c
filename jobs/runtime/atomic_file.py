"""Whole files: after each write, crash or power cut a file has its old content or its new one, never a part or a mixture of two.

New content is written to a file with a random name in the folder of its target, synced to the disk, and renamed. The file is made with
O_EXCL, so that no existing link of that name is followed. Each write has its own file, so that two processes can write the same target:
one of them wins.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

UNFINISHED = ".evenkeel-unfinished-"
"""Beginning of the names of unfinished files; landing skips files whose name begins with a dot."""


class UnfinishedFile:
    """A file that is being written and does not have its final name yet.

    Its writer locks it until it has its name. A file that nobody locks was left by a killed process.

    Attributes:
        file: receives the content.
        path: its present path.
    """

    def __init__(self, folder: Path) -> None:
        """Make an empty file in a folder.

        Raises:
            OSError: the folder is missing or cannot be written.
        """
        while True:
            self.path = folder / f"{UNFINISHED}{secrets.token_hex(8)}"
            # Not mkstemp: its files have mode 0600, and a process can read the umask only by changing it.
            self.file: BinaryIO = self.path.open("xb")
            with suppress(OSError):  # a file system without locks: then no process gets one, and none removes the file
                fcntl.flock(self.file, fcntl.LOCK_EX)
            if os.fstat(self.file.fileno()).st_nlink:
                return
            self.file.close()  # removed before it was locked

    def publish(self, target: Path) -> None:
        """Sync the content to the disk and rename the file to the target; an existing file or link of that name is replaced.

        Raises:
            OSError: it cannot be written or renamed.
        """
        self.file.flush()
        os.fsync(self.file.fileno())
        os.replace(self.path, target)
        self.file.close()
        _sync_names(target.parent)

    def discard(self) -> None:
        """Remove the file, unless it is published."""
        with suppress(OSError):  # closing may write the rest of the buffer, and fail again
            self.file.close()
        self.path.unlink(missing_ok=True)


def write_file(path: Path, parts: Iterable[bytes | memoryview]) -> None:
    """Replace the content of a file by the parts in order; if a part or a write fails, the file is unchanged.

    Raises:
        OSError: it cannot be written.
    """
    unfinished = UnfinishedFile(path.parent)
    try:
        unfinished.file.writelines(parts)
        unfinished.publish(path)
    except BaseException:
        unfinished.discard()
        raise


def remove_unfinished(folder: Path) -> None:
    """Remove the unfinished files that killed processes of this user left in a folder; those that are being written stay."""
    for path in folder.glob(f"{UNFINISHED}*"):
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                about = os.fstat(descriptor)
                if stat.S_ISREG(about.st_mode) and about.st_uid == os.geteuid():
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    path.unlink()
            finally:
                os.close(descriptor)


def _sync_names(folder: Path) -> None:
    """Sync the names in a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems cannot, but they do not cache names either
            raise
    finally:
        os.close(descriptor)
