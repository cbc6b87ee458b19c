"""Polling consumer groups where ``__consumer_offsets`` may not be read: only the changes of each poll are written.

The members of a group and their partitions are written when their fingerprint changes, a committed offset when it changes. A group or
offset that disappears is not written: the admin API shows no difference between deleted and no longer permitted.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Any

from jobs.brokers.cluster import Cluster
from jobs.brokers.groups import is_between_generations, poll_groups
from jobs.collect.folder import CaptureFolder
from jobs.collect.options import CollectOptions
from jobs.collect.session import (
    MetadataSnapshots,
    StopSignal,
    check_cluster,
    counted,
    files_in_words,
    naming_the_folder,
    next_command,
    saved_in_words,
)
from jobs.runtime.errors import ClusterError, CollectionBrokenError
from jobs.runtime.locations import masked
from schemas.positions import PolledGroups, SeenGroup

logger = logging.getLogger(__name__)

NAP_SECONDS = 0.1
"""The longest time between Ctrl-C and its effect, between two polls."""
LONGEST_WAITING_BYTES = 64 << 20
PARTITION_FIELDS = ("owned", "assigned", "current")
"""Fields of a member that are partitions by topic."""
Group = dict[str, Any]


def fingerprint(group: Group) -> str:
    """Return a hash of a group's members and their partitions in any order: brokers list both in the order of their hash tables."""
    members = [
        {
            name: sorted((entry["topic"], sorted(entry["partitions"])) for entry in value) if value and name in PARTITION_FIELDS else value
            for name, value in member.items()
        }
        for member in sorted(group["members"], key=lambda member: member["member_id"])
    ]
    content = [group["group_type"], group["state"], group["strategy"], members]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def changes(group: Group, seen: SeenGroup) -> tuple[Group | None, SeenGroup]:
    """Return the changes of a polled group (None without changes), and the state that has been seen now.

    ``members`` of the changes is None when only offsets changed, or when the poll has no members; ``offsets`` has those that changed.
    Each poll during a rebalance is written, and so is the next one after it: they show how long the rebalance lasted.
    """
    if is_between_generations(group):
        seen = SeenGroup(offsets=seen.offsets)
    now = seen.fingerprint if group["members"] is None else fingerprint(group)
    committed: dict[str, dict[int, tuple[int, int | None, str | None]]] = {}
    changed = []
    for entry in group["offsets"]:
        content = (entry["committed_offset"], entry["leader_epoch"], entry["metadata"])
        committed.setdefault(entry["topic"], {})[entry["partition"]] = content
        if seen.offsets.get(entry["topic"], {}).get(entry["partition"]) != content:
            changed.append(entry)
    if now == seen.fingerprint and not changed:
        return None, SeenGroup(fingerprint=now, offsets=committed)
    members = None if now == seen.fingerprint else group["members"]
    known = None if is_between_generations(group) else now
    return {**group, "members": members, "offsets": changed}, SeenGroup(fingerprint=known, offsets=committed)


