"""Orders, payments and shipments as they land: the same bytes for a seed, and every kind of trouble in them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from etl.samples.config import OptionRefused
from etl.samples.correlations.config import ShopConfig
from etl.samples.correlations.history import Events, history
from etl.samples.correlations.waves import DIRT, waves

START = datetime(2026, 11, 1, 12, tzinfo=UTC)
START_MS = int(START.timestamp() * 1000)
CONFIG = ShopConfig(seed=3, waves=4, orders_per_wave=3000, share_dirty=0.02)


@pytest.fixture(scope="module")
def streams() -> dict[str, Events]:
    return {events.stream: events for events in history(CONFIG, START_MS)}


def test_the_same_seed_lands_the_same_bytes(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        list(waves(CONFIG, START, tmp_path / folder))
    files = sorted(path.relative_to(tmp_path / "a") for path in (tmp_path / "a").rglob("*.jsonl"))
    assert len(files) == 3 * CONFIG.waves
    assert all((tmp_path / "a" / one).read_bytes() == (tmp_path / "b" / one).read_bytes() for one in files)


def test_every_wave_counts_the_lines_of_its_files(tmp_path: Path) -> None:
    varieties = set()
    for wave in waves(CONFIG, START, tmp_path):
        for landed in wave.values():
            assert landed.file.read_bytes().count(b"\n") == landed.lines
            assert 0 <= landed.accepted <= landed.lines
            varieties |= landed.dirty.keys()
    assert varieties == set(DIRT)


def test_some_lines_come_twice(tmp_path: Path) -> None:
    repeated = sum(landed.repeated for wave in waves(CONFIG, START, tmp_path) for landed in wave.values())
    lines = [line for file in tmp_path.rglob("*.jsonl") for line in file.read_bytes().splitlines()]
    assert repeated > 0
    assert len(lines) - len(set(lines)) == repeated


def test_a_payment_follows_its_order_and_a_shipment_its_payment(streams: dict[str, Events]) -> None:
    ordered = dict(zip(ids(streams["orders_placed"], "order_id"), streams["orders_placed"].happened, strict=True))
    paid = {
        number - 1_000_000_000: at
        for number, at in zip(ids(streams["payments"], "payment_id"), streams["payments"].happened, strict=True)
    }
    assert all(0 <= at - ordered[number] <= 40 * 60_000 for number, at in paid.items())
    assert max(at - ordered[number] for number, at in paid.items()) > 30 * 60_000, "some pay too late to be paired"
    shipments = zip(ids(streams["shipments"], "order_id"), streams["shipments"].happened, strict=True)
    assert all(at > paid[number] for number, at in shipments)


def test_some_events_arrive_out_of_order_and_some_very_late(streams: dict[str, Events]) -> None:
    for events in streams.values():
        delay = events.arrives - events.happened
        assert (delay >= 0).all()
        assert 0 < np.mean(delay >= 30 * 60_000) < 0.02
        assert 0.01 < np.mean((delay > 60_000) & (delay < 30 * 60_000)) < 0.1


def test_some_transfers_name_no_usable_order(streams: dict[str, Events]) -> None:
    fields = streams["payments"].fields
    without = [
        (order, method)
        for order, method in zip(fields["order_id"].to_pylist(), fields["method"].to_pylist(), strict=True)
        if order == "null" or int(order) <= 0
    ]
    assert {method for _, method in without} == {'"transfer"'}
    assert {"null", "0"} < {order for order, _ in without}
    assert 0.01 < len(without) / len(fields["order_id"]) < 0.04


def test_clean_lines_are_json_objects_with_the_declared_fields(tmp_path: Path) -> None:
    clean = ShopConfig(seed=4, waves=1, orders_per_wave=50, share_dirty=0)
    for stream, landed in next(waves(clean, START, tmp_path)).items():
        fields = set(dict_of(clean, stream).fields)
        assert all(set(json.loads(line)) == fields for line in landed.file.read_text().splitlines())


@pytest.mark.parametrize(
    "wrong", [{"waves": 0}, {"orders_per_wave": 0}, {"seed": -1}, {"lasting": timedelta(0)}, {"share_late": 1.5},
              {"share_late": 0.6, "share_slow": 0.6}]
)  # fmt: skip
def test_a_configuration_that_makes_no_sense_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(OptionRefused):
        ShopConfig(**wrong)  # type: ignore[arg-type]


def ids(events: Events, name: str) -> list[int]:
    return [int(token) for token in events.fields[name].to_pylist()]


def dict_of(config: ShopConfig, stream: str) -> Events:
    return next(events for events in history(config, START_MS) if events.stream == stream)
