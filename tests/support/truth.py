"""What the examples must give, from raw files and masters alone: plain Python and DuckDB, no code of the pipeline.

    raw files ─▶ clean events, reasons ─▶ first of a key, duplicates, conflicts ─▶ booked, when all masters are there

An event is booked with what masters say at that moment, and keeps it: `Truth.settle` is called after every change.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

Event = dict[str, Any]
Judged = tuple[Event, list[str]]
_AGES_AGO = datetime(2000, 1, 1, tzinfo=UTC)


class Refused(Exception):
    """One reason why a line is no event."""


# ── one line of each example ───────────────────────────────────────────────────────────────────────────────────


def _no_constant(text: str) -> None:
    raise ValueError(text)


def orders(path: Path) -> Iterator[Judged]:
    """JSON lines; what is wrong, in the words of the declared rules."""
    for line in path.read_bytes().splitlines():
        try:
            yield _order(line)
        except Refused as reason:
            yield {}, [str(reason)]


def _order(line: bytes) -> Judged:
    try:
        found = json.loads(line.decode(), parse_float=Decimal, parse_constant=_no_constant)
        assert isinstance(found, dict)
    except UnicodeDecodeError:
        raise Refused("bad_utf8") from None
    except (ValueError, AssertionError):
        raise Refused("malformed_json") from None
    event: Event = {}
    reasons = []
    for name, read in (
        ("order_id", _whole(63)), ("customer_id", _whole(63)), ("product_id", _whole(63)), ("quantity", _whole(31)),
        ("unit_price", _money), ("ordered_at", datetime.fromisoformat),
    ):  # fmt: skip
        if found.get(name) is None:
            reasons.append(f"{name}_missing")
            continue
        try:
            event[name] = read(found[name])
        except (ValueError, InvalidOperation):
            reasons.append(f"{name}_invalid")
    if "quantity" in event and not 1 <= event["quantity"] <= 100_000:
        reasons.append("quantity_in_range")
    if "ordered_at" in event and event["ordered_at"] < _AGES_AGO:
        reasons.append("ordered_at_not_too_old")
    if "ordered_at" in event and event["ordered_at"] > datetime.now(UTC) + timedelta(hours=24):
        reasons.append("ordered_at_not_in_future")
    return event, reasons


def _whole(bits: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if not isinstance(value, int) or not -(2**bits) <= value < 2**bits:
            raise ValueError(value)
        return value

    return read


def _money(value: Any) -> Decimal:
    number = Decimal(value)
    if abs(number) >= 10**14:
        raise ValueError(value)
    return number.quantize(Decimal("0.0001"))


def trips(path: Path) -> Iterator[Judged]:
    for row in pq.read_table(path).to_pylist():
        wrong = {
            "meter_missing": row["meter"] is None,
            "fare_in_range": not 0 <= row["fare"] <= 10_000,
            "paid_by_in_set": row["paid_by"] not in ("card", "cash", "app"),
            "distance_km_in_range": not 0 <= row["distance_km"] <= 1000,
            "driver_id_matches_pattern": not (row["driver_id"][:1] == "D" and row["driver_id"][1:].isdigit()),
            "tip_is_plausible": row["tip"] is not None and row["tip"] > row["fare"] * 5 + 20,
            "service_day_not_too_old": row["service_day"] < date(2010, 1, 1),
            "started_on_service_day": not 0 <= (row["started_at"].date() - row["service_day"]).days <= 1,
        }
        yield row, [reason for reason, found in wrong.items() if found]


def web_sessions(path: Path) -> Iterator[Judged]:
    with path.open(newline="") as file:
        for row in csv.DictReader(file, delimiter=";"):
            try:
                yield _session(row)
            except Refused as reason:
                yield {}, [str(reason)]


def _session(row: dict[str, str]) -> Judged:
    try:
        started = datetime.strptime(row["Started"], "%d/%m/%Y %H:%M:%S").replace(tzinfo=UTC)
    except ValueError:
        raise Refused("started_at_invalid") from None
    try:
        revenue = Decimal(row["Revenue"].strip("$").replace(",", "") or 0)
    except InvalidOperation:
        raise Refused("revenue_invalid") from None
    billed = datetime.strptime(row["Billed"], "%d.%m.%Y").date() if row["Billed"] else None
    event = {
        "session_id": row["Session"], "visitor": row["Visitor"] or None, "host": row["Site"], "country": row["Country"],
        "campaign_code": row["Campaign"] or None, "started_at": started, "billing_day": billed,
        "pages": int(row["Pages"]), "revenue": revenue, "device": row["Device"] or "desktop",
    }  # fmt: skip
    wrong = {
        "pages_in_range": not 1 <= event["pages"] <= 10_000,
        "started_at_not_too_old": started.year < 2015,
        "host_missing": not row["Site"],
        "country_matches_pattern": not row["Country"].isupper(),
        "device_in_set": event["device"] not in ("desktop", "phone", "tablet"),
        "billed_after_it_began": billed is not None and billed < started.date(),
        "revenue_needs_pages": revenue != 0 and event["pages"] < 2,
    }
    return event, [reason for reason, found in wrong.items() if found]


# ── what becomes of them ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Rules:
    """An example in the words of this module. `booked` joins `events` with masters; `marts` selects from `booked`."""

    read: Callable[[Path], Iterator[Judged]]
    suffix: str
    key: tuple[str, ...]
    masters: tuple[str, ...]  # tables of Postgres
    booked: str
    marts: dict[str, str]


RULES = {
    "orders": Rules(
        orders, "jsonl", ("order_id",), ("master.customers", "master.products"),
        """select e.*, c.name as customer_name, c.nation, c.region, c.market_segment, c.updated_at as customer_version,
                  p.name as product_name, p.brand, p.category, p.updated_at as product_version,
                  cast(e.quantity * e.unit_price as decimal(28, 4)) as amount
           from events e join customers c using (customer_id) join products p using (product_id)""",
        {
            "orders": """select order_id, ordered_at, cast(ordered_at as date), customer_id, customer_name, nation,
                                region, market_segment, product_id, product_name, brand, category, quantity, unit_price,
                                amount from booked""",
            "daily_sales": """select cast(ordered_at as date), region, market_segment, category, count(*),
                                     sum(quantity), sum(amount) from booked group by all""",
        },
    ),
    "trips": Rules(
        trips, "parquet", ("service_day", "meter", "trip_number"), ("city.zones", "city.drivers"),
        """select e.*, p.name as pickup_name, d.name as dropoff_name, p.borough as pickup_borough,
                  d.borough as dropoff_borough, r.name as driver_name, r.licence as driver_licence,
                  r.company as driver_company, cast(e.fare + coalesce(e.tip, 0) as decimal(12, 2)) as paid,
                  p.borough = d.borough as within_borough
           from events e join zones p on p.zone_id = e.pickup_zone join zones d on d.zone_id = e.dropoff_zone
           join drivers r using (driver_id)""",
        {
            "trips": """select service_day, meter, trip_number, started_at, pickup_name, dropoff_name, driver_company,
                               fare, paid from booked""",
            "borough_days": """select service_day, pickup_borough, dropoff_borough, count(*), sum(paid), count(tip),
                                      max(distance_km) from booked group by all""",
        },
    ),
    "web_sessions": Rules(
        web_sessions, "csv", ("session_id",), ("web.sites",),
        """select e.*, s.title as site_title, s.team as site_team, s.updated_at as site_version,
                  c.channel as campaign_channel, c.code is not null as has_campaign,
                  cast(e.revenue - coalesce(c.cost_per_session, 0) as decimal(14, 2)) as margin
           from events e join sites s using (host, country) left join campaigns c on c.code = e.campaign_code""",
        {
            "web_sessions": """select session_id, started_at, host, country, site_title, site_team, campaign_channel,
                                      pages, revenue, margin from booked""",
            "daily_sessions": """select cast(started_at as date), site_team, coalesce(campaign_channel, 'direct'),
                                        count(*), sum(pages), sum(revenue), max(pages) from booked group by all""",
        },
    ),
}  # fmt: skip


@dataclass
class Truth:
    """The events of one example that have been seen, and what has become of them."""

    rules: Rules
    lines: int = 0
    duplicates: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    quarantined: int = 0
    _seen: set[Path] = field(default_factory=set)
    _kept: dict[tuple[Any, ...], Event] = field(default_factory=dict)
    _waiting: dict[tuple[Any, ...], Event] = field(default_factory=dict)
    _database: duckdb.DuckDBPyConnection = field(default_factory=duckdb.connect)

    def read(self, landing: Path) -> None:
        """See all files that are new, by name."""
        for path in sorted(landing.glob(f"*.{self.rules.suffix}")):
            if path not in self._seen:
                self._seen.add(path)
                for event, reasons in self.rules.read(path):
                    self._judge(event, reasons)

    def _judge(self, event: Event, reasons: list[str]) -> None:
        self.lines += 1
        key = tuple(event.get(name) for name in self.rules.key)
        if not reasons and key in self._kept:
            if self._kept[key] == event:
                self.duplicates += 1
                return
            reasons = ["conflicting_payload"]
        if reasons:
            self.quarantined += 1
            self.reasons.update(set(reasons))
            return
        self._kept[key] = self._waiting[key] = event

    def settle(self, masters: dict[str, pa.Table]) -> None:
        """Book what has all its masters now."""
        if not self._waiting:
            return
        events = pa.Table.from_pylist(list(self._waiting.values()), self._schema())
        for name, rows in {"events": events, **masters}.items():
            self._database.register(name, in_utc(rows))
        self._database.execute(f"create table if not exists booked as {self.rules.booked} limit 0")
        self._database.execute(f"create or replace table now as {self.rules.booked}")
        self._database.execute("insert into booked select * from now")
        for key in self._database.execute(f"select {', '.join(self.rules.key)} from now").fetchall():
            del self._waiting[key]

    def _schema(self) -> pa.Schema:
        """Types of events; what is never there in a few of them may be there in others."""
        return pa.Table.from_pylist(list(self._kept.values())).schema

    @property
    def waiting(self) -> list[Event]:
        return list(self._waiting.values())

    @property
    def fact(self) -> int:
        return len(self._kept) - len(self._waiting)

    def mart(self, table: str) -> list[tuple[Any, ...]]:
        return self._database.execute(self.rules.marts[table]).fetchall()

    def query(self, sql: str, **tables: pa.Table) -> list[tuple[Any, ...]]:
        """Compare `booked` with tables of the warehouse."""
        for name, rows in tables.items():
            self._database.register(name, in_utc(rows))
        return self._database.execute(sql).fetchall()


def in_utc(rows: pa.Table) -> pa.Table:
    """Times without their zone, for DuckDB knows zones only with an extension."""
    for number, one in enumerate(rows.schema):
        if pa.types.is_timestamp(one.type) and one.type.tz is not None:
            times = rows[one.name].cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us"))
            rows = rows.set_column(number, one.name, times)
    return rows
