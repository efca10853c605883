"""Correlations over streams that live at several sites, on the ground of the stream log (ADR 89).

    decision ──► follow   a decided batch begins: its segments are its input, the plan it follows is written down
                 work     steps at a site, or at all of them: extract, ship, join; one immutable file each
                 gather   results of finished batches, in order, into the Delta table; statistics, figures

The stream log does not wait for sites: what needs a site that is away waits, and goes on when it is back. All that is
done after the decision follows from it by writes that may be repeated, so every result is in the table exactly once.

    query        SQL + sites ──► the join that `etl.correlate.multiway` plans and executes
    segments     what a batch has of a stream, read at the stream's site
    ledger       sites, entries, plans, shipments and statistics in Postgres
    statistics   sketches as bytes; a plan from them, and when to leave it
    work         the three phases above
    publishing   results and late tuples as files of Delta tables
    explain      the plan as a tree with expected and measured bytes; `shipped` for pages and reports
"""
