"""Which client library was the leader of a group, recognised by the bytes of the assignment that it wrote.

The rules are from 207 recorded generations: Java 4.3.1, librdkafka 2.16.0, kafka-python 3.0.12, franz-go 1.22.2, Sarama 1.61.1, kafkajs
2.2.4. No library writes its name. The bytes of other releases and other libraries may look like one of these: aiokafka writes like an old
kafka-python.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum

from schemas.vocabulary import Flavour


class UserData(Enum):
    """The form of the field for the assignor's own bytes."""

    NULL = "null"
    EMPTY = "empty"
    BYTES = "bytes"

    @classmethod
    def of(cls, user_data: bytes | None) -> UserData:
        """Return which of the three ``user_data`` is."""
        return cls.NULL if user_data is None else cls.BYTES if user_data else cls.EMPTY


Form = tuple[int, UserData]
"""Version of an assignment, and the form of its user data."""

_KAFKAJS_ASSIGNOR = "RoundRobinAssigner"


def leader_flavour(strategy: str | None, subscription_version: int | None, forms: Collection[Form]) -> Flavour | None:
    """Return the library whose leader wrote these assignments; None if several or none of the known ones write them so.

    ======================== ================== ======================= =============
    assignment: version      user data          leader's subscription   library
    ======================== ================== ======================= =============
    1 and up                 null, or Streams'  any                     Java
    1 and up                 empty              any                     kafka-python
    0                        null               2 and up                franz-go
    0                        null, or of sticky 1, not cooperative      Sarama
    0                        empty              0, RoundRobinAssigner   kafkajs
    0                        empty              0                       kafka-python
    0                        empty, or bytes    1 and up                librdkafka
    ======================== ================== ======================= =============

    Java before 2.4 and old releases of Sarama both write null user data with versions 0 and 0: the result is None.

    Args:
        strategy: the assignor that the group selected.
        subscription_version: of the leader's subscription; None where the leader is no member.
        forms: of the members' assignments; a member that was left out has none.

    >>> leader_flavour("range", 3, {(3, UserData.NULL)}).value, leader_flavour("range", 3, {(0, UserData.EMPTY)}).value
    ('java', 'librdkafka')
    """
    versions, kinds = {version for version, _ in forms}, {kind for _, kind in forms}
    if len(versions) != 1 or subscription_version is None:
        return None
    (version,) = versions
    if version > 0:
        if kinds == {UserData.EMPTY}:
            return Flavour.KAFKA_PYTHON
        return Flavour.JAVA if UserData.EMPTY not in kinds else None
    if kinds == {UserData.NULL} and subscription_version > 1:
        return Flavour.FRANZ_GO
    of_sarama = {UserData.BYTES} if strategy == "sticky" else {UserData.NULL}
    if subscription_version == 1 and strategy != "cooperative-sticky" and kinds == of_sarama:
        return Flavour.SARAMA
    if UserData.NULL in kinds:
        return None
    if subscription_version > 0:
        return Flavour.LIBRDKAFKA
    if kinds != {UserData.EMPTY}:
        return None
    return Flavour.KAFKAJS if strategy == _KAFKAJS_ASSIGNOR else Flavour.KAFKA_PYTHON
