"""Why each rebalance of the recorded capture happened, compared with what its recorder did and its clients reported."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.builders.tables import rows
from tests.oracles.timeline_oracle import Cause, Generation, Recorder, read

Row = dict[str, Any]
Claims = set[tuple[str, int, str]]
"""Group, place among its snapshots, trigger."""

WITHOUT_CAUSE = {"cooperative_follow_up", "none_visible"}
"""What a generation may show in which nothing was done to its group."""

KNOWS_TOPIC_LATE = "franz-go joins with the topics its metadata shows: orders-raw, and shipments-v1 as soon as that is there"
STUCK = "a kafka-python member got stuck in overlapping rebalances and was expelled, as the capture's own notes say: nobody did that"
LOOKS_LIKE_A_STALL = (
    "subscribe() after unsubscribe() joins it again under a new id, with equal topics and the generation it remembers: as the member of "
    "mart-flap does that had stalled, in generation 3"
)
DISPUTED = {
    ("fraud-fzcooper", 2): ((), ("subscription_changed",), KNOWS_TOPIC_LATE),
    ("billing-fzsticky", 2): ((), ("subscription_changed",), KNOWS_TOPIC_LATE),
    ("index-fzrange", 2): ((), ("subscription_changed",), KNOWS_TOPIC_LATE),
    ("search-fzroundr", 2): ((), ("subscription_changed",), KNOWS_TOPIC_LATE),
    ("billing-kprange", 4): ((), ("member_left",), STUCK),
    ("mart-kpstick", 4): ((), ("member_left",), STUCK),
    ("mart-kpstick", 5): ((), ("member_left",), STUCK),
    ("feed-coop", 9): (("subscription_changed",), ("member_left",), "unsubscribe() of a Java consumer leaves the group, as its end does"),
    ("feed-coop", 10): (("subscription_changed",), ("member_returned",), LOOKS_LIKE_A_STALL),
    ("alerts-strclassic", 2): ((), ("group_emptied", "member_left"), "the timeline has no line for the end of the Streams application"),
    ("search-nextrdk", 4): (
        (),
        ("topic_created",),
        "audits-hist was asked for before the group, but its first target lacks it, and the metadata hash of epoch 4 is another one",
    ),
}
"""Group and generation -> what the timeline has and records do not show, what records show and the timeline has not, and why."""


@pytest.fixture(scope="module")
def audits(recorded_warehouse: Path) -> dict[str, list[Row]]:
    """Each group's observed rows in order, without the groups of the tools that read the log, of which nothing was written down."""
    of_group: dict[str, list[Row]] = defaultdict(list)
    for row in sorted(rows(recorded_warehouse, "generation_audits"), key=lambda row: row["position"]):
        if row["basis"] == "observed" and not row["group_id"].startswith("console-consumer-"):
            of_group[row["group_id"]].append(row)
    return of_group


@pytest.fixture(scope="module")
def causes(audits: dict[str, list[Row]]) -> dict[str, list[Cause]]:
    recorder = Recorder(read("capture_timeline.jsonl.gz"), read("capture_member_events.jsonl.gz"))
    return {
        group: recorder.causes(group, [Generation(row["generation"], round(row["observed_at"].timestamp() * 1000)) for row in of_group])
        for group, of_group in audits.items()
    }


def test_every_cause_shows_in_a_generation(causes: dict[str, list[Cause]]) -> None:
    assert [(group, cause.what) for group, of_group in causes.items() for cause in of_group if cause.index is None] == []
    assert sum(map(len, causes.values())) > 400


def test_every_recorded_cause_is_found_and_nothing_else(audits: dict[str, list[Row]], causes: dict[str, list[Cause]]) -> None:
    recorded: Claims = {(group, cause.index, cause.trigger) for group, of_group in causes.items() for cause in of_group}
    has_cause = {claim[:2] for claim in recorded}
    claimed: Claims = {
        (group, index, trigger)
        for group, of_group in audits.items()
        for index, row in enumerate(of_group)
        for trigger in row["triggers"]
        if trigger not in WITHOUT_CAUSE or (group, index) in has_cause
    }
    disputed: dict[tuple[str, int], tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
    for side, claims in enumerate((recorded - claimed, claimed - recorded)):
        for group, index, trigger in sorted(claims):
            disputed[group, _number(audits, (group, index, trigger))][side].append(trigger)
    expected = {key: (list(missing), list(strange)) for key, (missing, strange, _) in DISPUTED.items()}
    shares = [_share(recorded, claimed), _share(claimed, recorded)]
    besides = [{claim for claim in claims if (claim[0], _number(audits, claim)) not in DISPUTED} for claims in (recorded, claimed)]
    print(f"\ntriggers: recall {shares[0]}, precision {shares[1]}; besides {len(DISPUTED)} disputed generations ", end="")
    print(f"recall {_share(*besides)}, precision {_share(*reversed(besides))}")
    for (group, generation), (missing, strange, reason) in DISPUTED.items():
        print(f"  {group} generation {generation}: {', '.join(missing) or 'nothing'} recorded, {', '.join(strange)} shown: {reason}")
    assert dict(disputed) == expected


def _share(claims: Claims, others: Claims) -> str:
    """Return how many claims others agree with, of how many."""
    return f"{len(claims & others)}/{len(claims)}"


def _number(audits: dict[str, list[Row]], claim: tuple[str, int, str]) -> int:
    return audits[claim[0]][claim[1]]["generation"]


def test_all_rows_of_a_generation_have_the_same_triggers(recorded_warehouse: Path) -> None:
    by_snapshot: dict[tuple[str, int], set[tuple[str, ...] | None]] = defaultdict(set)
    for row in rows(recorded_warehouse, "generation_audits"):
        by_snapshot[row["group_id"], row["position"]].add(row["triggers"] and tuple(row["triggers"]))
    assert [key for key, triggers in by_snapshot.items() if len(triggers) != 1 or None in triggers] == []


def test_a_consumer_that_stalls_again_and_again_is_not_called_restarted(recorded_warehouse: Path) -> None:
    """The recorder stalled it six times, past max.poll.interval.ms; its process ran all the while."""
    stalls = sum(line.get("action") == "stall" and line["group"] == "mart-flap" for line in read("capture_timeline.jsonl.gz"))
    found = [row for row in rows(recorded_warehouse, "findings") if (row["group_id"], row["rule_id"]) == ("mart-flap", "restart_loop")]
    evidence = [dict(row["evidence"]) for row in sorted(found, key=lambda row: row["position"])]
    counts = [*range(3, stalls + 1), stalls]  # of its returns only the last one needed a hand-over, which has the finding once more
    assert [(one["restart_count"], one["same_process_count"]) for one in evidence] == [(str(n), str(n)) for n in counts]


def test_a_follow_up_is_the_generation_that_audits_call_so(audits: dict[str, list[Row]]) -> None:
    """Of the capture's cooperative generations 25 only complete what the one before began."""
    flagged = [row["is_follow_up"] for of_group in audits.values() for row in of_group]
    assert flagged == ["cooperative_follow_up" in row["triggers"] for of_group in audits.values() for row in of_group]
    assert flagged.count(True) == 25
