"""A pipeline with the schemas of its masters: types of everything, and what does not fit them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from etl.contract import tables
from etl.contract.errors import PipelineFileError
from etl.contract.load import load
from etl.contract.model import Pipeline
from etl.contract.resolve import ResolvedPipeline, check_against
from tests.support.example_masters import CAMPAIGNS, MASTERS, SITES

PIPELINES = Path(__file__).resolve().parents[3] / "warehouse" / "pipelines"
UTC = pa.timestamp("us", "UTC")


def declared(name: str) -> Pipeline:
    return load(PIPELINES / f"{name}.toml", Path("/home"))


def resolved(name: str) -> ResolvedPipeline:
    return check_against(declared(name), MASTERS[name])


def described(schema: pa.Schema) -> list[tuple[str, str]]:
    return [(field.name, str(field.type) + ("" if field.nullable else " not null")) for field in schema]


def test_an_enriched_row_has_fields_then_master_columns_under_dotted_names():
    orders = resolved("orders")
    assert orders.row.names[:7] == [
        "order_id", "customer_id", "product_id", "quantity", "unit_price", "ordered_at", "customer.name",
    ]  # fmt: skip
    assert orders.row.field("product.size").type == pa.int32()
    assert orders.measures == {"amount": pa.decimal128(28, 4)}
    assert orders.enriched.names[-1] == "amount"


def test_the_fact_has_surrogate_keys_of_dimensions():
    assert described(tables.fact_schema(resolved("orders"))) == [
        ("order_id", "int64 not null"), ("customer_id", "int64 not null"), ("product_id", "int64 not null"),
        ("quantity", "int32 not null"), ("unit_price", "decimal128(18, 4) not null"),
        ("ordered_at", "timestamp[us, tz=UTC] not null"), ("amount", "decimal128(28, 4)"),
        ("customer_key", "int64 not null"), ("product_key", "int64 not null"), ("extra", "string"),
        ("batch", "int64 not null"), ("landed_at", "timestamp[us, tz=UTC] not null"),
    ]  # fmt: skip


def test_the_key_of_an_optional_master_may_be_absent():
    fact = tables.fact_schema(resolved("web_sessions"))
    assert fact.field("campaign_key").nullable
    assert not fact.field("site_key").nullable


def test_a_master_without_dimension_has_its_columns_in_the_fact():
    names = tables.fact_schema(resolved("trips")).names
    assert "driver_key" not in names
    assert [name for name in names if name.startswith("driver_")] == [
        "driver_id", "driver_name", "driver_licence", "driver_company",
    ]  # fmt: skip
    assert {"pickup_key", "dropoff_key"} <= set(names)


def test_a_dimension_with_history_has_validity_instead_of_its_version():
    sessions = resolved("web_sessions")
    site, campaign = sessions.pipeline.masters
    assert tables.dimension_schema(site, SITES).names == [
        "site_key", "host", "country", "title", "team", "tier", "valid_from", "valid_to", "is_current",
    ]  # fmt: skip
    assert tables.dimension_schema(campaign, CAMPAIGNS).names == ["campaign_key", "code", "channel", "cost_per_session"]


def test_the_mart_of_orders_has_the_columns_it_always_had():
    orders = resolved("orders")
    rows, sales = (tables.mart_schema(orders, table) for table in orders.pipeline.mart)
    assert rows.names == [
        "order_id", "ordered_at", "order_date", "customer_id", "customer_name", "nation", "region", "market_segment",
        "product_id", "product_name", "brand", "category", "quantity", "unit_price", "amount", "batch", "landed_at",
        "loaded_at",
    ]  # fmt: skip
    assert rows.field("order_date") == pa.field("order_date", pa.date32(), nullable=False)
    assert [(one.name, one.type) for one in sales][4:] == [
        ("orders", pa.int64()), ("quantity", pa.int64()), ("amount", pa.decimal128(38, 4)),
    ]  # fmt: skip
    assert tables.primary_key(orders.pipeline, orders.pipeline.mart[0]) == ("order_id",)
    assert tables.primary_key(orders.pipeline, orders.pipeline.mart[1]) == (
        "order_date", "region", "market_segment", "category",
    )  # fmt: skip


def test_quarantine_and_backlog_keep_what_is_needed_to_judge_and_to_try_again():
    assert tables.quarantine_schema().names == [
        "batch", "key", "reasons", "raw", "raw_text", "source_file", "line", "landed_at", "decided_at", "from_backlog",
        "released_from",
    ]  # fmt: skip
    assert tables.backlog_schema(declared("trips")).names == [
        "batch", *declared("trips").stream.schema.names, "extra", "payload_hash", "key_lo", "key_hi", "reasons", "raw",
        "source_file", "line", "landed_at", "decided_at", "released_from",
    ]  # fmt: skip


@pytest.mark.parametrize("name", sorted(MASTERS))
def test_every_example_fits_its_masters(name: str):
    pipeline = resolved(name)
    for table in pipeline.pipeline.mart:
        assert len(tables.mart_schema(pipeline, table)) > 3


def test_a_master_without_columns_gives_all_but_its_key():
    trips = declared("trips")
    open_masters = tuple(replace(one, columns=()) for one in trips.masters)
    found = check_against(replace(trips, masters=open_masters), MASTERS["trips"])
    assert found.pipeline.masters[2].columns == ("name", "licence", "company")
    assert found.row == resolved("trips").row


@pytest.mark.parametrize(
    ("master", "schema", "line", "words"),
    [
        ("site", SITES.remove(3), 35, "'team' is not a column of postgres:web.sites"),
        ("site", SITES.remove(0), 34, "'host' is not a column of postgres:web.sites"),
        ("site", SITES.set(0, pa.field("host", pa.int64())), 34, "'host' is string and 'host' of 'site' is int64"),
        ("site", SITES.set(5, pa.field("updated_at", pa.date32())), 36, "it must be a timestamp"),
        ("site", SITES.set(4, pa.field("tier", pa.list_(pa.int32()))), 35, "which no table can hold"),
        ("campaign", CAMPAIGNS.set(2, pa.field("cost_per_session", pa.string())), 47, "measure 'margin'"),
        ("campaign", CAMPAIGNS.set(1, pa.field("channel", pa.int64())), 53, "'channel' of 'daily_sessions'"),
    ],
)
def test_what_does_not_fit_a_master_is_one_sentence_with_its_line(
    master: str, schema: pa.Schema, line: int, words: str
):
    with pytest.raises(PipelineFileError) as caught:
        check_against(declared("web_sessions"), {**MASTERS["web_sessions"], master: schema})
    assert str(caught.value).startswith(f"web_sessions.toml, line {line}: ")
    assert words in str(caught.value)


def test_a_computed_column_is_nullable_unless_it_always_has_a_value():
    sessions = resolved("web_sessions")
    rows, daily = (tables.mart_schema(sessions, table) for table in sessions.pipeline.mart)
    assert {field.name for field in rows if field.nullable} == {"campaign_channel", "margin"}
    assert {field.name for field in daily if field.nullable} == {"pages", "revenue", "longest"}
    assert not daily.field("channel").nullable  # coalesce(…, 'direct')
    assert not daily.field("day").nullable
