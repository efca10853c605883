"""What the page reads of the ledger: values of its own, in a few statements whatever the number of pipelines.

`sql/page_*.sql` holds the statements; a test looks at their plans over a ledger of 100,000 batches.
"""
