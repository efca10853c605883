"""The in-memory index of one stream at one unit: insert, probe, expire, bytes.

chain      sub-indexes by period of event time, that expire whole
runs       stored tuples that never change, laid out for probing
kernels    the inner loops of a probe
"""
