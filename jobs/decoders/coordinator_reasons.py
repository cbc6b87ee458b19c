"""Reasons in the messages of Kafka's group coordinators, Kafka 2.1 to 4.3, as wordings; the sources are those of the messages."""

from __future__ import annotations

from collections.abc import Mapping

from jobs.decoders.wordings import Wording
from schemas.vocabulary import RebalanceReason

_R = RebalanceReason
_REASONS_OF_BOTH = {
    _R.JOINED: ("Adding new member {member_id} with group instance id {instance}; client reason: {client_reason}",),
    _R.METADATA_UPDATED: ("Updating metadata for member {member_id} during {:state}; client reason: {client_reason}",),
    _R.LEADER_REJOINED: ("Leader {member_id} re-joining group during {:state}; client reason: {client_reason}",),
    _R.STATIC_UPDATED: ("Updating metadata for static member {member_id} with instance id {instance}; client reason: {client_reason}",),
    _R.STATIC_PROTOCOL_CHANGED: (
        "Group's selectedProtocol will change because static member {member_id} with instance id {instance}"
        " joined with change of protocol; client reason: {client_reason}",
    ),
    _R.HEARTBEAT_EXPIRED: ("removing member {member_id} on heartbeat expiration[.]",),
    _R.SYNC_EXPIRED: ("Removing {members} on pending sync request expiration",),
    _R.OVER_CAPACITY: ("Freshly-loaded group {}",),
}
_REASONS_OF_SCALA = {
    _R.JOINED: (
        "Adding new member {member_id} with group instanceid None",
        "Adding new member {member_id} with group instanceid Some({group_instance_id})",
        "Adding new member {member_id} with group instance id None",
        "Adding new member {member_id} with group instance id Some({group_instance_id})",
    ),
    _R.REJOINED: (
        "Member {member_id} joining group during {:state}",
        "Member {member_id} joining group during {:state}; client reason: {client_reason}",
    ),
    _R.METADATA_UPDATED: ("Updating metadata for member {member_id} during {:state}",),
    _R.LEADER_REJOINED: (
        "leader {member_id} re-joining group during {:state}",
        "Leader {member_id} re-joining group during {:state}",
    ),
    _R.STATIC_UPDATED: ("Updating metadata for static member {member_id} with instance id Some({group_instance_id})",),
    _R.STATIC_PROTOCOL_CHANGED: (
        "Group's selectedProtocol will change because static member {member_id} with instance id {instance} joined with change of protocol",
    ),
    _R.LEFT: (
        "removing member {member_id} on LeaveGroup",
        "Removing member {member_id} on LeaveGroup",
        "Removing member {member_id} on LeaveGroup; client reason: {client_reason}",
    ),
    _R.ASSIGNMENT_NOT_STORED: (
        "error when storing group assignment during SyncGroup (member: {member_id})",
        "Error when storing group assignment during SyncGroup (member: {member_id})",
        "Error {} when storing group assignment during SyncGroup (member: {member_id})",
    ),
}
_REASONS_OF_JAVA = {
    _R.REJOINED: ("Member {member_id} is joining group during {:state}; client reason: {client_reason}",),
    _R.LEFT: ("explicit `LeaveGroup` request for ({members}) members.",),
    _R.ASSIGNMENT_NOT_STORED: ("Error {} when storing group assignmentduring SyncGroup (member: {member_id}).",),
    _R.DOWNGRADED: ("Downgrade group {} from consumer to classic{}",),
}
_REASONS_WITHOUT_END = {
    _R.JOINED: ("Adding new member {member_id}",),
    _R.METADATA_UPDATED: ("Updating metadata for member {member_id}",),
    _R.STATIC_UPDATED: ("Updating metadata for static member {member_id} with instance id {instance}",),
}
_FENCED = {
    _R.SESSION_EXPIRED: ("the member session expired[.]", "its session expired"),
    _R.REBALANCE_TIMED_OUT: (
        "it failed to transition from epoch {generation:#} within {duration_ms:#}ms",
        "it failed to revoke partitions within {duration_ms:#}ms",
    ),
    _R.SYNC_TIMED_OUT: ("the member failed to sync within timeout",),
    _R.JOIN_TIMED_OUT: ("the classic member failed to join within the rebalance timeout",),
}


def _reasons(*tables: Mapping[RebalanceReason, tuple[str, ...]]) -> tuple[Wording, ...]:
    return tuple(Wording(reason, text) for table in tables for reason, texts in table.items() for text in texts)


SCALA_REASONS = _reasons(_REASONS_OF_BOTH, _REASONS_OF_SCALA)
"""Of 2.1 to 3.9; 2.0 writes no reason."""
JAVA_REASONS = _reasons(_REASONS_OF_BOTH, _REASONS_OF_JAVA)
"""Of 4.0 to 4.3, and of 3.7 to 3.9 with the new coordinator."""
OLDEST_REASONS = _reasons(_REASONS_WITHOUT_END)
"""Of 2.1 to 2.6, 3.0 and 3.1, which end with an id: every later wording of the same reason fits them too."""
FENCED_REASONS = _reasons(_FENCED)
