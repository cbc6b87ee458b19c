"""Columns that identify rows, shared by tables and stages."""

from __future__ import annotations

GROUP_KEY = ("cluster_id", "group_id")
GENERATION_KEY = (*GROUP_KEY, "position")
"""One generation of a group, or another row at its position."""
TOPIC_KEY = ("cluster_id", "topic")
PARTITION_KEY = (*GROUP_KEY, "topic", "partition")
