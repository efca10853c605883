"""Dimensions follow their masters: complete before the facts, every version of scd2, the newest values of scd1."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from etl.adapters.delta.log import DeltaLog
from etl.contract.model import Master
from etl.masters.masters import pinned_pages, versions_of
from etl.masters.pages.store import PageStore
from etl.masters.upkeep import maintenance
from etl.pipeline.input.arrival import Arrival, WatchedMaster
from etl.pipeline.loading import dimensions
from etl.pipeline.loading.dimensions import Dimensions
from etl.pipeline.prepare import Preparer
from etl.samples.examples import EXAMPLES
from tests.support.master_pages import NOW, SCHEMA, publish, table
from tests.support.site import Site, order

SCD1 = ('version = "updated_at"\nhistory = "scd2"\n\n[master.product]', 'history = "scd1"\n\n[master.product]')
SET_SEGMENT = "update master.customers set market_segment = %s where customer_id = %s"
COPY = (
    "insert into master.customers select %s, name, address, nation, region, market_segment, phone, account_balance "
    "from master.customers where customer_id = 1"
)


def sync(site: Site) -> None:
    """What a batch does to dimensions, without a batch."""
    with site.writing() as run, run.engine.pinned("dimensions", run.clock(), run.progress) as masters:
        assert versions_of(masters)
        run.dimensions.sync(masters, run.progress)


def versions(site: Site, customer: int) -> list[dict[str, object]]:
    rows = [row for row in site.rows("dim_customer").to_pylist() if row["customer_id"] == customer]
    return sorted(rows, key=lambda row: row["valid_from"])


def test_the_first_load_is_complete_and_comes_before_any_fact(site: Site) -> None:
    sync(site)
    customers = site.rows("dim_customer").to_pylist()
    assert sorted(row["customer_id"] for row in customers) == list(range(1, 11))
    assert all(row["is_current"] and row["valid_to"] is None for row in customers)
    assert "updated_at" not in customers[0], "it is valid_from"
    assert site.rows("dim_product").num_rows == 10
    assert site.rows("fact").num_rows == 0


def test_a_changed_customer_gets_a_second_version_and_old_facts_keep_the_first(site: Site) -> None:
    site.land("a.jsonl", order(1), order(2, customer_id=2))
    site.run()
    site.execute(SET_SEGMENT, "SPACE", 1)
    site.land("b.jsonl", order(3))
    site.run()
    site.execute(SET_SEGMENT, "SEA", 1)
    site.land("c.jsonl", order(4))
    site.run()
    found = versions(site, 1)
    assert [one["market_segment"] for one in found[1:]] == ["SPACE", "SEA"]
    assert [one["is_current"] for one in found] == [False, False, True]
    assert [one["valid_to"] for one in found] == [found[1]["valid_from"], found[2]["valid_from"], None]
    facts = {row["order_id"]: row["customer_key"] for row in site.rows("fact").to_pylist()}
    assert [facts[1], facts[3], facts[4]] == [one["customer_key"] for one in found]
    assert [one["is_current"] for one in versions(site, 2)] == [True]


def test_of_several_versions_between_two_syncs_the_newest_is_kept_and_follows_the_old_one(site: Site) -> None:
    sync(site)
    for segment in ("AIR", "SPACE", "SEA"):
        site.execute(SET_SEGMENT, segment, 1)
    site.execute(COPY, 11)
    site.execute(SET_SEGMENT, "NEW", 11)
    sync(site)
    first, second = versions(site, 1)
    assert (first["is_current"], first["valid_to"]) == (False, second["valid_from"])
    assert (second["market_segment"], second["is_current"]) == ("SEA", True)
    (new,) = versions(site, 11)
    assert (new["market_segment"], new["is_current"]) == ("NEW", True)


def test_after_maintenance_of_a_dimension_only_what_changed_in_its_master_is_read(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.land("a.jsonl", order(1))
    site.run()
    site.execute("update master.customers set name = 'Other', updated_at = now() where customer_id = 1")
    site.land("b.jsonl", order(2))
    site.run()
    rows = site.rows("dim_customer").num_rows
    site.table("dim_customer").optimize.compact()
    site.table("dim_customer").vacuum(0, dry_run=False, enforce_retention_duration=False)

    def all_of_it(_: object) -> None:
        raise AssertionError("a master may be too large to be read as a whole for every batch")

    monkeypatch.setattr(dimensions, "_all_rows", all_of_it)
    site.execute("update master.customers set name = 'Third', updated_at = now() where customer_id = 1")
    site.land("c.jsonl", order(3))
    site.run()
    assert site.rows("dim_customer").num_rows == rows + 1


def test_a_repeated_sync_changes_nothing(site: Site) -> None:
    sync(site)
    before = site.table("dim_customer").version()
    sync(site)
    sync(site.restarted())
    assert site.table("dim_customer").version() == before
    site.execute(SET_SEGMENT, "SEA", 1)
    sync(site)
    assert site.table("dim_customer").version() == before + 1


def test_a_deleted_master_row_stays_for_the_facts_that_refer_to_it(site: Site) -> None:
    sync(site)
    site.execute("delete from master.customers where customer_id in (3, 4)")
    site.execute(SET_SEGMENT, "SEA", 5)
    sync(site)
    assert [one["is_current"] for one in versions(site, 3)] == [True]
    assert len(versions(site, 5)) == 2


@pytest.mark.parametrize("scd1", [True, False])
def test_a_master_that_is_published_whole_again_is_compared_by_surrogate_key(site: Site, scd1: bool) -> None:
    here = site.redeclared(SCD1) if scd1 else site
    sync(here)
    here.execute(SET_SEGMENT, "SEA", 1)
    customer = Preparer(here.settings, here.dsn).declared("orders").masters[0]
    maintenance.publish(here.settings, here.dsn, customer)
    sync(here)
    rows = [row for row in here.rows("dim_customer").to_pylist() if row["customer_id"] == 1]
    assert len(rows) == (1 if scd1 else 2)
    assert here.rows("dim_customer").num_rows == (10 if scd1 else 11), "unchanged rows are as they were"
    newest = rows[0] if scd1 else versions(here, 1)[-1]
    assert newest["market_segment"] == "SEA"


def test_scd1_keeps_the_newest_values_and_the_key_of_a_row(site: Site) -> None:
    here = site.redeclared(SCD1)
    here.land("a.jsonl", order(1))
    here.run()
    (before,) = [row for row in here.rows("dim_customer").to_pylist() if row["customer_id"] == 1]
    here.execute(SET_SEGMENT, "SEA", 1)
    here.execute(COPY, 11)
    here.land("b.jsonl", order(2))
    here.run()
    (after,) = [row for row in here.rows("dim_customer").to_pylist() if row["customer_id"] == 1]
    assert (after["market_segment"], after["customer_key"]) == ("SEA", before["customer_key"])
    assert set(here.rows("fact")["customer_key"].to_pylist()) == {before["customer_key"]}
    assert here.rows("dim_customer").num_rows == 11


def test_masters_that_are_read_where_they_are_fill_dimensions_too(site: Site) -> None:
    direct = site.changed(master_store="direct")
    direct.land("a.jsonl", order(1))
    direct.run()
    direct.execute(SET_SEGMENT, "SEA", 1)
    direct.land("b.jsonl", order(2))
    direct.run()
    assert len(versions(direct, 1)) == 2
    assert direct.rows("dim_customer").num_rows == 11
    keys = {row["order_id"]: row["customer_key"] for row in direct.rows("fact").to_pylist()}
    assert [keys[1], keys[2]] == [one["customer_key"] for one in versions(direct, 1)]


def test_composite_keys_and_optional_masters_in_delta(site: Site) -> None:
    web = site.of("web_sessions")
    EXAMPLES["web_sessions"].seed(web.dsn, web.settings.var)
    header = b"Session;Visitor;Site;Country;Campaign;Started;Billed;Pages;Revenue;Device"
    (host, country), *_ = web.execute("select host, country from web.sites order by host, country limit 1")
    web.execute(
        "update web.sites set team = 'the first', updated_at = now() where host = %s and country = %s", host, country
    )
    campaigns = web.settings.var / "masters" / "campaigns"
    code = "brand-new"
    kinds = pa.schema([("code", pa.string()), ("channel", pa.string()), ("cost_per_session", pa.decimal128(8, 2))])

    def session(number: int, campaign: str) -> bytes:
        where = f"{host};{country};{campaign};01/11/2026 10:00:00;;3;$12.50;phone"
        return f"s-{number:08x};v;{where}".encode()

    web.land("a.csv", header, session(1, code), session(2, ""))
    web.run()
    rows = [{"code": code, "channel": "mail", "cost_per_session": Decimal("0.50")}]
    write_deltalake(str(campaigns), pa.Table.from_pylist(rows, kinds), mode="append")
    web.execute(
        "update web.sites set team = 'the second', updated_at = now() where host = %s and country = %s", host, country
    )
    web.land("b.csv", header, session(3, code))
    web.run()
    facts = {row["session_id"]: row for row in web.rows("fact").to_pylist()}
    sites = [row for row in web.rows("dim_site").to_pylist() if (row["host"], row["country"]) == (host, country)]
    first, second = sorted(sites, key=lambda row: row["valid_from"])
    assert (first["team"], second["team"]) == ("the first", "the second")
    assert facts["s-00000001"]["site_key"] == first["site_key"] != second["site_key"] == facts["s-00000003"]["site_key"]
    (campaign,) = [row for row in web.rows("dim_campaign").to_pylist() if row["code"] == code]
    assert facts["s-00000003"]["campaign_key"] == campaign["campaign_key"]
    assert facts["s-00000001"]["campaign_key"] is None, "an optional master had no row then: the event went on without"
    assert facts["s-00000002"]["campaign_key"] is None


def test_a_master_that_moves_to_another_table_of_the_same_version_fills_its_dimension(tmp_path: Path) -> None:
    first = Master("person", "postgres", "crm.people", (("person_id", "id"),), ("name", "balance"))
    second = replace(first, table="crm.persons")
    delta = DeltaLog(tmp_path / "tables", "frontstage-test")
    dimensions = Dimensions(delta, {"person": SCHEMA})
    dimensions.create([first])
    pinned = []
    for master, rows in ((first, 5), (second, 20)):
        store = PageStore(tmp_path / master.table)
        publish(store, table(range(rows)))
        pinned.append(pinned_pages(store, master, store.pin("test", NOW)))
    assert pinned[0].version == pinned[1].version
    dimensions.sync(pinned[:1], lambda _: None)
    for _ in range(2):
        dimensions.sync(pinned[1:], lambda _: None)
    people = delta.table("dim_person")
    assert people.to_pyarrow_table().num_rows == 20
    assert people.version() == 2, "a second time nothing is written"


def test_a_dimension_that_was_written_without_its_masters_table_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    master = Master("person", "postgres", "crm.people", (("person_id", "id"),), ("name", "balance"))
    delta = DeltaLog(tmp_path / "tables", "frontstage-test")
    dimensions = Dimensions(delta, {"person": SCHEMA})
    dimensions.create([master])
    store = PageStore(tmp_path / "pages")
    publish(store, table(range(5)))
    pinned = pinned_pages(store, master, store.pin("test", NOW))
    with monkeypatch.context() as before:
        before.setattr(Dimensions, "_origin", lambda _, master: f"unused-{master.name}")
        dimensions.sync([pinned], lambda _: None)
    version = delta.table("dim_person").version()
    dimensions.sync([pinned], lambda _: None)
    assert delta.table("dim_person").version() == version


def test_events_that_wait_are_tried_again_when_their_master_moves_to_another_table(site: Site) -> None:
    site.land("a.jsonl", order(1, customer_id=11))
    site.run()
    site.execute("create table master.people (like master.customers including all)")
    site.execute("insert into master.people select * from master.customers")
    site.execute("insert into master.people " + COPY.partition("master.customers ")[2], 11)
    assert not watched(site).look((), site.steps.clock()).due
    moved = site.redeclared(('"postgres:master.customers"', '"postgres:master.people"'))
    assert watched(moved).look((), moved.steps.clock()).due
    moved.run()
    assert [row["order_id"] for row in moved.rows("fact").to_pylist()] == [1]


def watched(site: Site) -> Arrival:
    declared = Preparer(site.settings, site.dsn).declared(site.pipeline)
    masters = tuple(WatchedMaster.of(one) for one in declared.masters)
    pages = site.settings.master_pages
    return Arrival(site.pipeline, site.landing, "jsonl", lambda: site.dsn, declared.grace, pages, masters)
