"""The topic ids by which a cluster is recognised."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from jobs.decoders.captures import Capture
from jobs.land.same_cluster import _topic_ids


def test_zeros_of_old_brokers_are_no_topic_id(tmp_path: Path) -> None:
    """Every topic of every such cluster has them: two clusters would be one."""
    ids = ["AAAAAAAAAAAAAAAAAAAAAA", "h4iV23IwTGSB+oQ1ykZb/w", None]
    path = tmp_path / "look"
    path.write_text(json.dumps({"topics": [{"topic": f"t{number}", "topic_id": one} for number, one in enumerate(ids)]}) + "\n")
    assert _topic_ids(cast(Capture, SimpleNamespace(path=str(path), is_gzip=False))) == {"h4iV23IwTGSB-oQ1ykZb_w"}


def test_first_good_line_has_the_topic_ids(tmp_path: Path) -> None:
    path = tmp_path / "look"
    look = json.dumps({"topics": [{"topic": "t", "topic_id": "h4iV23IwTGSB+oQ1ykZb/w"}]})
    path.write_text(f'\n"topics": []}}\n{"[" * 200_000}\n{look}\n')
    assert _topic_ids(cast(Capture, SimpleNamespace(path=str(path), is_gzip=False))) == {"h4iV23IwTGSB-oQ1ykZb_w"}
