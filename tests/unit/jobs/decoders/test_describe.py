"""Texts of ``kafka-consumer-groups`` read back: recorded ones, and ones rendered here from the tool's own formats of every version."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.decoders import describe
from jobs.decoders.describe import find_fold, find_lost_topic_names, looks_like_describe
from jobs.decoders.describe_model import Description, Group, Line, Member, Offset, Place
from jobs.decoders.text_pieces import read_whole
from tests.builders.describe_texts import Consumer, Kafka, filled_names, kafkas, plain_names, printed, rendered, sessions, wanted

RECORDED = Path(__file__).parents[3] / "golden" / "describe" / "recorded.jsonl.gz"
SNAPSHOTS = [json.loads(line) for line in gzip.decompress(RECORDED.read_bytes()).decode().splitlines()]


def parse(text: str, group_id: str | None = None) -> Description:
    return describe.parse({"": text}, group_id)


# Recorded outputs.


def recorded_group(snapshot: dict[str, Any], group_id: str) -> Kafka:
    recorded = snapshot["groups"][group_id]
    is_consumer = recorded["type"] == "Consumer"
    split_names = {name: tuple(name.rsplit("-", 1)) for name in (*recorded["committed"], *snapshot["end_offsets"])}
    return Kafka(
        group_id=group_id,
        kind=recorded["type"].lower(),
        state=recorded["state"],
        assignor=recorded["assignor"],
        coordinator=("127.0.0.1", 29091 + recorded["coordinator"], recorded["coordinator"]),
        epoch=recorded["group_epoch"],
        target_epoch=recorded["target_assignment_epoch"],
        members=tuple(
            Consumer(
                member_id=member["member_id"],
                instance_id=member["instance_id"],
                client_id=member["client_id"],
                host=member["host"],
                held=member["assignment"],
                target=(member["target_assignment"] or {}) if is_consumer else None,
                epoch=member["member_epoch"],
                is_upgraded=member["upgraded"],
            )
            for member in recorded["members"]
        ),
        committed={(split_names[name][0], int(split_names[name][1])): tuple(commit) for name, commit in recorded["committed"].items()},
        ends={(split_names[name][0], int(split_names[name][1])): end for name, end in snapshot["end_offsets"].items() if end is not None},
    )


COMMANDS = {"members": "members --verbose", "offsets": "offsets", "state": "state", "list": "list --state"}


@pytest.mark.parametrize("snapshot", SNAPSHOTS, ids=[snapshot["snapshot"] for snapshot in SNAPSHOTS])
def test_recorded_text_equals_the_admin_clients_description(snapshot):
    groups = [recorded_group(snapshot, group_id) for group_id in snapshot["groups"]]
    together = "".join(snapshot["texts"][command] for command in COMMANDS)
    for text, outputs in [
        *((snapshot["texts"][command], [output]) for command, output in COMMANDS.items()),
        (together, [*COMMANDS.values()]),
    ]:
        description = parse(text)
        assert description.rejects == description.skipped == ()
        assert description.groups == wanted("4.0", groups, outputs)


@pytest.mark.parametrize("snapshot", SNAPSHOTS, ids=[snapshot["snapshot"] for snapshot in SNAPSHOTS])
def test_generator_renders_what_was_recorded(snapshot):
    """Line by line and space by space; the order of rows is that of Java's maps."""
    groups = [recorded_group(snapshot, group_id) for group_id in snapshot["groups"]]
    for command, output in COMMANDS.items():
        assert Counter(rendered("4.0", groups, output).split("\n")) == Counter(snapshot["texts"][command].split("\n"))


# Every version.


@given(sessions())
@settings(max_examples=300, deadline=None)
def test_output_of_every_edition_is_read_back(session):
    edition, groups, outputs = session
    description = parse(printed(edition, groups, outputs), groups[0].group_id)
    assert description.rejects == description.skipped == ()
    assert description.groups == wanted(edition, groups, outputs)


@given(sessions(), st.data())
@settings(max_examples=100, deadline=None)
def test_lines_between_and_line_ends_change_nothing(session, data):
    edition, groups, outputs = session
    lines = printed(edition, groups, outputs).split("\n")
    asides = [
        "[2026-11-21 02:21:13,123] WARN [AdminClient clientId=adminclient-1] Connection to node -1 (broker/10.0.0.1:9092) could not be"
        " established. (org.apache.kafka.clients.NetworkClient)",
        "2026-11-21T02:21:13.123Z main ERROR Reconfiguration failed: No configuration found for '1' at 'null'",
        "SLF4J(W): No SLF4J providers were found.",
        "OpenJDK 64-Bit Server VM warning: Options -Xverify:none were deprecated",
        "\tat org.apache.kafka.tools.consumer.group.ConsumerGroupCommand.run(ConsumerGroupCommand.java:129)",
        "java.util.concurrent.ExecutionException: org.apache.kafka.common.errors.TimeoutException: Timed out",
    ]
    count = 0
    for at in sorted(data.draw(st.lists(st.integers(0, len(lines)), max_size=4)), reverse=True):
        aside = data.draw(st.sampled_from(["", "   ", *asides]))
        lines.insert(at, aside)
        count += bool(aside.strip())
    end = data.draw(st.sampled_from(["\n", "\r\n"]))
    description = parse(data.draw(st.sampled_from(["", "\ufeff"])) + end.join(lines), groups[0].group_id)
    assert description.groups == wanted(edition, groups, outputs)
    assert description.rejects == ()
    assert [line.detail for line in description.skipped] == ["a log line"] * count


def unexpanded(line: str) -> str:
    """As ``unexpand -a`` has it: runs of spaces up to a multiple of eight become a tab."""
    blocks = [line[at : at + 8] for at in range(0, len(line), 8)]
    return "".join(re.sub(r" {2,}$", "\t", block) if len(block) == 8 else block for block in blocks)


@given(sessions(), st.data())
@settings(max_examples=100, deadline=None)
def test_colours_of_a_terminal_change_nothing(session, data):
    edition, groups, outputs = session
    text = printed(edition, groups, outputs)
    codes = [("\x1b[01;31m\x1b[K", "\x1b[m\x1b[K"), ("\x1b[38;5;2m", "\x1b[0m"), ("\x1b[1m", "\x1b(B\x1b[m")]
    codes += [("\x1b[?2004h", "\x1b[?2004l")]
    lines = text.split("\n")
    for at in data.draw(st.sets(st.integers(0, len(lines) - 1), max_size=4)):
        line, (begin, end) = lines[at], data.draw(st.sampled_from(codes))
        first, last = sorted(data.draw(st.tuples(st.integers(0, len(line)), st.integers(0, len(line)))))
        lines[at] = f"{line[:first]}{begin}{line[first:last]}{end}{line[last:]}"
    assert looks_like_describe("\n".join(lines)) == bool(text)
    assert parse("\n".join(lines), groups[0].group_id) == parse(text, groups[0].group_id)


