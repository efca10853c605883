"""Customers and products, as Arrow tables: each row a pure function of (seed, key).

A customer's row has versions: a later version has moved house and may have changed segment, and is otherwise
the same person. That is what slowly changing dimensions feed on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from etl.samples import dictionary, draws
from etl.samples.draws import Keys

MONEY = pa.decimal128(12, 2)


def customers(seed: int, keys: ArrayLike, *, version: int = 0) -> pa.Table:
    """Customers of these keys, in the columns of `master.customers` but `updated_at`: Postgres stamps it."""
    ids = np.atleast_1d(np.asarray(keys, dtype=np.int64))
    nation = draws.below(len(dictionary.NATIONS), seed, "customer nation", ids)
    names, regions, codes = (list(column) for column in zip(*dictionary.NATIONS, strict=True))
    moving = f"version {version}"
    columns = {
        "customer_id": pa.array(ids),
        "name": _joined(
            " ",
            _pick(dictionary.GIVEN, seed, "customer given name", ids),
            _pick(dictionary.FAMILY, seed, "customer family name", ids),
        ),
        "address": _address(seed, moving, ids),
        "nation": _take(names, nation),
        "region": _take(regions, nation),
        "market_segment": _pick(dictionary.SEGMENTS, seed, f"customer segment, {moving}", ids),
        "phone": _phone(seed, ids, _take(codes, nation)),
        "account_balance": money(draws.below(1_100_000, seed, "customer balance", ids) - 99_999),
    }
    return pa.table(columns)


def products(seed: int, keys: ArrayLike) -> pa.Table:
    """Products of these keys, in the columns of `master.products` except `updated_at`."""
    ids = np.atleast_1d(np.asarray(keys, dtype=np.int64))
    kinds = [(category, thing) for category, things in dictionary.THINGS.items() for thing in things]
    kind = draws.below(len(kinds), seed, "product kind", ids)
    columns = {
        "product_id": pa.array(ids),
        "name": _joined(
            " ",
            _pick(dictionary.LOOKS, seed, "product look", ids),
            _pick(dictionary.MATERIALS, seed, "product material", ids),
            _take([thing for _, thing in kinds], kind),
        ),
        "brand": _pick(dictionary.BRANDS, seed, "product brand", ids),
        "category": _take([category for category, _ in kinds], kind),
        "size": pa.array((draws.below(50, seed, "product size", ids) + 1).astype(np.int32)),
        "container": _joined(
            " ",
            _pick(dictionary.CONTAINER_SIZES, seed, "product container size", ids),
            _pick(dictionary.CONTAINER_KINDS, seed, "product container", ids),
        ),
        "retail_price": money(retail_cents(seed, ids)),
    }
    return pa.table(columns)


def retail_cents(seed: int, keys: Keys) -> NDArray[np.int64]:
    """A product's price: 1.00 to 2,000.00, cheap ones are common. Orders charge this, less a discount."""
    return np.floor(100 * 2000 ** draws.uniform(seed, "product price", keys)).astype(np.int64)


def money(cents: NDArray[np.int64]) -> pa.Array:
    """Whole cents as exact decimals: 128 bits each, the cents below and their sign drawn out above."""
    halves = np.empty((len(cents), 2), dtype="<i8")
    halves[:, 0], halves[:, 1] = cents, cents >> 63
    return pa.Array.from_buffers(MONEY, len(cents), [None, pa.py_buffer(halves)])


def _address(seed: int, moving: str, ids: Keys) -> pa.Array:
    number = pa.array(draws.below(240, seed, f"house, {moving}", ids) + 1).cast(pa.string())
    street = _pick(dictionary.STREETS, seed, f"street, {moving}", ids)
    kind = _pick(dictionary.STREET_KINDS, seed, f"street kind, {moving}", ids)
    town = _pick(dictionary.TOWNS, seed, f"town, {moving}", ids)
    return _joined(", ", _joined(" ", number, street, kind), town)


def _phone(seed: int, ids: Keys, codes: pa.Array) -> pa.Array:
    number = draws.below(10**9, seed, "phone", ids)
    groups = [
        _three_digits(number // 10**6),
        _three_digits(number // 1000 % 1000),
        _three_digits(number % 1000),
    ]
    return _joined(" ", _joined("", pa.scalar("+"), codes), *groups)


def _three_digits(numbers: NDArray[np.int64]) -> pa.Array:
    return _take([f"{n:03}" for n in range(1000)], numbers)


def _pick(choices: Sequence[str], seed: int, purpose: str, ids: Keys) -> pa.Array:
    return _take(choices, draws.below(len(choices), seed, purpose, ids))


def _take(choices: Sequence[str], indices: NDArray[np.int64]) -> pa.Array:
    return pa.array(choices, pa.string()).take(pa.array(indices))


def _joined(separator: str, *parts: Any) -> pa.Array:
    return pc.binary_join_element_wise(*parts, separator)
