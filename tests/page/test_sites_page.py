"""Correlations over sites on the page: what crossed, from where to where, and what other plans would have shipped."""

from __future__ import annotations

from pathlib import Path

from etl.adapters import postgres
from etl.page.app import create_app
from etl.report.correlations.page import size
from etl.streams.sites.shipped import shipped_by
from tests.support.page_access import DAGS, Client, MemoryAccess
from tests.support.sites_world import HOMES, SitesWorld


def test_what_sites_shipped_is_on_the_page_of_the_correlation_and_in_the_list(tmp_path: Path, database: str) -> None:
    world = SitesWorld.under(tmp_path, database)
    world.declare()
    client = Client(
        create_app(world.ground.settings, lambda: database, MemoryAccess({"admin": frozenset(DAGS)})), "admin"
    )
    assert "No batch is finished yet" in client.get("/c/of/met").text
    for number in range(2):
        rows = [(100 * number + i, i % 3, 5.0 * number + i / 10) for i in range(8)]
        batch = {name: [(i + 1000 * place, k, at) for i, k, at in rows] for place, name in enumerate(HOMES)}
        world.land(str(number), batch)
        world.ground.run()
    with postgres.connect(database, autocommit=True) as connection:
        last = shipped_by(connection, "met")[-1]
    text = client.get("/c/of/met").text
    assert last.shipped_bytes > 0
    for shown in (
        "A correlation of streams at sites, since batch 1", "results are gathered at eu", "All to one site",
        "Bytes shipped between sites", "Tuples meet within 6", *(size(amount) for *_, amount in last.edges),
    ):  # fmt: skip
        assert shown.replace("\u00a0", " ") in text.replace("\u00a0", " "), shown
    assert f"{size(last.shipped_bytes)} shipped" in client.get("/c/").text
