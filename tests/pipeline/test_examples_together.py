"""The shipped examples in one database and one folder, by their files alone, against a truth of its own."""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from psycopg2 import sql
from typer.testing import CliRunner

from etl.adapters import postgres
from etl.cli import app
from etl.model import Step
from etl.samples.example import Expected
from etl.samples.examples import EXAMPLES
from tests.support.site import Site
from tests.support.truth import RULES, Truth, in_utc

DIMENSIONS = {
    "orders": {"customer": "master.customers", "product": "master.products"},
    "trips": {"pickup": "city.zones", "dropoff": "city.zones"},
    "web_sessions": {"site": "web.sites", "campaign": "campaigns"},
}


@dataclass
class Together:
    """All examples on one site, each with its truth and with what its generator promised."""

    site: Site
    truths: dict[str, Truth] = field(default_factory=lambda: {name: Truth(rules) for name, rules in RULES.items()})
    promised: dict[str, list[Expected]] = field(default_factory=lambda: {name: [] for name in RULES})

    def seed(self) -> None:
        for example in EXAMPLES.values():
            example.seed(self.site.dsn, self.site.settings.var)

    def land(self, count: int, seed: int) -> None:
        start = datetime.now(UTC) - timedelta(minutes=1)
        for name, example in EXAMPLES.items():
            landing = self.site.of(name).landing
            self.promised[name].append(example.generate(landing, count, seed, start))
            self.truths[name].read(landing)

    def run(self) -> dict[str, int | None]:
        """One batch of every pipeline, each step of all of them before the next one of any."""
        batches = {name: self.site.of(name).decide() for name in self.truths}
        steps: tuple[Step, ...] = ("audit", "publish", "report")
        for step in steps:
            for name, batch in batches.items():
                if batch is not None:
                    self.site.of(name).step(step, batch)
        for name, truth in self.truths.items():
            truth.settle(self.masters(name))
        return batches

    def masters(self, name: str) -> dict[str, pa.Table]:
        found = {table.split(".")[1]: self.rows(table) for table in RULES[name].masters}
        if name == "web_sessions":
            found["campaigns"] = self.campaigns().to_pyarrow_table()
        return found

    def campaigns(self) -> DeltaTable:
        return DeltaTable(str(self.site.settings.var / "masters" / "campaigns"))

    def rows(self, table: str) -> pa.Table:
        """A table of Postgres."""
        with postgres.connect(self.site.dsn) as connection, connection.cursor() as cursor:
            cursor.execute(sql.SQL("select * from {}").format(postgres.identifier(table)))
            names = [one.name for one in cursor.description or ()]
            rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        return in_utc(pa.Table.from_pylist(rows))

    # ── what others do to the masters meanwhile ────────────────────────────────────────────────────────────────

    def masters_arrive(self, every: int) -> None:
        """Rows that events wait for appear: of every so many events one."""
        execute = self.site.execute
        for order in self.truths["orders"].waiting[::every]:
            execute(
                "insert into master.customers values (%s, 'Late', 'Road', 'FRANCE', 'EUROPE', 'MACHINERY', '+1', 5)"
                " on conflict do nothing",
                order["customer_id"],
            )
        for trip in self.truths["trips"].waiting[::every]:
            execute("insert into city.zones values (%s, 'New', 'Harbour')", trip["dropoff_zone"])
        for session in self.truths["web_sessions"].waiting[::every]:
            execute("insert into web.sites values (%s, %s, 'New', 'south', 1)", session["host"], session["country"])

    def masters_change(self) -> None:
        execute = self.site.execute
        execute("update master.customers set region = 'ATLANTIS', updated_at = now() where customer_id <= 20")
        execute("update web.sites set team = 'moved', updated_at = now() where host = 'shop1.example'")
        execute("update city.zones set name = 'Renamed', borough = 'Meadow' where zone_id <= 10")
        execute("update city.drivers set company = 'Merged' where company = 'Cabs 1'")
        self.campaigns().update({"cost_per_session": "9.99"}, predicate="channel = 'mail'")

    # ── comparisons ────────────────────────────────────────────────────────────────────────────────────────────

    def check(self) -> None:
        for name in self.truths:
            self.check_counts(name)
            self.check_mart(name)
            self.check_dimensions(name)

    def check_counts(self, name: str) -> None:
        here, truth = self.site.of(name), self.truths[name]
        counted = here.inventory()
        assert counted.faults == []
        assert counted.raw_lines == truth.lines
        assert counted.fact == truth.fact
        assert counted.quarantine == truth.quarantined
        assert counted.backlog_open == len(truth.waiting)
        assert counted.duplicates == truth.duplicates
        reasons = here.rows("quarantine")["reasons"].to_pylist()
        assert Counter(reason for row in reasons for reason in row) == truth.reasons
        totals = here.totals()
        assert (totals["lines"], totals["fact"], totals["backlog_open"]) == (
            truth.lines,
            truth.fact,
            len(truth.waiting),
        )

    def check_mart(self, name: str) -> None:
        for table, expected in ((table, self.truths[name].mart(table)) for table in RULES[name].marts):
            found = self.rows(f"mart.{table}")
            columns = [one for one in found.column_names if one not in ("batch", "landed_at", "loaded_at")]
            assert _sorted(_tuples(found.select(columns))) == _sorted(expected), f"mart.{table}"

    def check_dimensions(self, name: str) -> None:
        """Every current row is the master's, and none is missing."""
        for master, table in DIMENSIONS[name].items():
            dimension = self.site.of(name).rows(f"dim_{master}")
            if "is_current" in dimension.column_names:
                dimension = dimension.filter(dimension["is_current"]).rename_columns(
                    {"valid_from": "updated_at"} | {one: one for one in dimension.column_names if one != "valid_from"}
                )
            source = self.masters(name)[table.split(".")[-1]]
            columns = [one for one in source.column_names if one in dimension.column_names]
            assert columns == source.column_names
            assert _sorted(_tuples(dimension.select(columns))) == _sorted(_tuples(source.select(columns))), master


