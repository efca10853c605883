"""The JSON Schemas of declared files, which editors complete and check them with (`#:schema ./schema.json`)."""

from __future__ import annotations

import json
from typing import Any

from pydantic import TypeAdapter

from etl.contract.correlations.correlation import CorrelationDocument, StreamDocument
from etl.contract.correlations.documents import DocumentCorrelationFile, DocumentStreamFile
from etl.contract.correlations.sites import SiteCorrelationFile
from etl.contract.parsing.document import Document


def schema_text() -> str:
    """The schema as it is in `warehouse/pipelines/schema.json`."""
    return _text(Document, "Frontstage pipeline")


def stream_schema_text() -> str:
    """The schema as it is in `warehouse/streams/schema.json`."""
    return _text(StreamDocument | DocumentStreamFile, "Frontstage stream")


def correlation_schema_text() -> str:
    """The schema as it is in `warehouse/correlations/schema.json`."""
    return _text(CorrelationDocument | DocumentCorrelationFile | SiteCorrelationFile, "Frontstage correlation")


def _text(model: Any, title: str) -> str:
    schema = TypeAdapter(model).json_schema(by_alias=True)
    heading = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title}
    return json.dumps(heading | {key: value for key, value in schema.items() if key != "title"}, indent=2) + "\n"