def has_header(text: str) -> bool:
    lines = text.split("\n")
    return any(describe.find_table(lines, at) for at in range(len(lines)))


@given(
    sessions().filter(lambda session: has_header(printed(*session))),
    st.sampled_from(
        [
            *("2024-05-01T10:00:{:02}.123456789Z ", "2024-05-01 10:00:{:02},123 ", "[2024-05-01T10:00:{:02}.123Z] ", "10:00:{:02} "),
            *("May  1 10:00:{:02} ", "May  1 10:00:{:02} host-1 look[123]: ", "2024-05-01T10:00:{:02}+0000 host-1 look.sh[123]: "),
            *("[pod/kafka-0/kafka] ", "broker-1  | ", "kafka_broker.1.k2x0@node-1    | ", "kafka-1: ", "> ", ">> "),
            *("all.txt:", "looks/all.txt:{}:", "{}:", "    {}\t"),
        ]
    ),
    st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_what_is_before_each_line_changes_nothing(session, mark, is_stripped):
    edition, groups, outputs = session
    text = printed(edition, groups, outputs)
    lines = [mark.format(at % 60) + line for at, line in enumerate(text.split("\n"))]
    marked = "\n".join(line.rstrip() if is_stripped and not line.removeprefix(mark).strip() else line for line in lines)
    assert looks_like_describe(marked)
    assert parse(marked, groups[0].group_id) == parse(text, groups[0].group_id)


@pytest.mark.parametrize("blank", ["\u00a0", "\u202f"])
@given(sessions().filter(lambda session: has_header(printed(*session))))
@settings(max_examples=50, deadline=None)
def test_blanks_of_a_web_page_are_read_as_spaces(blank, session):
    edition, groups, outputs = session
    text = printed(edition, groups, outputs).replace("\u00a0", " ").replace("\u202f", " ")
    for pasted in (text.replace(" ", blank), text.replace("  ", f"{blank} ")):
        assert looks_like_describe(pasted)
        assert parse(pasted, groups[0].group_id) == parse(text, groups[0].group_id)


def test_blank_of_a_web_page_may_come_after_two_words_of_a_header():
    """``--state`` of 2.0 begins with COORDINATOR (ID), and a web page may keep its single space."""
    text = "COORDINATOR (ID)         ASSIGNMENT-STRATEGY STATE      #MEMBERS\nb1:9092 (0)              range               Stable     1\n"
    pasted = parse(text.replace("  ", "\u00a0 "), "g")
    assert pasted == parse(text, "g")
    assert [group.state for group in pasted.groups] == ["Stable"]


@pytest.mark.parametrize(("opened", "closed"), [("{noformat}", "{noformat}"), ("{code:bash}", "{code}"), ("<pre><code>", "</code></pre>")])
def test_tags_beside_a_table_change_nothing(opened, closed):
    text = "\n".join([TABLE, *ROWS])
    assert looks_like_describe(f"see:\n{opened}{TABLE}\r\n")
    assert parse(f"{opened}{text}{closed}") == parse(text)
    rows = [OFFSETS, offset_line(owner="c-1", host="/10.0.0.1", client="c")]
    assert parse("\n".join([opened + rows[0], rows[1] + closed])) == parse("\n".join(rows))
    assert parse(f"{text}{closed}").rejects, "a name may end so"


@pytest.mark.parametrize("edge", ["", "|"])
def test_table_of_markdown_is_read(edge):
    table = [f"{edge} {' | '.join(line.split())} {edge}" for line in (TABLE, *ROWS)]
    table.insert(1, f"{edge}---{'|---' * 5}{edge}")
    description = parse("\n".join(table))
    assert [(group.group_id, len(group.members), group.is_doubtful) for group in description.groups] == [("billing", 2, False)]
    assert description.rejects == ()


@given(sessions(editions=("2.3", "2.6", "4.0"), ids=plain_names), st.data())
@settings(max_examples=100, deadline=None)
def test_rows_before_their_header_are_read(session, data):
    """``sort`` puts the header among its rows, since a locale may have capital letters last."""
    edition, (group, *_), _ = session
    text = rendered(edition, [group], data.draw(st.sampled_from(["members --verbose", "offsets"])))
    before, line_break, table = text.rpartition("\n\n")
    header, *rows = [line for line in (table or text).split("\n") if line.strip()] or [""]
    at = data.draw(st.integers(0, len(rows)))
    description = parse("\n".join([before, line_break, *rows[:at], header, *rows[at:]]))
    assert (description.groups, description.rejects) == (parse(text).groups, ())


def test_rows_of_another_table_before_a_header_are_not_taken():
    other = "GROUP           TOPIC           PARTITION  START-OFFSET    LAG"
    description = parse("\n".join([other, offset_line(), OFFSETS, offset_line(partition=1)]))
    assert [one.partition for group in description.groups for one in group.offsets] == [1]
    assert [line.place.number for line in description.rejects] == [1, 2]


def test_name_with_codes_of_a_terminal_is_kept():
    """Kafka allows them. A colour without a return to the terminal's own is none that a program has added."""
    name = "\x1b[31mred\x1b]0;t\x07"
    assert [group.group_id for group in parse(f"{OFFSETS}\n{offset_line(group=name)}").groups] == [name]


@given(sessions(ids=st.text("abz09_.- ", max_size=24).map(lambda name: " ".join(name.split()))))
@settings(max_examples=100, deadline=None)
def test_tabs_for_spaces_change_nothing(session):
    edition, groups, outputs = session
    text = printed(edition, groups, outputs)
    description = parse("\n".join(map(unexpanded, text.split("\n"))), groups[0].group_id)
    assert description.rejects == ()
    assert description.groups == wanted(edition, groups, outputs)


@given(sessions())
@settings(max_examples=50, deadline=None)
def test_indented_text_is_read_like_plain_text(session):
    edition, groups, outputs = session
    description = parse("\n".join(f"    {line}" for line in printed(edition, groups, outputs).split("\n")), groups[0].group_id)
    assert description.rejects == ()
    assert description.groups == wanted(edition, groups, outputs)


def folded(text: str, width: int) -> str:
    """Break the lines of tables between words, each as full as fits; runs of spaces are lost, as in mail."""
    lines = []
    for line in text.split("\n"):
        lines.append("")
        for word in [line] if line.endswith((" active members.", " is rebalancing.")) else line.split():
            if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
                lines.append("")
            lines[-1] += f" {word}" if lines[-1] else word
    return "\n".join(lines)


@given(sessions(ids=plain_names), st.sampled_from([60, 72, 80, 100, 10_000]))
@settings(max_examples=150, deadline=None)
def test_collapsed_and_folded_text_is_read_by_its_words(session, width):
    edition, groups, outputs = session
    description = parse(folded(printed(edition, groups, outputs), width), groups[0].group_id)
    assert description.rejects == ()
    assert description.groups == wanted(edition, groups, outputs)


@given(sessions(ids=st.text("ab7/ ", max_size=9).map(lambda name: " ".join(name.split()))))
@settings(max_examples=300, deadline=None)
def test_collapsed_text_with_spaces_in_names_is_never_read_wrongly(session):
    """A space in a name and a blank name can make up for each other in the count of words."""
    edition, groups, outputs = session
    description = parse(folded(printed(edition, groups, outputs), 10_000), groups[0].group_id)
    right = {group.group_id: group for group in wanted(edition, groups, outputs)}
    for group in description.groups:
        assert group.is_by_owner or set(group.members or ()) <= set(right[group.group_id].members or ())
        assert set(group.offsets) <= set(right[group.group_id].offsets)


@given(sessions(), st.data())
@settings(max_examples=200, deadline=None)
def test_every_line_of_a_damaged_text_is_accounted_for(session, data):
    """Lines shuffled over two files, doubled, cut and spoiled: a row is used once, or it is in one of the lists; nothing is raised."""
    edition, groups, _ = session
    outputs = [data.draw(st.sampled_from(["members", "offsets"]))]
    lines = data.draw(st.permutations(printed(edition, groups, outputs).split("\n")))
    lines += data.draw(st.lists(st.sampled_from(lines), max_size=3))
    for at in data.draw(st.lists(st.integers(0, len(lines) - 1), max_size=4)):
        cut = data.draw(st.integers(0, len(lines[at])))
        lines[at] = lines[at][:cut] + data.draw(st.sampled_from(["", " ", "x", "\t", "\ud800", "9", "-"])) + lines[at][cut + 1 :]
    middle = data.draw(st.integers(0, len(lines)))
    description = describe.parse({"a": "\n".join(lines[:middle]), "b": "\n".join(lines[middle:])}, "g")
    looks = [description.groups, *(look.groups for look in description.earlier)]
    rows = sum(len(group.offsets if outputs == ["offsets"] else group.members or ()) for groups in looks for group in groups)
    others = [line for line in lines if looks_like_describe(line)]
    blank = [line for line in lines if not line.strip()]
    absent = [line for line in description.skipped + description.rejects if looks_like_describe(line.text)]
    assert rows + len(description.skipped) + len(description.rejects) - len(absent) == len(lines) - len(others) - len(blank)


@given(st.lists(st.one_of(st.text(), st.sampled_from(["GROUP ", "TOPIC ", "CONSUMER-ID ", "HOST", " STATE\n", "\n", "COORDINATOR (ID) "]))))
@settings(max_examples=200, deadline=None)
def test_any_text_is_parsed_without_an_error(pieces):
    text = "".join(pieces)
    description = parse(text)
    assert len(description.skipped) + len(description.rejects) <= len(text.split("\n"))


@given(sessions())
@settings(max_examples=100, deadline=None)
def test_description_is_recognised_by_its_first_lines(session):
    edition, groups, outputs = session
    text = printed(edition, groups, outputs)
    assert looks_like_describe(text) == bool(text)
    assert looks_like_describe("\ufeff\r\nhello\r\n" + text.replace("\n", "\r\n")) == bool(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        '{"partition": 0, "offset": 1, "key_b64": null}\n',
        "Topic: orders\tTopicId: x\tPartitionCount: 4\n\tTopic: orders\tPartition: 0\tLeader: 3\tReplicas: 3\tIsr: 3\n",
        "GROUP           TOPIC\n",
        "GROUP           TYPE                 PROTOCOL\n",
        "STATE\n",
        "$ kafka-consumer-groups.sh --describe --group orders-svc\n",
    ],
)
def test_other_texts_are_not_recognised_as_descriptions(text):
    assert not looks_like_describe(text)


