"""Hundreds of ad-hoc stream joins that share their work (AJoin): created and dropped while the streams run.

    SQL ──query──► Query ────────────► changelog ──┐ at a bucket boundary
                                                   ▼
    slot of tuples ──► bucket ──► shared joins ──► sinks: rows or aggregates of every query
                          │            ▲
                          └─ samples ──optimize──► plan: query groups, join orders, with the reasons

query     what a user may ask: SQL to values, selections, limits
run       buckets, late materialised joins, sinks, changelogs, partitioning, the protocols that agree on a boundary
optimize  statistics, cost, grouping, join ordering, scaling; every decision in words and numbers

Everything here is pure: no Spark, no files, no clock. Time is a slot's number, handed in.
"""
