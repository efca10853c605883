"""Great Expectations: the audit of a batch, and the pages that people read of it.

audit        what was accepted ──▶ verdict, results, pages
suite        a pipeline's declaration ──▶ what the audit asks, and the rows as it sees them
data_docs/   the pages: whole without a network, from templates that are compiled once
"""