class GroupCollection:
    """Polls of the groups, from the first to the last."""

    def __init__(
        self, options: CollectOptions, folder: CaptureFolder, cluster: Cluster, stored: PolledGroups | None, now: Callable[[], datetime]
    ) -> None:
        """Continue after the polls in the folder.

        Raises:
            CaptureFolderError: the folder belongs to another cluster.
        """
        self._options, self._folder, self._cluster, self._now = options, folder, cluster, now
        name = cluster.cluster_id if options.cluster_id is None else options.cluster_id
        if stored is None:
            stored = PolledGroups(cluster_id=cluster.cluster_id, cluster_name=name, observed_at_ms=0, groups={})
        with naming_the_folder(options):
            check_cluster(stored, cluster.cluster_id, options.cluster_id)
        self._cluster_name = stored.cluster_name
        self._observed_at_ms, self._seen = stored.observed_at_ms, dict(stored.groups)
        self._looks = MetadataSnapshots(cluster, folder, stored.cluster_name, self._check_unchanged, now)
        self._lines: list[bytes] = []
        self._waiting_bytes = self._line_count = self._group_count = 0
        self._waiting_since = 0.0
        self._not_shown: Counter[str] = Counter()

    def read(self, ending: StopSignal) -> None:
        """Poll once, or with ``--follow`` until a stop signal; write topic metadata before, and with ``--follow`` after the last poll.

        Raises:
            EvenkeelError: earlier changes are saved, unless the folder cannot be written.
        """
        self._looks.write()
        polled_at = time.monotonic()
        self._poll()
        logger.info("cluster %s: polled %s%s", self._cluster_name, counted(self._group_count, "group"), _described(self._not_shown))
        try:
            while self._options.follow and not ending.is_asked:
                time.sleep(NAP_SECONDS)
                if time.monotonic() - polled_at >= self._options.poll_interval:
                    polled_at = time.monotonic()
                    self._poll_again()
                if self._is_due():
                    self._publish()
                self._looks.write_after(self._options.metadata_interval)
            self._publish()
            if self._options.follow:
                self._looks.write()
        except (ClusterError, CollectionBrokenError) as error:
            self._publish()
            raise type(error)(f"{error}; {saved_in_words(self._line_count, 'change', ' of groups')}") from None

    def _poll(self) -> None:
        """Poll all groups, and add their changes to the waiting lines.

        Raises:
            ClusterError: no answer, or the cluster shows no group at all.
        """
        at_ms = max(int(self._now().timestamp() * 1000), self._observed_at_ms + 1)  # a clock may be set back
        poll = poll_groups(self._cluster)
        if not poll.groups and not self._seen:
            needed = "give the user an ACL that allows DESCRIBE on groups, and on the topics whose offsets they commit"
            if not poll.is_complete:
                needed = "some brokers do not answer for their groups: try again"
            raise ClusterError(f"{self._options.bootstrap_servers}: found no consumer groups{_described(poll.not_shown)}; {needed}")
        self._observed_at_ms, self._group_count, self._not_shown = at_ms, len(poll.groups), poll.not_shown
        if not self._lines:
            self._waiting_since = time.monotonic()
        for group_id, group in poll.groups.items():
            line, self._seen[group_id] = changes(group, self._seen.get(group_id, SeenGroup()))
            if line is not None:
                content = {"cluster_id": self._cluster_name, "observed_at_ms": at_ms, **line}
                self._lines.append(json.dumps(content).encode())
                self._waiting_bytes += len(self._lines[-1])
        if poll.is_complete:
            self._seen = {group_id: seen for group_id, seen in self._seen.items() if group_id in poll.groups}

    def _poll_again(self) -> None:
        try:
            self._poll()
        except ClusterError as error:  # a short outage does not end the collection
            logger.warning("could not poll the groups, trying again later: %s", error)

    def _is_due(self) -> bool:
        is_old = time.monotonic() - self._waiting_since >= self._options.roll_interval
        return bool(self._lines) and (is_old or self._waiting_bytes >= LONGEST_WAITING_BYTES)

    def _publish(self) -> None:
        polled = PolledGroups(
            cluster_id=self._cluster.cluster_id,
            cluster_name=self._cluster_name,
            observed_at_ms=self._observed_at_ms,
            groups=self._seen,
        )
        self._folder.publish_groups(self._lines, polled)
        self._line_count += len(self._lines)
        self._lines, self._waiting_bytes = [], 0

    def _check_unchanged(self, look: dict[str, Any]) -> None:
        if look["cluster_id"] != self._cluster.cluster_id:
            raise CollectionBrokenError(f"cluster {look['cluster_id']} answers now, cluster {self._cluster.cluster_id} answered before")

    def summary(self) -> str:
        """Return what was collected into which files; the next command is the last line."""
        folder = str(self._folder.path)
        what = f"{counted(self._line_count, 'change')} of {counted(self._group_count, 'group')}{_described(self._not_shown)}"
        return f"{what} -> {files_in_words(self._folder.files)} in {masked(folder)}\n{next_command(folder)}"


def _described(not_shown: Counter[str]) -> str:
    reasons = ", ".join(f"{count:,} ({reason})" for reason, count in sorted(not_shown.items()))
    return f", not shown: {reasons}" if reasons else ""