def _tuples(rows: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in in_utc(rows).to_pylist()]


def _sorted(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=lambda row: [(value is None, str(value)) for value in row])


@pytest.fixture
def together(site: Site) -> Together:
    made = Together(site)
    made.seed()
    return made


@pytest.mark.parametrize("executor", ["in_process", pytest.param("spark", marks=pytest.mark.spark)])
def test_the_examples_run_side_by_side_and_every_event_ends_where_it_must(together: Together, executor: str) -> None:
    together.land(600, seed=1)
    assert set(together.run().values()) == {1}
    for name, truth in together.truths.items():
        (promised,) = together.promised[name]
        assert (truth.lines, truth.fact, truth.quarantined) == (promised.lines, promised.fact, promised.quarantined)
        assert (len(truth.waiting), truth.duplicates) == (promised.backlog, promised.duplicates)
        assert truth.reasons >= Counter(promised.reasons), "an event may have more reasons than the one it was made for"
    together.check()
    together.masters_change()
    together.masters_arrive(every=2)
    together.land(300, seed=2)
    together.run()
    together.check()
    together.masters_arrive(every=1)
    together.run()
    together.check()
    assert all(not truth.waiting for truth in together.truths.values())
    assert set(together.run().values()) == {None}
    reports_show_no_sensitive_value(together)
    audit_says_it_adds_up(together)
    facts_meet_the_versions_they_were_booked_with(together)
    optional_masters_are_null_where_there_is_no_row(together)


def test_the_examples_may_run_at_the_same_time_in_one_process(together: Together) -> None:
    """As the resident driver runs them: a thread for each."""
    for seed in (1, 2, 3):
        together.land(200, seed)
        with ThreadPoolExecutor(3) as pool:
            sites = [together.site.of(name) for name in together.truths]
            assert list(pool.map(lambda one: one.run(), sites)) == [seed] * 3
        for name, truth in together.truths.items():
            truth.settle(together.masters(name))
    together.check()


