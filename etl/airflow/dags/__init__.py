"""DAGs as functions of the declarations; the files in `dags/` call them.

pipeline       one pipeline: one run is one micro-batch
correlations   all correlations, and the sites that they span
query          ad-hoc joins by form
"""
