"""A live stream: about every second a file, at a chosen rate, until stopped.

    elapsed · rate − already written = due ──► one wave ──► landing/
    once, after a while: the late customers arrive

Clock, sleep and stop are arguments, so a test lives through an hour in a moment. After a pause (a laptop that
slept) only `MOST_CATCH_UP` is made up for: nobody ordered while the shop was closed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from etl.samples.config import OrderConfig, require
from etl.samples.landing import LandingWriter
from etl.samples.orders import OrderStream
from etl.samples.tally import Tally

MOST_CATCH_UP = timedelta(seconds=10)
MOST_RATE_PER_S = 500_000
LINES_PER_FILE = 100_000


def _utc_now() -> datetime:
    return datetime.now(UTC)


def live(
    config: OrderConfig,
    landing: Path,
    rate_per_s: float,
    stop: Callable[[], bool],
    *,
    clock: Callable[[], datetime] = _utc_now,
    sleep: Callable[[float], object] = time.sleep,
    every: timedelta = timedelta(seconds=1),
    arrive: Callable[[], object] | None = None,
    arrive_after: timedelta = timedelta(minutes=2),
) -> Tally:
    """Drop order files until `stop()`; call `arrive` once after `arrive_after`. Returns the tally.

    With a `threading.Event`, pass `event.is_set` as `stop` and `event.wait` as `sleep`: it stops at once.
    The stream is named and numbered by its start, so it never meets an earlier one.
    """
    require(0 < rate_per_s <= MOST_RATE_PER_S, "rate_per_s", rate_per_s, f"above 0, at most {MOST_RATE_PER_S:,}")
    began = last = clock()
    config = config.fresh(began)
    stream, writer, total, owed = OrderStream(config), LandingWriter(landing, config.stream), Tally(), 0.0
    while not stop():
        sleep(every.total_seconds())
        now = clock()
        elapsed = max(min(now - last, MOST_CATCH_UP), timedelta(0))
        owed += rate_per_s * elapsed.total_seconds()
        due, last = int(owed), now
        if due:
            total += writer.write(stream.wave(due, now - elapsed, elapsed), LINES_PER_FILE)
            owed -= due
        if arrive is not None and now - began >= arrive_after:
            arrive()
            arrive = None
    return total
