"""The daily digest: a day of all pipelines on one page, and the same as JSON.

Digest ──► page.render ──► one self-contained HTML page
    └────► folder.write ─► digest/<day>/index.html, <day>/digest.json, latest.json, index.html
"""
