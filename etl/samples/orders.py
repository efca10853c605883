"""The order stream: waves of lines, dirt included.

    line numbers ─plan─► kind, source line ─► order columns ─lines─► bytes

An order is a function of (seed, line number, time of its wave). A duplicate is therefore rendered again from
the line it repeats, byte for byte, without keeping it.

Invariants: a wave of n lines has exactly n line ends; a repeat comes after what it repeats.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np

from etl.samples import draws, lines
from etl.samples.config import UNKNOWN_BASE, OrderConfig, require
from etl.samples.draws import Keys
from etl.samples.master import retail_cents
from etl.samples.plan import Kind, Plan, kinds, plan
from etl.samples.tally import Tally
from etl.samples.zipf import BoundedZipf

MOST_QUANTITY = 50
WAVES_REMEMBERED = 4_096
"""How far back repeats reach. A live stream drops a wave a second, so this is about an hour."""
MOST_LINES_PER_PART = 1_000_000
UNKNOWN_CUSTOMERS = 1_000


@dataclass(frozen=True, slots=True)
class Part:
    """The bytes of one file, every line ended, and what is in them."""

    data: memoryview
    tally: Tally

    def lines(self) -> list[bytes]:
        return bytes(self.data).split(b"\n")[:-1]


@dataclass(frozen=True, slots=True)
class Wave:
    """Some lines of a stream, rendered when asked for, a part at a time."""

    stream: OrderStream
    number: int
    first: int
    count: int

    def parts(self, lines_per_part: int = MOST_LINES_PER_PART) -> Iterator[Part]:
        for first in range(self.first, self.first + self.count, lines_per_part):
            yield self.stream.render(first, min(lines_per_part, self.first + self.count - first))


@dataclass(frozen=True, slots=True)
class _Span:
    """Where a wave lies in the stream and in time."""

    first: int
    count: int
    start_ms: int
    lasting_ms: int


class OrderStream:
    """One stream of orders. Its only state is where the latest waves lie."""

    def __init__(self, config: OrderConfig) -> None:
        self.config = config
        self._customers = BoundedZipf(config.customers, config.exponent_customers, shuffle_seed=config.seed)
        self._products = BoundedZipf(config.products, config.exponent_products, shuffle_seed=config.seed)
        self._spans: deque[_Span] = deque(maxlen=WAVES_REMEMBERED)
        self._lines = self._waves = 0

    def wave(self, count: int, start: datetime, lasting: timedelta = timedelta(minutes=1)) -> Wave:
        """The next `count` lines, dirt included, with orders spread evenly over `lasting` from `start`."""
        require(count >= 0, "count", count, "0 lines or more")
        require(lasting >= timedelta(0), "lasting", str(lasting), "a time span of 0 or more")
        require(start.tzinfo is not None, "start", str(start), "a time with its zone: 2026-11-16T10:00:00Z")
        start_ms = round(start.astimezone(UTC).timestamp() * 1000)
        self._spans.append(_Span(self._lines, count, start_ms, lasting // timedelta(milliseconds=1)))
        wave = Wave(self, self._waves, self._lines, count)
        self._lines, self._waves = self._lines + count, self._waves + 1
        return wave

    def render(self, first: int, count: int) -> Part:
        """Lines first … first+count-1, of waves that are remembered."""
        require(1 <= count <= MOST_LINES_PER_PART, "lines per part", count, f"1 to {MOST_LINES_PER_PART:,}")
        oldest = self._spans[0].first
        assert oldest <= first <= first + count <= self._lines, "no remembered wave has these lines"
        planned = plan(self.config, first, count, oldest)
        texts = self._texts(planned)
        finished, varieties = lines.spoiled(self.config.seed, planned, texts, lines.joined(texts))
        data = lines.as_bytes(finished)
        found, counts = np.unique(planned.kind, return_counts=True)
        by_kind = {Kind(kind).name.lower(): int(n) for kind, n in zip(found, counts, strict=True)}
        return Part(data, Tally(count, 0, data.nbytes, by_kind, varieties))

    def _texts(self, planned: Plan) -> lines.Texts:
        """The order behind every line, as JSON tokens by column."""
        config, source = self.config, planned.source
        product = self._products.keys(draws.uniform(config.seed, "product of order", source))
        percent = 90 + draws.below(11, config.seed, "discount", source)
        return {
            "order_id": lines.whole(source + config.first_order_id),
            "customer_id": lines.whole(self._customer(source)),
            "product_id": lines.whole(product),
            "quantity": lines.whole(self._quantity(planned)),
            "unit_price": lines.money(retail_cents(config.seed, product) * percent // 100),
            "ordered_at": lines.times(self._ordered_ms(source)),
        }

    def _customer(self, source: Keys) -> Keys:
        config, kind = self.config, kinds(self.config, source)
        customer = self._customers.keys(draws.uniform(config.seed, "customer of order", source))
        for wanted, first, count in (
            (Kind.LATE_CUSTOMER, config.customers + 1, config.late_customers),
            (Kind.UNKNOWN_CUSTOMER, UNKNOWN_BASE, UNKNOWN_CUSTOMERS),
        ):
            where = np.flatnonzero(kind == wanted)
            if len(where):
                customer[where] = first + draws.below(count, config.seed, wanted.name, source[where])
        return customer

    def _quantity(self, planned: Plan) -> Keys:
        seed = self.config.seed
        quantity = draws.below(MOST_QUANTITY, seed, "quantity", planned.source)
        conflict = np.flatnonzero(planned.kind == Kind.CONFLICT)
        # Anything but a whole turn, so the payload always differs.
        turn = 1 + draws.below(MOST_QUANTITY - 1, seed, "other quantity", planned.line[conflict])
        quantity[conflict] += turn
        return quantity % MOST_QUANTITY + 1

    def _ordered_ms(self, source: Keys) -> Keys:
        spans = np.array([(s.first, s.count, s.start_ms, s.lasting_ms) for s in self._spans], dtype=np.int64)
        span = np.searchsorted(spans[:, 0], source, side="right") - 1
        count = np.maximum(spans[:, 1], 1)[span]
        millis: Keys = spans[span, 2] + (source - spans[span, 0]) * spans[span, 3] // count
        return millis
