"""Data Docs: Great Expectations' pages, as they are stored and shown.

pages     one page per result, and the list of the newest; a batch's cost does not grow with them (ADR 115)
offline   replaces network resources by files beside the pages (third-party `assets/`, `ours/`)
view      the templates, compiled once per process
"""
