"""A wrong option is refused at once, in one sentence that names it and says what is allowed."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime

import pytest

from etl.samples import OptionRefused, OrderConfig, late_customers


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"seed": -1}, "seed=-1 is not allowed; give a whole number from 0 to 2^63-1"),
        ({"customers": 0}, "customers=0 is not allowed; give 1 to 100,000,000"),
        ({"products": -5}, "products=-5 is not allowed; give 1 to 100,000,000"),
        (
            {"exponent_customers": 1.7},
            "exponent_customers=1.7 is not allowed; give an exponent from 0 (uniform) to 1.5 (very skewed)",
        ),
        ({"share_malformed": -0.1}, "share_malformed=-0.1 is not allowed; give a share from 0 to 1"),
        ({"share_duplicates": float("nan")}, "share_duplicates=nan is not allowed; give a share from 0 to 1"),
        (
            {"late_customers": 0},
            "late_customers=0 is not allowed; give at least 1 when share_late_customers is above 0",
        ),
        ({"first_order_id": 0}, "first_order_id=0 is not allowed; give 1 to 2^62-1"),
        (
            {"stream": "../up"},
            "stream='../up' is not allowed; give small letters and digits, with single dashes between them",
        ),
    ],
)
def test_a_wrong_option_is_named_with_what_is_allowed(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(OptionRefused) as refused:
        OrderConfig(**options)  # type: ignore[arg-type]
    assert str(refused.value) == sentence


def test_shares_that_add_up_to_more_than_one_are_refused() -> None:
    with pytest.raises(OptionRefused, match=r"^sum of the shares=1\.2"):
        OrderConfig(
            share_duplicates=0,
            share_conflicts=0,
            share_malformed=0.6,
            share_unknown_customers=0,
            share_late_customers=0,
            share_out_of_range=0.6,
        )


def test_repeats_need_orders_to_repeat() -> None:
    with pytest.raises(OptionRefused, match="need orders to repeat"):
        OrderConfig(share_duplicates=0.95)


def test_a_refusal_crosses_a_process_border_whole() -> None:
    refusal = pickle.loads(pickle.dumps(OptionRefused("rate", 0, "more than 0")))
    assert (refusal.option, refusal.given, str(refusal)) == (
        "rate",
        0,
        "rate=0 is not allowed; give more than 0",
    )


def test_late_customers_lie_just_above_those_who_are_there() -> None:
    assert late_customers(OrderConfig(customers=10, late_customers=3)).tolist() == [11, 12, 13]


def test_a_fresh_stream_has_a_name_and_ids_of_its_own() -> None:
    config = OrderConfig(seed=5)
    first = config.fresh(datetime(2026, 11, 16, 10, 0, 0, tzinfo=UTC))
    second = config.fresh(datetime(2026, 11, 16, 10, 0, 1, tzinfo=UTC))
    assert first.stream != second.stream
    assert second.first_order_id - first.first_order_id == 1_000_000
    assert second.first_order_id < 2**53
    assert first.seed == config.seed


def test_a_fresh_stream_wants_a_time_with_its_zone() -> None:
    with pytest.raises(OptionRefused, match="a time with its zone"):
        OrderConfig().fresh(datetime(2026, 11, 16))
