"""Buckets and their late materialised joins.

bucket    a stream's tuples of one slot, indexed by join attribute
combine   combinations of buckets to join
factor    joins of buckets, late materialised; re-indexing by reference
eager     the same joins, materialised at each step, as a baseline
kernels   the loops over matched keys
"""
