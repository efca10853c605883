"""The in-memory index of one stream at one unit: insert, probe, expire, bytes.

chain      sub-indexes by period of event time, which expire whole
runs       immutable stored tuples in a layout for probing
kernels    the inner loops of a probe
"""
