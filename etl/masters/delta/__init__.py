"""Master tables in Delta: `reader` reads one version by row groups, `source` publishes it and follows its change feed.

table   opens a version, translates errors            row_groups   files, row groups and their key bounds
"""
