"""Texts of ``kafka-consumer-groups``, rendered from the tool's own formats of every version, and what they show.

Column names, widths, paddings and line ends are those of apache/kafka's ConsumerGroupCommand, by the release that began to print them:
core/src/main/scala/kafka/admin/ConsumerGroupCommand.scala at tags 2.0.0 (the same until 2.2), 2.3.0 (until 2.5) and 2.6.0 (until 3.7),
tools/src/main/java/org/apache/kafka/tools/consumer/group/ConsumerGroupCommand.java at tag 3.8.0 (the same in 3.9) and at commit
0162fd5138ea, after 4.0. That the last one renders what 4.3.1 printed is tested, space by space.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from jobs.decoders.describe_model import Group, Member, Offset

EDITIONS = ("2.0", "2.3", "2.6", "3.8", "4.0")
OUTPUTS = (
    "members",
    "members --verbose",
    "offsets",
    "offsets --verbose",
    "state",
    "state --verbose",
    "list --state",
    "list --type --state",
)
REBALANCING = {"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"}
Held = dict[str, list[int]]


@dataclass(frozen=True)
class Consumer:
    """A member; ``target``, ``epoch`` and ``is_upgraded`` are None in a classic group."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    held: Held
    target: Held | None = None
    epoch: int | None = None
    is_upgraded: bool | None = None


@dataclass(frozen=True)
class Kafka:
    """A group as a broker knows it; ``committed`` is (offset, leader epoch), ``ends`` leaves out partitions without a leader."""

    group_id: str
    kind: str
    state: str
    assignor: str
    coordinator: tuple[str, int, int]
    epoch: int | None
    target_epoch: int | None
    members: tuple[Consumer, ...]
    committed: dict[tuple[str, int], tuple[int, int | None]]
    ends: dict[tuple[str, int], int]

    def owned(self) -> list[tuple[tuple[str, int], Consumer | None]]:
        """Each partition that is held or committed, with its owner."""
        held = [((topic, number), member) for member in self.members for topic, numbers in member.held.items() for number in numbers]
        return [*held, *((partition, None) for partition in self.committed if partition not in {partition for partition, _ in held})]


def length(value: str) -> int:
    """Java's String.length."""
    return len(value.encode("utf-16-le")) // 2


def table(*columns: tuple[str, int | None, Iterable[object]]) -> list[str]:
    """Header and rows as ``%-15s %-10s %s`` pads them; a column of width None comes as it is."""
    cells = [[name, *("-" if value is None else str(value) for value in values)] for name, _, values in columns]
    widths = [width or 0 for _, width, _ in columns]
    return [
        " ".join(cell + " " * (width - length(cell)) for cell, width in zip(row, widths, strict=True)) for row in zip(*cells, strict=True)
    ]


def widest(least: int, values: Iterable[str]) -> int:
    return max([least, *map(length, values)])


def brackets(held: Held, edition: str) -> str:
    topics = {topic: sorted(numbers) for topic, numbers in held.items() if numbers}
    if edition < "3.8":
        return ", ".join(sorted(f"{topic}({','.join(map(str, numbers))})" for topic, numbers in topics.items())) or "-"
    return ", ".join(sorted(f"({','.join(sorted(map(str, numbers)))})" for numbers in topics.values())) or "-"


def colons(held: Held | None) -> str:
    return ";".join(sorted(f"{topic}:{','.join(map(str, sorted(n)))}" for topic, n in (held or {}).items() if n)) or "-"


def notice(edition: str, group: Kafka) -> str:
    before = "" if edition < "2.3" else "\n"
    if group.state == "Empty":
        return f"{before}Consumer group '{group.group_id}' has no active members.\n"
    return f"{before}Warning: Consumer group '{group.group_id}' is rebalancing.\n" if group.state in REBALANCING else ""


def members_text(edition: str, group: Kafka, is_verbose: bool) -> str:
    members = group.members
    if not members and edition < "3.8":
        return notice(edition, group)
    ids = [member.member_id for member in members]
    instances = [member.instance_id or "" for member in members]
    hosts = [member.host for member in members]
    clients = [member.client_id for member in members]
    columns: list[Any] = (
        [("GROUP", widest(15, [group.group_id] * len(members)), [group.group_id] * len(members))] if edition >= "2.3" else []
    )
    columns += [("CONSUMER-ID", widest(15, ids), ids)]
    columns += [("GROUP-INSTANCE-ID", widest(17, instances), instances)] if edition >= "2.6" and any(instances) else []
    columns += [("HOST", widest(15, hosts), hosts), ("CLIENT-ID", widest(15, clients), clients)]
    columns += [("#PARTITIONS", 15, [sum(map(len, member.held.values())) for member in members])]
    if not is_verbose:
        columns += [("", None, [""] * len(members))]  # the format of #PARTITIONS ends with the space before what may follow
    elif edition < "4.0":
        columns += [("ASSIGNMENT", None, [brackets(member.held, edition) for member in members])]
    else:
        held, target = [colons(member.held) for member in members], [colons(member.target) for member in members]
        columns += [("CURRENT-EPOCH", 15, [member.epoch for member in members]), ("CURRENT-ASSIGNMENT", widest(20, held), held)]
        columns += [("TARGET-EPOCH", 15, [group.target_epoch] * len(members)), ("TARGET-ASSIGNMENT", widest(20, target), target)]
        if {True, False} <= {member.is_upgraded for member in members}:
            columns += [("UPGRADED", None, [str(member.is_upgraded).lower() for member in members])]
    return notice(edition, group) + "\n" + "".join(f"{line}\n" for line in table(*columns))


