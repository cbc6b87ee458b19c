"""The values that tables store. Changing a value needs a migration."""

from __future__ import annotations

from enum import Enum

CONFLICT = "conflicting_content"
"""The reason in ``quarantine`` of a content that lost its position to another one."""
EXPIRED = "expired"
"""Kind of skipped records that are older than the months that retention keeps."""

MOST_LAG = 2**63 - 1
"""The largest lag that a column can hold. A capture may have offsets that no log reaches, and commits below 0."""


class Word(str, Enum):
    """A stored string; ``str()`` and formatting give the string itself in every Python version."""

    _value_: str

    def __str__(self) -> str:
        return self.value


class GroupType(Word):
    """The rebalance protocol of a group."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class GroupState(Word):
    """State of the group when its record was written, as Kafka names it."""

    STABLE = "Stable"
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"


PREPARING, COMPLETING = "PreparingRebalance", "CompletingRebalance"
BETWEEN_GENERATIONS = (PREPARING, COMPLETING)
"""States in which the coordinator of a classic group returns members without their partitions: not a generation."""


class Basis(Word):
    """Where an assignment comes from."""

    OBSERVED = "observed"
    RECOMPUTED = "recomputed"
    COUNTERFACTUAL = "counterfactual"


class Status(Word):
    """Where a solution comes from, or why it has no assignment."""

    SOLVED = "solved"
    CARRIED = "carried"
    NO_RESULT = "no_result"
    KAFKA_ERROR = "kafka_error"
    OVER_BUDGET = "over_budget"
    UNSUPPORTED = "unsupported"


WITH_RESULT = (Status.SOLVED, Status.CARRIED)
"""The solution has an assignment."""

WITHOUT_RESULT = (Status.NO_RESULT, Status.KAFKA_ERROR, Status.OVER_BUDGET)
"""The assignor exists and had no result. It may have one in the next generation."""


class Conformance(Word):
    """How a recomputed assignment compares with the observed one."""

    EXACT = "exact"
    EQUAL_SETS = "equal_sets"
    EQUAL_BALANCE = "equal_balance"
    DIFFERS = "differs"
    NOT_COMPARABLE = "not_comparable"


class Flavour(Word):
    """Client library of a group's leader, as its bytes show it."""

    JAVA = "java"
    LIBRDKAFKA = "librdkafka"
    KAFKA_PYTHON = "kafka-python"
    FRANZ_GO = "franz-go"
    SARAMA = "sarama"
    KAFKAJS = "kafkajs"


class TopicBasis(Word):
    """Which metadata snapshot gave the partitions of a topic."""

    BEFORE = "before"
    AFTER = "after"
    EARLIER = "earlier"
    INFERRED = "inferred"


