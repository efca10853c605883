"""What a batch finds to do, and how much of it: landed files, topics, released lines, events that waited."""
