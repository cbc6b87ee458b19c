"""The replay of a group's history: the result of its own assignor, and of every other one, step by step.

Each stored generation is one step. *Recomputed* is the result of the group's own assignor for the recorded subscriptions and claims.
*Counterfactual* is the result of a strategy as if it had assigned all generations: its claims are its own previous result, so that
strategies are compared over the same history. A state that is small enough to store continues the replay in the next run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from assignors import assign
from assignors.algorithms.plugin import Bound, OwnAssignorError, ask_own_assignor, text_of, unbounded
from assignors.generation.generation import COOPERATIVE, SERVER_SIDE, WITHOUT_CLAIMS, Generation, is_follow_up, owner_of
from assignors.model import Assignment, AssignorError, GroupProblem, KafkaAssignorError, Member, NoResultError, Topic, TopicPartition
from assignors.registry import BUILT_IN, is_path
from assignors.replay.chains import ClaimsByOwner, Settled, claiming, held_by_owner, start_of_chain
from assignors.replay.conformance import Conformance, compare_assignments
from assignors.replay.steps import CARRIED, COUNTERFACTUAL, OBSERVED, RECOMPUTED, SOLVED, Snapshot, Solution, State, Step
from assignors.replay.topic_ids import with_topic_ids
from assignors.replay.topic_metadata import ClusterLooks, LookBasis, ResolvedTopic
from assignors.replay.unknowns import could_differ_by_unknowns

NO_RESULT, KAFKA_ERROR, OVER_BUDGET, UNSUPPORTED = "no_result", "kafka_error", "over_budget", "unsupported"

MOST_CALLS = 8
"""The most rebalances of one cooperative hand-over. It takes two, seldom three; after eight it will not settle."""

NEWEST_KAFKA = "4.4.0"
"""The newest release whose classes the assignors were checked against."""

RELEASES_BY_SUBSCRIPTION_VERSION = (
    ("2.3.1", "2.2.2", "2.0.1"),
    ("3.3.2", "2.8.2", "2.8.0", "2.4.1"),
    (NEWEST_KAFKA, "3.4.1", "3.7.0", "3.5.1", "3.4.0"),
)
"""Releases that write subscriptions of version 0, 1, and 2 or newer, most likely first; one for each behaviour."""

RELEASES_OF_BROKERS = (NEWEST_KAFKA, "4.0.0", "3.9.1")
"""Releases of the brokers' own assignors, most likely first; one for each behaviour. No record has the broker's release."""

UNRESOLVED = "id:"
"""Prefix of the name of a topic of which only the id is known."""


VersionOverride = Callable[[str], "str | None"]
"""Client id of a leader -> the release that the settings name for it; None if they name none."""


@dataclass(frozen=True)
class Replay:
    """The rules of one replay, the same for every step of a group.

    Attributes:
        strategies: assignors to compare; the group's own is added if it is one of ours.
        step_budget: step limit of one call of an assignor; None: its default.
        version_override: see ``VersionOverride``.
        bound: time limit of assignors that are not ours; ours have only the step limit.
    """

    strategies: tuple[str, ...]
    step_budget: int | None = None
    version_override: VersionOverride = lambda client_id: None
    bound: Bound = unbounded

    def advance(self, state: State | None, snapshot: Snapshot, looks: ClusterLooks) -> State:
        """Return the state after one more snapshot; its ``step`` has the solutions."""
        before = state.step if state is not None and state.step.snapshot.incarnation == snapshot.incarnation else None
        chains = state.chains if state is not None and before is not None else {}
        if before is not None and (_is_static_rewrite(before.snapshot, snapshot) or _is_another_poll(before.snapshot, snapshot)):
            return self._rewritten(before, chains, replace(snapshot, joined_at_ms=before.snapshot.joined_at_ms), looks)
        topics = _resolve_topics(snapshot, before, looks)
        problem = _problem(_claiming_targets(snapshot, before), topics)
        follows = before is not None and is_follow_up(_observed_generation(before), Generation(0, snapshot.strategy or "", problem, {}))
        is_start = before is None and not _is_beginning(snapshot)
        recomputed = self._recompute(snapshot, problem, topics, _lacks_claims(snapshot, before, is_start))
        was_assigned = bool(snapshot.members) and not snapshot.is_conversion
        observed = Solution(
            OBSERVED,
            snapshot.strategy or "",
            SOLVED,
            snapshot.assigned,
            rebalance_count=int(was_assigned),
            conformance=recomputed.conformance,
        )
        counterfactuals, chains = self._counterfactuals(snapshot, problem, before, chains, follows)
        step = Step(snapshot, topics, not is_start, False, follows, (observed, recomputed, *counterfactuals))
        return State(step, chains)

    def _rewritten(self, before: Step, chains: Mapping[str, Settled], snapshot: Snapshot, looks: ClusterLooks) -> State:
        """Repeat the solutions of the snapshot before with the current member ids, because no assignor ran."""
        names = _new_names(before.snapshot, snapshot)
        solutions = tuple(
            replace(
                solution,
                assignment=snapshot.assigned if solution.basis == OBSERVED else _renamed(solution.assignment, names),
                status=SOLVED if solution.basis == OBSERVED else CARRIED if solution.assignment is not None else solution.status,
                rebalance_count=0,
                cooperative_revocation_count=None,
            )
            for solution in before.solutions
        )
        topics = _resolve_topics(snapshot, before, looks)
        return State(Step(snapshot, topics, True, True, False, solutions), chains)

    # -- recomputed

    def _recompute(self, snapshot: Snapshot, problem: GroupProblem, topics: Sequence[ResolvedTopic], lacks_claims: bool) -> Solution:
        strategy = snapshot.strategy or ""
        if not snapshot.members:
            return Solution(RECOMPUTED, strategy, SOLVED, {}, rebalance_count=0, conformance=Conformance.NOT_COMPARABLE)
        if is_path(strategy) and strategy not in self.strategies:
            # Anybody who can join a group chooses the name in its record. It must never name code to run.
            said = f"the record names the assignor {strategy!r}: a path is called only if the settings name it as a strategy"
            return Solution(RECOMPUTED, strategy, UNSUPPORTED, None, said, conformance=Conformance.NOT_COMPARABLE)
        first: Solution | None = None
        for release in self._releases(snapshot):
            solution = self._solve(RECOMPUTED, strategy, problem, release)
            solution = replace(solution, conformance=_conformance(snapshot, solution, topics))
            if solution.conformance is Conformance.EXACT:
                return solution
            first = first or solution
            if solution.conformance is Conformance.NOT_COMPARABLE and solution.status in (SOLVED, UNSUPPORTED):
                break  # another release would not be comparable either
        assert first is not None  # there is always a release
        if first.conformance is Conformance.DIFFERS and could_differ_by_unknowns(strategy, problem, topics, lacks_claims=lacks_claims):
            return replace(first, conformance=Conformance.NOT_COMPARABLE)
        return first

    def _releases(self, snapshot: Snapshot) -> tuple[str, ...]:
        if snapshot.strategy in SERVER_SIDE:
            return RELEASES_OF_BROKERS
        leader = snapshot.leader_member_id or snapshot.members[0].member_id
        named = self.version_override(snapshot.client_ids.get(leader) or "")
        if named is not None:
            return (named,)
        version = snapshot.subscription_versions.get(leader)
        return RELEASES_BY_SUBSCRIPTION_VERSION[2 if version is None or version < 0 else min(version, 2)]

    def _solve(self, basis: str, strategy: str, problem: GroupProblem, release: str, call: int = 1) -> Solution:
        """Return the result of one call of an assignor as a solution; an error becomes a status.

        Args:
            call: its number among the calls of one step.
        """
        try:
            if strategy in BUILT_IN:
                problem = with_topic_ids(problem) if strategy in SERVER_SIDE else problem
                assignment = self._ask(strategy, problem, release)
            else:
                assignment = ask_own_assignor(strategy, problem, release, self.step_budget, self.bound)
        except AssignorError as error:
            return Solution(basis, strategy, status_of(error), None, text_of(error), release, call)
        return Solution(basis, strategy, SOLVED, assignment, None, release, call)

    def _ask(self, strategy: str, problem: GroupProblem, release: str) -> Assignment:
        """Return the assignment of one of our assignors. The problem keeps it if it does not depend on claims: two bases need it."""
        answer = f"{strategy} {release}"
        if answer in problem.answers:
            known: Assignment = problem.answers[answer]
            return known
        assignment = assign(strategy, problem, kafka_version=release, step_budget=self.step_budget)
        if strategy in WITHOUT_CLAIMS:
            problem.answers[answer] = assignment
        return assignment

    # -- counterfactual

    def _counterfactuals(
        self, snapshot: Snapshot, problem: GroupProblem, before: Step | None, chains: Mapping[str, Settled], follows: bool
    ) -> tuple[list[Solution], dict[str, Settled]]:
        own = (snapshot.strategy,) if snapshot.strategy in BUILT_IN and snapshot.strategy not in self.strategies else ()
        is_start = before is None and not _is_beginning(snapshot)
        start = start_of_chain(snapshot.generation, snapshot.strategy, problem, snapshot.assigned) if is_start else None
        next_chains = {}
        solutions = []
        for strategy in (*self.strategies, *own):
            settled = chains.get(strategy, start)
            solution = self._counterfactual(strategy, snapshot, problem, before, settled, follows)
            solutions.append(solution)
            if solution.assignment is not None and not follows:
                settled = Settled(snapshot.generation, held_by_owner(snapshot.members, solution.assignment))
            if settled is not None and snapshot.members:
                next_chains[strategy] = settled
        return solutions, next_chains

    def _counterfactual(
        self, strategy: str, snapshot: Snapshot, problem: GroupProblem, before: Step | None, settled: Settled | None, follows: bool
    ) -> Solution:
        if not snapshot.members:
            return Solution(COUNTERFACTUAL, strategy, SOLVED, {}, rebalance_count=0)
        if follows and before is not None:
            last = next((s for s in before.solutions if s.basis == COUNTERFACTUAL and s.strategy == strategy), None)
            if last is not None:
                status = CARRIED if last.assignment is not None else last.status
                return replace(last, status=status, rebalance_count=0, cooperative_revocation_count=None)
        if settled is None:
            return self._play_until_settled(strategy, problem, {}, None, snapshot.generation)
        if before is None:  # the history of this generation is not known, so no call counts as its cost
            solution = self._play_until_settled(strategy, problem, settled.held, settled.generation, snapshot.generation)
            return replace(solution, rebalance_count=0, cooperative_revocation_count=None)
        if strategy in WITHOUT_CLAIMS:
            return self._play_until_settled(strategy, problem, {}, None, snapshot.generation)
        known = {owner_of(member) for member in before.snapshot.members}
        claims = {owner: held for owner, held in settled.held.items() if owner in known}
        return self._play_until_settled(strategy, problem, claims, settled.generation, snapshot.generation)

    def _play_until_settled(
        self, strategy: str, problem: GroupProblem, claims: ClaimsByOwner, claimed_at: int | None, generation: int
    ) -> Solution:
        """Call a strategy once. A cooperative one is called until no member gives up a partition that it claims."""
        revoked_count = 0
        for call in range(1, MOST_CALLS + 1):
            solution = self._solve(COUNTERFACTUAL, strategy, claiming(strategy, problem, claims, claimed_at), NEWEST_KAFKA, call)
            if solution.assignment is None or strategy not in COOPERATIVE:
                return solution
            given = held_by_owner(problem.members, solution.assignment)
            given_up = sum(len(set(claims.get(owner, ())).difference(held)) for owner, held in given.items())
            revoked_count += given_up
            if not given_up:
                return replace(solution, cooperative_revocation_count=revoked_count)
            claims, claimed_at = given, generation
        detail = f"members still give up partitions after {MOST_CALLS} calls"
        return Solution(COUNTERFACTUAL, strategy, OVER_BUDGET, None, detail, NEWEST_KAFKA, rebalance_count=MOST_CALLS)


def status_of(error: AssignorError) -> str:
    """Return the status of a solution that there is not, by what stopped its assignor."""
    if isinstance(error, NoResultError):
        return NO_RESULT if getattr(error, "is_cycle", False) else OVER_BUDGET  # a plug-in's subclass may lack it
    if isinstance(error, OwnAssignorError):
        return NO_RESULT
    return KAFKA_ERROR if isinstance(error, KafkaAssignorError) else UNSUPPORTED


def _is_beginning(snapshot: Snapshot) -> bool:
    """Return whether a first snapshot is the real beginning of a group, and not the rest after log compaction.

    A broker's first target has epoch 1 or 2, by its release, and no member has partitions yet. In a compacted log the second condition is
    no sign: its first target nearly always comes before the records of the members' partitions. A snapshot from a source that shows
    a group at one moment is a beginning only if the group has no members.
    """
    if snapshot.is_poll:
        return not snapshot.members
    is_brokers = snapshot.strategy in SERVER_SIDE and not snapshot.is_conversion
    is_first_target = is_brokers and snapshot.generation == 2 and not any(member.owned for member in snapshot.members)
    return snapshot.generation <= 1 or not snapshot.members or is_first_target


def _lacks_claims(snapshot: Snapshot, before: Step | None, is_start: bool) -> bool:
    """Return whether the assignor saw claims, or the target before, and neither is known.

    A broker's assignor starts from the target before. A generation in between that has no record, or that no poll saw, had another one.
    """
    if snapshot.strategy in SERVER_SIDE:
        is_missing = before is not None and (snapshot.is_poll or snapshot.generation > before.snapshot.generation + 1)
        return is_start or is_missing
    if any(member.owned or member.user_data for member in snapshot.members):
        return False
    is_silent = all(snapshot.subscription_versions.get(member.member_id) is None for member in snapshot.members)
    return is_start or (before is not None and snapshot.is_poll and is_silent)


def _claiming_targets(snapshot: Snapshot, before: Step | None) -> tuple[Member, ...]:
    """Return the members as their assignor saw them. A broker's starts from the target before, even if members have not reached it.

    A member without an epoch, while others have one, is new. If the target before has it, it left in between and came back, and its
    part was removed (``GroupMetadataManager.removeMember``, 4.3.1).
    """
    if snapshot.strategy not in SERVER_SIDE:
        return snapshot.members
    targets = {}
    if before is not None:
        targets = {owner_of(member): before.snapshot.assigned[member.member_id] for member in before.snapshot.members}
    if any(member.owned_generation is not None for member in snapshot.members):
        for member in snapshot.members:
            if member.owned_generation is None:
                targets.pop(owner_of(member), None)
    return tuple(replace(member, owned=targets.get(owner_of(member), ())) for member in snapshot.members)


def _is_static_rewrite(before: Snapshot, snapshot: Snapshot) -> bool:
    """Return whether only member ids have changed. A broker's records have partitions in the order of a set, which may differ."""
    if before.generation != snapshot.generation or not snapshot.members:
        return False
    old = {owner_of(member): set(before.assigned[member.member_id]) for member in before.members}
    new = {owner_of(member): set(snapshot.assigned[member.member_id]) for member in snapshot.members}
    return old == new and {member.member_id for member in before.members} != {member.member_id for member in snapshot.members}


