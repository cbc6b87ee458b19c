"""What Kafka's group coordinators log about groups, Kafka 2.0 to 4.3, as wordings.

Source: ``GroupCoordinator.scala``, ``GroupMetadata.scala`` and ``GroupMetadataManager.scala`` of Apache Kafka 2.0 to 3.9, and
``GroupMetadataManager.java``, ``ClassicGroup.java`` and ``CoordinatorRuntime.java`` of 3.7 to 4.3.
"""

from __future__ import annotations

from jobs.decoders.wordings import Wording
from schemas.vocabulary import CoordinatorEvent, Word


class Skipped(Word):
    """Kinds of a coordinator's lines that are no event of a group."""

    LIFECYCLE = "lifecycle"
    LOADING = "loading"
    OFFSETS = "offsets"
    GROUPS_DELETED = "groups_deleted"
    METADATA = "metadata"
    WRITE_FAILED = "write_failed"
    LATE_NOTIFICATION = "late_notification"
    MEMBER_DETAIL = "member_detail"
    SHARE_GROUP = "share_group"
    STREAMS_GROUP = "streams_group"
    DEBUG = "debug"
    NO_GROUP = "no_group"


_C = CoordinatorEvent
_CLASSIC, _CONSUMER = {"protocol": "classic"}, {"protocol": "consumer"}
_LEAVE = "through explicit `LeaveGroup`"

