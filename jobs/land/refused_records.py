"""Shows the quarantined records of a run that is refused because of them, since its quarantine table is rolled back."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pyspark.sql import functions as F

from jobs.context import RunContext
from jobs.runtime.errors import EvenkeelError
from jobs.runtime.locations import on_one_line
from jobs.runtime.output_files import page_file, write_output
from schemas.tables import QUARANTINE

logger = logging.getLogger(__name__)

MOST_SHOWN = 20
MOST_CHARACTERS = 200
_LONGEST_NAME = 200
_COLUMNS = ("cluster_id", "source", "source_position", "reason", "detail", "payload")
_NUMBER_AT_END = r"([0-9]{0,19})$"


def show_quarantine(context: RunContext) -> str:
    """Log the first records that a run has quarantined, write all of them beside the report, and return where they are.

    If the file cannot be written, the error is logged in one line, and the returned text names the log instead.
    """
    rows = context.warehouse.read(QUARANTINE.name).where(F.col("run_sequence") == context.run_sequence).select(*_COLUMNS)
    name, number = (F.regexp_replace("source_position", _NUMBER_AT_END, ""), F.regexp_extract("source_position", _NUMBER_AT_END, 1))
    # try_cast: a position without a number comes first.
    ordered = rows.orderBy("cluster_id", "source", name, number.try_cast("bigint"), "reason")
    path = refused_file(page_file(context.settings.report), context.run_id)
    try:
        write_output(_log_first(row.asDict() for row in ordered.toLocalIterator()), path)
    except EvenkeelError as error:
        logger.error("the quarantined records could not be written to a file: %s", error)
        return f"the first {MOST_SHOWN} of them are in the log"
    return f"all of them are in {on_one_line(str(path))}"


def refused_file(page: Path, run_id: str) -> Path:
    """Return the file for the quarantined records of a refused run: beside the report's page, named after the run."""
    return page.with_name(f"refused-{quote(run_id, safe=' :+@,')[:_LONGEST_NAME]}.ndjson")


def _log_first(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of the file; log the first."""
    for count, row in enumerate(rows):
        if count < MOST_SHOWN:
            logger.warning("%s", summary(row))
        yield json_line(row)


def summary(row: Mapping[str, Any]) -> str:
    """Return a quarantined record on one line: where it is, why it cannot be used, and the beginning of its text."""
    return f"quarantined {row['source_position']}: {row['reason']}: {_cut(row['detail'] or '')}: {_cut(_text(row))}"


def json_line(row: Mapping[str, Any]) -> str:
    """Return a quarantined record as a line of JSON, with its stored payload as text with escapes and in base64."""
    named = {name: row[name] for name in _COLUMNS if name != "payload"}
    payload = row["payload"]
    encoded = None if payload is None else base64.b64encode(payload).decode()
    return json.dumps({**named, "text": _text(row), "payload_b64": encoded}, ensure_ascii=False) + "\n"


def _text(row: Mapping[str, Any]) -> str:
    return on_one_line(bytes(row["payload"] or b"").decode(errors="backslashreplace"))


def _cut(text: str) -> str:
    shown = on_one_line(text)
    return shown if len(shown) <= MOST_CHARACTERS else f"{shown[: MOST_CHARACTERS - 3]}..."
