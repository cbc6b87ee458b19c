"""Which files of an input are known from earlier runs, and what their records come to."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.decoders.captures import Capture
from jobs.land import known_files
from jobs.land.known_files import counts_to_note, find_known, landed_again
from schemas.vocabulary import Source

Batch = tuple[list[str], dict[str, int]]


def capture(name: str, source: Source = Source.CONSUMER_OFFSETS) -> Capture:
    return Capture(f"/captures/{name}", source, "parquet", 10, name=name)


def digests(*names: str) -> dict[Capture, bytes]:
    """Return captures whose content is their name up to a dot."""
    return {capture(name): name.partition(".")[0].encode() for name in names}


class Runs:
    """Runs as a warehouse has them, each noting the files that it has decoded."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.batches: list[Batch] = []
        monkeypatch.setattr(known_files, "_batches", lambda warehouse, keys: self.batches)

    def run(self, *names: str, retained_from: date | None = None, flag: str | None = None) -> tuple[list[str], dict[str, int]]:
        """Return the names of the files that are decoded, each of one record, and the counts of all."""
        known = find_known(SimpleNamespace(), digests(*names), (flag, None), None, retained_from)
        count = len(known.unread)
        found = {"read": count, "landed": count, "consumer-offsets.read": count, "consumer-offsets.landed": count}
        if known.keys:
            self.batches.insert(0, (list(known.keys), counts_to_note(found)))
        total = {name: known.counts.get(name, 0) + found.get(name, 0) for name in {*known.counts, *found}}
        return [one.name for one in known.unread], {name: number for name, number in total.items() if number}


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    return Runs(monkeypatch)


def test_known_files_are_counted_and_not_decoded(runs: Runs) -> None:
    assert runs.run("a", "b")[0] == ["a", "b"]
    unread, counts = runs.run("a", "b", "c")
    assert unread == ["c"]
    assert {name: counts[name] for name in ("read", "duplicate", "landed")} == {"read": 3, "duplicate": 2, "landed": 1}
    assert counts["consumer-offsets.duplicate"] == 2
    assert runs.run("c", "b", "a")[0] == []


def test_files_of_a_run_are_decoded_again_if_one_is_missing(runs: Runs) -> None:
    runs.run("a", "b")
    assert runs.run("a", "c") == (["a", "c"], {"read": 2, "landed": 2, "consumer-offsets.read": 2, "consumer-offsets.landed": 2})
    assert runs.run("a", "c")[0] == []


def test_known_file_is_recognised_by_content_and_number_of_copies(runs: Runs) -> None:
    runs.run("a.1", "a.2")
    assert runs.run("a.3")[0] == ["a.3"], "one copy is not both"
    unread, counts = runs.run("a.1", "a.4", "a.5")
    assert (unread, counts["read"], counts["duplicate"]) == ([], 3, 3)


@pytest.mark.parametrize("change", [{"retained_from": date(2026, 1, 1)}, {"flag": "another"}])
def test_file_is_unknown_under_settings_that_change_its_rows(runs: Runs, change: dict[str, Any]) -> None:
    runs.run("a")
    assert runs.run("a", **change)[0] == ["a"]
    assert runs.run("a")[0] == []


def test_file_is_unknown_to_a_release_with_other_decoding(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    runs.run("a")
    monkeypatch.setattr(known_files, "DECODING", known_files.DECODING + 1)
    assert runs.run("a")[0] == ["a"]


def test_only_raw_logs_metadata_and_logs_of_coordinators_can_be_known_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_files, "_batches", lambda warehouse, keys: [])
    given_files = {capture(str(source), source): b"" for source in Source}
    known = find_known(SimpleNamespace(), given_files, (), None, None)
    assert known.unread == tuple(given_files)
    assert len(known.keys) == len(set(known.keys)) == 3


def test_noted_counts_are_those_of_sources_that_can_be_known() -> None:
    counts = {"read": 3, "landed": 2, "consumer-offsets.read": 1, "describe.read": 2, "cluster-metadata.landed.look": 1}
    assert counts_to_note(counts) == {"consumer-offsets.read": 1, "cluster-metadata.landed.look": 1}


OUTCOMES = ("landed", "duplicate", "skipped", "quarantined")


@given(st.dictionaries(st.tuples(st.sampled_from(sorted(known_files.READ_ONCE)), st.sampled_from(OUTCOMES)), st.integers(1, 9)))
def test_counts_of_known_files_balance(ended: dict[tuple[str, str], int]) -> None:
    noted: dict[str, int] = {}
    for (source, outcome), count in ended.items():
        for name in (f"{source}.read", f"{source}.{outcome}", f"{source}.{outcome}.a kind. of dots"):
            noted[name] = noted.get(name, 0) + count
    again = landed_again(noted)
    assert again.get("read", 0) == sum(ended.values()) == sum(again.get(outcome, 0) for outcome in OUTCOMES)
    assert again.get("landed", 0) == 0
    assert sum(kinds(again, "consumer-offsets")) == again.get("consumer-offsets.read", 0)


def kinds(counts: dict[str, int], source: str) -> Iterable[int]:
    return [count for name, count in counts.items() if name.startswith(f"{source}.") and name.count(".") > 1]
