"""Masters of trips: zones of a city, which every trip meets twice, and drivers."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from etl.adapters import postgres
from etl.samples.example import fill

BOROUGHS = ("Hill", "Harbour", "Market", "Meadow", "Old Town")
_ZONES = """
create schema if not exists city;
create table if not exists city.zones (
    zone_id integer primary key,
    name    text not null,
    borough text not null
);
"""
_DRIVERS = """
create table if not exists city.drivers (
    driver_id text primary key,
    name      text not null,
    licence   text not null,
    company   text
);
"""


def driver(number: int) -> str:
    return f"D{number:05}"


def seed(dsn: str, home: Path, *, zones: int = 120, drivers: int = 300) -> None:  # noqa: ARG001 - all in Postgres
    """Create and fill the masters, unless they are there."""
    with postgres.connect(dsn) as connection, connection:
        fill(connection, _ZONES, "city.zones", _zones(zones))
        fill(connection, _DRIVERS, "city.drivers", _drivers(drivers))


def _zones(count: int) -> pa.Table:
    numbers = range(1, count + 1)
    return pa.table(
        {
            "zone_id": pa.array(numbers, pa.int32()),
            "name": [f"{BOROUGHS[number % 5]} {number}" for number in numbers],
            "borough": [BOROUGHS[number % 5] for number in numbers],
        }
    )


def _drivers(count: int) -> pa.Table:
    numbers = range(count)
    return pa.table(
        {
            "driver_id": [driver(number) for number in numbers],
            "name": [f"Driver {number}" for number in numbers],
            "licence": [f"L-{number * 7919 % 1_000_000:06}" for number in numbers],
            "company": [None if number % 10 == 0 else f"Cabs {number % 6}" for number in numbers],
        }
    )
