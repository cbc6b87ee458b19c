"""What the client library of a group's leader says about the consumer protocol (KIP-848), about user data and about racks.

No record names a release. Which library a leader uses is read off its bytes, see ``decoders/leader_client.py``.
"""

from __future__ import annotations

from collections.abc import Iterator

from assignors.algorithms.racks import is_rack_aware
from assignors.algorithms.releases import client_behaviour
from assignors.replay.unknowns import RACK_AWARE
from jobs.reading.stored import StoredGeneration
from schemas.vocabulary import Flavour

FIRST_RELEASES = {
    Flavour.JAVA: "Java from 4.0 on",
    Flavour.LIBRDKAFKA: "librdkafka from 2.12 on",
    Flavour.FRANZ_GO: "franz-go from 1.19 on, where it has to be asked for",
}
"""Library -> since when it speaks the consumer protocol."""

_WITHOUT_PROTOCOL = frozenset({Flavour.SARAMA, Flavour.KAFKA_PYTHON, Flavour.KAFKAJS})
"""Libraries of which no release is known to speak it: Sarama 1.61, kafka-python 3.0 and kafkajs 2.2 do not."""

_WITHOUT_RACKS = _WITHOUT_PROTOCOL
_VERSION_SINCE_3_5 = 3


def is_without_protocol(client: str) -> bool:
    """Return whether no release of a client library is known to speak the consumer protocol."""
    return client in _WITHOUT_PROTOCOL


def client_unknowns(stored: StoredGeneration) -> Iterator[str]:
    """Yield what is not known of the members' clients, a sentence each."""
    client = stored.leader_client
    versions = sorted({one.subscription_version for one in stored.clients.values() if one.subscription_version is not None})
    if client is None:
        yield f"The client library is not known. These speak the protocol: {'; '.join(FIRST_RELEASES.values())}."
    elif client == Flavour.JAVA and versions and versions[-1] < _VERSION_SINCE_3_5:
        yield "The members' Java clients are older than 3.5, since they write old subscriptions. They need 4.0 or later."
    elif not is_without_protocol(client):
        since = FIRST_RELEASES[Flavour(client)]
        yield f"The release of the leader's client, {client}. The protocol is in {since}."
    if len(versions) > 1:
        listed = " and ".join(map(str, versions))
        yield f"Members write subscriptions of versions {listed}: they use several libraries or releases, and only the leader's is known."
    if not stored.has_subscriptions:
        yield "The capture has no subscriptions: each member is taken to subscribe to all topics of the group."
    if not stored.is_protocol_known:
        yield "The group's protocol is not known. It counts as classic here, and may use the consumer protocol already."
    if not stored.generation.strategy:
        yield "The group's assignor is not known."


def user_data_evidence(stored: StoredGeneration) -> str | None:
    """Return a sentence on user data in the assignments; None where there is none, as far as records show.

    Tables do not have the user data of assignments, so this goes by how libraries write it. A leader of librdkafka copies the user data of
    a member's subscription into its assignment. A leader of Sarama writes some with sticky. Java's writes none with Kafka's assignors.
    """
    strategy, members = stored.generation.strategy, stored.generation.problem.members
    if stored.leader_client == Flavour.SARAMA and strategy == "sticky":
        return "Sarama's sticky writes user data into each assignment."
    carrying = sum(1 for member in members if member.user_data)
    if stored.leader_client == Flavour.LIBRDKAFKA and carrying:
        return f"librdkafka copies the user data of a member into its assignment, and {carrying} of {len(members)} members have some."
    return None


def rack_aware_racks(stored: StoredGeneration) -> tuple[str, ...]:
    """Return the racks by which the group's assignor goes today, sorted; none where it does not go by racks.

    Where nobody knows the racks of replicas, racks of members count.
    """
    generation, client = stored.generation, stored.leader_client
    racks = sorted({member.rack for member in generation.problem.members if member.rack})
    if not racks or generation.strategy not in RACK_AWARE or client in _WITHOUT_RACKS:
        return ()
    if client in (None, Flavour.JAVA) and not client_behaviour(stored.kafka_version).is_rack_aware:
        return ()
    known = [topic.partition_racks for topic in generation.problem.topics.values() if topic.partition_racks is not None]
    replicas = {frozenset(rack for rack in partition if rack is not None) for topic in known for partition in topic}
    return tuple(racks) if not known or is_rack_aware(racks, replicas) else ()
