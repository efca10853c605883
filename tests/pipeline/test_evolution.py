"""A declaration that changes between batches: what can be added is there with the next batch, all else is refused."""

from __future__ import annotations

import hashlib

import pytest

from etl.adapters.mart import MartTaken
from etl.contract.errors import PipelineFileError
from etl.contract.evolve import ChangeRefused
from etl.errors import FrontstageError
from tests.support.site import Site, order

FIELDS = ("[rules]\n", 'coupon = { type = "string", required = false }\n\n[rules]\n')
RULE = ("[rules]\n", '[rules]\nno_thirteen = "quantity <> 13"\n')
MEASURE = ("[fact.measures]\n", '[fact.measures]\ntax = "cast(quantity * unit_price * 0.2 as decimal(28,4))"\n')
COLUMNS = (
    'amount = "amount"\n',
    'amount = "amount"\nphone = "customer.phone"\nsame_id = "order_id"\nhalf = "quantity / 2"\n',
)
TABLE = """
[mart.coupons]
columns = ["order_id", "coupon", "amount"]

[mart.coupon_days]
group_by = { coupon = "coalesce(coupon, 'none')" }
values = { orders = "count(*)", tax = "sum(tax)" }
"""


def test_what_is_added_is_there_with_the_next_batch(site: Site) -> None:
    site.land("a.jsonl", *(order(number) for number in range(1, 6)), order(13, quantity=13), order(90, customer_id=900))
    assert site.run() == 1
    later = site.redeclared(FIELDS, RULE, MEASURE, COLUMNS, add=TABLE)
    later.land("b.jsonl", order(6, coupon="ten"), order(7, quantity=3), order(8, quantity=13))
    assert later.run() == 2
    fact = {row["order_id"]: row for row in later.rows("fact").to_pylist()}
    assert [fact[number]["coupon"] for number in (1, 6, 7)] == [None, "ten", None]
    assert [fact[number]["tax"] and str(fact[number]["tax"]) for number in (1, 6)] == [None, "3.9960"]
    assert 13 in fact, "a rule says nothing about what was accepted before it"
    reasons = {row["key"]: row["reasons"] for row in later.rows("quarantine").to_pylist()}
    assert reasons == {'["8"]': ["no_thirteen"]}
    rows = later.execute("select order_id, phone is null, same_id, half is null from mart.orders order by 1")
    old = [(number, True, None, True) for number in (1, 2, 3, 4, 5, 13)]
    assert rows == sorted([*old, (6, False, 6, False), (7, False, 7, False)])
    assert later.execute("select order_id, coupon from mart.coupons order by 1") == [(6, "ten"), (7, None)]
    assert later.execute("select coupon, orders from mart.coupon_days order by 1") == [("none", 1), ("ten", 1)]
    later.execute(
        "insert into master.customers select 900, name, address, nation, region, market_segment, phone, "
        "account_balance from master.customers where customer_id = 1"
    )
    assert later.run() == 3, "what waited since before the change is booked like the others"
    assert later.rows("fact").num_rows == 9
    assert later.inventory().faults == []


def test_a_batch_decided_before_a_change_is_published_after_it(site: Site) -> None:
    site.land("a.jsonl", order(1), order(2))
    assert site.decide() == 1
    later = site.redeclared(FIELDS, MEASURE, COLUMNS, add=TABLE).restarted()
    assert later.run() == 1
    assert later.execute("select count(*), count(phone) from mart.orders") == [(2, 0)]
    assert later.execute("select count(*) from mart.coupons") == [(0,)]
    later.land("b.jsonl", order(3, coupon="x"))
    assert later.run() == 2
    assert later.execute("select count(*) from mart.coupons") == [(1,)]
    assert later.inventory().faults == []


REFUSED = {
    "key was": ('key = ["order_id"]', 'key = ["order_id", "customer_id"]'),
    "'quantity' was int": ('quantity = { type = "int"', 'quantity = { type = "bigint"'),
    "'quantity' always had": ("max = 100_000 }", "max = 100_000, required = false }"),
    "must be optional": ("[rules]\n", 'coupon = "string"\n\n[rules]\n'),
    "'amount' was": ("cast(quantity * unit_price as decimal(28,4))", "cast(quantity + unit_price as decimal(28,4))"),
    "'brand' of mart table": ('brand = "product.brand"', 'brand = "product.name"'),
    "'brand' would be gone": ('brand = "product.brand"\n', ""),
    "group_by of mart table": ('category = "product.category"\n\n', "\n"),
    "values of mart table": ('quantity = "sum(quantity)"', 'quantity = "max(quantity)"'),
    "columns of master 'product'": ('"size", "container"', '"size"'),
    "history of master 'product'": ('history = "scd2"\n\n[fact', 'history = "scd1"\n\n[fact'),
}  # fmt: skip


@pytest.mark.parametrize("sentence", REFUSED)
def test_any_other_change_is_refused_before_anything_is_written(site: Site, sentence: str) -> None:
    site.land("a.jsonl", order(1))
    assert site.run() == 1
    later = site.redeclared(REFUSED[sentence])
    later.land("b.jsonl", order(2))
    before = _state(later)
    with pytest.raises(FrontstageError) as refused:
        later.run()
    assert isinstance(refused.value, ChangeRefused), refused.value
    assert sentence in str(refused.value)
    assert _state(later) == before
    assert site.run() == 2, "the declaration as it was goes on"


def test_two_files_that_claim_one_mart_table_are_refused_by_line(site: Site) -> None:
    other = site.redeclared().settings.home / "pipelines" / "others.toml"
    text = (site.settings.pipelines / "orders.toml").read_text()
    other.write_text(text.replace('name = "orders"', 'name = "others"').replace("landing/orders", "landing/others"))
    with pytest.raises(
        PipelineFileError, match=r"others.toml, line \d+: mart table '\w+' belongs to orders.toml already"
    ):
        site.redeclared().of("others").run()


def test_a_mart_table_of_a_pipeline_whose_file_is_gone_is_still_its_own(site: Site) -> None:
    site.land("a.jsonl", order(1))
    assert site.run() == 1
    later = site.redeclared(('name = "orders"', 'name = "others"'), ("landing/orders", "landing/others"))
    (later.settings.pipelines / "orders.toml").rename(later.settings.pipelines / "others.toml")
    here = later.of("others")
    here.land("a.jsonl", order(1))
    with pytest.raises(MartTaken, match=r"mart.orders exists and is loaded by pipeline orders"):
        here.run()
    assert site.execute("select count(*) from mart.orders") == [(1,)]


def _state(site: Site) -> dict[str, object]:
    """Everything that a run may write, in short."""
    folder = site.settings.warehouse
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        "files": {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files if path.name != ".writer"},
        "ledger": site.execute("select batch, state from etl.batch order by 1"),
        "declared": site.execute("select declared from etl.pipeline"),
        "columns": site.execute(
            "select table_name, column_name from information_schema.columns where table_schema = 'mart' order by 1, 2"
        ),
    }
