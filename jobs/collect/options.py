"""The options of ``collect``, and the help texts on live clusters."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from pathlib import Path

from jobs.runtime.arguments import Options, cluster_name, interval_seconds, option, servers

EXPLANATION = """

It writes all committed records of __consumer_offsets, from the end of the last collection to the present end of the log, and
metadata snapshots of brokers and topics before and after. It changes nothing in the cluster: it joins no group and commits no
offset. The user needs READ on the topic __consumer_offsets, and DESCRIBE on the topics that metadata snapshots are to show. The
last line of its output names the next command.

If the user may not read that topic, or with --poll, it polls the groups instead: members, assignments, committed offsets. It writes
only what changed since the last poll, and does not see what happens between two polls. The user needs DESCRIBE on the groups and
their topics.

Properties of librdkafka (security.protocol, sasl.mechanism, ssl.ca.location, ...) come from a file of key=value lines, and from
the environment: EVENKEEL_KAFKA_SASL_PASSWORD is sasl.password, and so on; the environment overrides the file. Put secrets only
there: no message and no file of collect contains them.

A folder is for one cluster, and for either records or polls. However a collection ends, the next one into the same folder continues
from its end. With --follow, Ctrl-C or SIGTERM saves what was read; a second signal ends it at once."""

EXAMPLES = (
    "collect --bootstrap-servers broker:9092 --output captures",
    "collect --bootstrap-servers broker:9093 --client-properties client.properties --output captures --follow",
    "collect --bootstrap-servers broker:9092 --output polls --poll",
)

EPILOG = """\
exit codes: 0 done, or --follow was ended; 1 ended early, everything read until then is saved; 2 wrong usage, no connection,
no right to read the topic or to see a group, or a folder that cannot be written or belongs to another cluster;
130 interrupted, everything read until then is saved."""

LIVE_EXPLANATION = """

With --bootstrap-servers a live cluster is an input, alone or together with --input. The executors read the committed records of
__consumer_offsets, from the end of the last published run to the end of the log when this run begins. Nothing changes in the
cluster. Rights and properties are those of `collect`. Put secrets only into the file of properties, or into variables such as
EVENKEEL_KAFKA_SASL_PASSWORD. Driver and executors need the package confluent-kafka."""


@dataclass(frozen=True, kw_only=True)
class CollectOptions(Options):
    """Options of ``collect``: the cluster, the folder, and how long. Times are in seconds."""

    bootstrap_servers: str = option(
        MISSING, aliases=("--bootstrap-server",), type=servers, metavar="HOST:PORT[,...]", help="brokers for the first connection"
    )
    output: Path = option(MISSING, type=Path, metavar="DIR", help="folder of the captures and of the positions they reach")
    client_properties: Path | None = option(type=Path, metavar="FILE", help="properties of librdkafka, one key=value on each line")
    cluster_id: str | None = option(type=cluster_name, metavar="NAME", help="name of the cluster in the tables (default: Kafka's own id)")
    follow: bool = option(False, action="store_true", help="continue to read until Ctrl-C or SIGTERM")
    poll: bool = option(False, action="store_true", help="poll the groups, even if __consumer_offsets may be read")
    metadata_interval: float = option(
        300.0, "--look-every", type=interval_seconds, metavar="SECONDS", help="time between metadata snapshots with --follow"
    )
    poll_interval: float = option(30.0, "--poll-every", type=interval_seconds, metavar="SECONDS", help="time between polls with --follow")
    roll_interval: float = option(
        90.0,
        "--publish-every",
        type=interval_seconds,
        metavar="SECONDS",
        help="how long records wait before they are written to a file",
    )
    timeout: float = option(30.0, type=interval_seconds, metavar="SECONDS", help="how long to wait for an answer")

    def extras(self) -> tuple[str, ...]:
        """Return the extras of setup.cfg that the command needs with these options."""
        return ("kafka",)
