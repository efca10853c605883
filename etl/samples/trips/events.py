"""Taxi trips as Parquet files, dirt included: the same seed gives the same rows."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from etl.samples.example import Expected, Mix, publish
from etl.samples.trips.masters import driver

Fields = dict[str, Any]
SCHEMA = pa.schema(
    {
        "service_day": pa.date32(),
        "meter": pa.int32(),
        "trip_number": pa.int32(),
        "started_at": pa.timestamp("us", "UTC"),
        "pickup_zone": pa.int32(),
        "dropoff_zone": pa.int32(),
        "driver_id": pa.string(),
        "distance_km": pa.float64(),
        "fare": pa.decimal128(10, 2),
        "tip": pa.decimal128(10, 2),
        "paid_by": pa.string(),
    }
)
_TRIPS_PER_METER = 400
_SPOILED: dict[str, tuple[str, Callable[[Fields], Fields]]] = {
    "negative fare": ("fare_in_range", lambda row: row | {"fare": -row["fare"] - 1, "tip": None}),
    "no meter": ("meter_missing", lambda row: row | {"meter": None}),
    "shells": ("paid_by_in_set", lambda row: row | {"paid_by": "shells"}),
    "to the moon": ("distance_km_in_range", lambda row: row | {"distance_km": 384_400.0}),
    "another day": ("started_on_service_day", lambda row: row | {"started_at": row["started_at"] - timedelta(days=30)}),
    "no driver": ("driver_id_matches_pattern", lambda row: row | {"driver_id": "somebody"}),
    "generous": ("tip_is_plausible", lambda row: row | {"tip": row["fare"] * 5 + 21}),
    "long ago": ("service_day_not_too_old", lambda row: row | _moved(row, date(1999, 1, 1))),
}
MIX = Mix({way: reason for way, (reason, _) in _SPOILED.items()})


def _moved(row: Fields, day: date) -> Fields:
    return {"service_day": day, "started_at": datetime.combine(day, row["started_at"].timetz())}


def generate(
    landing: Path, count: int, seed: int, start: datetime, *, zones: int = 120, drivers: int = 300, files: int = 2
) -> Expected:
    """Write `count` trips that began in the hour before `start` (UTC); returns where they must end."""
    random = np.random.default_rng(seed)
    kinds = MIX.kinds(count, random)
    rows: list[Fields] = []
    good: list[int] = []
    for number, kind in enumerate(kinds):
        if kind in ("duplicate", "conflict"):
            row = dict(rows[good[int(random.integers(len(good)))]])
            row = row if kind == "duplicate" else row | {"fare": row["fare"] + 1}
        else:
            row = _trip(number, seed, random, start, zones, drivers)
            row = row | {"dropoff_zone": zones + 1 + number} if kind == "waiting" else row
            row = _SPOILED[kind][1](row) if kind in _SPOILED else row
        if kind == "good":
            good.append(number)
        rows.append(row)
    for part, some in enumerate(np.array_split(np.arange(count), files)):
        buffer = io.BytesIO()
        pq.write_table(pa.Table.from_pylist([rows[number] for number in some], SCHEMA), buffer)
        publish(landing, f"trips-{seed}-{part:03}.parquet", buffer.getvalue())
    return MIX.expected(kinds)


def _trip(number: int, seed: int, random: np.random.Generator, start: datetime, zones: int, drivers: int) -> Fields:
    began = start - timedelta(seconds=int(random.integers(3600)))
    fare = Decimal(int(random.integers(300, 9000))) / 100
    return {
        "service_day": began.date(),
        "meter": 1 + seed % 1000 * 1_000_000 + number // _TRIPS_PER_METER,
        "trip_number": 1 + number % _TRIPS_PER_METER,
        "started_at": began,
        "pickup_zone": 1 + int(random.integers(zones)),
        "dropoff_zone": 1 + int(random.integers(zones)),
        "driver_id": driver(int(random.integers(drivers))),
        "distance_km": round(float(random.random()) * 30, 2),
        "fare": fare,
        "tip": (fare * int(random.integers(30)) / 100).quantize(Decimal("0.01")) if random.random() < 0.6 else None,
        "paid_by": ("card", "cash", "app")[int(random.integers(3))],
    }
