"""The events of the shop, with event time and arrival time.

    order ──pays after 0 to 40 minutes──► payment ──leaves after 5 to 60 minutes──► shipment

Every event has two times, in milliseconds: `happened`, which is its event time, and `arrives`, which decides the wave
in which it lands. Most arrive within seconds, slow ones within minutes (out of order, but on time for a lateness of ten
minutes), late ones after half an hour and more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from etl.samples import draws, lines
from etl.samples.correlations.config import ShopConfig

I64 = NDArray[np.int64]
Draw = Callable[[str, I64], NDArray[np.float64]]
REGIONS = ("africa", "america", "asia", "europe", "oceania")
PAY_BY = ("card", "transfer", "wallet")
CARRIERS = ("hermes", "iris", "mercury")
_MINUTE = 60_000


@dataclass(frozen=True, slots=True)
class Events:
    """One stream: its fields as JSON tokens by column, and both times of every event."""

    stream: str
    fields: lines.Texts
    happened: I64
    arrives: I64


def history(config: ShopConfig, start_ms: int) -> tuple[Events, Events, Events]:
    """Orders, payments and shipments of the whole afternoon that begins at `start_ms`."""
    draw: Draw = partial(draws.uniform, config.seed)
    numbers = np.arange(1, config.orders + 1, dtype=np.int64)
    span = config.waves * config.lasting // timedelta(milliseconds=1)
    ordered = start_ms + (numbers - 1) * span // config.orders
    cents = np.exp(8.5 + 1.2 * _normal(draw, "amount", numbers)).astype(np.int64) + 100
    pay_by = draws.below(len(PAY_BY), config.seed, "pay by", numbers)

    paid = draw("paid", numbers) < config.share_paid
    payers = numbers[paid]
    paid_at = ordered[paid] + (draw("pays after", payers) ** 2 * 40 * _MINUTE).astype(np.int64)
    failed = draw("failed", payers) < config.share_failed
    shipped = ~failed & (draw("shipped", payers) < config.share_shipped)
    shippers = payers[shipped]
    shipped_at = paid_at[shipped] + _MINUTE * 5 + (draw("ships after", shippers) * 55 * _MINUTE).astype(np.int64)
    return (
        _orders(config, numbers, cents, pay_by, ordered),
        _payments(config, payers, cents[paid], pay_by[paid], failed, paid_at),
        _shipments(config, shippers, shipped_at),
    )


def _orders(config: ShopConfig, numbers: I64, cents: I64, pay_by: I64, at: I64) -> Events:
    fields = {
        "order_id": lines.whole(numbers),
        "region": _words(REGIONS, draws.below(len(REGIONS), config.seed, "region", numbers)),
        "pay_by": _words(PAY_BY, pay_by),
        "amount": lines.money(cents),
        "ordered_at": lines.times(at),
    }
    return Events("orders_placed", fields, at, _arrivals(config, "orders", numbers, at))


def _payments(config: ShopConfig, payers: I64, cents: I64, pay_by: I64, failed: NDArray[np.bool_], at: I64) -> Events:
    """Some transfers name no order, or one that cannot be; their amount is off by less than fees take."""
    chance = draws.uniform(config.seed, "without order", payers)
    nameless = (pay_by == PAY_BY.index("transfer")) & (chance < config.share_without_order * len(PAY_BY))
    unusable = draws.below(3, config.seed, "which nothing", payers)  # none, 0, or a negative number
    order_id = pa.array(np.where(nameless, -payers * (unusable == 2), payers), mask=nameless & (unusable == 0))
    fee = np.where(nameless, cents * draws.below(15, config.seed, "fee", payers) // 1000, 0)
    fields = {
        "payment_id": lines.whole(payers + 1_000_000_000),
        "order_id": order_id.cast(pa.string()).fill_null("null"),
        "method": _words(PAY_BY, pay_by),
        "status": _words(("ok", "failed"), failed.astype(np.int64)),
        "amount": lines.money(cents - fee),
        "paid_at": lines.times(at),
    }
    return Events("payments", fields, at, _arrivals(config, "payments", payers, at))


def _shipments(config: ShopConfig, shippers: I64, at: I64) -> Events:
    fields = {
        "shipment_id": lines.whole(shippers + 2_000_000_000),
        "order_id": lines.whole(shippers),
        "carrier": _words(CARRIERS, draws.below(len(CARRIERS), config.seed, "carrier", shippers)),
        "weight_g": lines.whole(50 + draws.below(20_000, config.seed, "weight", shippers)),
        "shipped_at": lines.times(at),
    }
    return Events("shipments", fields, at, _arrivals(config, "shipments", shippers, at))


def _arrivals(config: ShopConfig, stream: str, keys: I64, happened: I64) -> I64:
    """Within seconds; slow ones within eight minutes; late ones after half an hour to an hour."""
    kind, how = (draws.uniform(config.seed, f"{what} of {stream}", keys) for what in ("transport", "delay"))
    quick, slow, late = how * 20_000, how * 8 * _MINUTE, (30 + how * 30) * _MINUTE
    is_late = kind < config.share_late
    is_slow = kind < config.share_late + config.share_slow
    return happened + np.where(is_late, late, np.where(is_slow, slow, quick)).astype(np.int64)


def _normal(draw: Draw, purpose: str, keys: I64) -> NDArray[np.float64]:
    """Box and Muller: two uniform numbers make a normal one."""
    radius = np.sqrt(-2 * np.log(1 - draw(f"{purpose}, radius", keys)))
    return np.asarray(radius * np.cos(2 * np.pi * draw(f"{purpose}, angle", keys)))


def _words(words: tuple[str, ...], which: I64) -> pa.Array:
    return pa.array([f'"{word}"' for word in words]).take(pa.array(which))
