"""The reasons that clients give when they leave a group or join it again (KIP-800), and the causes that these are."""

from __future__ import annotations

from schemas.vocabulary import Cause

NOT_PROVIDED = "not provided"
"""What coordinators log for a request without a reason."""

_ADMIN = "member was removed by an admin"
LEAVING = {
    "the consumer is being closed": Cause.CLOSED,
    "the consumer unsubscribed from all topics": Cause.UNSUBSCRIBED,
    "consumer poll timeout has expired": Cause.POLL_TIMEOUT,
    _ADMIN: Cause.REMOVED_BY_ADMIN,
    "client leaving group per normal operation": Cause.CLOSED,
}
"""Reasons with which Kafka's own client and franz-go leave (KIP-800), without a full stop at the end."""
_JOINING = {
    "need to revoke partitions and re-join": Cause.HAND_OVER,
    "after revoking what we lost from a rebalance": Cause.HAND_OVER,
    "subscription has changed": Cause.SUBSCRIPTION_CHANGED,
    "cached metadata has changed": Cause.METADATA_CHANGED,
    "rebalance enforced by user": Cause.ENFORCED,
}
"""Reasons with which a member that the group already has joins again."""
_OF_CLIENTS = (
    *("need to re-join with the given member-id", "received assignment does not match the current subscription"),
    *("group is already rebalancing", "offset commit failed since group is already rebalancing", "rebalance failed due to "),
    *("encountered ", "beginning to manage the group lifecycle", NOT_PROVIDED),
)
"""How other reasons begin that clients give by themselves; all others are texts of users."""


def leaving_cause(client_reason: str | None) -> Cause:
    """Return the cause of a member's request to leave; ``left`` if it gave no reason, or one that no known client gives."""
    reason = (client_reason or "").rstrip(".")
    return LEAVING.get(_ADMIN if reason.startswith(f"{_ADMIN}: ") else reason, Cause.LEFT)


def joining_cause(client_reason: str | None) -> Cause | None:
    """Return the cause of a request to join again; None if it gave no reason, or only what the protocol asks for."""
    reason = (client_reason or "").rstrip(".")
    if not reason or reason.startswith(_OF_CLIENTS):
        return None
    return _JOINING.get(reason, Cause.ENFORCED)
