"""Changes at bucket boundaries.

changelog      the change: queries created and deleted, the plan, the partitioning
partitioning   which task joins which key, also while the number of tasks changes
protocol       how all tasks agree on a boundary: atomic and not
"""
