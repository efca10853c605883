"""Commands of streams that meet streams.

correlate   run, status, explain, history, list, check, report, reset
query       create, list, show, explain, rows, delete, resume
…_text      what they print: plans of correlations, of documents and over sites, and queries
"""
