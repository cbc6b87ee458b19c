from __future__ import annotations

from assignors.model import KafkaAssignorError, TopicPartition
from assignors.ordering import java_order
from assignors.sticky.claims import Claims
from assignors.sticky.rack_info import RackInfo
from assignors.topics import partitions_of


def assign_constrained(ids: list[str], counts: list[tuple[str, int]], claims: Claims, racks: RackInfo):
    n = len(ids)
    if n == 0:
        raise KafkaAssignorError("ArithmeticException", "/ by zero")
    total = sum(count for _, count in counts)
    low, expected = divmod(total, n)
    high = low + (expected > 0)
    over = 0
    result: list[list[TopicPartition]] = [[] for _ in ids]
    under: list[int] = []
    exact: list[int] = []
    assigned: list[TopicPartition] = []
    revoked: dict[TopicPartition, int] = {}
    for c, owned in enumerate(claims.owned):
        o = sorted((tp for tp in owned if not racks.is_mismatch(c, tp)), key=lambda tp: (tp[1], java_order(tp[0])))
        revoked.update((tp, c) for tp in owned if racks.is_mismatch(c, tp))
        o = [tp for tp in o if tp not in claims.contested]
        if len(o) < low:
            keep = len(o)
            under.append(c)
        elif len(o) >= high and over < expected:
            keep = high
            over += 1
            if over == expected:
                exact.clear()
        else:
            keep = low
            if over < expected:
                exact.append(c)
        result[c] = o[:keep]
        assigned += o[:keep]
        revoked.update((tp, c) for tp in o[keep:])
    unassigned = _unassigned(counts, assigned)
    under.sort(key=lambda c: java_order(ids[c]))
    exact.sort(key=lambda c: java_order(ids[c]))
    if racks.consumers_per_partition:
        unassigned.sort(key=lambda tp: racks.consumers_per_partition.get(tp, 0))
    transferring: dict[TopicPartition, int] = {}

    def give(tp, c):
        result[c].append(tp)
        if revoked.get(tp, c) != c or tp in claims.contested:
            transferring[tp] = c
        return len(result[c])

    def next_rack(tp, members, start):
        rs = racks.partition_racks.get(tp)
        if not rs:
            return -1
        for k in range(len(members)):
            i = (start + k) % len(members)
            if racks.consumer_racks[members[i]] in rs:
                return i
        return -1

    if racks.is_active:
        index = 0
        left = []
        for tp in unassigned:
            i = next_rack(tp, under, index)
            if i >= 0:
                c = under[i]
                k = len(result[c]) + 1
                if k >= low:
                    del under[i]
                    if k < high and over < expected:
                        exact.append(c)
                else:
                    i += 1
                index = i % len(under) if under else 0
            elif exact and (j := next_rack(tp, exact, 0)) >= 0:
                c = exact[j]
                if len(result[c]) + 1 == high:
                    del exact[j]
                    over += 1
                    if over == expected:
                        exact.clear()
            else:
                left.append(tp)
                continue
            give(tp, c)
        unassigned = left
    at = 0
    for tp in unassigned:
        if at >= len(under):
            at = 0
        if under:
            c = under[at]
            at += 1
        elif exact:
            c = exact.pop(0)
        else:
            raise KafkaAssignorError("IllegalStateException", "No more unfilled consumers to be assigned.")
        k = give(tp, c)
        if k == low:
            at -= 1
            under.remove(c)
            exact.append(c)
        elif k == high:
            over += 1
    if under and (over != expected or any(len(result[c]) != low for c in under)):
        raise KafkaAssignorError("IllegalStateException", "unfilled")
    return result, transferring


def _unassigned(counts, assigned):
    assigned = sorted(assigned, key=lambda tp: (java_order(tp[0]), tp[1]))
    pointer = 0
    left = []
    for name, count in counts:
        for tp in partitions_of(name, count):
            if pointer < len(assigned) and assigned[pointer] == tp:
                pointer += 1
            else:
                left.append(tp)
    return left
