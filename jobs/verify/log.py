"""A table's Delta log in a local folder, read without Spark, to report all damage even if Spark cannot open it.

Every commit is parsed and replayed; checkpoints and version checksums are compared with the state after the commits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

from jobs.runtime.locations import LOG
from jobs.runtime.sidecars import checksum_problem
from jobs.storage.commit_guard import SIGNATURE
from jobs.verify.checkpoints import checkpoint_state, read_checkpoint
from jobs.verify.damage import Code, Damage, unreadable
from jobs.verify.state import Action, TableState, differences, differing_fields, is_action
from jobs.verify.versions import standing

_COMMIT = re.compile(r"(\d{20})\.json")
_TRACE_OF_COMMIT = re.compile(r"\.?(\d{20})\.(?:json|crc|json\.crc|crc\.crc)")
"""A commit, Delta's checksum of its version, and Hadoop's checksums of both: cutting a log removes all of them."""
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")
_VERSION_CHECKSUM = re.compile(r"(\d{20})\.crc")
_POINTER = "_last_checkpoint"
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


@dataclass
class TableLog:
    """The result of one pass over a log.

    Attributes:
        oldest, newest: versions of the first and the last existing commit, -1 without any.
        states: the states of the newest and of the wanted version.
        signatures: of the commits that a run has signed, by version.
        restores: for each RESTORE of a run the version it made, and the version it restored.
    """

    oldest: int = -1
    newest: int = -1
    states: dict[int, TableState] = field(default_factory=dict)
    signatures: dict[int, str] = field(default_factory=dict)
    restores: list[tuple[int, int]] = field(default_factory=list)
    commit_count: int = 0
    checkpoint_count: int = 0
    damages: list[Damage] = field(default_factory=list)


def read_log(table: str, folder: Path, wanted: int | None = None) -> TableLog:
    """Return the log of a table with all its damage.

    Args:
        folder: the table's.
        wanted: the published version, whose state is returned besides the newest one's.
    """
    reader = _LogReader(table, folder / LOG)
    try:
        reader.read(wanted)
    except Exception as error:  # on a damaged file a library may raise any error; the damage found so far is still reported
        reader.log.damages.append(unreadable(table, None, LOG, error))
    return reader.log


class _LogReader:
    def __init__(self, table: str, folder: Path) -> None:
        self.table = table
        self.folder = folder
        self.log = TableLog()
        self.foreign: dict[int, str] = {}
        self.checkpoint_names: dict[int, str] = {}

    def read(self, wanted: int | None) -> None:
        names = {entry.name for entry in self.folder.iterdir()} if self.folder.is_dir() else set()
        commits = {int(match[1]): name for name in names if (match := _COMMIT.fullmatch(name))}
        checksums = {int(match[1]): name for name in names if (match := _VERSION_CHECKSUM.fullmatch(name))}
        traces = {int(match[1]) for name in names if (match := _TRACE_OF_COMMIT.fullmatch(name))}
        checkpoints = self._checkpoints(names)
        log = self.log
        log.commit_count, log.checkpoint_count = len(commits), len(checkpoints)
        if commits:
            log.oldest, log.newest = min(commits), max(commits)
        elif not traces and not checkpoints:
            self._add(Code.MISSING_TABLE, None, "", f"no commit in {LOG}", "a Delta table")
            return
        looked_at = log.newest if wanted is None else min(wanted, log.newest)
        self._add_gaps(commits, traces, checkpoints, looked_at)
        state = TableState(is_complete=log.oldest == 0)
        versions = sorted({*commits, *checkpoints, *({wanted} if wanted is not None and wanted < log.newest else ())})
        for before, version in zip([log.oldest - 1, *versions], versions, strict=False):
            actions = self._commit(version, commits[version]) if version in commits else None
            state.apply(actions or [])
            state.is_complete &= actions is not None and version <= before + 1
            self._check_complete(version, state)
            stored = checkpoints.get(version)
            state = self._after_checkpoint(version, state, stored) if stored is not None else state
            if version in checksums and version in commits:
                self._check_version(version, state, checksums[version])
            if version in (wanted, log.newest):
                log.states[version] = state.copy()
        for version in standing(self.foreign, log.restores):
            expected = f"{SIGNATURE.strip()!r} and a run's name"
            self._add(Code.FOREIGN_COMMIT, version, f"{version:020}.json", self.foreign[version], expected)
        self._check_pointer(names, checkpoints)

    def _add(self, code: Code, version: int | None, name: str, found: str, expected: str) -> None:
        path = f"{LOG}/{name}" if name else ""
        self.log.damages.append(Damage(code, self.table, version, path, found, expected))

    def _add_missing(self, first: int, last: int, why: str) -> None:
        found = "no such file" if first == last else f"none of the commits {first} to {last}"
        self._add(Code.MISSING_COMMIT, first, f"{first:020}.json", found, f"a commit: {why}")

    def _add_gaps(self, commits: Iterable[int], traces: set[int], checkpoints: Mapping[int, TableState | None], looked_at: int) -> None:
        """Report missing commits: between others, if there are traces of them, and if no checkpoint contains them.

        Delta deletes old commits that a checkpoint contains: the log then begins with the checkpoint.

        Args:
            looked_at: the oldest version that is needed.
        """
        there = sorted(commits)
        oldest = there[0] if there else max(traces | checkpoints.keys()) + 1
        is_based = any(state is not None and oldest - 1 <= version <= looked_at for version, state in checkpoints.items())
        begin = min({0 if there and not is_based else oldest, *traces})
        if begin < oldest:
            why = "other files of these versions are there" if is_based or not there else "no checkpoint contains it"
            self._add_missing(begin, oldest - 1, why)
        last = max({*there, *traces, *checkpoints})
        for one, following in pairwise([*there, last + 1]):
            if following > one + 1:
                self._add_missing(one + 1, following - 1, "other files of this version or a later one are there")

    # -- commits

    def _commit(self, version: int, name: str) -> list[Action] | None:
        """Return the actions of a commit, None if they cannot be read."""
        path = self.folder / name
        try:
            content = path.read_bytes()
            problem = checksum_problem(path)
        except (FileNotFoundError, IsADirectoryError) as error:
            self._add(Code.MISSING_COMMIT, version, name, f"no such file ({error.strerror})", "a commit")
            return None
        except OSError as error:
            self.log.damages.append(unreadable(self.table, version, f"{LOG}/{name}", error))
            return None
        if not content.strip():
            self._add(Code.EMPTY_COMMIT, version, name, f"{len(content)} bytes and no action", "the actions of a commit")
            return None
        try:
            actions = list(_parsed(content))
        except ValueError as error:
            self._add(Code.TORN_COMMIT, version, name, str(error), "one JSON action a line")
            return None
        problem = problem or next(_misplaced(actions), None)
        if problem is not None:
            self._add(Code.CHANGED_COMMIT, version, name, problem, "the file as it was written")
            return None
        self._note_writer(version, actions)
        return actions

    def _note_writer(self, version: int, actions: list[Action]) -> None:
        info: Action = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
        signature = str(info.get("userMetadata"))
        if not signature.startswith(SIGNATURE):
            writer = info.get("engineInfo") or info.get("clientVersion") or "an unnamed writer"
            self.foreign[version] = f"{info.get('operation', 'a commit')} by {writer}, not signed by a run"
            return
        self.log.signatures[version] = signature
        parameters = info.get("operationParameters")
        if info.get("operation") == "RESTORE" and isinstance(parameters, dict) and str(parameters.get("version")).isdecimal():
            self.log.restores.append((version, int(parameters["version"])))

    def _check_complete(self, version: int, state: TableState) -> None:
        """Report a first commit without an action that every table needs: it may have been cut off between two lines."""
        lacking = state.lacks()
        if state.is_complete and lacking is not None:
            self._add(Code.CHANGED_COMMIT, version, f"{version:020}.json", f"no action {lacking}", "the metaData and protocol of the table")
            state.is_complete = False

    def _check_version(self, version: int, state: TableState, name: str) -> None:
        """Compare the state with Delta's checksum of the version: finds commits that were cut off between two lines."""
        path = self.folder / name
        try:
            noted = json.loads(path.read_text(encoding="utf-8"))
            noted_counts = int(noted["numFiles"]), int(noted["tableSizeBytes"])
            problem = checksum_problem(path)
            differing = [
                (kind, name)
                for kind, found in (("metadata", state.metadata), ("protocol", state.protocol))
                for name in (differing_fields(noted[kind], found) if noted.get(kind) else ())
            ]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            expected = "the number and size of files after the commits"
            self._add(Code.DAMAGED_VERSION_CHECKSUM, version, name, f"no readable checksum ({error})", expected)
            return
        if problem is not None:
            self._add(Code.DAMAGED_VERSION_CHECKSUM, version, name, problem, "the file as it was written")
            return
        if not state.is_complete:
            return
        counted = len(state.files), sum(file["size"] for file in state.files.values())
        if counted != noted_counts:
            found = f"{counted[0]} files of {counted[1]} bytes in the commits"
            expected = f"{noted_counts[0]} of {noted_counts[1]} bytes"
        elif differing:
            found = f"another {' of '.join(reversed(differing[0]))} in the commits"
            expected = "the one"
        else:
            return
        self._add(Code.CHANGED_COMMIT, version, f"{version:020}.json", found, f"{expected}, as in {name}")
        state.is_complete = False

    # -- checkpoints

    def _checkpoints(self, names: set[str]) -> dict[int, TableState | None]:
        """Return the state in each checkpoint, by version; None for one that has none."""
        parts: dict[int, list[tuple[str, int]]] = {}
        for name in sorted(names):
            if match := _CHECKPOINT.fullmatch(name):
                parts.setdefault(int(match[1]), []).append((name, int(match[3] or 1)))
        self.checkpoint_names = {version: files[0][0] for version, files in parts.items()}
        return {version: self._checkpoint(version, files) for version, files in parts.items()}

    def _checkpoint(self, version: int, parts: list[tuple[str, int]]) -> TableState | None:
        actions: list[Action] = []
        expected_parts = parts[0][1]
        if len(parts) != expected_parts:
            self._add(Code.DAMAGED_CHECKPOINT, version, parts[0][0], f"{len(parts)} parts", f"{expected_parts}")
            return None
        for name, _ in parts:
            found, problem = read_checkpoint(self.folder / name)
            if problem is not None:
                self._add(Code.DAMAGED_CHECKPOINT, version, name, problem, "the table's state")
                return None
            actions += found
        state, problem = checkpoint_state(actions)
        if problem is not None:
            self._add(Code.DAMAGED_CHECKPOINT, version, parts[0][0], problem, "the table's state")
            return None
        return state

    def _after_checkpoint(self, version: int, state: TableState, stored: TableState) -> TableState:
        """Return the checkpoint's state; compares it with that of the commits if all of these could be read."""
        problem = next(differences(stored, state), None) if state.is_complete else None
        if problem is None:
            return stored
        self._add(Code.DAMAGED_CHECKPOINT, version, self.checkpoint_names[version], problem, "the table's state")
        return state

    def _check_pointer(self, names: set[str], checkpoints: Mapping[int, object]) -> None:
        if _POINTER not in names:
            return
        path = self.folder / _POINTER
        try:
            version = int(json.loads(path.read_text(encoding="utf-8"))["version"])
            problem = checksum_problem(path)
        except (OSError, ValueError, KeyError, TypeError) as error:
            self._add(Code.DAMAGED_CHECKPOINT, None, _POINTER, f"no readable pointer ({error})", "the version of the newest checkpoint")
            return
        if problem is not None:
            self._add(Code.DAMAGED_CHECKPOINT, version, _POINTER, problem, "the file as it was written")
        elif version not in checkpoints:
            self._add(Code.DAMAGED_CHECKPOINT, version, _POINTER, f"a pointer to version {version}", "a version that has a checkpoint")


def _parsed(content: bytes) -> Iterator[Action]:
    """Yield the actions of a commit.

    Raises:
        ValueError: a line is not an action; names the line.
    """
    for number, line in enumerate(content.splitlines(), start=1):
        try:
            action = json.loads(line)
        except ValueError:
            raise ValueError(f"line {number} is not JSON") from None
        if not is_action(action):
            raise ValueError(f"line {number} is not an action of a Delta log")
        yield action


def _misplaced(actions: list[Action]) -> Iterator[str]:
    """Yield the files whose partition, by which readers skip them, differs from the one in their path."""
    for add in (action["add"] for action in actions if "add" in action):
        folders = (part.partition("=") for part in add["path"].split("/")[:-1])
        named = {name: unquote(unquote(value)) for name, equals, value in folders if equals}
        values = {name: add["partitionValues"].get(name) or NO_VALUE for name in named}
        if named != values:
            yield f"{add['path']} as a file of the partition {add['partitionValues']}"
