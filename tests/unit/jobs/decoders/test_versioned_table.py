"""Tables as they were when an epoch began, beside copies that are made at every epoch."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jobs.decoders.versioned_table import VersionedTable

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from("abcd"), st.one_of(st.none(), st.integers(0, 3))),
        st.tuples(st.just("begin"), st.none(), st.none()),
        st.tuples(st.just("forget"), st.integers(0, 8), st.none()),
    ),
    max_size=30,
)


@given(STEPS)
def test_a_table_as_of_an_epoch_is_the_copy_made_then(steps: list[tuple]) -> None:
    table, copies, epoch, forgotten = VersionedTable[int](), {}, 0, 0
    for step, what, content in steps:
        if step == "put":
            table.put(what, content)
        elif step == "begin":
            epoch += 1
            table.begin(epoch)
            copies[epoch] = dict(table.now)
        else:
            table.forget_until(what)
            forgotten = max(forgotten, min(what, epoch))
    for begun, copy in copies.items():
        expected = copy if begun > forgotten else table.now
        assert list(table.as_of(begun).items()) == list(expected.items())
