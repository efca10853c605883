"""Example events end where their generator says, judged by the declared rules and by plain Python."""

from __future__ import annotations

import csv
import re
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from etl.columnar.expression import compile_expression
from etl.contract.load import load
from etl.contract.model import ExpressionRule, PatternRule, RangeRule, RelativeTime, Rule, SetRule
from etl.samples.examples import EXAMPLES

PIPELINES = Path(__file__).resolve().parents[3] / "warehouse" / "pipelines"
NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_the_same_seed_gives_the_same_files_and_another_seed_gives_others(tmp_path: Path, name: str):
    def files(folder: str, seed: int) -> list[bytes]:
        EXAMPLES[name].generate(tmp_path / folder, 400, seed, NOW)
        return [path.read_bytes() for path in sorted((tmp_path / folder).iterdir())]

    assert files("a", 1) == files("b", 1)
    assert not set(files("a2", 1)) & set(files("c", 2))


def _holds(rule: Rule, rows: pa.Table) -> pa.Array:
    if isinstance(rule, ExpressionRule):
        return pc.fill_null(compile_expression(rule.sql, rows.schema).evaluate(rows), False)
    column = rows.column(rule.column).combine_chunks()
    if isinstance(rule, SetRule):
        ok = pc.is_in(column, pa.array(rule.values))
    elif isinstance(rule, PatternRule):
        ok = pc.match_substring_regex(column, f"^(?:{rule.pattern})$")
    else:
        ok = pc.and_(_side(rule, column, "min"), _side(rule, column, "max"))
    return pc.or_(pc.is_null(column), pc.fill_null(ok, False))


def _side(rule: RangeRule, column: pa.Array, side: str) -> pa.Array:
    bound = getattr(rule, side)
    if isinstance(bound, RelativeTime):
        bound = (NOW + bound.offset).date()
    if bound is None:
        return pa.array([True] * len(column))
    compare = pc.greater_equal if side == "min" else pc.less_equal
    if pa.types.is_decimal(column.type):
        bound = Decimal(bound)
    elif pa.types.is_date(column.type) and isinstance(bound, str):
        bound = date.fromisoformat(bound)
    return compare(column, pa.scalar(bound, column.type))


def test_trips_break_exactly_the_rules_that_were_meant(tmp_path: Path):
    expected = EXAMPLES["trips"].generate(tmp_path, 4_000, 3, NOW)
    rows = pa.concat_tables(pq.read_table(path) for path in sorted(tmp_path.iterdir()))
    pipeline = load(PIPELINES / "trips.toml", tmp_path)
    assert rows.schema.equals(pipeline.stream.schema)
    broken = {rule.name: pc.sum(pc.invert(_holds(rule, rows))).as_py() for rule in pipeline.rules}
    broken["meter_missing"] = rows.column("meter").null_count
    meant = {reason: times for reason, times in expected.reasons.items() if reason != "conflicting_payload"}
    assert {name: times for name, times in broken.items() if times} == meant
    zones = pc.sum(pc.greater(rows.column("dropoff_zone"), 120)).as_py()
    assert zones == expected.backlog


def test_sessions_break_exactly_what_was_meant(tmp_path: Path):
    expected = EXAMPLES["web_sessions"].generate(tmp_path, 4_000, 3, NOW)
    rows = []
    for path in sorted(tmp_path.iterdir()):
        rows += csv.DictReader(path.read_text().splitlines(), delimiter=";")
    assert len(rows) == expected.lines
    refused = sum(_is_refused(row) for row in rows)
    assert refused == expected.quarantined - expected.reasons["conflicting_payload"]
    assert sum(row["Site"].startswith("new") for row in rows) == expected.backlog
    sessions = [row["Session"] for row in rows]
    assert len(sessions) - len(set(sessions)) == expected.duplicates + expected.reasons["conflicting_payload"]


def _is_refused(row: dict[str, str]) -> bool:
    """An independent reading of the file's rules."""
    try:
        began = datetime.strptime(row["Started"], "%d/%m/%Y %H:%M:%S")
        billed = datetime.strptime(row["Billed"], "%d.%m.%Y") if row["Billed"] else None
        money = Decimal(re.sub(r"[$,]", "", row["Revenue"]) or "0")
    except (ValueError, InvalidOperation):
        return True
    return not (
        began.year >= 2015
        and (billed is None or billed.date() >= began.date())
        and (money == 0 or int(row["Pages"]) >= 2)
        and 1 <= int(row["Pages"]) <= 10_000
        and row["Site"]
        and re.fullmatch("[A-Z]{2}", row["Country"])
        and row["Device"] in ("desktop", "phone", "tablet", "")
    )
