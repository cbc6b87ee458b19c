"""The words that tables store. A value is the stored string: changing one is a migration."""

from __future__ import annotations

from enum import Enum

EXPIRED = "expired"
"""Kind of the skipped records that are older than what retention keeps."""

MOST_LAG = 2**63 - 1
"""What a lag has room for; a capture may hold offsets that no log reaches, and commits below 0."""


class Word(str, Enum):
    """A stored string; ``str()`` and formatting give the string itself on every Python version."""

    _value_: str

    def __str__(self) -> str:
        return self.value


class GroupType(Word):
    """Which rebalance protocol a group speaks."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class GroupState(Word):
    """State of the group when its record was written, as Kafka names it."""

    STABLE = "Stable"
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"


class Basis(Word):
    """Where an assignment comes from."""

    OBSERVED = "observed"
    RECOMPUTED = "recomputed"
    COUNTERFACTUAL = "counterfactual"


class Status(Word):
    """How the assignment of one basis and strategy came about, or why there is none."""

    SOLVED = "solved"
    CARRIED = "carried"
    NO_RESULT = "no_result"
    KAFKA_ERROR = "kafka_error"
    OVER_BUDGET = "over_budget"
    UNSUPPORTED = "unsupported"


WITH_RESULT = (Status.SOLVED, Status.CARRIED)
"""There is an assignment."""

WITHOUT_RESULT = (Status.NO_RESULT, Status.KAFKA_ERROR, Status.OVER_BUDGET)
"""The assignor is there and gave nothing; it may give something in the next generation."""


class Conformance(Word):
    """How a recomputed assignment compares with the observed one."""

    EXACT = "exact"
    EQUAL_SETS = "equal_sets"
    EQUAL_BALANCE = "equal_balance"
    DIFFERS = "differs"
    NOT_COMPARABLE = "not_comparable"


class Flavour(Word):
    """Client library of a group's leader, as far as its bytes tell."""

    JAVA = "java"
    LIBRDKAFKA = "librdkafka"
    KAFKA_PYTHON = "kafka-python"
    FRANZ_GO = "franz-go"
    SARAMA = "sarama"
    KAFKAJS = "kafkajs"


class TopicBasis(Word):
    """Which look at the cluster gave a topic's partitions."""

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
    """What became of a run; readers follow ``published`` only."""

    PUBLISHED = "published"
    FAILED = "failed"
    REFUSED = "refused"


class Outcome(Word):
    """Where an input record ended: exactly one of these."""

    LANDED = "landed"
    DUPLICATE = "duplicate"
    SKIPPED = "skipped"
    QUARANTINED = "quarantined"


class PlacedBy(Word):
    """The record beside it by which one that tells no place stands where it does: of the same group, told in the same part."""

    PREVIOUS = "previous"
    NEXT = "next"
    BOTH = "both"


class Source(Word):
    """Which kind of capture a row came from."""

    CONSUMER_OFFSETS = "consumer-offsets"
    DUMP_LOG = "dump-log"
    FORMATTER_JSON = "formatter-json"
    SNAPSHOT = "snapshot"
    DESCRIBE = "describe"
    CLUSTER_METADATA = "cluster-metadata"


LOG_SOURCES = (Source.CONSUMER_OFFSETS, Source.DUMP_LOG)
"""The sources whose records have a place in the log of ``__consumer_offsets``: a partition and an offset."""

SOURCES_OF_GROUPS = (*LOG_SOURCES, Source.FORMATTER_JSON, Source.SNAPSHOT, Source.DESCRIBE)
"""The sources that tell of groups, the one that tells most first. A group has one: a better one takes the place of a lesser."""


class ResumeOutcome(Word):
    """Where a consumer that is given a partition reads on."""

    COMMITTED = "committed"
    RESET_NONE = "reset_none"
    RESET_OUT_OF_RANGE = "reset_out_of_range"
    UNKNOWN = "unknown"


class Rule(Word):
    """Rules that make findings, in the order of ``docs/findings.md``."""

    PARTITION_MULTIPLY_OWNED = "partition_multiply_owned"
    PARTITIONS_LEFT_OUT = "partitions_left_out"
    IDLE_MEMBERS = "idle_members"
    MORE_MEMBERS_THAN_PARTITIONS = "more_members_than_partitions"
    RANGE_CROWDED = "range_crowded"
    REBALANCE_STORM = "rebalance_storm"
    RESTART_LOOP = "restart_loop"
    PARTITION_FLAPPING = "partition_flapping"
    DUPLICATE_INSTANCE_ID = "duplicate_instance_id"
    DISJOINT_SUBSCRIPTIONS = "disjoint_subscriptions"
    TOPICS_MISSING = "topics_missing"
    STICKY_GENERAL_PATH = "sticky_general_path"
    PROTOCOLS_MIXED = "protocols_mixed"
    STALE_CLAIMS = "stale_claims"
    ASSIGNOR_NOT_SHARED = "assignor_not_shared"
    UPGRADE_BLOCKED = "upgrade_blocked"
    CONFORMANCE_DIFFERS = "conformance_differs"
    ASSIGNOR_LIVELOCK = "assignor_livelock"
    NO_RESULT = "no_result"
    OWN_ASSIGNOR_UNSOUND = "own_assignor_unsound"
    TOPIC_BASIS_UNCERTAIN = "topic_basis_uncertain"
    CONFLICTING_RECORDS = "conflicting_records"
    COMMITS_UNSUBSCRIBED = "commits_unsubscribed"
    MEMBERS_NEVER_COMMIT = "members_never_commit"
    COORDINATOR_HOT = "coordinator_hot"


STRATEGIES = ("range", "roundrobin", "sticky", "cooperative-sticky")
"""The client-side assignors, in the order in which reports list them."""

DEFAULT_SERVER_STRATEGY = "uniform"
"""What brokers use for a KIP-848 group whose members ask for nothing: the first of ``group.consumer.assignors``."""

SERVER_STRATEGIES_BY_NAME = {"range": "server-range"}
"""Brokers' own assignors that are called something else here, since clients have another of that name."""
