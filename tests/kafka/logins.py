"""Users of the broker who log in, and the rights that they have for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import AclBinding, AclBindingFilter, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

from schemas.wire.keys import OFFSETS_TOPIC
from tests.kafka.broker import USERS, Broker

OFFSETS_PATTERN = ResourceType.TOPIC, OFFSETS_TOPIC, ResourcePatternType.LITERAL
LOGIN = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"


@contextmanager
def allowed(broker: Broker, user: str, operation: AclOperation) -> Iterator[None]:
    """Give a user one right on the topic for the length of the block."""
    right = f"User:{user}", "*", operation, AclPermissionType.ALLOW
    for made in broker.admin.create_acls([AclBinding(*OFFSETS_PATTERN, *right)]).values():
        made.result()
    try:
        yield
    finally:
        for gone in broker.admin.delete_acls([AclBindingFilter(*OFFSETS_PATTERN, *right)]).values():
            gone.result()


def log_in(monkeypatch: pytest.MonkeyPatch, properties: Path, user: str) -> None:
    """Log in with the password from the environment, where it beats the file's."""
    properties.write_text(f"# of a test\n! and of Java\n\n{LOGIN}  sasl.username = {user}\r\nsasl.password=not this one\n")
    monkeypatch.setenv("EVENKEEL_KAFKA_SASL_PASSWORD", USERS[user])
