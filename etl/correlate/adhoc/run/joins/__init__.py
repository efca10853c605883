"""Buckets, and joins of them that multiply nothing out.

bucket    a stream's tuples of one slot, indexed by join attribute
combine   which buckets meet
factor    joins of buckets, late materialised; re-indexing by reference
eager     the same joins, multiplied out at each step: to compare with
kernels   the loops over matched keys
"""
