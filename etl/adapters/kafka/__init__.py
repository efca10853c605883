"""Kafka as a source: the broker's offsets, the offsets a batch reads, and their copies in the archive.

    broker ── earliest, latest, id of the topic ──┐
    ledger ── where the last batch ended ─────────┴──▶ Slice("topic/partition", first, last) ── fixed in the ledger
    Spark's source ── exactly those offsets ────────▶ a copy in the archive ──▶ tasks read it as they read a file

A range of offsets is a slice whose name contains a slash, which no file name and no topic can have. See ADR 98.
"""
