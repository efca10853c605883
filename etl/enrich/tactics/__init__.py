"""Tactics: the algorithms that join what missed the front stage.

tactic    what the driver asks of any of them
mesh      MESHJOIN: all pages in order, every tuple waits for one pass
hybrid    HYBRIDJOIN: the queue chooses which pages to read
inlj      index nested loop: distinct keys looked up in bulk
pending   the tuples that wait: hash table H_S and queue Q
"""
