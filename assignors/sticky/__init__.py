from __future__ import annotations

from assignors.model import Assignment, GroupProblem
from assignors.ordering import hash_map_order, sort_strings
from assignors.sticky.claims import cooperative_member_data, settle_claims, sticky_member_data
from assignors.sticky.constrained import assign_constrained
from assignors.sticky.general_literal import assign_general
from assignors.sticky.rack_info import RackInfo
from assignors.topics import existing_partition_counts


def _assign(problem, member_data, step_budget):
    by_id = {m.member_id: m for m in problem.members}
    ids = hash_map_order([m.member_id for m in problem.members])
    members = [by_id[i] for i in ids]
    counts = existing_partition_counts(problem)
    data = [member_data(m) for m in members]
    claims = settle_claims(members, data, counts)
    racks = RackInfo(problem, members, counts)
    if claims.are_subscriptions_equal:
        topics = [(name, counts[name]) for name in sort_strings(counts)]
        result, transferring = assign_constrained(ids, topics, claims, racks)
    else:
        result, transferring = assign_general(members, data, counts, claims, racks, step_budget), None
    return ids, members, result, transferring


def assign_sticky(problem: GroupProblem, *, kafka_version: str | None = None, step_budget: int | None = None) -> Assignment:
    ids, _, result, _ = _assign(problem, sticky_member_data, step_budget)
    return {i: tuple(r) for i, r in zip(ids, result)}


def assign_cooperative_sticky(problem: GroupProblem, *, kafka_version: str | None = None, step_budget: int | None = None) -> Assignment:
    ids, members, result, transferring = _assign(problem, cooperative_member_data, step_budget)
    if transferring is None:
        added = {}
        revoked = set()
        for c, (m, r) in enumerate(zip(members, result)):
            owned = set(m.owned)
            mine = set(r)
            revoked |= owned - mine
            added.update((tp, c) for tp in r if tp not in owned)
        transferring = {tp: c for tp, c in added.items() if tp in revoked}
    for tp, c in transferring.items():
        if tp in result[c]:
            result[c].remove(tp)
    return {i: tuple(r) for i, r in zip(ids, result)}
