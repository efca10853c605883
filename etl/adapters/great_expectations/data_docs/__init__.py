"""Data Docs: Great Expectations' pages, as they are stored and shown.

pages     what a page takes from a network is replaced by files beside it (`assets/` of others, `ours/`)
store     the folder that pages are stored in; each is rewritten on its way there
view      the templates, compiled once per process
"""