def _is_another_poll(before: Snapshot, snapshot: Snapshot) -> bool:
    """Return whether a snapshot at one moment shows the same generation again, with the same members in static or dynamic membership.

    Polls have the partitions of a member in any order.
    """
    if not snapshot.is_poll or (before.generation, before.strategy) != (snapshot.generation, snapshot.strategy):
        return False
    old, new = ({member_id: set(held) for member_id, held in one.assigned.items()} for one in (before, snapshot))
    return old == new and {owner_of(member) for member in before.members} == {owner_of(member) for member in snapshot.members}


def _new_names(before: Snapshot, snapshot: Snapshot) -> dict[str, str]:
    now = {owner_of(member): member.member_id for member in snapshot.members}
    return {member.member_id: now[owner_of(member)] for member in before.members}


def _renamed(assignment: Assignment | None, names: Mapping[str, str]) -> Assignment | None:
    return None if assignment is None else {names.get(member_id, member_id): held for member_id, held in assignment.items()}


def _resolve_topics(snapshot: Snapshot, before: Step | None, looks: ClusterLooks) -> tuple[ResolvedTopic, ...]:
    """Return the subscribed topics, and those held in the generation before, so that a deleted topic differs from an abandoned one."""
    subscribed = {topic for member in snapshot.members for topic in member.topics}
    given = _by_topic(snapshot.assigned.values())
    claimed = _by_topic(member.owned for member in snapshot.members)
    earlier = before.snapshot.assigned.values() if before is not None else ()
    abandoned = {topic for held in earlier for topic, _ in held}.difference(subscribed)
    nothing: frozenset[int] = frozenset()
    existing = {} if before is None else {topic.topic: (before.snapshot.joined_at_ms, topic.partition_count) for topic in before.topics}

    def resolved(topic: str) -> ResolvedTopic:
        if topic not in subscribed:
            return looks.resolve(topic, snapshot.joined_at_ms, nothing, is_abandoned=True, is_empty=not snapshot.members)
        of_topic = (given.get(topic, nothing), claimed.get(topic, nothing))
        return looks.resolve(topic, snapshot.joined_at_ms, *of_topic, existing_before=existing.get(topic, (0, 0)))

    return tuple(resolved(topic) for topic in sorted({*subscribed, *abandoned}))