def offsets_text(edition: str, group: Kafka, is_verbose: bool) -> str:
    owned = group.owned()
    if not owned:
        return notice(edition, group)
    commits = [group.committed.get(partition, (None, None)) for partition, _ in owned]
    ends = [group.ends.get(partition) for partition, _ in owned]
    topics = [topic for (topic, _), _ in owned]
    ids = [owner.member_id if owner else "-" for _, owner in owned]
    hosts = [owner.host if owner else "-" for _, owner in owned]
    columns: list[Any] = [("GROUP", widest(15, [group.group_id]), [group.group_id] * len(owned))] if edition >= "2.3" else []
    columns += [("TOPIC", widest(15, topics), topics), ("PARTITION", 10, [number for (_, number), _ in owned])]
    columns += [("LEADER-EPOCH", 15, [epoch for _, epoch in commits])] if is_verbose and edition >= "4.0" else []
    columns += [("CURRENT-OFFSET", 15, [offset for offset, _ in commits]), ("LOG-END-OFFSET", 15, ends)]
    lags = [None if offset is None or end is None else end - offset for (offset, _), end in zip(commits, ends, strict=True)]
    columns += [("LAG", 15, lags), ("CONSUMER-ID", widest(15, ids), ids), ("HOST", widest(15, hosts), hosts)]
    columns += [("CLIENT-ID", None, [owner.client_id if owner else "-" for _, owner in owned])]
    lines = "\n" + "\n".join(table(*columns))
    return notice(edition, group) + lines + ("" if edition == "3.8" else "\n")


def state_text(edition: str, group: Kafka, is_verbose: bool) -> str:
    host, port, number = group.coordinator
    coordinator = f"{host}:{port}{'  ' if edition >= '3.8' else ' '}({number})"
    wide = widest(25, [coordinator])
    strategy = group.assignor or ("-" if edition >= "4.0" else "")
    if edition < "2.3":
        widths: tuple[int, ...] = (wide, 25, 20)
    elif edition < "4.0":
        widths = (wide, 25, 20, 15)  # sic: the coordinator's width is GROUP's
    else:
        widths = (widest(15, [group.group_id]), wide, 20, 20)
    columns: list[Any] = [("GROUP", group.group_id)] if edition >= "2.3" else []
    columns += [("COORDINATOR (ID)", coordinator), ("ASSIGNMENT-STRATEGY", strategy), ("STATE", group.state)]
    epochs = [("GROUP-EPOCH", 15, [group.epoch]), ("TARGET-ASSIGNMENT-EPOCH", 25, [group.target_epoch])]
    lines = table(
        *((name, width, [cell]) for (name, cell), width in zip(columns, widths, strict=True)),
        *(epochs if is_verbose and edition >= "4.0" else []),
        ("#MEMBERS", None, [len(group.members)]),
    )
    return notice(edition, group) + "\n" + "\n".join(lines) + "\n"


def list_text(edition: str, groups: Sequence[Kafka], has_type: bool) -> str:
    """``--list --state``, of 2.6, and with ``--type``, of 3.8."""
    ids = [group.group_id for group in groups]
    columns: list[Any] = [("GROUP", widest(15, ids) + (10 if edition >= "3.8" else 0), ids)]
    columns += [("TYPE", 20, [group.kind.capitalize() for group in groups])] if has_type and edition >= "3.8" else []
    columns += [("STATE", 20 if edition >= "3.8" else None, [group.state for group in groups])]
    return "".join(f"{line}\n" for line in table(*columns))


def rendered(edition: str, groups: Sequence[Kafka], output: str) -> str:
    """The output of one command for some groups."""
    command, _, option = output.partition(" ")
    if command == "list":
        return list_text(edition, groups, "--type" in option)
    one = {"members": members_text, "offsets": offsets_text, "state": state_text}[command]
    return "".join(one(edition, group, bool(option)) for group in sorted(groups, key=lambda group: group.group_id.encode("utf-16-be")))


