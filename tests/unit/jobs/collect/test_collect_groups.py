"""What polls of groups decide: what has changed, when it is published, and how following ends. The cluster is one that plays a part."""

from __future__ import annotations

import gzip
import json
import os
import signal
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jobs.brokers.groups import Poll
from jobs.collect import groups as collect_groups
from jobs.collect import session as collection
from jobs.collect.folder import open_folder
from jobs.collect.groups import GroupCollection, changes
from jobs.collect.options import CollectOptions
from jobs.collect.session import StopSignal
from jobs.runtime.errors import CaptureFolderError, ClusterError, CollectionBrokenError
from schemas.positions import PolledGroups, SeenGroup

NOT_SEEN = SeenGroup()
START = datetime(2026, 11, 22, tzinfo=timezone.utc)
ANSWER = Poll | Exception


def member(member_id: str, *partitions: int) -> dict[str, Any]:
    return {"member_id": member_id, "assigned": [{"topic": "t", "partitions": list(partitions)}]}


def offset(partition: int, committed: int, **changes: Any) -> dict[str, Any]:
    return {"topic": "t", "partition": partition, "committed_offset": committed, "leader_epoch": None, "metadata": "", **changes}


def group(members: list[dict[str, Any]] | None, *offsets: dict[str, Any], **changes: Any) -> dict[str, Any]:
    content = {"group_id": "g", "group_type": "classic", "state": "Stable", "strategy": "range", **changes}
    return {**content, "members": members, "offsets": list(offsets)}


# -- what has changed


def test_new_group_is_written_whole() -> None:
    whole = group([member("a", 0, 1)], offset(0, 5))
    assert changes(whole, NOT_SEEN)[0] == whole


def test_unchanged_group_is_not_written_again() -> None:
    whole = group([member("a", 0, 1)], offset(0, 5))
    seen = changes(whole, NOT_SEEN)[1]
    assert changes(whole, seen) == (None, seen)


def test_the_order_of_members_and_partitions_is_no_change() -> None:
    seen = changes(group([member("a", 0, 1), member("b", 2)]), NOT_SEEN)[1]
    assert changes(group([member("b", 2), member("a", 1, 0)]), seen)[0] is None


@pytest.mark.parametrize(
    "changed",
    [
        group([member("a", 0)], offset(0, 5)),
        group([member("b", 0, 1)], offset(0, 5)),
        group([], offset(0, 5)),
        group([member("a", 0, 1)], offset(0, 5), state="Empty"),
        group([member("a", 0, 1)], offset(0, 5), strategy="sticky"),
        group([member("a", 0, 1)], offset(0, 5), group_type="consumer"),
    ],
)
def test_changed_members_are_written_without_unchanged_offsets(changed: dict[str, Any]) -> None:
    seen = changes(group([member("a", 0, 1)], offset(0, 5)), NOT_SEEN)[1]
    assert changes(changed, seen)[0] == {**changed, "offsets": []}


@pytest.mark.parametrize("entry", [offset(0, 6), offset(0, 4), offset(0, 5, leader_epoch=1), offset(0, 5, metadata="m"), offset(2, 5)])
def test_changed_offsets_are_written_without_members(entry: dict[str, Any]) -> None:
    members = [member("a", 0, 1)]
    seen = changes(group(members, offset(0, 5), offset(1, 9)), NOT_SEEN)[1]
    line, now = changes(group(members, entry, offset(1, 9)), seen)
    assert line == group(None, entry)
    assert changes(group(members, entry, offset(1, 9)), now)[0] is None


def test_members_unknown_during_a_rebalance_are_no_change() -> None:
    """In the middle of a rebalance a classic group's members own nothing that counts."""
    before = changes(group([member("a", 0, 1)]), NOT_SEEN)[1]
    line, during = changes(group(None), before)
    assert (line, during) == (None, before)
    assert changes(group([member("a", 0, 1)]), during)[0] is None
    assert changes(group([member("b", 0, 1)]), during)[0] == group([member("b", 0, 1)])


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance"])
def test_each_poll_in_a_rebalance_is_written_and_the_next_one(state: str) -> None:
    """Without the next one, two rebalances that leave the members as they were would look like one."""
    stable, between = group([member("a", 0, 1)], offset(0, 5)), group([member("a")], offset(0, 5), state=state)
    seen = changes(stable, NOT_SEEN)[1]
    for _ in range(2):
        line, seen = changes(between, seen)
        assert line == {**between, "offsets": []}
    line, seen = changes(stable, seen)
    assert line == {**stable, "offsets": []}
    assert changes(stable, seen)[0] is None


# -- polling


