"""A table's Delta log on a local folder, read without Spark, so that one which Spark cannot open is told in full.

Every commit is parsed and replayed; checkpoints and version checksums are compared with what the commits add up to.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from jobs.verification.damage import Code, Damage
from jobs.verification.sidecars import checksum_problem
from jobs.verification.versions import standing
from jobs.warehouse import SIGNATURE

_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")
_VERSION_CHECKSUM = re.compile(r"(\d{20})\.crc")
_POINTER = "_last_checkpoint"
_ACTIONS: dict[str, set[str]] = {
    "commitInfo": set(),
    "metaData": {"schemaString", "partitionColumns", "configuration"},
    "protocol": {"minReaderVersion"},
    "add": {"path", "size"},
    "remove": {"path"},
    "txn": set(),
    "cdc": set(),
    "domainMetadata": set(),
}
"""The actions of a commit by name, each with the fields that are read here."""


Action = dict[str, Any]


@dataclass
class TableState:
    """What the log says a table is at one version.

    Attributes:
        files: path in the log -> its ``add`` action.
        is_complete: every action up to the version could be read.
    """

    files: dict[str, Action] = field(default_factory=dict)
    metadata: Action | None = None
    protocol: Action | None = None
    is_complete: bool = True

    def apply(self, actions: list[Action]) -> None:
        """Take one commit or checkpoint into account."""
        for action in actions:
            if action.get("add"):
                self.files[action["add"]["path"]] = action["add"]
            elif action.get("remove"):
                self.files.pop(action["remove"]["path"], None)
            elif action.get("metaData"):
                self.metadata = action["metaData"]
            elif action.get("protocol"):
                self.protocol = action["protocol"]

    def copy(self) -> TableState:
        """Return the state as it is now."""
        return TableState(dict(self.files), self.metadata, self.protocol, self.is_complete)


@dataclass
class TableLog:
    """What one pass over a log found.

    Attributes:
        newest: newest version that has a commit, -1 without any.
        states: the newest version's state, and those of the versions asked for.
    """

    newest: int = -1
    states: dict[int, TableState] = field(default_factory=dict)
    commit_count: int = 0
    checkpoint_count: int = 0
    damages: list[Damage] = field(default_factory=list)


def read_log(table: str, folder: Path, wanted: int | None = None) -> TableLog:
    """Return the log of a table with everything that is wrong in it.

    Args:
        folder: the table's.
        wanted: the published version, whose state is kept besides the newest one's.
    """
    return _LogReader(table, folder / "_delta_log").read(wanted)


class _LogReader:
    def __init__(self, table: str, folder: Path) -> None:
        self.table = table
        self.folder = folder
        self.log = TableLog()
        self.foreign: dict[int, str] = {}
        self.restores: list[tuple[int, int]] = []

    def read(self, wanted: int | None) -> TableLog:
        names = {entry.name for entry in self.folder.iterdir()} if self.folder.is_dir() else set()
        commits = {int(match[1]): name for name in names if (match := _COMMIT.fullmatch(name))}
        checksums = {int(match[1]): name for name in names if (match := _VERSION_CHECKSUM.fullmatch(name))}
        checkpoints = self._checkpoints(names)
        if not commits:
            self._tell(Code.MISSING_TABLE, None, "", "no commit in _delta_log", "a Delta table")
            return self.log
        log, first = self.log, min(commits)
        log.newest, log.commit_count, log.checkpoint_count = max(commits), len(commits), len(checkpoints)
        # Delta deletes commits that are old and stand in a checkpoint: then the log begins with that.
        bases = [version for version, actions in checkpoints.items() if actions is not None and version >= first - 1]
        if first > 0 and not bases:
            self._tell_missing(0, first - 1, "no checkpoint stands for it")
        state = TableState(is_complete=first == 0)
        for version in range(min(first, *checkpoints, first), max(log.newest, *checksums, *checkpoints, 0) + 1):
            actions = self._commit(version, commits[version]) if version in commits else None
            if actions is None and version > first and version not in commits:
                self._tell_missing(version, version, "other files of this version or a later one are there")
            state.apply(actions or [])
            state.is_complete &= actions is not None
            if checkpoints.get(version) is not None:
                state = self._after_checkpoint(version, state, checkpoints[version])
            if version in checksums and version in commits:
                self._check_version(version, state, checksums[version])
            if version in (wanted, log.newest):
                log.states[version] = state.copy()
        for version in standing(self.foreign, self.restores):
            expected = f"{SIGNATURE.strip()!r} and a run's name"
            self._tell(Code.FOREIGN_COMMIT, version, f"{version:020}.json", self.foreign[version], expected)
        self._check_pointer(names, checkpoints)
        return log

    def _tell(self, code: Code, version: int | None, name: str, found: str, expected: str) -> None:
        place = f"_delta_log/{name}" if name else ""
        self.log.damages.append(Damage(code, self.table, version, place, found, expected))

    def _tell_missing(self, first: int, last: int, why: str) -> None:
        found = "no such file" if first == last else f"none of the commits {first} to {last}"
        self._tell(Code.MISSING_COMMIT, first, f"{first:020}.json", found, f"a commit: {why}")

    # -- commits

    def _commit(self, version: int, name: str) -> list[Action] | None:
        """Return the actions of a commit, None when they cannot be told."""
        path = self.folder / name
        content = path.read_bytes()
        if not content.strip():
            self._tell(Code.EMPTY_COMMIT, version, name, f"{len(content)} bytes and no action", "the actions of a commit")
            return None
        try:
            actions = list(_parsed(content))
        except ValueError as error:
            self._tell(Code.TORN_COMMIT, version, name, str(error), "one JSON action a line")
            return None
        problem = checksum_problem(path)
        if problem is not None:
            self._tell(Code.CHANGED_COMMIT, version, name, problem, "the file as it was written")
            return None
        self._note_writer(version, actions)
        return actions

    def _note_writer(self, version: int, actions: list[Action]) -> None:
        info = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
        if not str(info.get("userMetadata")).startswith(SIGNATURE):
            writer = info.get("engineInfo") or info.get("clientVersion") or "an unnamed writer"
            self.foreign[version] = f"{info.get('operation', 'a commit')} by {writer}, not signed by a run"
        elif info.get("operation") == "RESTORE":
            self.restores.append((version, int(info["operationParameters"].get("version") or 0)))

    def _check_version(self, version: int, state: TableState, name: str) -> None:
        """Compare the state with what Delta noted about it when it committed: catches what was cut off between two lines."""
        path = self.folder / name
        expected = "the number and size of files that the commits add up to"
        try:
            noted = json.loads(path.read_text(encoding="utf-8"))
            told = int(noted["numFiles"]), int(noted["tableSizeBytes"])
        except (ValueError, KeyError, TypeError) as error:
            self._tell(Code.DAMAGED_VERSION_CHECKSUM, version, name, f"no checksum ({error})", expected)
            return
        problem = checksum_problem(path)
        if problem is not None:
            self._tell(Code.DAMAGED_VERSION_CHECKSUM, version, name, problem, "the file as it was written")
        elif state.is_complete:
            counted = len(state.files), sum(int(file["size"]) for file in state.files.values())
            if counted != told:
                found = f"{counted[0]} files of {counted[1]} bytes in the commits"
                self._tell(Code.CHANGED_COMMIT, version, f"{version:020}.json", found, f"{told[0]} of {told[1]} bytes, as {name} noted")
                state.is_complete = False

    # -- checkpoints

    def _checkpoints(self, names: set[str]) -> dict[int, list[Action] | None]:
        """Return the actions of each checkpoint by version; None for one that cannot be read."""
        parts: dict[int, list[tuple[str, int]]] = {}
        for name in sorted(names):
            if match := _CHECKPOINT.fullmatch(name):
                parts.setdefault(int(match[1]), []).append((name, int(match[3] or 1)))
        return {version: self._checkpoint(version, files) for version, files in parts.items()}

    def _checkpoint(self, version: int, parts: list[tuple[str, int]]) -> list[Action] | None:
        actions: list[Action] = []
        expected_parts = parts[0][1]
        if len(parts) != expected_parts:
            self._tell(Code.DAMAGED_CHECKPOINT, version, parts[0][0], f"{len(parts)} parts", f"{expected_parts}")
            return None
        for name, _ in parts:
            path = self.folder / name
            try:
                problem = checksum_problem(path)
                actions += [] if problem else _checkpoint_actions(path)
            except (pa.ArrowException, OSError) as error:
                problem = f"no readable Parquet ({first_line(error)})"
            if problem is not None:
                self._tell(Code.DAMAGED_CHECKPOINT, version, name, problem, "the table's state")
                return None
        return actions

    def _after_checkpoint(self, version: int, state: TableState, actions: list[Action]) -> TableState:
        """Return the checkpoint's state, compared with that of the commits where these could all be read."""
        stored = TableState()
        stored.apply(actions)
        missing = [part for part in ("metadata", "protocol") if getattr(stored, part) is None]
        problem = f"no {missing[0]}" if missing else None
        if problem is None and state.is_complete and stored.files.keys() != state.files.keys():
            problem = f"{len(stored.files)} files, other than the {len(state.files)} that the commits add up to"
        if problem is None:
            return stored
        self._tell(Code.DAMAGED_CHECKPOINT, version, f"{version:020}.checkpoint.parquet", problem, "the table's state")
        return state

    def _check_pointer(self, names: set[str], checkpoints: dict[int, list[Action] | None]) -> None:
        if _POINTER not in names:
            return
        path = self.folder / _POINTER
        try:
            version = int(json.loads(path.read_text(encoding="utf-8"))["version"])
        except (ValueError, KeyError, TypeError) as error:
            self._tell(Code.DAMAGED_CHECKPOINT, None, _POINTER, f"no pointer ({error})", "the version of the newest checkpoint")
            return
        problem = checksum_problem(path)
        if problem is not None:
            self._tell(Code.DAMAGED_CHECKPOINT, version, _POINTER, problem, "the file as it was written")
        elif version not in checkpoints:
            self._tell(Code.DAMAGED_CHECKPOINT, version, _POINTER, f"a pointer to version {version}", "a version that has a checkpoint")


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def _parsed(content: bytes) -> Iterator[Action]:
    """Yield the actions of a commit.

    Raises:
        ValueError: saying which line is none.
    """
    for number, line in enumerate(content.splitlines(), start=1):
        try:
            action = json.loads(line)
        except ValueError:
            raise ValueError(f"line {number} is no JSON") from None
        if not _is_action(action):
            raise ValueError(f"line {number} is no action of a Delta log")
        yield action


def _is_action(action: object) -> bool:
    if not isinstance(action, dict) or len(action) != 1:
        return False
    ((kind, content),) = action.items()
    return kind in _ACTIONS and isinstance(content, dict) and _ACTIONS[kind] <= content.keys()


def _checkpoint_actions(path: Path) -> list[Action]:
    file = pq.ParquetFile(path, page_checksum_verification=True)
    columns = [name for name in ("add", "remove", "metaData", "protocol") if name in file.schema_arrow.names]
    return file.read(columns).to_pylist()
