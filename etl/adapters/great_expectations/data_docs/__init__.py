"""Data Docs: Great Expectations' pages, as they are stored and shown.

pages     one page per result, and the list of the newest: what a batch costs does not grow with them (ADR 115)
offline   what a page takes from a network is replaced by files beside it (`assets/` of others, `ours/`)
view      the templates, compiled once per process
"""
