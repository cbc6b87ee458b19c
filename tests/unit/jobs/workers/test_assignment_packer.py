"""Each assignment of a generation is packed as if it were the only one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from assignors.model import Assignment
from jobs.workers.holdings_column import pack_holdings
from jobs.workers.packing import AssignmentPacker, group_by_topic

MEMBERS, LISTED = ["a", "b"], ["t", "u"]
HELD = st.lists(st.tuples(st.sampled_from(LISTED), st.integers(0, 1)), max_size=2).map(tuple)
ASSIGNMENTS = st.dictionaries(st.sampled_from(MEMBERS), HELD)


@given(st.lists(ASSIGNMENTS, max_size=6))
def test_an_assignment_is_packed_whatever_was_packed_before(assignments: list[Assignment]) -> None:
    packer = AssignmentPacker(MEMBERS, LISTED)
    for assignment in assignments:
        grouped = [group_by_topic(assignment.get(member_id, ())) for member_id in MEMBERS]
        assert packer.pack(assignment) == (grouped, pack_holdings(grouped, LISTED))


def test_equal_assignments_share_their_bytes() -> None:
    packer = AssignmentPacker(MEMBERS, LISTED)
    _, first = packer.pack({"a": (("t", 0),), "b": ()})
    _, second = packer.pack({"b": (), "a": (("t", 0),)})
    assert second is first
