"""From a correlation's SQL to what runs.

compile      SQL ──► sources with their selections, binary joins, output
order        in which order streams are joined
condition    what two streams must have in common: keys, bands, windows, the rest (`affine`: inequalities)
output       named expressions over joined rows, or groups with their aggregates
"""
