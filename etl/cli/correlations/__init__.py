"""Commands for correlations and ad-hoc queries.

correlate   run, status, explain, history, list, check, report, reset
query       create, list, show, explain, rows, delete, resume
…_text      their text output: plans of correlations, of documents and over sites, and queries
"""
