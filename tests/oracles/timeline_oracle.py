"""The actions of the capture's recorder on each group, and the generation that shows each action.

They come from the recorder's own timeline and from the events of its clients. Of the product only the generations of a group and their
times are used, not even its tables.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Row = dict[str, Any]
GOLDEN = Path(__file__).parents[1] / "golden"

BY_DEFAULT = ("range", "cooperative-sticky")
"""The assignors that a Java client supports by default."""
ASSIGNORS = {
    "Driver$LRange": "range",
    "Driver$LRoundRobin": "roundrobin",
    "Driver$LSticky": "sticky",
    "Driver$LCoop": "cooperative-sticky",
}


@dataclass(frozen=True)
class Generation:
    """One snapshot of a group: its number, and when its record was written."""

    generation: int
    written_ms: int


@dataclass(frozen=True)
class Cause:
    """An action, its trigger, and the index of the generation that shows it (None: no generation)."""

    what: str
    trigger: str
    index: int | None


def read(name: str) -> list[Row]:
    with gzip.open(GOLDEN / name, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


class Recorder:
    """All actions of the recorder and all events of its clients, by group."""

    def __init__(self, timeline: list[Row], events: list[Row]) -> None:
        self._events: dict[tuple, list[Row]] = defaultdict(list)
        for event in sorted(events, key=lambda row: row["ts_ms"]):
            self._events[event["group"], event["client_id"]].append(event)
        self._actions = sorted(timeline, key=lambda row: row["ts_ms"])

    def causes(self, group: str, generations: list[Generation]) -> list[Cause]:
        """Return the actions on a group, in the order of time.

        Args:
            generations: all of the group's, in the order of the log.
        """
        live: dict[str, Row] = {}
        instances: set[str | None] = {None}
        causes: list[Cause] = []
        strategy, last_leave = None, -1
        for action in self._actions:
            at, kind, client = action["ts_ms"], action["action"], action.get("client_id")
            after = _first_after(generations, at)
            if "topic" in action:
                trigger = _topic_trigger(kind, [start for start in live.values() if _reads(start, action["topic"])])
                causes += [Cause(f"{kind} {action['topic']}", trigger, after)] if trigger else []
                continue
            if action.get("group") != group:
                continue
            what = f"{kind} {client}"
            if kind == "start":
                causes += [] if causes else [Cause(f"first {what}", "group_created", 0)]
                speaks_consumer = any(map(_is_consumer, live.values()))
                index = self._arrival(group, client, at, generations, is_consumer=speaks_consumer or _is_consumer(action))
                instance = _property(action, "group.instance.id")
                is_back = instance is not None and instance in instances
                causes.append(Cause(what, "static_member_returned" if is_back else "member_joined", index))
                if live and _is_consumer(action) and not speaks_consumer:
                    causes.append(Cause(f"{what} speaks KIP-848", "upgraded_to_consumer", after))
                live[client] = action
                instances.add(instance)
                chosen = _choice(live)
                if strategy and chosen and chosen != strategy:
                    causes.append(Cause(f"{what} supports {chosen} only", "strategy_changed", index))
                strategy = chosen
            elif kind in ("close", "kill_process"):
                start = live.pop(client)
                index = _first_after(generations, max([at, *self._reports(group, client, at)]))
                is_bounce = self._is_bounce(start, at, index, generations)
                causes.append(Cause(what, "static_member_returned" if is_bounce else "member_left", index))
                last_leave = max(last_leave, -1 if index is None else index)
                if not live and not is_bounce:
                    causes.append(Cause(f"{what}, the last", "group_emptied", last_leave))
                elif _is_consumer(start) and not any(map(_is_consumer, live.values())):
                    causes.append(Cause(f"{what}, the last of KIP-848", "downgraded_to_classic", _last_of_number(generations, index)))
            elif kind == "remove_members":
                causes.append(Cause(f"{kind} {action['instance']}", "member_left", after))
            elif kind == "stall":
                back = self._return(group, client, at, generations)
                left, returned = ("member_replaced", "member_replaced") if back == after else ("member_left", "member_returned")
                causes += [Cause(what, left, after), Cause(f"{what} is over", returned, back)]
            elif kind in ("subscribe", "unsubscribe"):
                causes.append(Cause(what, "subscription_changed", after))
                live[client] = {**live[client], "topics": action.get("topics", [])}
            elif kind == "enforce":
                causes.append(Cause(what, "none_visible", after))
        return causes

    def _reports(self, group: str, client: str, at: int) -> list[int]:
        """Return the times of a client's events after a moment, which show that it ran. A client runs once in this capture."""
        return [event["ts_ms"] for event in self._events[group, client] if event["ts_ms"] > at]

    def _arrival(self, group: str, client: str, at: int, generations: list[Generation], *, is_consumer: bool) -> int | None:
        """Return the first generation of a client; for KIP-848 the first that gave it partitions, because it joins before that."""
        for event in self._events[group, client]:
            if event["ts_ms"] >= at and (event["partition_count"] or not is_consumer):
                return _reported(event, at, generations)
        return _first_after(generations, at)

    def _return(self, group: str, client: str, at: int, generations: list[Generation]) -> int | None:
        """Return the generation that a client reported first under another member id."""
        ids = [event["member_id"] for event in self._events[group, client] if event["ts_ms"] < at]
        for event in self._events[group, client]:
            if event["ts_ms"] > at and event["member_id"] not in ("", ids[-1]):
                return _reported(event, at, generations)
        return None

    def _is_bounce(self, start: Row, at: int, index: int | None, generations: list[Generation]) -> bool:
        """Return whether a closed static member starts again before a generation without it."""
        instance = _property(start, "group.instance.id")
        if instance is None or index is None:
            return False
        return any(
            action["action"] == "start"
            and _property(action, "group.instance.id") == instance
            and action["group"] == start["group"]
            and at < action["ts_ms"] <= generations[index].written_ms
            for action in self._actions
        )


