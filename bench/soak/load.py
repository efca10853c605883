"""What lands in a soak: a steady rate with bursts, and customers who come after their orders.

    ├── steady ──────────────── burst ──┤ customers of these orders come ├── steady ──────── burst ──┤ …

Every two minutes another stream begins, with late customers of its own: those of the stream before have come by then.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from etl.adapters import postgres
from etl.samples import LandingWriter, OrderConfig, OrderStream, Tally, arrive_late_customers, generate_master

CUSTOMERS, PRODUCTS, LATE_CUSTOMERS = 200_000, 20_000, 500
PERIOD_S, BURST_S, BURST = 120.0, 10.0, 10
_EVERY_S, _MOST_CATCH_UP_S, _LINES_PER_FILE = 1.0, 3.0, 100_000


def seed(dsn: str) -> None:
    """Customers and products, before the stack starts."""
    postgres.migrate(dsn)
    with postgres.connect(dsn) as connection:
        generate_master(connection, seed=1, customers=CUSTOMERS, products=PRODUCTS)


def config_of(period: int) -> OrderConfig:
    """The stream of a period: who came late in the periods before is a customer like any other."""
    customers = CUSTOMERS + period * LATE_CUSTOMERS
    return OrderConfig(
        customers=customers, products=PRODUCTS, late_customers=LATE_CUSTOMERS, share_unknown_customers=0.0
    )


def times_as_many(seconds: float) -> int:
    """How many times the steady rate lands so long after the begin."""
    return BURST if seconds % PERIOD_S >= PERIOD_S - BURST_S else 1


@dataclass
class Load:
    """Lands orders until it is over, and then lets the last customers come."""

    landing: Path
    dsn: str = field(repr=False)
    rate_per_s: float
    landed: Tally = field(default_factory=Tally)

    def warm_up(self) -> None:
        """A wave of a stream of its own, of customers who are there."""
        config = replace(config_of(0), share_late_customers=0.0, late_customers=0).fresh(datetime.now(UTC))
        self._land(OrderStream(config), int(self.rate_per_s), _EVERY_S)

    def run(self, over: threading.Event) -> None:
        """A file about every second until it is over. A machine that lags makes up for a few seconds only."""
        began = last = time.monotonic()
        period, late = 0, config_of(0)
        stream = OrderStream(late.fresh(datetime.now(UTC)))
        while not over.wait(_EVERY_S):
            now = time.monotonic()
            elapsed_s, last = min(now - last, _MOST_CATCH_UP_S), now
            if (now - began) // PERIOD_S > period:
                period += 1
                self._arrive(late)
                late = config_of(period)
                stream = OrderStream(late.fresh(datetime.now(UTC)))
            self._land(stream, int(elapsed_s * self.rate_per_s * times_as_many(now - began)), elapsed_s)
        self._arrive(late)

    def _land(self, stream: OrderStream, count: int, seconds: float) -> None:
        lasting = timedelta(seconds=seconds)
        wave = stream.wave(count, datetime.now(UTC) - lasting, lasting)
        self.landed += LandingWriter(self.landing, stream.config.stream).write(wave, _LINES_PER_FILE)

    def _arrive(self, config: OrderConfig) -> None:
        with postgres.connect(self.dsn) as connection:
            arrive_late_customers(connection, config)
