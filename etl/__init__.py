"""Frontstage: events stream in thin, are enriched, checked and loaded in micro-batches.

    ingest   fix input → read → parse → rules → claims → dedupe → enrich → route → write
    decide   ONE commit in the ledger: files, counts, sums, master versions
    audit    Great Expectations on what was accepted; a failed audit holds the batch
    publish  files into the Delta logs, then mart and ledger in one transaction
    report   counts, hit ratio, freshness, backlog

Every event that ever landed is in exactly one of: fact, quarantine, backlog, counted duplicates. What events are, and
what becomes of them, is declared in one file per pipeline; nothing here knows the names of an example but `samples`.
"""
