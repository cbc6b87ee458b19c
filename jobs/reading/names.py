"""Groups chosen by exact names, also as pages show them, or patterns, and what is said where there are none."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase

from jobs.reading.stored import GroupKey
from jobs.runtime.errors import UsageError
from jobs.runtime.locations import on_one_line

PATTERN_SIGNS = "*?["
"""What makes a name a pattern, where no group has exactly this name."""
_ESCAPE = re.compile(r"\\([tnr\\]|x[0-9a-f]{2}|u[0-9a-f]{4}|U00(?:0[0-9a-f]|10)[0-9a-f]{4})")
"""An escape of ``visible()`` of jobs/pages/figures.py."""
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "\\": "\\"}
NEAREST = 3
"""Names that a message offers for one that is not there."""


def is_pattern(name: str) -> bool:
    """Return whether a name is a pattern, where no group has exactly this name."""
    return any(sign in name for sign in PATTERN_SIGNS)


def spellings(name: str) -> tuple[str, ...]:
    r"""Return the names that a written one may mean: itself, and that whose characters it shows as escapes, as pages and terminals do.

    >>> print(*spellings(r"a\\b\x20c"), *spellings("pay"), sep=", ")
    a\\b\x20c, a\b c, pay
    """
    meant = _ESCAPE.sub(lambda found: _LETTERS.get(found[1][0]) or chr(int(found[1][1:], 16)), name)
    has_half = any("\ud800" <= char <= "\udfff" for char in meant)  # of a surrogate pair, which no stored name has
    return (name,) if meant == name or has_half else (name, meant)


def matching(name: str, keys: Collection[GroupKey]) -> set[GroupKey]:
    """Return the groups that have a name, else those that it shows with escapes, else those that match it as a shell pattern."""
    for spelling in spellings(name):
        exact = {key for key in keys if key.group_id == spelling}
        if exact:
            return exact
    return {key for key in keys if fnmatchcase(key.group_id, name)}


def no_match(name: str, known: Collection[GroupKey], cluster_id: str | None, clusters: Collection[str]) -> UsageError:
    """Return what is wrong with a name that no group has.

    Args:
        known: the groups that there are; of the cluster alone where one is named.
        clusters: that there are.
    """
    if is_pattern(name) and known:
        return UsageError(f"groups {shown(name)}: the pattern matches none of the {len(known)} groups{of_cluster(cluster_id)}")
    if cluster_id is not None and not known:
        return UsageError(f"cluster {shown(cluster_id)}: found no group of it, {_nearest(cluster_id, clusters)}")
    return UsageError(
        f"group {shown(name)}: not among the groups{of_cluster(cluster_id)}, {_nearest(name, {key.group_id for key in known})}"
    )


def only_commits(name: str) -> UsageError:
    """Return what is wrong with the name of a group of which only commits have landed."""
    return UsageError(f"group {shown(name)}: only its offset commits have landed, so it has no generation; the report has its lag")


def no_group(cluster_id: str | None, clusters: Collection[str] = ()) -> UsageError:
    """Return what is wrong where there is no group at all.

    Args:
        clusters: that have groups, as far as they are known.
    """
    if cluster_id is not None and clusters:
        others = difflib.get_close_matches(cluster_id, sorted(clusters), n=NEAREST, cutoff=0.5) or sorted(clusters)[:NEAREST]
        return UsageError(f"groups of cluster {shown(cluster_id)}: found none, expected a cluster such as {listed(others)}")
    return UsageError(f"groups{of_cluster(cluster_id)}: found none, expected at least one; look at what has landed with `report`")


def _nearest(name: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(name, sorted(known), n=NEAREST, cutoff=0.5)
    return f"the nearest names are {listed(near)}" if near else f"of which there are {len(known)}, none with a similar name"


def listed(names: Iterable[str]) -> str:
    """Return names as messages show them."""
    return ", ".join(map(shown, names))


def shown(name: str) -> str:
    """Return a name as messages show it."""
    return f"'{on_one_line(name)}'"


def of_cluster(cluster_id: str | None) -> str:
    """Return where the groups of a message are."""
    return f" of cluster {shown(cluster_id)}" if cluster_id is not None else " of the warehouse"
