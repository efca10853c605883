"""Small stores of master pages for tests: a table of numbered rows, with nulls, text and decimals in it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from etl.masters.pages.manifest import Manifest
from etl.masters.pages.publish import PublishConfig, Publisher
from etl.masters.pages.runs.writer import PageSize
from etl.masters.pages.store import PageStore
from etl.masters.source import Changes, Snapshot

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SMALL = PublishConfig(size=PageSize(page_rows=64, segment_rows=128), sort_bytes=16_384, wait_s=0.0)
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("balance", pa.decimal128(12, 2)),
        ("active", pa.bool_()),
        ("nation", pa.string()),
    ]
)


def row(number: int, name: str = "customer") -> dict[str, Any]:
    return {
        "id": number,
        "name": f"{name} {number}",
        "balance": Decimal(number).scaleb(-2),
        "active": number % 3 == 0,
        "nation": None if number % 5 == 0 else f"nation {number % 7}",
    }


def table(numbers: Iterable[int], name: str = "customer") -> pa.Table:
    return pa.Table.from_pylist([row(number, name) for number in numbers], SCHEMA)


def publisher(store: PageStore) -> Publisher:
    return Publisher(store, SMALL, clock=lambda: NOW)


def publish(store: PageStore, rows: pa.Table, presorted: bool = True, **position: Any) -> Manifest:
    snapshot = Snapshot(rows.schema, ("id",), rows.to_batches(max_chunksize=100), position, presorted)
    return publisher(store).publish(snapshot)


def refresh(store: PageStore, upserts: pa.Table, deletes: Iterable[int] = (), **position: Any) -> Manifest:
    return publisher(store).refresh(Changes(upserts, pa.array(list(deletes), pa.int64()), position))


def contents(store: PageStore, version: int | None = None) -> list[dict[str, Any]]:
    with store.open(version) as view:
        rows: list[dict[str, Any]] = view.read_pages(0, view.page_count()).to_pylist()
        return rows


def files_of(root: Path) -> dict[str, int]:
    """Every file below a folder with its size."""
    return {str(path.relative_to(root)): path.stat().st_size for path in root.rglob("*") if path.is_file()}