_CLASSIC_EVENTS = {
    _C.REBALANCE_STARTED: (
        "Preparing to rebalance group {group_id} with old generation {generation:#}{at?}",
        "Preparing to rebalance group {group_id} in state {state:state} with old generation {generation:#}{at?} (reason: {reason})[.]",
    ),
    _C.STABILIZED: (
        "Stabilized group {group_id} generation {generation:#}{at?}[.]",
        "Stabilized group {group_id} generation {generation:#}{at?} with {member_count:#} members[.]",
    ),
    _C.ASSIGNMENT_RECEIVED: (
        "Assignment received from leader for group {group_id} for generation {generation:#}",
        "Assignment received from leader for group {group_id} for generation {generation:#}."
        " The group has {member_count:#} members, {:#} of which are static[.]",
        "Assignment received from leader {member_id} for group {group_id} for generation {generation:#}."
        " The group has {member_count:#} members, {:#} of which are static[.]",
    ),
    _C.ASSIGNMENT_INCOMPLETE: ("Setting empty assignments for members {members} of {group_id} for generation {generation:#}[.]",),
    _C.NO_MEMBER_REJOINED: ("Group {group_id} could not complete rebalance because no members rejoined[.]",),
    _C.EMPTIED: ("Group {group_id} with generation {generation:#} is now empty{at?}[.]",),
    _C.DEAD: ("Group {group_id} transitioned to Dead in generation {generation:#}",),
    _C.MEMBER_CREATED: (
        "Dynamic member with unknown member id joins group {group_id} in {state:state} state."
        " Created a new member id {member_id} and request the member to rejoin with this id.",
        "Dynamic member with unknown member id joins group {group_id} in {state:state} state."
        " Created a new member id {member_id} and requesting the member to rejoin with this id.",
    ),
    _C.MEMBER_JOINED: (
        "Dynamic Member with unknown member id joins group {group_id} in {state:state} state."
        " Created a new member id {member_id} for this member and add to the group.",
        "Dynamic member with unknown member id joins group {group_id} in state {state:state}."
        " Created a new member id {member_id} and added the member to the group.",
        "Pending dynamic member with id {member_id} joins group {group_id} in {state:state} state. Adding to the group now.",
    ),
    _C.MEMBER_EXPIRED: ("Member {member_id} in group {group_id} has failed, removing it from the group[.]",),
    _C.MEMBER_LEFT: (
        "Member {member_id} in group {group_id} has left, removing it from the group",
        "Member[group.instance.id {instance}, member.id {member_id}] in group {group_id} has left, removing it from the group",
        f"Member {{member}} has left group {{group_id}} {_LEAVE} request",
        f"Member {{member}} has left group {{group_id}} {_LEAVE}; client reason: {{client_reason}}",
        f"[Group {{group_id}}] Member {{member_id}} has left group {_LEAVE} request; client reason: {{client_reason}}",
        f"[Group {{group_id}}] Dynamic Member {{member_id}} has left group {_LEAVE} request; client reason: {{client_reason}}",
        f"[Group {{group_id}}] Static Member {{member_id}} with instance id {{group_instance_id}}"
        f" has left group {_LEAVE} request; client reason: {{client_reason}}",
        f"[GroupId {{group_id}}] Dynamic member {{member_id}} has left group {_LEAVE} request; client reason: {{client_reason}}",
        f"[GroupId {{group_id}}] Static member {{member_id}} with instance id {{group_instance_id}}"
        f" has left group {_LEAVE} request; client reason: {{client_reason}}",
    ),
    _C.JOINERS_REMOVED: (
        "Group {group_id} remove dynamic members who haven't joined: {members}",
        "Group {group_id} removed dynamic members who haven't joined: {members}",
    ),
    _C.SYNC_TIMED_OUT: (
        "Group {group_id} removed members who haven't sent their sync request: {members}",
        "Group {group_id} removed members who haven't sent their sync requests: {members}",
    ),
    _C.LEADER_REPLACED: (
        "Group leader [memberId: {previous_member_id}, groupInstanceId: {instance}] failed to join before the rebalance timeout."
        " Member {member_id} was elected as the new leader.",
    ),
    _C.PENDING_LEFT: (
        "Pending member {member_id} is leaving group {group_id}.",
        f"Pending member with memberId={{member_id}} has left group {{group_id}} {_LEAVE} request",
        f"[Group {{group_id}}] Pending member {{member_id}} has left group {_LEAVE} request; client reason: {{client_reason}}",
    ),
    _C.PENDING_EXPIRED: ("Pending member {member_id} in group {group_id} has been removed after session timeout expiration.",),
    _C.STATIC_JOINED: (
        "Adding new static member {instance} to group {group_id} with member id {member_id}.",
        "Static Member with unknown member id joins group {group_id} in {state:state} state."
        " Created a new member id {member_id} for this member and add to the group.",
        "Static member with groupInstanceId={group_instance_id} and unknown member id joins group {group_id} in {state:state} state."
        " Created a new member id {member_id} for this member and add to the group.",
        "Static member with groupInstanceId={group_instance_id} and unknown member id joins group {group_id} in {state:state} state."
        " Created a new member id {member_id} for this member and added to the group.",
    ),
    _C.STATIC_REPLACED: (
        "Static member Some({group_instance_id}) with unknown member id rejoins, assigning new member id {member_id},"
        " while old member {previous_member_id} will be removed.",
        "Static member {instance} of group {group_id} with unknown member id rejoins, assigning new member id {member_id},"
        " while old member id {previous_member_id} will be removed.",
        "Static member with groupInstanceId={group_instance_id} and unknown member id joins group {group_id} in {state:state} state."
        " Replacing previously mapped member {previous_member_id} with this groupInstanceId.",
    ),
    _C.STATIC_FENCED: (
        "Request memberId={member_id} for static member with groupInstanceId={group_instance_id}"
        " is fenced by current memberId={previous_member_id} during operation {}",
        "Request memberId={member_id} for static member with groupInstanceId={group_instance_id}"
        " is fenced by existing memberId={previous_member_id} during operation {}",
    ),
    _C.GROUP_LOADED: (
        "Loaded classic group {group_id} with {member_count:#} members.",
        "Loading group metadata for {group_id} with generation {generation:#}",
    ),
    _C.GROUP_UNLOADED: (
        "Unloading group metadata for {group_id} with generation {generation:#}",
        "[GroupId={group_id}] Unloading group metadata for generation {generation:#}.",
    ),
}
_CONSUMER_EVENTS = {
    _C.MEMBER_CREATED: (
        "[GroupId {group_id}] Dynamic member with unknown member id joins the consumer group."
        " Created a new member id {member_id} and requesting the member to rejoin with this id.",
    ),
    _C.MEMBER_JOINED: (
        "[GroupId {group_id}] Member {member_id} joins the consumer group using the {protocol:protocol} protocol.",
        "[GroupId {group_id}] Member {member_id} joins the consumer group.",
    ),
    _C.MEMBER_LEFT: (
        "[GroupId {group_id}] Member {member_id} left the consumer group.",
        "[GroupId {group_id}] Static member {member_id} with instance id {group_instance_id} left the consumer group.",
        "[GroupId {group_id}] Static Member {member_id} with instance id {group_instance_id} left the consumer group.",
    ),
    _C.STATIC_LEFT_TEMPORARILY: (
        "[GroupId {group_id}] Static member {member_id} with instance id {group_instance_id} temporarily left the consumer group.",
        "[GroupId {group_id}] Static Member {member_id} with instance id {group_instance_id} temporarily left the consumer group.",
    ),
    _C.STATIC_JOINED: (
        "[GroupId {group_id}] Static member {member_id} with instance id {group_instance_id}"
        " joins the consumer group using the {protocol:protocol} protocol.",
        "[GroupId {group_id}] Static member {member_id} with instance id {group_instance_id} joins the consumer group.",
    ),
    _C.STATIC_RETURNED: (
        "[GroupId {group_id}] Static member with instance id {group_instance_id} re-joins the consumer group using the {protocol:protocol}"
        " protocol. Created a new member {member_id} to replace the existing member {previous_member_id}.",
        "[GroupId {group_id}] Static member with unknown member id and instance id {group_instance_id} re-joins the consumer group."
        " Created a new member {member_id} to replace the existing member {previous_member_id}.",
        "[GroupId {group_id}] Static member {member_id} with instance id {group_instance_id} re-joins the consumer group.",
    ),
    _C.STATIC_FENCED: (
        "[GroupId {group_id}] Static member {member_id} with instance id {group_instance_id}"
        " is fenced by existing member {previous_member_id}.",
    ),
    _C.INSTANCE_ID_REFUSED: (
        "[GroupId {group_id}] Static member {member_id} with instance id {group_instance_id}"
        " cannot join the group because the instance id is owned by member {previous_member_id}.",
        "[GroupId {group_id}] Static member {member_id} with instance id {group_instance_id}"
        " cannot join the group because the instance id is is owned by member {previous_member_id}.",
    ),
    _C.CONVERTED_TO_CONSUMER: (
        "[GroupId {group_id}] Converted the classic group to a consumer group.",
        "[GroupId {group_id}] Converted the empty classic group to a consumer group.",
    ),
    _C.DOWNGRADE_REFUSED: (
        "Cannot downgrade consumer group {group_id} to classic group because {reason}.",
        "Cannot downgrade the consumer group {group_id}: {reason}.",
    ),
    _C.CLASSIC_JOIN_REFUSED: ("Cannot join the consumer group {group_id} with the classic protocol because {reason}.",),
    _C.GROUP_LOADED: ("Loaded consumer group {group_id} with {member_count:#} members.",),
}
_CONVERSIONS_TO_CLASSIC = {
    _C.CONVERTED_TO_CLASSIC: (
        "[GroupId {group_id}] Converted the consumer group to a classic group.",
        "[GroupId {group_id}] Converted the empty consumer group to a classic group.",
    ),
    _C.UPGRADE_REFUSED: (
        "Cannot upgrade classic group {group_id} to consumer group because {reason}.",
        "Cannot upgrade classic group {group_id} to consumer group: {reason}.",
        "Cannot upgrade the classic group {group_id} to consumer group because {reason}.",
    ),
}
# Share groups and, for some of them, streams groups have the same lines: such a line does not say what the group is.
_TARGET = "[GroupId {group_id}] Computed a new target assignment for epoch {generation:#} with '{strategy}'"
_EVENTS_OF_ANY_GROUP = {
    _C.MEMBER_FENCED: ("[GroupId {group_id}] Member {member_id} fenced from the group because {reason}.",),
    _C.MEMBER_STATE: (
        "[GroupId {group_id}] Member {member_id} new assignment state: epoch={generation:#}, previousEpoch={:#},"
        " state={state:member_state}, assignedPartitions={}.",
    ),
    _C.SUBSCRIPTION_UPDATED: (
        "[GroupId {group_id}] Member {member_id} updated its subscribed topics to: {}.",
        "[GroupId {group_id}] Member {member_id} updated its subscribed regex to: {}.",
    ),
    _C.EPOCH_BUMPED: (
        "[GroupId {group_id}] Bumped group epoch to {generation:#}.",
        "[GroupId {group_id}] Bumped group epoch to {generation:#} with metadata hash {:#}.",
    ),
    _C.TARGET_COMPUTED: (
        _TARGET + " assignor in {duration_ms:#}ms.",
        _TARGET + " assignor in {duration_ms:#}ms: {}.",
        _TARGET + " assignor: {}.",
    ),
    _C.TARGET_FAILED: ("[GroupId {group_id}] Failed to compute a new target assignment for epoch {generation:#}: {reason}.",),
    _C.GROUP_UNLOADED: ("[GroupId={group_id}] Unloaded group metadata for group epoch {generation:#}.",),
    _C.DELETED: ("The following groups were deleted: {group_id}. A total of {:#} offsets were removed.",),
}

