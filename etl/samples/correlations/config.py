"""The configuration: number of events, and shares of late and dirty ones."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from etl.samples.config import require


@dataclass(frozen=True, slots=True)
class ShopConfig:
    """An afternoon of `waves` micro-batches. Shares are of a stream's events."""

    seed: int = 1
    waves: int = 6
    orders_per_wave: int = 10_000
    lasting: timedelta = timedelta(minutes=20)
    share_paid: float = 0.9
    share_failed: float = 0.08
    share_without_order: float = 0.02
    share_shipped: float = 0.8
    share_slow: float = 0.05
    share_late: float = 0.005
    share_repeated: float = 0.01
    share_dirty: float = 0.005

    def __post_init__(self) -> None:
        require(0 <= self.seed < 2**63, "seed", self.seed, "a whole number from 0 to 2^63-1")
        require(1 <= self.waves <= 1000, "waves", self.waves, "1 to 1,000")
        require(1 <= self.orders_per_wave <= 10**7, "orders_per_wave", self.orders_per_wave, "1 to 10,000,000")
        require(self.lasting > timedelta(0), "lasting", str(self.lasting), "longer than nothing")
        for name in self.__slots__:
            if name.startswith("share_"):
                share = getattr(self, name)
                require(0 <= share <= 1, name, share, "a share from 0 to 1")
        both = self.share_slow + self.share_late
        require(both <= 1, "share_slow + share_late", both, "at most 1")

    @property
    def orders(self) -> int:
        return self.waves * self.orders_per_wave
