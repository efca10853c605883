"""Limits of queries: names, quotas, lifetimes, windows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta

from etl.correlate.adhoc.errors import WindowRefused

NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")


@dataclass(frozen=True, slots=True)
class Limits:
    """The service's limits."""

    slot: timedelta = timedelta(seconds=10)
    retention: timedelta = timedelta(hours=1)
    queries: int = 1000
    queries_per_owner: int = 100
    longest_life: timedelta = timedelta(days=30)


def window_slots(name: str, within: timedelta, limits: Limits) -> int:
    """A window in slots; raises if it is not positive, not a multiple of a slot, or longer than the retention."""
    if within <= timedelta(0) or within % limits.slot:
        raise WindowRefused(name, str(within), f"is not a whole number of slots of {limits.slot}")
    if within > limits.retention:
        raise WindowRefused(name, str(within), f"is longer than the {limits.retention} for which tuples are retained")
    return within // limits.slot
