"""Columns that identify rows, shared by tables and stages."""

from __future__ import annotations

GROUP = ("cluster_id", "group_id")
PLACE = (*GROUP, "position")
"""One generation of a group, or what lies at its position."""
TOPIC = ("cluster_id", "topic")
PARTITION_OF_GROUP = (*GROUP, "topic", "partition")
