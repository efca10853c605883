"""`frontstage pipeline new` writes a file that runs as it is: foreign tables, a sample, events, a mart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from etl import settings as configuration
from etl.cli import app
from etl.pipeline.steps import Steps
from etl.pipeline.tasks.in_process import InProcess
from tests.support.site import Site

TABLES = """
create schema depot;
create table depot.sensors (
    plant text not null, sensor text not null, model text not null, ceiling numeric(8,2), since date,
    updated_at timestamptz not null default now(), primary key (plant, sensor)
);
create table depot.plants (code varchar(8) primary key, "City Name" text not null, staff integer);
insert into depot.sensors
select 'P' || p, 's/' || s, 'M' || mod(s, 3), s * 1.5, date '2020-01-01' + s, '2026-01-01' from generate_series(1, 3) p,
       generate_series(1, 20) s;
insert into depot.plants select 'P' || p, 'City ' || p, p * 10 from generate_series(1, 3) p;
"""


@pytest.fixture
def site(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A home without files, and a database with tables of somebody else."""
    monkeypatch.setenv("FRONTSTAGE_HOME", str(tmp_path))
    monkeypatch.setenv("FRONTSTAGE_POSTGRES_DSN", database)
    own = configuration.load()
    made = Site(Steps(own, database, InProcess()), own, database, "readings")
    made.execute(TABLES)
    yield made
    made.close()


def command(*words: str) -> Result:
    done = CliRunner().invoke(app, [*words])
    assert done.exit_code == 0, (done.output, done.exception)
    return done


def reading(number: int, **changes: object) -> dict[str, object]:
    plain = {
        "reading": f"r-{number:06}",
        "plant": f"P{1 + number % 3}",
        "sensor": f"s/{1 + number % 20}",
        "level": f"{number % 40}.25",
        "taken_at": f"2026-11-16T{number % 24:02}:00:00Z",
        "remark": None if number % 2 else "ok",
    }
    return {**plain, **changes}


def test_a_new_file_runs_as_it_is(site: Site, tmp_path: Path) -> None:
    sample = tmp_path / "sample.jsonl"
    sample.write_text("".join(json.dumps(reading(number)) + "\n" for number in range(200)))
    command(
        "pipeline", "new", "readings", "--events", str(sample), "--from-table", "depot.sensors",
        "--from-table", "depot.plants", "--on", "plant=plant_row.code", "--key", "reading",
    )  # fmt: skip
    assert command("pipeline", "check", "--masters").stdout == "readings.toml is good\n"
    assert [one["name"] for one in json.loads(command("pipeline", "list", "--json").stdout)] == ["readings"]
    here = site.changed(pipelines=tmp_path / "warehouse" / "pipelines")
    here.land(
        "a.jsonl",
        *(reading(number) for number in range(500)),
        reading(0),  # once more
        reading(1, level="99.5"),  # and differently
        reading(1000, plant="P9"),  # a plant that nobody knows yet
        b"not an event",
        reading(1001, level="high"),
    )
    assert here.run() == 1
    counts = here.record(1).counts
    assert (counts.lines, counts.accepted, counts.quarantined, counts.duplicates, counts.backlog_added) == (
        505, 500, 3, 1, 1,
    )  # fmt: skip
    here.execute("insert into depot.plants values ('P9', 'Late', 1)")
    here.execute("insert into depot.sensors values ('P9', 's/1', 'M9', 1, '2026-01-01')")
    assert here.run() == 2
    assert here.inventory().faults == []
    assert command("audit", "readings").exit_code == 0
    (total,) = here.execute("select count(*) from mart.readings")
    assert total == (501,)
    assert here.rows("fact").num_rows == 501
    assert here.rows("dim_sensor_row").num_rows == 61
    assert "City Name" not in here.rows("dim_plant_row").column_names, "no table can have such a column"


CSV = "Ride No;Day;Zone;Fee\n"


def test_a_new_file_from_csv_with_a_composite_event_key_runs(site: Site, tmp_path: Path) -> None:
    site.execute("create table depot.zones (zone integer primary key, name text)")
    site.execute("insert into depot.zones select z, 'Zone ' || z from generate_series(1, 9) z")
    rides = [f"{number};{1 + number // 50:02}.11.2026;{1 + number % 9};$1,{number:03}.50" for number in range(100)]
    sample = tmp_path / "sample.csv"
    sample.write_text(CSV + "".join(f"{ride}\n" for ride in rides))
    command(
        "pipeline", "new", "rides", "--events", str(sample), "--from-table", "depot.zones",
        "--on", "zone=zone_row.zone", "--key", "day", "--key", "ride_no",
    )  # fmt: skip
    here = site.changed(pipelines=tmp_path / "warehouse" / "pipelines").of("rides")
    here.landing.mkdir(parents=True)
    (here.landing / "a.csv").write_text(CSV + "".join(f"{ride}\n" for ride in [*rides, rides[0], "1;31.02.2026;1;1"]))
    assert here.run() == 1
    assert here.inventory().faults == []
    (first,) = here.execute("select ride_no, day::text, zone_row_name, fee from mart.rides where ride_no = 7")
    assert (first[:3], str(first[3])) == ((7, "2026-11-01", "Zone 8"), "1007.5000")
    assert here.execute("select sum(events) from mart.rides_daily") == [(100,)]


def test_a_new_file_over_a_table_of_keys_and_one_with_validity_runs(site: Site, tmp_path: Path) -> None:
    site.execute("""
        create table depot.badges (badge text primary key);
        create table depot.levels (level integer primary key, name text, "Name" text, level_row_key integer,
                                   valid_from timestamptz not null, valid_to timestamptz, is_current boolean);
        insert into depot.badges select 'b' || b from generate_series(1, 3) b;
        insert into depot.levels select l, 'Level ' || l, 'x', l, '2026-01-01', null, true from generate_series(1, 3) l;
    """)
    rows = [{"visit": f"v{number}", "badge": f"b{1 + number % 4}", "level": 1 + number % 3} for number in range(40)]
    sample = tmp_path / "sample.jsonl"
    sample.write_text("".join(json.dumps(row) + "\n" for row in rows))
    command(
        "pipeline", "new", "visits", "--events", str(sample), "--from-table", "depot.badges",
        "--on", "badge=badge_row.badge", "--from-table", "depot.levels", "--on", "level=level_row.level",
    )  # fmt: skip
    here = site.changed(pipelines=tmp_path / "warehouse" / "pipelines").of("visits")
    here.land("a.jsonl", *rows)
    assert here.run() == 1
    counts = here.record(1).counts
    assert (counts.accepted, counts.backlog_added) == (30, 10), "an event waits for a key that the table has not"
    assert here.inventory().faults == []
    assert here.rows("dim_badge_row").num_rows == 3
    assert here.execute("select distinct level_row_name from mart.visits order by 1") == [
        ("Level 1",), ("Level 2",), ("Level 3",)
    ]  # fmt: skip
    site.execute("update depot.levels set name = 'Corrected' where level = 1")  # it holds since the same day
    here.land("b.jsonl", {"visit": "v99", "badge": "b1", "level": 1})
    assert here.run() == 2
    assert here.execute("select level_row_name from mart.visits where visit = 'v99'") == [("Corrected",)]
    dimension = here.rows("dim_level_row").to_pylist()
    assert [one["name"] for one in dimension if one["level"] == 1] == ["Corrected"]