class Severity(Word):
    """How much a finding or a gate matters."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """Return 0 for info, 1 for warning, 2 for critical."""
        return list(Severity).index(self)


class RunStatus(Word):
    """How a run ended; readers use ``published`` runs only."""

    PUBLISHED = "published"
    FAILED = "failed"
    REFUSED = "refused"


class Outcome(Word):
    """What happened to an input record: exactly one of these."""

    LANDED = "landed"
    DUPLICATE = "duplicate"
    SKIPPED = "skipped"
    QUARANTINED = "quarantined"


class PlacedBy(Word):
    """The neighbour that gives a record without a position its position: a record of the same group in the same file."""

    PREVIOUS = "previous"
    NEXT = "next"
    BOTH = "both"


class Source(Word):
    """The kind of capture that a row comes from."""

    CONSUMER_OFFSETS = "consumer-offsets"
    DUMP_LOG = "dump-log"
    FORMATTER_JSON = "formatter-json"
    SNAPSHOT = "snapshot"
    DESCRIBE = "describe"
    CLUSTER_METADATA = "cluster-metadata"
    COORDINATOR_LOG = "coordinator-log"


LOG_SOURCES = (Source.CONSUMER_OFFSETS, Source.DUMP_LOG)
"""The sources whose records have a partition and an offset in the log of ``__consumer_offsets``."""

POLLS = (Source.SNAPSHOT, Source.DESCRIBE)
"""The sources that show a group at some moments only."""

SOURCES_OF_EVENTS = (Source.COORDINATOR_LOG, *POLLS)
"""The sources that show what happens between two generations: lines of logs, and polls that see a rebalance."""

SOURCES_OF_GROUPS = (*LOG_SOURCES, Source.FORMATTER_JSON, *POLLS)
"""The sources that describe groups, the most detailed one first. A group has one source; a more detailed one replaces it."""


class ResumeOutcome(Word):
    """Where the new owner of a partition continues to read."""

    COMMITTED = "committed"
    RESET_NONE = "reset_none"
    RESET_OUT_OF_RANGE = "reset_out_of_range"
    UNKNOWN = "unknown"


class Rule(Word):
    """The rules of findings, in the order of ``docs/findings.md``."""

    PARTITION_MULTIPLY_OWNED = "partition_multiply_owned"
    PARTITIONS_LEFT_OUT = "partitions_left_out"
    IDLE_MEMBERS = "idle_members"
    MORE_MEMBERS_THAN_PARTITIONS = "more_members_than_partitions"
    RANGE_CROWDED = "range_crowded"
    TOPIC_SKEW = "topic_skew"
    RANGE_NOT_COPARTITIONED = "range_not_copartitioned"
    RACKS_UNUSED = "racks_unused"
    REBALANCE_STORM = "rebalance_storm"
    RESTART_LOOP = "restart_loop"
    PARTITION_FLAPPING = "partition_flapping"
    DUPLICATE_INSTANCE_ID = "duplicate_instance_id"
    TIMEOUTS_UNWISE = "timeouts_unwise"
    DISJOINT_SUBSCRIPTIONS = "disjoint_subscriptions"
    TOPICS_MISSING = "topics_missing"
    STICKY_GENERAL_PATH = "sticky_general_path"
    PROTOCOLS_MIXED = "protocols_mixed"
    CLAIMS_LOST = "claims_lost"
    MOVED_WITHOUT_WITHHOLDING = "moved_without_withholding"
    STALE_CLAIMS = "stale_claims"
    ASSIGNOR_NOT_SHARED = "assignor_not_shared"
    UPGRADE_BLOCKED = "upgrade_blocked"
    CONFORMANCE_DIFFERS = "conformance_differs"
    ASSIGNOR_LIVELOCK = "assignor_livelock"
    NO_RESULT = "no_result"
    OWN_ASSIGNOR_UNSOUND = "own_assignor_unsound"
    TOPIC_BASIS_UNCERTAIN = "topic_basis_uncertain"
    CONFLICTING_RECORDS = "conflicting_records"
    HOT_PARTITION = "hot_partition"
    HOT_MEMBER = "hot_member"
    RECORDS_CROSS_RACKS = "records_cross_racks"
    COMMITS_UNSUBSCRIBED = "commits_unsubscribed"
    MEMBERS_NEVER_COMMIT = "members_never_commit"
    MEMBER_STALLED = "member_stalled"
    COMMITS_EXPIRE = "commits_expire"
    COORDINATOR_HOT = "coordinator_hot"
    NOT_RECONCILED = "not_reconciled"
    STUCK_REBALANCING = "stuck_rebalancing"


STRATEGIES = ("range", "roundrobin", "sticky", "cooperative-sticky")
"""The client-side assignors, in the order in which reports list them."""

DEFAULT_SERVER_STRATEGY = "uniform"
"""The assignor of a KIP-848 group whose members do not ask for one: the first of ``group.consumer.assignors``."""

SERVER_STRATEGIES_BY_NAME = {"range": "server-range"}
"""Assignors of brokers that have another name here, because an assignor of clients has the same name."""


class Cause(Word):
    """Why a generation came about.

    From ``closed`` to ``fenced`` a member is gone; ``static_returned`` to ``hand_over`` are the other causes.
    """

    CLOSED = "closed"
    UNSUBSCRIBED = "unsubscribed"
    POLL_TIMEOUT = "poll_timeout"
    REMOVED_BY_ADMIN = "removed_by_admin"
    LEFT = "left"
    SESSION_EXPIRED = "session_expired"
    SYNC_TIMEOUT = "sync_timeout"
    REBALANCE_TIMEOUT = "rebalance_timeout"
    EPOCH_TIMEOUT = "epoch_timeout"
    FENCED = "fenced"
    STATIC_RETURNED = "static_returned"
    CONVERTED = "converted"
    JOINED = "joined"
    LEADER_REJOINED = "leader_rejoined"
    MEMBER_REJOINED = "member_rejoined"
    ENFORCED = "enforced"
    SUBSCRIPTION_CHANGED = "subscription_changed"
    METADATA_CHANGED = "metadata_changed"
    HAND_OVER = "hand_over"


class CauseSource(Word):
    """What a cause is known from."""

    LOG = "log"
    RECORDS = "records"
    INFERRED = "inferred"


class CoordinatorEvent(Word):
    """What happened to a group, as its coordinator logged it; ``rebalance_seen`` is of a poll instead."""

    REBALANCE_SEEN = "rebalance_seen"
    REBALANCE_STARTED = "rebalance_started"
    STABILIZED = "stabilized"
    ASSIGNMENT_RECEIVED = "assignment_received"
    ASSIGNMENT_INCOMPLETE = "assignment_incomplete"
    NO_MEMBER_REJOINED = "no_member_rejoined"
    EMPTIED = "emptied"
    DEAD = "dead"
    DELETED = "deleted"
    MEMBER_CREATED = "member_created"
    MEMBER_JOINED = "member_joined"
    MEMBER_EXPIRED = "member_expired"
    MEMBER_LEFT = "member_left"
    MEMBER_FENCED = "member_fenced"
    MEMBER_STATE = "member_state"
    JOINERS_REMOVED = "joiners_removed"
    SYNC_TIMED_OUT = "sync_timed_out"
    LEADER_REPLACED = "leader_replaced"
    PENDING_LEFT = "pending_left"
    PENDING_EXPIRED = "pending_expired"
    STATIC_JOINED = "static_joined"
    STATIC_REPLACED = "static_replaced"
    STATIC_RETURNED = "static_returned"
    STATIC_LEFT_TEMPORARILY = "static_left_temporarily"
    STATIC_FENCED = "static_fenced"
    INSTANCE_ID_REFUSED = "instance_id_refused"
    SUBSCRIPTION_UPDATED = "subscription_updated"
    EPOCH_BUMPED = "epoch_bumped"
    TARGET_COMPUTED = "target_computed"
    TARGET_FAILED = "target_failed"
    CONVERTED_TO_CONSUMER = "converted_to_consumer"
    CONVERTED_TO_CLASSIC = "converted_to_classic"
    UPGRADE_REFUSED = "upgrade_refused"
    DOWNGRADE_REFUSED = "downgrade_refused"
    CLASSIC_JOIN_REFUSED = "classic_join_refused"
    GROUP_LOADED = "group_loaded"
    GROUP_UNLOADED = "group_unloaded"


class RebalanceReason(Word):
    """Why a coordinator began a rebalance, or fenced a member."""

    JOINED = "joined"
    REJOINED = "rejoined"
    LEADER_REJOINED = "leader_rejoined"
    METADATA_UPDATED = "metadata_updated"
    STATIC_UPDATED = "static_updated"
    STATIC_PROTOCOL_CHANGED = "static_protocol_changed"
    HEARTBEAT_EXPIRED = "heartbeat_expired"
    LEFT = "left"
    SYNC_EXPIRED = "sync_expired"
    ASSIGNMENT_NOT_STORED = "assignment_not_stored"
    OVER_CAPACITY = "over_capacity"
    DOWNGRADED = "downgraded"
    SESSION_EXPIRED = "session_expired"
    REBALANCE_TIMED_OUT = "rebalance_timed_out"
    SYNC_TIMED_OUT = "sync_timed_out"
    JOIN_TIMED_OUT = "join_timed_out"
    OTHER = "other"
