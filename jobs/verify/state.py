"""The actions of a Delta log: their form, the state after them, and the differences of two states."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

Action = dict[str, Any]

_FIELDS: dict[str, dict[str, type]] = {
    "commitInfo": {},
    "metaData": {"id": str, "schemaString": str, "partitionColumns": list, "configuration": dict},
    "protocol": {"minReaderVersion": int, "minWriterVersion": int},
    "add": {"path": str, "partitionValues": dict, "size": int, "modificationTime": int},
    "remove": {"path": str},
    "txn": {"appId": str, "version": int},
    "cdc": {},
    "domainMetadata": {},
}
"""The actions of a commit by name, each with the fields that it must have."""
MAPS = {"partitionValues", "tags", "configuration", "options"}
"""Fields that a commit stores as an object, a checkpoint as pairs of key and value."""
_TOLD_OTHERWISE = {"dataChange", "stats_parsed", "partitionValues_parsed"}
"""Fields of ``add`` that only checkpoints have, or whose value in a checkpoint has no meaning."""


def is_action(action: object) -> bool:
    """Return whether a line of a commit is an action whose fields have the types that are read here."""
    if not isinstance(action, dict) or len(action) != 1:
        return False
    ((kind, content),) = action.items()
    if kind not in _FIELDS or not isinstance(content, dict):
        return False
    has_fields = all(isinstance(content.get(name), expected) for name, expected in _FIELDS[kind].items())
    return has_fields and isinstance(content.get("stats"), str | None)


@dataclass
class TableState:
    """The state of a table at one version, from its log.

    Attributes:
        files: path in the log -> its ``add`` action.
        removed: path in the log -> its ``remove`` action.
        transactions: application id -> number of its last transaction.
        is_complete: every action up to the version could be read.
    """

    files: dict[str, Action] = field(default_factory=dict)
    removed: dict[str, Action] = field(default_factory=dict)
    transactions: dict[str, int] = field(default_factory=dict)
    metadata: Action | None = None
    protocol: Action | None = None
    is_complete: bool = True

    def apply(self, actions: list[Action]) -> None:
        """Apply the actions of one commit or checkpoint."""
        for action in actions:
            if action.get("add"):
                self.removed.pop(action["add"]["path"], None)
                self.files[action["add"]["path"]] = action["add"]
            elif action.get("remove"):
                self.files.pop(action["remove"]["path"], None)
                self.removed[action["remove"]["path"]] = action["remove"]
            elif action.get("metaData"):
                self.metadata = action["metaData"]
            elif action.get("protocol"):
                self.protocol = action["protocol"]
            elif action.get("txn"):
                self.transactions[action["txn"]["appId"]] = action["txn"]["version"]

    def copy(self) -> TableState:
        """Return a copy of the state."""
        return replace(self, files=dict(self.files), removed=dict(self.removed), transactions=dict(self.transactions))

    def lacks(self) -> str | None:
        """Return the name of a missing action that every table needs, None if there is none."""
        return next((kind for kind, action in (("metaData", self.metadata), ("protocol", self.protocol)) if action is None), None)


def differences(stored: TableState, expected: TableState) -> Iterator[str]:
    """Yield how a checkpoint's state differs from that of the commits; it may lack old ``remove`` actions."""
    if stored.files.keys() != expected.files.keys():
        yield f"{len(stored.files)} files, other than the {len(expected.files)} files after the commits"
        return
    for kind, found, wanted in (("metaData", stored.metadata, expected.metadata), ("protocol", stored.protocol, expected.protocol)):
        yield from (f"{name} of {kind} other than in the commits" for name in differing_fields(found, wanted))
    for path, add in stored.files.items():
        yield from (f"{name} of {path} other than in the commits" for name in differing_fields(add, expected.files[path]))
    for path, remove in stored.removed.items():
        if remove.get("deletionTimestamp") != expected.removed.get(path, {}).get("deletionTimestamp"):
            yield f"a remove of {path} that is not in the commits"
    if stored.transactions != expected.transactions:
        yield "transactions other than in the commits"


def differing_fields(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> list[str]:
    """Return the fields in which two actions of a kind differ in content; null equals a missing field."""
    left, right = _plain(one or {}), _plain(other or {})
    return sorted(name for name in left.keys() | right.keys() if left.get(name) != right.get(name))


def _plain(action: Mapping[str, Any]) -> dict[str, Any]:
    values = {name: _plain_value(name, value) for name, value in action.items() if name not in _TOLD_OTHERWISE}
    return {name: value for name, value in values.items() if value is not None}


def _plain_value(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name in ("stats", "schemaString"):
        try:
            return json.loads(value)
        except ValueError:
            return value
    if name.endswith("Features"):
        return sorted(value)
    return _plain(value) or None if isinstance(value, dict) else value
