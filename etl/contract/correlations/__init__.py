"""Declarations of streams and correlations: over rows, over documents, over several sites."""
