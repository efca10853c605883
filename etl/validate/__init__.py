"""Validate: rules, routes, and comparison of a batch with earlier ones.

checks         declared rules over typed events; `bounds` are values of their columns' types
route          accepted | quarantined | backlog, from the joins' results
profile        figures of a batch; `distribution` compares them with those of the last batches
"""
