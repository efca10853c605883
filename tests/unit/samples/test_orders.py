"""The order stream, read back as a consumer would: line by line, with a JSON reader."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from etl.samples import Kind, OptionRefused, OrderConfig, OrderStream, Tally, late_customers, products
from etl.samples.config import SHARES, UNKNOWN_BASE
from etl.samples.dirt import MALFORMED, OUT_OF_RANGE

START = datetime(2026, 11, 16, 10, tzinfo=UTC)
CLEAN = OrderConfig(seed=3, customers=2_000, products=500, **dict.fromkeys(SHARES, 0.0))  # type: ignore[arg-type]
DIRTY = OrderConfig(
    seed=3,
    customers=2_000,
    products=500,
    late_customers=50,
    share_duplicates=0.08,
    share_conflicts=0.06,
    share_malformed=0.07,
    share_unknown_customers=0.05,
    share_late_customers=0.04,
    share_out_of_range=0.1,
)


def waves(config: OrderConfig, *counts: int) -> tuple[list[list[bytes]], Tally]:
    stream, texts, total = OrderStream(config), [], Tally()
    for number, count in enumerate(counts):
        wave: list[bytes] = []
        for part in stream.wave(count, START + timedelta(minutes=number)).parts(1_000):
            wave += part.lines()
            total += part.tally
        texts.append(wave)
    return texts, total


def lines(config: OrderConfig, *counts: int) -> list[bytes]:
    return [line for wave in waves(config, *counts)[0] for line in wave]


def parsed(line: bytes) -> dict[str, Any] | None:
    """The object a strict reader sees (NaN apart, which is a matter of range), or nothing."""
    try:
        value = json.loads(line.decode(errors="surrogateescape"), parse_float=Decimal)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def acceptable(order: dict[str, Any], config: OrderConfig) -> bool:
    """Whether every field is there, typed, and in range: the rules of the warehouse, once more by hand."""
    ids = [order.get(name) for name in ("order_id", "customer_id", "product_id", "quantity")]
    price, at = order.get("unit_price"), order.get("ordered_at")
    return (
        all(type(number) is int and 1 <= number < 2**63 for number in ids)
        and ids[3] <= 100_000
        and isinstance(price, Decimal)
        and 0 <= price <= 10_000_000
        and isinstance(at, str)
        and re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", at) is not None
        and list(order) == ["order_id", "customer_id", "product_id", "quantity", "unit_price", "ordered_at"]
    )


def judged(texts: list[bytes], config: OrderConfig) -> Counter[str]:
    """What a careful reader makes of every line, in order, knowing nothing of how it was made."""
    first: dict[int, bytes] = {}
    verdicts = Counter[str]()
    for line in texts:
        order = parsed(line)
        if order is None:
            verdicts["malformed"] += 1
        elif not acceptable(order, config):
            verdicts["out_of_range"] += 1
        elif order["order_id"] in first:
            verdicts["duplicate" if first[order["order_id"]] == line else "conflict"] += 1
        else:
            first[order["order_id"]] = line
            verdicts[whose(order["customer_id"], config)] += 1
    return verdicts


def whose(customer: int, config: OrderConfig) -> str:
    if customer <= config.customers:
        return "clean"
    return "late_customer" if customer in late_customers(config) else "unknown_customer"


@pytest.fixture(scope="module")
def dirty_lines() -> list[bytes]:
    return lines(DIRTY, 20_000)


def test_the_same_seed_gives_the_same_bytes() -> None:
    assert waves(DIRTY, 3_000, 2_500) == waves(DIRTY, 3_000, 2_500)


def test_another_seed_gives_other_bytes() -> None:
    assert lines(DIRTY, 500) != lines(replace(DIRTY, seed=4), 500)


def test_bytes_do_not_depend_on_how_a_wave_is_cut_into_files() -> None:
    whole = OrderStream(DIRTY).wave(5_000, START)
    cut = OrderStream(DIRTY).wave(5_000, START)
    assert b"".join(part.data for part in whole.parts()) == b"".join(part.data for part in cut.parts(77))


@pytest.mark.parametrize("count", [0, 1, 2, 999, 1_000, 1_001])
def test_a_wave_has_exactly_the_lines_asked_for_dirt_included(count: int) -> None:
    texts, tally = waves(DIRTY, count)
    assert len(texts[0]) == count == tally.lines == sum(tally.kinds.values())
    assert all(texts[0]), "no line is empty"
    assert not any(b"\r" in line for line in texts[0])


def test_clean_orders_have_every_field_in_its_form() -> None:
    for line in lines(CLEAN, 2_000):
        order = parsed(line)
        assert order is not None
        assert acceptable(order, CLEAN), line
        assert re.search(rb'"unit_price":\d+\.\d\d,', line), line
        assert 1 <= order["customer_id"] <= 2_000
        assert 1 <= order["product_id"] <= 500
        assert 1 <= order["quantity"] <= 50


def test_orders_are_dated_evenly_over_their_wave_and_never_by_the_clock() -> None:
    stamps = [datetime.fromisoformat(json.loads(line)["ordered_at"]) for line in lines(CLEAN, 600, 600)]
    assert stamps == sorted(stamps)
    assert stamps[0] == START
    assert stamps[1] == START + timedelta(milliseconds=100)
    assert stamps[600] == START + timedelta(minutes=1)
    assert stamps[-1] < START + timedelta(minutes=2)


def test_an_order_charges_its_product_price_less_at_most_a_tenth() -> None:
    prices = products(CLEAN.seed, np.arange(1, 501))["retail_price"].to_pylist()
    for line in lines(CLEAN, 500):
        order = json.loads(line, parse_float=Decimal)
        full = prices[order["product_id"] - 1]
        assert full * Decimal("0.9") - Decimal("0.01") <= order["unit_price"] <= full


def test_shares_are_as_configured_when_the_lines_are_read_back() -> None:
    count = 40_000
    verdicts = judged(lines(DIRTY, count // 2, count // 2), DIRTY)
    for kind, share in {
        "duplicate": DIRTY.share_duplicates,
        "conflict": DIRTY.share_conflicts,
        "malformed": DIRTY.share_malformed,
        "unknown_customer": DIRTY.share_unknown_customers,
        "late_customer": DIRTY.share_late_customers,
        "out_of_range": DIRTY.share_out_of_range,
    }.items():
        assert abs(verdicts[kind] - share * count) < 5 * math.sqrt(share * count), kind


def test_the_tally_is_what_a_careful_reader_finds() -> None:
    texts, tally = waves(DIRTY, 6_000, 1, 0, 9_000)
    flat = [line for wave in texts for line in wave]
    assert dict(judged(flat, DIRTY)) == tally.kinds
    assert tally.size_bytes == sum(len(line) + 1 for line in flat)
    assert tally.lines == tally.fact + tally.quarantine + tally.backlog + tally.duplicates


def test_every_variety_of_dirt_turns_up_and_adds_up() -> None:
    tally = waves(DIRTY, 20_000)[1]
    assert set(tally.varieties) == {*MALFORMED, *OUT_OF_RANGE}
    assert sum(tally.varieties[name] for name in MALFORMED) == tally.of(Kind.MALFORMED)
    assert sum(tally.varieties[name] for name in OUT_OF_RANGE) == tally.of(Kind.OUT_OF_RANGE)


@pytest.mark.parametrize(
    "mark",
    [
        rb'"quantity":-\d', rb'"quantity":0,', rb'"2999-', rb'"1819-', rb'"unit_price":NaN', rb"1e400",
        rb'"quantity":10{30}', rb'"customer_id":9{30}', rb'"(order|customer|product)_id":null', rb"\xff\xfe",
        rb"caf\xe9", rb'"quantity":"three"', rb'^\{"customer_id"', rb'^\{"order_id":\d+,"product_id"',
        rb"^\[", rb"^WARN", rb"\}\{", rb",\}$", rb"^\x1f\x8b",
    ],
)  # fmt: skip
def test_the_stream_holds(mark: bytes, dirty_lines: list[bytes]) -> None:
    assert any(re.search(mark, line) for line in dirty_lines)


def test_only_the_bad_utf8_and_binary_lines_are_not_utf8() -> None:
    texts, tally = waves(DIRTY, 10_000)
    broken = 0
    for line in texts[0]:
        try:
            line.decode()
        except UnicodeDecodeError:
            broken += 1
    assert broken == tally.varieties["bad_utf8"] + tally.varieties["binary"] > 0


def test_no_two_dirty_lines_are_the_same_so_that_none_counts_as_a_duplicate(
    dirty_lines: list[bytes],
) -> None:
    dirty = [line for line in dirty_lines if (order := parsed(line)) is None or not acceptable(order, DIRTY)]
    assert len(set(dirty)) == len(dirty) > 3_000


def test_repeats_reach_back_to_earlier_waves_and_into_their_own() -> None:
    texts, _ = waves(DIRTY, 5_000, 5_000)
    seen_before = {order["order_id"] for line in texts[0] if (order := parsed(line)) and "order_id" in order}
    own: set[int] = set()
    reach = Counter[str]()
    for line in texts[1]:
        order = parsed(line)
        if order and acceptable(order, DIRTY):
            reach["earlier"] += order["order_id"] in seen_before
            reach["own"] += order["order_id"] in own
            own.add(order["order_id"])
    assert reach["earlier"] > 100
    assert reach["own"] > 100


def test_the_first_line_cannot_repeat_anything() -> None:
    for seed in range(50):
        assert waves(replace(DIRTY, seed=seed, share_duplicates=0.4), 1)[1].duplicates == 0


def test_customers_who_never_arrive_have_keys_nobody_makes() -> None:
    unknown = [
        order["customer_id"]
        for line in lines(replace(CLEAN, share_unknown_customers=0.5), 1_000)
        if (order := json.loads(line))["customer_id"] > CLEAN.customers
    ]
    assert 400 < len(unknown) < 600
    assert min(unknown) >= UNKNOWN_BASE


def test_customers_are_skewed_as_the_exponent_says() -> None:
    def hottest(exponent: float) -> int:
        texts = lines(replace(CLEAN, exponent_customers=exponent), 20_000)
        return Counter(json.loads(line)["customer_id"] for line in texts).most_common(1)[0][1]

    harmonic = sum(1 / rank for rank in range(1, 2_001))
    assert hottest(0) < 40, "20,000 orders over 2,000 customers: ten each"
    assert abs(hottest(1) - 20_000 / harmonic) < 6 * math.sqrt(20_000 / harmonic)


def test_a_stream_can_be_all_dirt() -> None:
    config = replace(CLEAN, share_malformed=1.0)
    assert judged(lines(config, 500), config) == {"malformed": 500}


def test_two_streams_with_other_first_ids_share_no_order() -> None:
    other = replace(CLEAN, first_order_id=10_000)
    ids = [{json.loads(line)["order_id"] for line in lines(config, 1_000)} for config in (CLEAN, other)]
    assert ids[0].isdisjoint(ids[1])


def test_a_start_without_a_zone_is_refused() -> None:
    with pytest.raises(OptionRefused, match=r"^start='2026-11-16 00:00:00' is not allowed; give a time with its zone"):
        OrderStream(CLEAN).wave(1, datetime(2026, 11, 16))
