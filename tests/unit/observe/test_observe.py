"""What others may watch: the log line, metrics and traces by their documented names, lineage events that arrive."""

from __future__ import annotations

import http.server
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from structlog.testing import capture_logs

from etl.contract.load import load
from etl.observe import telemetry
from etl.observe.facts import BatchFacts
from etl.observe.observer import Observer
from etl.observe.telemetry import Telemetry
from etl.settings import PROJECT
from etl.settings import load as settings

START = datetime(2026, 11, 18, tzinfo=UTC)
FACTS = BatchFacts(
    pipeline="orders", batch=12, run_id="run", state="loaded", started_at=START, ended_at=START + timedelta(seconds=4),
    counts={"lines": 10, "accepted": 7, "quarantined": 1, "duplicates": 1, "backlog_added": 1, "backlog_resolved": 0,
            "shed": 0},
    joins={"customer": {"probes": 9, "hits": 6, "unmatched": 1}}, seconds={"ingest": 2.0, "audit": 1.0, "publish": 0.5},
    freshness={"p50": 1.0, "p95": 3.0}, unusual=("volume",), backlog_open=1,
)  # fmt: skip
DOCUMENTED = set(re.findall(r"^(frontstage\S+) +(?:counter|histogram|gauge)", telemetry.__doc__ or "", re.MULTILINE))
ORDERS = load(PROJECT / "warehouse" / "pipelines" / "orders.toml", PROJECT)


def test_metrics_and_spans_have_the_documented_names_and_the_batchs_figures() -> None:
    reader, spans = InMemoryMetricReader(), InMemorySpanExporter()
    watched = Telemetry.exporting(reader, SimpleSpanProcessor(spans))
    watched.record(FACTS)
    found = json.loads(reader.get_metrics_data().to_json())  # type: ignore[union-attr]
    metrics = {
        one["name"]: one["data"]["data_points"] for one in found["resource_metrics"][0]["scope_metrics"][0]["metrics"]
    }
    documented = set(
        re.findall(r"^(frontstage\.[a-z0-9.]+) +(?:counter|histogram|gauge)", telemetry.__doc__ or "", re.M)
    )
    assert set(metrics) == documented
    routes = {point["attributes"]["route"]: point["value"] for point in metrics["frontstage.events"]}
    assert routes == {"accepted": 7, "quarantined": 1, "duplicates": 1, "backlog_added": 1}
    assert metrics["frontstage.freshness.p95"][0]["value"] == 3.0
    by_name = {span.name: span for span in spans.get_finished_spans()}
    assert set(by_name) == {"frontstage.batch", "frontstage.ingest", "frontstage.audit", "frontstage.publish"}
    whole = by_name["frontstage.batch"]
    assert all(span.parent.span_id == whole.context.span_id for span in by_name.values() if span is not whole)
    assert whole.attributes["frontstage.lines"] == 10
    assert whole.end_time - whole.start_time == 4_000_000_000
    watched.close()


def test_the_dashboard_asks_for_metrics_that_exist() -> None:
    board = json.loads((PROJECT / "docs" / "grafana" / "frontstage.json").read_text())
    asked = {
        name
        for panel in board["panels"]
        for target in panel["targets"]
        for name in re.findall(r"frontstage_[a-z0-9_]+", target["expr"])
    }
    stems = {name.replace(".", "_") for name in DOCUMENTED}
    assert all(any(name.startswith(stem) for stem in stems) for name in asked)
    assert len(asked) >= 8


def test_nothing_is_sent_unless_asked_and_every_batch_has_one_line() -> None:
    observer = Observer(settings())
    with capture_logs() as lines:
        observer(FACTS, ORDERS)
        observer(FACTS, ORDERS)  # a report that is written again
    (line,) = lines
    assert (line["event"], line["pipeline"], line["batch"], line["lines"]) == ("batch", "orders", 12, 10)
    assert (line["hit_ratio"], line["unusual"]) == (0.6667, ["volume"])
    json.dumps(line)  # plain values only
    assert observer._telemetry is None


@pytest.fixture
def listener() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """An address, and what was posted to it."""
    received: list[dict[str, Any]] = []

    class Listen(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))) | {"path": self.path})
            self.send_response(201)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """A test says what it has to say by failing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Listen)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", received
    server.shutdown()
    server.server_close()


def test_a_lineage_event_says_what_a_batch_read_and_wrote(listener: tuple[str, list[dict[str, Any]]]) -> None:
    url, received = listener
    with capture_logs():
        Observer(settings(openlineage_url=url))(FACTS, ORDERS)
        until(lambda: bool(received))
    (event,) = received
    assert (event["eventType"], event["path"]) == ("COMPLETE", "/api/v1/lineage")
    assert event["job"] == {"namespace": "frontstage", "name": "orders"}
    outputs = {one["name"].rsplit("/", 1)[-1]: one for one in event["outputs"]}
    assert outputs["fact"]["outputFacets"]["outputStatistics"]["rowCount"] == 7
    assert any(one["name"] == "master.customers" for one in event["inputs"])


def test_a_listener_that_does_not_answer_costs_a_line_and_no_batch() -> None:
    with capture_logs() as lines:
        Observer(settings(openlineage_url="http://127.0.0.1:9"))(FACTS, ORDERS)
        until(lambda: len(lines) == 2)
    assert [line["event"] for line in lines] == ["batch", "lineage event dropped"]


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that another thread does."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)
