"""A replay of ``java.util.HashMap`` key by key, with tree bins, for keys that collide too often for the short rule.

``ordering`` sorts keys by bucket, which is exact until a bucket is about to hold nine keys. Names built to collide (``Aa`` and ``BB``
have equal hashes) get there; then the JDK doubles a small table early and turns a bucket of a larger one into a red-black tree.
Iteration goes on following the bucket's chain, and three things move keys in it: a tree's root always goes to the head, a new
key is linked in behind its tree parent, and a split keeps the relative order.

Source: ``java.util.HashMap`` of JDK 8 to 21. Differs from source: keys are never removed; keys with equal hashes and no natural order
(Java breaks such ties by identity) are not supported.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

TREEIFY_LENGTH = 9
MIN_TREEIFY_CAPACITY = 64
_UNTREEIFY_LENGTH = 6
_MASK = 0xFFFFFFFF


class _Node:
    """A key in a chain; the tree links are used in tree bins only."""

    __slots__ = ("is_red", "key", "left", "parent", "rank", "right", "spread")

    def __init__(self, key: Hashable, spread: int, rank: tuple[int, Any]) -> None:
        self.key = key
        self.spread = spread
        self.rank = rank
        self.unlink()

    def unlink(self) -> None:
        self.parent: _Node | None = None
        self.left: _Node | None = None
        self.right: _Node | None = None
        self.is_red = False


class _Bin:
    """One bucket: its chain, and the root of its tree when it is a tree bin."""

    __slots__ = ("chain", "root")

    def __init__(self, chain: list[_Node]) -> None:
        self.chain = chain
        self.root: _Node | None = None

    def treeify(self) -> None:
        """Build the tree from the chain in chain order, then move the root to the head."""
        self.root = None
        for node in self.chain:
            node.unlink()
            self._insert(node)
        self._move_root_to_front()

    def add_to_tree(self, node: _Node) -> None:
        """Link a new node in behind its tree parent, then move the root to the head."""
        parent = self._insert(node)
        self.chain.insert(self.chain.index(parent) + 1, node)
        self._move_root_to_front()

    def _insert(self, node: _Node) -> _Node | None:
        """Insert into the tree and rebalance; return the parent that the node had before rebalancing."""
        parent, below = None, self.root
        while below is not None:
            parent, below = below, below.left if node.rank < below.rank else below.right
        if parent is None:
            self.root = node
            return None
        node.parent = parent
        if node.rank < parent.rank:
            parent.left = node
        else:
            parent.right = node
        self._rebalance(node)
        return parent

    def _rebalance(self, node: _Node) -> None:
        """Restore the red-black rules above a new node."""
        node.is_red = True
        while (parent := node.parent) is not None and parent.is_red and (grand := parent.parent) is not None:
            is_left = parent is grand.left
            uncle = grand.right if is_left else grand.left
            if uncle is not None and uncle.is_red:
                uncle.is_red = parent.is_red = False
                grand.is_red = True
                node = grand
                continue
            if node is (parent.right if is_left else parent.left):
                self._rotate(parent, to_left=is_left)
                node, parent = parent, node
            parent.is_red = False
            grand.is_red = True
            self._rotate(grand, to_left=not is_left)
        self.root.is_red = False

    def _rotate(self, node: _Node, *, to_left: bool) -> None:
        pivot = node.right if to_left else node.left
        inner = pivot.left if to_left else pivot.right
        if to_left:
            node.right, pivot.left = inner, node
        else:
            node.left, pivot.right = inner, node
        if inner is not None:
            inner.parent = node
        pivot.parent = node.parent
        if node.parent is None:
            self.root = pivot
        elif node.parent.left is node:
            node.parent.left = pivot
        else:
            node.parent.right = pivot
        node.parent = pivot

    def _move_root_to_front(self) -> None:
        self.chain.remove(self.root)
        self.chain.insert(0, self.root)


class HashMapSimulation:
    """The keys of a ``HashMap`` in its iteration order, for any insertion history."""

    def __init__(self, initial_capacity: int) -> None:
        self._capacity = initial_capacity
        self._bins: dict[int, _Bin] = {}
        self._known: set[Hashable] = set()

    def put(self, key: Hashable, key_hash: int, order_of: Callable[[Any], Any]) -> None:
        """Insert a key as ``put`` does: at the tail of its chain, growing afterwards."""
        if key in self._known:
            return
        self._add(key, key_hash, order_of, at_head=False)
        self._known.add(key)
        if 4 * len(self._known) > 3 * self._capacity:
            self._double()

    def compute_if_absent(self, key: Hashable, key_hash: int, order_of: Callable[[Any], Any]) -> None:
        """Insert a key as ``computeIfAbsent`` does: growing first, at the head of its chain."""
        if 4 * len(self._known) > 3 * self._capacity:
            self._double()
        if key in self._known:
            return
        self._add(key, key_hash, order_of, at_head=True)
        self._known.add(key)

    def keys(self) -> list:
        """Return the keys in iteration order."""
        return [node.key for index in sorted(self._bins) for node in self._bins[index].chain]

    def _add(self, key: Hashable, key_hash: int, order_of: Callable[[Any], Any], *, at_head: bool) -> None:
        unsigned = key_hash & _MASK
        spread = unsigned ^ (unsigned >> 16)
        signed = spread - (1 << 32) if spread >> 31 else spread
        node = _Node(key, spread, (signed, order_of(key)))
        place = self._bins.setdefault(spread & (self._capacity - 1), _Bin([]))
        if place.root is not None:
            place.add_to_tree(node)
            return
        place.chain.insert(0 if at_head else len(place.chain), node)
        if len(place.chain) >= (TREEIFY_LENGTH - 1 if at_head else TREEIFY_LENGTH):
            if self._capacity < MIN_TREEIFY_CAPACITY:
                self._double()
            else:
                place.treeify()

    def _double(self) -> None:
        """Split every bin in two, keeping the relative order."""
        bins: dict[int, _Bin] = {}
        for index, place in self._bins.items():
            low = [node for node in place.chain if not node.spread & self._capacity]
            high = [node for node in place.chain if node.spread & self._capacity]
            for half, at in ((low, index), (high, index + self._capacity)):
                if not half:
                    continue
                bins[at] = _Bin(half)
                if place.root is None or len(half) <= _UNTREEIFY_LENGTH:
                    continue
                if len(half) == len(place.chain):
                    bins[at].root = place.root  # the other half is empty: the JDK leaves the tree as it is
                else:
                    bins[at].treeify()
        self._bins = bins
        self._capacity *= 2