def _by_topic(lists: Iterable[Iterable[TopicPartition]]) -> dict[str, set[int]]:
    numbers: dict[str, set[int]] = {}
    for held in lists:
        for topic, partition in held:
            numbers.setdefault(topic, set()).add(partition)
    return numbers


def _problem(members: tuple[Member, ...], topics: Sequence[ResolvedTopic]) -> GroupProblem:
    return GroupProblem(
        {topic.topic: Topic(topic.partition_count, topic.partition_racks, topic.topic_id) for topic in topics if topic.partition_count},
        members,
    )


def _observed_generation(step: Step) -> Generation:
    snapshot = step.snapshot
    return Generation(snapshot.generation, snapshot.strategy or "", _problem(snapshot.members, step.topics), snapshot.assigned)


def _conformance(snapshot: Snapshot, solution: Solution, topics: Sequence[ResolvedTopic]) -> Conformance:
    if snapshot.is_conversion or not snapshot.has_subscriptions or solution.assignment is None or solution.strategy not in BUILT_IN:
        return Conformance.NOT_COMPARABLE
    subscribed = {topic for member in snapshot.members for topic in member.topics}
    if any(topic.basis is LookBasis.INFERRED and topic.topic in subscribed for topic in topics):
        return Conformance.NOT_COMPARABLE
    if any(topic.startswith(UNRESOLVED) for held in snapshot.assigned.values() for topic, _ in held):
        return Conformance.NOT_COMPARABLE
    return compare_assignments(snapshot.assigned, solution.assignment)
