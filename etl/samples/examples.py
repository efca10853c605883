"""The shipped examples by name: their masters, and events with known outcomes.

    EXAMPLES["trips"].seed(dsn, home)
    expected = EXAMPLES["trips"].generate(landing, 5_000, 1, now)

`landing` is the pipeline's own folder; the clock is an argument. Events of another seed are other events.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from etl.adapters import postgres
from etl.samples import trips, web_sessions
from etl.samples.config import OrderConfig
from etl.samples.example import Expected
from etl.samples.landing import generate_orders
from etl.samples.load import generate_master

_CUSTOMERS, _PRODUCTS = 1_000, 200
_ORDERS_APART = 10_000_000  # ids between two seeds


class Seed(Protocol):
    """Creates and fills the masters of an example, unless they are there."""

    def __call__(self, dsn: str, home: Path) -> None: ...


class Generate(Protocol):
    """Writes events that happened just before `start` (UTC); returns where they must end."""

    def __call__(self, landing: Path, count: int, seed: int, start: datetime) -> Expected: ...


@dataclass(frozen=True, slots=True)
class Example:
    seed: Seed
    generate: Generate


def _seed_orders(dsn: str, home: Path) -> None:  # noqa: ARG001 - all in Postgres
    with postgres.connect(dsn) as connection:
        generate_master(connection, 1, _CUSTOMERS, _PRODUCTS)


def _generate_orders(landing: Path, count: int, seed: int, start: datetime) -> Expected:
    config = OrderConfig(
        seed=seed,
        customers=_CUSTOMERS,
        products=_PRODUCTS,
        share_late_customers=0,
        first_order_id=1 + seed * _ORDERS_APART,
        stream=f"s{seed}",
    )
    (tally,) = generate_orders(landing, config, 1, count, 10_000, start)
    return Expected(tally.lines, tally.fact, tally.quarantine, tally.backlog, tally.duplicates)


EXAMPLES = {
    "orders": Example(_seed_orders, _generate_orders),
    "trips": Example(trips.seed, trips.generate),
    "web_sessions": Example(web_sessions.seed, web_sessions.generate),
}
