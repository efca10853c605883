"""Samples: generated master data, and a stream of orders with every kind of dirt, to try the pipeline on.

    seed ──► draws ──► master   customers, products ──────► load     COPY into Postgres
                  └──► zipf ──► orders ◄── dirt     ──────► landing  files that appear whole
                                                            live     a file a second, until stopped

Everything is a pure function of (seed, key) or (seed, line number): the same seed gives the same bytes, a
customer who arrives later can be made later, and a duplicate of an earlier order needs no memory of it.
Nothing here reads a clock that was not handed to it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from etl.samples.config import OptionRefused, OrderConfig, late_customers
    from etl.samples.landing import LandingRefused, LandingWriter, generate_orders, order_waves
    from etl.samples.load import arrive_late_customers, copy_into, generate_master, touch_customers
    from etl.samples.master import customers, products
    from etl.samples.orders import OrderStream, Part, Wave
    from etl.samples.plan import Kind
    from etl.samples.tally import Tally
    from etl.samples.zipf import BoundedZipf

_HOMES = {
    "BoundedZipf": "zipf",
    "Kind": "plan",
    "LandingRefused": "landing",
    "LandingWriter": "landing",
    "OptionRefused": "config",
    "OrderConfig": "config",
    "OrderStream": "orders",
    "Part": "orders",
    "Tally": "tally",
    "Wave": "orders",
    "arrive_late_customers": "load",
    "copy_into": "load",
    "customers": "master",
    "generate_master": "load",
    "generate_orders": "landing",
    "late_customers": "config",
    "order_waves": "landing",
    "products": "master",
    "touch_customers": "load",
}
"""The module of each name, imported lazily: the command line mounts `commands` and must start fast."""

__all__ = [
    "BoundedZipf",
    "Kind",
    "LandingRefused",
    "LandingWriter",
    "OptionRefused",
    "OrderConfig",
    "OrderStream",
    "Part",
    "Tally",
    "Wave",
    "arrive_late_customers",
    "copy_into",
    "customers",
    "generate_master",
    "generate_orders",
    "late_customers",
    "order_waves",
    "products",
    "touch_customers",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