# What a text may have wrong, or not at all.

OFFSETS = (
    "GROUP           TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG             CONSUMER-ID     HOST            CLIENT-ID"
)
OFFSET = "{group:15} {topic:15} {partition:<10} {committed:<15} {end:<15} {lag:<15} {owner:15} {host:15} {client}"
MEMBERS = "GROUP           CONSUMER-ID     HOST            CLIENT-ID       #PARTITIONS     "
MEMBER = "{group:15} {member:15} /10.0.0.1       c               {count:<15} {rest}"
STATE = "GROUP           COORDINATOR (ID)          ASSIGNMENT-STRATEGY  STATE                #MEMBERS"


def offset_line(group: str = "g", partition: object = 0, committed: object = 5, end: object = 9, lag: object = 4, **names: str) -> str:
    names = {"topic": "t", "owner": "-", "host": "-", "client": "-", **names}
    return OFFSET.format(group=group, partition=partition, committed=committed, end=end, lag=lag, **names)


def member_line(member: str, count: int, rest: str, group: str = "g") -> str:
    return MEMBER.format(group=group, member=member, count=count, rest=rest)


def reasons(*lines: str) -> list[str]:
    description = parse("\n".join(lines))
    return [line.detail for line in description.rejects]


def test_reconciling_group_sample_has_current_and_target_assignment():
    description = parse(
        "GROUP           CONSUMER-ID            HOST            CLIENT-ID       #PARTITIONS     CURRENT-EPOCH   CURRENT-ASSIGNMENT    "
        "TARGET-EPOCH    TARGET-ASSIGNMENT   \n"
        "orders-svc      Q2b0s7cXQ9e3F0q6mQ8k1w /10.0.0.11      orders-1        3               8               orders:0,1;payments:0 "
        "9               orders:0            \n"
    )
    both = (("orders", (0, 1)), ("payments", (0,)))
    member = Member("Q2b0s7cXQ9e3F0q6mQ8k1w", None, "orders-1", "/10.0.0.11", 3, (("orders", (0,)),), both, 8, None)
    assert description.groups == (Group("orders-svc", "consumer", None, False, None, None, 9, (member,), False, ()),)


