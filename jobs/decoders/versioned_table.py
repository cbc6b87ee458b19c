"""A table of a group's members or expressions, now and as it was when an earlier group epoch began."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

Content = TypeVar("Content")


class _Entry(NamedTuple, Generic[Content]):
    """What a name had before a change: its content and its order among the others; None where it was not in the table."""

    name: str
    content: Content | None
    order: int | None


class VersionedTable(Generic[Content]):
    """Contents by name, in the order in which the names came, with the changes since an epoch, which can be undone.

    Changes are kept since the first epoch without a target: the cost depends on their number, not on the size of the group.
    """

    def __init__(self) -> None:
        self.now: dict[str, Content] = {}
        self._orders: dict[str, int] = {}
        self._count = 0
        self._changes: list[_Entry[Content]] = []
        self._marks: dict[int, int] = {}

    def put(self, name: str, content: Content | None) -> None:
        """Set the content of a name; None removes it."""
        self._changes.append(_Entry(name, self.now.get(name), self._orders.get(name)))
        if content is None:
            self.now.pop(name, None)
            self._orders.pop(name, None)
            return
        if name not in self.now:
            self._orders[name] = self._count
            self._count += 1
        self.now[name] = content

    def begin(self, epoch: int) -> None:
        """Store that an epoch begins with the table as it is now."""
        self._marks[epoch] = len(self._changes)

    def as_of(self, epoch: int) -> dict[str, Content]:
        """Return the table at the beginning of the epoch; the current one if the epoch is unknown."""
        at = self._marks.get(epoch)
        if at is None or at == len(self._changes):
            return self.now
        found = {name: (self._orders[name], content) for name, content in self.now.items()}
        for name, content, order in reversed(self._changes[at:]):
            if content is None or order is None:
                found.pop(name, None)
            else:
                found[name] = (order, content)
        return {name: content for name, (_, content) in sorted(found.items(), key=lambda item: item[1][0])}

    def forget_until(self, epoch: int) -> None:
        """Delete the changes that are needed only for this epoch and earlier ones."""
        later = {begun: at for begun, at in self._marks.items() if begun > epoch}
        first = min(later.values(), default=len(self._changes))
        del self._changes[:first]
        self._marks = {begun: at - first for begun, at in later.items()}
