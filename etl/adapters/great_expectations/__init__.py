"""Great Expectations: the audit of a batch, and its pages.

audit        accepted rows ──▶ verdict, results, pages
suite        a pipeline's declaration ──▶ expectations, and the rows as a frame
data_docs/   the pages: usable without a network, from templates that are compiled once
"""
