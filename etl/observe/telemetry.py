"""OpenTelemetry: metrics and one trace per batch. Where they go is said by the standard `OTEL_*` variables.

metric                             kind        attributes
frontstage.batches                 counter     pipeline, state
frontstage.events                  counter     pipeline, route (accepted, quarantined, duplicates, backlog_added)
frontstage.events.landed           counter     pipeline
frontstage.joins.probes            counter     pipeline, master
frontstage.joins.hits              counter     pipeline, master
frontstage.joins.unmatched         counter     pipeline, master
frontstage.batch.duration          histogram   pipeline, phase (ingest, audit, publish); seconds
frontstage.freshness.p95           gauge       pipeline; seconds
frontstage.backlog.open            gauge       pipeline; events
frontstage.unusual                 counter     pipeline, check

span                               attributes
frontstage.batch                   frontstage.pipeline, .batch, .state, .run_id, and every count
  frontstage.<phase>               one per phase, laid end to end from the batch's start
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from etl.observe.facts import ROUTES, BatchFacts

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import MetricReader
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

Mode = Literal["off", "otlp", "console"]
_NAME = "frontstage"
_COUNTERS = (
    "batches", "events", "events.landed", "joins.probes", "joins.hits", "joins.unmatched", "unusual",
)  # fmt: skip


class Telemetry:
    """Metrics and traces of batches, on separate providers: those of Airflow or of a user are not touched."""

    def __init__(self, meters: MeterProvider, tracers: TracerProvider) -> None:
        self._meters, self._tracers = meters, tracers
        meter = meters.get_meter(_NAME)
        self._counters = {name: meter.create_counter(f"{_NAME}.{name}") for name in _COUNTERS}
        self._duration = meter.create_histogram(f"{_NAME}.batch.duration", unit="s")
        self._gauges = {
            "freshness.p95": meter.create_gauge(f"{_NAME}.freshness.p95", unit="s"),
            "backlog.open": meter.create_gauge(f"{_NAME}.backlog.open"),
        }
        self._tracer = tracers.get_tracer(_NAME)

    @classmethod
    def exporting(cls, reader: MetricReader, spans: SpanProcessor) -> Telemetry:
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider

        resource = Resource.create({"service.name": _NAME})
        tracers = TracerProvider(resource=resource)
        tracers.add_span_processor(spans)
        return cls(MeterProvider(metric_readers=[reader], resource=resource), tracers)

    @classmethod
    def in_mode(cls, mode: Mode) -> Telemetry | None:
        """The telemetry selected by a setting; None when it is off."""
        if mode == "off":
            return None
        from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, PeriodicExportingMetricReader
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

        if mode == "console":
            return cls.exporting(
                PeriodicExportingMetricReader(ConsoleMetricExporter()), BatchSpanProcessor(ConsoleSpanExporter())
            )
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        return cls.exporting(
            PeriodicExportingMetricReader(OTLPMetricExporter()), BatchSpanProcessor(OTLPSpanExporter())
        )

    def record(self, facts: BatchFacts) -> None:
        """Record a batch's metrics and trace; they are exported asynchronously."""
        self._count(facts)
        self._trace(facts)

    def _count(self, facts: BatchFacts) -> None:
        of = {"pipeline": facts.pipeline}
        add = self._counters
        add["batches"].add(1, {**of, "state": facts.state})
        add["events.landed"].add(facts.counts["lines"], of)
        for route in ROUTES:
            add["events"].add(facts.counts[route], {**of, "route": route})
        for master, join in facts.joins.items():
            for name in ("probes", "hits", "unmatched"):
                add[f"joins.{name}"].add(join[name], {**of, "master": master})
        for check in facts.unusual:
            add["unusual"].add(1, {**of, "check": check})
        for phase, seconds in facts.seconds.items():
            self._duration.record(seconds, {**of, "phase": phase})
        if "p95" in facts.freshness:
            self._gauges["freshness.p95"].set(facts.freshness["p95"], of)
        self._gauges["backlog.open"].set(facts.backlog_open, of)

    def _trace(self, facts: BatchFacts) -> None:
        from opentelemetry.trace import set_span_in_context

        named: dict[str, Any] = {
            "pipeline": facts.pipeline, "batch": facts.batch, "state": facts.state, "run_id": facts.run_id,
        }  # fmt: skip
        attributes = {f"{_NAME}.{name}": value for name, value in {**named, **facts.counts}.items()}
        began = facts.started_at
        whole = self._tracer.start_span(f"{_NAME}.batch", start_time=_ns(began), attributes=attributes)
        within = set_span_in_context(whole)
        for phase, seconds in facts.seconds.items():
            part = self._tracer.start_span(f"{_NAME}.{phase}", context=within, start_time=_ns(began))
            began += timedelta(seconds=seconds)
            part.end(end_time=_ns(began))
        whole.end(end_time=_ns(max(began, facts.ended_at)))

    def close(self) -> None:
        """Send what is left."""
        self._meters.shutdown()
        self._tracers.shutdown()


def _ns(moment: Any) -> int:
    return int(moment.timestamp() * 1e9)
