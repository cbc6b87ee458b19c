"""A cheapest maximum flow through a small network."""

from __future__ import annotations

from collections import deque

from assignors.budget import StepBudget


class FlowNetwork:
    """A directed network whose edges have a capacity and a cost per unit of at least 0.

    Worked example: two ways from 0 to 3, one unit each, the upper one cheaper. Both are used, the cheaper one first.

    >>> network = FlowNetwork(4)
    >>> for start, end, cost in ((0, 1, 0), (1, 3, 1), (0, 2, 0), (2, 3, 5)):
    ...     network.add_edge(start, end, 1, cost)
    >>> network.send(0, 3)
    (2, 6)

    Complexity: one search per distinct path cost and, within it, one per distinct path length; each linear in edges but for
    blocking flows and re-relaxation.
    Source: successive shortest paths (Jewell 1958; Busacker and Gowen 1960), with Dinic's blocking flows among paths of equal cost.
    """

    def __init__(self, node_count: int) -> None:
        self._edges_from: list[list[int]] = [[] for _ in range(node_count)]
        # An edge and its reverse are neighbours: the reverse of edge e is e ^ 1.
        self._end: list[int] = []
        self._room: list[int] = []
        self._cost: list[int] = []

    def add_edge(self, start: int, end: int, capacity: int, cost: int = 0) -> None:
        """Add an edge; edges between the same nodes are kept apart."""
        for source, target, room, price in ((start, end, capacity, cost), (end, start, 0, -cost)):
            self._edges_from[source].append(len(self._end))
            self._end.append(target)
            self._room.append(room)
            self._cost.append(price)

    def send(self, source: int, sink: int, budget: StepBudget | None = None) -> tuple[int, int]:
        """Return the largest flow from source to sink and its least cost. A network can be used once.

        Args:
            budget: bounds the work; a step is one node or edge looked at.

        Raises:
            NoResultError: the budget is used up.
        """
        budget = StepBudget(None) if budget is None else budget
        flow = cost = 0
        while (distances := self._distances(source, budget))[sink] is not None:
            while (levels := self._levels(source, distances, budget))[sink] is not None:
                edges = [iter(edges) for edges in self._edges_from]
                while sent := self._push(source, sink, distances, levels, edges, budget):
                    flow += sent
                    cost += sent * distances[sink]
        return flow, cost

    def _distances(self, source: int, budget: StepBudget) -> list[int | None]:
        """Return the cost of the cheapest path from the source to each node, None where there is none (Bellman and Ford)."""
        distances: list[int | None] = [None] * len(self._edges_from)
        distances[source] = 0
        queue, is_queued = deque([source]), [False] * len(self._edges_from)
        budget.spend(len(distances))
        while queue:
            node = queue.popleft()
            is_queued[node] = False
            budget.spend(len(self._edges_from[node]))
            for edge in self._edges_from[node]:
                end, distance = self._end[edge], distances[node] + self._cost[edge]
                if self._room[edge] and (distances[end] is None or distance < distances[end]):
                    distances[end] = distance
                    if not is_queued[end]:
                        is_queued[end] = True
                        queue.append(end)
        return distances

    def _levels(self, source: int, distances: list[int | None], budget: StepBudget) -> list[int | None]:
        """Return the number of edges of the shortest among the cheapest paths to each node, None where there is none."""
        levels: list[int | None] = [None] * len(self._edges_from)
        levels[source] = 0
        queue = deque([source])
        budget.spend(len(levels))
        while queue:
            node = queue.popleft()
            budget.spend(len(self._edges_from[node]))
            for edge in self._edges_from[node]:
                end = self._end[edge]
                if self._room[edge] and levels[end] is None and distances[end] == distances[node] + self._cost[edge]:
                    levels[end] = levels[node] + 1
                    queue.append(end)
        return levels

    def _push(self, source: int, sink: int, distances: list[int | None], levels: list[int | None], edges: list, budget: StepBudget) -> int:
        """Send as much as fits along one shortest cheapest path; return how much, 0 when none is left."""
        path: list[int] = []
        node = source
        while node != sink:
            for edge in edges[node]:
                end = self._end[edge]
                if self._room[edge] and levels[end] == levels[node] + 1 and distances[end] == distances[node] + self._cost[edge]:
                    path.append(edge)
                    node = end
                    break
            else:
                if not path:
                    return 0
                # A dead end: the iterator of the node before has already moved on.
                node = self._end[path.pop() ^ 1]
        budget.spend(len(path))
        sent = min(self._room[edge] for edge in path)
        for edge in path:
            self._room[edge] -= sent
            self._room[edge ^ 1] += sent
        return sent
