"""The user's properties for librdkafka: from a file, and from environment variables, which win. Every value is treated as a secret."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from jobs.runtime.errors import UsageError
from jobs.runtime.locations import masked

ENVIRONMENT_PREFIX = "EVENKEEL_KAFKA_"
"""``EVENKEEL_KAFKA_SASL_PASSWORD`` is ``sasl.password``: the rest of the name in lower case, with dots for underscores."""

_BROKERS = "name the brokers with --bootstrap-servers"
_NO_GROUP = "Evenkeel joins no consumer group"
OWNED = {
    "bootstrap.servers": _BROKERS,
    "metadata.broker.list": _BROKERS,
    "group.id": _NO_GROUP,
    "group.instance.id": _NO_GROUP,
    "group.protocol": _NO_GROUP,
    "group.remote.assignor": _NO_GROUP,
    "partition.assignment.strategy": _NO_GROUP,
    "allow.auto.create.topics": "Evenkeel changes nothing in the cluster",
    "enable.auto.commit": "Evenkeel commits no offsets",
    "enable.auto.offset.store": "Evenkeel commits no offsets",
    "auto.offset.reset": "Evenkeel reports an offset that the log no longer has",
    "enable.partition.eof": "Evenkeel needs the end of each partition",
    "isolation.level": "Evenkeel reads committed records only",
}
"""The properties that users cannot set, each with the reason."""
_TAKES_A_FUNCTION = re.compile(r".*_cb|logger|on_commit|(key|value)\.(de)?serializer")
_NAME = re.compile("[a-z][a-z0-9._]{1,60}")
_IS_SECRET = re.compile(r".*(password|secret|token|pem|assertion|private).*|sasl\.oauthbearer\.config|sasl\.jaas\.config")
_FAILED_FILE = re.compile(r"(?:: |parse )(ssl\.[a-z.]+\.location)\b.*?: error:")
_ALLOWED_RANGE = re.compile(r"allowed range (-?\d+\.\.-?\d+)")


@dataclass(frozen=True)
class ClientProperties:
    """Properties of librdkafka.

    Attributes:
        values: by name.
        origins: by name where the value was given, as messages show it.
    """

    values: dict[str, SecretStr]
    origins: dict[str, str]

    def revealed(self) -> dict[str, str]:
        """Return the plain values, for librdkafka only."""
        return {name: value.get_secret_value() for name, value in self.values.items()}

    def masked(self, text: str) -> str:
        """Return a text of librdkafka with its passwords, tokens and keys replaced by ``***``."""
        for name, value in self.values.items():
            if _IS_SECRET.fullmatch(name) and value.get_secret_value():
                text = text.replace(value.get_secret_value(), "***")
        return text

    def refusal(self, text: str) -> str:
        """Return why librdkafka refuses these properties: its own text, and where the property that it names was given."""
        named = re.search('configuration property:? "([^"]+)"', text, re.IGNORECASE)
        if named is None or named[1] not in self.origins:
            failed = _FAILED_FILE.search(text)
            if failed is None or failed[1] not in self.origins:
                return f"client properties: {self.masked(text).strip()}"
            why = self.masked(text).rpartition("::")[2].strip()
            found = f"found a file that cannot be used ({why}), expected the path of one on this machine, in PEM or PKCS#12"
            return f"{self.origins[failed[1]]}: {failed[1]}: {found}"
        origin, name = self.origins[named[1]], named[1]
        if text.startswith("No such"):
            return f"{origin}: found {name}, which librdkafka does not know; expected one of its names, not those of the Java client"
        expected = _ALLOWED_RANGE.search(text)
        what = f"a value in {expected[1]}" if expected else "one of the values in librdkafka's list of properties"
        return f"{origin}: {name}: found a value that librdkafka does not take, expected {what}"


def read_client_properties(path: Path | None, environment: Mapping[str, str]) -> ClientProperties:
    """Return the properties of a file, if one is named, and of the environment, which win.

    A line is ``key=value``, without the blanks around key and value; a line that begins with ``#`` or ``!`` is a comment.

    Raises:
        UsageError: the file cannot be read, a line is not a property, or users cannot set a property. No message shows a value.
    """
    values: dict[str, SecretStr] = {}
    origins: dict[str, str] = {}
    for number, line in enumerate(_lines(path), 1) if path is not None else ():
        text, origin = line.strip(), f"{masked(str(path))}: line {number}"
        if not text or text.startswith(("#", "!")):
            continue
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not _NAME.fullmatch(name):  # it may be a line of a key in PEM, or of a JAAS entry
            found = "no name of a property before the =" if equals else f"{len(text)} characters without ="
            raise UsageError(f"{origin}: found {found}, expected key=value")
        if name in origins:
            raise UsageError(f"{origin}: found {name} again, expected it once; remove it here, or from {origins[name]}")
        values[name], origins[name] = SecretStr(value), origin
    for variable, value in environment.items():
        if variable.startswith(ENVIRONMENT_PREFIX):
            name = variable.removeprefix(ENVIRONMENT_PREFIX).lower().replace("_", ".")
            if not _NAME.fullmatch(name):
                raise UsageError(f"environment variable {masked(variable)}: expected the name of a property after {ENVIRONMENT_PREFIX}")
            values[name], origins[name] = SecretStr(value), f"environment variable {variable}"
    for name, origin in origins.items():
        reason = OWNED.get(name) or ("it takes a function" if _TAKES_A_FUNCTION.fullmatch(name) else None)
        if reason is not None:
            raise UsageError(f"{origin}: found {name}, which cannot be set here: {reason}; remove it")
    return ClientProperties(values, origins)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise UsageError(f"--client-properties {masked(str(path))}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:  # its own text shows the bytes
        raise UsageError(
            f"--client-properties {masked(str(path))}: found a byte at {error.start} that is not UTF-8, expected text"
        ) from None
