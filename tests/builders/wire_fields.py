"""The decoded messages in Kafka's JSON form, as in the golden vectors.

Kafka's JSON leaves out what a version does not have and tagged fields with their default; numbers that are not there are -1.
"""

from __future__ import annotations

import base64
from typing import Any

from schemas.wire import GroupMetadata, Key, MemberAssignment, OffsetCommit, Subscription, consumer_group

Fields = dict[str, Any]


def b64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def unb64(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def number(value: int | None) -> int:
    return -1 if value is None else value


def pairs(grouped: tuple) -> list[list]:
    return [[topic, partition] for topic, partitions in grouped for partition in partitions]


def subscription(message: Subscription) -> Fields:
    return {
        "topics": list(message.topics),
        "user_data_b64": b64(message.user_data),
        "owned": pairs(message.owned),
        "generation": message.owned_generation,
        "rack": message.rack,
    }


def assignment(message: MemberAssignment) -> Fields:
    return {"partitions": pairs(message.partitions), "user_data_b64": b64(message.user_data)}


def key(message: Key) -> Fields:
    group = "group" if message.record_type <= 2 else "groupId"
    fields = {
        group: message.group_id,
        "topic": message.topic,
        "partition": message.partition,
        "memberId": message.member_id,
        "regularExpression": message.regular_expression,
    }
    return {name: value for name, value in fields.items() if value is not None}


def offset_commit(message: OffsetCommit) -> Fields:
    fields: Fields = {"offset": message.committed_offset, "metadata": message.metadata, "commitTimestamp": message.committed_at_ms}
    if message.version >= 3:
        fields["leaderEpoch"] = number(message.leader_epoch)
    if message.version == 1:
        fields["expireTimestamp"] = number(message.expires_at_ms)
    if message.topic_id is not None:
        fields["topicId"] = message.topic_id
    return fields


def group_metadata(message: GroupMetadata) -> Fields:
    members = []
    for member in message.members:
        fields: Fields = {
            "memberId": member.member_id,
            "clientId": member.client_id,
            "clientHost": member.client_host,
            "sessionTimeout": member.session_timeout_ms,
            "subscription": b64(member.subscription),
            "assignment": b64(member.assignment),
        }
        if message.version >= 1:
            fields["rebalanceTimeout"] = number(member.rebalance_timeout_ms)
        if message.version >= 3:
            fields["groupInstanceId"] = member.group_instance_id
        members.append(fields)
    group: Fields = {
        "protocolType": message.protocol_type,
        "generation": message.generation,
        "protocol": message.protocol,
        "leader": message.leader,
        "members": members,
    }
    if message.version >= 2:
        group["currentStateTimestamp"] = number(message.current_state_timestamp_ms)
    return group


def consumer_group_metadata(message: consumer_group.ConsumerGroupMetadata) -> Fields:
    return {"epoch": message.epoch} | ({"metadataHash": message.metadata_hash} if message.metadata_hash else {})


def partition_metadata(message: consumer_group.ConsumerGroupPartitionMetadata) -> Fields:
    return {
        "topics": [
            {
                "topicId": topic.topic_id,
                "topicName": topic.topic,
                "numPartitions": topic.partition_count,
                "partitionMetadata": [{"partition": entry.partition, "racks": list(entry.racks)} for entry in topic.partition_racks],
            }
            for topic in message.topics
        ]
    }


def member_metadata(message: consumer_group.ConsumerGroupMemberMetadata) -> Fields:
    fields: Fields = {
        "instanceId": message.group_instance_id,
        "rackId": message.rack,
        "clientId": message.client_id,
        "clientHost": message.client_host,
        "subscribedTopicNames": list(message.topics),
        "subscribedTopicRegex": message.topic_regex,
        "rebalanceTimeoutMs": message.rebalance_timeout_ms,
        "serverAssignor": message.server_assignor,
    }
    if message.classic is None:
        fields["classicMemberMetadata"] = None
    elif message.classic != (0, ()):
        fields["classicMemberMetadata"] = {
            "sessionTimeoutMs": message.classic.session_timeout_ms,
            "supportedProtocols": [
                {"name": protocol.name, "metadata": b64(protocol.metadata)} for protocol in message.classic.supported_protocols
            ],
        }
    return fields


def target_assignment_metadata(message: consumer_group.ConsumerGroupTargetAssignmentMetadata) -> Fields:
    timestamp = {"assignmentTimestamp": message.assignment_timestamp_ms} if message.assignment_timestamp_ms else {}
    return {"assignmentEpoch": message.assignment_epoch} | timestamp


def topic_id_partitions(topics: tuple[consumer_group.TopicIdPartitions, ...]) -> list[Fields]:
    return [
        {"topicId": topic.topic_id, "partitions": list(topic.partitions)}
        | ({"assignmentEpochs": list(topic.assignment_epochs)} if topic.assignment_epochs else {})
        for topic in topics
    ]


def target_assignment_member(message: consumer_group.ConsumerGroupTargetAssignmentMember) -> Fields:
    return {"topicPartitions": topic_id_partitions(message.partitions)}


def current_member_assignment(message: consumer_group.ConsumerGroupCurrentMemberAssignment) -> Fields:
    return {
        "memberEpoch": message.member_epoch,
        "previousMemberEpoch": message.previous_member_epoch,
        "state": message.state,
        "assignedPartitions": topic_id_partitions(message.assigned),
        "partitionsPendingRevocation": topic_id_partitions(message.pending_revocation),
    }


def regular_expression(message: consumer_group.ConsumerGroupRegularExpression) -> Fields:
    return {"topics": list(message.topics), "version": message.version, "timestamp": message.resolved_at_ms}


VALUE_FIELDS = {
    0: offset_commit,
    1: offset_commit,
    2: group_metadata,
    3: consumer_group_metadata,
    4: partition_metadata,
    5: member_metadata,
    6: target_assignment_metadata,
    7: target_assignment_member,
    8: current_member_assignment,
    16: regular_expression,
}
