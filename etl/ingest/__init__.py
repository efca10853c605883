"""Ingest: parse bytes of landed files into typed events, or reasons for refusing them.

    lines ──▶ json_lines | csv_lines ──▶ texts ──▶ typed ──▶ events        parquet_rows ──▶ events

lines          where lines begin and end          payload    hash of an event's values
texts, typed   text of a field to its type        dedupe     candidate, duplicate or conflict
formats        declared dates and times           drift      signs that a schema has changed
kernels        compiled loops; `warm` loads them  render     rows as JSON, for people
"""