@pytest.mark.parametrize("cell", ["(0), (0,1)", "(0)", "(0,1,10,2)"])
def test_assignments_without_topics_are_refused(cell):
    count = cell.replace("),", ")").count(",") + cell.count("(")
    text = f"\n{MEMBERS}ASSIGNMENT\n{member_line('a', 0, '-')}\n{member_line('b', count, cell)}\n"
    description = parse(text)
    assert [(group.group_id, group.is_doubtful) for group in description.groups] == [("g", True)]
    (reject,) = description.rejects
    assert find_lost_topic_names(text) == f"{reject.place}: {reject.detail}"
    assert find_lost_topic_names(text) == (
        f"line 4: found '{cell}' in column ASSIGNMENT, expected topic names before the partitions. The tools of Kafka 3.8 and 3.9 leave"
        " them out (KAFKA-14589; fixed in 4.0 by KAFKA-17750). Describe the groups again with the tools of Kafka 4.0 or newer, or of 3.7 or"
        " older, against the same brokers, or without --members: then the tool prints the owner of each partition"
    )


@given(kafkas(filled_names, ("classic", "consumer")).filter(lambda group: any(any(one.held.values()) for one in group.members)))
@settings(max_examples=30, deadline=None)
def test_assignments_printed_by_3_8_are_refused(group):
    assert find_lost_topic_names(rendered("3.8", [group], "members --verbose"))


def test_tables_without_a_group_column_belong_to_the_group_of_the_command_line():
    groups = [Kafka(name, "classic", "Empty", "", ("b", 1, 1), None, None, (), {("t", 0): (7, None)}, {}) for name in ("a", "b c", "d")]
    text = "\n".join(
        f"{command}\n{rendered('2.0', [group], 'offsets')}"
        for command, group in zip(
            [
                "me@host:~/kafka$ bin/kafka-consumer-groups.sh --bootstrap-server b:9092 --describe --group a",
                'C:\\kafka>bin\\windows\\kafka-consumer-groups.bat --describe --group="b c"',
                "$ kafka-consumer-groups --describe",
            ],
            groups,
            strict=True,
        )
    )
    description = parse(text, "d")
    assert description.groups == wanted("2.0", groups, ["offsets"])
    assert [(line.place.number, line.detail) for line in description.skipped] == [
        (1, "a command line"),
        (7, "a command line"),
        (13, "a command line"),
    ]
    assert [line.detail for line in parse(text).rejects] == [
        "the tools before Kafka 2.3 do not print the group: put the command line, with --group, before its output"
    ]


EMPTY = Kafka("g1", "classic", "Empty", "", ("b", 1, 1), None, None, (), {("t", 0): (7, None)}, {})
TOOL = "kafka-consumer-groups.sh --bootstrap-server b:9092 --describe"


@pytest.mark.parametrize(
    "command",
    [
        f"$ {TOOL} --group g1; date",
        f"$ {TOOL} --group=g1; date",
        f"$ {TOOL} --group g1|cat",
        f"$ ({TOOL} --group g1)",
        f"$ {TOOL} --group g1>&2",
        f"$ {TOOL} \\\n    --offsets \\\n    --group g1",
        f"$ {TOOL} \\\n> --group \\\n> g1",
        f"> {TOOL} ^\n    --group g1",
        f"PS C:\\kafka> {TOOL} `\n    --group g1",
        f'$ kubectl exec kafka-0 -- bash -c "{TOOL} --group g1"',
        f"$ kubectl exec kafka-0 -- bash -c \"{TOOL} --group 'g1' | cat\"",
        f"bob's-mac:kafka bob$ {TOOL} --group g1",
        f"bob's-mac:kafka bob$ {TOOL} --group 'g1'",
        "$ bin/kafka-run-class.sh kafka.admin.ConsumerGroupCommand --bootstrap-server b:9092 --describe --group g1",
    ],
)
def test_group_of_a_command_line_is_found_in_any_shell(command):
    description = parse(f"{command}\n{rendered('2.0', [EMPTY], 'offsets')}")
    assert [group.group_id for group in description.groups if group.offsets] == ["g1"]
    assert {line.kind for line in description.skipped} == {"command_line"}


@pytest.mark.parametrize(
    "command",
    [
        f"$ for g in a b; do {TOOL} --group $g; done",
        f'$ for g in a b; do {TOOL} --group "$g"; done',
        f'$ bash -c "{TOOL} --group $1"',
        f'$ bash -c "{TOOL} --group \\"b c\\""',
        f"$ {TOOL} --group `cat group`",
        f"$ {TOOL} --group a; {TOOL} --group b",
    ],
)
def test_group_that_a_command_line_does_not_name_for_sure_is_the_given_one(command):
    text = f"{command}\n{rendered('2.0', [EMPTY], 'offsets')}"
    assert [group.group_id for group in parse(text, "given").groups if group.offsets] == ["given"]


def test_command_line_that_goes_on_ends_with_its_file():
    files = {"1": f"$ {TOOL} --group g1 \\", "2": "--group g2"}
    assert [(line.place.name, line.kind) for line in describe.parse(files).skipped] == [("1", "command_line"), ("2", "not_a_table_line")]


def test_a_command_line_ends_a_table():
    description = parse(f"{MEMBERS}\n{member_line('a', 1, '')}\n$ date\n{member_line('b', 1, '')}")
    assert [member.member_id for member in description.groups[0].members] == ["a"]
    assert [line.place.number for line in description.rejects] == [4]


def test_notices_give_group_states():
    description = parse(
        "Consumer group 'a' has no active members.\n\nWarning: Consumer group 'it's' is rebalancing.\n"
        "\nError: Consumer group 'gone' does not exist.\n"
        "\nError: Executing consumer group command failed due to org.apache.kafka.common.errors.TimeoutException: Timed out\n"
    )
    nothing = Group("", None, None, False, None, None, None, None, False, ())
    assert description.groups == (
        nothing._replace(group_id="a", state="Empty", members=()),
        nothing._replace(group_id="it's", is_rebalancing=True),
    )
    assert [(line.place.number, line.detail) for line in description.skipped] == [(5, "the group does not exist")]
    assert [(line.place.number, line.detail) for line in description.rejects] == [(7, "the tool failed: its output is not complete")]


@pytest.mark.parametrize(
    ("failure", "detail"),
    [
        ("GroupIdNotFoundException: Group no such.group not found.", "the group does not exist"),
        ("GroupIdNotFoundException: Group share group is not a consumer group.", "the group is no consumer group"),
    ],
)
@pytest.mark.parametrize("cause", ["", "java.util.concurrent.ExecutionException: "])
def test_failure_about_a_group_without_members_of_consumers_is_skipped(failure, detail, cause):
    description = parse(
        f"\nError: Executing consumer group command failed due to {cause}org.apache.kafka.common.errors.{failure}\n"
        f"java.util.concurrent.ExecutionException: org.apache.kafka.common.errors.{failure}\n"
        "\tat java.base/java.util.concurrent.CompletableFuture.reportGet(CompletableFuture.java:396)\n"
    )
    assert [(line.place.number, line.detail) for line in description.skipped if line.kind != "log_line"] == [(2, detail)]
    assert (description.groups, description.rejects) == ((), ())


