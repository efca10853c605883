"""What the page shows of correlations over sites: what crossed, and what it would have cost otherwise."""

from __future__ import annotations

from pathlib import Path

from etl.adapters import postgres
from etl.page.app import create_app
from etl.page.queries.sites import edges, shipped
from etl.report.correlations.page import size
from tests.support.page_access import DAGS, Client, MemoryAccess
from tests.support.sites_world import SitesWorld, run, some


def page_over(world: SitesWorld) -> Client:
    access = MemoryAccess({"admin": frozenset(DAGS)})
    return Client(create_app(world.ground.settings, lambda: world.ground.dsn, access), "admin")


def test_the_page_shows_what_was_shipped_beside_what_other_plans_would_have(tmp_path: Path, database: str) -> None:
    world = SitesWorld.under(tmp_path, database)
    world.declare(options='target = "eu"\nplan = "algorithm1"')
    client = page_over(world)
    assert "has not run yet" in client.get("/c/of/met").text
    for number in range(2):
        told = run(world, number)["sites"]["met"]
    with postgres.connect(database, autocommit=True) as connection:
        newest, crossed = shipped(connection, "met", 60).last, edges(connection, "met")
    assert newest is not None
    assert sum(one.bytes for one in crossed if not one.replayed) == newest.shipped_bytes == told["shipped_bytes"]
    assert {(one.streams, one.origin, one.destination) for one in crossed} == {
        (" ⋈ ".join(one["streams"]), one["origin"], one["destination"]) for one in told["edges"]
    }
    text = client.get("/c/of/met").text
    for shown in ("Planned by algorithm1; results are gathered at eu.", "Shipped in MiB", *newest.plans):
        assert shown in text
    for amount in (newest.shipped_bytes, *newest.plans.values()):
        assert size(amount) in text
    for address in ("/", "/c/"):
        listed = client.get(address).text
        assert listed.count('c/of/met"') == 1
        assert size(newest.shipped_bytes) in listed
        assert size(newest.plans["centralised"]) in listed


def test_the_page_says_that_a_batch_waits_for_a_site(tmp_path: Path, database: str) -> None:
    world = SitesWorld.under(tmp_path, database)
    world.declare(options='target = "eu"')
    run(world, 0)
    world.land("1", some(1))
    steps = world.ground.steps
    steps.run("streams", "test", None, print)
    for _ in range(3):
        for site in ("us", "ap", "eu"):
            steps.work_at(site, print, patience_s=0.0)
    client = page_over(world)
    assert "waits for a site" in client.get("/c/of/met").text, "finished at its sites, and not gathered"
    steps.run("gather", "test", None, print)
    assert "waits for a site" not in client.get("/c/of/met").text
