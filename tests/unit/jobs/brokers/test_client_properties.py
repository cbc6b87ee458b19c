"""Properties of librdkafka: from where, in which order, and that no message shows their values."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from jobs.brokers.client_properties import OWNED, ClientProperties, read_client_properties
from jobs.brokers.cluster import Connection
from jobs.runtime.errors import UsageError

SECRET = "secret-of-mine"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "client.properties"


def properties(file: Path, content: str | bytes = "", **environment: str) -> ClientProperties:
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_client_properties(file, environment)


def test_value_of_a_property_is_kept_literally_without_outer_blanks(file: Path) -> None:
    content = "# a comment\n! another\n\n  sasl.username = a b \r\nsasl.password=x=y#z!\\n\nssl.ca.location=\n"
    assert properties(file, content).revealed() == {"sasl.username": "a b", "sasl.password": "x=y#z!\\n", "ssl.ca.location": ""}


def test_the_environment_beats_the_file(file: Path) -> None:
    found = properties(
        file, "sasl.username=u\nsasl.password=file\n", EVENKEEL_KAFKA_SASL_PASSWORD=SECRET, EVENKEEL_KAFKA_SSL_CA_LOCATION="/ca", OTHER="x"
    )
    assert found.revealed() == {"sasl.username": "u", "sasl.password": SECRET, "ssl.ca.location": "/ca"}
    assert found.origins["sasl.password"] == "environment variable EVENKEEL_KAFKA_SASL_PASSWORD"
    assert read_client_properties(None, {}).revealed() == {}


def test_values_are_in_no_repr(file: Path) -> None:
    assert SECRET not in repr(properties(file, f"sasl.password={SECRET}"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (f"a.b=1\n{SECRET}\n", "line 2: found 14 characters without =, expected key=value"),
        (f"={SECRET}", "line 1: found no name of a property before the =, expected key=value"),
        ("MIIEvgIBADANBg==", "line 1: found no name of a property before the =, expected key=value"),
        (f"a.b=1\n\na.b={SECRET}", "line 3: found a.b again, expected it once; remove it here, or from "),
        (b"a.b=1\nc=\xff\xfe", "found a byte at 8 that is not UTF-8, expected text"),
    ],
)
def test_mistake_in_a_file_is_named_by_line_without_its_content(content: str | bytes, message: str, file: Path) -> None:
    with pytest.raises(UsageError) as refused:
        properties(file, content)
    assert message in str(refused.value) and str(file) in str(refused.value)
    assert SECRET not in str(refused.value) and "MII" not in str(refused.value)


def test_missing_properties_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^--client-properties .*/absent: cannot be read \(No such file or directory\)$"):
        read_client_properties(tmp_path / "absent", {})


@pytest.mark.parametrize("name", [*OWNED, "error_cb", "logger", "on_commit", "key.deserializer"])
def test_properties_that_collect_sets_itself_are_refused(name: str, file: Path) -> None:
    with pytest.raises(UsageError, match=r"line 1: found .*, which cannot be set here: \w.*; remove it") as refused:
        properties(file, f"{name}={SECRET}")
    assert f"found {name}," in str(refused.value) and SECRET not in str(refused.value)


def test_environment_variables_are_checked_like_the_file() -> None:
    with pytest.raises(UsageError, match=r"^environment variable EVENKEEL_KAFKA_GROUP_ID: found group\.id, which cannot be set here"):
        read_client_properties(None, {"EVENKEEL_KAFKA_GROUP_ID": "g"})
    with pytest.raises(UsageError, match=r"^environment variable EVENKEEL_KAFKA_: expected the name of a property"):
        read_client_properties(None, {"EVENKEEL_KAFKA_": "x"})


@pytest.mark.parametrize(
    "name", ["sasl.password", "ssl.key.password", "ssl.key.pem", "sasl.oauthbearer.client.secret", "sasl.oauthbearer.config"]
)
def test_secrets_in_messages_of_librdkafka_are_masked(name: str, file: Path) -> None:
    found = properties(file, f"{name}={SECRET}\nsasl.mechanism=PLAIN\nssl.keystore.password=\n")
    assert found.masked(f"SASL PLAIN: {SECRET} is wrong") == "SASL PLAIN: *** is wrong"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('No such configuration property: "b.c"', "{file}: line 2: found b.c, which librdkafka does not know; expected one of its names"),
        ('Invalid value "secret-of-mine" for configuration property "b.c"', "{file}: line 2: b.c: found a value that librdkafka does not"),
        ('Configuration property "b.c" value 9 is outside allowed range 1..5\n', "{file}: line 2: b.c: found a value that librdkafka does"),
        ("Failed to create client: secret-of-mine is not PEM", "client properties: Failed to create client: *** is not PEM"),
    ],
)
def test_property_that_librdkafka_refuses_is_named_by_file_and_line(text: str, expected: str, file: Path) -> None:
    message = properties(file, f"sasl.password={SECRET}\nb.c=9").refusal(text)
    assert message.startswith(expected.format(file=file))
    assert SECRET not in message and "\n" not in message
    assert ("1..5" in message) == ("range" in text)


@pytest.mark.parametrize("content", [None, "no certificate\n"])
@pytest.mark.parametrize("name", ["ssl.ca.location", "ssl.certificate.location", "ssl.key.location"])
def test_file_that_a_property_names_in_vain_is_named_with_its_property(name: str, content: str | None, file: Path, tmp_path: Path) -> None:
    named = tmp_path / "ca.pem"
    if content is not None:
        named.write_text(content)
    given = properties(file, f"security.protocol=SSL\n{name}={named}\n")
    with pytest.raises(UsageError) as refused:
        Connection("127.0.0.1:1", given, 1.0).client(AdminClient, {"log_level": 0})
    assert re.match(rf"{file}: line 2: {name}: found a file that cannot be used \([^()]+\), expected ", str(refused.value))
