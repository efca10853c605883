from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from etl.errors import TerminalError
from etl.validate import rules
from warehouse import contract as contracts
from warehouse.contract import Rule

BOUNDS = {"oldest": datetime(2000, 1, 1, tzinfo=UTC), "latest": datetime(2026, 1, 1, tzinfo=UTC)}


def test_a_rule_becomes_a_predicate_that_is_never_null() -> None:
    assert (
        rules.predicate(Rule("r", "quantity", 1, 9), BOUNDS) == "coalesce(`quantity` >= 1 AND `quantity` <= 9, false)"
    )


def test_a_named_bound_stands_for_the_batchs_value() -> None:
    text = rules.predicate(Rule("r", "ordered_at", "$oldest"), BOUNDS)
    assert text == "coalesce(`ordered_at` >= timestamp'2000-01-01 00:00:00.000000Z', false)"


def test_an_unknown_bound_is_refused_with_the_allowed_ones() -> None:
    with pytest.raises(TerminalError, match=r"bound '\$soon' is unknown.*\$oldest"):
        rules.resolve("$soon", BOUNDS)


def test_the_shipped_contract_is_whole() -> None:
    contract = contracts.load()
    assert {"order_id", "customer_id", "product_id"} <= {field.name for field in contract.fields}
    assert {"quantity_in_range", "unknown_customer", "malformed_json", "unit_price_missing"} <= contract.reasons()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rule = 1", "not a contract"),
        ('field=[{name="a",type="int"}]\nrule=[{name="r",column="b",min=1}]\nmaster=[]', "rule 'r' is about 'b'"),
        ('field=[{name="a",type="int"}]\nrule=[{name="r",column="a"}]\nmaster=[]', "neither min nor max"),
        ('field=[{name="a",type="int",odd=1}]\nrule=[]\nmaster=[]', "odd"),
    ],
)
def test_a_mistake_in_the_contract_is_named(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "orders.toml").write_text(text)
    with pytest.raises(TerminalError, match=message):
        contracts.load(tmp_path / "orders.toml")
