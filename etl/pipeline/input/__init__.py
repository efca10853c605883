"""The input of a batch and its size: landed files, topics, released lines, events of the backlog."""
