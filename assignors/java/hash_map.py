"""A simulation of ``java.util.HashMap`` key by key, with tree bins, for keys that collide too often for the short rule.

``ordering`` sorts keys by bucket, which is exact until a bucket would hold nine keys. Names that are built to collide (``Aa`` and ``BB``
have equal hashes) reach that. Then the JDK doubles a small table early, and turns a bucket of a larger one into a red-black tree.
Iteration still follows the chain of the bucket. Three rules change the chain: the root of a tree moves to the head, after a removal too;
a new key is inserted after its tree parent; a split keeps the relative order.

Source: ``java.util.HashMap`` of JDK 8 to 21. Differs from source: keys with equal hashes and no natural order are not supported;
Java orders those by identity.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

TREEIFY_LENGTH = 9
MIN_TREEIFY_CAPACITY = 64
_UNTREEIFY_LENGTH = 6
_MASK = 0xFFFFFFFF

Key = TypeVar("Key", bound=Hashable)


class _Node(Generic[Key]):
    """A key in a chain; the tree links are used in tree bins only."""

    __slots__ = ("is_red", "key", "left", "parent", "rank", "right", "spread")

    def __init__(self, key: Key, spread: int, rank: tuple[int, Any]) -> None:
        self.key = key
        self.spread = spread
        self.rank = rank
        self.unlink()

    def unlink(self) -> None:
        self.parent: _Node[Key] | None = None
        self.left: _Node[Key] | None = None
        self.right: _Node[Key] | None = None
        self.is_red = False


class _Tree(Generic[Key]):
    """The tree of a tree bin; it has at least one node."""

    __slots__ = ("root",)

    def __init__(self, root: _Node[Key]) -> None:
        self.root = root

    def insert(self, node: _Node[Key]) -> _Node[Key]:
        """Insert a node and rebalance; return the parent that the node had before rebalancing."""
        parent = self.root
        while (below := parent.left if node.rank < parent.rank else parent.right) is not None:
            parent = below
        node.parent = parent
        if node.rank < parent.rank:
            parent.left = node
        else:
            parent.right = node
        self._rebalance(node)
        return parent

    def remove(self, node: _Node[Key]) -> None:
        """Take out a node of a tree that has others, and rebalance."""
        if node.left is not None and node.right is not None:
            self._swap_with_successor(node, node.left, node.right)
        child = node.left or node.right
        if child is not None:
            self._put_in_place_of(node, child)
        if not node.is_red:
            self._rebalance_without(child or node)
        if child is None:
            self._put_in_place_of(node, None)

    def is_small(self) -> bool:
        """Return whether the JDK turns the tree into a plain chain at the next removal."""
        root = self.root
        return root.right is None or root.left is None or root.left.left is None

    def _swap_with_successor(self, node: _Node[Key], left: _Node[Key], right: _Node[Key]) -> None:
        """Swap places and colours of a node and the next larger one. Then the node has at most one child."""
        successor = right
        while successor.left is not None:
            successor = successor.left
        below, above = successor.right, successor.parent
        successor.is_red, node.is_red = node.is_red, successor.is_red
        self._put_in_place_of(node, successor)
        if successor is right:
            successor.right, node.parent = node, successor
        else:
            assert above is not None
            above.left, node.parent = node, above
            successor.right, right.parent = right, successor
        successor.left, left.parent = left, successor
        node.left, node.right = None, below
        if below is not None:
            below.parent = node

    def _put_in_place_of(self, node: _Node[Key], other: _Node[Key] | None) -> None:
        """Put another node, or none, in the place of a node."""
        parent = node.parent
        if other is not None:
            other.parent = parent
        if parent is not None:
            if parent.left is node:
                parent.left = other
            else:
                parent.right = other
        elif other is not None:
            self.root = other

    def _rebalance_without(self, node: _Node[Key]) -> None:
        """Restore the red-black rules after the removal of a black node above this one, or of this one."""
        while (parent := node.parent) is not None and not node.is_red:
            is_left = node is parent.left
            sibling = parent.right if is_left else parent.left
            if sibling is not None and sibling.is_red:
                sibling.is_red, parent.is_red = False, True
                self._rotate(parent, sibling, to_left=is_left)
                sibling = parent.right if is_left else parent.left
            if sibling is None:
                node = parent
                continue
            near, far = (sibling.left, sibling.right) if is_left else (sibling.right, sibling.left)
            if far is None or not far.is_red:
                if near is None or not near.is_red:
                    sibling.is_red = True
                    node = parent
                    continue
                near.is_red, sibling.is_red = False, True
                self._rotate(sibling, near, to_left=not is_left)
                sibling, far = near, sibling
            sibling.is_red = parent.is_red
            parent.is_red = far.is_red = False
            self._rotate(parent, sibling, to_left=is_left)
            return
        node.is_red = False

    def _rebalance(self, node: _Node[Key]) -> None:
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
                self._rotate(parent, node, to_left=is_left)
                node, parent = parent, node
            parent.is_red = False
            grand.is_red = True
            self._rotate(grand, parent, to_left=not is_left)
        self.root.is_red = False

    def _rotate(self, node: _Node[Key], pivot: _Node[Key], *, to_left: bool) -> None:
        """Lift the pivot, a child of the node, above it: the right one to the left, the left one to the right."""
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


class _Bin(Generic[Key]):
    """One bucket: its chain, and its tree when it is a tree bin."""

    __slots__ = ("chain", "tree")

    def __init__(self, chain: list[_Node[Key]]) -> None:
        self.chain = chain
        self.tree: _Tree[Key] | None = None

    def treeify(self) -> None:
        """Build the tree from the chain in chain order, then move its root to the head."""
        for node in self.chain:
            node.unlink()
        tree = _Tree(self.chain[0])
        for node in self.chain[1:]:
            tree.insert(node)
        self.tree = tree
        self._move_to_front(tree.root)

    def add_to_tree(self, tree: _Tree[Key], node: _Node[Key]) -> None:
        """Insert a new node after its tree parent, then move the root to the head."""
        parent = tree.insert(node)
        self.chain.insert(self.chain.index(parent) + 1, node)
        self._move_to_front(tree.root)

    def remove(self, node: _Node[Key]) -> None:
        """Remove a node from the chain; a tree moves its root to the head, or becomes a plain chain."""
        self.chain.remove(node)
        if self.tree is None:
            return
        if self.tree.is_small():
            self.tree = None
        else:
            self.tree.remove(node)
            self._move_to_front(self.tree.root)

    def _move_to_front(self, node: _Node[Key]) -> None:
        self.chain.remove(node)
        self.chain.insert(0, node)


class HashMapSimulation(Generic[Key]):
    """The keys of a ``HashMap`` in its iteration order, for any insertion history."""

    def __init__(self, initial_capacity: int) -> None:
        self._capacity = initial_capacity
        self._bins: dict[int, _Bin[Key]] = {}
        self._known: set[Key] = set()

    def put(self, key: Key, key_hash: int, order_of: Callable[[Key], Any]) -> None:
        """Insert a key as ``put`` does: at the tail of its chain; the table grows afterwards."""
        if key in self._known:
            return
        self._add(key, key_hash, order_of, at_head=False)
        self._known.add(key)
        if 4 * len(self._known) > 3 * self._capacity:
            self._double()

    def compute_if_absent(self, key: Key, key_hash: int, order_of: Callable[[Key], Any]) -> None:
        """Insert a key as ``computeIfAbsent`` does: the table grows first; the key goes to the head of its chain."""
        if 4 * len(self._known) > 3 * self._capacity:
            self._double()
        if key in self._known:
            return
        self._add(key, key_hash, order_of, at_head=True)
        self._known.add(key)

    def remove(self, key: Key) -> None:
        """Remove a key that the map has; the table does not shrink."""
        bucket, node = next((bucket, node) for bucket in self._bins.values() for node in bucket.chain if node.key == key)
        bucket.remove(node)
        self._known.remove(key)

    def clear(self) -> None:
        """Remove all keys; the table does not shrink."""
        self._bins = {}
        self._known = set()

    def keys(self) -> list[Key]:
        """Return the keys in iteration order."""
        return [node.key for index in sorted(self._bins) for node in self._bins[index].chain]

    def _add(self, key: Key, key_hash: int, order_of: Callable[[Key], Any], *, at_head: bool) -> None:
        unsigned = key_hash & _MASK
        spread = unsigned ^ (unsigned >> 16)
        signed = spread - (1 << 32) if spread >> 31 else spread
        node = _Node(key, spread, (signed, order_of(key)))
        bucket = self._bins.setdefault(spread & (self._capacity - 1), _Bin([]))
        if bucket.tree is not None:
            bucket.add_to_tree(bucket.tree, node)
            return
        bucket.chain.insert(0 if at_head else len(bucket.chain), node)
        if len(bucket.chain) >= (TREEIFY_LENGTH - 1 if at_head else TREEIFY_LENGTH):
            if self._capacity < MIN_TREEIFY_CAPACITY:
                self._double()
            else:
                bucket.treeify()

    def _double(self) -> None:
        """Split every bin in two, keeping the relative order."""
        bins: dict[int, _Bin[Key]] = {}
        for index, bucket in self._bins.items():
            low = [node for node in bucket.chain if not node.spread & self._capacity]
            high = [node for node in bucket.chain if node.spread & self._capacity]
            for half, at in ((low, index), (high, index + self._capacity)):
                if not half:
                    continue
                bins[at] = _Bin(half)
                if bucket.tree is None or len(half) <= _UNTREEIFY_LENGTH:
                    continue
                if len(half) == len(bucket.chain):
                    bins[at].tree = bucket.tree  # the other half is empty: the JDK does not change the tree
                else:
                    bins[at].treeify()
        self._bins = bins
        self._capacity *= 2
