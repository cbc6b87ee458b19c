"""Settings: what is accepted, what a mistake says, and that the files that come with the project are right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from schemas.config import KafkaVersionOverride, Settings, parse_settings
from schemas.vocabulary import STRATEGIES, Severity

CONF = Path(__file__).parents[3] / "conf"


@pytest.mark.parametrize("content", [None, {}])
def test_settings_have_these_defaults(content: Any) -> None:
    settings = parse_settings(content, "f")
    assert settings == Settings()
    assert (settings.inputs, settings.warehouse, settings.cluster_id, settings.strategies) == ((), "./warehouse", None, STRATEGIES)
    assert (settings.assign.max_generations_per_chunk, settings.assign.max_chunk_bytes) == (500, 8 * 2**20)
    assert (settings.assign.checkpoint_generations, settings.assign.plugin_timeout_s) == (500, 60)
    assert (settings.quality.max_quarantined_ratio, settings.quality.fail_on) == (0.05, None)
    assert (settings.maintain.retention_days, settings.maintain.counterfactual_days, settings.maintain.vacuum_hours) == (730, 30, 168)


def test_every_setting_can_be_given() -> None:
    content = {
        "inputs": ["a", "b"],
        "warehouse": "main.evenkeel",
        "cluster_id": "eu",
        "strategies": ["sticky"],
        "assign": {
            "max_generations_per_chunk": 1,
            "max_chunk_bytes": 2,
            "checkpoint_generations": 4,
            "step_budget": 3,
            "plugin_timeout_s": 0.5,
            "kafka_versions": [{"version": "2.8.2", "group": "billing-*"}],
            "keep_counterfactuals": True,
        },
        "audit": {"max_look_delay_s": 0},
        "quality": {"max_quarantined_ratio": 1, "fail_on": "warning"},
        "report": {
            **{"output": "r.html", "group_pages": "d", "export": ["csv"], "export_dir": "e"},
            **{"worst_groups": 0, "max_detail_rows": 5, "backtest_generations": 0, "record_bytes": 500, "price_per_gb": 0.5},
        },
        "maintain": {"retention_days": 1, "counterfactual_days": 2, "vacuum_hours": 169},
    }
    settings = parse_settings(content, "f")
    assert settings.assign.kafka_versions == (KafkaVersionOverride(version="2.8.2", group="billing-*"),)
    assert settings.quality.fail_on is Severity.WARNING
    assert (settings.audit.max_look_delay_s, parse_settings({}, "f").audit.max_look_delay_s) == (0, None)
    assert settings.model_dump(exclude_defaults=True)["report"] == content["report"] | {"export": ("csv",)}


@pytest.mark.parametrize("name", ["local.yaml", "cluster.yaml"])
def test_the_files_in_conf_are_right(name: str) -> None:
    settings = parse_settings(yaml.safe_load((CONF / name).read_text(encoding="utf-8")), name)
    assert settings.inputs and settings.strategies == STRATEGIES


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param([1], "f: expected keys and values, found list", id="a list"),
        pytest.param({"warehous": "w"}, "f: unknown key 'warehous': did you mean 'warehouse'?", id="a typo"),
        pytest.param({"quality": {"failon": "info"}}, "f: unknown key 'quality.failon': did you mean 'fail_on'?", id="a typo below"),
        pytest.param(
            {"assign": {"kafka_versions": [{"version": "3.9.0", "clientid": "x"}]}},
            "f: unknown key 'assign.kafka_versions.0.clientid': did you mean 'client_id'?",
            id="a typo in a list",
        ),
        pytest.param(
            {"quality": {"zzz": 1}}, "f: unknown key 'quality.zzz': known keys are max_quarantined_ratio, fail_on", id="nothing near"
        ),
        pytest.param(
            {"assign": {"kafka_versions": [{"group": "x"}]}},
            "f: assign.kafka_versions.0.version: Field required, found the keys group",
            id="a key missing",
        ),
        pytest.param(
            {"quality": {"max_quarantined_ratio": 5}},
            "f: quality.max_quarantined_ratio: Input should be less than or equal to 1, found 5",
            id="too large",
        ),
        pytest.param(
            {"report": {"backtest_generations": 10_001}},
            "f: report.backtest_generations: Input should be less than or equal to 10000, found 10001",
            id="more than the driver has memory for",
        ),
        pytest.param(
            {"quality": {"fail_on": "fatal"}},
            "f: quality.fail_on: Input should be 'info', 'warning' or 'critical', found 'fatal'",
            id="no such word",
        ),
        pytest.param(
            {"maintain": {"vacuum_hours": 24}},
            "f: maintain.vacuum_hours: Input should be greater than or equal to 168, found 24",
            id="files that readers may still be using",
        ),
        pytest.param(
            {"strategies": ["range", "sticky", "range"]},
            "f: strategies: Value error, named more than once: range, found a list",
            id="a strategy twice",
        ),
        pytest.param({"cluster_id": ""}, "f: cluster_id: String should have at least 1 character, found ''", id="an empty name"),
    ],
)
def test_a_mistake_is_one_line_with_key_and_value(content: Any, message: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse_settings(content, "f")
    assert str(refused.value) == message


def test_all_mistakes_in_settings_are_reported_at_once() -> None:
    with pytest.raises(ValueError) as refused:
        parse_settings({"report": {"worst_groups": -1}, "assign": {"step_budget": 0}}, "f")
    assert [line.split(":")[1] for line in str(refused.value).splitlines()] == [" assign.step_budget", " report.worst_groups"]


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Settings().warehouse = "elsewhere"


def test_a_price_of_bytes_needs_their_number() -> None:
    with pytest.raises(ValueError, match=r"^f: report: price_per_gb needs record_bytes, the mean size of a record: no source shows it$"):
        parse_settings({"report": {"price_per_gb": 0.02}}, "f")