def printed(edition: str, groups: Sequence[Kafka], outputs: Iterable[str]) -> str:
    """The output of several commands, one after the other."""
    text = ""
    for output in outputs:
        # 3.8 ends offsets without a line end. Other tables begin with one; a list's header would stand in the row before it.
        is_glued = output.startswith("list") and text and not text.endswith("\n")
        text += ("\n" if is_glued else "") + rendered(edition, groups, output)
    return text


def expected(edition: str, group: Kafka, outputs: Sequence[str]) -> Group | None:
    """The facts on a group in the outputs; None if they do not name it."""
    commands = {output.partition(" ")[0] for output in outputs}
    has_epochs = edition >= "4.0"
    is_verbose = "members --verbose" in outputs
    has_notice = bool(commands - {"list"} and notice(edition, group))
    rows = group.owned() if "offsets" in commands else []
    has_rows = "members" in commands and group.members
    if not (has_notice or rows or has_rows or commands & {"state", "list"}):
        return None
    state = group.state if commands & {"state", "list"} or (has_notice and group.state == "Empty") else None
    has_kind = (
        (has_rows and is_verbose and (has_epochs or any(any(member.held.values()) for member in group.members)))
        or ("state --verbose" in outputs and has_epochs)
        or ("list --type --state" in outputs and edition >= "3.8")
        or state in REBALANCING
    )
    strategy = (group.assignor or None) if "state" in commands else None
    has_epoch = has_epochs and ((has_rows and is_verbose) or "state --verbose" in outputs)
    holders = [member for member in group.members if any(member.held.values())]
    asks_owners = not (has_rows and is_verbose) and bool(holders) and "offsets" in commands
    is_by_owner = asks_owners or (has_rows and not is_verbose and not holders)
    members = [
        expected_member(edition, group, member, is_verbose, is_by_owner=is_by_owner, is_listed=bool(has_rows))
        for member in (group.members if has_rows else holders if asks_owners else ())
    ]
    return Group(
        group_id=group.group_id,
        group_type=group.kind if has_kind else None,
        state=state,
        is_rebalancing=(has_notice and group.state in REBALANCING) or state in REBALANCING,
        strategy="server-range" if strategy == "range" and has_kind and group.kind == "consumer" else strategy,
        group_epoch=group.epoch if "state --verbose" in outputs and has_epochs else None,
        target_epoch=group.target_epoch if has_epoch else None,
        members=tuple(sorted(members)) if members or (has_notice and group.state == "Empty") else None,
        is_doubtful=False,
        offsets=tuple(
            sorted(
                (expected_offset(group, partition, owner, "offsets --verbose" in outputs and has_epochs) for partition, owner in rows),
                key=lambda row: (row.topic, row.partition, row.owner or ""),
            )
        ),
        is_by_owner=bool(is_by_owner),
        member_count=len(group.members) if "state" in commands else None,
    )


def listed(held: Held | None) -> list[tuple[str, int]]:
    return [(topic, number) for topic, numbers in (held or {}).items() for number in numbers]


def assignment(held: Held | None) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return tuple((topic, tuple(sorted(numbers))) for topic, numbers in sorted((held or {}).items()) if numbers)


def expected_member(edition: str, group: Kafka, member: Consumer, is_verbose: bool, *, is_by_owner: bool, is_listed: bool) -> Member:
    is_moving = is_listed and is_verbose and edition >= "4.0" and group.kind == "consumer"
    has_both = {True, False} <= {one.is_upgraded for one in group.members}
    return Member(
        member_id=member.member_id,
        group_instance_id=member.instance_id if edition >= "2.6" and is_listed else None,
        client_id=member.client_id,
        client_host=member.host,
        partition_count=sum(map(len, member.held.values())),
        assigned=assignment(member.target if is_moving else member.held) if is_verbose or is_by_owner else None,
        current=assignment(member.held) if is_moving else None,
        member_epoch=member.epoch if is_moving else None,
        upgraded=member.is_upgraded if is_moving and has_both else None,
    )


def expected_offset(group: Kafka, partition: tuple[str, int], owner: Consumer | None, has_epoch: bool) -> Offset:
    committed, epoch = group.committed.get(partition, (None, None))
    return Offset(*partition, committed, epoch if has_epoch else None, group.ends.get(partition), owner.member_id if owner else None)


# Characters of names: Java prints any. At the end of a name, spaces look like padding.
LETTERS = "ab7-_. \t'\":;,()é漢\u00a0\u0085\u2028\x0b𝄞/#$"
names = st.text(LETTERS, max_size=24).map(lambda text: text.rstrip(" "))
filled_names = names.filter(lambda name: bool(name.strip()))
plain_names = st.text("abz09_.-", min_size=1, max_size=24)
topics = st.one_of(st.sampled_from(["t", "orders", "a.b-c_d", "-", "x" * 249]), plain_names)
assignments = st.dictionaries(topics, st.lists(st.integers(0, 12), unique=True, max_size=5), max_size=3)
offsets = st.one_of(st.integers(0, 999), st.integers(0, 2**63 - 1))


