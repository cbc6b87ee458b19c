"""The migration plan of a fleet as a self-contained HTML page, in the shell and style of the report.

Lines are packed data, of which the script makes rows. The first ones are rows already, for those who have no script. Lines that a page
has no room for go into further files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from pathlib import Path
from urllib.parse import quote

from jinja2 import Environment
from markupsafe import Markup

from jobs.pages.figures import EN_DASH, counted, cut, visible
from jobs.pages.shell import MOST_BYTES, as_script_data, page_environment
from jobs.runtime.output_files import MIGRATION, further_page
from jobs.what_if.migration import FleetPlan, Plan, Verdict
from jobs.what_if.migration_text import (
    NOT_SHOWN,
    VERDICT_WORDS,
    explanation,
    general_steps,
    imbalance_text,
    partitions_text,
    summary,
    unplanned_groups,
)

MOST_ROWS = 200
"""Lines of a file that are rows already."""
LONGEST_SENTENCE = 2_000
"""Letters of a sentence, which may have a name of 32 KiB in it."""
_ROWS_SHARE = 1 / 8
"""What these rows may take of a file."""
_FRAME_BYTES = 100_000
"""More than the style, the script and the text around the lines take."""

_BADGES = {Verdict.READY: "", Verdict.LOSES: "warning", Verdict.BLOCKED: "critical"}
_PACKED = ("group", "cluster", "strategy", "kind", "reasons", "moves", "stopped", "members", "partitions", "imbalance", "sentences")
"""What the members of a line's array are; texts but the group's name are numbers in ``texts``. What is not known is null."""
_COLUMNS = (
    ("order", "order", "number"),
    ("group", "group", ""),
    ("cluster", "cluster", ""),
    ("verdict", "verdict", ""),
    ("strategy", "strategy", ""),
    ("moves", "moves", "number"),
    ("stopped", "not read", "number"),
    ("members", "members", "number"),
    ("partitions", "partitions a member", "number"),
    ("imbalance", "imbalance", "number"),
)
"""Name of a column, its heading, its style."""


@dataclass(frozen=True)
class _Line:
    """A group as the page shows it; names are masked, an unknown number is None."""

    group: str
    cluster: str
    strategy: str
    kind: int
    reasons: str
    moves: int | None
    stopped: int | None
    members: int
    partitions: str
    imbalance: str
    sentences: tuple[str, ...]

    @classmethod
    def of(cls, plan: Plan) -> _Line:
        """Return what is shown of one plan."""
        stored, flip = plan.stored, plan.flip
        return cls(
            group=visible(stored.key.group_id),
            cluster=visible(stored.key.cluster_id),
            strategy=visible(stored.generation.strategy) or EN_DASH,
            kind=list(Verdict).index(plan.verdict),
            reasons=" and ".join(reason.what.value for reason in plan.reasons) + (" (deleted)" if plan.is_deleted else ""),
            moves=None if flip is None else flip.movement_count,
            stopped=None if flip is None else flip.stopped_count,
            members=plan.before.member_count,
            partitions=partitions_text(plan),
            imbalance=imbalance_text(plan),
            sentences=tuple(cut(visible(sentence), LONGEST_SENTENCE) for sentence in explanation(plan)),
        )


@dataclass
class _Part:
    """The lines of one file.

    Attributes:
        first: the first one's number in the order.
        texts: what more than one line may say, once each, with its number.
    """

    first: int
    lines: list[str] = field(default_factory=list)
    texts: dict[str, int] = field(default_factory=dict)
    rows: list[_Line] = field(default_factory=list)

    @property
    def count(self) -> int:
        """Return how many lines there are."""
        return len(self.lines)

    @property
    def data(self) -> Markup:
        """Return the lines as data of a script."""
        head = {"columns": _PACKED, "first": self.first, "texts": list(self.texts), "badges": list(_BADGES.values()), "verdicts": _words()}
        return Markup(f'{as_script_data(head)[:-1]}, "lines": [\n' + ",\n".join(self.lines) + "\n]}")

    def pack(self, line: _Line) -> tuple[str, list[str]]:
        """Return a line as JSON, and the texts that it says first, which count from the end of ``texts``."""
        new: dict[str, int] = {}

        def number(text: str) -> int:
            known = self.texts.get(text)
            return known if known is not None else new.setdefault(text, len(self.texts) + len(new))

        values = (
            *(line.group, number(line.cluster), number(line.strategy), line.kind, number(line.reasons), line.moves, line.stopped),
            *(line.members, number(line.partitions), number(line.imbalance), [number(sentence) for sentence in line.sentences]),
        )
        return as_script_data(values), list(new)


def render_plan(fleet: FleetPlan, run_id: str, name: str, most_bytes: int = MOST_BYTES) -> dict[str, str]:
    """Return the files of the plan by their names, the page last, since it names the others.

    Args:
        fleet: what is planned.
        run_id: the run that published the tables.
        name: of the page's file.
        most_bytes: of each file.
    """
    plans = fleet.plans
    rows_room = int(_ROWS_SHARE * most_bytes)
    parts = list(_parts(map(_Line.of, plans), most_bytes - rows_room - _FRAME_BYTES, rows_room))
    names = [name if number == 1 else further_page(Path(name), number).name for number in range(1, len(parts) + 1)]
    clusters = sorted({visible(plan.stored.key.cluster_id) for plan in plans})
    shared = {
        "title_begin": MIGRATION,
        "groups": counted(len(plans), "group"),
        "run_id": visible(run_id),
        "clusters": clusters,
        "has_clusters": len(clusters) > 1,
        "summary": summary(fleet),
        "unplanned": unplanned_groups(fleet) if fleet.unplanned else "",
        "headline": _headline(fleet),
        "columns": [column for column in _COLUMNS if len(clusters) > 1 or column[0] != "cluster"],
        "badges": list(_BADGES.values()),
        "verdicts": _words(),
        "steps": general_steps(plans),
        "not_shown": NOT_SHOWN,
        "files": [(quote(file), visible(file), part.first, part.first + part.count - 1) for file, part in zip(names, parts, strict=True)],
    }
    template = _environment().get_template("migration.html.j2")
    pages = {file: template.render(shared, part=part) for file, part in zip(names, parts, strict=True)}
    return {file: pages[file] for file in reversed(names)}


def _parts(lines: Iterator[_Line], room: int, rows_room: int) -> Iterator[_Part]:
    """Yield the lines file by file; each holds as many as fit, and at least one.

    Args:
        room: bytes that lines and texts may take in a file.
        rows_room: the same for the lines that are rows already.
    """
    part, left, rows_left = _Part(1), room, rows_room
    for number, line in zip(count(1), lines):
        packed, new = part.pack(line)
        if _size(packed, new) > left and part.lines:
            yield part
            part, left, rows_left = _Part(number), room, rows_room
            packed, new = part.pack(line)
        part.lines.append(packed)
        part.texts.update(zip(new, count(len(part.texts))))
        left -= _size(packed, new)
        rows_left -= _row_size(line)
        if rows_left >= 0 and len(part.rows) < MOST_ROWS and part.count == len(part.rows) + 1:
            part.rows.append(line)
    yield part


def _size(packed: str, texts: Sequence[str]) -> int:
    return len(packed.encode()) + 2 + sum(len(as_script_data(text).encode()) + 2 for text in texts)


def _row_size(line: _Line) -> int:
    """Return at most how many bytes a row takes: a letter that is escaped takes six, and a name may be shown twice."""
    texts = (line.group, line.group, line.cluster, line.cluster, line.strategy, line.strategy, *line.sentences)
    return 1_000 + 6 * sum(len(text.encode()) for text in texts)


def _headline(fleet: FleetPlan) -> list[tuple[str, int, str]]:
    """Return what the fleet comes to: a name, a number, and a remark on it or an empty text."""
    plans = fleet.plans
    counts = Counter(plan.verdict for plan in plans)
    moves: Counter[Verdict] = Counter()
    for plan in plans:
        moves[plan.verdict] += plan.flip.movement_count if plan.flip is not None else 0
    lost = moves[Verdict.LOSES]
    still = sum(1 for plan in plans if plan.verdict is Verdict.READY and plan.flip is not None and not plan.flip.movement_count)
    return [
        ("ready", counts[Verdict.READY], f"nothing moves in {still:,} of them; {counted(moves[Verdict.READY], 'partition')} in the others"),
        ("ready with a loss", counts[Verdict.LOSES], f"{counted(lost, 'partition')} {'moves' if lost == 1 else 'move'}"),
        ("blocked", counts[Verdict.BLOCKED], ""),
        ("use it already", fleet.consumer_count, ""),
    ]


def _words() -> list[str]:
    return [VERDICT_WORDS[verdict] for verdict in Verdict]


@cache
def _environment() -> Environment:
    return page_environment("jobs.what_if", "migration.js")
