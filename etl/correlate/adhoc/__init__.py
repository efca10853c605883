"""Hundreds of ad-hoc stream joins that share their work (AJoin): created and dropped while the streams run.

    SQL ──query──► Query ────────────► changelog ──┐ at a bucket boundary
                                                   ▼
    slot of tuples ──► bucket ──► shared joins ──► sinks: rows or aggregates of every query
                          │            ▲
                          └─ samples ──optimize──► plan: query groups, join orders, with the reasons

query     from SQL to values, selections, limits
run       buckets, late materialised joins, sinks, changelogs, partitioning, protocols for a common boundary
optimize  statistics, cost, grouping, join ordering, scaling; every decision is logged

Everything here is pure: no Spark, no files, no clock. Time is a slot's number, given as an argument.
"""
