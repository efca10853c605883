"""The two kinds of task, each on its share of a batch: `read` and `route`; the other modules are their parts."""
