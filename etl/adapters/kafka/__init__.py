"""Kafka as a source: which offsets a batch reads, what the broker holds, and the copies that batches are read from.

    broker ── earliest, latest, id of the topic ──┐
    ledger ── where the last batch ended ─────────┴──▶ Slice("topic/partition", first, last) ── fixed in the ledger
    Spark's source ── those offsets, nothing else ──▶ a copy in the archive ──▶ tasks read it as they read a file

A range of offsets is a slice whose name holds a slash, which neither a file nor a topic can have. See ADR 98.
"""
