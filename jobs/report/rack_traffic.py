"""Bytes and price of records that come from another rack. Records have no sizes in any source, so both need settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schemas.config import ReportSettings
from schemas.vocabulary import Rule

Row = Mapping[str, Any]

SECONDS_A_MONTH = 30 * 86_400
BYTES_A_GB = 10**9


def with_traffic(finding: Row, settings: ReportSettings) -> Row:
    """Return a finding with bytes and price of the records that cross racks in its message, where the settings give their size.

    Args:
        finding: rule_id, message and evidence. Those of other rules stay as they are.
    """
    if finding["rule_id"] != Rule.RECORDS_CROSS_RACKS or settings.record_bytes is None:
        return finding
    rate = int(finding["evidence"]["records_per_second"])
    return {**finding, "message": f"{finding['message']}. {traffic_words(rate, settings.record_bytes, settings.price_per_gb)}"}


def traffic_words(records_per_second: int, record_bytes: int, price_per_gb: float | None) -> str:
    """Return what these records are in a month of 30 days, in GB of 10^9 bytes.

    >>> traffic_words(1_000, 500, 0.02)
    'With 500 bytes a record (report.record_bytes) that is 1,296 GB in 30 days, for 25.92 (report.price_per_gb)'
    >>> traffic_words(100, 1, None)
    'With 1 byte a record (report.record_bytes) that is 0.3 GB in 30 days'
    """
    gigabytes = records_per_second * record_bytes * SECONDS_A_MONTH / BYTES_A_GB
    size = f"{record_bytes:,} byte{'' if record_bytes == 1 else 's'} a record (report.record_bytes)"
    price = "" if price_per_gb is None else f", for {gigabytes * price_per_gb:,.2f} (report.price_per_gb)"
    return f"With {size} that is {gigabytes:,.{0 if gigabytes >= 10 else 1}f} GB in 30 days{price}"
