"""Input and result of a replay: snapshots, solutions, and the state between generations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from assignors.model import Assignment, Member
from assignors.replay.chains import Settled
from assignors.replay.conformance import Conformance
from assignors.replay.recurrence import Recurrence
from assignors.replay.topic_metadata import ResolvedTopic

SOLVED, CARRIED = "solved", "carried"
OBSERVED, RECOMPUTED, COUNTERFACTUAL = "observed", "recomputed", "counterfactual"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One stored generation of a group.

    Attributes:
        position: orders the snapshots of the group.
        joined_at_ms: when the members had joined; the record's time if the value has none.
        incarnation: identifies the incarnation of the group.
        strategy: the assignor that the group selected; None without members.
        is_conversion: the coordinator wrote it when the group changed to the other protocol; no assignor ran.
        members: in record order.
        assigned: member id -> its partitions, for every member.
        subscription_versions: member id -> version of its subscription; None or negative if it is not known.
        client_ids: member id -> its client id.
        has_subscriptions: whether the source has subscriptions; if not, each member counts as subscribed to all topics held in the group.
        is_generation_inferred: the source has no generations, and ``generation`` counts its snapshots.
        batched_epoch_count: group epochs since the snapshot before that have a record and no target; 0 for classic groups.
        client_hosts: member id -> the host it runs on.
    """

    position: int
    generation: int
    joined_at_ms: int
    incarnation: int
    strategy: str | None
    leader_member_id: str | None
    is_conversion: bool
    members: tuple[Member, ...]
    assigned: Assignment
    subscription_versions: Mapping[str, int | None]
    client_ids: Mapping[str, str | None]
    has_subscriptions: bool = True
    is_generation_inferred: bool = False
    batched_epoch_count: int = 0
    client_hosts: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def is_poll(self) -> bool:
        """Return whether the source shows the group at one moment, and not each change of it."""
        return self.is_generation_inferred or not self.has_subscriptions


@dataclass(frozen=True, slots=True)
class Solution:
    """The result of one basis and strategy for one snapshot.

    Attributes:
        assignment: None if the status has none.
        detail: why there is no result.
        kafka_version: the release whose behaviour was computed; None for observed.
        rebalance_count: calls of the assignor.
        cooperative_revocation_count: sum over the calls of one step; None for one call, whose result gives it.
        conformance: of recomputed and observed, which both have it; None for counterfactual.
    """

    basis: str
    strategy: str
    status: str
    assignment: Assignment | None
    detail: str | None = None
    kafka_version: str | None = None
    rebalance_count: int = 1
    cooperative_revocation_count: int | None = None
    conformance: Conformance | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One snapshot with all its solutions.

    Attributes:
        topics: subscribed topics, and those that the generation before held, by name.
        has_predecessor: False if the generation before is not known.
    """

    snapshot: Snapshot
    topics: tuple[ResolvedTopic, ...]
    has_predecessor: bool
    is_rewrite: bool
    is_follow_up: bool
    solutions: tuple[Solution, ...]


@dataclass(frozen=True, slots=True)
class State:
    """All of the history that the next step needs.

    Attributes:
        recurrence: the recurrences so far, updated by the caller of the replay; None if it does not.
    """

    step: Step
    chains: Mapping[str, Settled]
    recurrence: Recurrence | None = None