def facts_meet_the_versions_they_were_booked_with(together: Together) -> None:
    orders = together.site.of("orders")
    assert together.truths["orders"].query(
        """select count(*), count(distinct d.customer_key), bool_and(d.region = b.region and d.valid_from <= now()
                  and d.valid_from = b.customer_version and (d.valid_to is null) = d.is_current)
           from fact f join booked b using (order_id) join dim_customer d using (customer_key)""",
        fact=orders.rows("fact"), dim_customer=orders.rows("dim_customer"),
    )[0][::2] == (together.truths["orders"].fact, True)  # fmt: skip
    sessions = together.site.of("web_sessions")
    truth = together.truths["web_sessions"]
    tables = {table: sessions.rows(table) for table in ("fact", "dim_site", "dim_campaign")}
    matched, same = truth.query(
        """select count(*), bool_and(d.team = b.site_team and d.valid_from = b.site_version)
           from fact f join booked b using (session_id) join dim_site d using (site_key)""", **tables,
    )[0]  # fmt: skip
    assert (matched, same) == (truth.fact, True)
    assert truth.query("select count(*) from dim_site where not is_current and team <> 'moved'") == [(5,)]
    trips = together.site.of("trips")
    truth = together.truths["trips"]
    matched, same = truth.query(
        """select count(*), bool_and(p.zone_id = b.pickup_zone and d.zone_id = b.dropoff_zone
                  and f.within_borough = b.within_borough and f.driver_company is not distinct from b.driver_company)
           from fact f join booked b using (service_day, meter, trip_number)
           join dim_pickup p using (pickup_key) join dim_dropoff d using (dropoff_key)""",
        **{table: trips.rows(table) for table in ("fact", "dim_pickup", "dim_dropoff")},
    )[0]
    assert (matched, same) == (truth.fact, True)
    assert not (trips.settings.warehouse / "trips" / "dim_driver").exists()


def optional_masters_are_null_where_there_is_no_row(together: Together) -> None:
    sessions = together.site.of("web_sessions")
    truth = together.truths["web_sessions"]
    counts = truth.query(
        """select count(*) filter (where f.campaign_key is null), count(*) filter (where b.campaign_code = 'C-gone'),
                  bool_and((f.campaign_key is not null) = b.has_campaign), bool_and(f.margin = b.margin)
           from fact f join booked b using (session_id)""",
        fact=sessions.rows("fact"),
    )[0]
    assert counts[0] > counts[1] > 0
    assert counts[2:] == (True, True)


def reports_show_no_sensitive_value(together: Together) -> None:
    here = together.site.of("web_sessions")
    folder = here.settings.reports / "web_sessions"
    refused = [row for row in here.rows("quarantine").to_pylist() if row["batch"] == 1]
    visitors = {row["raw_text"].split(";")[1] for row in refused} - {""}
    report = json.loads((folder / "1" / "report.json").read_text())
    shown = [sample["raw"] for sample in report["quarantine_samples"]]
    assert visitors
    assert shown
    assert all(line.split(";")[1] == "***" for line in shown)
    page = (folder / "1" / "index.html").read_text()
    assert not any(f";{visitor};" in page for visitor in visitors)


def audit_says_it_adds_up(together: Together) -> None:
    """As a user asks for it."""
    own = together.site.settings
    environment = {
        "FRONTSTAGE_HOME": str(own.home),
        "FRONTSTAGE_POSTGRES_DSN": together.site.dsn,
    }
    done = CliRunner().invoke(app, ["audit", "--json"], env=environment)
    assert done.exit_code == 0, done.output
    assert {one["pipeline"]: one["balanced"] for one in json.loads(done.stdout)} == dict.fromkeys(RULES, True)
