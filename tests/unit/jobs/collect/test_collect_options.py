"""The command line of ``collect``."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.collect.options import CollectOptions
from jobs.parser import parse as parse_command
from jobs.runtime.errors import UsageError

NEEDED = ["collect", "--bootstrap-servers", "a:1", "--output", "d"]


def parse(*options: str, needed: list[str] = NEEDED) -> CollectOptions:
    parsed = parse_command([*needed, *options]).options
    assert isinstance(parsed, CollectOptions)
    return parsed


def test_collect_options_have_these_defaults() -> None:
    expected = {
        "follow": False,
        "cluster_id": None,
        "client_properties": None,
        "metadata_interval": 300.0,
        "timeout": 30.0,
        "output": Path("d"),
    }
    found = parse()
    assert {name: getattr(found, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a:1", "a:1"), (" a.b-c_d:65535 , 10.0.0.1:9092", "a.b-c_d:65535,10.0.0.1:9092"), ("[::1]:9092", "[::1]:9092")],
)
def test_bootstrap_servers_are_normalised(text: str, expected: str) -> None:
    assert parse(needed=["collect", "--bootstrap-servers", text, "--output", "d"]).bootstrap_servers == expected


@pytest.mark.parametrize("text", ["a", "a:", ":1", "a:1,", "a:1 b:2", "user@a:1", "kafka://a:1", "a:x", "::1:9092", "a\n:1"])
def test_malformed_bootstrap_servers_are_refused(text: str) -> None:
    with pytest.raises(
        UsageError, match="--bootstrap-servers/--bootstrap-server: expected HOST:PORT, or several separated by commas, found "
    ) as refused:
        parse(needed=["collect", "--bootstrap-servers", text, "--output", "d"])
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("option", ["--metadata-interval", "--timeout"])
@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "soon", "86401"])
def test_malformed_duration_is_refused(option: str, text: str) -> None:
    with pytest.raises(UsageError, match=f"{option}: expected 0.1 to 86400 seconds, found '{text}'"):
        parse(option, text)


FORMER = {"--look-every": "metadata_interval", "--poll-every": "poll_interval", "--publish-every": "roll_interval"}


@pytest.mark.parametrize(("former", "name"), FORMER.items())
def test_former_name_of_an_option_works_and_names_the_new_one(former: str, name: str) -> None:
    parsed = parse_command([*NEEDED, former, "7"])
    assert getattr(parsed.options, name) == 7.0
    assert parsed.warnings == (f"{former} is now called --{name.replace('_', '-')}; the old name works until release 1.0",)
    assert parse_command([*NEEDED, f"--{name.replace('_', '-')}", "7"]).warnings == ()
    with pytest.raises(UsageError, match=f"{former}: expected 0.1 to 86400 seconds"):
        parse(former, "0")


@pytest.mark.parametrize("text", ["", "a\x1bb"])
def test_malformed_cluster_id_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--cluster-id: expected UTF-8 without control characters"):
        parse("--cluster-id", text)


@pytest.mark.parametrize("needed", [["collect"], ["collect", "--output", "d"], ["collect", "--bootstrap-servers", "a:1"]])
def test_missing_required_option_is_refused(needed: list[str]) -> None:
    with pytest.raises(UsageError, match="the following arguments are required"):
        parse(needed=needed)
