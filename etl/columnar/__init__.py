"""Columnar building blocks that the joins share: keys and counts as NumPy and Arrow arrays. No I/O, no clock.

keys        join keys as one or two 64-bit lanes; distinct keys, fingerprints
hash_index  key ──► small number, open addressing over whole arrays
groups      key ──► group number, with the ends of each group's chain
sketch      count-min sketch: approximate counts of many keys
gather      rows of a chunked table by position, in ascending order of position
multimap    rows by hash bucket with a directory, built once: many rows per key
sorted_index  positions in sorted columns
decimals    exact decimal arithmetic on whole columns
expression  SQL expressions over columns: checked against a schema, evaluated on batches
"""
