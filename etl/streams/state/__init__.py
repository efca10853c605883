"""The state of correlations: runs as files, changes per batch, changes of declarations, rebuilding after damage."""
