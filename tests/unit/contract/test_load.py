"""What the shipped pipelines declare, and what a folder of files gives."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from etl.contract import load as loading
from etl.contract.load import load, load_all, mistake_of
from etl.contract.model import PatternRule, RangeRule, RelativeTime, SetRule

PIPELINES = Path(__file__).resolve().parents[3] / "warehouse" / "pipelines"
SMALL = """
[stream]
source = {{ landing = "landing/{name}" }}
key = ["id"]
[stream.fields]
id = "bigint"
"""


def small(folder: Path, name: str, more: str = "") -> Path:
    path = folder / f"{name}.toml"
    path.write_text(SMALL.format(name=name) + more)
    return path


def test_orders_mean_what_they_always_meant():
    orders = load(PIPELINES / "orders.toml", Path("/home"))
    assert [(one.name, str(one.type)) for one in orders.stream.fields] == [
        ("order_id", "int64"), ("customer_id", "int64"), ("product_id", "int64"), ("quantity", "int32"),
        ("unit_price", "decimal128(18, 4)"), ("ordered_at", "timestamp[us, tz=UTC]"),
    ]  # fmt: skip
    assert set(orders.rules) == {
        RangeRule("order_id_positive", "order_id", min=1),
        RangeRule("quantity_in_range", "quantity", min=1, max=100_000),
        RangeRule("unit_price_in_range", "unit_price", min=0, max=10_000_000),
        RangeRule("ordered_at_not_too_old", "ordered_at", min=datetime(2000, 1, 1, tzinfo=UTC)),
        RangeRule("ordered_at_not_in_future", "ordered_at", max=RelativeTime(timedelta(hours=24))),
    }
    customer, product = orders.masters
    assert (customer.table, customer.key_columns, customer.history) == ("master.customers", ("customer_id",), "scd2")
    assert product.columns == ("name", "brand", "category", "size", "container", "retail_price", "updated_at")
    assert [table.name for table in orders.mart] == ["orders", "daily_sales"]


def test_every_shipped_pipeline_loads():
    loaded = load_all(PIPELINES, Path("/home"))
    assert loaded.errors == ()
    assert {one.name for one in loaded.pipelines} == {path.stem for path in PIPELINES.glob("*.toml")}


def test_a_broken_file_leaves_the_others_alone(tmp_path: Path):
    for name in ("a", "c"):
        small(tmp_path, name)
    (tmp_path / "b.toml").write_text("nothing = 1\n")
    loaded = load_all(tmp_path, tmp_path)
    assert [one.name for one in loaded.pipelines] == ["a", "c"]
    assert [error.file for error in loaded.errors] == ["b.toml"]


def test_an_error_that_nobody_has_foreseen_is_a_mistake_of_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def fails(path: Path) -> str:
        if path.name == "b.toml":
            raise ZeroDivisionError("division\nby zero")
        return text_of(path)

    for name in ("a", "b", "c"):
        small(tmp_path, name)
    text_of = loading.text_of
    monkeypatch.setattr(loading, "text_of", fails)
    loaded = load_all(tmp_path, tmp_path)
    assert [one.name for one in loaded.pipelines] == ["a", "c"]
    assert [str(error) for error in loaded.errors] == [
        "b.toml, line 1: the file cannot be examined (ZeroDivisionError: division by zero); "
        "take out what was changed last"
    ]


def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path: Path):
    path = small(tmp_path, "marked", "nothing = 1\n")
    path.write_text(path.read_text(), "utf-8-sig")
    (error,) = load_all(tmp_path, tmp_path).errors
    assert str(error).startswith("marked.toml, line 7: ")
    small(tmp_path, "marked")
    path.write_text(path.read_text(), "utf-8-sig")
    assert load(path, tmp_path).name == "marked"


def test_what_is_wrong_with_a_pipeline_is_found_by_its_own_name_and_by_that_of_its_file(tmp_path: Path):
    small(tmp_path, "good")
    (tmp_path / "b.toml").write_text('name = "visits"\nnothing = 1\n')
    (tmp_path / "c.toml").write_text("name = 'rides'\n[stream\nname = \"inner\"\n")
    loaded = load_all(tmp_path, tmp_path)
    told = {name: str(mistake_of(name, loaded, tmp_path)) for name in ("b", "visits", "c", "rides", "inner", "good")}
    assert told["b"] == told["visits"]
    assert told["visits"].startswith("b.toml, line 2: 'nothing' is not a key")
    assert told["c"] == told["rides"]
    assert told["rides"].startswith("c.toml, line 2: not TOML")
    assert told["inner"] == told["good"] == "None"


def test_two_files_cannot_claim_the_same_name_table_or_folder(tmp_path: Path):
    mart = '[mart.shared]\ncolumns = ["id"]\n'
    small(tmp_path, "a", mart)
    small(tmp_path, "b", mart)
    small(tmp_path, "c").write_text('name = "a"\n' + SMALL.format(name="c"))
    small(tmp_path, "d").write_text(SMALL.format(name="a/inside"))
    loaded = load_all(tmp_path, tmp_path)
    assert [one.name for one in loaded.pipelines] == ["a"]
    b, c, d = map(str, loaded.errors)
    assert "b.toml, line 7: mart table 'shared' belongs to a.toml already" in b
    assert "c.toml, line 1: pipeline 'a' is declared by a.toml already" in c
    assert "d.toml, line 3: landing 'inside' is where a.toml reads already" in d


def test_shortcuts_of_a_field_become_rules_with_documented_names(tmp_path: Path):
    more = """
    amount = { type = "decimal(6,2)", min = 0.10, max = "99.9" }
    ratio = { type = "double", min = 0.5 }
    day = { type = "date", after = 2000-01-01, before = "2100-01-01" }
    at = { type = "timestamp", before = "now - 5 minutes", from = "Time stamp", format = "%d/%m/%Y %H:%M" }
    kind = { type = "string", one_of = ["a", "b"], pattern = "[ab]", required = false }
    """
    pipeline = load(small(tmp_path, "rules", more), tmp_path)
    assert pipeline.rules == (
        RangeRule("amount_in_range", "amount", "0.10", "99.9"),
        RangeRule("ratio_in_range", "ratio", 0.5),
        RangeRule("day_not_too_old", "day", "2000-01-01"),
        RangeRule("day_not_too_late", "day", max="2100-01-01"),
        RangeRule("at_not_in_future", "at", max=RelativeTime(timedelta(minutes=-5))),
        SetRule("kind_in_set", "kind", ("a", "b")),
        PatternRule("kind_matches_pattern", "kind", "[ab]"),
    )
    at = load(small(tmp_path, "at", "at = { type = 'timestamp', after = 2000-01-01T02:00:00+02:00 }"), tmp_path)
    assert at.rules == (RangeRule("at_not_too_old", "at", datetime(2000, 1, 1, tzinfo=UTC)),)
    assert pipeline.stream.field("at").source_name == "Time stamp"
    assert pipeline.stream.field("amount").type == pa.decimal128(6, 2)


def test_defaults_have_the_type_of_their_field_and_make_it_optional(tmp_path: Path):
    more = """
    n = { type = "int", default = 0 }
    d = { type = "decimal(6,2)", default = 0.50 }
    t = { type = "timestamp", default = 2000-01-01 }
    b = { type = "boolean", default = false }
    """
    fields = load(small(tmp_path, "defaults", more), tmp_path).stream.fields
    assert [one.default for one in fields] == [None, 0, "0.50", "2000-01-01T00:00:00Z", False]
    assert [one.required for one in fields] == [True, False, False, False, False]


def test_reading_files_imports_nothing_heavy():
    heavy = "pyspark", "great_expectations", "pandas", "airflow", "sqlalchemy", "psycopg2", "deltalake", "numba"
    script = f"import sys, etl.contract.load; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_the_file_in_the_documentation_is_good(tmp_path: Path):
    page = (PIPELINES.parents[1] / "docs" / "pipelines.md").read_text()
    (text,) = re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    path = tmp_path / "visits.toml"
    path.write_text(text)
    pipeline = load(path, tmp_path)
    for rule in pipeline.rules:
        ending = rule.name.removeprefix(getattr(rule, "column", ""))
        assert ending in page
