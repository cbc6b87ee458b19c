"""What a backtest says, in words that a terminal and a page share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from assignors.generation.generation import SERVER_SIDE
from assignors.replay.conformance import Conformance
from assignors.scenario.backtest import Explanation, Omission, Reason, Share

COMPARED = (Conformance.EXACT, Conformance.EQUAL_SETS, Conformance.EQUAL_BALANCE, Conformance.DIFFERS)
"""How near a prediction can be, in the order of the table's columns."""
NAMES_SHOWN = 3
"""Members or topics that a line names; the rest is counted."""

_REASONS = {
    Reason.CLAIMED_NOTHING: "stayed and claimed nothing",
    Reason.CLAIMED_OTHERS: "claimed other partitions than it was given",
    Reason.CLAIMED_OLDER: "claimed for another generation",
    Reason.CLAIMED_IN_OTHER_ORDER: "claimed in another order",
    Reason.JOINED_WITH_CLAIMS: "joined with claims",
    Reason.MEMBER_RACKS: "has another rack than before",
    Reason.TOPIC_RACKS: "has replicas in other racks than before",
    Reason.OTHER_CLIENT: "the leader's client gives out something else than Kafka's assignor",
    Reason.UNEXPLAINED: "nothing in the record explains it",
}
_OMISSIONS = {
    Omission.UNKNOWN_BEFORE: "the generation before is not known",
    Omission.NO_MEMBERS: "it or the one before has no members",
    Omission.NO_ASSIGNOR: "its assignor is not one of Kafka's for consumer groups",
    Omission.MEMBER_RESTARTED: "a static member came back under another member id",
    Omission.NO_VISIBLE_CAUSE: "nothing shows why the group rebalanced",
    Omission.OTHER_CAUSE: "no scenario can say its cause",
}


def client_words(strategy: str, leader_client: str | None) -> str:
    """Return who runs the assignor: a client library, or the brokers."""
    if leader_client is not None:
        return leader_client
    return "brokers" if strategy in SERVER_SIDE else "unknown client"


def total_counts(shares: Iterable[Share]) -> dict[Conformance, int]:
    """Return how many predictions are so near, whatever their assignor and client library."""
    totals = dict.fromkeys(COMPARED, 0)
    for share in shares:
        for conformance, number in share.counts.items():
            totals[conformance] += number
    return totals


def reason_words(explanation: Explanation, name_words: Callable[[str], str] = str) -> str:
    """Return why a prediction is not exact, with the first names as ``name_words`` writes them."""
    more = len(explanation.names) - NAMES_SHOWN
    names = ", ".join((*map(name_words, explanation.names[:NAMES_SHOWN]), *((f"{more} more",) if more > 0 else ())))
    return f"{_REASONS[explanation.reason]}: {names}" if names else _REASONS[explanation.reason]


def omission_words(omissions: Mapping[Omission, int]) -> Iterator[tuple[str, int]]:
    """Yield why generations are not predicted and how many, most of them first."""
    ordered = sorted(omissions.items(), key=lambda item: (-item[1], item[0].value))
    return ((_OMISSIONS[omission], count) for omission, count in ordered)


def conformance_words(conformance: Conformance) -> str:
    """Return how near a prediction is."""
    return conformance.value.replace("_", " ")