def test_group_whose_name_begins_like_a_failure_is_read():
    description = parse("\n".join([OFFSETS, offset_line(group="Error: x")]))
    assert [(group.group_id, len(group.offsets)) for group in description.groups] == [("Error: x", 1)]
    assert description.rejects == ()


def test_repeated_lines_of_several_outputs_are_skipped():
    group = Kafka("g", "classic", "Empty", "", ("b", 1, 1), None, None, (), {("t", 0): (7, 2)}, {("t", 0): 9})
    outputs = ["offsets", "offsets --verbose", "state", "list --state", "offsets"]
    description = parse(printed("4.0", [group], outputs))
    assert description.groups == wanted("4.0", [group], ["offsets --verbose", "state"])
    assert description.rejects == ()
    assert [(line.place.number, line.detail) for line in description.skipped] == [(5, "repeats line 10"), (22, "repeats line 10")]


def test_outputs_of_two_moments_keep_the_fuller_and_reject_the_other():
    before, after = ({"t": [0]}, {"t": [0, 1]})
    old, new = (
        Kafka("g", "classic", "Stable", "range", ("b", 1, 1), None, None, (Consumer("m-1", None, "m", "/h", held),), {}, {})
        for held in (before, after)
    )
    joined = replace(old, members=(*new.members, Consumer("m-2", None, "m", "/h", {})))
    description = parse(rendered("4.0", [joined], "members") + rendered("4.0", [old], "members --verbose"))
    assert description.groups == wanted("4.0", [old], ["members --verbose"])
    assert [line.detail for line in description.rejects] == [
        "partition_count is 2 here and 1 in line 7: the outputs are of different moments",
        "the table at line 6 has this group without this row: the outputs are of different moments",
    ]
    moved = replace(old, state="PreparingRebalance")
    description = parse(rendered("4.0", [old], "state") + rendered("4.0", [moved], "list --state"))
    assert description.groups == wanted("4.0", [old], ["state"])
    assert [line.detail for line in description.rejects] == [
        "state is PreparingRebalance here and Stable in line 3: the outputs are of different moments"
    ]


def test_two_owners_of_a_partition_are_two_rows():
    description = parse("\n".join([OFFSETS, offset_line(owner="a", host="/h", client="c"), offset_line(owner="b", host="/h", client="c")]))
    assert [row.owner for row in description.groups[0].offsets] == ["a", "b"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (offset_line(lag=3), "LAG is 3, but LOG-END-OFFSET minus CURRENT-OFFSET is 4"),
        (offset_line(committed=-2, lag="-"), "CURRENT-OFFSET: expected an offset, found -2"),
        (offset_line(partition="-"), "PARTITION: expected a whole number, found '-'"),
        (offset_line(partition=2**31), "expected a whole number of 32 bits, found 2147483648"),
        (offset_line(topic="t:1"), "TOPIC: expected a topic, found 't:1'"),
        (offset_line(group=""), "GROUP: expected a value, found none"),
        (offset_line(owner=""), "CONSUMER-ID: expected a value, found none"),
        (offset_line(end="1.5", lag="-"), "LOG-END-OFFSET: expected a whole number or -, found '1.5'"),
        (offset_line(group="a group-that-is-wider"), "column GROUP does not end where its header does"),
        (offset_line(host="/h x"), "HOST: expected an address or -, found '/h x'"),
        ("x\ud800" + offset_line(), "it is not UTF-8"),
    ],
)
def test_inconsistent_offset_rows_are_rejected(line, reason):
    assert reasons(OFFSETS, line, offset_line(partition=3)) == [reason]


@pytest.mark.parametrize(
    ("header", "count", "cells", "reason"),
    [
        ("ASSIGNMENT", 3, "t(0,1)", "#PARTITIONS is 3, and ASSIGNMENT has 2: the row was cut or damaged"),
        # kafka-share-groups.sh has this header, too.
        ("ASSIGNMENT", 2, "t:0,1", "ASSIGNMENT: expected topic(0,1), ... or -, each topic once, found 't:0,1'"),
        ("ASSIGNMENT", 2, "t(0), t(1)", "ASSIGNMENT: expected topic(0,1), ... or -, each topic once, found 't(1)'"),
        ("ASSIGNMENT", 0, "", "ASSIGNMENT: expected topic(0,1), ... or -, each topic once, found ''"),
    ],
)
def test_inconsistent_member_rows_are_rejected(header, count, cells, reason):
    description = parse(f"{MEMBERS}{header}\n{member_line('a', count, cells)}\n{member_line('b', 1, 't(5)')}")
    assert [line.detail for line in description.rejects] == [reason]
    assert [member.member_id for member in description.groups[0].members] == ["b"]


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        (
            ("3", "t:0", "-", "-"),
            "TARGET-EPOCH: expected a number beside a CURRENT-EPOCH or a TARGET-ASSIGNMENT, found '-'",
        ),
        (("3", "t:0", "4", "t:0;t:1"), "TARGET-ASSIGNMENT: expected topic:0,1;... or -, each topic once, found 't:1'"),
        (("-", "t:0", "-", "t:0"), "TARGET-EPOCH: expected a number beside a CURRENT-EPOCH or a TARGET-ASSIGNMENT, found '-'"),
        (("3", "t:0", "-4", "t:0"), "TARGET-EPOCH: expected a whole number, found '-4'"),
        (("-2", "t:0", "4", "t:0"), None),
        (("3", "t:0,0", "4", "-"), None),
        # A terminal or ``watch`` has cut t:1,10 at its width. Kafka's CurrentAssignmentBuilder takes what is not in the target away first.
        (("4", "t:10", "4", "t:1"), "CURRENT-ASSIGNMENT has more than TARGET-ASSIGNMENT at its epoch: the row was cut or damaged"),
        (("4", "t:1", "4", "t:1,10"), None),
    ],
)
def test_inconsistent_rows_of_reconciling_members_are_rejected(cells, reason):
    header = "{:15} {:20} {:15} {:20}".format("CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT")
    description = parse(f"{MEMBERS}{header}\n{member_line('a', 1, '{:15} {:20} {:15} {:20}'.format(*cells))}")
    assert [line.detail for line in description.rejects] == ([reason] if reason else [])


