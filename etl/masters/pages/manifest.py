"""A manifest lists the runs of one version of a master. It is immutable.

    {"crc32": …, "manifest": {"format": 1, "version": 7, "rows_version": 5, "key": […], "schema": "…",
                              "runs": [base, overlay, …], "rows": …, "bytes": …,
                              "position": {…}, "published_at": "…"}}

Runs are listed from oldest to newest: the base, then overlays. `position` is the source's own, opaque description of
how far this version has read it. `rows_version` does not change by compaction or by a refresh without changes, so
caches of rows stay valid.
"""

from __future__ import annotations

import base64
import json
import secrets
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal

import pyarrow as pa

from etl.masters.pages.errors import FormatTooNew, ManifestDamaged
from etl.masters.rows.shape import Shape
from etl.masters.source import Position

FORMAT = 1


def run_name(kind: str, version: int) -> str:
    """A unique name for a run, never reused in any version."""
    return f"{kind}-{version:08d}-{secrets.token_hex(4)}"


def made_for(name: str) -> int:
    """The version that a run was written for."""
    return int(name.split("-")[1])


@dataclass(frozen=True, slots=True)
class RunEntry:
    """One run: its files are `runs/<name>.arrows` and `runs/<name>.index`."""

    name: str
    kind: Literal["base", "overlay"]
    rows: int  # tombstones included
    tombstones: int
    pages: int
    bytes: int
    crc32: int
    index_bytes: int
    index_crc32: int

    @property
    def is_overlay(self) -> bool:
        return self.kind == "overlay"


@dataclass(frozen=True, slots=True)
class Manifest:
    """One immutable version of a master."""

    version: int
    rows_version: int  # the version that last changed a row: equal numbers mean equal rows
    shape: Shape
    runs: tuple[RunEntry, ...]
    rows: int  # visible rows: upserts count once, deleted rows do not count
    position: Position
    published_at: datetime

    @property
    def base(self) -> RunEntry:
        return self.runs[0]

    @property
    def overlays(self) -> tuple[RunEntry, ...]:
        return self.runs[1:]

    @property
    def size_bytes(self) -> int:
        """All files of this version."""
        return sum(run.bytes + run.index_bytes for run in self.runs)

    def to_bytes(self) -> bytes:
        """The manifest as the bytes of its file."""
        body = {
            "format": FORMAT,
            "version": self.version,
            "rows_version": self.rows_version,
            "key": list(self.shape.key),
            "columns": {field.name: str(field.type) for field in self.shape.schema},  # for people
            "schema": base64.b64encode(self.shape.schema.serialize()).decode(),
            "runs": [asdict(run) for run in self.runs],
            "rows": self.rows,
            "bytes": self.size_bytes,
            "position": dict(self.position),
            "published_at": self.published_at.isoformat(),
        }
        return json.dumps({"crc32": _checksum(body), "manifest": body}, indent=1).encode()


def parse(store: str, file: str, data: bytes) -> Manifest:
    """Parse a manifest's file; errors name the file."""
    try:
        whole = json.loads(data)
        body, crc32 = whole["manifest"], whole["crc32"]
        found = int(body["format"])
    except (ValueError, KeyError, TypeError) as error:
        raise ManifestDamaged(store, file, f"not a manifest: {type(error).__name__}") from None
    if found > FORMAT:
        raise FormatTooNew(store, file, found, FORMAT)
    if crc32 != _checksum(body):
        raise ManifestDamaged(store, file, "wrong checksum")
    return Manifest(
        version=body["version"],
        rows_version=body["rows_version"],
        shape=Shape(store, pa.ipc.read_schema(pa.py_buffer(base64.b64decode(body["schema"]))), tuple(body["key"])),
        runs=tuple(RunEntry(**run) for run in body["runs"]),
        rows=body["rows"],
        position=body["position"],
        published_at=datetime.fromisoformat(body["published_at"]),
    )


def _checksum(body: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(body, sort_keys=True, separators=(",", ":")).encode())
