"""What the command line of ``what-if`` makes of its words."""

from __future__ import annotations

import pytest

from jobs.parser import parse
from jobs.runtime.errors import UsageError
from jobs.what_if.options import WhatIfOptions


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("g h*", "groups", ("g", "h*")),
        ("--add-members 2", "add_members", 2),
        ("--add-members a,b", "add_members", ("a", "b")),
        ("--remove-members 3", "remove_members", 3),
        ("--remove-members pay-*", "remove_members", "pay-*"),
        ("--partitions orders=12,a=b=3", "partitions", (("orders", 12), ("a=b", 3))),
        ("--subscribe a,b", "subscribe", ("a", "b")),
        ("--rack a*=r1,b*=r2", "rack", (("a*", "r1"), ("b*", "r2"))),
        ("--members 2..12", "members", (2, 12)),
        ("--members 4", "members", (4, 4)),
        ("--partitions orders=12 g", "groups", ("g",)),
    ],
)
def test_options_are_values(words: str, field: str, value: object):
    options = parse(["what-if", *words.split()]).options
    assert isinstance(options, WhatIfOptions)
    assert getattr(options, field) == value


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--add-members -1", r"expected a count from 0 to 100000, found '-1'"),
        ("--add-members 1.5", r"found '1\.5'"),
        ("--remove-members +2", r"found '\+2'"),
        ("--add-members ,", r"expected names separated by commas, found ','"),
        ("--subscribe ,", r"expected names separated by commas, found ','"),
        ("--strategies ,", r"expected names separated by commas, found ','"),
        ("--partitions orders", r"expected TOPIC=COUNT, several separated by commas, found 'orders'"),
        ("--partitions orders=0", r"expected a count from 1 to 100000, found '0'"),
        ("--partitions =3", r"expected TOPIC=COUNT"),
        ("--members 5..2", r"expected a range such as 2\.\.12, found '5\.\.2'"),
        ("--members 1..1001", r"expected a range of at most 1000 counts, found '1\.\.1001'"),
        ("--members 0..2", r"expected a count from 1 to 100000, found '0'"),
        ("--threads-per-member 0", r"expected a count from 1"),
        ("--protocol share", r"found 'share', expected one of classic, consumer"),
    ],
)
def test_wrong_values_are_refused(words: str, message: str):
    with pytest.raises(UsageError, match=message):
        parse(["what-if", "g", *words.split()])
