"""Correlations over streams at several sites, on top of the stream log (ADR 89).

    decision ──► follow   begins a decided batch: records its segments as input, and its plan
                 work     steps at a site, or at all of them: extract, ship, join; one immutable file each
                 gather   results of finished batches, in order, into the Delta table; statistics, figures

The stream log does not wait for sites: work that needs an unreachable site resumes when it is back. Everything after
the decision derives from it by idempotent writes, so every result is in the table exactly once.

    query        SQL + sites ──► the join that `etl.correlate.multiway` plans and executes
    segments     a batch's segments of a stream, read at the stream's site
    ledger       sites, entries, plans, shipments and statistics in Postgres
    statistics   sketches as bytes; planning from them, and when to replan
    work         the three phases above
    publishing   results and late tuples as files of Delta tables
    explain      the plan as a tree with expected and measured bytes; `shipped` for pages and reports
"""
