"""Tactics: the algorithms that join tuples which missed the front stage.

tactic    their common interface
mesh      MESHJOIN: all pages in order, every tuple waits for one pass
hybrid    HYBRIDJOIN: the queue selects the pages to read
inlj      index nested loop: distinct keys looked up in bulk
pending   the pending tuples: hash table H_S and queue Q
"""
