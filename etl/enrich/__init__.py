"""Enrich: semi-stream joins of order keys with master rows, in a fixed number of bytes. NumPy and Arrow only.

    batch        what micro-batches call: keys in, one answer per key out
    build        the seven joins by name; sizing, cost, calibrate, auto: how large, how dear, which one
    join         the driver: stream buffer, front stage, shedding, one tactic
    front_stage  the most wanted rows; front_rows, policy, row_store, remembered: its parts
    mesh, hybrid, inlj    the tactics; pending: tuples that wait
    ports        how master data is read (keys as numbers: etl.columnar)
    step         the values they hand to each other

`docs/joins.md` tells the story.
"""
