"""Triggers that see events land: a run starts when it would find something to do, only then."""