class Play:
    """A cluster, its clock, and the polls of it."""

    def __init__(self) -> None:
        self.cluster_id = "c"
        self.moment, self.at = 0.0, START
        self.answers: list[ANSWER] = []
        self.on_sleep: Callable[[], None] = lambda: None
        self.next_answer: Callable[[], ANSWER] = lambda: self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def read_metadata_snapshot(self) -> dict[str, Any]:
        return {"cluster_id": "c", "brokers": [], "topics": []}

    def poll(self, _: Any) -> Poll:
        answer = self.next_answer()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def sleep(self, seconds: float) -> None:
        self.moment += seconds
        self.at += timedelta(seconds=seconds)
        self.on_sleep()

    def now(self) -> datetime:
        return self.at


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Play:
    playing = Play()
    monkeypatch.setattr(collect_groups, "poll_groups", playing.poll)
    for module in (collect_groups, collection):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: playing.moment, sleep=playing.sleep))
    return playing


def poll(*groups: dict[str, Any], is_complete: bool = True, **not_shown: int) -> Poll:
    return Poll({one["group_id"]: one for one in groups}, Counter(not_shown), is_complete)


def run(play: Play, folder: Path, *, ends_after: float | None = None, **changes: Any) -> str:
    ending = StopSignal()
    if ends_after is not None:
        play.on_sleep = lambda: setattr(ending, "is_asked", play.moment >= ends_after)
    options = CollectOptions(bootstrap_servers="b:1", output=folder, follow=ends_after is not None, poll=True, **changes)
    with open_folder(folder, play.now) as opened:
        collecting = GroupCollection(options, opened, play, opened.polled(), play.now)  # type: ignore[arg-type]
        collecting.read(ending)
        return collecting.summary()


def lines(folder: Path) -> list[list[dict[str, Any]]]:
    files = sorted(folder.glob("group_snapshots-*.jsonl.gz"))
    return [[json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()] for path in files]


def test_second_call_writes_only_changes(play: Play, tmp_path: Path) -> None:
    first, second = group([member("a", 0)]), group([member("b", 0)], group_id="h")
    play.answers = [poll(first, second)]
    assert run(play, tmp_path).startswith("2 changes of 2 groups -> group_snapshots-20261122T000000.000000Z.jsonl.gz in ")
    assert run(play, tmp_path).startswith("0 changes of 2 groups -> no new file in ")
    play.sleep(1)
    play.answers = [poll(first, {**second, "members": []})]
    run(play, tmp_path)
    before, after = lines(tmp_path)
    assert [line["group_id"] for line in before] == ["g", "h"]
    assert after == [{**second, "cluster_id": "c", "observed_at_ms": int(play.at.timestamp() * 1000), "members": []}]


def test_group_that_disappeared_and_returned_is_written_again(play: Play, tmp_path: Path) -> None:
    one, other = group([member("a", 0)]), group([member("b", 0)], group_id="h")
    for answer in (poll(one, other), poll(one), poll(one, other)):
        play.answers = [answer]
        run(play, tmp_path)
        play.sleep(1)
    assert [[line["group_id"] for line in file] for file in lines(tmp_path)] == [["g", "h"], ["h"]]


def test_a_group_of_a_broker_that_did_not_answer_is_not_forgotten(play: Play, tmp_path: Path) -> None:
    one, other = group([member("a", 0)]), group([member("b", 0)], group_id="h")
    for answer in (poll(one, other), poll(one, is_complete=False), poll(one, other)):
        play.answers = [answer]
        run(play, tmp_path)
        play.sleep(1)
    assert [[line["group_id"] for line in file] for file in lines(tmp_path)] == [["g", "h"]]


def test_polls_are_ordered_by_time_even_if_the_clock_is_set_back(play: Play, tmp_path: Path) -> None:
    play.answers = [poll(group([member("a", 0)]))]
    run(play, tmp_path)
    play.at -= timedelta(hours=1)
    play.answers = [poll(group([member("b", 0)]))]
    run(play, tmp_path)
    (after,), (before,) = lines(tmp_path)  # files are named after the clock
    assert after["observed_at_ms"] == before["observed_at_ms"] + 1


def test_groups_that_are_not_shown_are_counted_by_type(play: Play, tmp_path: Path) -> None:
    play.answers = [poll(group([]), share=2, Connect=1)]
    assert run(play, tmp_path).startswith("1 change of 1 group, not shown: 1 (Connect), 2 (share) -> ")


def test_a_cluster_that_shows_no_group_is_refused(play: Play, tmp_path: Path) -> None:
    play.answers = [poll(share=1)]
    with pytest.raises(ClusterError, match=r"^b:1: found no consumer groups, not shown: 1 \(share\); give the user an ACL that "):
        run(play, tmp_path)
    assert not (tmp_path / "_polled.json.gz").exists()


