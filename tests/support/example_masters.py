"""Schemas of the masters of the shipped examples, as their readers give them."""

from __future__ import annotations

import pyarrow as pa

_TEXT, _TIME = pa.string(), pa.timestamp("us", "UTC")
_MONEY = pa.decimal128(12, 2)

CUSTOMERS = pa.schema(
    [pa.field("customer_id", pa.int64(), nullable=False)]
    + [(name, _TEXT) for name in ("name", "address", "nation", "region", "market_segment", "phone")]
    + [("account_balance", _MONEY), ("updated_at", _TIME)]
)
PRODUCTS = pa.schema(
    [pa.field("product_id", pa.int64(), nullable=False)]
    + [(name, _TEXT) for name in ("name", "brand", "category")]
    + [("size", pa.int32()), ("container", _TEXT), ("retail_price", _MONEY), ("updated_at", _TIME)]
)
SITES = pa.schema(
    [pa.field(name, _TEXT, nullable=False) for name in ("host", "country", "title", "team")]
    + [pa.field("tier", pa.int32(), nullable=False), pa.field("updated_at", _TIME, nullable=False)]
)
CAMPAIGNS = pa.schema([("code", _TEXT), ("channel", _TEXT), ("cost_per_session", pa.decimal128(8, 2))])
ZONES = pa.schema([("zone_id", pa.int32()), ("name", _TEXT), ("borough", _TEXT)])
DRIVERS = pa.schema([(name, _TEXT) for name in ("driver_id", "name", "licence", "company")])

MASTERS = {
    "orders": {"customer": CUSTOMERS, "product": PRODUCTS},
    "web_sessions": {"site": SITES, "campaign": CAMPAIGNS},
    "trips": {"pickup": ZONES, "dropoff": ZONES, "driver": DRIVERS},
}
