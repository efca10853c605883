"""The engine knows no example: nothing of the names that shipped examples declare is in `etl/` outside the samples.

Names of pipelines, streams, correlations, their fields, masters, tables and columns are read from the shipped files;
those that are plain technical words are listed. Of `orders.toml` other forms of its names are forbidden, too. "Order"
is also how things are sorted, and "product" what multiplication gives, so what is forbidden is said exactly:

customer    wherever it stands, in any form
product     as a word or part of a name; where numbers and streams are multiplied, only what belongs to the example
order       the noun of the example: orders, order_id, ordered_at, OrderConfig, an order, every order …
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from etl.settings import PROJECT

DECLARED = (PROJECT / "warehouse", PROJECT / "examples")
# Words that mean something else here: parts of a page or a machine, amounts, costs, people, usual columns.
TECHNICAL = frozenset(
    ("address", "amount", "brand", "category", "changed_at", "channel", "container", "device", "driver", "drivers",
     "host", "margin", "meter", "method", "name", "orders", "page", "pages", "paid", "phone", "price", "product",
     "products", "quantity", "region", "shipments", "site", "sites", "size", "started_at", "status", "team", "title",
     "units", "updated_at", "visitor")
)  # fmt: skip
SAMPLES = PROJECT / "etl" / "samples"
SUFFIXES = (".py", ".j2", ".toml", ".sql", ".json", ".js", ".css", ".svg")
MULTIPLYING = (PROJECT / "etl" / "columnar", PROJECT / "etl" / "correlate")
CUSTOMER = re.compile(r"customer", re.IGNORECASE)
PRODUCT = re.compile(r"(?<![a-z])products?(?![a-z])", re.IGNORECASE)
PRODUCT_OF_THE_EXAMPLE = re.compile(r"product_(id|name|key|brand)|(master|mart|dim)[._]product", re.IGNORECASE)
ORDER = re.compile(
    r"(?<!join )(?<!different )(?<![a-z])orders(?![a-z])"
    r"|order_(id|date|key|file|line|stream|config|wave)|ordered_at"
    r"|\b(every|each|per|whose|good|late|thin|single|clean|landed) order\b|\ban order\b(?! (of|in which))",
    re.IGNORECASE,
)
ORDER_CLASS = re.compile(r"\bOrder[A-Z]")


def found(text: str, multiplying: bool) -> Iterator[str]:
    """The names of the example in a text."""
    for pattern in (NAMES, CUSTOMER, PRODUCT_OF_THE_EXAMPLE if multiplying else PRODUCT, ORDER, ORDER_CLASS):
        yield from (match.group() for match in pattern.finditer(text))


def declared_names() -> frozenset[str]:
    """The names in the declarations of the shipped examples that are no technical words."""
    names: set[str] = set()
    for path in (path for folder in DECLARED for path in folder.rglob("*.toml")):
        declared = tomllib.loads(path.read_text("utf-8"))
        if "name" not in declared:
            continue
        masters = declared.get("master", {})
        names |= {declared["name"], *declared.get("stream", {}).get("fields", {})}
        names |= {*masters, *declared.get("mart", {}), *declared.get("fact", {}).get("measures", {})}
        for master in masters.values():
            names |= {*master.get("columns", ()), re.split("[./:]", master["table"])[-1]}
    return frozenset(names) - TECHNICAL


NAMES = re.compile(rf"(?<![a-z0-9_])({'|'.join(sorted(declared_names()))})(?![a-z0-9_])", re.IGNORECASE)


def files() -> Iterator[Path]:
    for path in sorted((PROJECT / "etl").rglob("*")):
        ours = path.suffix in SUFFIXES and not path.name.endswith(".min.css")  # styles and fonts of others
        if path.is_file() and ours and SAMPLES not in path.parents:
            yield path


def test_no_name_of_an_example_is_in_the_engine():
    named = []
    for path in files():
        text, multiplying = path.read_text("utf-8"), any(room in path.parents for room in MULTIPLYING)
        if any(found(text, multiplying)):  # line by line only where there is something to show
            named += [
                f"{path.relative_to(PROJECT)}:{number}: {name}"
                for number, line in enumerate(text.splitlines(), 1)
                for name in dict.fromkeys(found(line, multiplying))
            ]
    assert named == []
    assert len(list(files())) > 200


def test_no_file_or_folder_of_the_engine_is_named_after_an_example():
    names = [path.relative_to(PROJECT).as_posix() for path in files()]
    assert [name for name in names if [*found(name, multiplying=True)]] == []


@pytest.mark.parametrize(
    "text",
    [
        "Every order that landed", "orders beyond are deferred", "late_customers", "CustomerMoved", "mart.products",
        "product_id", "a product", "class OrderConfig", "order_id", "ordered_at", "generate_orders(", "an order waits",
        "Orders per second", "mean:unit_price", "such as web_sessions", "payments ⋈ clicks", "borough", "paid_orders",
        "Shipment_Id", "campaign",
    ],
)  # fmt: skip
def test_the_rule_finds_names_of_examples(text: str):
    assert [*found(text, multiplying=False)]


@pytest.mark.parametrize(
    "text",
    [
        "in order", "order by day", "in the order of the key", "sort_order", "order_preserving", "join orders",
        "an order in which each touches", "in production", "reorder", "borders", "OrderedDict", "ordering",
        "cross product", "Join orders with", "from itertools import product", "products of a set", "product_type(a, b)",
        "the size of a page", "prices", "a site's host", "started_at", "pickups",
    ],
)  # fmt: skip
def test_the_rule_lets_sorting_and_multiplying_pass(text: str):
    assert [*found(text, multiplying=True)] == []


def test_names_of_all_kinds_of_examples_are_known():
    assert declared_names() >= {"web_sessions", "borough_days", "trip_number", "payments", "shipped_revenue", "sku"}
    assert len(declared_names()) > 50
