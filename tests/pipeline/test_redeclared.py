"""A pipeline's file changes while it runs: what can be applied is, and anything else is refused before a write."""

from __future__ import annotations

import pytest

from etl.adapters.delta.table import ColumnChanged
from etl.contract.errors import PipelineFileError
from etl.errors import TerminalError
from etl.pipeline.prepare import UnknownPipeline
from tests.support.site import Site, order, quiet

MORE = ('amount = "amount"\n\n', 'amount = "amount"\nnote = "note"\n\n')
FIELD = ('quantity = { type = "int"', 'note = { type = "string", required = false }\nquantity = { type = "int"')


def test_a_new_field_reaches_fact_and_mart_and_earlier_events_have_none(site: Site) -> None:
    site.land("a.jsonl", order(1, note="kept as extra"), order(2, customer_id=11))
    site.run()
    wider = site.redeclared(FIELD, MORE)
    wider.land("b.jsonl", order(3, note="hello"))
    wider.run()
    wider.execute(
        "insert into master.customers select 11, name, address, nation, region, market_segment, phone, "
        "account_balance from master.customers where customer_id = 1"
    )
    wider.run()
    notes = {row["order_id"]: row["note"] for row in wider.rows("fact").to_pylist()}
    assert notes == {1: None, 2: None, 3: "hello"}
    assert sorted(wider.execute("select order_id, note from mart.orders")) == [(1, None), (2, None), (3, "hello")]


def test_a_batch_that_was_decided_under_the_old_file_is_loaded_under_the_new_one(site: Site) -> None:
    site.land("a.jsonl", order(1))
    batch = site.decide()
    wider = site.redeclared(FIELD, MORE)
    wider.step("audit", batch)
    wider.step("publish", batch)
    assert wider.execute("select order_id, note from mart.orders") == [(1, None)]


def test_a_change_that_existing_tables_cannot_follow_is_refused_and_nothing_is_written(site: Site) -> None:
    site.land("a.jsonl", order(1))
    site.run()
    version = site.table("fact").version()
    quantity = 'quantity = { type = "int", min = 1, max = 100_000 }'
    other = site.redeclared((quantity, 'quantity = { type = "string" }'))
    with pytest.raises(TerminalError, match="quantity"):
        other.decide()
    assert site.table("fact").version() == version
    site.land("b.jsonl", order(2))
    assert site.run() == 2, "under its old file it goes on"


def test_a_master_whose_column_has_another_type_is_refused_before_anything_is_written(site: Site) -> None:
    site.land("a.jsonl", order(1))
    site.run()
    versions = {table: site.table(table).version() for table in ("fact", "dim_customer")}
    site.execute("alter table master.customers alter column nation type integer using 7")
    restarted = site.restarted()
    restarted.land("b.jsonl", order(2))
    with pytest.raises(ColumnChanged, match="column 'nation' of table dim_customer is string and would be integer"):
        restarted.run()
    assert {table: site.table(table).version() for table in versions} == versions


def test_an_unknown_pipeline_is_refused_with_the_names_there_are(site: Site) -> None:
    with pytest.raises(UnknownPipeline, match="'sales' is not a pipeline; pipelines declares orders, trips, web"):
        site.steps.whole("sales", "test", quiet)


def test_a_broken_file_stops_its_own_pipeline_with_file_and_line_and_no_other(site: Site) -> None:
    broken = site.of("trips").redeclared(('key = ["service_day"', 'key = ["servce_day"'))
    with pytest.raises(TerminalError, match=r"trips\.toml, line 13: 'servce_day' is not a field"):
        broken.decide()
    broken.of("orders").land("a.jsonl", order(1))
    assert broken.of("orders").run() == 1


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (('key = ["service_day"', 'key = ["servce_day"'), r"cabs\.toml, line 13: 'servce_day' is not a field"),
        (("[rules]", "[rules"), r"cabs\.toml, line 29: not TOML"),
    ],
)
def test_a_pipeline_whose_file_has_another_name_is_told_what_is_wrong_there(
    site: Site, edit: tuple[str, str], words: str
) -> None:
    broken = site.of("trips").redeclared(edit)
    file = broken.settings.pipelines / "trips.toml"
    file.rename(file.with_name("cabs.toml"))
    with pytest.raises(PipelineFileError, match=words):
        broken.decide()
