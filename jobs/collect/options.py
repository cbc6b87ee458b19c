"""The command line of ``collect``, and the options by which other commands reach a live cluster."""

from __future__ import annotations

import argparse
import math
import re
from pathlib import Path

from jobs.runtime.locations import is_text, on_one_line

EXPLANATION = """

Written are all committed records of __consumer_offsets, from where the folder left off to where the log ends now, and a look
at brokers and topics before and after. Nothing in the cluster changes: no group is joined, no offset committed. The user needs
READ on the topic __consumer_offsets, and DESCRIBE on the topics that looks are to show. What to do next is the last line.

Where that topic may not be read, or with --poll, the groups are polled instead: members, what they hold, committed offsets; of
each poll only what changed. The user needs DESCRIBE on the groups and their topics. What happens between two polls is not seen.

Properties of librdkafka (security.protocol, sasl.mechanism, ssl.ca.location, ...) come from a file of key=value lines, and from
the environment: EVENKEEL_KAFKA_SASL_PASSWORD is sasl.password, and so on; the environment beats the file. Secrets belong there
and nowhere else: they are in no message and no file of collect's.

A folder goes with one cluster, and with records or polls. Whatever ends a collection, the next one into the same folder goes on
behind it. With --follow, Ctrl-C or SIGTERM saves what was read, a second one ends at once."""

EPILOG = """\
exit codes: 0 done, or --follow was ended; 1 ended early, everything read until then is saved; 2 wrong usage, no connection,
no right to read the topic or to see a group, or a folder that cannot be written or belongs to another cluster."""

LIVE_EXPLANATION = """

With --bootstrap-servers a live cluster is an input, alone or beside --input: the executors read the committed records of
__consumer_offsets, from where the last published run left off to where the log ends when this one begins. Nothing in the
cluster changes. Rights and properties are those of `collect`; secrets belong into the file of properties, or into variables
such as EVENKEEL_KAFKA_SASL_PASSWORD, and nowhere else. Driver and executors need the package confluent-kafka."""

_ADDRESS = re.compile(r"([^\s:@/]+|\[[0-9a-fA-F:.]+\]):\d{1,5}")


def add_to(command: argparse.ArgumentParser) -> None:
    """Add the options of ``collect`` to its parser."""
    command.add_argument("--bootstrap-servers", required=True, type=servers, metavar="HOST:PORT[,...]", help="brokers to begin with")
    command.add_argument("--output", required=True, type=Path, metavar="DIR", help="folder of the captures, and of how far they go")
    command.add_argument("--client-properties", type=Path, metavar="FILE", help="properties of librdkafka, key=value a line")
    command.add_argument("--cluster-id", type=name, metavar="NAME", help="what landing is to call the cluster (default: Kafka's own id)")
    command.add_argument("--follow", action="store_true", help="go on reading until Ctrl-C or SIGTERM")
    command.add_argument("--poll", action="store_true", help="poll the groups, even if __consumer_offsets may be read")
    command.add_argument("--look-every", type=seconds, default=300.0, metavar="SECONDS", help="time between looks with --follow (300)")
    command.add_argument("--poll-every", type=seconds, default=30.0, metavar="SECONDS", help="time between polls with --follow (30)")
    command.add_argument(
        "--publish-every", type=seconds, default=90.0, metavar="SECONDS", help="how long what was read waits for its file (90)"
    )
    command.add_argument("--timeout", type=seconds, default=30.0, metavar="SECONDS", help="how long to wait for an answer (default 30)")


def add_live_to(command: argparse.ArgumentParser) -> None:
    """Add the options that make a live cluster an input of a run."""
    command.add_argument("--bootstrap-servers", type=servers, metavar="HOST:PORT[,...]", help="brokers of a live cluster to read from")
    command.add_argument("--client-properties", type=Path, metavar="FILE", help="properties of librdkafka for it, key=value a line")


def servers(text: str) -> str:
    """Return the addresses of brokers, ``host:port`` separated by commas."""
    addresses = [address.strip() for address in text.split(",")]
    for address in addresses:
        if not _ADDRESS.fullmatch(address):
            raise argparse.ArgumentTypeError(f"expected HOST:PORT, several ones separated by commas, found {on_one_line(address)!r}")
    return ",".join(addresses)


def name(text: str) -> str:
    """Return a name that tables and logs can repeat."""
    if not text or not is_text(text):
        raise argparse.ArgumentTypeError(f"expected UTF-8 without control characters, found {text!r}")
    return text


def seconds(text: str) -> float:
    """Return a length of time in which something can happen."""
    try:
        parsed = float(text)
    except ValueError:
        parsed = math.nan
    if not 0.1 <= parsed <= 86_400:
        raise argparse.ArgumentTypeError(f"expected 0.1 to 86400 seconds, found {text!r}")
    return parsed
