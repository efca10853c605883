"""Small pipelines for unit tests: declared by text, resolved against schemas given with them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from etl.contract.load import load
from etl.contract.resolve import ResolvedPipeline, check_against
from etl.pipeline.tasks.enrich import EnrichPlan
from etl.pipeline.tasks.plan import BatchPlan, Places

NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)


def resolve(folder: Path, text: str, masters: Mapping[str, pa.Schema] | None = None) -> ResolvedPipeline:
    """The pipeline that a file with this text declares."""
    path = folder / f"{tomllib.loads(text)['name']}.toml"
    path.write_text(text)
    return check_against(load(path, folder), masters or {})


def plan(resolved: ResolvedPipeline, folder: Path, routers: int = 1) -> BatchPlan:
    """One try at its first batch, without any input."""
    places = Places.under(folder / "tables", folder / "landing", folder / "archive")
    joins = EnrichPlan((), "auto", 2**20)
    return BatchPlan(resolved, places, 1, "try", NOW, (), (), (), joins, 1, routers, 20_000)
