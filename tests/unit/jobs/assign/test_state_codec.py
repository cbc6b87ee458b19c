"""States of groups that older releases have stored."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jobs.assign.state_codec import decode_state, encode_state

MEMBER = ["m-1", ["t"], None, "r1", [["t"], [[0]]], 3, None, [["t"], [[0, 1]]], 1, "client", "/10.0.0.1"]
SNAPSHOT: dict[str, Any] = {
    "position": 7,
    "generation": 4,
    "joined_at_ms": 1_000,
    "incarnation": 2,
    "strategy": "range",
    "leader_member_id": "m-1",
    "is_conversion": False,
    "has_subscriptions": True,
    "is_numbered": True,
    "batched_epoch_count": 0,
    "members": [MEMBER],
}
SOLUTION: dict[str, Any] = {
    "basis": "counterfactual",
    "strategy": "range",
    "status": "solved",
    "assignment": {"m-1": [["t"], [[0, 1]]]},
    "detail": None,
    "kafka_version": "4.4.0",
    "rebalance_count": 1,
    "cooperative_revocation_count": None,
    "conformance": None,
}
STATE: dict[str, Any] = {
    "format": 2,
    "recurrence": None,
    "snapshot": SNAPSHOT,
    "topics": [{"topic": "t", "partition_count": 2, "topic_id": None, "partition_racks": [], "basis": "before", "is_uncertain": False}],
    "flags": [True, False, False],
    "solutions": [SOLUTION],
    "chains": {"range": [4, [[False, "m-1", ["t"], [[0, 1]]]]]},
}


def text(state: dict[str, Any]) -> bytes:
    return json.dumps(state, separators=(",", ":")).encode()


def test_state_of_an_older_release_is_read_and_written_byte_for_byte() -> None:
    state = decode_state(text(STATE))
    snapshot = state.step.snapshot
    assert (snapshot.position, snapshot.is_generation_inferred, snapshot.client_hosts) == (7, True, {"m-1": "/10.0.0.1"})
    assert snapshot.assigned == {"m-1": (("t", 0), ("t", 1))}
    assert state.step.solutions[0].assignment == snapshot.assigned
    assert encode_state(state) == text(STATE), "the release before reads it too"


def test_state_from_before_some_fields_were_stored_has_their_defaults() -> None:
    older = {name: value for name, value in SNAPSHOT.items() if name not in ("is_numbered", "batched_epoch_count")}
    snapshot = decode_state(text({**STATE, "format": 1, "snapshot": {**older, "members": [MEMBER[:-1]]}})).step.snapshot
    assert (snapshot.is_generation_inferred, snapshot.batched_epoch_count, snapshot.client_hosts) == (False, 0, {"m-1": None})


def test_state_of_an_unknown_format_is_refused() -> None:
    with pytest.raises(ValueError, match="expected format 2, found 3; rebuild it with assign --recompute"):
        decode_state(text({**STATE, "format": 3}))
