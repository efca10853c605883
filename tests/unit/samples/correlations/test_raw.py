"""What the oracle accepts of landed files, held against what the generator put into them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from etl.contract.correlations.correlation_files import load_streams
from etl.samples.correlations.config import ShopConfig
from etl.samples.correlations.raw import read
from etl.samples.correlations.waves import waves
from etl.settings import PROJECT

NOW = datetime(2026, 11, 1, 14, tzinfo=UTC)
START = datetime(2026, 11, 1, 12, tzinfo=UTC)
STREAMS = PROJECT / "warehouse" / "streams"


def test_exactly_the_dirty_lines_are_refused(tmp_path: Path) -> None:
    declared = load_streams(STREAMS, tmp_path)
    assert not declared.errors
    by_name = {one.name: one for one in declared.found}
    refused = 0
    for wave in waves(ShopConfig(waves=2, orders_per_wave=2000, share_dirty=0.05), START, tmp_path):
        for stream, landed in wave.items():
            found = read([landed.file], by_name[stream].stream.fields, by_name[stream].rules, NOW)
            assert (found.events.num_rows, found.refused) == (landed.accepted, sum(landed.dirty.values()))
            refused += found.refused
    assert refused > 200


@pytest.mark.parametrize(
    "line",
    [b'{"order_id": 1.5}', b"[1]", b"1", b'{"order_id": true}', b'{"region": "moon"}', b'{"amount": NaN}',
     b'{"amount": "7"}', b'{"ordered_at": 7}', b'{"ordered_at": "1999-12-31T00:00:00Z"}', b'{"amount": 0}',
     b'{"ordered_at": "2026-11-01T15:00:01Z"}', b'{"order_id": null}'],
)  # fmt: skip
def test_what_the_fields_do_not_allow_is_refused(line: bytes, tmp_path: Path) -> None:
    good = (b'{"order_id": 1, "region": "asia", "pay_by": "card", "amount": 7, '
            b'"ordered_at": "2026-11-01T12:00:00Z"}')  # fmt: skip
    # The last of two equal names counts, so a good order with one name repeated is wrong in that one thing.
    spoiled = good[:-1] + b", " + line[1:] if line.startswith(b"{") else line
    file = tmp_path / "orders.jsonl"
    file.write_bytes(good + b"\n" + spoiled + b"\n")
    stream = next(one for one in load_streams(STREAMS, tmp_path).found if one.name == "orders_placed")
    found = read([file], stream.stream.fields, stream.rules, NOW)
    assert (found.events.num_rows, found.refused) == (1, 1)
