"""`frontstage pipeline …` as a user types it."""

from __future__ import annotations

import json
import os
import shutil
import tomllib
from datetime import UTC, datetime
from pathlib import Path

import jsonschema
import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

from etl.adapters import postgres
from etl.cli import app
from etl.contract.drafting.draft import DraftRefused, Table, draft
from etl.contract.drafting.sample import SampleRefused, read_sample
from etl.contract.errors import PipelineFileError
from etl.contract.load import load
from etl.contract.resolve import check_against
from etl.contract.tables import dimension_schema
from etl.masters.tables import master_schemas
from etl.samples.examples import EXAMPLES
from etl.settings import PROJECT

PIPELINES = PROJECT / "warehouse" / "pipelines"
NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("FRONTSTAGE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("FRONTSTAGE_HOME", str(tmp_path))
    shutil.copytree(PIPELINES, tmp_path / "pipelines")
    monkeypatch.setenv("FRONTSTAGE_PIPELINES", "pipelines")
    return tmp_path


@pytest.fixture
def dsn(home: Path, database: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database with the masters of all examples, which the commands find in their settings."""
    monkeypatch.setenv("FRONTSTAGE_POSTGRES_DSN", database)
    for example in EXAMPLES.values():
        example.seed(database, home / "var")
    return database


def invoke(*words: str) -> Result:
    return CliRunner().invoke(app, ["pipeline", *words])


def test_the_shipped_files_are_good_and_listed(home: Path):
    checked = invoke("check")
    assert (checked.exit_code, checked.stdout.count("is good")) == (0, 3)
    listed = json.loads(invoke("list", "--json").stdout)
    assert [one["name"] for one in listed] == ["orders", "trips", "web_sessions"]
    assert listed[1]["key"] == "service_day, meter, trip_number"


def test_check_says_every_mistake_of_a_file_and_ends_with_78(home: Path, tmp_path: Path):
    path = tmp_path / "wrong.toml"
    path.write_text((PIPELINES / "trips.toml").read_text().replace('"24h"', '"soon"').replace('"1 minute"', '"later"'))
    done = invoke("check", str(path), str(PIPELINES / "orders.toml"))
    assert done.exit_code == 78
    assert "orders.toml is good" in done.stdout
    assert [line.split(":")[1] for line in done.stderr.splitlines()] == [
        " wrong.toml, line 7", " wrong.toml, line 8",
    ]  # fmt: skip


def test_two_files_must_not_claim_the_same(home: Path):
    folder = home / "pipelines"
    for path in folder.glob("*.toml"):
        path.unlink()
    text = (PIPELINES / "trips.toml").read_text()
    (folder / "a.toml").write_text(text)
    (folder / "b.toml").write_text(text)
    done = invoke("check")
    assert done.exit_code == 78
    assert "a.toml is good" in done.stdout
    assert "b.toml, line 5: pipeline 'trips' is declared by a.toml already" in done.stderr


def test_show_tells_what_is_wrong_with_a_pipeline_whose_file_has_another_name(home: Path):
    file = (home / "pipelines" / "trips.toml").rename(home / "pipelines" / "cabs.toml")
    file.write_text(file.read_text().replace('"24h"', '"soon"'))
    wrong = invoke("show", "trips").exception
    assert isinstance(wrong, PipelineFileError)
    assert str(wrong).startswith("cabs.toml, line 8: grace is 'soon'")


def test_show_tells_rules_by_their_reasons(home: Path):
    text = " ".join(invoke("show", "orders").stdout.split())
    assert "ordered_at_not_in_future" in text
    assert "master customer: postgres:master.customers on customer_id = customer_id, required, scd2" in text
    shown = json.loads(invoke("show", "orders", "--json").stdout)
    assert shown["measures"] == {"amount": "cast(quantity * unit_price as decimal(28,4))"}
    unknown = invoke("show", "order")
    assert unknown.exit_code != 0
    assert "did you mean 'orders'?" in str(unknown.exception)


def test_the_schema_in_the_tree_is_current_and_accepts_the_examples(home: Path):
    text = invoke("schema").stdout
    assert (PIPELINES / "schema.json").read_text() == text, "run `frontstage pipeline schema > …/schema.json`"
    validator = jsonschema.Draft202012Validator(json.loads(text))
    for path in PIPELINES.glob("*.toml"):
        assert [*validator.iter_errors(tomllib.loads(path.read_text()))] == []
    wrong = tomllib.loads((PIPELINES / "trips.toml").read_text().replace("grace", "grce"))
    assert [error.validator for error in validator.iter_errors(wrong)] == ["additionalProperties"]


@pytest.mark.parametrize(
    ("kind", "good"), [("bigint", True), ("decimal(9, 2)", True), ("varchar", False), ("int8", False)]
)
def test_an_editor_knows_the_types_of_fields(kind: str, good: bool):
    validator = jsonschema.Draft202012Validator(json.loads(invoke("schema").stdout))
    document = tomllib.loads((PIPELINES / "trips.toml").read_text())
    for declared in (kind, {"type": kind}):
        document["stream"]["fields"]["added"] = declared
        assert validator.is_valid(document) == good


def test_the_schema_says_of_every_key_what_it_is_and_allows_no_other_key():
    schema = json.loads(invoke("schema").stdout)
    tables = {"a pipeline": schema, **schema["$defs"]}
    silent = [f"{name}.{key}" for name, table in tables.items() for key, value in table.get("properties", {}).items()
              if not value.get("description")]  # fmt: skip
    assert silent == []
    open_to_any = [name for name, table in tables.items() if table.get("additionalProperties", True) is not False]
    assert open_to_any == ["ExpectationTable"], "its other keys are arguments"


def test_check_compares_with_the_masters_themselves(dsn: str, home: Path):
    assert invoke("check", "--masters").exit_code == 0
    with postgres.connect(dsn, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("alter table city.drivers rename company to firm")
    done = invoke("check", "--masters")
    assert done.exit_code == 78
    assert "trips.toml, line 48: 'company' is not a column of postgres:city.drivers" in done.stderr


def test_a_new_file_from_real_tables_and_events_is_good(dsn: str, home: Path):
    EXAMPLES["web_sessions"].generate(home / "events", 300, 1, NOW)
    (sample, _) = sorted((home / "events").iterdir())
    # Dirt of the example is taken out: a sample is what somebody would show.
    rows = [line for line in sample.read_text().splitlines() if "a lot" not in line and "/13/" not in line]
    sample.write_text("\n".join(dict.fromkeys(rows)) + "\n")
    done = invoke(
        "new", "visits", "--events", str(sample), "--from-table", "web.sites", "--on", "site=site.host",
        "--on", "country=sites.country", "--from-table", "delta:masters/campaigns",
        "--on", "campaign=campaign_row.code", "--key", "session",
    )  # fmt: skip
    assert done.exit_code == 0, done.exception
    path = home / "pipelines" / "visits.toml"
    assert invoke("check", "--masters", str(path)).exit_code == 0
    pipeline = load(path, home / "var")
    fields = {one.name: one for one in pipeline.stream.fields}
    assert (fields["started"].format, fields["revenue"].strip) == ("%d/%m/%Y %H:%M:%S", "$,")
    assert pipeline.masters[0].on == (("site", "host"), ("country", "country"))
    assert pipeline.masters[0].history == "scd2"
    assert check_against(pipeline, master_schemas(pipeline, dsn, home / "var")).name == "visits"


def test_keys_are_matched_by_name_and_one_table_may_be_met_twice(dsn: str, home: Path):
    events = home / "rides.jsonl"
    rides = [
        {"ride_id": n, "pickup_zone_id": 1 + n % 5, "dropoff_zone_id": 2, "driver_id": f"D{n:05}", "fare": n + 0.5,
         "at": f"2026-11-17T10:00:{n:02}Z", "note": None if n else "x"}
        for n in range(20)
    ]  # fmt: skip
    events.write_text("".join(json.dumps(one) + "\n" for one in rides))
    done = invoke(
        "new", "rides", "--events", str(events), "--from-table", "pickup=city.zones",
        "--from-table", "dropoff=city.zones", "--from-table", "city.drivers",
    )  # fmt: skip
    assert done.exit_code == 0, done.exception
    pipeline = load(home / "pipelines" / "rides.toml", home / "var")
    assert [one.on for one in pipeline.masters] == [
        (("pickup_zone_id", "zone_id"),), (("dropoff_zone_id", "zone_id"),), (("driver_id", "driver_id"),),
    ]  # fmt: skip
    assert pipeline.stream.key == ("ride_id",)
    assert pipeline.stream.event_time == "at"
    assert [one.name for one in pipeline.stream.fields if one.nullable] == ["note"]
    assert invoke("check", "--masters", str(home / "pipelines" / "rides.toml")).exit_code == 0


def test_what_cannot_be_guessed_is_asked_for(dsn: str, home: Path):
    events = home / "e.jsonl"
    events.write_text('{"a": 1, "who": 5}\n{"a": 1, "who": 5}\n')
    target = str(home / "e.toml")
    no_key = invoke("new", "e", "--events", str(events), "--output", target)
    assert isinstance(no_key.exception, DraftRefused)
    assert "say which are the key: --key FIELD" in str(no_key.exception)
    no_match = invoke(
        "new", "e", "--events", str(events), "--output", target, "--from-table", "city.zones", "--key", "a"
    )
    assert "no field of the sample looks like 'zone_id' of city.zones; say --on FIELD=zone.zone_id" in str(
        no_match.exception
    )
    wrong_kind = invoke(
        "new", "e", "--events", str(events), "--output", target, "--key", "a", "--from-table", "city.zones",
        "--on", "who=zone.name",
    )  # fmt: skip
    assert wrong_kind.exit_code == 0, "a number that is matched with texts is read as text"
    again = invoke("new", "e", "--events", str(events), "--output", target, "--key", "a")
    assert "exists already" in str(again.exception)


def test_a_name_that_cannot_be_is_refused_and_leaves_no_file(home: Path):
    events = home / "e.jsonl"
    events.write_text('{"id": 1}\n')
    done = invoke("new", "Bad-Name", "--events", str(events), "--output", str(home / "x.toml"))
    assert isinstance(done.exception, DraftRefused)
    assert str(done.exception).startswith("'Bad-Name' cannot be the name of a pipeline; allowed are small letters")
    assert not (home / "x.toml").exists()


def test_a_column_with_decimal_commas_is_text_and_says_so(home: Path):
    events = home / "e.csv"
    rows = [
        ("1.299,99", "1,299.99", "1 299.5", "0,125", "- $ 12.5", "12,34,567"),
        ("7,50", "$7.50", "12", "1", "3", "9"),
    ]
    events.write_text("id;a;b;c;d;e;f\n" + "".join(f"{number};{';'.join(row)}\n" for number, row in enumerate(rows)))
    assert invoke("new", "fees", "--events", str(events), "--output", str(home / "fees.toml")).exit_code == 0
    fields = {one.name: (str(one.type), one.strip) for one in load(home / "fees.toml", home).stream.fields}
    assert fields == {
        "id": ("int64", ""), "a": ("string", ""), "b": ("decimal128(18, 4)", "$,"), "c": ("decimal128(18, 4)", " "),
        "d": ("string", ""), "e": ("decimal128(18, 4)", " $"), "f": ("decimal128(18, 4)", ","),
    }  # fmt: skip
    assert (
        'a = "string"  # "1.299,99": text, as numbers with a comma before their decimals'
        in (home / "fees.toml").read_text()
    )


def test_a_name_that_is_empty_is_left_out_and_a_byte_order_mark_is_none(home: Path):
    events = home / "e.jsonl"
    events.write_text('{"Visit ID": 1, "": 3, "1st": 2}\n', "utf-8-sig")
    done = invoke("new", "visits", "--events", str(events), "--output", str(home / "visits.toml"))
    assert done.exit_code == 0, done.exception
    assert [one.source_name for one in load(home / "visits.toml", home).stream.fields] == ["Visit ID", "1st"]


MOMENT = pa.timestamp("us", "UTC")


@pytest.mark.parametrize(
    ("columns", "kept"),
    [
        (
            {"name": pa.string(), "valid_from": MOMENT, "valid_to": MOMENT, "updated_at": MOMENT},
            ("name", "updated_at"),
        ),
        (
            {"name": pa.string(), "valid_from": MOMENT, "valid_to": MOMENT, "is_current": pa.bool_()},
            ("name", "valid_from", "valid_to", "is_current"),
        ),
        ({"name": pa.string(), "person_key": pa.int64(), "ID": pa.int64()}, ("name",)),
        ({"name": pa.string(), "Name": pa.string()}, ("name",)),
        ({"fooBar": pa.string(), "foo_bar": pa.string(), "x" * 60: pa.string()}, ("fooBar", "foo_bar", "x" * 60)),
        ({}, ()),
    ],
)
def test_what_a_dimension_has_itself_is_left_out_of_its_columns(
    tmp_path: Path, columns: dict[str, pa.DataType], kept: tuple[str, ...]
):
    events = tmp_path / "e.jsonl"
    events.write_text('{"visit_id": 1, "person_id": 2}\n')
    table = Table("postgres", "crm.persons", pa.schema({"id": pa.int64(), **columns}), ("id",))
    path = tmp_path / "visits.toml"
    path.write_text(draft("visits", read_sample(events), [table]))
    resolved = check_against(load(path, tmp_path), {"person": table.schema})
    (person,) = resolved.pipeline.masters
    assert person.columns == kept
    names = [one.lower() for one in dimension_schema(person, resolved.masters["person"]).names]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("columns", "version"),
    [
        ({"valid_from": MOMENT}, None),
        ({"valid_from": MOMENT, "valid_to": MOMENT, "changed_at": MOMENT}, "changed_at"),
        ({"updated_at": MOMENT, "version": MOMENT}, "updated_at"),
        ({"version": MOMENT}, "version"),
        ({"version": pa.int64()}, None),
        ({"updated_at": pa.string()}, None),
    ],
)
def test_a_row_is_dated_by_a_column_that_rises_with_every_change_and_by_no_other(
    tmp_path: Path, columns: dict[str, pa.DataType], version: str | None
):
    events = tmp_path / "e.jsonl"
    events.write_text('{"visit_id": 1, "person_id": 2}\n')
    table = Table("postgres", "crm.persons", pa.schema({"id": pa.int64(), "name": pa.string(), **columns}), ("id",))
    text = draft("visits", read_sample(events), [table])
    (tmp_path / "visits.toml").write_text(text)
    (person,) = load(tmp_path / "visits.toml", tmp_path).masters
    assert (person.version, person.history) == (version, "scd1" if version is None else "scd2")
    assert ('# version = "valid_from"' in text) == (version is None and "valid_from" in columns)


def test_a_table_without_a_usable_column_is_refused(tmp_path: Path):
    events = tmp_path / "e.jsonl"
    events.write_text('{"visit_id": 1, "person_id": 2}\n')
    table = Table("postgres", "crm.persons", pa.schema({"id": pa.int64(), "person_key": pa.int64()}), ("id",))
    with pytest.raises(DraftRefused, match=r"no column of crm\.persons besides its key can be given .*: person_key"):
        draft("visits", read_sample(events), [table])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("e.xml", b"<a/>"),
        ("e.jsonl", b"[1]\n"),
        ("e.jsonl", b"{"),
        ("e.jsonl", b""),
        ("e.parquet", b"x"),
        ("e.csv", b""),
    ],
)
def test_a_sample_that_cannot_be_read_is_a_sentence(tmp_path: Path, name: str, content: bytes):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(SampleRefused, match=f"{name} is not a sample of events: "):
        read_sample(path)
