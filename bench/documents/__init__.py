"""Joins of documents without a schema, measured: the paper's figures 6 to 11 and what a user would write in SQL."""
