"""The JSON Schema of pipeline files, which editors complete and check them with (`#:schema ./schema.json`)."""

from __future__ import annotations

import json

from etl.contract.document import Document


def schema_text() -> str:
    """The schema as it is in `warehouse/pipelines/schema.json`."""
    schema = Document.model_json_schema(by_alias=True)
    heading = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Frontstage pipeline"}
    return json.dumps(heading | {key: value for key, value in schema.items() if key != "title"}, indent=2) + "\n"