def _first_after(generations: list[Generation], at_ms: int) -> int | None:
    """Return the first generation after a moment. The empty generations with which groups begin do not count."""
    return next((index for index, one in enumerate(generations) if one.written_ms >= at_ms and one.generation > 0), None)


def _reported(event: Row, since_ms: int, generations: list[Generation]) -> int | None:
    """Return the generation of a client's event; if the event has none, the last one written before it, if it is not older."""
    if event["generation"] is None:
        indices = [index for index, one in enumerate(generations) if since_ms <= one.written_ms <= event["ts_ms"] and one.generation > 0]
        return max(indices, default=_first_after(generations, since_ms))
    of_number = [index for index, one in enumerate(generations) if one.generation == event["generation"]]
    return next((index for index in of_number if generations[index].written_ms >= since_ms), None)


def _last_of_number(generations: list[Generation], index: int | None) -> int | None:
    """Return the last snapshot with the same number, which a conversion repeats."""
    if index is None:
        return None
    return max(other for other, one in enumerate(generations) if one.generation == generations[index].generation)


def _property(start: Row, name: str) -> str | None:
    return (start.get("props") or {}).get(name)


def _is_consumer(start: Row) -> bool:
    return _property(start, "group.protocol") == "consumer"


def _choice(live: dict[str, Row]) -> str | None:
    """Return the assignor that Java members agree on: the first one's favourite among those that all support."""
    if any(start["client"] != "java" or _is_consumer(start) for start in live.values()):
        return None
    supported = [
        (ASSIGNORS[name],) if (name := _property(start, "partition.assignment.strategy")) else BY_DEFAULT for start in live.values()
    ]
    return next((name for name in supported[0] if all(name in of_one for of_one in supported)), None)


def _reads(start: Row, topic: str) -> bool:
    pattern = start.get("pattern") or start.get("re2")
    return topic in (start.get("topics") or ()) or bool(pattern and re.fullmatch(pattern, topic))


def _topic_trigger(kind: str, readers: list[Row]) -> str | None:
    """Return the trigger for a change of a topic; None if the group does not read it. Topics that match a pattern are subscriptions."""
    if not readers:
        return None
    if kind == "create_topic" and not any(start.get("topics") for start in readers):
        return "subscription_changed"
    return {"create_topic": "topic_created", "delete_topic": "topic_deleted", "add_partitions": "partitions_added"}[kind]
