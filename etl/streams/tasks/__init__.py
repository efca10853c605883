"""What the two kinds of task do on their share of a micro-batch: `dispatch` reads and routes, `join` answers."""
