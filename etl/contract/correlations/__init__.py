"""Streams that meet streams, as their files declare them: over rows, over documents, over several sites."""
