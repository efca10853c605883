"""Ingest: bytes of landed files become typed events, or reasons why not.

    lines ──▶ json_lines | csv_lines ──▶ texts ──▶ typed ──▶ events        parquet_rows ──▶ events

lines          where lines begin and end          payload    the hash of what an event says
texts, typed   text of a field to its type        dedupe     which line of a key counts
formats        declared dates and times           drift      signs that a schema has changed
kernels        what is compiled; `warm` loads it  render     rows as JSON, for people
"""
