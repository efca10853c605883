"""Masters of web sessions: sites by host and country (Postgres), campaigns by code (Delta)."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from etl.adapters import postgres
from etl.samples.example import fill

COUNTRIES = ("DE", "FR", "GB", "IN", "US")
_DDL = """
create schema if not exists web;
create table if not exists web.sites (
    host       text not null,
    country    text not null,
    title      text not null,
    team       text not null,
    tier       integer not null,
    updated_at timestamptz not null default now(),
    primary key (host, country)
);
"""
_SINCE = datetime(2026, 1, 1, tzinfo=UTC)
_CHANNELS = ("mail", "search", "social", "print")


def host(number: int) -> str:
    return f"shop{number}.example"


def campaign(number: int) -> str:
    return f"C-{number:04}"


def seed(dsn: str, home: Path, *, hosts: int = 40, campaigns: int = 60) -> None:
    """Create and fill the masters, unless they are there."""
    with postgres.connect(dsn) as connection, connection:
        fill(connection, _DDL, "web.sites", _sites(hosts))
    place = home / "masters" / "campaigns"
    if not DeltaTable.is_deltatable(str(place)):
        write_deltalake(place, _campaigns(campaigns), configuration={"delta.enableChangeDataFeed": "true"})


def _sites(hosts: int) -> pa.Table:
    pairs = [(number, country) for number in range(hosts) for country in COUNTRIES]
    return pa.table(
        {
            "host": [host(number) for number, _ in pairs],
            "country": [country for _, country in pairs],
            "title": [f"Shop {number} {country}" for number, country in pairs],
            "team": [("north", "south", "home")[number % 3] for number, _ in pairs],
            "tier": pa.array([number % 4 for number, _ in pairs], pa.int32()),
            "updated_at": pa.array([_SINCE] * len(pairs), pa.timestamp("us", "UTC")),
        }
    )


def _campaigns(count: int) -> pa.Table:
    numbers = range(count)
    return pa.table(
        {
            "code": [campaign(number) for number in numbers],
            "channel": [_CHANNELS[number % len(_CHANNELS)] for number in numbers],
            "cost_per_session": pa.array([Decimal(number % 30) / 100 for number in numbers], pa.decimal128(8, 2)),
        }
    )
