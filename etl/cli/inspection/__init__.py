"""Commands by which people ask: is all well, what waits, where one event is, why joins do what they do, reports."""
