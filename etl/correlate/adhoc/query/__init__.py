"""Ad-hoc join queries: from SQL to plain data, within limits.

values      sets of one column's values, closed under and, or, not
model       streams, join edges, selections, outputs, Query
parse       SQL to Query, or one sentence with line and column
conditions  WHERE and ON: equalities between streams, alternatives of column conditions per stream
selections  all queries' selections of a stream, evaluated together into query sets
limits      names, quotas, windows in slots
"""
