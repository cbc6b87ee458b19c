"""``docs/snapshot.schema.json``, made from the model: ``python -m schemas.snapshot_docs > docs/snapshot.schema.json``."""

from __future__ import annotations

import json
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from schemas.snapshot import GroupSnapshot


class _Untitled(GenerateJsonSchema):
    """Leaves out the titles that pydantic makes of field names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def to_json_schema() -> str:
    """Return the JSON schema of one line of the format ``snapshot``, as it is published."""
    schema = GroupSnapshot.model_json_schema(schema_generator=_Untitled)
    return json.dumps({"$schema": _Untitled.schema_dialect, **schema}, indent=2) + "\n"


if __name__ == "__main__":
    print(to_json_schema(), end="")
