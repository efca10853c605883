"""Observability: one structured log line per batch, OpenTelemetry metrics and traces, OpenLineage events.

    a loaded or held batch ──▶ Observer ─┬─▶ log line `batch`
                                         ├─▶ metrics and one trace      when `telemetry` is not off
                                         └─▶ an event of a run          when `openlineage_url` is set

Off by default, and never blocking: data that cannot be sent is dropped with a log line, and no batch waits for it.
"""
