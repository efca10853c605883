"""Local joins: the FP-tree join, its two baselines, and the joiner that bounds its memory and its results."""
