"""Which changes of a declaration are applied to tables that exist, and which are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from etl.contract.dump import as_dict, as_json
from etl.contract.evolve import Change, ChangeRefused, compatible
from etl.contract.load import load
from etl.contract.model import Pipeline

TRIPS = (Path(__file__).resolve().parents[3] / "warehouse" / "pipelines" / "trips.toml").read_text()


def pipeline(folder: Path, *changes: tuple[str, str]) -> Pipeline:
    text = TRIPS
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    path = folder / "trips.toml"
    path.write_text(text)
    return load(path, folder)


APPLIED = [
    ([('paid_by = {', 'shift = { type = "string", required = false }\npaid_by = {')], [Change("field", "shift")]),
    ([("[rules]", '[rules]\nfare_known = "fare > 1"')], [Change("rule", "fare_known")]),
    ([("max = 10_000 }", "max = 20_000 }")], [Change("rule", "fare_in_range")]),
    ([("[fact.measures]", '[fact.measures]\nhalf = "fare / 2"')], [Change("measure", "half")]),
    ([("[mart.trips]", '[mart.days]\ngroup_by = ["service_day"]\nvalues = { n = "count(*)" }\n[mart.trips]')],
     [Change("mart_table", "days")]),
    ([('"fare", "paid"]', '"fare", "paid", "tip"]')], [Change("mart_column", "tip", "trips")]),
    ([('deadline = "1 minute"', 'deadline = "20s"'), ("mostly = 0.2", "mostly = 0.3")],
     [Change("setting", "deadline"), Change("setting", "expectations")]),
    ([('"landing/trips"', '"landing/cabs"')], []),
]  # fmt: skip
REFUSED = [
    ([('name = "trips"', 'name = "cabs"')], "the tables belong to 'trips'"),
    ([("paid_by = {", 'shift = "string"\npaid_by = {')], "new field 'shift' must be optional without a default"),
    ([('distance_km = { type = "double"', 'distance_km = { type = "decimal(8,3)"')],
     "field 'distance_km' was double and would be decimal(8,3)"),
    ([("min = 0, required = false }", "min = 0 }")], "field 'tip' was optional and would be required"),
    ([('driver_id = { type = "string",', 'driver_id = { type = "string", required = false,')],
     "field 'driver_id' always had a value and would be optional"),
    ([('key = ["service_day", "meter", "trip_number"]', 'key = ["service_day", "meter", "trip_number", "driver_id"]'),
      ('columns = ["service_day", "meter",', 'columns = ["driver_id", "service_day", "meter",')], "key was"),
    ([('event_time = "started_at"', 'event_time = "service_day"')], "event_time was 'started_at' and would be"),
    ([("tip is null or tip <= fare * 5 + 20", "true"), ('"cast(fare + coalesce(tip, 0) as decimal(12,2))"', '"fare"')],
     "measure 'paid' was"),
    ([('within_borough = "pickup.borough = dropoff.borough"', "")], "measure 'within_borough' would be gone"),
    ([('history = "none"', 'history = "scd1"')], "history of master 'driver' was 'none' and would be 'scd1'"),
    ([('columns = ["name", "licence", "company"]', 'columns = ["name", "licence", "company", "phone"]')],
     "columns of master 'driver' was"),
    ([('trips = "count(*)", ', "")], "values of mart table 'borough_days' would be different"),
    ([('"fare", "paid"]', '"fare"]')], "column of mart table 'trips', 'paid' would be gone"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "expected"), APPLIED)
def test_what_adds_to_tables_is_applied(tmp_path: Path, changes: list[tuple[str, str]], expected: list[Change]):
    assert compatible(pipeline(tmp_path), pipeline(tmp_path, *changes)) == expected


@pytest.mark.parametrize(("changes", "words"), REFUSED)
def test_what_would_change_the_meaning_of_tables_is_refused(tmp_path: Path, changes: list[tuple[str, str]], words: str):
    with pytest.raises(ChangeRefused, match="cannot be changed like this") as caught:
        compatible(pipeline(tmp_path), pipeline(tmp_path, *changes))
    assert words in str(caught.value)
    assert "undo it, or declare it as a pipeline of another name" in str(caught.value)


def test_a_declaration_is_the_same_text_whatever_machine_reads_it(tmp_path: Path):
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    assert as_json(pipeline(first)) == as_json(pipeline(second))
    assert json.loads(as_json(pipeline(first))) == as_dict(pipeline(second))


def test_the_old_declaration_may_come_as_text_or_values(tmp_path: Path):
    old = pipeline(tmp_path)
    new = pipeline(tmp_path, ("[rules]", '[rules]\nfare_known = "fare > 1"'))
    assert compatible(as_json(old), new) == compatible(as_dict(old), new) == compatible(old, new)
