"""The engine knows no example: nothing of the names in `orders.toml` is in `etl/` outside the samples.

"Order" is also how things are sorted, and "product" what multiplication gives, so what is forbidden is said exactly:

customer    wherever it stands, in any form
product     as a word or part of a name; where numbers and streams are multiplied, only what belongs to the example
order       the noun of the example: orders, order_id, ordered_at, OrderConfig, an order, every order …
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from etl.settings import PROJECT

SAMPLES = PROJECT / "etl" / "samples"
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
    for pattern in (CUSTOMER, PRODUCT_OF_THE_EXAMPLE if multiplying else PRODUCT, ORDER, ORDER_CLASS):
        yield from (match.group() for match in pattern.finditer(text))


def files() -> Iterator[Path]:
    for path in sorted((PROJECT / "etl").rglob("*")):
        if path.is_file() and path.suffix in (".py", ".j2", ".toml", ".sql", ".json") and SAMPLES not in path.parents:
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
        "Orders per second",
    ],
)  # fmt: skip
def test_the_rule_finds_names_of_the_example(text: str):
    assert [*found(text, multiplying=False)]


@pytest.mark.parametrize(
    "text",
    [
        "in order", "order by day", "in the order of the key", "sort_order", "order_preserving", "join orders",
        "an order in which each touches", "in production", "reorder", "borders", "OrderedDict", "ordering",
        "cross product", "Join orders with", "from itertools import product", "products of a set", "product_type(a, b)",
    ],
)  # fmt: skip
def test_the_rule_lets_sorting_and_multiplying_pass(text: str):
    assert [*found(text, multiplying=True)] == []