def test_row_that_can_only_be_read_by_its_words_names_the_column_that_is_wrong():
    row = collapsed(ROWS[1]).replace("orders(1)", "orders(1),(2)")
    assert reasons(TABLE, row) == ["ASSIGNMENT: expected topic(0,1), ... or -, each topic once, found '(2)'"]
    row = collapsed(ROWS[1]).replace(" 1 orders", " 2 orders")
    assert reasons(TABLE, row) == ["#PARTITIONS is 2, and ASSIGNMENT has 1: the row was cut or damaged"]


def test_rows_of_a_folded_table_that_do_not_fit_are_counted_each_by_itself():
    rows = [f"g t {number} 5 9 4 AAAAAAAAAAAAAAAAAAAAAA /10.0.0.1" for number in range(3)]
    assert reasons(collapsed(OFFSETS), *rows) == ["the row is not aligned with its header, and has 8 words for 9 columns"] * 3


def test_coordinator_that_a_terminal_has_cut_makes_no_group():
    """A terminal of 80 columns folds within words. In these tables of 2.3 to 3.7 the group is as wide as the coordinator."""
    wide = "{:62} {:25} {:20} {:15} {}".format
    coordinator = "b-1.mycluster.abc123.c2.kafka.us-east-1.amazonaws.com:9092 (1)"
    rows = [
        wide("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS"),
        wide("billing", coordinator, "range", "Stable", 2),
    ]
    description = parse("\n".join(piece for row in rows for piece in (row[:80], row[80:])))
    assert description.groups == ()
    assert [line.place.number for line in description.rejects] == [4]
    assert [line.place.number for line in description.skipped] == [3]


@pytest.mark.parametrize("width", [80, 100, 140])
def test_table_whose_header_a_terminal_has_cut_is_named(width: int):
    texts = [text for snapshot in SNAPSHOTS[::8] for text in snapshot["texts"].values()]
    assert [find_fold(text) for text in texts] == [None] * len(texts)
    for text in texts:
        lines = text.split("\n")
        folded = "\n".join(line[at : at + width] for line in lines for at in range(0, max(1, len(line)), width))
        headers = [line for line in lines if line.startswith("GROUP")]
        is_cut = any(" " not in line[width - 1 : width + 1] for line in headers if len(line) > width)
        if is_cut:
            assert f": found a table of kafka-consumer-groups that was folded at {width} columns" in str(find_fold(folded))


@pytest.mark.parametrize("end", ["\n", "\n\n"])
@pytest.mark.parametrize("begins_as_utf_16", [False, True])
def test_table_in_another_encoding_than_the_text_is_rejected(begins_as_utf_16: bool, end: str, tmp_path: Path):
    """PowerShell 5.1 appends UTF-16 to any file, and cmd appends ASCII."""
    tables = [f"\n{MEMBERS}ASSIGNMENT\n{member_line('a', 1, 't(0)', group)}{end}" for group in "gh"]
    encodings = ("utf-16", "ascii") if begins_as_utf_16 else ("ascii", "utf-16-le")
    (tmp_path / "f").write_bytes(b"".join(table.encode(encoding) for table, encoding in zip(tables, encodings, strict=True)))
    description = parse(read_whole(str(tmp_path / "f"), is_gzip=False).decode(errors="surrogateescape"))
    assert [(group.group_id, group.is_doubtful) for group in description.groups] == [("g", False)]
    assert {line.kind for line in description.rejects} == {"malformed_line"} and not description.skipped
    assert all("a part of the text is UTF-16 and another is not" in line.detail for line in description.rejects)


@pytest.mark.parametrize("begin", ["", "\r\n"])
def test_texts_that_were_put_together_may_each_have_a_byte_order_mark(begin: str):
    """PowerShell 5.1 writes a mark, and ``copy`` and ``cat`` keep it."""
    texts = [begin + text.lstrip("\n").replace("\n", "\r\n") for text in SNAPSHOTS[9]["texts"].values()]
    assert len(texts) > 1
    assert parse("".join(f"\ufeff{text}" for text in texts)) == parse("".join(texts))


def test_row_with_zeros_puts_its_table_in_doubt():
    text = f"{MEMBERS}ASSIGNMENT\n{member_line('a', 1, 't(0)')}\n{member_line('b', 1, 't(1)').replace(' ', chr(0), 3)}\n{chr(0) * 9}\n"
    description = parse(text)
    assert [(group.group_id, group.is_doubtful) for group in description.groups] == [("g", True)]
    assert len(description.rejects) == 1


def test_dash_as_instance_id_is_null():
    """Kafka prints a blank, but a dash wherever else a value is missing."""
    header = f"{MEMBERS}".replace("HOST", f"{'GROUP-INSTANCE-ID':17} HOST")
    description = parse(f"{header}\ng               a               -                 /h              c               1")
    assert [member.group_instance_id for member in description.groups[0].members] == [None]


def test_group_id_may_look_like_a_coordinator():
    description = parse(f"{STATE}\nb:9092 (7) x    b:9092  (1)               range                Stable               2")
    assert [(group.group_id, group.strategy) for group in description.groups] == [("b:9092 (7) x", "range")]


def test_a_row_may_not_begin_before_its_table():
    row = member_line("a", 1, "")
    assert reasons(f"    {MEMBERS}", f"  x {row}", f"    {row}") == ["the row begins before its first column, GROUP"]


def test_committed_offset_minus_one_is_null():
    assert parse(f"{OFFSETS}\n{offset_line(committed=-1, lag='-')}").groups[0].offsets == (Offset("t", 0, None, None, 9, None),)


def test_inconsistent_state_rows_are_rejected():
    rows = ["g               b:9092                    range                Stable               2", "g               b:9092  (1)   Stable"]
    expected_reason = "expected a group, its coordinator as host:port (id), and the columns after it"
    assert reasons(STATE, *rows) == [expected_reason, expected_reason]
    header = "GROUP COORDINATOR (ID) ASSIGNMENT-STRATEGY STATE GROUP-EPOCH TARGET-ASSIGNMENT-EPOCH #MEMBERS"
    found = [f"g b:9092 (1) uniform Stable {epochs} 2" for epochs in ("-1 0", "1 -2147483648")]
    assert [reason for row in found for reason in reasons(header, row)] == [
        "GROUP-EPOCH: expected a whole number, found '-1'",
        "TARGET-ASSIGNMENT-EPOCH: expected a whole number, found '-2147483648'",
    ]


