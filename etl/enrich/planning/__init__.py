"""Planning: how large the parts of a join are, what each tactic costs, and which one to use.

sizing      from one byte budget to front stage, pending tuples, disk buffer
cost        calculated cost per tuple, in pages, lookups and probes (ADR 14)
calibrate   unit costs in seconds, by a small trial on the master itself
auto        the cheapest tactic for every batch
feedback    measured times correct calculated ones (ADR 19)
"""
