"""What a generation is and why it came about, in words that every page and the terminal share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assignors.audit.triggers import Trigger
from jobs.pages.figures import words
from schemas.vocabulary import Cause

Row = Mapping[str, Any]

SHOWN_BY_TRIGGERS = {
    cause.value for cause in (Cause.JOINED, Cause.CONVERTED, Cause.STATIC_RETURNED, Cause.SUBSCRIPTION_CHANGED, Cause.METADATA_CHANGED)
}
"""Causes in a log that a trigger has too."""


def special(row: Row) -> str:
    """Return the kind of a snapshot that is no ordinary rebalance: ``follow-up``, ``rewrite``, ``repeat``; else an empty text.

    A repeated generation id is a static member's rewrite, unless a trigger shows that something else was written.
    """
    if row["is_follow_up"]:
        return "follow-up"
    if row["previous_generation"] is not None and row["previous_generation"] == row["generation"]:
        return "repeat" if "generation_rewritten" in (row["triggers"] or ()) else "rewrite"
    return ""


def what_changed(row: Row) -> str | None:
    """Return the triggers of a generation, the causes that the coordinator has logged, and the likely ones; None if no trigger is known.

    >>> what_changed({"triggers": ["member_left"], "logged_causes": ["session_expired"], "likely_causes": []})
    'member left (session expired)'
    >>> what_changed({"triggers": ["none_visible"], "logged_causes": ["enforced"], "likely_causes": []})
    'enforced'
    >>> what_changed({"triggers": ["member_left"], "logged_causes": [], "likely_causes": ["session_expired"]})
    'member left (likely session expired)'
    """
    if row["triggers"] is None:
        return None
    logged = [cause for cause in row["logged_causes"] or () if cause not in SHOWN_BY_TRIGGERS]
    triggers = [trigger for trigger in row["triggers"] if not (logged and trigger == Trigger.NONE_VISIBLE.value)]
    reasons = ", ".join([*map(words, logged), *(f"likely {words(cause)}" for cause in row["likely_causes"] or ())])
    named = ", ".join(map(words, triggers))
    return f"{named} ({reasons})" if named and reasons else named or reasons