def test_state_row_that_was_cut_after_its_state_is_rejected():
    """Rows of 2.3 to 3.9 are not aligned if a group has a long name."""
    header = STATE.replace("GROUP          ", f"{'GROUP':51}")
    row = "p-xp-writer-prod                        kafka-101:9206 (206) range                Stable"
    assert reasons(header, row) == ["STATE: expected a state of a consumer group, found 'range'"]


def test_list_rows_with_unknown_states_are_rejected():
    description = parse("GROUP                     STATE               \na                         Dead\nb                         Odd\n")
    assert [(group.group_id, group.state) for group in description.groups] == [("a", None)]
    assert [line.detail for line in description.rejects] == ["STATE: expected a state of a consumer group, found 'Odd'"]


def test_a_command_line_ends_a_row_that_is_not_whole():
    description = parse(
        "GROUP CONSUMER-ID HOST\nCLIENT-ID #PARTITIONS\ng AAAAAAAAAAAAAAAAAAAAAA /h c 1\ng BBBBBBBBBBBBBBBBBBBBBB\n$ date\n"
    )
    assert [(line.place.number, line.detail) for line in description.rejects] == [
        (4, "the row is not aligned with its header, and has 2 words for 5 columns")
    ]
    assert [group.is_doubtful for group in description.groups] == [True]


def test_row_with_shifted_words_is_rejected():
    """Without its spaces the row has six words, as its header has; the group is called 'a b', and the member has no instance id."""
    header = "GROUP CONSUMER-ID GROUP-INSTANCE-ID HOST CLIENT-ID #PARTITIONS"
    row = "a b c-3fc8d6f1-581a-4472-bdf3-3515b4aee8c1 /10.0.0.11 c 2"
    problem = "the row is not aligned with its header: found {}, expected a member id that Kafka makes with an address, or - twice"
    assert reasons(header, row) == [problem.format("'b' '/10.0.0.11'")]
    # Here it is topic and owner of a group called '7 7', of whose member the client id is blank.
    row = "7 7 0 0 - - - AAAAAAAAAAAAAAAAAAAAAA /10.0.0.11"
    assert reasons(" ".join(OFFSETS.split()), row) == [problem.format("'-' 'AAAAAAAAAAAAAAAAAAAAAA'")]


@pytest.mark.parametrize("member", ["consumer-1-xxxxx", "rdkafka-fbca5204", "c-1-***"])
def test_row_with_a_member_id_that_somebody_has_shortened_is_read_by_its_words(member):
    """The rest of such a row is shifted to the left, so that the column of the member id has all of it."""
    header = OFFSETS.replace("CONSUMER-ID     HOST            CLIENT-ID", f"{'CONSUMER-ID':60} {'HOST':15} CLIENT-ID")
    row = offset_line(owner=f"{member:15}", host="/10.0.x.x", client="consumer-1")
    ((found,),) = [group.members for group in parse(f"{header}\n{row}").groups]
    assert (found.member_id, found.client_host, found.client_id) == (member, "/10.0.x.x", "consumer-1")


def test_row_of_offsets_needs_a_host():
    """Kafka prints an address, or a dash. Without both the row was cut, or shifted."""
    row = offset_line(owner="-").rstrip("- ")
    assert reasons(OFFSETS, f"{row}{' ' * 15}-") == ["HOST: expected an address or -, found ''"]


def test_a_row_that_does_not_fit_takes_no_other_with_it():
    """In a folded text what follows might be its rest. It has the group of the table, and too many words."""
    header = "GROUP CONSUMER-ID HOST\nCLIENT-ID #PARTITIONS"
    good = ["g AAAAAAAAAAAAAAAAAAAAAA\n/h c 1", "g BBBBBBBBBBBBBBBBBBBBBB /h c 1"]
    description = parse("\n".join([header, good[0], "g with spaces", good[1], "g x", "", "Consumer group 'g' has no active members."]))
    assert [member.member_id[0] for member in description.groups[0].members] == ["A", "B"]
    assert [(line.place.number, line.detail) for line in description.rejects] == [
        (5, "the row is not aligned with its header, and has 3 words for 5 columns"),
        (7, "the row is not aligned with its header, and has 2 words for 5 columns"),
    ]


def test_a_row_without_a_header_is_rejected():
    reason = "found no header of a kafka-consumer-groups --describe table before this line"
    row = member_line("a", 1, "t(0)")
    assert parse(f"{row}\n").rejects == (Line(Place("", 1), row, "malformed_line", reason),)


WIDE = "{:15} {:47} {:15} {:15} {:15} {}".format
TABLE = WIDE("GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "ASSIGNMENT")
ROWS = [
    WIDE("billing", f"consumer-1-1111111{number}-2222-4333-8444-555555555555", "/10.0.0.1", "consumer-1", 1, f"orders({number})")
    for number in range(2)
]


def collapsed(line: str) -> str:
    return " ".join(line.split())


OTHER_LINES = [
    "I have no name!@kafka-0:/$ ",
    "bash-5.1#",
    "sh-4.4$",
    "/ # ",
    "exit",
    "logout",
    "```",
    "=== mailer ===",
    "--- 2025-03-01T10:00:00+00:00 ---",
    "mailer",
    "billing",
    "billing: 2 members",
    "## Group: billing ##",
    "Members of billing:",
    "+ echo billing",
    "real\t0m2.345s",
    "user    0m3.100s",
    "Sat Mar  1 10:00:00 UTC 2025",
    'Defaulted container "kafka" out of: kafka, tls-sidecar',
    "Defaulting container name to kafka.",
    "command terminated with exit code 1",
    "Unable to use a TTY - input is not a terminal or the right kind of file",
    "Connection to 10.0.0.1 closed.",
    "Warning: Permanently added '10.0.0.1' (ED25519) to the list of known hosts.",
    "V\udce9rifi\udce9",
    "Mem:          16000        8000         100         200        7900        7800",
    "3fc8d6f1-581a-4472-bdf3-3515b4aee8c1",
    "kafka-0   2/2     Running   0          3d    10.0.0.1    node-1   <none>",
    "Topic: orders\tPartition: 0\tLeader: 3\tReplicas: 3,1\tIsr: 3,1",
    "0.0.0.0:9092->9092/tcp, :::9092->9092/tcp",
]


@pytest.mark.parametrize("other", OTHER_LINES)
@pytest.mark.parametrize("shape", [str, collapsed])
def test_line_that_resembles_no_row_costs_no_group(other, shape):
    lines = [other, *map(shape, [TABLE, *ROWS]), other, "", other, ""]
    description = parse("\n".join(lines))
    assert [(group.group_id, len(group.members), group.is_doubtful) for group in description.groups] == [("billing", 2, False)]
    assert description.rejects == ()
    assert [(line.place.number, line.kind) for line in description.skipped] == [(number, "not_a_table_line") for number in (1, 5, 7)]


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(ROWS[1][:20], id="cut after the group"),
        pytest.param(ROWS[1][:70], id="cut after the member"),
        pytest.param(ROWS[1][:-1], id="cut within the assignment"),
        pytest.param(ROWS[1][20:], id="without its begin"),
        pytest.param(ROWS[1].replace("billing", "bill ng"), id="a space in the group"),
        pytest.param(ROWS[1].replace("-", ""), id="another member"),
        pytest.param(ROWS[1].replace("orders", "ord ers"), id="a space in the assignment"),
        pytest.param(collapsed(ROWS[1]).replace("/10.0.0.1", ""), id="without its spaces and its host"),
        pytest.param(ROWS[1].replace("billing", "bill\udcffng"), id="not UTF-8"),
    ],
)
def test_damaged_row_makes_its_table_doubtful(row):
    description = parse(f"{TABLE}\n{row}\n{ROWS[0]}\n")
    assert [(group.group_id, len(group.members), group.is_doubtful) for group in description.groups] == [("billing", 1, True)]
    assert [(line.place.number, line.kind) for line in description.rejects] == [(2, "malformed_line")]


