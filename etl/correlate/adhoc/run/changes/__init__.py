"""Changes at bucket boundaries.

changelog      what changes: queries created and deleted, the plan, the partitioning
partitioning   which task joins which key, before, while and after the number of tasks changes
protocol       how all tasks agree on a boundary: atomic and not
"""
