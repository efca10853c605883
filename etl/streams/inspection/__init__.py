"""Status of correlations, as plain values for commands, pages and reports."""
