"""From a correlation's SQL to an executable query.

compile      SQL ──► sources with their selections, binary joins, output
order        the join order
condition    join conditions: keys, bands, windows, residuals (`affine`: inequalities)
output       named expressions over joined rows, or groups with their aggregates
"""
