from __future__ import annotations

from collections import defaultdict

from assignors.budget import StepBudget
from assignors.model import KafkaAssignorError, NoResultError
from assignors.ordering import first_in_hash_set, java_order
from assignors.sticky.user_data import NO_GENERATION
from assignors.topics import partitions_of


def assign_general(members, data, counts, claims, racks, step_budget):
    return _General(members, data, counts, claims, racks, StepBudget(step_budget)).run()


class _General:
    def __init__(self, members, data, counts, claims, racks, budget):
        self.members = members
        self.counts = counts
        self.racks = racks
        self.budget = budget
        self.ranks = [java_order(m.member_id) for m in members]
        self.t2c = {t: [] for t in counts}
        self.c2t = []
        for c, m in enumerate(members):
            mine = [t for t in m.topics if t in counts]
            self.c2t.append(mine)
            for t in mine:
                self.t2c[t].append(c)
        self.total = sum(counts.values())
        self.cur = dict(enumerate(claims.owned))
        self.owner = {tp: c for c, o in self.cur.items() for tp in o}
        self.data = data
        self.highest = claims.highest_generation
        self.mov = {}
        self.sets = defaultdict(dict)  # topic -> pair -> [dict of partition, largest]

    def s_order(self):
        return sorted(self.cur, key=self.s_key)

    def s_key(self, c):
        return (len(self.cur[c]), self.ranks[c])

    def run(self):
        counts, t2c, cur, owner = self.counts, self.t2c, self.cur, self.owner
        topics = sorted(counts, key=lambda t: (len(t2c[t]), java_order(t)))
        every = [tp for t in topics for tp in partitions_of(t, counts[t])]
        revocation = False
        assigned = []
        for c in list(cur):
            keep = []
            for tp in cur[c]:
                if tp[0] not in self.c2t[c] or self.racks.is_mismatch(c, tp):
                    revocation = True
                else:
                    keep.append(tp)
            cur[c] = keep
            assigned += keep
        if assigned:
            assigned.sort(key=lambda tp: (len(t2c[tp[0]]), java_order(tp[0]), tp[1]))
            pointer = 0
            unassigned = []
            for tp in every:
                if pointer < len(assigned) and assigned[pointer] == tp:
                    pointer += 1
                else:
                    unassigned.append(tp)
        else:
            unassigned = list(every)
        prev = {}
        for c, d in enumerate(self.data):
            if d.generation is not None and d.generation < self.highest:
                g = d.generation
            elif d.generation is None and self.highest > NO_GENERATION:
                g = NO_GENERATION
            else:
                continue
            for tp in d.partitions:
                if tp not in prev or prev[tp][1] < g:
                    prev[tp] = (c, g)
        self.prev = prev
        initializing = not cur[self.s_order()[-1]]
        to_assign = unassigned
        if self.racks.is_active:
            to_assign = [tp for tp in unassigned if not self.place(tp, True)]
        for tp in to_assign:
            self.place(tp, False)
        fixed = {t for t in counts if len(t2c[t]) < 2}
        gone = {tp for t in fixed for tp in partitions_of(t, counts[t])}
        every = [tp for tp in every if tp not in gone]
        unassigned = [tp for tp in unassigned if tp not in gone]
        saved = {c: cur.pop(c) for c in list(cur) if not self.can_participate(c)}
        before = {c: list(o) for c, o in cur.items()}
        if not revocation:
            self.reassign(unassigned)
        changed = self.reassign(every)
        if not initializing and changed and self.score(cur) >= self.score(before):
            self.cur = cur = before
        return [cur[c] if c in cur else saved[c] for c in range(len(self.members))]

    def place(self, tp, racked):
        best = None
        for c in self.t2c[tp[0]]:
            if racked and self.racks.is_mismatch(c, tp):
                continue
            if best is None or self.s_key(c) < self.s_key(best):
                best = c
        if best is None:
            return False
        self.cur[best].append(tp)
        self.owner[tp] = best
        return True

    def max_size(self, c):
        if len(self.c2t[c]) == len(self.counts):
            return self.total
        return sum(self.counts[t] for t in self.c2t[c])

    def can_participate(self, c):
        return len(self.cur[c]) < self.max_size(c) or any(len(self.t2c[tp[0]]) >= 2 for tp in self.cur[c])

    def size(self, c):
        if c not in self.cur:
            raise KafkaAssignorError("NullPointerException", "no current assignment")
        return len(self.cur[c])

    def is_balanced(self):
        order = self.s_order()
        if not order:
            raise KafkaAssignorError("NoSuchElementException", "no member left to balance")
        if len(self.cur[order[0]]) >= len(self.cur[order[-1]]) - 1:
            return True
        owner = {tp: c for c, o in self.cur.items() for tp in o}
        for c in order:
            mine = self.cur[c]
            if len(mine) == self.max_size(c):
                continue
            held = set(mine)
            for t in self.c2t[c]:
                for tp in partitions_of(t, self.counts[t]):
                    if tp not in held and len(mine) + 1 < self.size(owner.get(tp)):
                        return False
        return True

    def state(self):
        return (
            tuple(sorted(self.owner.items())),
            tuple(sorted(self.mov.items())),
            tuple(sorted((t, p, tuple(s[0]), s[1]) for t, ps in self.sets.items() for p, s in ps.items())),
        )

    def reassign(self, partitions):
        changed = False
        seen = set()
        while True:
            state = self.state()
            if state in seen:
                raise NoResultError("cycle", is_cycle=True)
            seen.add(state)
            modified = False
            for tp in partitions:
                if self.is_balanced():
                    break
                c = self.owner.get(tp)
                if tp in self.prev and self.size(c) > self.size(self.prev[tp][0]) + 1:
                    self.move(tp, self.prev[tp][0])
                    modified = True
                elif self.has_better(tp, c):
                    self.move(tp, next(o for o in self.s_order() if tp[0] in self.c2t[o]))
                    modified = True
            if not modified:
                return changed
            changed = True

    def has_better(self, tp, c):
        return any(self.size(c) > self.size(o) + 1 for o in self.t2c[tp[0]])

    def move(self, tp, new):
        topic = tp[0]
        x = tp
        if topic in self.sets:
            old = self.mov[tp][0] if tp in self.mov else self.owner[tp]
            pair = self.sets[topic].get((new, old))
            if pair is not None:
                x = (topic, first_in_hash_set(topic, pair[0], pair[1]))
        old = self.owner[x]
        if x in self.mov:
            source, destination = self.mov.pop(x)
            pair = self.sets[topic][source, destination]
            del pair[0][x[1]]
            if not pair[0]:
                del self.sets[topic][source, destination]
                if not self.sets[topic]:
                    del self.sets[topic]
            if source != new:
                self.record(x, source, new)
        else:
            self.record(x, old, new)
        self.size(old)
        self.size(new)
        if x in self.cur[old]:
            self.cur[old].remove(x)
        self.cur[new].append(x)
        self.owner[x] = new

    def record(self, x, source, destination):
        self.mov[x] = (source, destination)
        pair = self.sets[x[0]].setdefault((source, destination), [{}, 0])
        pair[0][x[1]] = None
        pair[1] = max(pair[1], len(pair[0]))

    def score(self, cur):
        sizes = sorted(map(len, cur.values()))
        total = sum(v * (2 * i - len(sizes) + 1) for i, v in enumerate(sizes))
        return ((total + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)
