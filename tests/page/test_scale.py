"""The page over a ledger of 100,000 batches and 50 correlations: by indexes, and far below a second."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from etl import settings as configuration
from etl.adapters import postgres
from etl.page.app import create_app
from etl.page.queries.history import SPANS
from tests.support.page_access import DAGS, Client, MemoryAccess

BATCHES, CORRELATIONS, STREAM_BATCHES = 100_000, 50, 400
NOW = datetime.now(UTC)
PIPELINES = ["orders", "trips", "web_sessions"]

FILL = """
insert into etl.pipeline (name, declared) select unnest(%(pipelines)s), '{}';
insert into etl.total (pipeline, batches, lines, accepted) select unnest(%(pipelines)s), 1, 10, 10;
insert into etl.batch (pipeline, batch, run_id, state, started_at, decided_at, loaded_at, decision, counts, seconds,
                       joins, audit, freshness)
select 'orders', n, 'run-' || n, 'loaded', at, at, at, %(decision)s, %(counts)s, '{"ingest": 1.5, "audit": 0.5}',
       '{"customer": {"tactics": {"chybridjoin": 100}, "tuples": 100, "front_hits": 90}}',
       '{"success": true, "expectations": []}', '{"p50": 2.0, "p95": 4.0}'
from (select n, %(now)s - (%(batches)s - n) * interval '25 seconds' as at
      from generate_series(1, %(batches)s) as n) as made;
insert into etl.batch (pipeline, batch, run_id, state, started_at, decided_at, loaded_at, decision, counts, seconds)
select 'correlations', n, 'run-' || n, 'loaded', at, at, at, %(figures)s, '{}', '{"correlate": 2.0}'
from (select n, %(now)s - (%(stream_batches)s - n) * interval '30 seconds' as at
      from generate_series(1, %(stream_batches)s) as n) as made;
