"""Refuses a cluster that has landed under another name, since each of its records would be stored twice.

Landing identifies a record by the name of its cluster and its place. So a folder must keep the name under which its records have landed.
Three things show the cluster of a folder: the ids in its topic metadata, the notes of ``collect``, and Kafka's topic ids, which are
different in each cluster.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from pydantic import ValidationError
from pyspark.sql import functions as F

from jobs.context import RunContext
from jobs.decoders import text_pieces
from jobs.decoders.captures import DECIDING_LINES, LINES, Capture
from jobs.runtime.errors import InputError
from schemas.positions import POSITIONS, Positions
from schemas.tables import GROUP_RECORDS, OFFSET_SNAPSHOTS, SUBSCRIPTION_SNAPSHOTS, TOPIC_SNAPSHOTS
from schemas.vocabulary import Source
from schemas.wire.keys import topic_id_text

LOOKS_READ = 3
"""Number of metadata captures of a folder, the last ones by name, whose topic ids are read: one of them may lack some topics."""
_WITH_CLUSTERS = (TOPIC_SNAPSHOTS, GROUP_RECORDS, SUBSCRIPTION_SNAPSHOTS, OFFSET_SNAPSHOTS)


@dataclass
class _Named:
    """What captures show about the cluster that lands under one name.

    Attributes:
        names: ids in its topic metadata, and its id and name in the notes of ``collect``.
        metadata_captures: files with topic metadata.
    """

    names: set[str] = field(default_factory=set)
    metadata_captures: list[Capture] = field(default_factory=list)


def check_names(context: RunContext) -> None:
    """Refuse captures of a cluster that has landed under another name.

    Names under which records have landed before are not checked.

    Raises:
        InputError: the cluster has landed under another name; the message has both.
    """
    logs = {key.rpartition(" ")[0] for key in context.before.landed_until or {}}  # known without reading the tables
    for name, of_name in sorted(_names_of_captures(context).items()):
        if not (of_name.names or of_name.metadata_captures) or name in logs or _landed_names(context, {name}):
            continue
        others = _landed_names(context, of_name.names - {name}) or _named_by_topics(context, of_name.metadata_captures, name)
        if others:
            landed = ", ".join(sorted(others))
            raise InputError(
                f"cluster {name}: its captures are of the cluster that has landed as {landed}: each record would be stored twice; land"
                f" them with --cluster-id {min(others)}, or with --as-new-cluster if they are another history"
            )


def _names_of_captures(context: RunContext) -> dict[str, _Named]:
    """Return what captures show about their cluster, by the name under which they land."""
    by_name: dict[str, _Named] = {}
    folders: dict[Path, str] = {}
    for capture in context.captures:
        name = context.cluster_id_flag or capture.cluster_id or context.settings.cluster_id or "default"
        of_name = by_name.setdefault(name, _Named())
        folders[Path(capture.path).parent] = name
        if capture.cluster_id is not None:
            of_name.names.add(capture.cluster_id)
        if capture.source is Source.CLUSTER_METADATA and capture.encoding == LINES:
            of_name.metadata_captures.append(capture)
    for folder, name in folders.items():
        by_name[name].names |= _collected_names(folder)
    return by_name


def _collected_names(folder: Path) -> set[str]:
    """Return id and name of the cluster in the notes of ``collect``; empty if there are none, or they cannot be read."""
    try:
        positions = Positions.model_validate_json((folder / POSITIONS).read_bytes())
    except (OSError, ValidationError):
        return set()
    return {name for name in (positions.cluster_id, positions.cluster_name) if name is not None}


def _landed_names(context: RunContext, names: Iterable[str]) -> set[str]:
    """Return those of some names under which records or topic metadata have landed."""
    wanted, found = set(names), set()
    for spec in _WITH_CLUSTERS:
        if wanted and not context.warehouse.is_empty(spec.name):
            for name in sorted(wanted):
                rows = context.warehouse.read(spec.name).where(F.col("cluster_id") == name)
                if not rows.isEmpty():
                    found.add(name)
            wanted -= found
    return found


def _named_by_topics(context: RunContext, captures: list[Capture], name: str) -> set[str]:
    """Return the other names under which topic metadata with the topic ids of some captures has landed."""
    chosen = sorted(captures, key=lambda capture: capture.path)[-LOOKS_READ:]
    ids = sorted({topic_id for capture in chosen for topic_id in _topic_ids(capture)})
    if not ids or context.warehouse.is_empty(TOPIC_SNAPSHOTS.name):
        return set()
    rows = context.warehouse.read(TOPIC_SNAPSHOTS.name).where(F.col("topic_id").isin(ids) & (F.col("cluster_id") != name))
    return {row["cluster_id"] for row in rows.select("cluster_id").distinct().collect()}


def _topic_ids(capture: Capture) -> set[str]:
    """Return the topic ids in the first good line of a metadata capture; empty if it cannot be read, which landing reports."""
    try:
        with text_pieces.opened(capture.path, is_gzip=capture.is_gzip) as content:
            lines = list(islice(filter(bytes.strip, content), DECIDING_LINES))
    except (OSError, EOFError):
        return set()
    for line in lines:
        try:
            ids = {topic_id_text(topic["topic_id"]) for topic in json.loads(line)["topics"] if topic.get("topic_id")}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue
        return {topic_id for topic_id in ids if topic_id is not None}
    return set()