@st.composite
def consumers(draw: st.DrawFn, ids: st.SearchStrategy[str], kind: str, is_rebalancing: bool) -> Consumer:
    client_id = draw(ids)
    is_consumer = kind == "consumer"
    return Consumer(
        member_id=f"{client_id}-{draw(st.uuids())}" if draw(st.booleans()) else draw(st.text("AZaz09_", min_size=22, max_size=22)),
        instance_id=draw(st.one_of(st.none(), st.text("ab0._", min_size=1, max_size=30))),
        client_id=client_id,
        host=draw(st.sampled_from(["/10.0.0.11", "/127.0.0.1", "/fe80:0:0:0:a1b2:c3d4:e5f6:1%eth0", "node-1/10.1.2.3"])),
        held={} if is_rebalancing and not is_consumer else draw(assignments),
        target=draw(assignments) if is_consumer else None,
        epoch=draw(st.integers(0, 2**31 - 1)) if is_consumer else None,
        is_upgraded=draw(st.booleans()) if is_consumer else None,
    )


@st.composite
def kafkas(draw: st.DrawFn, ids: st.SearchStrategy[str] = names, kinds: Sequence[str] = ("classic", "consumer")) -> Kafka:
    kind = draw(st.sampled_from(kinds))
    states = ("PreparingRebalance", "CompletingRebalance") if kind == "classic" else ("Assigning", "Reconciling")
    state = draw(st.sampled_from(["Stable", "Empty", *states]))
    member = consumers(ids, kind, state in REBALANCING)
    members = () if state == "Empty" else draw(st.lists(member, min_size=1, max_size=4, unique_by=lambda one: one.member_id))
    held = [partition for member in members for partition in listed(member.held)]
    # At the epoch of the target a member has nothing that the target gives to others.
    before_target = {member.epoch for member in members if set(listed(member.held)) - set(listed(member.target))}
    known = [*dict.fromkeys(held), *draw(st.lists(st.tuples(topics, st.integers(0, 3)), unique=True, max_size=2))]
    has_commit = {partition: draw(st.booleans()) for partition in known}
    return Kafka(
        group_id=draw(ids.filter(lambda name: bool(name.strip()))),
        kind=kind,
        state=state,
        assignor=draw(st.sampled_from(["range", "cooperative-sticky", "org.acme.AnAssignorOfALongName"])) if members else "",
        coordinator=(draw(st.sampled_from(["b1", "broker-1.kafka.prod.acme.example", "0:0:0:0:0:0:0:1"])), 9092, draw(st.integers(0, 99))),
        epoch=draw(st.integers(0, 99)) if kind == "consumer" else None,
        target_epoch=draw(st.integers(0, 99).filter(lambda epoch: epoch not in before_target)) if kind == "consumer" else None,
        members=tuple(members),
        committed={
            partition: (draw(offsets), draw(st.one_of(st.none(), st.integers(0, 9)))) for partition in known if has_commit[partition]
        },
        ends={partition: draw(offsets) for partition in known if draw(st.booleans())},
    )


def kinds_of(edition: str) -> tuple[str, ...]:
    return ("classic",) if edition < "3.8" else ("classic", "consumer")


@st.composite
def sessions(
    draw: st.DrawFn, editions: Sequence[str] = EDITIONS, ids: st.SearchStrategy[str] = names
) -> tuple[str, list[Kafka], list[str]]:
    """A version, groups, and commands for all of them: one of each kind that the version has and that names topics."""
    edition = draw(st.sampled_from(editions))
    several = 1 if edition < "2.3" else 3
    groups = draw(st.lists(kafkas(ids, kinds_of(edition)), min_size=1, max_size=several, unique_by=lambda group: group.group_id))
    commands = ["members", "offsets", "state"] + ["list"] * (edition >= "2.6")
    outputs = []
    for command in draw(st.permutations(commands))[: draw(st.integers(1, len(commands)))]:
        options = [output for output in OUTPUTS if output.startswith(command)]
        outputs.append(draw(st.sampled_from(options[:1] if (edition, command) == ("3.8", "members") else options)))
    return edition, groups, outputs


def wanted(edition: str, groups: Sequence[Kafka], outputs: Sequence[str]) -> tuple[Group, ...]:
    found = [expected(edition, group, outputs) for group in sorted(groups, key=lambda group: group.group_id)]
    return tuple(group for group in found if group is not None)