insert into etl.correlation select 'c' || n, '{}', 1, '{}' from generate_series(1, %(correlations)s) as n;
insert into etl.state_run
select 'c' || n, 'run' || r, 0, r %% 8, 'left', r, 1000, 50000, 0, 1, 1
from generate_series(1, %(correlations)s) as n, generate_series(1, 400) as r;
insert into etl.quarantine_verdict
select 'orders', n, 1, 'rejected', 'me', now(), 'so' from generate_series(1, 20000) as n;
insert into etl.backlog_file select 'orders', 'f' || n, n, 3, 'master', now() from generate_series(1, 5000) as n;
"""


def of_correlation() -> dict[str, Any]:
    unit = {"step": 0, "side": "left", "subgroup": 0, "draining": False, "tuples": 9, "bytes": 9, "runs": 1, "work": 5}
    return {
        "tuples": {"l": 100, "r": 50}, "selected": {"l": 90, "r": 50}, "late": {"l": 1, "r": 0}, "pairs": 40,
        "rows": 40, "messages": 300, "state": {"tuples": 10, "bytes": 1000, "runs": 3}, "scaling": [],
        "units": [{**unit, "unit": number} for number in range(8)],
        "routing": [{"step": 0, "name": "hash", "reason": "an equality"}], "watermarks": {"l": None, "r": None},
    }  # fmt: skip


@pytest.fixture(scope="module")
def large(module_database: str, tmp_path_factory: pytest.TempPathFactory) -> Client:
    home: Path = tmp_path_factory.mktemp("scale")
    (home / "correlations").mkdir()
    for number in range(1, CORRELATIONS + 1):
        sql = "select l.id from l join r on l.k = r.k and r.t between l.t and l.t + interval '1 hour'"
        (home / "correlations" / f"c{number}.toml").write_text(f'sql = """\n{sql}\n"""\n')
    figures = {f"c{number}": of_correlation() for number in range(1, CORRELATIONS + 1)}
    stream = {"lines": 100, "accepted": 99, "quarantined": 1, "files": 1, "segment_bytes": 10}
    file = {"table": "fact", "path": "part-" + "x" * 60, "rows": 1000, "bytes": 100000, "stats": "{}" * 200}
    join = {"probes": 100, "hits": 90, "unmatched": 1}
    counts = {"lines": 100, "accepted": 90, "quarantined": 4, "duplicates": 3, "backlog_added": 5, "shed": 0,
              "backlog_resolved": 2, "reasons": {}, "joins": {"customer": join}, "added_fields": {}}  # fmt: skip
    values = {
        "pipelines": [*PIPELINES, "correlations"],
        "now": NOW,
        "batches": BATCHES,
        "stream_batches": STREAM_BATCHES,
        "correlations": CORRELATIONS,
        "counts": json.dumps(counts),
        "decision": json.dumps({"files": [file] * 3, "counts": counts}),
        "figures": json.dumps({"streams": {"l": stream, "r": stream}, "correlations": figures}),
    }
    with postgres.connect(module_database, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(FILL, values)
        cursor.execute("vacuum analyze")
    own = configuration.load(home=home, correlations=home / "correlations")
    access = MemoryAccess({"admin": frozenset(DAGS)})
    return Client(create_app(own, lambda: module_database, access), "admin")


ADDRESSES = (
    "/", "/now.json", "/p/orders", "/p/orders/history", "/p/orders/history?span=30d", "/p/orders/batches",
    "/p/orders/batches?before=50000", "/p/orders/run?id=run-70000", "/c/", "/c/history?span=30d", "/c/of/c7",
)  # fmt: skip


@pytest.mark.parametrize("address", ADDRESSES)
def test_pages_open_within_what_the_page_allows_a_statement(large: Client, address: str) -> None:
    """Each statement has a bound of its own (`SLOWEST_MS`); the figures are in docs/page.md."""
    assert large.get(address).status_code in (200, 303)


def plans(dsn: str, name: str, /, **values: Any) -> str:
    with postgres.connect(dsn, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(f"explain {postgres.statement(name)}", values)
        return "\n".join(str(line) for (line,) in cursor.fetchall())


def history_of(span: str) -> dict[str, Any]:
    whole, step = SPANS["24h" if span == "24h" else "30d"]
    return {"pipeline": "orders", "first": NOW - whole, "last": NOW, "width_s": step.total_seconds()}


@pytest.mark.parametrize(
    ("statement", "values"),
    [
        ("page_latest", {"pipelines": PIPELINES}),
        ("page_open", {"pipelines": PIPELINES}),
        ("page_rates", {"pipelines": PIPELINES, "since": NOW - timedelta(minutes=10)}),
        ("page_hours", {"pipelines": PIPELINES, "first": NOW - timedelta(hours=24)}),
        ("page_batches", {"pipeline": "orders", "before": 2**62, "limit": 50}),
        ("page_batches", {"pipeline": "orders", "before": 50_000, "limit": 50}),
        ("page_history", history_of("24h")),
        ("page_history", history_of("30d")),
        ("page_run", {"pipeline": "orders", "run_id": "run-70000"}),
        ("page_correlation", {"name": "c7", "limit": 60}),
        ("page_figures", {}),
    ],
)
def test_no_statement_reads_all_batches(
    large: Client, module_database: str, statement: str, values: dict[str, Any]
) -> None:
    plan = plans(module_database, statement, **values)
    assert "Seq Scan on batch" not in plan, plan
    if statement in ("page_history", "page_rates", "page_hours"):
        assert "Index Only Scan using batch_history" in plan, plan


def test_the_history_adds_up_to_what_the_batches_say(large: Client) -> None:
    text = large.get("/p/orders/history?span=24h").text
    shown = int(text.split(" batches in the last")[0].rsplit(">", 1)[1].replace(",", ""))
    day_s = 24 * 3600 - (datetime.now(UTC) - NOW).total_seconds()  # the batches end when this file was loaded
    assert abs(shown - day_s / 25) <= 37, "a day of batches, but for what is left of the last step"
