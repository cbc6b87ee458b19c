"""The price of records that cross racks: only where the settings give the size of a record."""

from __future__ import annotations

from jobs.report.rack_traffic import with_traffic
from schemas.config import ReportSettings

FINDING = {"rule_id": "records_cross_racks", "message": "At least 400 records", "evidence": {"records_per_second": "400"}}


def test_bytes_and_price_are_said_where_the_settings_have_them() -> None:
    assert with_traffic(FINDING, ReportSettings()) == FINDING
    sized = with_traffic(FINDING, ReportSettings(record_bytes=1_000))
    assert sized["message"] == "At least 400 records. With 1,000 bytes a record (report.record_bytes) that is 1,037 GB in 30 days"
    priced = with_traffic(FINDING, ReportSettings(record_bytes=1_000, price_per_gb=0.02))
    assert priced["message"] == f"{sized['message']}, for 20.74 (report.price_per_gb)"


def test_other_rules_keep_their_message() -> None:
    other = FINDING | {"rule_id": "hot_member"}
    assert with_traffic(other, ReportSettings(record_bytes=1_000)) == other