def test_row_before_its_header_that_is_not_utf_8_is_refused():
    """Sorted lines have rows before a header. A worker of Spark cannot return a name with half a character."""
    description = parse("\n".join([offset_line("pay\udcffments"), OFFSETS, offset_line("good")]))
    assert [group.group_id for group in description.groups] == ["good"]
    assert [(line.place.number, line.detail) for line in description.rejects] == [(1, "it is not UTF-8")]


@pytest.mark.parametrize("shape", [str, collapsed])
@pytest.mark.parametrize(
    "row",
    [
        *[pytest.param(f"{mark} {ROWS[1]}", id=f"quoted with {mark}") for mark in ">#$%"],
        pytest.param(ROWS[1].replace("consumer-1-", "kafka-consumer-groups-")[:-1], id="a client with the tool's name"),
    ],
)
def test_damaged_row_that_looks_like_a_command_line_makes_its_table_doubtful(row, shape):
    description = parse("\n".join(map(shape, [TABLE, row, ROWS[0]])))
    assert [(group.group_id, len(group.members), group.is_doubtful) for group in description.groups] == [("billing", 1, True)]
    assert [(line.place.number, line.kind) for line in description.rejects] == [(2, "malformed_line")]


def test_command_line_whose_group_looks_like_a_member_ends_the_table():
    group_id = "console-3fc8d6f1-581a-4472-bdf3-3515b4aee8c1"
    text = rendered("2.0", [EMPTY], "offsets")
    description = parse(f"$ {TOOL} --group a\n{text}$ {TOOL} --group {group_id} \n{text}")
    assert [group.group_id for group in description.groups if group.offsets] == ["a", group_id]
    assert description.rejects == ()


def test_row_cut_within_its_group_id_at_the_end_is_doubtful():
    """A heading may be the name of a group, too, but ends with its line."""
    cut, whole = (parse(f"{TABLE}\n{ROWS[0]}\n{end}") for end in ("bill", "billing\n"))
    assert [group.is_doubtful for description in (cut, whole) for group in description.groups] == [True, False]


def test_header_of_an_unknown_table_ends_the_table_before_it():
    other = "GROUP           TOPIC           PARTITION  START-OFFSET    LAG"
    description = parse(f"{TABLE}\n{ROWS[0]}\n\n{other}\nbilling         orders          0          -               5\n{ROWS[1]}\n")
    assert [(group.group_id, len(group.members), group.is_doubtful) for group in description.groups] == [("billing", 1, False)]
    assert [(line.place.number, line.detail) for line in description.rejects] == [
        (4, "found the header of an unknown table"),
        (6, "found no header of a kafka-consumer-groups --describe table before this line"),
    ]


@pytest.mark.parametrize(
    ("between", "is_doubtful"), [("", True), ("\n", True), ("$ date\n", False), ("GROUP           TYPE    STATE   PROTOCOL\n", False)]
)
def test_row_of_an_unknown_table_of_members_makes_its_group_doubtful(between, is_doubtful):
    other = WIDE("GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "RACK            ASSIGNMENT")
    rows = [ROWS[0], ROWS[0].replace("billing", "mailer ")]
    unknown = ROWS[1].replace("orders", "r1              orders")
    description = parse("\n".join([TABLE, *rows, "", other, f"{between}{unknown}"]))
    assert [(group.group_id, group.is_doubtful) for group in description.groups] == [("billing", is_doubtful), ("mailer", False)]
    assert description.rejects[-1].text == unknown


def test_a_long_line_is_judged_in_time():
    """Patterns for log and command lines would go over it again and again."""
    for letter in ("a@", "a.", " ", ":9 ", "(", "GROUP ", "> ", "| ", "[pod/", "\x1b["):
        parse(letter * 200_000)
        parse(f"{MEMBERS}ASSIGNMENT\n{letter * 200_000}\n{STATE}\n{letter * 200_000}")
    parse("\n".join(["x@" + "y" * 4_000] * 5_000))


def test_rejection_for_a_contradiction_names_the_other_file():
    group = Kafka("g", "classic", "Stable", "range", ("b", 1, 1), None, None, (Consumer("m-1", None, "m", "/h", {"t": [0]}),), {}, {})
    files = {
        "list-state.txt": rendered("4.0", [replace(group, state="PreparingRebalance")], "list --state"),
        "describe-state.txt": rendered("4.0", [group], "state"),
        "describe-members-verbose.txt": rendered("4.0", [group], "members --verbose"),
    }
    description = describe.parse(files)
    assert description.groups == wanted("4.0", [group], ["members --verbose", "state"])
    assert [(str(line.place), line.kind, line.detail) for line in description.rejects] == [
        (
            "list-state.txt line 2",
            "two_looks",
            "state is PreparingRebalance here and Stable in describe-state.txt line 3: the outputs are of different moments",
        )
    ]
    assert str(description.places[("g",)]) == "describe-members-verbose.txt line 3"


@pytest.mark.parametrize("edition", ["2.0", "2.3", "2.6", "4.0"])
def test_versions_other_than_3_8_keep_topic_names(edition):
    group = Kafka("g", "classic", "Stable", "range", ("b", 1, 1), None, None, (Consumer("m-1", None, "m (7)", "/h", {"t": [0]}),), {}, {})
    text = "".join(rendered(edition, [group], output) for output in ("members --verbose", "members", "offsets", "state"))
    assert find_lost_topic_names(f"{text}\ntook 5 (3)\n") is None
