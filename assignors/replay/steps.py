"""What a replay takes and gives: snapshots, solutions, and the state from one generation to the next."""

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
        joined_at_ms: when the members had joined; the record's time where the value has none.
        incarnation: names this life of the group.
        strategy: the assignor that the group selected; None without members.
        is_conversion: written by the coordinator when it turned the group to the other protocol; no assignor ran.
        members: in record order.
        assigned: member id -> what the leader gave it, for every member.
        subscription_versions: member id -> version of its subscription; None or negative where it is not known.
        client_ids: member id -> its client id.
        has_subscriptions: whether the source tells what members subscribe to; else it is taken to be all that any of them holds.
        is_generation_inferred: the source tells no generations, and ``generation`` counts what it shows.
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
        """Return whether the source shows what a group is at a moment, and not what happened to it."""
        return self.is_generation_inferred or not self.has_subscriptions


@dataclass(frozen=True, slots=True)
class Solution:
    """What one basis and strategy gives for one snapshot.

    Attributes:
        assignment: None where the status says that there is none.
        detail: what the assignor said when it had no result.
        kafka_version: the release that was computed; None for observed.
        rebalance_count: calls of the assignor.
        cooperative_revocation_count: summed over the calls of one step; None where it was one call, whose result tells it.
        conformance: recomputed compared with observed; repeated on observed, None on counterfactual.
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
        has_predecessor: False where the generation before is not known.
    """

    snapshot: Snapshot
    topics: tuple[ResolvedTopic, ...]
    has_predecessor: bool
    is_rewrite: bool
    is_follow_up: bool
    solutions: tuple[Solution, ...]


@dataclass(frozen=True, slots=True)
class State:
    """All that the next step needs of the history before it.

    Attributes:
        recurrence: what has happened again and again until now; whoever plays the history sees to it. None where nobody does.
    """

    step: Step
    chains: Mapping[str, Settled]
    recurrence: Recurrence | None = None
