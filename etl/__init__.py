"""Frontstage: orders stream in thin, are enriched, checked and loaded in micro-batches.

    ingest  → parse, type, dedupe                        rejects with reason and raw bytes
    enrich  → semi-stream join with every master         matched | unmatched | shed
    check   → row rules, in the plan                     accepted | quarantined
    staging = ONE Delta commit per batch: the decision
    gate    → Great Expectations on what was accepted    a failed gate holds the batch
    load    → dimensions, fact, Postgres mart + ledger
    report  → counts, hit ratio, freshness, backlog

Every order that ever landed is in exactly one of: fact, quarantine, backlog.
"""
