"""How correlations stand, as plain values for commands, pages and reports."""
