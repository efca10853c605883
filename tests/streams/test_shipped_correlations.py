"""The shipped streams and correlations, held against the oracle over the raw files, and the commands about them."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.triggers.base import TriggerEvent
from typer.testing import CliRunner, Result

from etl import settings as configuration
from etl.airflow.triggers.stream_arrival import StreamArrivalTrigger, StreamsArrival, WatchedStream
from etl.cli import app
from etl.report.correlations.folder import write
from etl.samples.correlations import demo
from etl.samples.correlations.config import ShopConfig
from etl.samples.correlations.waves import Landed, waves
from etl.settings import Settings
from etl.streams.declared import catalog
from etl.streams.inspection.explain import UnknownCorrelation
from etl.streams.steps import CorrelationSteps
from etl.streams.tasks.in_process import InProcess

CONFIG = ShopConfig(seed=11, waves=4, orders_per_wave=1200, share_dirty=0.02)


@dataclass(frozen=True)
class Shop:
    settings: Settings
    dsn: str
    steps: CorrelationSteps
    landed: list[dict[str, Landed]]
    results: list[dict[str, Any]]


@pytest.fixture(scope="module")
def shop(module_database: str, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """All waves of a small afternoon, each a micro-batch. The last tests of this module change it."""
    own = configuration.load(home=tmp_path_factory.mktemp("shop"), postgres_dsn=module_database)
    steps = CorrelationSteps(own, module_database, InProcess())
    start = datetime.now(UTC) - CONFIG.waves * CONFIG.lasting
    landed, results = [], []
    for wave in waves(CONFIG, start, own.var / "landing"):
        landed.append(wave)
        results.append(steps.run("micro_batch", f"wave-{len(landed)}", None, lambda _: None))
        write(results[-1], own.reports / "correlations", 10)
    return Shop(own, module_database, steps, landed, results)


@pytest.fixture(autouse=True)
def environment(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands find the shop in their settings."""
    for name in [name for name in os.environ if name.startswith("FRONTSTAGE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("FRONTSTAGE_HOME", str(shop.settings.home))
    monkeypatch.setenv("FRONTSTAGE_POSTGRES_DSN", shop.dsn)


def invoke(*words: str) -> Result:
    return CliRunner().invoke(app, ["correlate", *words], env={"COLUMNS": "200"})


def test_every_correlation_holds_what_the_raw_files_say(shop: Shop) -> None:
    summary = demo._summary(shop.settings, shop.dsn, shop.landed)
    by_name = {one["name"]: one for one in summary["correlations"]}
    assert set(by_name) == {"paid_orders", "reconciled_payments", "shipped_revenue"}
    for one in by_name.values():
        assert one["equal"], one
        assert one["pairs"] == one["oracle_pairs"] > 100
        assert one["late"] > 0
        assert one["batches"] == CONFIG.waves


def test_a_missing_row_is_noticed(shop: Shop) -> None:
    declared = next(one for one in catalog(shop.settings).correlations if one.name == "paid_orders")
    streams = demo.histories(shop.settings, catalog(shop.settings), shop.landed)
    found = demo._found(shop.settings, shop.dsn, declared, shop.steps.history(10))
    assert demo.compared(declared, found, streams)["equal"]
    short = demo.Found(found.rows.slice(1), found.pairs, found.late)
    assert not demo.compared(declared, short, streams)["equal"]
    assert not demo.compared(declared, demo.Found(found.rows, found.pairs, found.late + 1), streams)["equal"]


def test_dirt_is_quarantined_and_counted(shop: Shop) -> None:
    for landed, result in zip(shop.landed, shop.results, strict=True):
        for stream, one in landed.items():
            told = result["streams"][stream]
            assert (told["lines"], told["accepted"]) == (one.lines, one.accepted)


def test_commands_show_how_correlations_stand(shop: Shop) -> None:
    standing = json.loads(invoke("status", "--json").stdout)
    assert standing["last_batch"] == {"batch": CONFIG.waves, "state": "loaded"}
    text = invoke("status").stdout
    assert all(name in text for name in ("orders_placed", "payments", "shipments", "reconciled_payments"))
    records = json.loads(invoke("history", "--json", "--batches", "2").stdout)
    assert [one["batch"] for one in records] == [CONFIG.waves - 1, CONFIG.waves]
    assert "loaded" in invoke("history").stdout
    assert f"batch {CONFIG.waves}: loaded" in invoke("report").stdout
    assert json.loads(invoke("report", "--batch", "1", "--json").stdout)["batch"] == "1"


def test_explain_draws_the_plan_with_its_measured_cost(shop: Shop) -> None:
    text = invoke("explain", "shipped_revenue").stdout
    for shown in (
        "join 1    o ⋈ s",
        "join 2    p ⋈ (o ⋈ s)",
        "hash sub-indexes",
        "2:00:00",
        "unit 0",
        "tuples per second",
    ):
        assert shown in text, shown
    assert "sorted sub-indexes" in invoke("explain", "reconciled_payments").stdout
    assert json.loads(invoke("explain", "paid_orders", "--json").stdout)["measured"]["batches"] == CONFIG.waves
    assert isinstance(invoke("explain", "nothing").exception, UnknownCorrelation)


def test_files_are_listed_and_checked(shop: Shop) -> None:
    listed = json.loads(invoke("list", "--json").stdout)
    assert [one["name"] for one in listed["streams"]] == ["orders_placed", "payments", "server_log", "shipments"]
    assert listed["documents"] == [{"name": "server_log_links", "stream": "server_log"}]
    assert "30 minutes" not in invoke("list").stdout
    assert "0:30:00" in invoke("list").stdout
    assert "4 streams and 4 correlations can be used" in invoke("check").stdout


def test_a_mistake_in_a_file_is_one_sentence_with_its_line(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wrong").mkdir()
    (tmp_path / "wrong" / "broken.toml").write_text(
        'sql = "select o.nothing from orders_placed o join payments p on true"\n'
    )
    monkeypatch.setenv("FRONTSTAGE_CORRELATIONS", str(tmp_path / "wrong"))
    done = invoke("check")
    assert done.exit_code == 1
    assert "broken.toml:1" in done.stdout.replace(", line ", ":")
    assert "o.nothing" in done.stdout


def test_a_batch_is_due_only_when_something_has_landed(shop: Shop) -> None:
    watched = [
        WatchedStream(one.name, one.stream.source.landing, one.stream.source.format)
        for one in catalog(shop.settings).streams
    ]
    arrival = StreamsArrival(tuple(watched), lambda: shop.dsn)
    later = datetime.now(UTC) + timedelta(minutes=5)
    before = arrival.look(arrival.listing(), later)
    assert (before.due, before.mark) == (False, (CONFIG.waves, "loaded"))
    folder = watched[0].landing
    (folder / "more.jsonl").write_bytes(b"{}\n")
    assert arrival.look(arrival.listing(), later).due
    shop.steps.run("ingest", "begun", None, lambda _: None)
    assert arrival.look((), later).due, "a batch that was begun and left"
    shop.steps.run("micro_batch", "goes on", None, lambda _: None)
    assert not arrival.look((), later).due
    unreachable = StreamsArrival(tuple(watched), lambda: "postgresql://nobody@127.0.0.1:1/x")
    assert not unreachable.look(unreachable.listing(), later).due


def test_the_watcher_fires_when_tuples_land_and_survives_being_stored(
    shop: Shop,
) -> None:
    streams = catalog(shop.settings).streams
    path, arguments = StreamArrivalTrigger.over(streams).serialize()
    assert path == "etl.airflow.triggers.stream_arrival.StreamArrivalTrigger"
    trigger = StreamArrivalTrigger(**json.loads(json.dumps(arguments)))
    shop.steps.run("micro_batch", "everything so far", None, lambda _: None)
    (streams[0].stream.source.landing / "for-the-watcher.jsonl").write_bytes(b"{}\n")

    async def first() -> TriggerEvent:
        return await asyncio.wait_for(anext(trigger.run()), 60)

    event = asyncio.run(first())
    assert event.payload["pipeline"] == "correlations"
    shop.steps.run("micro_batch", "what the watcher saw", None, lambda _: None)


def test_a_reset_correlation_starts_anew(shop: Shop) -> None:
    assert invoke("reset", "paid_orders", "--yes").exit_code == 0
    assert shop.steps.status()["correlations"]["paid_orders"] == {"since": None}
    assert "has not run yet" in invoke("status").stdout
    assert invoke("reset", "paid_orders").exit_code == 1, "nobody says yes"
