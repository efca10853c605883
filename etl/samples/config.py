"""The configuration of an order stream: sizes, skew, and the share of every kind of dirty line.

Key ranges never overlap, so the key shows the fate of an order's customer:

    1 … customers                          there from the start
    customers+1 … customers+late           arrive later
    10^12 …                                never arrive
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from etl.errors import TerminalError

MOST_KEYS = 100_000_000
UNKNOWN_BASE = 10**12
"""Unknown customers have keys above this: no generator ever makes such a customer."""

SHARES = (
    "share_duplicates",
    "share_conflicts",
    "share_malformed",
    "share_unknown_customers",
    "share_late_customers",
    "share_out_of_range",
)
LEAST_ORDERS = 0.1


class OptionRefused(TerminalError):
    """A generator's option has a value that makes no sense."""

    exit_code = 64  # EX_USAGE

    def __init__(self, option: str, given: object, allowed: str) -> None:
        super().__init__(option, given, allowed)
        self.option, self.given, self.allowed = option, given, allowed

    def __str__(self) -> str:
        return f"{self.option}={self.given!r} is not allowed; give {self.allowed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderConfig:
    """All options of a stream. `stream` is part of file names, so it must be unique per landing folder."""

    seed: int = 1
    customers: int = 100_000
    products: int = 20_000
    late_customers: int = 200
    exponent_customers: float = 1.0
    exponent_products: float = 0.8
    share_duplicates: float = 0.01
    share_conflicts: float = 0.002
    share_malformed: float = 0.003
    share_unknown_customers: float = 0.002
    share_late_customers: float = 0.01
    share_out_of_range: float = 0.005
    first_order_id: int = 1
    stream: str = "a"

    def __post_init__(self) -> None:
        require(0 <= self.seed < 2**63, "seed", self.seed, "a whole number from 0 to 2^63-1")
        for name in ("customers", "products"):
            require(1 <= getattr(self, name) <= MOST_KEYS, name, getattr(self, name), f"1 to {MOST_KEYS:,}")
        require(
            0 <= self.late_customers <= MOST_KEYS,
            "late_customers",
            self.late_customers,
            f"0 to {MOST_KEYS:,}",
        )
        require_exponent("exponent_customers", self.exponent_customers)
        require_exponent("exponent_products", self.exponent_products)
        require(1 <= self.first_order_id < 2**62, "first_order_id", self.first_order_id, "1 to 2^62-1")
        named = re.fullmatch(r"[a-z0-9](-?[a-z0-9])*", self.stream)
        require(bool(named), "stream", self.stream, "small letters and digits, with single dashes between them")
        self._check_shares()

    def _check_shares(self) -> None:
        for name in SHARES:
            share = getattr(self, name)
            require(math.isfinite(share) and 0 <= share <= 1, name, share, "a share from 0 to 1")
        total = math.fsum(getattr(self, name) for name in SHARES)
        require(
            total <= 1 + 1e-9,
            "sum of the shares",
            round(total, 6),
            f"shares that add up to at most 1: {_LIST}",
        )
        nobody_late = self.share_late_customers > 0 and self.late_customers == 0
        require(not nobody_late, "late_customers", 0, "at least 1 when share_late_customers is above 0")
        repeats = self.share_duplicates + self.share_conflicts
        orders = 1 - repeats - self.share_malformed - self.share_out_of_range
        require(
            repeats == 0 or orders >= LEAST_ORDERS - 1e-9,
            "share of lines left for orders",
            round(orders, 6),
            f"at least {LEAST_ORDERS}: share_duplicates and share_conflicts need orders to repeat",
        )

    def fresh(self, at: datetime) -> OrderConfig:
        """The same stream with its own name and order ids, so that it can share a folder with others.

        Ids start at a thousand per millisecond since 1970: below 2⁵³, so every JSON reader is exact.
        """
        require(at.tzinfo is not None, "at", str(at), "a time with its zone")
        millis = int(at.astimezone(UTC).timestamp() * 1000)
        return replace(self, first_order_id=millis * 1000, stream=f"t{millis}")


def late_customers(config: OrderConfig) -> NDArray[np.int64]:
    """Keys of the customers whose orders arrive before their master row."""
    return np.arange(1, config.late_customers + 1, dtype=np.int64) + config.customers


def require(holds: bool, option: str, given: object, allowed: str) -> None:
    """Refuse an option unless the condition holds."""
    if not holds:
        raise OptionRefused(option, given, allowed)


def require_exponent(option: str, exponent: float) -> None:
    require(0 <= exponent <= 1.5, option, exponent, "an exponent from 0 (uniform) to 1.5 (very skewed)")


_LIST = ", ".join(SHARES)
