"""Which settings of two runs have different fingerprints."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path
from types import SimpleNamespace

import pytest

from jobs import cli, pipeline
from jobs.context import Request, settings_fingerprint
from jobs.runtime import session
from tests.builders.records import record_line

SINCE = "2026-01-01 00:00:00+00:00"
DESCRIBED = "\nConsumer group 'g' has no active members.\n"


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """What command lines ask the pipeline for."""
    asked: list[Request] = []
    monkeypatch.setattr(session, "open_session", lambda *_: None)
    monkeypatch.setattr(pipeline, "execute", lambda spark, request: asked.append(request))
    return asked


def settings_json(exclude: set[str]) -> str:
    assert exclude == {"inputs", "warehouse", "report"}
    return "{}"


@pytest.mark.parametrize(
    ("argv", "hashed"),
    [
        (["run", "--input", "records", "--run-id", "r", "--as-of", "2026-01-01"], ("run", "{}", "None", "False", "None")),
        (["land", "--input", "records", "--cluster-id", "c", "--as-new-cluster"], ("land", "{}", "c", "False", "None")),
        (["land", "--input", "described", "--as-of", "2026-01-01"], ("land", "{}", "None", "False", "None", SINCE)),
        (["audit", "--wait", "3"], ("audit", "{}", "None", "False", "None")),
        (["assign", "--recompute", "--since", "2026-01-01"], ("assign", "{}", "None", "True", SINCE)),
        (["maintain"], ("maintain", "{}", "None", "False", "None")),
        (["maintain", "--drop-cluster", "c"], ("maintain", "{}", "None", "False", "None", "without c")),
    ],
)
def test_settings_fingerprint_of_the_release_before_is_reproduced(
    argv: list[str], hashed: tuple[str, ...], requests: list[Request], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The digest is stored in ``runs``: made of other lines, it would refuse the same call after an upgrade as another run's."""
    monkeypatch.chdir(tmp_path)
    Path("records").write_text(record_line())
    Path("described").write_text(DESCRIBED)
    cli.main(argv)
    settings = SimpleNamespace(model_dump_json=settings_json)  # a new setting may make another digest, another form of options not
    (request,) = (dataclasses.replace(one, settings=settings) for one in requests)
    assert settings_fingerprint(request) == hashlib.sha256("\n".join(hashed).encode()).hexdigest()
