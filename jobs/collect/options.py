"""What the command line of ``collect`` takes, and what it tells of live clusters."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from pathlib import Path

from jobs.runtime.arguments import Options, cluster_name, interval_seconds, option, servers

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


@dataclass(frozen=True, kw_only=True)
class CollectOptions(Options):
    """Which cluster is collected, into which folder, and how long. Times are in seconds."""

    bootstrap_servers: str = option(MISSING, type=servers, metavar="HOST:PORT[,...]", help="brokers to begin with")
    output: Path = option(MISSING, type=Path, metavar="DIR", help="folder of the captures, and of how far they go")
    client_properties: Path | None = option(type=Path, metavar="FILE", help="properties of librdkafka, key=value a line")
    cluster_id: str | None = option(type=cluster_name, metavar="NAME", help="what landing is to call the cluster (default: Kafka's own id)")
    follow: bool = option(False, action="store_true", help="go on reading until Ctrl-C or SIGTERM")
    poll: bool = option(False, action="store_true", help="poll the groups, even if __consumer_offsets may be read")
    metadata_interval: float = option(
        300.0, "--look-every", type=interval_seconds, metavar="SECONDS", help="time between metadata snapshots with --follow (300)"
    )
    poll_interval: float = option(
        30.0, "--poll-every", type=interval_seconds, metavar="SECONDS", help="time between polls with --follow (30)"
    )
    roll_interval: float = option(
        90.0, "--publish-every", type=interval_seconds, metavar="SECONDS", help="how long what was read waits for its file (90)"
    )
    timeout: float = option(30.0, type=interval_seconds, metavar="SECONDS", help="how long to wait for an answer (default 30)")