_SKIPPED = {
    Skipped.LIFECYCLE: (
        *("Starting up.", "Startup complete.", "Shutting down.", "Shutdown complete.", "Group coordinator is already {}"),
        *("Elected as the group coordinator for partition {}", "Resigned as the group coordinator for partition {}"),
        *("Closing coordinator runtime.", "Coordinator runtime closed.", "Coordinator runtime is already shutting down."),
    ),
    Skipped.LOADING: (
        *("Scheduling loading of {}", "Scheduling unloading of {}", "Already loading offsets {}", "Started unloading metadata {}"),
        *("Finished loading {}", "Finished unloading {}", "Not loading offsets {}", "Not removing offsets {}", "Error loading {}"),
        *("Attempted to load offsets {}", "Loaded offsets and group metadata {}", "Unknown message key {}", "Ignored load completion {}"),
        *("Ignored loading metadata {}", "Ignored unloading metadata {}", "Failed to load metadata {}", "The coordinator {} is already {}"),
        *("Cannot load coordinator {}", "Loaded member {}", "Loaded group {} with an unknown group type {}"),
        *("onUnloaded group with an unknown group type {}", "Static member {} loaded with member id {} at generation {:#}."),
    ),
    Skipped.OFFSETS: (
        *("Removed {:#} {}", "Generated {:#} {}", "The following offsets of the group {}", "group: {}", "BrokerId {}"),
        *("Group {} has moved away from {}", "Failed to append {}", "Could not delete offsets {}", "Committed transactional offset{}"),
        *("Replayed end transaction marker {}", "Aborted transactional offset{}", "[GroupId {}] Creating a simple consumer group via {}"),
        *("[GroupId {}] Expired offset {}", "[GroupId {}] Removing expired offset {}", "[GroupId {}] Committing {}"),
        *("Skipped the materialization of {}",),
    ),
    Skipped.METADATA: (
        *("[GroupId {}] Computed new metadata hash: {:#}.", "[GroupId {}] Computed new subscription metadata: {}."),
        *("[GroupId {}] Scanned {:#} topics to refresh regular expressions {}", "[GroupId {}] Refreshing regular expressions: {}"),
        *("[GroupId {}] Couldn't parse regular expression {}", "[GroupId {}] Couldn't update regular expression due to: {}"),
        "[GroupId {}] Received updated regular expressions based on the context of member {}",
        "[GroupId {}] Received result of regular expression resolution but it no longer exists.",
        *("[GroupId {}] Assignment delayed due to {}", "[GroupId {}] Skipping delayed target assignment: {}"),
        *("Failed to parse Consumer Protocol {}", "[GroupId {}] Size of assignment epochs {}"),
    ),
    Skipped.WRITE_FAILED: (
        *("Appending metadata message for group {}", "Failed to write empty metadata for group {}"),
        *("Failed to persist metadata for group {}", "Failed to invoke {}", "Writing records to {}", "Replaying record {}"),
        *("The write event {}", "Failed to enqueue write event {}", "Execution of {}"),
        *("Operation {} hit an unexpected exception: {}", "ConsumerGroupHeartbeat request {} hit an unexpected exception: {}"),
        *(f"{kind} request {{}} hit an unexpected exception: {{}}" for kind in ("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup")),
        *(f"{kind} request {{}} hit an unexpected exception: {{}}" for kind in ("OffsetCommit", "TxnOffsetCommit", "OffsetDelete")),
        "The state machine of the coordinator {}",
    ),
    Skipped.LATE_NOTIFICATION: (
        *("Received notification of {}", "Received unexpected notification of {}", "Attempt to add rejoining member {}"),
        *("Member id {} was not found in {} during heartbeat completion check",),
        *("Member id {} was not found in {} during heartbeat expiration.",),
        *("[GroupId {}] Could not fence {}", "[GroupId {}] Ignoring {} timeout for {}", "[GroupId {}] Group not found during {}"),
        *("Group {} is dead, skipping rebalance stage[.]",),
    ),
    Skipped.MEMBER_DETAIL: (
        *("Static member joins during {} stage will not trigger rebalance.", "Static member which joins during Stable stage {}"),
        *("Sending empty assignment to member {}", "given member.id {}", "Group leader [member.id: {}"),
        "Group leader [memberId: {} failed to join before the rebalance timeout and {}",
        "[GroupId {}] Member {} transitioned from {} to {}.",
    ),
    Skipped.SHARE_GROUP: (
        *("[GroupId {}] Member {} joins the share group using the share protocol.", "[GroupId {}] Member {} left the share group."),
        *("Loaded share group {}", "Unable to delete share group {}", "Some topics for share group {}", "Existing deleting entries {}"),
        *("Initializing topic {} for share group {}", "ShareGroup{}", "Unable to initialize share group {}", "Unable to cleanup {}"),
        *("Received error while {}", "Error deleting share group {}", "Failed to delete share group {}"),
    ),
    Skipped.STREAMS_GROUP: (
        *("[GroupId {}][MemberId {}] {}", "Loaded streams group {}", "[GroupId {}] Streams member {} fenced from the group because {}."),
        *("[GroupId {}] Converted the empty classic group to a streams group.",),
        *("[GroupId {}] Converted the empty streams group to a classic group.",),
        *("[GroupId {}] Clearing shutdown requested {}", "[GroupId {}] Could not fence streams member {}"),
        *("[GroupId {}] Cannot compute delayed target assignment: {}",),
    ),
}

WORDINGS: tuple[Wording, ...] = (
    *(Wording(event, text, **_CLASSIC) for event, texts in _CLASSIC_EVENTS.items() for text in texts),
    *(Wording(event, text, **_CONSUMER) for event, texts in _CONSUMER_EVENTS.items() for text in texts),
    *(Wording(event, text, **_CLASSIC) for event, texts in _CONVERSIONS_TO_CLASSIC.items() for text in texts),
    *(Wording(event, text) for event, texts in _EVENTS_OF_ANY_GROUP.items() for text in texts),
    *(Wording(kind, text) for kind, texts in _SKIPPED.items() for text in texts),
)
MEMBER_OF_SCALA = Wording(
    "member",
    "MemberMetadata(memberId={member_id}, groupInstanceId={instance}, clientId={}, clientHost={}, sessionTimeoutMs={:#},"
    " rebalanceTimeoutMs={:#}, supportedProtocols={})",
)
"""How 3.0 to 3.9 print a member that has left."""
