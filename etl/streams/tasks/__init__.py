"""The two kinds of task on their share of a micro-batch: `dispatch` reads and routes, `join` joins."""
