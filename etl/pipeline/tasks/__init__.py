"""The two kinds of task, each on its share of a batch: `read` and `route` read top-down; the rest are their parts."""
