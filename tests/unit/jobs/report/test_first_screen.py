"""The first screen: which groups need someone now, since when, what to change, and how old the data is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from jobs.pages.needs import BETTER_ASSIGNOR, LEAST_GAIN, Need, need_of
from jobs.report.first_screen import MOST_LINES, build_first_screen
from jobs.report.need_lines import FirstScreen, Since, holds_since
from jobs.report.page import build_page, render
from jobs.report.queries import MOST_GENERATIONS
from jobs.report.ranking import Ranking, group_key
from jobs.report.rows import ReportRows
from tests.builders.report_rows import AS_OF, finding_row, generation_row, group_row, needing_row, of_groups, tally_row

AS_OF_MS = int(AS_OF.timestamp()) * 1000


def screen_of(rows: ReportRows) -> FirstScreen:
    return build_first_screen(rows, AS_OF, {group_key(row) for row in rows.ranked})


# --- the decision for one group ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("current", "members", "gain", "expected"),
    [
        ([], 3, None, None),
        ([("info", "topic_skew")], 3, None, None),
        ([("warning", "restart_loop")], 0, None, Need("warning", "restart_loop")),
        ([("warning", "restart_loop"), ("warning", "idle_members")], 3, 9.0, Need("warning", "idle_members")),
        ([("warning", "rebalance_storm"), ("warning", "restart_loop")], 3, None, Need("warning", "restart_loop")),
        ([("warning", "partition_flapping"), ("warning", "rebalance_storm")], 3, None, Need("warning", "rebalance_storm")),
        ([("info", "idle_members")], 3, 0.0, Need("info", "idle_members")),
        ([("info", "idle_members")], 0, 0.0, None),
        ([("warning", "idle_members"), ("critical", "partitions_left_out")], 3, None, Need("critical", "partitions_left_out")),
        ([("warning", "a rule of a later release"), ("warning", "restart_loop")], 3, None, Need("warning", "restart_loop")),
        ([("warning", "idle_members"), ("warning", "member_stalled")], 3, None, Need("warning", "member_stalled")),
        ([("warning", "member_stalled"), ("critical", "partitions_left_out")], 3, None, Need("critical", "partitions_left_out")),
        ([("critical", "partitions_left_out"), ("critical", "stuck_rebalancing")], 3, None, Need("critical", "stuck_rebalancing")),
        ([], 3, LEAST_GAIN, Need("info", BETTER_ASSIGNOR)),
        ([], 3, 0.99 * LEAST_GAIN, None),
        ([], 0, 9.0, None),
        ([], None, 9.0, None),
    ],
)
def test_need_is_the_most_severe_finding_else_a_better_assignor(
    current: Sequence[tuple[str, str]], members: int | None, gain: float | None, expected: Need | None
) -> None:
    assert need_of(current, members, gain) == expected == need_of(current[::-1], members, gain)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({9}, Since(90, True)),
        ({9, 8}, Since(80, True)),
        ({9, 7}, Since(90, True)),  # it had stopped in between
        ({9, 8, 7}, Since(70, False)),  # it may be older than what is known
        ({8, 7}, None),
        (set(), None),
    ],
)
def test_since_is_the_first_of_an_unbroken_row_of_generations(found: set[int], expected: Since | None) -> None:
    assert holds_since(found, [(9, 90), (8, 80), (7, 70)]) == expected
    assert holds_since(found, []) is None


# --- the lines ---------------------------------------------------------------------------------------------------------


def test_line_says_what_since_when_and_what_to_change() -> None:
    row = needing_row("orders", current_warning_count=3)
    history = [generation_row(3, 2), generation_row(2, 1), generation_row(1, None)]
    rows = ReportRows(
        **of_groups(row),
        tallies=[tally_row("range", "observed", generations=history)],
        findings=[
            finding_row(is_current=True, rule_id="idle_members", positions=[12, 11], message="1 of 4 idle", advice="Add partitions."),
            finding_row(is_current=True, rule_id="restart_loop", positions=[12], message="not this one"),
        ],
    )
    (line,) = screen_of(rows).needs
    assert (line.group_id, line.rule, line.severity, line.what, line.advice) == (
        "orders",
        "idle members",
        "warning",
        "1 of 4 idle",
        "Add partitions.",
    )
    assert (line.since, line.other_count) == ("since 2026-09-21 14:13", 2)


def test_equal_advice_is_given_once() -> None:
    advices = {"billing": "Add partitions.", "orders": "Add partitions.", "web": "Restart."}
    rows = ReportRows(
        ranked=Ranking([needing_row(name) for name in advices]),
        findings=[
            finding_row(is_current=True, group_id=name, rule_id="idle_members", positions=[12], advice=text)
            for name, text in advices.items()
        ],
    )
    needs = screen_of(rows).needs
    assert [(line.group_id, line.advice, line.advised_above) for line in needs] == [
        ("billing", "Add partitions.", ""),
        ("orders", "Add partitions.", "billing"),
        ("web", "Restart.", ""),
    ]


def test_since_of_a_group_without_history_is_that_of_its_finding_at_least() -> None:
    rows = ReportRows(ranked=Ranking([needing_row("orders")]), findings=[finding_row(is_current=True, rule_id="idle_members")])
    (line,) = screen_of(rows).needs
    assert line.since == "at least since 2026-09-21 14:15"


@pytest.mark.parametrize(
    ("apart", "kept", "first_found", "since"),
    [
        (150, 100, 1, "at least since 15:04"),
        (150, 100, 51, "since 15:04"),
        (150, 100, 147, "since 16:40"),
        (1, 5, 100, "at least since 16:39"),
    ],
)
def test_since_is_exact_only_as_far_back_as_generations_and_findings_are_collected(
    apart: int, kept: int, first_found: int, since: str
) -> None:
    """Of 150 generations, a minute apart, one has a tally of its own. Of the others, and of the findings, only the newest are collected."""
    rows = [generation_row(number, number - 1, observed_at_ms=1_790_000_000_000 + 60_000 * number) for number in range(150, 0, -1)]
    others = [row for row in rows if row["generation"] != apart]
    tallies = [
        tally_row("range", "observed", generations=[rows[150 - apart]], generation_count=1, conformance="differs"),
        tally_row("range", "observed", generations=others[:kept], generation_count=149),
    ]
    positions = [row["position"] for row in rows if row["generation"] >= first_found]
    found = finding_row(is_current=True, rule_id="idle_members", positions=positions[:MOST_GENERATIONS], finding_count=len(positions))
    (line,) = screen_of(ReportRows(**of_groups(needing_row("orders")), tallies=tallies, findings=[found])).needs
    assert line.since.replace("2026-09-21 ", "") == since


@pytest.mark.parametrize(
    ("rule_id", "changes", "since"),
    [
        ("idle_members", {}, "since 14:17"),
        ("idle_members", {"is_settled": False}, "since 14:15"),
        ("protocols_mixed", {"is_settled": False}, "since 14:17"),
    ],
)
def test_a_hand_over_in_which_a_rule_judges_nothing_does_not_end_it(rule_id: str, changes: dict[str, object], since: str) -> None:
    """The rule holds in generations 4 and 2, and not in the first. The third is the first step of a cooperative rebalance, or is not."""
    minutes = {number: 1_790_000_000_000 + 60_000 * number for number in range(1, 5)}
    history = [generation_row(number, number - 1, observed_at_ms=at_ms) for number, at_ms in minutes.items()][::-1]
    history[1] |= changes
    found = finding_row(is_current=True, rule_id=rule_id, positions=[13, 11])
    row = needing_row("orders", need_rule=rule_id)
    rows = ReportRows(**of_groups(row), tallies=[tally_row("range", "observed", generations=history)], findings=[found])
    assert screen_of(rows).needs[0].since.replace("2026-09-21 ", "") == since


@pytest.mark.parametrize(
    ("rule_id", "cycle", "minutes", "positions", "since"),
    [
        ("restart_loop", None, 5, [20, 18, 16], "since 13:53"),
        ("idle_members", None, 5, [20, 18, 16], "since 14:13"),
        ("restart_loop", None, 5.1, [20, 18, 16], "since 14:13"),
        ("restart_loop", "240", 6, [20, 18, 16], "since 13:49"),
        ("restart_loop", "240", 6.1, [20, 18, 16], "since 14:13"),
        ("restart_loop", None, 5, [20, 19, 17, 15, 13, 11, 10], "at least since 13:23"),
    ],
)
def test_what_recurs_goes_on_between_two_of_its_occurrences(
    rule_id: str, cycle: str | None, minutes: float, positions: list[int], since: str
) -> None:
    """A member leaves in every second generation and comes back in the next, in which alone it is found."""
    at_ms = {number: 1_790_000_000_000 + round(60_000 * minutes * (number - 11)) for number in range(1, 12)}
    history = [generation_row(number, number - 1, observed_at_ms=at) for number, at in at_ms.items()][::-1]
    evidence = {} if cycle is None else {"cycle_seconds": cycle}
    found = finding_row(is_current=True, rule_id=rule_id, positions=positions, evidence=evidence, finding_count=len(positions))
    row = needing_row("orders", need_rule=rule_id)
    tallies = [tally_row("range", "observed", generations=history, generation_count=len(history))]
    rows = ReportRows(**of_groups(row), tallies=tallies, findings=[found])
    assert screen_of(rows).needs[0].since.replace("2026-09-21 ", "") == since


@pytest.mark.parametrize(("previous", "said"), [(0, "at least since "), (1, "since "), (2, "since ")])
def test_since_is_not_exact_after_a_generation_without_a_record(previous: int, said: str) -> None:
    """The second one comes after the first, after one that is not known, or repeats its number."""
    history = [generation_row(2, previous, position=12), generation_row(previous, None, position=11)]
    found = finding_row(is_current=True, rule_id="protocols_mixed", positions=[12], finding_count=1)
    row = needing_row("orders", need_rule="protocols_mixed")
    rows = ReportRows(**of_groups(row), tallies=[tally_row("range", "observed", generations=history, generation_count=2)], findings=[found])
    assert screen_of(rows).needs[0].since.startswith(said)


@pytest.mark.parametrize(
    ("rule_id", "evidence", "since"),
    [
        ("member_stalled", {"since": "2026-11-21T11:30:05Z"}, "since 2026-11-21 11:30"),
        ("partitions_left_out", {"seen_at": "2026-11-21T11:30:05Z"}, "at least since 2026-11-21 11:30"),
        ("stuck_rebalancing", {"seconds": "900"}, ""),
        ("members_never_commit", {}, ""),
        ("commits_unsubscribed", None, ""),
        ("not_reconciled", {"seconds": "900"}, "since 2026-09-21 14:13"),  # its members wait since the generation
        ("partitions_left_out", {}, "since 2026-09-21 14:13"),
    ],
)
def test_since_of_what_came_after_the_generation_is_not_the_time_of_the_generation(
    rule_id: str, evidence: dict[str, str] | None, since: str
) -> None:
    """The generation may be months old when a member stalls, a topic grows, or a rebalance does not end."""
    history = [tally_row("range", "observed", generations=[generation_row(3, 2), generation_row(2, 1)], generation_count=2)]
    found = finding_row(is_current=True, rule_id=rule_id, positions=[12], finding_count=1, evidence=evidence)
    (line,) = screen_of(ReportRows(**of_groups(needing_row("orders", rule_id)), tallies=history, findings=[found])).needs
    assert line.since == since


@pytest.mark.parametrize(
    ("strategy", "better", "advice"),
    [
        ("range", "sticky", "Change partition.assignment.strategy to sticky. evenkeel what-if rehearses it."),
        ("uniform", "server-range", "Set group.remote.assignor=range in all members."),
    ],
)
def test_better_assignor_is_named_with_what_it_gives(strategy: str, better: str, advice: str) -> None:
    need = {"need_severity": "info", "need_rule": BETTER_ASSIGNOR, "better_gain": 0.5, "better_strategy": better, "strategy": strategy}
    (line,) = screen_of(ReportRows(**of_groups(group_row("orders", **need)))).needs
    assert line.what == f"the busiest member has 1.50 times the mean load; {better} would give 1.00"
    assert (line.advice, line.since) == (advice, "at least since 2026-09-21 14:15")


@pytest.mark.parametrize(("needing", "past", "shown"), [(9, 9, (7, 0)), (2, 9, (2, 5)), (0, 3, (0, 3)), (0, 0, (0, 0))])
def test_lines_are_seven_at_most_and_the_past_fills_what_is_left(needing: int, past: int, shown: tuple[int, int]) -> None:
    now = [needing_row(f"now-{number}") for number in range(needing)]
    then = [group_row(f"then-{number}", warning_count=1) for number in range(past)]
    findings = [finding_row(row["group_id"], is_current=True, rule_id="idle_members") for row in now]
    findings += [finding_row(row["group_id"]) for row in then]
    screen = screen_of(ReportRows(ranked=Ranking([*now, *then]), findings=findings))
    assert (len(screen.needs), len(screen.past)) == shown and sum(shown) <= MOST_LINES
    assert screen.need_count == needing
    html = render(build_page(ReportRows(ranked=Ranking([*now, *then]), findings=findings), AS_OF)).html
    assert ('<h1 id="now-title">Nothing needs you</h1>' in html) == (needing == 0)
    assert ("No group has landed." in html) == (needing + past == 0)
    assert (f"All {needing} groups that need someone" in html) == (needing > MOST_LINES)


def test_past_of_deleted_groups_comes_last() -> None:
    groups = [group_row("gone", critical_count=1, deleted_at_ms=1), group_row("there", warning_count=1)]
    found = [finding_row("gone", severity="critical"), finding_row("there", severity="warning")]
    rows = ReportRows(**of_groups(*groups), findings=found)
    assert [line.group_id for line in screen_of(rows).past] == ["there", "gone"]


def test_past_is_the_worst_then_the_newest_finding_of_each_group() -> None:
    findings: list[dict[str, Any]] = [
        finding_row("a", rule_id="restart_loop", observed_at_ms=1_790_000_000_000),
        finding_row("a", rule_id="idle_members", observed_at_ms=1_790_000_060_000),
        finding_row("b", severity="critical", rule_id="partitions_left_out", observed_at_ms=1_780_000_000_000),
        finding_row("c", severity="info"),
        finding_row("d", is_current=True),
        finding_row("not in the ranking"),
    ]
    rows = ReportRows(ranked=Ranking(group_row(name) for name in "abcd"), findings=findings)
    past = [(line.group_id, line.rule, line.last_at) for line in screen_of(rows).past]
    assert past == [("b", "partitions left out", "2026-05-28 20:26"), ("a", "idle members", "2026-09-21 14:14")]


# --- totals and ages ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("members", "sentence"),
    [
        ((0, 0, None), "All 2 groups were empty when last seen. Figures are of their last generation with members."),
        ((0, None), "The only group was empty when last seen. Its figures are of its last generation with members."),
        ((0, 1), ""),
        ((None,), ""),
        ((), ""),
    ],
)
def test_a_fleet_without_members_is_explained(members: Sequence[int | None], sentence: str) -> None:
    groups = [group_row(f"g{n}", member_count=count, generation_count=0 if count is None else 3) for n, count in enumerate(members)]
    assert screen_of(ReportRows(ranked=Ranking(groups))).all_empty == sentence


def test_totals_are_four_in_words() -> None:
    tallies = [tally_row("range", "observed", avoidable_movement_count_sum=5, avoidable_movement_count_known=3)]
    screen = screen_of(ReportRows(**of_groups(group_row("a", member_count=1), group_row("b", member_count=0)), tallies=tallies))
    assert [f"{figure.text} {words}" for figure, words in screen.totals] == [
        "2 groups",
        "1 member in 1 group when last seen",
        "3 generations seen",
        "5 partitions moved without need",
    ]


def test_one_partition_that_moved_without_need_is_one() -> None:
    tallies = [tally_row("range", "observed", avoidable_movement_count_sum=1, avoidable_movement_count_known=3)]
    figure, words = screen_of(ReportRows(**of_groups(group_row("a")), tallies=tallies)).totals[-1]
    assert f"{figure.text} {words}" == "1 partition moved without need"


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ((4, 0, 3, None), "7 members in 2 groups when last seen"),
        ((4, 3), "7 members when last seen"),
        ((0, 0), "0 members when last seen"),
    ],
)
def test_total_of_members_names_their_groups_unless_all_have_some(members: Sequence[int | None], words: str) -> None:
    groups = [group_row(f"g{number}", member_count=count) for number, count in enumerate(members)]
    figure, text = screen_of(ReportRows(ranked=Ranking(groups))).totals[1]
    assert f"{figure.text} {text}" == words


@pytest.mark.parametrize(
    ("newest_ms", "age"),
    [
        ({}, "12 minutes"),
        ({"prod": AS_OF_MS - 61_000, "dev": AS_OF_MS - 99_000_000}, "1 minute"),
        ({"prod": AS_OF_MS - 9_000_000}, "12 minutes"),
    ],
)
def test_age_is_that_of_the_newest_row_read(newest_ms: dict[str, int], age: str) -> None:
    rows = ReportRows(ranked=Ranking([group_row(last_at_ms=AS_OF_MS - 725_000)]), newest_ms=newest_ms)
    screen = screen_of(rows)
    assert screen.age == age
    html = render(build_page(rows, AS_OF)).html
    assert re.search(
        rf'Data until <time id="data-until" data-seconds="{screen.data_until_s}">{screen.data_until} UTC</time>, '
        rf'<span id="age">{age} old when this page was made</span>',
        html,
    )
