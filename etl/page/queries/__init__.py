"""The page's queries on the ledger: a few statements, whatever the number of pipelines.

`sql/page_*.sql` has the statements; a test checks their plans on a ledger of 100,000 batches.
"""
