"""A pipeline as canonical JSON: equal declarations give equal text, for comparison.

Landing folders, brokers and the file's path are left out: they depend on the machine and do not affect the tables.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from etl.contract.model import Pipeline
from etl.contract.words.types import declared_name

_LOCAL = frozenset(("landing", "file", "servers"))


def as_dict(pipeline: Pipeline) -> dict[str, Any]:
    """The declaration as plain values."""
    plain = _plain(pipeline)
    assert isinstance(plain, dict), "a dataclass becomes a dictionary"
    return plain


def as_json(pipeline: Pipeline) -> str:
    """The declaration as text: keys sorted, nothing optional."""
    return json.dumps(as_dict(pipeline), sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        parts = {one.name: _plain(getattr(value, one.name)) for one in fields(value) if one.name not in _LOCAL}
        return {"kind": type(value).__name__, **parts} if type(value).__name__.endswith("Rule") else parts
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, frozenset):
        return sorted(_plain(one) for one in value)
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, timedelta):
        return f"{value.total_seconds():g}s"
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, pa.DataType):
        return declared_name(value)
    return str(value) if isinstance(value, Path) else value
