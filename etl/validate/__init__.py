"""Validate: which rules an event breaks, where it goes, and whether its batch is like those before it.

checks         declared rules over typed events; `bounds` are values of their columns' types
route          accepted | quarantined | backlog, from what the joins found
profile        figures of a batch; `distribution` compares them with those of the last batches
"""