def test_cluster_whose_brokers_do_not_answer_yet_is_refused_for_that(play: Play, tmp_path: Path) -> None:
    play.answers = [poll(is_complete=False, moving=1)]
    with pytest.raises(ClusterError, match=r"^b:1: found no consumer groups, not shown: 1 \(moving\); some brokers .*: try again$"):
        run(play, tmp_path)


def test_another_cluster_is_refused(play: Play, tmp_path: Path) -> None:
    play.answers = [poll(group([]))]
    run(play, tmp_path)
    play.cluster_id = "d"
    with pytest.raises(CaptureFolderError, match=f"^--output {tmp_path}, b:1: the folder belongs to cluster c, this is cluster d; name "):
        run(play, tmp_path)


def test_another_cluster_ends_following(play: Play, tmp_path: Path) -> None:
    play.answers = [poll(group([member("a", 0)]))]
    original = play.read_metadata_snapshot
    play.read_metadata_snapshot = lambda: {**original(), "cluster_id": "c" if play.moment < 10 else "d"}  # type: ignore[method-assign]
    with pytest.raises(CollectionBrokenError, match=r"^cluster d answers now, cluster c answered before; 1 change of groups"):
        run(play, tmp_path, ends_after=100.0, metadata_interval=20.0)
    assert len(lines(tmp_path)) == 1


def test_following_publishes_what_has_waited_long_enough_and_the_rest_at_the_end(play: Play, tmp_path: Path) -> None:
    states = iter(range(1000))
    play.next_answer = lambda: poll(group([member("a", next(states))]))
    run(play, tmp_path, ends_after=23.0, poll_interval=5.0, roll_interval=12.0)
    assert [len(file) for file in lines(tmp_path)] == [3, 2]


def test_failed_poll_while_following_is_logged_and_repeated(play: Play, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    play.answers = [poll(group([member("a", 0)])), ClusterError("b:1: no answer"), poll(group([member("b", 0)]))]
    run(play, tmp_path, ends_after=25.0, poll_interval=10.0)
    assert "could not poll the groups, trying again later: b:1: no answer" in caplog.messages
    assert [[line["members"][0]["member_id"] for line in file] for file in lines(tmp_path)] == [["a", "b"]]


def test_a_day_of_following_makes_few_files(play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the defaults, and something new in every poll."""
    monkeypatch.setattr(collect_groups, "NAP_SECONDS", 5.0)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    states = iter(range(10_000))
    play.next_answer = lambda: poll(group([member("a", next(states))]))
    run(play, tmp_path, ends_after=86_400.0)
    assert sum(len(file) for file in lines(tmp_path)) > 2500
    assert len([path for path in tmp_path.iterdir() if not path.name.startswith(("_", "."))]) <= 1500


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", gzip.compress(b"{}"), gzip.compress(b'{"cluster_id": null}')[:-9]],
    ids=["empty", "not compressed", "of another kind", "cut off"],
)
def test_unreadable_state_of_polled_groups_is_refused(content: bytes, play: Play, tmp_path: Path) -> None:
    play.answers = [poll(group([]))]
    (tmp_path / "_polled.json.gz").write_bytes(content)
    with pytest.raises(CaptureFolderError, match=f"^{tmp_path}/_polled.json.gz: .*; expected what collect wrote there; "):
        run(play, tmp_path)


def test_state_of_polled_groups_is_stored_whole(play: Play, tmp_path: Path) -> None:
    play.answers = [poll(group([member("a", 0)], offset(3, 5, metadata="m", leader_epoch=2)))]
    run(play, tmp_path)
    seen = PolledGroups.model_validate_json(gzip.decompress((tmp_path / "_polled.json.gz").read_bytes()))
    assert (seen.cluster_id, seen.observed_at_ms) == ("c", int(START.timestamp() * 1000))
    assert seen.groups["g"].offsets == {"t": {3: (5, 2, "m")}}


def test_stop_signals_reach_polls(play: Play, tmp_path: Path) -> None:
    play.answers = [poll(group([member("a", 0)]))]
    ending = StopSignal()
    ending.is_reading = True
    play.on_sleep = lambda: os.kill(os.getpid(), signal.SIGINT)
    options = CollectOptions(bootstrap_servers="b:1", output=tmp_path, follow=True, poll=True)
    with ending.listening(), open_folder(tmp_path, play.now) as opened:
        GroupCollection(options, opened, play, None, play.now).read(ending)  # type: ignore[arg-type]
    assert len(lines(tmp_path)) == 1
